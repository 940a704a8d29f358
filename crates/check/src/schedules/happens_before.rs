//! Happens-before over the steps of one execution, and its races.
//!
//! Two steps are ordered if one actor takes both, if the later one could not have come earlier for a reason other than
//! its accesses (`after`: a thread begins after it was created, a store drains after it was issued), or if they
//! conflict. A race is a conflict between two steps that no chain of other steps orders, so they could have come in the
//! other order.

use crashproof_protocol::steps::{Access, AccessKind, Actor, thread_of};
use rustc_hash::FxHashMap;

/// One step of an execution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) actor: Actor,
    pub(crate) accesses: Vec<Access>,
    /// Earlier steps that this one can never precede, regardless of accesses.
    pub(crate) after: Vec<usize>,
    /// The actors that could have stepped instead, including the actor itself.
    pub(crate) enabled: Vec<Actor>,
}

/// Does the order of two steps matter, given their actors and accesses? A thread and its own buffer do not conflict: a
/// load returns the same value whether or not the store forwarded to it has drained, and restrictions on overtaking
/// determine which actors can step.
pub(crate) fn dependent(one: (Actor, &[Access]), two: (Actor, &[Access])) -> bool {
    thread_of(one.0) != thread_of(two.0) && one.1.iter().any(|one| two.1.iter().any(|two| one.conflicts(two)))
}

/// A set of steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set(Vec<u64>);

impl Set {
    pub(crate) fn contains(&self, step: usize) -> bool {
        self.0.get(step / 64).is_some_and(|word| word >> (step % 64) & 1 != 0)
    }

    pub(crate) fn insert(&mut self, step: usize) {
        if self.0.len() <= step / 64 {
            self.0.resize(step / 64 + 1, 0);
        }
        self.0[step / 64] |= 1 << (step % 64);
    }

    pub(crate) fn extend(&mut self, other: &Set) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    pub(crate) fn intersects(&self, other: &Set) -> bool {
        self.0.iter().zip(&other.0).any(|(one, two)| one & two != 0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(index, &word)| {
            (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| index * 64 + bit)
        })
    }
}

/// What happens before each step, and the races.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    /// For each step, all steps that happen before it.
    pub(crate) before: Vec<Set>,
    /// Pairs of steps that could have come in the other order, keyed by the later one.
    pub(crate) races: Vec<(usize, usize)>,
}

/// Index keys of an access: words for bytes, the address for objects.
fn places(access: &Access) -> impl Iterator<Item = (bool, u64)> + use<> {
    let object = is_object(access.kind);
    let (first, last) = match object {
        true => (access.address, access.address),
        false => (access.address / 8, (access.address + u64::from(access.bytes.max(1)) - 1) / 8),
    };
    (first..=last).map(move |place| (object, place))
}

fn is_object(kind: AccessKind) -> bool {
    matches!(kind, AccessKind::Sync | AccessKind::Acquire | AccessKind::Release)
}

/// Are these two conflicting accesses of a lock being waited for? They are ordered differently from bytes, since a
/// waiting thread cannot come first.
fn is_lock_pair(one: &Access, two: &Access) -> bool {
    let lock = |access: &Access| matches!(access.kind, AccessKind::Acquire | AccessKind::Release);
    lock(one) && lock(two)
}

impl Order {
    pub(crate) fn of(steps: &[Step]) -> Order {
        Order::of_each(&steps.iter().collect::<Vec<_>>())
    }

    pub(crate) fn of_each(steps: &[&Step]) -> Order {
        let mut order = Order::default();
        let mut last_of: FxHashMap<Actor, usize> = FxHashMap::default();
        let mut at: FxHashMap<(bool, u64), Vec<(usize, Access)>> = FxHashMap::default();
        for (index, step) in steps.iter().enumerate() {
            let (mut before, actor) = (Set::default(), step.actor);
            let follows = |before: &mut Set, order: &Order, earlier: usize| {
                before.insert(earlier);
                before.extend(&order.before[earlier]);
            };
            for &earlier in last_of.get(&step.actor).into_iter().chain(&step.after) {
                follows(&mut before, &order, earlier);
            }
            let mut conflicts: Vec<(usize, Access, Access)> = Vec::new();
            // Steps that are already ordered need no second reason, unless it is a lock being waited for.
            let matters = |earlier: usize, other: &Access, access: &Access| {
                !before.contains(earlier) || is_lock_pair(other, access)
            };
            for access in &step.accesses {
                for place in places(access) {
                    let earlier = at.get(&place).into_iter().flatten();
                    let other_thread = |step: usize| thread_of(steps[step].actor) != thread_of(actor);
                    let found = earlier.filter(|(step, other)| {
                        matters(*step, other, access) && access.conflicts(other) && other_thread(*step)
                    });
                    conflicts.extend(found.map(|(earlier, other)| (*earlier, *other, *access)));
                }
            }
            // A thread that tried a lock did not wait for it: the attempt could have come at any time, like other
            // accesses.
            let tried =
                |at: u64| step.accesses.iter().any(|one| one.kind == AccessKind::Sync && one.address == at);
            conflicts.retain(|(_, other, access)| !is_lock_pair(other, access) || !tried(access.address));
            conflicts.sort_by_key(|(earlier, ..)| std::cmp::Reverse(*earlier));
            order.locks(steps, index, &conflicts, &mut before);
            for (earlier, other, access) in &conflicts {
                if !is_lock_pair(other, access) && !before.contains(*earlier) {
                    order.races.push((*earlier, index));
                    follows(&mut before, &order, *earlier);
                }
            }
            for access in &step.accesses {
                places(access).for_each(|place| at.entry(place).or_default().push((index, *access)));
            }
            last_of.insert(step.actor, index);
            order.before.push(before);
        }
        order
    }

    /// Locks being waited for. A thread waiting for a lock cannot precede the release, so the race is between the two
    /// acquisitions; unless the lock was available anyway, like a semaphore that was not empty.
    fn locks(&mut self, steps: &[&Step], index: usize, found: &[(usize, Access, Access)], before: &mut Set) {
        let pairs = || found.iter().filter(|(_, other, access)| is_lock_pair(other, access));
        let mut raced = Set::default();
        for (earlier, other, access) in pairs() {
            if access.kind != AccessKind::Acquire || before.contains(*earlier) || raced.contains(*earlier) {
                continue;
            }
            let actor = steps[index].actor;
            let waited = || {
                let between = steps[*earlier..index].iter().any(|step| step.actor == actor);
                between || !steps[*earlier].enabled.contains(&actor)
            };
            if other.kind == AccessKind::Release && waited() {
                continue;
            }
            self.races.push((*earlier, index));
            raced.insert(*earlier);
            raced.extend(&self.before[*earlier]);
        }
        for (earlier, ..) in pairs() {
            before.insert(*earlier);
            before.extend(&self.before[*earlier]);
        }
    }

    /// The steps from `first` to `last` that do not happen after `first`, and `last` itself.
    pub(crate) fn without(&self, first: usize, last: usize) -> Vec<usize> {
        let unordered = (first + 1..last).filter(|&step| !self.before[step].contains(first));
        unordered.chain([last]).collect()
    }

    /// The steps that no other step of the set happens before: any of them could be first.
    pub(crate) fn initials(&self, steps: &[usize]) -> Vec<usize> {
        let mut earlier = Set::default();
        let mut initials = Vec::new();
        for &step in steps {
            if !self.before[step].intersects(&earlier) {
                initials.push(step);
            }
            earlier.insert(step);
        }
        initials
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(actor: Actor, kind: AccessKind, address: u64) -> Step {
        let bytes = if is_object(kind) { 0 } else { 8 };
        let accesses = vec![Access::new(kind, address, bytes)];
        Step { actor, accesses, after: Vec::new(), enabled: vec![1, 2, 3] }
    }

    #[test]
    fn only_neighbors_in_the_order_race() {
        use AccessKind::{Read, Write};
        let steps = [step(1, Write, 8), step(2, Write, 8), step(3, Read, 8), step(1, Read, 16)];
        let order = Order::of(&steps);
        assert_eq!(order.races, [(0, 1), (1, 2)]);
        assert!(order.before[2].contains(0) && !order.before[3].contains(1));
    }

    #[test]
    fn who_took_a_lock_races_with_who_takes_it_next() {
        use AccessKind::{Acquire, Release};
        let mut steps = [step(1, Acquire, 8), step(1, Release, 8), step(2, Acquire, 8)];
        steps[1].enabled = vec![1];
        let order = Order::of(&steps);
        assert_eq!(order.races, [(0, 2)]);
        assert!(order.before[2].contains(1));
        assert_eq!(order.without(0, 2), [2]);
    }

    #[test]
    fn a_semaphore_that_was_not_empty_could_have_been_taken_before() {
        use AccessKind::{Acquire, Release};
        let steps = [step(1, Release, 8), step(2, Acquire, 8)];
        assert_eq!(Order::of(&steps).races, [(0, 1)]);
    }

    #[test]
    fn who_only_tries_to_take_a_lock_may_do_so_while_it_is_held() {
        use AccessKind::{Acquire, Read, Release, Sync};
        let mut tries = step(2, Sync, 8);
        tries.accesses.push(Access::new(Acquire, 8, 0));
        // Activity since the lock was taken does not mean that the thread waited.
        let steps = [step(1, Acquire, 8), step(2, Read, 64), step(1, Release, 8), tries];
        assert_eq!(Order::of(&steps).races, [(2, 3)]);
    }

    #[test]
    fn initials_are_what_may_come_first() {
        use AccessKind::{Read, Write};
        let steps = [step(1, Write, 8), step(2, Read, 16), step(2, Read, 24), step(3, Write, 32)];
        let order = Order::of(&steps);
        assert_eq!(order.initials(&[1, 2, 3]), [1, 3]);
    }
}
