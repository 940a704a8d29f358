//! Instructions that read and write memory.

use super::walk::{State, Walk};
use crate::event::Kind;
use crate::expression::{Expression, Form, NOTHING, Persistence};
use crate::gap::Gap;
use crate::rules::Model;
use crate::span::Length;
use crate::uses::is_used;
use crashproof_frontend::program::ir::{Compare, Op, Operand, PlaceId};

/// A copy or fill of memory.
pub(super) struct Bulk {
    pub(super) target: Expression,
    /// `None` for a fill.
    pub(super) source: Option<Expression>,
    /// What it is filled with, if that is one value.
    pub(super) value: Expression,
    pub(super) length: Length,
    pub(super) nontemporal: bool,
}

impl Walk<'_, '_> {
    pub(super) fn access_memory(
        &mut self,
        state: &mut State,
        number: u32,
        op: &Op,
        place: PlaceId,
    ) -> Expression {
        match op {
            Op::Alloca { .. } => self.explorer.expressions.add(Form::Local(self.id, number)),
            Op::Load { address, bytes } => {
                let address = self.value(state, *address);
                self.read(state, address, Length::Known(*bytes), place);
                self.note_load(state, address, *bytes, number);
                let value = self.load(state, address, *bytes, Some(number));
                self.note_loaded(number, value);
                value
            }
            Op::Store { address: to, value, bytes, nontemporal } => {
                let address = self.known_address(state, *to, place);
                let value = self.value(state, *value);
                if self.is_only_for_the_process(*to) {
                    self.remember(state, address, *bytes, value);
                } else {
                    self.note_store(state, number, (address, *bytes), place);
                    self.store(state, address, value, *bytes, *nontemporal, place);
                }
                NOTHING
            }
            Op::Locked { address, value, bytes, expected: _ } => {
                let address = self.known_address(state, *address, place);
                // An exchange whose result is unused only stores.
                if !matches!(value, Operand::Int(_)) || is_used(self.function, number) {
                    self.note_load(state, address, *bytes, number);
                }
                self.note_store(state, number, (address, *bytes), place);
                let value = self.value(state, *value);
                // Pending flushes are durable before a locked instruction stores.
                self.locked(state, place);
                self.store(state, address, value, *bytes, false, place);
                self.remember(state, address, *bytes, NOTHING);
                self.opaque(state, number)
            }
            Op::Bulk { target, source, value, length } => {
                let target = self.known_address(state, *target, place);
                let source = source.map(|source| self.value(state, source));
                let value = self.value(state, *value);
                let length = self.value(state, *length);
                let length = self.length(length);
                self.bulk(state, &Bulk { target, source, value, length, nontemporal: false }, place);
                target
            }
            _ => NOTHING,
        }
    }

    /// A compare-exchange: one path on which it stores, and one on which the comparison fails and it only fences.
    pub(super) fn compare_exchange(
        &mut self,
        mut state: State,
        number: u32,
        op: &Op,
        place: PlaceId,
    ) -> Vec<State> {
        let Op::Locked { address, bytes, expected: Some(expected), .. } = op else { return vec![state] };
        let address = self.known_address(&state, *address, place);
        let expected = self.value(&state, *expected);
        let (yes, no) = (self.explorer.expressions.int(1), self.explorer.expressions.int(0));
        let mut failed = state.clone();
        self.locked(&mut failed, place);
        let found = self.opaque(&failed, number);
        let same = self.explorer.expressions.comparison(Compare::Eq, found, expected);
        self.assume(&mut failed, same, false);
        self.remember(&mut failed, address, *bytes, found);
        failed.values[number as usize] = self.explorer.expressions.add(Form::Pair(found, no));
        self.access_memory(&mut state, number, op, place);
        let old = if expected == NOTHING { found } else { expected };
        state.values[number as usize] = self.explorer.expressions.add(Form::Pair(old, yes));
        vec![state, failed]
    }

    /// The address of a store or flush. An address that is not tracked may be persistent memory: a gap.
    pub(super) fn known_address(&mut self, state: &State, operand: Operand, place: PlaceId) -> Expression {
        let address = self.value(state, operand);
        match operand {
            Operand::Undefined => self.explorer.verdicts.gaps.add(Gap::Address, place),
            // The first page is never mapped.
            Operand::Int(at) if !(0..4096).contains(&at) => {
                self.explorer.verdicts.gaps.add(Gap::ConstantAddress, place)
            }
            _ => {}
        }
        address
    }

    /// A locked instruction waits for everything before it, regardless of the memory it accesses. If nothing can be
    /// pending it changes nothing, and does not distinguish paths.
    pub(super) fn locked(&mut self, state: &mut State, place: PlaceId) {
        if state.machine.may_wait() {
            self.emit(state, Kind::Locked, place);
        }
    }

    /// Reads matter to strands, and to transactions that exclude other threads.
    pub(super) fn read(&mut self, state: &mut State, address: Expression, length: Length, place: PlaceId) {
        if address != NOTHING && self.persistence(address) != Persistence::No {
            let span = self.span(address, length);
            self.note_touched(state, &span, false);
        }
        let matters =
            self.explorer.model == Model::Strand || self.explorer.isolates && state.machine.wants_reads();
        if matters && self.persistence(address) != Persistence::No {
            let span = self.span(address, length);
            self.emit(state, Kind::Load { span }, place);
        }
    }

    /// Whether an address is in a part of a persistent object that a description calls volatile.
    fn is_only_for_the_process(&self, address: Operand) -> bool {
        let graph = &self.explorer.analysis.graphs[&self.id];
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
        } else if nontemporal {
            // A later fence waits for it, whatever memory it is.
            self.emit(state, Kind::Elsewhere, place);
        }
    }

    pub(super) fn bulk(&mut self, state: &mut State, bulk: &Bulk, place: PlaceId) {
        let &Bulk { target, source, value, length, nontemporal } = bulk;
        if target == NOTHING {
            return;
        }
        let is_persistent = self.persistence(target) != Persistence::No;
        if let Some(source) = source {
            self.read(state, source, length, place);
            self.note_copied(state, source);
        }
        match (length, source) {
            // Structures are copied word by word.
            (Length::Known(bytes), Some(source)) if bytes <= 128 => {
                self.copy_words(state, target, source, bytes);
            }
            (Length::Known(bytes), _) => self.remember(state, target, bytes, NOTHING),
            _ => self.remember(state, target, 1 << 40, NOTHING),
        }
        if is_persistent && length != Length::Known(0) {
            let span = self.span(target, length);
            self.emit(state, Kind::Store { span, value, nontemporal, bulk: true }, place);
        } else if nontemporal {
            self.emit(state, Kind::Elsewhere, place);
        }
    }

    fn copy_words(&mut self, state: &mut State, target: Expression, source: Expression, bytes: u64) {
        let words: Vec<Expression> = (0..bytes / 8)
            .map(|word| {
                let from = self.explorer.expressions.plus(source, word as i64 * 8);
                self.load(state, from, 8, None)
            })
            .collect();
        self.remember(state, target, bytes, NOTHING);
        for (word, value) in (0..).zip(words) {
            let to = self.explorer.expressions.plus(target, word * 8);
            self.remember(state, to, 8, value);
        }
    }
}
