//! Loop iterations that would exceed an array do not happen.
//!
//! `for (i = 0; i < log->n; i++) apply(&log->e[i])` ends before the end of its array, although nothing bounds `n`. An
//! iteration beyond the array would treat the next member as an entry.

use super::walk::{State, Walk};
use crate::expression::Form;
use crashproof_frontend::program::ir::{Op, Operand};

impl Walk<'_, '_> {
    /// Whether a block is in a loop with an unknown end. Elsewhere a program that indexes one row of a table in order
    /// to access all of it is followed as written.
    pub(super) fn may_have_stopped(&self, block: u32) -> bool {
        self.undecided.iter().any(|header| self.shape.loops[header].blocks.contains(&block))
    }

    /// Whether an address beyond the array it is indexed from is computed and accessed.
    pub(super) fn leaves_array(&mut self, state: &State, number: u32, op: &Op) -> bool {
        let Op::Offset { offset, index, within: Some((start, bytes)), .. } = op else { return false };
        let mut at = *offset;
        for (index, scale) in index {
            let index = self.value(state, *index);
            let Form::Int(index) = self.explorer.expressions.form(index) else { return false };
            at = at.wrapping_add(index.wrapping_mul(*scale));
        }
        // Computing the address just past the last element is allowed.
        at >= start + bytes && self.is_accessed(number)
    }

    /// Whether the block that computes an address accesses memory there, or at a member.
    fn is_accessed(&self, number: u32) -> bool {
        let block = &self.function.blocks[self.current as usize];
        let mut addresses = vec![Operand::Instruction(number)];
        for next in number + 1..block.end {
            match &self.function.instructions[next as usize].op {
                Op::Offset { base, index, .. } if index.is_empty() && addresses.contains(base) => {
                    addresses.push(Operand::Instruction(next));
                }
                Op::Load { address, .. } | Op::Store { address, .. } if addresses.contains(address) => {
                    return true;
                }
                _ => {}
            }
        }
        false
    }
}
