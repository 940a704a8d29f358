//! Instructions that neither call nor branch: computation, memory accesses, flushes and fences.

use super::walk::{State, Walk};
use crate::expression::Expression;
use crashproof_frontend::program::ir::{Op, PlaceId};

impl Walk<'_, '_> {
    pub(super) fn step(&mut self, state: &mut State, number: u32, op: &Op, place: PlaceId) {
        let result = match op {
            // Handled where the paths met.
            Op::Phi { .. } => return,
            Op::Offset { .. }
            | Op::Arithmetic { .. }
            | Op::Compare { .. }
            | Op::Select { .. }
            | Op::Copy { .. }
            | Op::Extract { .. }
            | Op::Insert { .. } => self.computed_value(state, number, op),
            Op::Alloca { .. } | Op::Load { .. } | Op::Store { .. } | Op::Locked { .. } | Op::Bulk { .. } => {
                self.access_memory(state, number, op, place)
            }
            Op::Flush { .. } | Op::Fence { .. } => self.flush_or_fence(state, number, op, place),
            Op::NotUnderstood { what, pointers } => {
                let values: Vec<Expression> = pointers.iter().map(|it| self.value(state, *it)).collect();
                if pointers.is_empty() || self.concerns_persistent(pointers, &values) {
                    self.explorer.verdicts.gaps.not_understood(what, place);
                }
                self.opaque(state, number)
            }
            // `branch` handles terminators, `call` handles calls; the result of the rest is irrelevant.
            _ => self.opaque(state, number),
        };
        state.values[number as usize] = result;
    }
}
