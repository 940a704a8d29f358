//! Crashes at every consistent cut.
//!
//! Two runs of one Mazurkiewicz trace end alike but do not crash alike: if T1 and T2 are independent, "T2 has finished
//! and T1 has not begun" is a prefix of only one of the two orders. A crash stops everything at once, so the crash
//! state is determined by the units that came before it: a set closed under happens-before, a *cut*. Every partial
//! execution of the program is a cut of some complete one, complete ones are explored up to equivalence, and equivalent
//! ones have the same cuts. So the crash states of the program are those of all cuts of one run per trace.
//!
//! Most cuts need not be tried. A unit that makes nothing certain (a store that reaches the cache, a load, a write-back
//! that no fence has waited for) only adds states: since a line keeps any prefix of its stores, whatever may be lost
//! without the unit may also be lost with it. So for each choice of what has become certain, the largest cut shows all
//! states. This treats the crash as an event of its own that depends on exactly the units that settle something. Cuts
//! of equivalent prefixes are equal, so each is tried only once across all schedules.

use super::happens_before::{Order, Set};

/// The most cuts of one run to try.
const MAX_CUTS: usize = 100_000;

/// Finds the largest cut for each choice of settling units, in the run's own order. `visit` gets each, and returns
/// whether to continue. Returns whether those were all.
pub(crate) fn each(order: &Order, settles: &[bool], mut visit: impl FnMut(&[bool]) -> bool) -> bool {
    let settling: Vec<usize> = (0..settles.len()).filter(|&unit| settles[unit]).collect();
    let mut cut = vec![false; settles.len()];
    let mut left = MAX_CUTS;
    choose(order, &settling, Set::default(), &mut cut, &mut left, &mut visit);
    left > 0
}

/// Takes each settling unit or excludes it together with everything that follows it in happens-before.
fn choose(
    order: &Order,
    settling: &[usize],
    mut excluded: Set,
    cut: &mut [bool],
    left: &mut usize,
    visit: &mut impl FnMut(&[bool]) -> bool,
) {
    for (nth, &unit) in settling.iter().enumerate() {
        if !order.before[unit].intersects(&excluded) {
            choose(order, &settling[nth + 1..], excluded.clone(), cut, left, visit);
            if *left == 0 {
                return;
            }
        }
        excluded.insert(unit);
    }
    *left -= 1;
    for (unit, within) in cut.iter_mut().enumerate() {
        *within = !excluded.contains(unit) && !order.before[unit].intersects(&excluded);
    }
    if !visit(cut) {
        *left = 0;
    }
}

/// An identifier per unit that is the same in every run in which the unit does the same after the same history.
pub(crate) fn fingerprints(order: &Order, contents: &[u64]) -> Vec<u128> {
    let mut fingerprints: Vec<u128> = Vec::with_capacity(contents.len());
    for (unit, &content) in contents.iter().enumerate() {
        let before =
            order.before[unit].iter().fold(0u128, |sum, before| sum.wrapping_add(fingerprints[before]));
        fingerprints.push(mix(before ^ mix(u128::from(content) << 64 | u128::from(!content))));
    }
    fingerprints
}

/// An identifier for a cut inside a unit, after its first `nth + 1` records.
pub(crate) fn within(before: u128, unit: u128, nth: usize) -> u128 {
    before.wrapping_add(mix(unit ^ (nth as u128 + 1)))
}

fn mix(value: u128) -> u128 {
    const ODD: u128 = 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835;
    let value = (value ^ value >> 67).wrapping_mul(ODD);
    let value = (value ^ value >> 59).wrapping_mul(ODD);
    value ^ value >> 64
}

#[cfg(test)]
mod tests {
    use super::super::happens_before::Step;
    use super::*;
    use crashproof_protocol::steps::{Access, AccessKind};

    fn unit(actor: u64, address: u64) -> Step {
        let accesses = vec![Access::new(AccessKind::Write, address, 8)];
        Step { actor, accesses, ..Step::default() }
    }

    fn cuts(steps: &[Step], settles: &[bool]) -> Vec<Vec<bool>> {
        let mut cuts = Vec::new();
        assert!(each(&Order::of(steps), settles, |cut| {
            cuts.push(cut.to_vec());
            true
        }));
        cuts
    }

    #[test]
    fn independent_threads_crash_at_every_pair_of_places() {
        let steps = [unit(1, 0), unit(1, 8), unit(2, 64), unit(2, 72)];
        assert_eq!(cuts(&steps, &[true; 4]).len(), 9);
        let found = cuts(&steps, &[true, false, true, false]);
        assert_eq!(found.len(), 4);
        assert!(found.contains(&vec![false, false, true, true]), "one has ended, the other not begun");
    }

    #[test]
    fn what_settles_nothing_goes_as_far_as_it_can() {
        let steps = [unit(1, 0), unit(2, 64), unit(2, 0)];
        assert_eq!(cuts(&steps, &[true, false, false]), [vec![true; 3], vec![false, true, false]]);
    }

    #[test]
    fn equal_pasts_have_equal_fingerprints() {
        let one = [unit(1, 0), unit(2, 8), unit(1, 8)];
        let two = [unit(2, 8), unit(1, 0), unit(1, 8)];
        let of = |steps: &[Step], contents: &[u64]| fingerprints(&Order::of(steps), contents);
        let (one, two) = (of(&one, &[10, 20, 30]), of(&two, &[20, 10, 30]));
        assert_eq!((one[0], one[1], one[2]), (two[1], two[0], two[2]));
        assert_ne!(one[0], one[1]);
    }
}
