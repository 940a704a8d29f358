//! Joins paths with the same effects where they meet.

use std::rc::Rc;

use super::walk::{DISTINGUISHED, EXHAUSTED, Memory, State, Walk, persistence_of};
use crate::expression::{Expression, Form, NOTHING, Origin, Persistence};
use crate::rules::Model;
use crashproof_frontend::program::ir::Op;

/// What a returned value means to the caller.
#[derive(PartialEq)]
enum Outcome {
    Zero,
    Failure,
    Object(Expression),
    Unknown,
    Other,
}

impl Walk<'_, '_> {
    /// Joins states with the same effects. After a call, failures are kept apart from successes, because the next
    /// branch tests for them.
    pub(super) fn join(&mut self, block: u32, call: Option<u32>, states: Vec<State>) -> Vec<State> {
        let came_to = |this: &Self, state: &State| {
            let result = call.map_or(NOTHING, |number| state.values[number as usize]);
            let fails = this.explorer.expressions.is_failure(result);
            (fails, this.explorer.expressions.as_int(result) == Some(0), state.machine.stage(), turns(state))
        };
        let joined = self.join_by(block, states, |this, state| {
            (u64::from(state.trace), came_to(this, state), this.outcomes(block, state))
        });
        if joined.len() <= DISTINGUISHED {
            return joined;
        }
        // Too many: paths that no rule can distinguish any more are joined.
        let joined =
            self.join_by(block, joined, |this, state| (state.machine.signature(), came_to(this, state)));
        // Strands are distinguished by everything they accessed.
        if joined.len() <= self.explorer.bounds.paths / 2 || self.explorer.model == Model::Strand {
            return joined;
        }
        self.join_by(block, joined, |this, state| (state.machine.open(), came_to(this, state)))
    }

    /// The returned values that meet, as far as the caller behaves differently: nothing, a failure, an object. A mapped
    /// pool and the NULL of a failed mapping are not joined into one unknown value.
    fn outcomes(&self, block: u32, state: &State) -> Vec<Outcome> {
        if !matches!(self.function.terminator(block).op, Op::Return { .. }) {
            return Vec::new();
        }
        let phis = self
            .function
            .block(block)
            .take_while(|(_, instruction)| matches!(instruction.op, Op::Phi { .. }));
        phis.map(|(number, _)| {
            let value = state.values[number as usize];
            match self.explorer.expressions.as_int(value) {
                Some(0) => Outcome::Zero,
                Some(_) if self.explorer.expressions.is_failure(value) => Outcome::Failure,
                Some(_) => Outcome::Other,
                None => match self.explorer.expressions.address(value).object {
                    object if self.explorer.expressions.is_made(object) => Outcome::Object(object),
                    _ if value == NOTHING => Outcome::Other,
                    _ => Outcome::Unknown,
                },
            }
        })
        .collect()
    }

    pub(super) fn join_by<K: PartialEq>(
        &mut self,
        block: u32,
        states: Vec<State>,
        key: impl Fn(&Self, &State) -> K,
    ) -> Vec<State> {
        let mut groups: Vec<(K, State)> = Vec::new();
        for mut state in states {
            self.phis(block, &mut state);
            let wanted = key(self, &state);
            match groups.iter().position(|(known, _)| *known == wanted) {
                Some(at) => self.merge(at, &mut groups, state),
                None => groups.push((wanted, state)),
            }
        }
        groups.into_iter().map(|(_, state)| state).collect()
    }

    pub(super) fn merge<K>(&mut self, at: usize, groups: &mut [(K, State)], other: State) {
        self.meetings += 1;
        let differ: Vec<usize> = (0..other.values.len())
            .filter(|number| groups[at].1.values[*number] != other.values[*number])
            .collect();
        let fails: Vec<bool> = differ
            .iter()
            .map(|number| {
                let (own, theirs) = (groups[at].1.values[*number], other.values[*number]);
                self.fails(&groups[at].1, own) && self.fails(&other, theirs)
            })
            .collect();
        let target = &mut groups[at].1;
        if target.rounds != other.rounds {
            let rounds = Rc::make_mut(&mut target.rounds);
            for (header, (count, seen)) in other.rounds.iter() {
                let own = rounds.entry(*header).or_default();
                own.0 = own.0.max(*count);
                for signature in seen {
                    if !own.1.contains(signature) {
                        own.1.push(*signature);
                    }
                }
            }
        }
        for (number, fails) in differ.into_iter().zip(fails) {
            let (own, value) = (target.values[number], other.values[number]);
            if own != NOTHING {
                target.values[number] = if value == NOTHING {
                    NOTHING
                } else if fails {
                    self.explorer.expressions.add(Form::Failure)
                } else if let Some(found) = self.explorer.expressions.either(own, value) {
                    found
                } else if let Some(found) = self.not_null(number as u32, own, value) {
                    found
                } else {
                    let persistence = persistence_of(self.explorer.analysis, self.id, number as u32);
                    // A new unknown value at each join: facts about the previous one do not apply.
                    let origin = self.explorer.expressions.origin(Origin::Meeting(
                        self.id,
                        number as u32,
                        self.meetings,
                    ));
                    let unknown = self.explorer.expressions.add(Form::Opaque(origin, persistence));
                    self.note_declared(number as u32, unknown);
                    unknown
                };
            }
        }
        if target.resets != other.resets {
            Rc::make_mut(&mut target.resets).retain(|member| other.resets.contains(member));
        }
        if !Rc::ptr_eq(&target.reads, &other.reads) && !other.reads.is_subset(&target.reads) {
            Rc::make_mut(&mut target.reads).extend(other.reads.iter());
        }
        if target.trace != other.trace {
            Rc::make_mut(&mut target.machine).meet(&other.machine);
        }
        if target.facts != other.facts {
            let facts = target.facts.iter().filter(|(fact, holds)| other.facts.get(fact) == Some(holds));
            target.facts = Rc::new(facts.map(|(fact, holds)| (*fact, *holds)).collect());
        }
        if !Rc::ptr_eq(&target.memory, &other.memory) && target.memory != other.memory {
            meet(Rc::make_mut(&mut target.memory), &other.memory);
        }
    }

    /// Of a pointer to persistent memory and NULL, chooses the pointer: nothing is ever stored at NULL.
    pub(super) fn not_null(&self, number: u32, one: Expression, other: Expression) -> Option<Expression> {
        let is_null = |value| self.explorer.expressions.as_int(value) == Some(0);
        let pointer = match (is_null(one), is_null(other)) {
            (true, false) => other,
            (false, true) => one,
            _ => return None,
        };
        let leads = persistence_of(self.explorer.analysis, self.id, number) == Persistence::Surely;
        let is_number = self.explorer.expressions.as_int(pointer).is_some();
        (leads && !is_number && pointer != NOTHING).then_some(pointer)
    }

    pub(super) fn phis(&mut self, block: u32, state: &mut State) {
        let mut results = Vec::new();
        for (number, instruction) in self.function.block(block) {
            let Op::Phi { incoming } = &instruction.op else { break };
            if state.from == u32::MAX {
                // Already done: the state went through a join.
                return;
            }
            let value = incoming.iter().find(|(from, _)| *from == state.from).map(|(_, operand)| *operand);
            let value = value.map_or(NOTHING, |operand| self.value(state, operand));
            let value = if value == NOTHING { self.opaque(state, number) } else { value };
            results.push((number, value));
        }
        for (number, value) in results {
            state.values[number as usize] = value;
        }
        state.from = u32::MAX;
    }
}

/// Loop iterations, distinguished only as far as they matter: first, last, or in between.
fn turns(state: &State) -> Vec<(u32, u32)> {
    let turn = |rounds: u32| rounds.min(2) + rounds / EXHAUSTED;
    state.rounds.iter().map(|(header, (rounds, _))| (*header, turn(*rounds))).collect()
}

/// Keeps what both agree on; the rest becomes unknown.
fn meet(own: &mut Memory, other: &Memory) {
    let mut theirs = other.iter().peekable();
    let mut only_theirs = Vec::new();
    for (address, entry) in own.iter_mut() {
        while let Some((before, (bytes, _))) = theirs.next_if(|(at, _)| *at < address) {
            only_theirs.push((*before, *bytes));
        }
        let same = theirs.next_if(|(at, _)| *at == address).is_some_and(|(_, theirs)| theirs == entry);
        if !same {
            entry.1 = NOTHING;
        }
    }
    only_theirs.extend(theirs.map(|(address, (bytes, _))| (*address, *bytes)));
    own.extend(only_theirs.into_iter().map(|(address, bytes)| (address, (bytes, NOTHING))));
}
