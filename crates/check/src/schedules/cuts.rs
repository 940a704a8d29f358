//! Crashes at every consistent cut.
//!
//! Two runs of one Mazurkiewicz trace end alike but do not crash alike: if T1 and T2 are independent, "T2 has finished and
//! T1 has not begun" is a prefix of only one of the two orders. A crash stops everything at once, so what it leaves is
//! decided by which units came before it: a set that is closed under happens-before, a *cut*. Every partial execution of
//! the program is a cut of some complete one, complete ones are explored up to equivalence, and equivalent ones have the
//! same cuts. So the crash states of the program are those of all cuts of one run per trace.
//!
//! Most cuts need not be tried. A unit that makes nothing certain (a store that reaches the cache, a load, a write-back
//! that no fence has waited for) only adds states: whatever may be lost without it may be lost with it, as a line keeps
//! any prefix of its stores. So for each choice of what has become certain, one cut shows all states: the largest one.
//! That is the crash as an event of its own, which depends on exactly the units that settle something. Since cuts of a
//! trace that differ only in what was reversed later are equal, each is tried once for all schedules.

use super::happens_before::{Order, Set};

/// Cuts of one run that are tried at most.
const MAX_CUTS: usize = 100_000;

/// Finds the largest cut for each choice of settling units, in the run's own order; `visit` gets it, and says whether it
/// wants more. Says whether those were all.
pub(crate) fn each(order: &Order, settles: &[bool], mut visit: impl FnMut(&[bool]) -> bool) -> bool {
    let settling: Vec<usize> = (0..settles.len()).filter(|&unit| settles[unit]).collect();
    let mut cut = vec![false; settles.len()];
    let mut left = MAX_CUTS;
    choose(order, &settling, Set::default(), &mut cut, &mut left, &mut visit);
    left > 0
}

/// Takes each of the settling units or excludes it, and all that come after one that is excluded.
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

/// A number for each unit that is the same in every run in which it does the same after the same.
pub(crate) fn fingerprints(order: &Order, contents: &[u64]) -> Vec<u128> {
    let mut fingerprints: Vec<u128> = Vec::with_capacity(contents.len());
    for (unit, &content) in contents.iter().enumerate() {
        let before =
            order.before[unit].iter().fold(0u128, |sum, before| sum.wrapping_add(fingerprints[before]));
        fingerprints.push(mix(before ^ mix(u128::from(content) << 64 | u128::from(!content))));
    }
    fingerprints
}

/// A number for a cut that a unit has begun and not ended, with its first `nth + 1` records.
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
