//! Functions, blocks and instructions.

#![allow(unsafe_code, reason = "see the documentation of the parent module")]

use llvm_sys::core::*;
use llvm_sys::prelude::*;
use llvm_sys::{
    LLVMAtomicOrdering as Ordering, LLVMAtomicRMWBinOp as RmwOp, LLVMIntPredicate, LLVMOpcode as Opcode,
    LLVMTypeKind as Kind,
};
use rustc_hash::FxHashMap;

use crate::meaning::{self, Manner, Scope, Stored};

use super::{Reader, name_of, take_message, text};
use crate::bitcode::ir::{
    Assembly, Binary, Block, BlockId, Callee, Constant, Function, Instruction, Op, Operand, Order, Phi,
    Place, Predicate, Rmw, Terminator, Type, ValueId,
};

/// Numbers of values and blocks of the function being read.
#[derive(Default)]
struct Numbers {
    values: FxHashMap<LLVMValueRef, ValueId>,
    blocks: FxHashMap<LLVMBasicBlockRef, BlockId>,
}

impl Numbers {
    fn add(&mut self, value: LLVMValueRef) -> ValueId {
        let id = ValueId(self.values.len() as u32);
        self.values.insert(value, id);
        id
    }
}

impl Reader {
    pub(super) fn function(&mut self, function: LLVMValueRef) -> Function {
        let mut numbers = Numbers::default();
        let mut parameters = Vec::new();
        let mut copied = Vec::new();
        let mut blocks = Vec::new();
        // SAFETY: a function, its parameters and blocks, walked without changing them.
        let result = unsafe {
            for index in 0..LLVMCountParams(function) {
                let parameter = LLVMGetParam(function, index);
                parameters.push((numbers.add(parameter), self.ty(LLVMTypeOf(parameter))));
                let kind = LLVMGetEnumAttributeKindForName("byval".as_ptr().cast(), 5);
                let attribute = LLVMGetEnumAttributeAtIndex(function, index + 1, kind);
                copied.push((!attribute.is_null()).then(|| self.size(LLVMGetTypeAttributeValue(attribute))));
            }
            let mut block = LLVMGetFirstBasicBlock(function);
            while !block.is_null() {
                numbers.blocks.insert(block, BlockId(blocks.len() as u32));
                blocks.push(block);
                let mut instruction = LLVMGetFirstInstruction(block);
                while !instruction.is_null() {
                    numbers.add(instruction);
                    instruction = LLVMGetNextInstruction(instruction);
                }
                block = LLVMGetNextBasicBlock(block);
            }
            self.ty(LLVMGetReturnType(LLVMGlobalGetValueType(function)))
        };
        let place = self.place(function);
        let blocks = blocks.into_iter().map(|block| self.block(block, &numbers, &place)).collect();
        Function {
            name: name_of(function),
            parameters,
            copied,
            result,
            blocks,
            values: numbers.values.len() as u32,
            place,
        }
    }

    fn block(&mut self, block: LLVMBasicBlockRef, numbers: &Numbers, function: &Place) -> Block {
        let mut phis = Vec::new();
        let mut instructions = Vec::new();
        // Code without a line of its own belongs to the line before it.
        let mut last = function.clone();
        // SAFETY: the block's own instructions.
        unsafe {
            let end = LLVMGetBasicBlockTerminator(block);
            let mut next = LLVMGetFirstInstruction(block);
            while !next.is_null() && next != end {
                let place = self.place(next);
                if place.line != 0 {
                    last = place;
                }
                if LLVMGetInstructionOpcode(next) == Opcode::LLVMPHI {
                    let incoming = (0..LLVMCountIncoming(next))
                        .map(|i| {
                            let from = numbers.blocks[&LLVMGetIncomingBlock(next, i)];
                            (from, self.operand(LLVMGetIncomingValue(next, i), numbers))
                        })
                        .collect();
                    phis.push(Phi { result: numbers.values[&next], ty: self.ty(LLVMTypeOf(next)), incoming });
                } else {
                    instructions.push(Instruction {
                        result: numbers.values[&next],
                        ty: self.ty(LLVMTypeOf(next)),
                        op: self.op(next, numbers),
                        place: last.clone(),
                    });
                }
                next = LLVMGetNextInstruction(next);
            }
            let place = self.place(end);
            if place.line != 0 {
                last = place;
            }
            Block { phis, instructions, terminator: self.terminator(end, numbers), place: last }
        }
    }

    fn operand(&self, value: LLVMValueRef, numbers: &Numbers) -> Operand {
        match numbers.values.get(&value) {
            Some(local) => Operand::Local(*local),
            None => Operand::Constant(self.constant(value)),
        }
    }

    fn terminator(&self, end: LLVMValueRef, numbers: &Numbers) -> Terminator {
        // SAFETY: a terminator; each opcode has the operands asked for.
        unsafe {
            let successor = |i| numbers.blocks[&LLVMGetSuccessor(end, i)];
            match LLVMGetInstructionOpcode(end) {
                Opcode::LLVMRet if LLVMGetNumOperands(end) == 0 => Terminator::Return(None),
                Opcode::LLVMRet => Terminator::Return(Some(self.operand(LLVMGetOperand(end, 0), numbers))),
                Opcode::LLVMBr if LLVMGetNumSuccessors(end) == 1 => Terminator::Jump(successor(0)),
                Opcode::LLVMBr => {
                    let condition = self.operand(LLVMGetCondition(end), numbers);
                    Terminator::Branch(condition, successor(0), successor(1))
                }
                Opcode::LLVMSwitch => {
                    let value = self.operand(LLVMGetOperand(end, 0), numbers);
                    let cases = (1..LLVMGetNumSuccessors(end))
                        .map(|i| (LLVMConstIntGetZExtValue(LLVMGetSwitchCaseValue(end, i)), successor(i)))
                        .collect();
                    Terminator::Switch(value, successor(0), cases)
                }
                Opcode::LLVMUnreachable => Terminator::Unreachable,
                _ => Terminator::Unsupported(printed(end).into()),
            }
        }
    }

    fn op(&self, instruction: LLVMValueRef, numbers: &Numbers) -> Op {
        use Opcode::*;
        // SAFETY: an instruction; each opcode has the operands and attributes asked for.
        unsafe {
            let operand = |i| self.operand(LLVMGetOperand(instruction, i), numbers);
            let binary = |op| Op::Binary(op, operand(0), operand(1));
            let is_vector = LLVMGetTypeKind(LLVMTypeOf(instruction)) == Kind::LLVMVectorTypeKind;
            match LLVMGetInstructionOpcode(instruction) {
                LLVMAdd | LLVMSub | LLVMMul | LLVMUDiv | LLVMSDiv | LLVMURem | LLVMSRem | LLVMShl
                | LLVMLShr | LLVMAShr | LLVMAnd | LLVMOr | LLVMXor | LLVMICmp | LLVMZExt | LLVMSExt
                | LLVMTrunc
                    if is_vector =>
                {
                    Op::Unsupported(format!("vector arithmetic {}", printed(instruction)).into())
                }
                LLVMAdd => binary(Binary::Add),
                LLVMSub => binary(Binary::Sub),
                LLVMMul => binary(Binary::Mul),
                LLVMUDiv => binary(Binary::DivideUnsigned),
                LLVMSDiv => binary(Binary::DivideSigned),
                LLVMURem => binary(Binary::RemainderUnsigned),
                LLVMSRem => binary(Binary::RemainderSigned),
                LLVMShl => binary(Binary::ShiftLeft),
                LLVMLShr => binary(Binary::ShiftRight),
                LLVMAShr => binary(Binary::ShiftRightSigned),
                LLVMAnd => binary(Binary::And),
                LLVMOr => binary(Binary::Or),
                LLVMXor => binary(Binary::Xor),
                LLVMICmp => {
                    let predicate = match LLVMGetICmpPredicate(instruction) {
                        LLVMIntPredicate::LLVMIntEQ => Predicate::Equal,
                        LLVMIntPredicate::LLVMIntNE => Predicate::NotEqual,
                        LLVMIntPredicate::LLVMIntUGT => Predicate::UnsignedGreater,
                        LLVMIntPredicate::LLVMIntUGE => Predicate::UnsignedGreaterEqual,
                        LLVMIntPredicate::LLVMIntULT => Predicate::UnsignedLess,
                        LLVMIntPredicate::LLVMIntULE => Predicate::UnsignedLessEqual,
                        LLVMIntPredicate::LLVMIntSGT => Predicate::SignedGreater,
                        LLVMIntPredicate::LLVMIntSGE => Predicate::SignedGreaterEqual,
                        LLVMIntPredicate::LLVMIntSLT => Predicate::SignedLess,
                        LLVMIntPredicate::LLVMIntSLE => Predicate::SignedLessEqual,
                    };
                    Op::Compare(predicate, operand(0), operand(1))
                }
                LLVMSelect => Op::Select(operand(0), operand(1), operand(2)),
                LLVMZExt => Op::ZeroExtend(operand(0)),
                LLVMSExt => Op::SignExtend(operand(0)),
                LLVMTrunc => Op::Truncate(operand(0)),
                LLVMPtrToInt | LLVMIntToPtr => self.address_cast(instruction, operand(0)),
                LLVMBitCast | LLVMFreeze => Op::Same(operand(0)),
                LLVMGetElementPtr if !is_vector => {
                    let (offset, scaled) = self.offsets(instruction);
                    let scaled =
                        scaled.into_iter().map(|(index, by)| (self.operand(index, numbers), by)).collect();
                    Op::Address { base: operand(0), offset, scaled }
                }
                LLVMAlloca => Op::Alloca {
                    size: self.size(LLVMGetAllocatedType(instruction)),
                    count: operand(0),
                    align: LLVMGetAlignment(instruction).max(1).into(),
                },
                LLVMLoad => Op::Load { from: operand(0), bytes: self.store_size(LLVMTypeOf(instruction)) },
                LLVMStore => {
                    let ty = LLVMTypeOf(LLVMGetOperand(instruction, 0));
                    let manner = self.manner(instruction);
                    Op::Store {
                        value: operand(0),
                        ty: self.ty(ty),
                        to: operand(1),
                        bytes: self.store_size(ty),
                        order: match (order(LLVMGetOrdering(instruction)), manner) {
                            (_, Manner::Exchange) => Order::SequentiallyConsistent,
                            (Order::None, _) => Order::None,
                            _ => Order::Weak,
                        },
                        nontemporal: manner == Manner::NonTemporal,
                    }
                }
                LLVMAtomicRMW => match rmw(LLVMGetAtomicRMWBinOp(instruction)) {
                    Some(op) => Op::Rmw {
                        op,
                        at: operand(0),
                        value: operand(1),
                        bytes: self.store_size(LLVMTypeOf(instruction)),
                    },
                    None => Op::Unsupported(printed(instruction).into()),
                },
                LLVMAtomicCmpXchg => Op::CompareExchange {
                    at: operand(0),
                    expected: operand(1),
                    new: operand(2),
                    bytes: self.store_size(LLVMTypeOf(LLVMGetOperand(instruction, 1))),
                },
                LLVMFence => Op::Fence {
                    order: order(LLVMGetOrdering(instruction)),
                    compiler_only: LLVMIsAtomicSingleThread(instruction) != 0,
                },
                LLVMCall => self.call(instruction, numbers),
                LLVMExtractValue => Op::Extract(operand(0), indices(instruction)),
                LLVMInsertValue => Op::Insert(operand(0), operand(1), indices(instruction)),
                LLVMExtractElement => match lane(LLVMGetOperand(instruction, 1)) {
                    Some(lane) => Op::Extract(operand(0), vec![lane]),
                    None => Op::Unsupported(printed(instruction).into()),
                },
                LLVMInsertElement => match lane(LLVMGetOperand(instruction, 2)) {
                    Some(lane) => Op::Insert(operand(0), operand(1), vec![lane]),
                    None => Op::Unsupported(printed(instruction).into()),
                },
                LLVMFAdd | LLVMFSub | LLVMFMul | LLVMFDiv | LLVMFRem | LLVMFNeg | LLVMFCmp | LLVMFPToSI
                | LLVMFPToUI | LLVMSIToFP | LLVMUIToFP | LLVMFPTrunc | LLVMFPExt => {
                    Op::Unsupported("floating-point arithmetic".into())
                }
                _ => Op::Unsupported(printed(instruction).into()),
            }
        }
    }

    /// How a store reaches memory.
    unsafe fn manner(&self, store: LLVMValueRef) -> Manner {
        // SAFETY: a store; only atomic ones have a scope.
        unsafe {
            let value = LLVMGetOperand(store, 0);
            let ty = LLVMTypeOf(value);
            let stored = match LLVMGetTypeKind(ty) {
                Kind::LLVMVectorTypeKind => Stored::Vector,
                Kind::LLVMIntegerTypeKind | Kind::LLVMPointerTypeKind => Stored::General,
                Kind::LLVMStructTypeKind | Kind::LLVMArrayTypeKind => Stored::Aggregate,
                _ if !LLVMIsAConstant(value).is_null() => Stored::FloatConstant,
                _ => Stored::Float,
            };
            let ordering = match order(LLVMGetOrdering(store)) {
                Order::None => meaning::Ordering::NotAtomic,
                Order::Weak => meaning::Ordering::Weak,
                Order::SequentiallyConsistent => meaning::Ordering::SequentiallyConsistent,
            };
            let single = ordering != meaning::Ordering::NotAtomic && LLVMIsAtomicSingleThread(store) != 0;
            let scope = if single { Scope::SingleThread } else { Scope::System };
            let hint = LLVMHasMetadata(store) != 0 && !LLVMGetMetadata(store, self.nontemporal).is_null();
            meaning::store(ordering, scope, hint, stored, self.store_size(ty))
        }
    }

    /// `ptrtoint` and `inttoptr` are free where the widths agree.
    unsafe fn address_cast(&self, instruction: LLVMValueRef, operand: Operand) -> Op {
        // SAFETY: a cast instruction has one operand.
        let (from, to) = unsafe {
            (self.ty(LLVMTypeOf(LLVMGetOperand(instruction, 0))), self.ty(LLVMTypeOf(instruction)))
        };
        match (from, to) {
            (Type::Pointer, Type::Int(64)) | (Type::Int(64), Type::Pointer) => Op::Same(operand),
            (Type::Pointer, Type::Int(bits)) if bits < 64 => Op::Truncate(operand),
            (Type::Int(bits), Type::Pointer) if bits < 64 => Op::ZeroExtend(operand),
            _ => Op::Unsupported(printed(instruction).into()),
        }
    }

    /// The constant part of a `getelementptr`, and what is left: index and stride.
    pub(super) fn offsets(&self, value: LLVMValueRef) -> (i64, Vec<(LLVMValueRef, i64)>) {
        let mut offset = 0i64;
        let mut scaled = Vec::new();
        // SAFETY: an instruction or constant expression of that opcode; the types are walked as it does.
        unsafe {
            let mut ty = LLVMGetGEPSourceElementType(value);
            for position in 1..LLVMGetNumOperands(value) as u32 {
                let index = LLVMGetOperand(value, position);
                let stride = if position == 1 {
                    self.size(ty)
                } else if LLVMGetTypeKind(ty) == Kind::LLVMStructTypeKind {
                    let member = LLVMConstIntGetZExtValue(index) as u32;
                    offset += self.member_offset(ty, member) as i64;
                    ty = LLVMStructGetTypeAtIndex(ty, member);
                    continue;
                } else {
                    ty = LLVMGetElementType(ty);
                    self.size(ty)
                } as i64;
                if LLVMIsAConstantInt(index).is_null() {
                    scaled.push((index, stride));
                } else {
                    offset = offset.wrapping_add(LLVMConstIntGetSExtValue(index).wrapping_mul(stride));
                }
            }
        }
        (offset, scaled)
    }

    unsafe fn call(&self, call: LLVMValueRef, numbers: &Numbers) -> Op {
        // SAFETY: a call; its callee is asked what it is first.
        unsafe {
            let target = LLVMGetCalledValue(call);
            let count = LLVMGetNumArgOperands(call);
            let byval = LLVMGetEnumAttributeKindForName("byval".as_ptr().cast(), 5);
            let parameters = LLVMCountParamTypes(LLVMGetCalledFunctionType(call));
            let arguments = (0..count)
                .map(|i| {
                    // Where a parameter says that it is a copy, the copy is made. Here there is no parameter.
                    if i >= parameters && !LLVMGetCallSiteEnumAttribute(call, i + 1, byval).is_null() {
                        let what = "a structure among variable arguments";
                        return Operand::Constant(Constant::Unsupported(what.into()));
                    }
                    self.operand(LLVMGetOperand(call, i), numbers)
                })
                .collect();
            let callee = if !LLVMIsAInlineAsm(target).is_null() {
                Callee::Assembly(self.assembly(call, target, count))
            } else {
                match self.functions.get(&target) {
                    Some(function) => Callee::Function(*function),
                    None => Callee::Pointer(self.operand(target, numbers)),
                }
            };
            Op::Call { callee, arguments }
        }
    }

    unsafe fn assembly(&self, call: LLVMValueRef, target: LLVMValueRef, count: u32) -> Assembly {
        // SAFETY: `target` is inline assembly.
        unsafe {
            let (mut length, mut constraint_length) = (0, 0);
            let template = LLVMGetInlineAsmAsmString(target, &raw mut length);
            let constraints = LLVMGetInlineAsmConstraintString(target, &raw mut constraint_length);
            let intel = llvm_sys::LLVMInlineAsmDialect::LLVMInlineAsmDialectIntel;
            let kind = LLVMGetEnumAttributeKindForName("elementtype".as_ptr().cast(), 11);
            let memory = (0..count)
                .map(|i| {
                    let attribute = LLVMGetCallSiteEnumAttribute(call, i + 1, kind);
                    (!attribute.is_null()).then(|| self.store_size(LLVMGetTypeAttributeValue(attribute)))
                })
                .collect();
            Assembly {
                template: text(template, length),
                constraints: text(constraints, constraint_length),
                intel: LLVMGetInlineAsmDialect(target) == intel,
                memory,
            }
        }
    }
}

fn order(ordering: Ordering) -> Order {
    match ordering {
        Ordering::LLVMAtomicOrderingNotAtomic => Order::None,
        Ordering::LLVMAtomicOrderingSequentiallyConsistent => Order::SequentiallyConsistent,
        _ => Order::Weak,
    }
}

fn rmw(op: RmwOp) -> Option<Rmw> {
    Some(match op {
        RmwOp::LLVMAtomicRMWBinOpXchg => Rmw::Exchange,
        RmwOp::LLVMAtomicRMWBinOpAdd => Rmw::Add,
        RmwOp::LLVMAtomicRMWBinOpSub => Rmw::Sub,
        RmwOp::LLVMAtomicRMWBinOpAnd => Rmw::And,
        RmwOp::LLVMAtomicRMWBinOpNand => Rmw::Nand,
        RmwOp::LLVMAtomicRMWBinOpOr => Rmw::Or,
        RmwOp::LLVMAtomicRMWBinOpXor => Rmw::Xor,
        RmwOp::LLVMAtomicRMWBinOpMax => Rmw::Max,
        RmwOp::LLVMAtomicRMWBinOpMin => Rmw::Min,
        RmwOp::LLVMAtomicRMWBinOpUMax => Rmw::UnsignedMax,
        RmwOp::LLVMAtomicRMWBinOpUMin => Rmw::UnsignedMin,
        _ => return None,
    })
}

fn lane(index: LLVMValueRef) -> Option<u32> {
    // SAFETY: asked of constant integers only.
    unsafe { (!LLVMIsAConstantInt(index).is_null()).then(|| LLVMConstIntGetZExtValue(index) as u32) }
}

fn indices(instruction: LLVMValueRef) -> Vec<u32> {
    // SAFETY: called for `extractvalue` and `insertvalue`, which carry so many indices.
    unsafe {
        let count = LLVMGetNumIndices(instruction) as usize;
        std::slice::from_raw_parts(LLVMGetIndices(instruction), count).to_vec()
    }
}

fn printed(value: LLVMValueRef) -> String {
    // SAFETY: any value can be printed.
    let whole = take_message(unsafe { LLVMPrintValueToString(value) });
    // Metadata references say nothing to the reader.
    whole.split(", !").next().unwrap_or(&whole).trim().to_owned()
}
