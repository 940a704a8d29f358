//! Flushes and fences, individually and in loops over a range.

use super::walk::{State, Walk};
use crate::event::Kind;
use crate::expression::{Expression, NOTHING, Persistence};
use crate::loops::FlushLoop;
use crate::span::Length;
use crashproof_frontend::program::ir::{Arithmetic, Op, Operand, PlaceId};

impl Walk<'_, '_> {
    pub(super) fn flush_or_fence(
        &mut self,
        state: &mut State,
        number: u32,
        op: &Op,
        place: PlaceId,
    ) -> Expression {
        match op {
            Op::Flush { address, class } => {
                let address = self.known_address(state, *address, place);
                if self.persistence(address) == Persistence::No {
                    self.emit(state, Kind::Elsewhere, place);
                } else if !self.is_in_flush_loop(number) {
                    // The instruction accepts any address within a line.
                    let span = self.span(address, Length::Known(1));
                    self.emit(state, Kind::Flush { span, class: *class, pages: false }, place);
                }
            }
            Op::Fence { class } => {
                self.emit(state, Kind::Fence { class: *class, drains: true }, place);
            }
            _ => {}
        }
        NOTHING
    }

    pub(super) fn is_in_flush_loop(&self, number: u32) -> bool {
        self.shape.flush_loops.values().any(|flushes| flushes.flush == number)
    }

    /// A call of a flush wrapper in a loop over a range: the range was flushed where the loop began.
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

    pub(super) fn flush_loop(&mut self, state: &mut State, block: u32, flushes: FlushLoop) {
        // It may be recomputed in each iteration.
        let mut start = self.ahead(state, flushes.start, block);
        if flushes.counts_lines.is_some() {
            let unit = self.explorer.expressions.int(flushes.unit);
            start = self.explorer.expressions.arithmetic(Arithmetic::Mul, start, unit);
        }
        if start == NOTHING {
            // Otherwise iteration by iteration.
            self.shape.flush_loops.remove(&block);
            return;
        }
        let unit = self.explorer.expressions.int(flushes.unit);
        let first = self.value(state, flushes.first);
        let first = self.explorer.expressions.arithmetic(Arithmetic::Mul, first, unit);
        let start = self.explorer.expressions.arithmetic(Arithmetic::Add, start, first);
        if start == NOTHING || self.persistence(start) == Persistence::No {
            return;
        }
        let length = match flushes.end.map(|end| self.ahead(state, end, block)) {
            Some(end) if end != NOTHING => {
                let end = self.explorer.expressions.arithmetic(Arithmetic::Mul, end, unit);
                let from = if flushes.counts_bytes { first } else { start };
                let length = self.explorer.expressions.difference(end, from);
                // Rounding the end down loses nothing if its line is flushed as well.
                let more = match flushes.counts_lines {
                    Some(true) => 1,
                    Some(false) => 1 - flushes.unit,
                    None => -flushes.slack,
                };
                let length = self.explorer.expressions.plus(length, more);
                let length = self.explorer.expressions.without_misalignment(length);
                self.length(length)
            }
            _ => Length::Unknown,
        };
        let span = self.span(start, length);
        let place = self.function.instructions[flushes.flush as usize].place;
        self.emit(state, Kind::Flush { span, class: flushes.class, pages: false }, place);
    }
}
