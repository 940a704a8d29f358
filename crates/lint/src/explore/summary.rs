//! What a caller sees of a function: its ways, in terms of parameters.

use std::rc::Rc;

use super::{State, Walk};
use crate::event::{Event, Kind};
use crate::expression::{Address, Expression, Form, NOTHING};
use crate::ir::Operand;
use crate::machine::Exit;

/// Paths a caller sees of a callee.
const MAX_PATHS: usize = 6;
/// Contents of memory a caller sees of one path.
const MAX_MEMORY: usize = 48;
/// Events a caller sees of one path.
const MAX_EVENTS: usize = 80;

/// One way through a function, as a caller sees it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Way {
    pub(super) events: Vec<Event>,
    pub(super) result: Expression,
    pub(super) facts: Vec<(Expression, bool)>,
    pub(super) memory: Vec<(Address, u64, Expression)>,
    pub(super) exit: bool,
}

/// All ways through a function.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Summary {
    pub(super) ways: Vec<Way>,
}

impl Walk<'_, '_> {
    pub(super) fn returns(&mut self, mut state: State, value: Option<Operand>) {
        let result = value.map_or(NOTHING, |value| self.value(&state, value));
        let failure = match self.all.expressions.as_int(result) {
            Some(number) if number < 0 => true,
            Some(0) => self.function.returns_pointer,
            _ => false,
        };
        let exit = if failure { Exit::Failure } else { Exit::Normal };
        if self.is_root {
            let mut machine = std::mem::take(&mut state.machine);
            Rc::make_mut(&mut machine).path_ends(&mut self.around(), exit);
            state.machine = machine;
        }
        let own = |this: &Self, object: Expression| matches!(this.all.expressions.form(object), Form::Local(function, _) if function == this.id);
        // What is nearest to the parameters matters most.
        let mut memory: Vec<(Address, u64, Expression)> = state
            .memory
            .iter()
            .filter(|(at, _)| !own(self, at.object) && !self.all.expressions.has_opaque(at.object))
            .map(|(at, (bytes, value))| (*at, *bytes, *value))
            .collect();
        memory.sort_by_key(|(at, ..)| self.all.expressions.depth(at.object));
        memory.truncate(MAX_MEMORY);
        let facts = state
            .facts
            .iter()
            .filter(|(fact, _)| self.is_about_parameters(**fact))
            .map(|(fact, holds)| (*fact, *holds))
            .collect();
        let events = self.all.traces.events(state.trace);
        self.ways.push(Way { events, result, facts, memory, exit: failure });
    }

    pub(super) fn is_about_parameters(&self, expression: Expression) -> bool {
        match self.all.expressions.form(expression) {
            Form::Comparison(_, left, right) | Form::Operation(_, left, right) => {
                self.is_about_parameters(left) && self.is_about_parameters(right)
            }
            Form::Plus(inner, _) => self.is_about_parameters(inner),
            Form::Parameter(_) | Form::Int(_) => true,
            _ => false,
        }
    }

    pub(super) fn summary(mut self) -> Summary {
        let mut groups: Vec<Way> = Vec::new();
        let ways = std::mem::take(&mut self.ways);
        for mut way in ways {
            if way.events.len() > MAX_EVENTS {
                self.all.shortened.push(self.id);
                // Where transactions begin and end, and what they log, must not be lost.
                let excess = way.events.len() - MAX_EVENTS;
                let mut at = 0;
                way.events.retain(|event| {
                    at += 1;
                    let kept = matches!(event.kind, Kind::Log { .. }) || event.kind.span().is_none();
                    at > excess || kept && !matches!(event.kind, Kind::Unknown { .. })
                });
            }
            match groups.iter_mut().find(|known| known.events == way.events) {
                Some(known) => {
                    if known.result != way.result {
                        known.result = NOTHING;
                    }
                    known.facts.retain(|fact| way.facts.contains(fact));
                    known.exit &= way.exit;
                    for entry in &mut known.memory {
                        let same = way.memory.iter().find(|other| other.0 == entry.0);
                        if same != Some(entry) {
                            entry.2 = NOTHING;
                        }
                    }
                    for entry in &way.memory {
                        if !known.memory.iter().any(|other| other.0 == entry.0) {
                            known.memory.push((entry.0, entry.1, NOTHING));
                        }
                    }
                }
                None => groups.push(way),
            }
        }
        if groups.len() > MAX_PATHS {
            self.all.shortened.push(self.id);
            // Ways that succeed say more than ways that give up.
            groups.sort_by_key(|way| (way.exit, std::cmp::Reverse(way.events.len())));
            groups.truncate(MAX_PATHS);
        }
        Summary { ways: groups }
    }
}
