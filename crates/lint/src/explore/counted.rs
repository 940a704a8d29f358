//! Numbers that loops counted. A loop whose end is not known is followed for a few rounds that stand for any number of them, so
//! what it counted on the way is one of many numbers: a list that is checked to have at least four entries may well have them,
//! although two rounds were enough to know what the loop does to persistent memory.
//!
//! Only branches are asked, and only while nothing is on its way to memory: a verification that seems to fail must not hide the
//! program behind it, but whether a loop found what it stored to is for the path to say.

use rustc_hash::FxHashSet;

use super::walk::{State, Walk};
use crashproof_frontend::program::ir::{Callee, Op, Operand};

impl Walk<'_, '_> {
    /// A branch whose condition is not known leads out of loops: how often they ran says nothing.
    pub(super) fn note_undecided(&mut self, block: u32, to: u32) {
        for (header, a_loop) in &self.shape.loops {
            if a_loop.blocks.contains(&block) && !a_loop.blocks.contains(&to) {
                self.undecided.insert(*header);
            }
        }
    }

    /// Whether the condition of a branch is known only because a loop ran as often as it happened to.
    pub(super) fn is_by_chance(&self, state: &State, block: u32, condition: Operand) -> bool {
        state.machine.is_at_rest() && self.is_counted(block, condition)
    }

    /// Whether a value, as it is used in a block, depends on how often a loop ran whose end is not known.
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
