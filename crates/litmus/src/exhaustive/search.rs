//! Breadth-first search over the machine's states, and reconstruction of how a state arose.

use std::cell::Cell;

use crate::answer::{Chapter, Limits};

use crate::exhaustive::arena::{Action, Arena, Origin, StateId};
use crate::exhaustive::machine::Machine;
use crate::exhaustive::state::State;

/// The visitor's decision.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Continue,
    /// It has seen enough.
    Stop,
}

pub(crate) struct Search {
    pub(crate) arena: Arena,
    /// The limit that was hit, if one was.
    pub(crate) limit: Option<String>,
    /// Did the visitor stop it?
    pub(crate) stopped: bool,
}

/// Visits every state that can be reached from `memory`, each once, nearest first.
///
/// `held` says how much memory the visitor holds; it counts towards the limit.
pub(crate) fn search(
    machine: &mut Machine,
    memory: &[i64],
    limits: Limits,
    held: &Cell<usize>,
    mut visit: impl FnMut(&Machine, &State, StateId) -> Flow,
) -> Search {
    let mut search = Search { arena: Arena::default(), limit: None, stopped: false };
    let mut bytes = Vec::new();
    let mut actions = Vec::new();
    let first = machine.initial(memory);
    first.encode(machine.program, machine.tracking, &mut bytes);
    let nowhere = Action { thread: 0, entry: None, closes: false };
    search.arena.insert(&bytes, Origin { parent: 0, action: nowhere });
    if visit(machine, &first, 0) == Flow::Stop {
        search.stopped = true;
        return search;
    }
    let mut state = first.clone();
    let mut successor = first;
    let mut next: StateId = 0;
    while (next as usize) < search.arena.len() {
        state.decode_from(machine.program, machine.tracking, search.arena.get(next));
        // Once every line that is stored to is closed, outcomes can no longer change.
        let stored = &machine.program.stored_lines;
        let settled = state.closed.iter().zip(stored).all(|(&closed, &stored)| closed || !stored);
        if !settled {
            machine.actions(&state, &mut actions);
            for &action in &actions {
                successor.clone_from(&state);
                machine.act(&mut successor, action);
                bytes.clear();
                successor.encode(machine.program, machine.tracking, &mut bytes);
                let Some(id) = search.arena.insert(&bytes, Origin { parent: next, action }) else { continue };
                if visit(machine, &successor, id) == Flow::Stop {
                    search.stopped = true;
                    return search;
                }
            }
        }
        if let Some(why) = limits.interrupted() {
            search.limit = Some(why.to_owned());
            return search;
        }
        if search.arena.len() > limits.states {
            search.limit = Some(format!("more than {} machine states", limits.states));
            return search;
        }
        if search.arena.footprint() + machine.sets.footprint() + held.get() > limits.bytes {
            search.limit = Some(format!("more than {} MiB of visited states", limits.bytes >> 20));
            return search;
        }
        next += 1;
    }
    search
}

/// Replays the path to state `id` and records it.
pub(crate) fn replay(machine: &mut Machine, memory: &[i64], arena: &Arena, id: StateId) -> (Chapter, State) {
    let mut path = Vec::new();
    let mut at = id;
    while at != 0 {
        let origin = arena.origin(at);
        path.push(origin.action);
        at = origin.parent;
    }
    machine.record = Some(Vec::new());
    let mut state = machine.initial(memory);
    let mut closed_after = vec![None; machine.program.lines];
    for action in path.into_iter().rev() {
        let steps = machine.record.as_ref().map_or(0, Vec::len);
        let before = state.closed.clone();
        machine.act(&mut state, action);
        for line in 0..before.len() {
            if state.closed[line] && !before[line] {
                closed_after[line] = Some(steps);
            }
        }
    }
    let steps = machine.record.take().unwrap_or_default();
    let written_back = closed_after.into_iter().map(|after| after.unwrap_or(steps.len())).collect();
    let outcome = (0..machine.program.line_of.len())
        .map(|at| Some(state.survivor(machine.program, at).value))
        .collect();
    (Chapter { recovery: false, steps, written_back, outcome }, state)
}
