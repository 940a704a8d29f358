//! Which schedules to run: one for each Mazurkiewicz trace.
//!
//! Source sets with sleep sets, as in Abdulla, Aronis, Jonsson and Sagonas, "Source Sets: A Foundation for Optimal Dynamic
//! Partial Order Reduction" (POPL 2014, JACM 2017), algorithm 1. An execution that ran is looked through for races; for
//! each, a step that leads to the reversed order is added where the earlier of the two was taken, unless one is there.
//! Sleep sets keep executions from being equivalent to one that was explored, so no trace is run to its end twice; a run
//! may find out that it is redundant only on its way (those are counted apart; wakeup trees would avoid them).
//!
//! This is pure: executions come from a process, or in tests from small programs in memory.

use crashproof_protocol::steps::{Access, Actor, Note, is_choice, is_entry, is_spurious, kind};

use super::happens_before::{Order, Step, dependent};

/// An actor whose next step was explored and has not been disturbed since, and what that step accessed.
pub(crate) type Sleeping = (Actor, Vec<Access>);

/// What to run next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Who steps, as far as that is decided.
    pub(crate) decisions: Vec<Actor>,
    /// Who sleeps when the last decision is taken.
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
    /// Who is to step from here, sooner or later.
    wanted: Vec<Actor>,
    /// Who has.
    tried: Vec<Actor>,
    /// Was the step taken? If not, it could not be.
    taken: bool,
}

/// The path that is being explored.
#[derive(Default)]
pub(crate) struct Explorer {
    path: Vec<State>,
    /// Decisions of the plan that was given out last.
    decided: usize,
    started: bool,
    /// How often a schedule may switch from a thread that could go on, if that is bounded.
    max_preemptions: Option<u32>,
    /// Were schedules left out because of that?
    pub(crate) left_out: bool,
    /// Do threads wake up without a signal, too?
    wake_ups: bool,
}

/// A run did not do again what it did before.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Diverged;

impl Explorer {
    /// Explores schedules with at most this many preemptions.
    pub(crate) fn bounded(max_preemptions: Option<u32>) -> Explorer {
        Explorer { max_preemptions, ..Explorer::default() }
    }

    /// Explores schedules in which threads wake up without a signal, too.
    pub(crate) fn with_wake_ups(self) -> Explorer {
        Explorer { wake_ups: true, ..self }
    }

    /// How often the path, up to its last state and with this actor stepping there, switches from a thread that could
    /// go on. Stores that drain are nobody's preemption.
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

    /// The next plan; none if everything was explored.
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
            // Choices of a thread exclude each other: none of them can come later.
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

    /// What the run of the last plan did. A run that ended because its decision could not be taken gives fewer steps
    /// than were decided.
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

    /// Who else is to step where a step was taken, whatever races: all choices of its thread, and whoever could wake up
    /// without a signal but not after that step. (Until then it makes no difference when it does.)
    fn wanted_besides(&self, steps: &[Step], index: usize) -> Vec<Actor> {
        let step = &steps[index];
        let can_later = |actor| steps.get(index + 1).is_some_and(|next| next.enabled.contains(&actor));
        let wakes_up = |actor: Actor| self.wake_ups && is_spurious(actor) && !can_later(actor);
        let others = step.enabled.iter().copied();
        others.filter(|&actor| actor != step.actor && (is_choice(step.actor) || wakes_up(actor))).collect()
    }

    /// Sees to it that the later of two steps that race also comes first.
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

    /// Which part of the tree of schedules, as far as it is known, has been explored.
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
