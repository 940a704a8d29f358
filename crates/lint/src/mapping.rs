//! Recognizes calls that map a file the program writes through: such a mapping is persistent memory, even if the
//! program never flushes it.

use crashproof_frontend::frameworks::{Apis, Returns};
use crashproof_frontend::program::ir::{Callee, Function, FunctionId, Op, Operand, Program};

const PROT_WRITE: i64 = 2;
const MAP_TYPE: i64 = 3;
const MAP_PRIVATE: i64 = 2;
const MAP_ANONYMOUS: i64 = 0x20;

/// Functions whose descriptors refer to memory without a file.
const WITHOUT_FILE: [&str; 2] = ["memfd_create", "shm_open"];

/// Whether an instruction maps a file shared and writable, as far as its arguments are known.
pub(crate) fn is_shared_file(program: &Program, apis: &Apis, function: &Function, op: &Op) -> bool {
    let Op::Call { callee: Callee::Direct(called), arguments } = op else { return false };
    let meaning = apis.meaning(&program.function(*called).name);
    if meaning.is_none_or(|meaning| meaning.returns != Returns::Mapping) {
        return false;
    }
    let [_, _, protection, flags, file, ..] = arguments.as_slice() else { return true };
    let is_private = |bits: i64| bits & MAP_TYPE == MAP_PRIVATE || bits & MAP_ANONYMOUS != 0;
    may_be(function, *protection, &|bits| bits & PROT_WRITE != 0)
        && may_be(function, *flags, &|bits| !is_private(bits))
        && *file != Operand::Int(-1)
        && !is_without_file(program, function, *file)
}

/// Whether a number may have a property: it is a constant that has it, or is unknown.
fn may_be(function: &Function, operand: Operand, holds: &dyn Fn(i64) -> bool) -> bool {
    match operand {
        Operand::Int(bits) => holds(bits),
        Operand::Instruction(number) => match &function.instructions[number as usize].op {
            Op::Select { yes, no, .. } => {
                let known = |operand: &Operand| !matches!(operand, Operand::Int(bits) if !holds(*bits));
                known(yes) || known(no)
            }
            Op::Phi { incoming } => {
                incoming.iter().any(|(_, operand)| !matches!(operand, Operand::Int(bits) if !holds(*bits)))
            }
            _ => true,
        },
        _ => true,
    }
}

fn is_without_file(program: &Program, function: &Function, file: Operand) -> bool {
    let Operand::Instruction(number) = file else { return false };
    match &function.instructions[number as usize].op {
        Op::Call { callee: Callee::Direct(called), .. } => {
            WITHOUT_FILE.contains(&program.function(*called).name.as_str())
        }
        _ => false,
    }
}

/// All such calls: function and instruction.
pub(crate) fn all(program: &Program, apis: &Apis) -> Vec<(FunctionId, u32)> {
    let mut all = Vec::new();
    for id in program.defined() {
        let function = program.function(id);
        for (number, instruction) in (0..).zip(&function.instructions) {
            if is_shared_file(program, apis, function, &instruction.op) {
                all.push((id, number));
            }
        }
    }
    all
}
