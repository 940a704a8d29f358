//! Decides which schedules to run: one per Mazurkiewicz trace.
//!
//! Source sets with sleep sets, as in Abdulla, Aronis, Jonsson and Sagonas, "Source Sets: A Foundation for Optimal
//! Dynamic Partial Order Reduction" (POPL 2014, JACM 2017), algorithm 1. Each execution is searched for races; for each
//! race, a step that leads to the reversed order is added at the state before the earlier access, unless one is already
//! there. Sleep sets prevent executions equivalent to explored ones, so no trace is completed twice; a run may discover
//! only midway that it is redundant (those are counted separately; wakeup trees would avoid them).
//!
//! This module is pure: executions come from a process, or in tests from small programs in memory.

use crashproof_protocol::steps::{Access, Actor, Note, is_choice, is_entry, is_spurious, kind};

use super::happens_before::{Order, Step, dependent};

/// An actor whose next step was explored and has not been disturbed since, and what that step accessed.
pub(crate) type Sleeping = (Actor, Vec<Access>);

/// The next schedule to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The actors that step, as far as decided.
    pub(crate) decisions: Vec<Actor>,
    /// The actors that sleep when the last decision is taken.
    pub(crate) sleeping: Vec<Sleeping>,
}

impl Plan {
    /// Who sleeps, as the runtime wants it: each sleeper, then what its step accessed.
    pub(crate) fn sleepers(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        for (actor, accesses) in &self.sleeping {
            notes.push(Note::new(kind::STEP, *actor, 0, 0, 0));
            notes.extend(accesses.iter().map(|access| Note::of(*actor, access)));
        }
        notes
    }
}

/// A state on the path that is being explored, and the step taken from it.
struct State {
    step: Step,
    sleeping: Vec<Sleeping>,
    /// Actors that must eventually step from here.
    wanted: Vec<Actor>,
    /// Actors that have.
    tried: Vec<Actor>,
    /// Was the step taken? Otherwise it was not enabled.
    taken: bool,
}

/// The path being explored.
#[derive(Default)]
pub(crate) struct Explorer {
    path: Vec<State>,
    /// The number of decisions in the last plan.
    decided: usize,
    started: bool,
    /// The bound on preemptions per schedule, if any.
    max_preemptions: Option<u32>,
    /// Were schedules left out because of that bound?
    pub(crate) left_out: bool,
    /// Are spurious wakeups explored?
    wake_ups: bool,
}

/// A run did not repeat what it did before.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Diverged;

impl Explorer {
    /// Explores schedules with at most this many preemptions.
    pub(crate) fn bounded(max_preemptions: Option<u32>) -> Explorer {
        Explorer { max_preemptions, ..Explorer::default() }
    }

    /// Also explores schedules with spurious wakeups.
    pub(crate) fn with_wake_ups(self) -> Explorer {
        Explorer { wake_ups: true, ..self }
    }

    /// The number of preemptions on the path, up to its last state with this actor stepping there: switches from a
    /// thread that could continue. Draining stores does not count.
    fn preemptions(&self, last: Actor) -> u32 {
        let taken = self.path.iter().map(|state| state.step.actor);
        let actors = taken.take(self.path.len() - 1).chain([last]);
        let mut running: Option<Actor> = None;
        let mut preemptions = 0;
        for (actor, state) in
            actors.zip(&self.path).filter(|(actor, _)| !is_entry(*actor) && !is_choice(*actor))
        {
            let preempted = |&before: &Actor| before != actor && state.step.enabled.contains(&before);
            preemptions += u32::from(running.as_ref().is_some_and(preempted));
            running = Some(actor);
        }
        preemptions
    }

    /// The next plan; `None` if everything has been explored.
    pub(crate) fn next(&mut self) -> Option<Plan> {
        if !std::mem::replace(&mut self.started, true) {
            return Some(Plan::default());
        }
        loop {
            let state = self.path.last_mut()?;
            let sleeps = |actor: &Actor| state.sleeping.iter().any(|(sleeper, _)| sleeper == actor);
            let next = state.wanted.iter().find(|actor| !state.tried.contains(actor) && !sleeps(actor));
            let Some(&actor) = next else {
                self.path.pop();
                continue;
            };
            if self.max_preemptions.is_some_and(|most| self.preemptions(actor) > most) {
                self.left_out = true;
                self.path.last_mut().expect("it is there").tried.insert(0, actor);
                continue;
            }
            let state = self.path.last_mut().expect("it is there");
            let done = std::mem::take(&mut state.step);
            // A thread's choices exclude each other: none of them can come later.
            if std::mem::take(&mut state.taken) && !is_choice(done.actor) {
                state.sleeping.push((done.actor, done.accesses));
            }
            state.tried.push(actor);
            state.step = Step { actor, enabled: done.enabled, ..Step::default() };
            self.decided = self.path.len();
            return Some(Plan {
                decisions: self.path.iter().map(|state| state.step.actor).collect(),
                sleeping: self.path[self.decided - 1].sleeping.clone(),
            });
        }
    }

    /// Adds what the run of the last plan did. A run that ended because its decision could not be taken has fewer steps
    /// than decisions.
    pub(crate) fn learn(&mut self, steps: Vec<Step>) -> Result<(), Diverged> {
        if steps.len() < self.decided {
            return if steps.len() + 1 == self.decided { Ok(()) } else { Err(Diverged) };
        }
        if !self.path.iter().zip(&steps).all(|(state, step)| state.step.actor == step.actor) {
            return Err(Diverged);
        }
        let order = Order::of(&steps);
        let first_new = self.decided.saturating_sub(1);
        self.path.truncate(self.decided);
        if self.decided > 0 {
            let more = self.wanted_besides(&steps, first_new);
            let state = self.path.last_mut().expect("it was decided");
            state.step = steps[first_new].clone();
            state.taken = true;
            let new = more.into_iter().filter(|actor| !state.wanted.contains(actor)).collect::<Vec<_>>();
            state.wanted.extend(new);
        }
        for (index, step) in steps.iter().enumerate().skip(self.decided) {
            let sleeping = self.path.last().map_or(Vec::new(), |state| {
                let step = (state.step.actor, &state.step.accesses[..]);
                let rests = |(actor, accesses): &&Sleeping| !dependent((*actor, accesses), step);
                state.sleeping.iter().filter(rests).cloned().collect()
            });
            let mut wanted = vec![step.actor];
            wanted.extend(self.wanted_besides(&steps, index));
            let tried = vec![step.actor];
            self.path.push(State { step: step.clone(), sleeping, wanted, tried, taken: true });
        }
        for &(earlier, later) in order.races.iter().filter(|(_, later)| *later >= first_new) {
            self.reverse(&steps, &order, earlier, later);
        }
        Ok(())
    }

    /// Other actors that must step where a step was taken, regardless of races: all choices of its thread, and threads
    /// that could wake up spuriously before that step but not after it. (Until then, the time of the wakeup makes no
    /// difference.)
    fn wanted_besides(&self, steps: &[Step], index: usize) -> Vec<Actor> {
        let step = &steps[index];
        let can_later = |actor| steps.get(index + 1).is_some_and(|next| next.enabled.contains(&actor));
        let wakes_up = |actor: Actor| self.wake_ups && is_spurious(actor) && !can_later(actor);
        let others = step.enabled.iter().copied();
        others.filter(|&actor| actor != step.actor && (is_choice(step.actor) || wakes_up(actor))).collect()
    }

    /// Ensures that the later of two racing steps is also explored first.
    fn reverse(&mut self, steps: &[Step], order: &Order, earlier: usize, later: usize) {
        let state = &mut self.path[earlier];
        let actors: Vec<Actor> = order
            .initials(&order.without(earlier, later))
            .into_iter()
            .map(|step| steps[step].actor)
            .filter(|actor| state.step.enabled.contains(actor))
            .collect();
        let covered = |actor: &Actor| {
            state.wanted.contains(actor) || state.sleeping.iter().any(|(sleeper, _)| sleeper == actor)
        };
        if !actors.iter().any(covered)
            && let Some(&actor) = actors.first()
        {
            state.wanted.push(actor);
        }
    }

    /// The fraction of the tree of schedules, as far as known, that has been explored.
    pub(crate) fn explored(&self) -> f64 {
        let mut explored = 0.0;
        let mut width = 1.0;
        for state in &self.path {
            let wanted = state.wanted.len() as f64;
            width /= wanted;
            explored += width * (state.tried.len() as f64 - 1.0);
        }
        if self.path.is_empty() { 1.0 } else { explored + width }
    }
}

#[cfg(test)]
#[path = "explore_tests.rs"]
mod tests;
