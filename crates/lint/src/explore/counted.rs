//! Numbers counted by loops. A loop with an unknown end is followed for a few iterations that stand for any number, so
//! its counts are arbitrary as well: a list checked for at least four entries may well have them, although two
//! iterations suffice to know what the loop does to persistent memory.
//!
//! Only branches are affected, and only while no store is on its way to memory: a verification that appears to fail
//! must not hide the program behind it, but whether a loop found what it stored is for the path to determine.

use rustc_hash::FxHashSet;

use super::walk::{State, Walk};
use crashproof_frontend::program::ir::{Callee, Op, Operand};

impl Walk<'_, '_> {
    /// A branch with an unknown condition leaves loops: their iteration counts are arbitrary.
    pub(super) fn note_undecided(&mut self, block: u32, to: u32) {
        for (header, a_loop) in &self.shape.loops {
            if a_loop.blocks.contains(&block) && !a_loop.blocks.contains(&to) {
                self.undecided.insert(*header);
            }
        }
    }

    /// Whether a branch's condition is known only because of an arbitrary iteration count.
    pub(super) fn is_by_chance(&self, state: &State, block: u32, condition: Operand) -> bool {
        state.machine.is_at_rest() && self.is_counted(block, condition)
    }

    /// Whether a value, as used in a block, depends on the iteration count of a loop with an unknown end.
    pub(super) fn is_counted(&self, block: u32, value: Operand) -> bool {
        let mut seen = FxHashSet::default();
        let mut work = vec![value];
        while let Some(operand) = work.pop() {
            let Operand::Instruction(number) = operand else { continue };
            if !seen.insert(number) {
                continue;
            }
            match &self.function.instructions[number as usize].op {
                Op::Phi { incoming } => {
                    let is_counter = self.undecided.iter().any(|header| {
                        let head = &self.function.blocks[*header as usize];
                        (head.start..head.end).contains(&number)
                            && !self.shape.loops[header].blocks.contains(&block)
                    });
                    if is_counter {
                        return true;
                    }
                    work.extend(incoming.iter().map(|(_, operand)| *operand));
                }
                Op::Compare { left, right, .. } | Op::Arithmetic { left, right, .. } => {
                    work.extend([*left, *right]);
                }
                Op::Copy { value } => work.push(*value),
                Op::Select { yes, no, .. } => work.extend([*yes, *no]),
                Op::Call { callee: Callee::Direct(called), .. }
                    if self.explorer.summaries.get(called).is_some_and(|summary| summary.counts) =>
                {
                    return true;
                }
                _ => {}
            }
        }
        false
    }
}
