//! Volatile accesses in code that was not rebuilt: does the exploration order them?
//!
//! The exploration knows locks, locked instructions and persistent memory. If these order every pair of conflicting
//! unseen accesses in every execution that runs, such accesses add no schedules: every execution is equivalent to one
//! that was run. If not, the two places are made steps, and the exploration starts over.

use crashproof_protocol::steps::{Note, is_entry, thread_of};

use super::happens_before::{Order, Set, Step};

/// Two conflicting accesses of two threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unseen {
    /// The thread of the first one, which precedes that thread's steps from this one on, and instructions issued after
    /// this one.
    first: u16,
    before_step: usize,
    issued: u64,
    /// The thread of the second one, which comes in this step: after the step's accesses?
    second: u16,
    step: usize,
    after_access: bool,
    /// The sites of the two.
    pub(crate) sites: [u32; 2],
}

impl Unseen {
    pub(crate) fn new(first: &Note, second: &Note, step: usize) -> Unseen {
        Unseen {
            first: thread_of(first.actor),
            before_step: first.bytes as usize,
            issued: first.address,
            second: thread_of(second.actor),
            step,
            after_access: second.bytes != 0,
            sites: [first.site, second.site],
        }
    }

    fn is_ordered(&self, steps: &[Step], order: &Order) -> bool {
        let mut before = Set::default();
        let mut include = |step: usize| {
            before.insert(step);
            before.extend(&order.before[step]);
        };
        if self.after_access {
            include(self.step);
        } else {
            let own = |step: &Step| !is_entry(step.actor) && thread_of(step.actor) == self.second;
            steps[..self.step].iter().rposition(own).into_iter().for_each(&mut include);
            steps[self.step].after.iter().copied().for_each(include);
        }
        before.iter().any(|step| {
            let actor = steps[step].actor;
            thread_of(actor) == self.first
                && match is_entry(actor) {
                    true => actor >> 16 > self.issued,
                    false => step >= self.before_step,
                }
        })
    }
}

/// The pairs that nothing orders in this execution.
pub(crate) fn unordered(steps: &[Step], unseen: &[Unseen]) -> Vec<Unseen> {
    if unseen.is_empty() {
        return Vec::new();
    }
    let order = Order::of(steps);
    let known = unseen.iter().filter(|unseen| unseen.step < steps.len());
    known.filter(|unseen| !unseen.is_ordered(steps, &order)).copied().collect()
}

#[cfg(test)]
mod tests {
    use crashproof_protocol::steps::{Access, AccessKind};

    use super::*;

    fn step(actor: u64, kind: AccessKind) -> Step {
        let accesses = vec![Access::new(kind, 8, 0)];
        Step { actor, accesses, after: Vec::new(), enabled: vec![1, 2] }
    }

    fn unseen(before_step: usize, step: usize) -> Unseen {
        Unseen { first: 1, before_step, issued: 0, second: 2, step, after_access: true, sites: [1, 2] }
    }

    #[test]
    fn a_lock_orders_what_comes_before_it_is_given_back() {
        use AccessKind::{Acquire, Release};
        let steps = [step(1, Acquire), step(1, Release), step(2, Acquire)];
        assert_eq!(unordered(&steps, &[unseen(1, 2)]), []);
        assert_eq!(unordered(&steps, &[unseen(2, 2)]), [unseen(2, 2)], "what comes after");
        let early = Unseen { after_access: false, ..unseen(1, 2) };
        assert_eq!(unordered(&steps, &[early]), [early], "what the other one does before it has the lock");
    }
}
