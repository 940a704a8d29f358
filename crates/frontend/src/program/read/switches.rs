//! Switches over powers of two, as they were written.
//!
//! `simplifycfg` turns a `switch` with the cases 1, 2, 4 and 8 into a test for a single set bit and a `switch` over the trailing
//! zeros. Two edges then lead to the default, and where they meet nothing is left of what the cases exclude: a caller that
//! passes 8 seems to get there, too.

use crate::llvm::{Opcode, Predicate, Value};

/// The number whose only set bit is tested and switched over, if `branch` is such a test; and the switch.
pub(super) fn tests_for_one_bit<'m>(branch: Value<'m>) -> Option<(Value<'m>, Value<'m>)> {
    let condition = branch.condition()?;
    if condition.opcode() != Opcode::LLVMICmp
        || condition.predicate() != Predicate::LLVMIntEQ
        || condition.operand(1).as_number() != Some(1)
    {
        return None;
    }
    let number = counted(condition.operand(0), "llvm.ctpop")?;
    let (yes, no) = (branch.successors()[0], branch.successors()[1]);
    let switch = yes.terminator();
    if switch.opcode() != Opcode::LLVMSwitch
        || switch.successors()[0] != no
        || counted(switch.operand(0), "llvm.cttz") != Some(number)
    {
        return None;
    }
    let ways_in = |block: &crate::llvm::Block<'m>| block.terminator().successors().contains(&yes);
    (branch.function().blocks().iter().filter(|block| ways_in(block)).count() == 1)
        .then_some((number, switch))
}

/// The number that a `switch` over trailing zeros was written for.
pub(super) fn switched_over<'m>(switch: Value<'m>) -> Option<Value<'m>> {
    counted(switch.operand(0), "llvm.cttz")?;
    let tests = switch.function().blocks().into_iter().map(|block| block.terminator());
    tests
        .filter(|branch| branch.opcode() == Opcode::LLVMBr)
        .find_map(|branch| tests_for_one_bit(branch).filter(|(_, of)| *of == switch))
        .map(|(number, _)| number)
}

/// The number with only this bit, sign-extended as all numbers are.
pub(super) fn bit(number: Value<'_>, bit: i64) -> i64 {
    let top = i64::from(number.ty().int_bits()) - 1;
    if bit == top { -1 << bit } else { 1 << bit }
}

/// The argument of a call of an intrinsic.
fn counted<'m>(call: Value<'m>, intrinsic: &str) -> Option<Value<'m>> {
    let is_call = call.is_instruction() && call.opcode() == Opcode::LLVMCall;
    (is_call && call.callee().name().starts_with(intrinsic)).then(|| call.operand(0))
}
