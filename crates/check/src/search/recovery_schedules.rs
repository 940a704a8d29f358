//! Schedules of recoveries that have threads.
//!
//! What such a recovery does depends on what it reads and on its schedule. With a *plan*, the decisions to begin with, it is
//! a function of what it reads again, so there is a tree for each plan. Races that runs show lead to new plans, as in
//! `schedules::explore`. But crash states differ in what recovery does: so every plan is for all of them, nobody sleeps,
//! and a run that cannot follow its plan ends there, as it does nothing that another plan does not show.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crashproof_protocol::steps::Actor;
use rustc_hash::{FxHashMap, FxHasher};

use crate::schedules::{Order, Step};
use crate::search::tree::Tree;

/// Steps of a recovery whose schedules can be explored.
const MAX_STEPS: usize = 2_000;

/// The plans, and what is known under each.
#[derive(Default)]
pub(crate) struct RecoverySchedules {
    plans: Vec<Arc<[Actor]>>,
    /// What is known under each plan but the present one.
    trees: Vec<Tree>,
    present: usize,
    /// Who is to step after some decisions, sooner or later, by their hash.
    wanted: FxHashMap<u64, Vec<Actor>>,
    /// Was a recovery too long?
    pub(crate) too_long: bool,
}

impl RecoverySchedules {
    /// From here on recoveries follow plans.
    pub(crate) fn begin(&mut self) {
        if self.plans.is_empty() {
            self.plans.push(Arc::new([]));
            self.trees.push(Tree::default());
        }
    }

    /// The present plan, if recoveries follow any.
    pub(crate) fn plan(&self) -> Option<Arc<[Actor]>> {
        self.plans.get(self.present).cloned()
    }

    /// How many plans are known.
    pub(crate) fn count(&self) -> usize {
        self.plans.len()
    }

    /// Recoveries follow this plan from here on; `tree` becomes what is known under it.
    pub(crate) fn follow(&mut self, plan: usize, tree: &mut Tree) {
        self.trees[self.present] = std::mem::take(tree);
        self.present = plan;
        *tree = std::mem::take(&mut self.trees[plan]);
    }

    /// A recovery took these steps: those that race are to come the other way round, too.
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
