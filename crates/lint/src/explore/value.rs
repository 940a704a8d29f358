//! The values and memory contents on a path.

use std::rc::Rc;

use super::walk::{MAX_DEPTH, State, Walk, is_declared, persistence_of};
use super::way::{WHOLE_BYTES, whole};
use crate::expression::{Address, Expression, Form, NOTHING, Origin, Persistence};
use crate::machine::Context;
use crate::span::{Length, Meets, Span};
use crashproof_frontend::program::ir::Operand;

impl Walk<'_, '_> {
    pub(super) fn value(&mut self, state: &State, operand: Operand) -> Expression {
        let all = &mut self.explorer.expressions;
        match operand {
            Operand::Instruction(number) => state.values[number as usize],
            Operand::Parameter(number) => all.add(Form::Parameter(number)),
            Operand::Int(value) => all.int(value),
            Operand::Global(id, offset) => {
                let base = all.add(Form::Global(id));
                all.plus(base, offset)
            }
            Operand::Function(id) => all.add(Form::Function(id)),
            Operand::Undefined => NOTHING,
        }
    }

    pub(super) fn visit(&self, state: &State) -> u32 {
        state.rounds.values().map(|(rounds, _)| (*rounds).min(1000)).sum()
    }

    pub(super) fn origin(&mut self, state: &State, number: u32) -> u32 {
        let visit = self.visit(state);
        self.explorer.expressions.origin(Origin::Instruction(self.id, number, visit))
    }

    pub(super) fn opaque(&mut self, state: &State, number: u32) -> Expression {
        let persistence = persistence_of(self.explorer.analysis, self.id, number);
        let origin = self.origin(state, number);
        let unknown = self.explorer.expressions.add(Form::Opaque(origin, persistence));
        self.note_declared(number, unknown);
        unknown
    }

    /// The target of an unknown pointer may be persistent because it was mapped.
    pub(super) fn note_declared(&mut self, number: u32, unknown: Expression) {
        if is_declared(self.explorer.analysis, self.id, number) {
            self.explorer.expressions.set_declared(unknown);
        }
    }

    pub(super) fn persistence(&mut self, address: Expression) -> Persistence {
        if address == NOTHING {
            return Persistence::No;
        }
        self.context().persistence(address)
    }

    pub(super) fn context(&mut self) -> Context<'_> {
        Context {
            program: self.explorer.program,
            apis: self.explorer.apis,
            expressions: &mut self.explorer.expressions,
            extents: &self.explorer.extents,
            names: &self.explorer.names,
            sources: &self.explorer.sources,
            verdicts: &mut self.explorer.verdicts,
            graph: &self.explorer.analysis.graphs[&self.id],
            function: self.id,
            constructed: self.explorer.analysis.constructors.get(&self.id).copied(),
            is_root: self.is_root,
            is_entry: self.is_entry,
            model: self.explorer.model,
            pedantic: self.explorer.pedantic,
            has_transactions: self.explorer.has_transactions,
            has_threads: !self.explorer.analysis.threads.is_empty(),
            bases: &self.explorer.bases,
        }
    }

    pub(super) fn load(
        &mut self,
        state: &State,
        address: Expression,
        bytes: u64,
        number: Option<u32>,
    ) -> Expression {
        if address == NOTHING || self.explorer.expressions.depth(address) > MAX_DEPTH {
            return number.map_or(NOTHING, |number| self.opaque(state, number));
        }
        let at = self.explorer.expressions.address(address);
        match state.memory.get(&at) {
            Some((known, value)) if *known == bytes && *value != NOTHING => *value,
            Some(_) => number.map_or(NOTHING, |number| self.opaque(state, number)),
            None => {
                // A constant to which nothing stores.
                if let Form::Global(id) = self.explorer.expressions.form(at.object)
                    && at.element.is_none()
                {
                    let global = &self.explorer.program.globals[id.0 as usize];
                    if let Some((_, Operand::Function(function))) =
                        global.pointers.iter().find(|(offset, _)| *offset as i64 == at.offset)
                    {
                        return self.explorer.expressions.add(Form::Function(*function));
                    }
                }
                if let Some(number) = number
                    && state.memory.contains_key(&whole(at.object))
                {
                    return self.opaque(state, number);
                }
                // An element at an unknown index may be this one.
                let is_volatile = matches!(
                    self.explorer.expressions.form(at.object),
                    Form::Global(_) | Form::Local(..) | Form::Volatile(_)
                );
                let first = Address { object: at.object, element: None, offset: i64::MIN };
                if is_volatile
                    && at.element.is_none()
                    && state
                        .memory
                        .range(first..)
                        .take_while(|(known, _)| known.object == at.object)
                        .any(|(known, _)| known.element.is_some() && known.offset <= at.offset)
                {
                    return number.map_or(NOTHING, |number| self.opaque(state, number));
                }
                // Part of something that was stored as a whole.
                let inside = state.memory.range(..=at).next_back().is_some_and(|(known, (length, _))| {
                    known.object == at.object
                        && known.element == at.element
                        && known.offset + *length as i64 > at.offset
                });
                match number {
                    Some(number) if inside => self.opaque(state, number),
                    _ => self.explorer.expressions.add(Form::Content(address)),
                }
            }
        }
    }

    /// What a callee loads from a place. The expression does not reveal the size: it is the size stored, since a
    /// four-byte number is read as such.
    pub(super) fn content(&mut self, state: &State, address: Expression) -> Expression {
        const WORD: u64 = 8;
        let at = self.explorer.expressions.address(address);
        let stored = if address == NOTHING { None } else { state.memory.get(&at) };
        match stored {
            Some((bytes, value)) if *bytes <= WORD && *value != NOTHING => *value,
            _ => self.load(state, address, WORD, None),
        }
    }

    /// Records what the graph knows about a pointer if nothing else reveals its target.
    pub(super) fn note_loaded(&mut self, number: u32, value: Expression) {
        if matches!(self.explorer.expressions.form(value), Form::Content(_))
            && self.explorer.expressions.loaded(value).is_none()
            && self.persistence(value) == Persistence::No
        {
            let persistence = persistence_of(self.explorer.analysis, self.id, number);
            if persistence != Persistence::No {
                self.explorer.expressions.set_loaded(value, persistence);
            }
        }
    }

    pub(super) fn remember(&mut self, state: &mut State, address: Expression, bytes: u64, value: Expression) {
        if address == NOTHING {
            return;
        }
        let at = self.explorer.expressions.address(address);
        let memory = Rc::make_mut(&mut state.memory);
        let end = at.offset.saturating_add(bytes as i64);
        let first = Address { object: at.object, element: None, offset: i64::MIN };
        let mut covered = Vec::new();
        let stored = Span { at, length: Length::Known(bytes) };
        let extents = &self.explorer.extents;
        for (known, entry) in memory.range_mut(first..).take_while(|(known, _)| known.object == at.object) {
            if known.element != at.element {
                // Another element, or the same one at another index; the content outside the array is unchanged.
                let other = Span { at: *known, length: Length::Known(entry.0) };
                let is_apart =
                    other.contains(&stored) == Meets::Never || extents.are_in_other_arrays(&other, &stored);
                if !is_apart {
                    entry.1 = NOTHING;
                }
            } else if known.offset < end && known.offset + entry.0 as i64 > at.offset {
                if known.offset >= at.offset {
                    covered.push(*known);
                } else {
                    entry.1 = NOTHING;
                }
            }
        }
        for known in covered {
            memory.remove(&known);
        }
        memory.insert(at, (bytes, value));
    }

    /// Anything may have been stored to an object.
    pub(super) fn forget(&mut self, state: &mut State, object: Expression) {
        let memory = Rc::make_mut(&mut state.memory);
        memory.retain(|at, _| at.object != object);
        memory.insert(whole(object), (WHOLE_BYTES, NOTHING));
    }

    pub(super) fn span(&mut self, address: Expression, length: Length) -> Span {
        Span { at: self.explorer.expressions.address(address), length }
    }

    pub(super) fn length(&mut self, value: Expression) -> Length {
        match self.explorer.expressions.as_int(value) {
            Some(bytes) if bytes >= 0 => Length::Known(bytes as u64),
            _ if value == NOTHING => Length::Unknown,
            _ => Length::Symbol(value),
        }
    }
}
