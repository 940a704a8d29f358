//! Schedules of multithreaded recoveries.
//!
//! Such a recovery depends on what it reads and on its schedule. Under a *plan*, a prefix of decisions, it is again a
//! function of what it reads, so there is one tree per plan. Races observed in runs lead to new plans, as in
//! `schedules::explore`. But recovery differs between crash states: so every plan applies to all of them, there are no
//! sleep sets, and a run that cannot follow its plan ends there, since another plan covers whatever it would do.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crashproof_protocol::steps::Actor;
use rustc_hash::{FxHashMap, FxHasher};

use crate::schedules::{Order, Step};
use crate::search::tree::Tree;

/// Maximum number of steps of a recovery whose schedules are explored.
const MAX_STEPS: usize = 2_000;

/// The plans, and the tree of each.
#[derive(Default)]
pub(crate) struct RecoverySchedules {
    plans: Vec<Arc<[Actor]>>,
    /// The trees of all plans except the current one.
    trees: Vec<Tree>,
    present: usize,
    /// Actors that must eventually step after some decisions, by hash of the decisions.
    wanted: FxHashMap<u64, Vec<Actor>>,
    /// Was a recovery too long?
    pub(crate) too_long: bool,
}

impl RecoverySchedules {
    /// Recoveries follow plans from here on.
    pub(crate) fn begin(&mut self) {
        if self.plans.is_empty() {
            self.plans.push(Arc::new([]));
            self.trees.push(Tree::default());
        }
    }

    /// The current plan, if recoveries follow any.
    pub(crate) fn plan(&self) -> Option<Arc<[Actor]>> {
        self.plans.get(self.present).cloned()
    }

    /// The number of known plans.
    pub(crate) fn count(&self) -> usize {
        self.plans.len()
    }

    /// Recoveries follow this plan from here on; `tree` becomes the plan's tree.
    pub(crate) fn follow(&mut self, plan: usize, tree: &mut Tree) {
        self.trees[self.present] = std::mem::take(tree);
        self.present = plan;
        *tree = std::mem::take(&mut self.trees[plan]);
    }

    /// A recovery took these steps: races among them must also be explored in the other order.
    pub(crate) fn learn(&mut self, steps: &[Step]) {
        if steps.len() > MAX_STEPS {
            self.too_long = true;
            return;
        }
        let mut hasher = FxHasher::default();
        let mut before = Vec::with_capacity(steps.len());
        for step in steps {
            let hash = hasher.finish();
            let wanted = self.wanted.entry(hash).or_default();
            if !wanted.contains(&step.actor) {
                wanted.push(step.actor);
            }
            before.push(hash);
            step.actor.hash(&mut hasher);
        }
        let order = Order::of(steps);
        for &(earlier, later) in &order.races {
            let first = order.initials(&order.without(earlier, later));
            let enabled = &steps[earlier].enabled;
            let mut actors = first.iter().map(|&step| steps[step].actor).filter(|it| enabled.contains(it));
            let wanted = self.wanted.entry(before[earlier]).or_default();
            if actors.clone().any(|actor| wanted.contains(&actor)) {
                continue;
            }
            if let Some(actor) = actors.next() {
                wanted.push(actor);
                let decisions = steps[..earlier].iter().map(|step| step.actor).chain([actor]);
                self.plans.push(decisions.collect());
                self.trees.push(Tree::default());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crashproof_protocol::steps::{Access, AccessKind};

    fn write(actor: Actor) -> Step {
        let accesses = vec![Access::new(AccessKind::Write, 8, 8)];
        Step { actor, accesses, after: Vec::new(), enabled: vec![1, 2] }
    }

    #[test]
    fn what_races_comes_the_other_way_round_once() {
        let mut schedules = RecoverySchedules::default();
        assert!(schedules.plan().is_none());
        schedules.begin();
        schedules.learn(&[write(1), write(2)]);
        assert_eq!(schedules.plans, [Arc::from([]), Arc::from([2])]);
        schedules.learn(&[write(2), write(1)]);
        assert_eq!(schedules.count(), 2, "both orders are known");
        schedules.follow(1, &mut Tree::default());
        assert_eq!(schedules.plan(), Some(Arc::from([2])));
    }
}
