//! Variables that hold the address of a mapped pool.
//!
//! Programs map a file once and keep the pointer in a variable. Its value is known to begin a page, so members of the
//! pool's header on one line are known to share it.

use px86::LINE_BYTES;
use rustc_hash::{FxHashMap, FxHashSet};

use crashproof_frontend::frameworks::{Apis, Returns};
use crashproof_frontend::program::ir::{Callee, Function, GlobalId, Op, Operand, Program};

/// Variables to which only mapped files are ever assigned.
pub(super) fn of(program: &Program, apis: &Apis) -> FxHashSet<GlobalId> {
    let mut given: FxHashMap<GlobalId, bool> = FxHashMap::default();
    for function in &program.functions {
        for instruction in &function.instructions {
            if let Op::Store { address: Operand::Global(id, 0), value, .. } = &instruction.op {
                let known = *value == Operand::Int(0) || is_mapped(program, apis, function, *value);
                *given.entry(*id).or_insert(true) &= known;
            }
            for id in leaving(&instruction.op) {
                given.insert(id, false);
            }
        }
    }
    for (_, operand) in program.globals.iter().flat_map(|global| &global.pointers) {
        if let Operand::Global(id, _) = operand {
            given.insert(*id, false);
        }
    }
    given.into_iter().filter(|(_, mapped)| *mapped).map(|(id, _)| id).collect()
}

fn is_mapped(program: &Program, apis: &Apis, function: &Function, value: Operand) -> bool {
    let Operand::Instruction(number) = value else { return false };
    let Op::Call { callee: Callee::Direct(called), .. } = &function.instructions[number as usize].op else {
        return false;
    };
    let meaning = apis.meaning(&program.function(*called).name);
    meaning.is_some_and(|meaning| meaning.returns == Returns::Persistent || meaning.alignment >= LINE_BYTES)
}

/// Variables whose address is taken: they may be assigned through a pointer.
fn leaving(op: &Op) -> Vec<GlobalId> {
    let operands = match op {
        Op::Call { arguments, .. } => arguments.clone(),
        Op::Store { value, .. } | Op::Copy { value } => vec![*value],
        Op::Phi { incoming } => incoming.iter().map(|(_, operand)| *operand).collect(),
        Op::Select { yes, no, .. } => vec![*yes, *no],
        Op::Offset { base, .. } => vec![*base],
        Op::Bulk { target, .. } => vec![*target],
        Op::Locked { address, .. } => vec![*address],
        Op::Return { value: Some(value) } => vec![*value],
        _ => Vec::new(),
    };
    let variable = |operand| match operand {
        Operand::Global(id, _) => Some(id),
        _ => None,
    };
    operands.into_iter().filter_map(variable).collect()
}
