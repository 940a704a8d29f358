//! Nearby accesses to one object share one check.
//!
//! `p->x += 1; p->y += 2;` or the two halves of an unrolled vector loop check the same pointer again and
//! again, and on a loop that does little else the branches are what instrumentation costs. Plain loads and
//! stores for which one pointer decides, with nothing but computation between them, are brought next to each other; then
//! one branch decides for all of them. The order of accesses does not change.

use rustc_hash::FxHashSet;

use crate::provenance::{decisive, is_volatile_memory};
use crashproof_frontend::llvm::{Block, CallClass, Module, Opcode, Value};
use crashproof_frontend::meaning::Ordering;

/// Something to instrument.
pub(crate) enum Unit<'m> {
    Single(Value<'m>),
    /// At least two consecutive accesses.
    Group(Vec<Value<'m>>),
}

/// A group being collected.
struct Open<'m> {
    base: Value<'m>,
    members: Vec<Value<'m>>,
    /// Everything since the first member.
    span: Vec<Value<'m>>,
    /// Loads of the group and what is computed from them.
    dependent: FxHashSet<Value<'m>>,
}

/// Splits a block into units, in order.
pub(crate) fn units<'m>(module: &Module<'m>, block: Block<'m>) -> Vec<Unit<'m>> {
    let mut units = Vec::new();
    let mut open: Option<Open<'m>> = None;
    for instruction in block.instructions() {
        let base = plain_access(module, instruction).map(decisive);
        if let Some(group) = open.as_mut() {
            if base.is_none() && is_computation(instruction) {
                group.compute(instruction);
                continue;
            }
            if base == Some(group.base) && !group.depends(instruction) {
                group.add(instruction);
                continue;
            }
        }
        units.extend(open.take().map(Open::close));
        match base {
            Some(base) => open = Some(Open::new(base, instruction)),
            None => units.push(Unit::Single(instruction)),
        }
    }
    units.extend(open.map(Open::close));
    units
}

/// The pointer of a load or store that nothing but its address makes special.
fn plain_access<'m>(module: &Module<'m>, instruction: Value<'m>) -> Option<Value<'m>> {
    let pointer = match instruction.opcode() {
        Opcode::LLVMLoad => instruction.operand(0),
        Opcode::LLVMStore => instruction.operand(1),
        _ => return None,
    };
    let plain = instruction.ordering() == Ordering::NotAtomic && !instruction.is_volatile();
    (plain && !is_volatile_memory(module, pointer)).then_some(pointer)
}

impl<'m> Open<'m> {
    fn new(base: Value<'m>, first: Value<'m>) -> Self {
        let mut group = Open { base, members: Vec::new(), span: Vec::new(), dependent: FxHashSet::default() };
        group.add(first);
        group
    }

    fn add(&mut self, access: Value<'m>) {
        self.members.push(access);
        self.span.push(access);
        if access.opcode() == Opcode::LLVMLoad {
            self.dependent.insert(access);
        }
    }

    fn compute(&mut self, instruction: Value<'m>) {
        if self.depends(instruction) {
            self.dependent.insert(instruction);
        }
        self.span.push(instruction);
    }

    fn depends(&self, instruction: Value<'m>) -> bool {
        (0..instruction.operand_count()).any(|i| self.dependent.contains(&instruction.operand(i)))
    }

    /// Moves what does not depend on the group before it and what does behind it.
    fn close(self) -> Unit<'m> {
        let [first, .., last] = self.members[..] else { return Unit::Single(self.members[0]) };
        let end = self.span.iter().position(|i| *i == last).unwrap_or(0);
        let mut behind = Vec::new();
        for instruction in &self.span[..end] {
            if self.members.contains(instruction) {
                continue;
            }
            if self.dependent.contains(instruction) {
                behind.push(*instruction);
            } else {
                instruction.move_before(first);
            }
        }
        if let Some(place) = last.next() {
            behind.iter().for_each(|instruction| instruction.move_before(place));
        }
        Unit::Group(self.members)
    }
}

/// Instructions that may be moved past an access: no effect, no trap, no memory.
fn is_computation(instruction: Value<'_>) -> bool {
    match instruction.opcode() {
        Opcode::LLVMGetElementPtr
        | Opcode::LLVMAdd
        | Opcode::LLVMFAdd
        | Opcode::LLVMSub
        | Opcode::LLVMFSub
        | Opcode::LLVMMul
        | Opcode::LLVMFMul
        | Opcode::LLVMFDiv
        | Opcode::LLVMFNeg
        | Opcode::LLVMAnd
        | Opcode::LLVMOr
        | Opcode::LLVMXor
        | Opcode::LLVMShl
        | Opcode::LLVMLShr
        | Opcode::LLVMAShr
        | Opcode::LLVMICmp
        | Opcode::LLVMFCmp
        | Opcode::LLVMSelect
        | Opcode::LLVMTrunc
        | Opcode::LLVMZExt
        | Opcode::LLVMSExt
        | Opcode::LLVMFPToUI
        | Opcode::LLVMFPToSI
        | Opcode::LLVMUIToFP
        | Opcode::LLVMSIToFP
        | Opcode::LLVMFPTrunc
        | Opcode::LLVMFPExt
        | Opcode::LLVMPtrToInt
        | Opcode::LLVMIntToPtr
        | Opcode::LLVMBitCast
        | Opcode::LLVMFreeze
        | Opcode::LLVMExtractElement
        | Opcode::LLVMInsertElement
        | Opcode::LLVMShuffleVector
        | Opcode::LLVMExtractValue
        | Opcode::LLVMInsertValue => true,
        Opcode::LLVMCall => {
            instruction.call_class() == CallClass::Intrinsic && instruction.is_free_of_effects()
        }
        _ => false,
    }
}
