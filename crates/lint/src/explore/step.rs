//! Instructions that neither call nor branch.

use super::{State, Walk};
use crate::event::Kind;
use crate::expression::{Expression, Form, NOTHING, Persistence};
use crate::rules::Model;
use crate::span::Length;
use crashproof_frontend::program::ir::{Arithmetic, Op, Operand, PlaceId};

impl Walk<'_, '_> {
    pub(super) fn plain(&mut self, state: &mut State, number: u32, op: &Op, place: PlaceId) {
        let result = match op {
            // Done where the paths met.
            Op::Phi { .. } => return,
            Op::Alloca { .. } => self.all.expressions.add(Form::Local(self.id, number)),
            Op::Load { address, bytes } => {
                let address = self.value(state, *address);
                if self.is_read_of_interest(state) && self.persistence(address) != Persistence::No {
                    let span = self.span(address, Length::Known(*bytes));
                    self.emit(state, Kind::Load { span }, place);
                }
                let value = self.load(state, address, *bytes, Some(number));
                self.note_loaded(number, value);
                value
            }
            Op::Store { address: to, value, bytes, nontemporal } => {
                let address = self.value(state, *to);
                let value = self.value(state, *value);
                if self.is_only_for_the_process(*to) {
                    self.remember(state, address, *bytes, value);
                } else {
                    self.store(state, address, value, *bytes, *nontemporal, place);
                }
                NOTHING
            }
            Op::Locked { address, value, bytes } => {
                let address = self.value(state, *address);
                let value = self.value(state, *value);
                if self.persistence(address) != Persistence::No {
                    self.store(state, address, value, *bytes, false, place);
                    self.remember(state, address, *bytes, NOTHING);
                    self.emit(state, Kind::Locked, place);
                }
                self.opaque(state, number)
            }
            Op::Offset { base, offset, index } => {
                let mut address = self.value(state, *base);
                for (operand, scale) in index {
                    let value = self.value(state, *operand);
                    if value == NOTHING {
                        address = NOTHING;
                        break;
                    }
                    address = self.all.expressions.element(address, value, *scale);
                }
                if address == NOTHING {
                    self.opaque(state, number)
                } else {
                    self.all.expressions.plus(address, *offset)
                }
            }
            Op::Arithmetic { what, left, right } => {
                let (left, right) = (self.value(state, *left), self.value(state, *right));
                match self.all.expressions.arithmetic(*what, left, right) {
                    NOTHING => self.opaque(state, number),
                    value => value,
                }
            }
            Op::Compare { what, left, right } => {
                let (left, right) = (self.value(state, *left), self.value(state, *right));
                match self.all.expressions.comparison(*what, left, right) {
                    NOTHING => self.opaque(state, number),
                    value => value,
                }
            }
            Op::Select { condition, yes, no } => {
                let condition = self.value(state, *condition);
                let (yes, no) = (self.value(state, *yes), self.value(state, *no));
                match self.truth(state, condition) {
                    Some(true) => yes,
                    Some(false) => no,
                    None if yes == no => yes,
                    // `a && b` and `a || b`, as the optimiser writes them.
                    None if self.is_condition(yes) && self.all.expressions.as_int(no) == Some(0) => {
                        self.all.expressions.arithmetic(Arithmetic::And, condition, yes)
                    }
                    None if self.is_condition(no)
                        && self.all.expressions.as_int(yes).is_some_and(|n| n & 1 == 1) =>
                    {
                        self.all.expressions.arithmetic(Arithmetic::Or, condition, no)
                    }
                    None => self.opaque(state, number),
                }
            }
            Op::Copy { value } => match self.value(state, *value) {
                NOTHING => self.opaque(state, number),
                value => value,
            },
            Op::Extract { aggregate, index } => {
                let aggregate = self.value(state, *aggregate);
                match (self.all.expressions.form(aggregate), index) {
                    (Form::Pair(left, _), 0) if left != NOTHING => left,
                    (Form::Pair(_, right), 1) if right != NOTHING => right,
                    _ => self.opaque(state, number),
                }
            }
            Op::Insert { aggregate, value, index } => {
                let aggregate = self.value(state, *aggregate);
                let value = self.value(state, *value);
                let (left, right) = match self.all.expressions.form(aggregate) {
                    Form::Pair(left, right) => (left, right),
                    _ => (NOTHING, NOTHING),
                };
                match index {
                    0 => self.all.expressions.add(Form::Pair(value, right)),
                    1 => self.all.expressions.add(Form::Pair(left, value)),
                    _ => NOTHING,
                }
            }
            Op::Flush { address, class } => {
                let address = self.value(state, *address);
                if self.persistence(address) == Persistence::No {
                    self.emit(state, Kind::Elsewhere, place);
                } else if !self.is_in_flush_loop(number) {
                    // The instruction takes any address of a line.
                    let span = self.span(address, Length::Known(1));
                    self.emit(state, Kind::Flush { span, class: *class }, place);
                }
                NOTHING
            }
            Op::Fence { class } => {
                self.emit(state, Kind::Fence { class: *class, drains: true }, place);
                NOTHING
            }
            Op::Bulk { target, source, value, length } => {
                let target = self.value(state, *target);
                let source = source.map(|source| self.value(state, source));
                let value = self.value(state, *value);
                let length = self.value(state, *length);
                let length = self.length(length);
                self.bulk(state, target, source, value, length, false, place);
                target
            }
            Op::NotUnderstood { what, pointers } => {
                let values: Vec<Expression> = pointers.iter().map(|it| self.value(state, *it)).collect();
                let touches = |walk: &mut Self, it: &Expression| walk.persistence(*it) != Persistence::No;
                if values.is_empty() || values.iter().any(|it| touches(self, it)) {
                    self.all.not_understood.insert((place, what.clone()));
                }
                self.opaque(state, number)
            }
            _ => self.opaque(state, number),
        };
        state.values[number as usize] = result;
    }

    /// Whether rules look at what is read: strands do, and transactions that keep other threads out.
    fn is_read_of_interest(&self, state: &State) -> bool {
        self.all.model == Model::Strand || self.all.isolates && state.machine.wants_reads()
    }

    /// Whether an address lies in a part of a persistent object that a description calls volatile.
    fn is_only_for_the_process(&self, address: Operand) -> bool {
        let graph = &self.all.analysis.graphs[&self.id];
        graph.lookup(address).is_some_and(|cell| graph.graph.is_volatile_part(cell))
    }

    pub(super) fn store(
        &mut self,
        state: &mut State,
        address: Expression,
        value: Expression,
        bytes: u64,
        nontemporal: bool,
        place: PlaceId,
    ) {
        self.remember(state, address, bytes, value);
        if self.persistence(address) != Persistence::No {
            let span = self.span(address, Length::Known(bytes));
            self.emit(state, Kind::Store { span, value, nontemporal, bulk: bytes > 16 }, place);
        }
    }

    #[allow(clippy::too_many_arguments, reason = "all of it is the one instruction")]
    pub(super) fn bulk(
        &mut self,
        state: &mut State,
        target: Expression,
        source: Option<Expression>,
        value: Expression,
        length: Length,
        nontemporal: bool,
        place: PlaceId,
    ) {
        if target == NOTHING {
            return;
        }
        let is_persistent = self.persistence(target) != Persistence::No;
        if self.is_read_of_interest(state)
            && let Some(source) = source
            && self.persistence(source) != Persistence::No
        {
            let span = self.span(source, length);
            self.emit(state, Kind::Load { span }, place);
        }
        match length {
            // Structures are copied word by word.
            Length::Known(bytes) if bytes <= 128 && source.is_some() => {
                let source = source.expect("just checked");
                let words: Vec<Expression> = (0..bytes / 8)
                    .map(|word| {
                        let from = self.all.expressions.plus(source, word as i64 * 8);
                        self.load(state, from, 8, None)
                    })
                    .collect();
                self.remember(state, target, bytes, NOTHING);
                for (word, value) in (0..).zip(words) {
                    let to = self.all.expressions.plus(target, word * 8);
                    self.remember(state, to, 8, value);
                }
            }
            Length::Known(bytes) => {
                self.remember(state, target, bytes, NOTHING);
            }
            _ => self.remember(state, target, 1 << 40, NOTHING),
        }
        if is_persistent && length != Length::Known(0) {
            let span = self.span(target, length);
            self.emit(state, Kind::Store { span, value, nontemporal, bulk: true }, place);
        }
    }

    pub(super) fn is_in_flush_loop(&self, number: u32) -> bool {
        self.shape.flush_loops.values().any(|flushes| flushes.flush == number)
    }

    /// A call that is a name for a flush, in a loop over a range: the range was flushed where the loop began.
    pub(super) fn flush_in_loop(
        &mut self,
        state: &mut State,
        number: u32,
        arguments: &[Operand],
        place: PlaceId,
    ) {
        let values: Vec<Expression> = arguments.iter().map(|operand| self.value(state, *operand)).collect();
        if values.iter().all(|value| self.persistence(*value) == Persistence::No) {
            self.emit(state, Kind::Elsewhere, place);
        }
        state.values[number as usize] = self.opaque(state, number);
    }

    pub(super) fn flush_loop(&mut self, state: &mut State, flushes: crate::loops::FlushLoop) {
        let start = self.value(state, flushes.start);
        let first = self.value(state, flushes.first);
        let start = self.all.expressions.arithmetic(Arithmetic::Add, start, first);
        if start == NOTHING || self.persistence(start) == Persistence::No {
            return;
        }
        let length = match flushes.end.map(|end| self.ahead(state, end)) {
            Some(end) if end != NOTHING => {
                let from = if flushes.counts_bytes { first } else { start };
                let length = self.all.expressions.difference(end, from);
                let length = self.all.expressions.without_misalignment(length);
                self.length(length)
            }
            _ => Length::Unknown,
        };
        let span = self.span(start, length);
        let place = self.function.instructions[flushes.flush as usize].place;
        self.emit(state, Kind::Flush { span, class: flushes.class }, place);
    }

    /// The value of an operand that may be computed only later, from values that are there now.
    pub(super) fn ahead(&mut self, state: &State, operand: Operand) -> Expression {
        let value = self.value(state, operand);
        let Operand::Instruction(number) = operand else { return value };
        if value != NOTHING {
            return value;
        }
        match &self.function.instructions[number as usize].op {
            Op::Copy { value } => self.ahead(state, *value),
            Op::Arithmetic { what, left, right } => {
                let (left, right) = (self.ahead(state, *left), self.ahead(state, *right));
                self.all.expressions.arithmetic(*what, left, right)
            }
            Op::Offset { base, offset, index } => {
                let mut address = self.ahead(state, *base);
                for (operand, scale) in index {
                    let value = self.ahead(state, *operand);
                    if address == NOTHING || value == NOTHING {
                        return NOTHING;
                    }
                    address = self.all.expressions.element(address, value, *scale);
                }
                self.all.expressions.plus(address, *offset)
            }
            _ => NOTHING,
        }
    }
}
