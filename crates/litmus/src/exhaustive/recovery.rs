//! Recovery as it runs when nothing disturbs it: alone, on what the crash left.

use crate::answer::{Effect, InstructionRef, Step};
use crate::{Code, Op};

/// What an undisturbed recovery did.
pub(crate) struct Run {
    /// The assertion that failed, if one did; the run ended there.
    pub(crate) failed: Option<usize>,
    /// Locations whose content it read from before the crash.
    pub(crate) observed: Vec<bool>,
    pub(crate) steps: Vec<Step>,
}

pub(crate) fn run(code: &Code, outcome: &[i64]) -> Run {
    let mut memory = outcome.to_vec();
    let mut own = vec![false; memory.len()];
    let mut registers = vec![0; code.registers.len()];
    let mut run = Run { failed: None, observed: vec![false; memory.len()], steps: Vec::new() };
    let mut pc = 0;
    while let Some(instruction) = code.instructions.get(pc) {
        let mut note = |effect| {
            run.steps.push(Step { instruction: InstructionRef { thread: 0, index: pc }, effect });
        };
        let mut next = pc + 1;
        match &instruction.op {
            Op::Assign(register, value) => registers[usize::from(register.0)] = value.eval(&registers),
            Op::Load(register, at) => {
                let at = usize::from(at.0);
                registers[usize::from(register.0)] = memory[at];
                note(Effect::Read(memory[at]));
                run.observed[at] |= !own[at];
            }
            Op::Store(at, value) | Op::NonTemporal(at, value) => {
                let at = usize::from(at.0);
                memory[at] = value.eval(&registers);
                own[at] = true;
                note(Effect::Cached(memory[at]));
            }
            Op::Rmw(register, at, rmw) => {
                let at = usize::from(at.0);
                let old = memory[at];
                let new = rmw.store(old, &registers);
                note(Effect::Exchanged(old, new));
                run.observed[at] |= !own[at];
                if let Some(new) = new {
                    memory[at] = new;
                    own[at] = true;
                }
                if let Some(register) = register {
                    registers[usize::from(register.0)] = old;
                }
            }
            Op::Flush(_) | Op::FlushOpt(_) => note(Effect::Flushed),
            Op::StoreFence | Op::Fence => note(Effect::Fenced),
            Op::Jump(target) => next = *target,
            Op::JumpIfZero(condition, target) => {
                if condition.eval(&registers) == 0 {
                    next = *target;
                }
            }
            Op::Assert(condition) => {
                if condition.eval(&registers) == 0 {
                    note(Effect::Failed);
                    run.failed = Some(pc);
                    return run;
                }
            }
        }
        pc = next;
    }
    run
}
