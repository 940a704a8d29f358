//! Functions, blocks and instructions.

use rustc_hash::FxHashMap;

use super::reader::Reader;
use crate::bitcode::ir::{
    Assembly, Binary, Block, BlockId, Callee, Constant, Function, Instruction, Op, Operand, Order, Phi,
    Place, Predicate, Rmw, Terminator, Type, ValueId,
};
use crate::llvm::{self, Opcode, RmwOp, TypeKind, Value};
use crate::meaning::{Fence, Manner, Ordering, fence};

/// Numbers of values and blocks of the function being read.
#[derive(Default)]
struct Numbers<'m> {
    values: FxHashMap<Value<'m>, ValueId>,
    blocks: FxHashMap<llvm::Block<'m>, BlockId>,
}

impl<'m> Numbers<'m> {
    fn add(&mut self, value: Value<'m>) -> ValueId {
        let id = ValueId(self.values.len() as u32);
        self.values.insert(value, id);
        id
    }
}

impl<'m> Reader<'m> {
    pub(crate) fn function(&mut self, function: Value<'m>) -> Function {
        let mut numbers = Numbers::default();
        let mut parameters = Vec::new();
        let mut copied = Vec::new();
        for (parameter, index) in function.parameters().into_iter().zip(0..) {
            parameters.push((numbers.add(parameter), self.ty(parameter.ty())));
            let copy = function.parameter_type_attribute(index, "byval");
            copied.push(copy.map(|ty| self.module.alloc_size(ty)));
        }
        let blocks = function.blocks();
        for (block, index) in blocks.iter().zip(0..) {
            numbers.blocks.insert(*block, BlockId(index));
            for instruction in block.instructions() {
                numbers.add(instruction);
            }
        }
        let place = self.place(function);
        let blocks = blocks.into_iter().map(|block| self.block(block, &numbers, &place)).collect();
        Function {
            name: function.name(),
            parameters,
            copied,
            result: self.ty(function.returned_type()),
            blocks,
            values: numbers.values.len() as u32,
            place,
            pure: function.is_pure(),
            local: function.is_local(),
        }
    }

    fn block(&mut self, block: llvm::Block<'m>, numbers: &Numbers<'m>, function: &Place) -> Block {
        let (mut phis, mut instructions) = (Vec::new(), Vec::new());
        // Code without its own line belongs to the preceding line.
        let mut last = function.clone();
        let end = block.terminator();
        for next in block.instructions() {
            let place = self.place(next);
            if place.line != 0 {
                last = place;
            }
            if next == end {
                break;
            }
            let (result, ty) = (numbers.values[&next], self.ty(next.ty()));
            if next.opcode() == Opcode::LLVMPHI {
                let incoming = next.incoming_pairs().into_iter();
                let incoming =
                    incoming.map(|(value, from)| (numbers.blocks[&from], self.operand(value, numbers)));
                phis.push(Phi { result, ty, incoming: incoming.collect() });
            } else {
                instructions.push(Instruction {
                    result,
                    ty,
                    op: self.op(next, numbers),
                    place: last.clone(),
                });
            }
        }
        Block { phis, instructions, terminator: self.terminator(end, numbers), place: last }
    }

    fn operand(&self, value: Value<'m>, numbers: &Numbers<'m>) -> Operand {
        match numbers.values.get(&value) {
            Some(local) => Operand::Local(*local),
            None => Operand::Constant(self.constant(value)),
        }
    }

    fn terminator(&self, end: Value<'m>, numbers: &Numbers<'m>) -> Terminator {
        let to: Vec<BlockId> = end.successors().iter().map(|block| numbers.blocks[block]).collect();
        match end.opcode() {
            Opcode::LLVMRet if end.operand_count() == 0 => Terminator::Return(None),
            Opcode::LLVMRet => Terminator::Return(Some(self.operand(end.operand(0), numbers))),
            Opcode::LLVMBr => match end.condition() {
                None => Terminator::Jump(to[0]),
                Some(condition) => Terminator::Branch(self.operand(condition, numbers), to[0], to[1]),
            },
            Opcode::LLVMSwitch => {
                let value = self.operand(end.operand(0), numbers);
                let mut cases = Vec::new();
                for (case, block) in (0..).zip(&to).skip(1) {
                    match end.case_value(case).as_number() {
                        Some(number) => cases.push((number, *block)),
                        None => return Terminator::Unsupported(end.printed().into()),
                    }
                }
                Terminator::Switch(value, to[0], cases)
            }
            Opcode::LLVMUnreachable => Terminator::Unreachable,
            _ => Terminator::Unsupported(end.printed().into()),
        }
    }

    fn op(&self, instruction: Value<'m>, numbers: &Numbers<'m>) -> Op {
        use Opcode::*;
        let operand = |index| self.operand(instruction.operand(index), numbers);
        let unsupported = || Op::Unsupported(instruction.printed().into());
        let opcode = instruction.opcode();
        let is_vector = instruction.ty().is_fixed_vector();
        let is_integer =
            matches!(opcode, LLVMICmp | LLVMZExt | LLVMSExt | LLVMTrunc) || binary(opcode).is_some();
        match opcode {
            _ if is_vector && is_integer => {
                Op::Unsupported(format!("vector arithmetic {}", instruction.printed()).into())
            }
            LLVMICmp => Op::Compare(predicate(instruction.predicate()), operand(0), operand(1)),
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
                size: self.module.alloc_size(instruction.allocated_type()),
                count: operand(0),
                align: instruction.alignment().max(1).into(),
            },
            LLVMLoad => Op::Load { from: operand(0), bytes: self.module.store_size(instruction.ty()) },
            LLVMStore => self.store(instruction, numbers),
            LLVMAtomicRMW => match rmw(instruction.rmw_operation()) {
                Some(op) => {
                    let bytes = self.module.store_size(instruction.ty());
                    Op::Rmw { op, at: operand(0), value: operand(1), bytes }
                }
                None => unsupported(),
            },
            LLVMAtomicCmpXchg => {
                let bytes = self.module.store_size(instruction.operand(1).ty());
                Op::CompareExchange { at: operand(0), expected: operand(1), new: operand(2), bytes }
            }
            // Everything except instructions concerns only the compiler.
            LLVMFence => match fence(instruction.ordering(), instruction.scope()) {
                Some(Fence::Full) => Op::Fence { order: Order::SequentiallyConsistent, compiler_only: false },
                _ => Op::Fence { order: Order::Weak, compiler_only: true },
            },
            LLVMCall => self.call(instruction, numbers),
            LLVMExtractValue => Op::Extract(operand(0), instruction.indices()),
            LLVMInsertValue => Op::Insert(operand(0), operand(1), instruction.indices()),
            LLVMExtractElement => match instruction.operand(1).as_number() {
                Some(lane) => Op::Extract(operand(0), vec![lane as u32]),
                None => unsupported(),
            },
            LLVMInsertElement => match instruction.operand(2).as_number() {
                Some(lane) => Op::Insert(operand(0), operand(1), vec![lane as u32]),
                None => unsupported(),
            },
            LLVMFAdd | LLVMFSub | LLVMFMul | LLVMFDiv | LLVMFRem | LLVMFNeg | LLVMFCmp | LLVMFPToSI
            | LLVMFPToUI | LLVMSIToFP | LLVMUIToFP | LLVMFPTrunc | LLVMFPExt => {
                Op::Unsupported("floating-point arithmetic".into())
            }
            _ => match binary(opcode) {
                Some(op) => Op::Binary(op, operand(0), operand(1)),
                None => unsupported(),
            },
        }
    }

    fn store(&self, store: Value<'m>, numbers: &Numbers<'m>) -> Op {
        let ty = store.operand(0).ty();
        let manner = self.module.store_manner(store);
        Op::Store {
            value: self.operand(store.operand(0), numbers),
            ty: self.ty(ty),
            to: self.operand(store.operand(1), numbers),
            bytes: self.module.store_size(ty),
            order: match (store.ordering(), manner) {
                (_, Manner::Exchange) => Order::SequentiallyConsistent,
                (Ordering::NotAtomic, _) => Order::None,
                _ => Order::Weak,
            },
            nontemporal: manner == Manner::NonTemporal,
        }
    }

    /// `ptrtoint` and `inttoptr` are free where the widths agree.
    fn address_cast(&self, instruction: Value<'m>, operand: Operand) -> Op {
        match (self.ty(instruction.operand(0).ty()), self.ty(instruction.ty())) {
            (Type::Pointer, Type::Int(64)) | (Type::Int(64), Type::Pointer) => Op::Same(operand),
            (Type::Pointer, Type::Int(bits)) if bits < 64 => Op::Truncate(operand),
            (Type::Int(bits), Type::Pointer) if bits < 64 => Op::ZeroExtend(operand),
            _ => Op::Unsupported(instruction.printed().into()),
        }
    }

    /// The constant part of a `getelementptr`, and the rest: index and stride.
    pub(crate) fn offsets(&self, value: Value<'m>) -> (i64, Vec<(Value<'m>, i64)>) {
        let mut offset = 0i64;
        let mut scaled = Vec::new();
        let mut ty = value.gep_source_type();
        for position in 1..value.operand_count() {
            let index = value.operand(position);
            let stride = if position == 1 {
                self.module.alloc_size(ty)
            } else if ty.kind() == TypeKind::LLVMStructTypeKind {
                let member = index.as_number().unwrap_or(0) as u32;
                offset += self.module.member_offset(ty, member) as i64;
                ty = ty.member(member);
                continue;
            } else {
                ty = ty.element();
                self.module.alloc_size(ty)
            } as i64;
            match index.as_signed() {
                None => scaled.push((index, stride)),
                Some(number) => offset = offset.wrapping_add(number.wrapping_mul(stride)),
            }
        }
        (offset, scaled)
    }

    fn call(&self, call: Value<'m>, numbers: &Numbers<'m>) -> Op {
        let declared = call.called_parameter_count();
        let arguments = (0..call.argument_count())
            .map(|index| {
                // If a parameter is declared as a copy, the callee makes it. Variadic arguments have no parameter.
                if index >= declared && call.argument_type_attribute(index, "byval").is_some() {
                    let what = "a structure among variable arguments";
                    return Operand::Constant(Constant::Unsupported(what.into()));
                }
                self.operand(call.operand(index), numbers)
            })
            .collect();
        let target = call.callee();
        let callee = if target.is_inline_assembly() {
            Callee::Assembly(self.assembly(call))
        } else {
            match self.functions.get(&target) {
                Some(function) => Callee::Function(*function),
                None => Callee::Pointer(self.operand(target, numbers)),
            }
        };
        Op::Call { callee, arguments }
    }

    fn assembly(&self, call: Value<'m>) -> Assembly {
        let llvm::AsmText { template, constraints, intel } = call.asm_text();
        let bytes = |index| {
            let ty = call.argument_type_attribute(index, "elementtype");
            ty.filter(|ty| ty.is_sized()).map(|ty| self.module.store_size(ty))
        };
        Assembly { template, constraints, intel, memory: (0..call.argument_count()).map(bytes).collect() }
    }
}

fn binary(opcode: Opcode) -> Option<Binary> {
    Some(match opcode {
        Opcode::LLVMAdd => Binary::Add,
        Opcode::LLVMSub => Binary::Sub,
        Opcode::LLVMMul => Binary::Mul,
        Opcode::LLVMUDiv => Binary::DivideUnsigned,
        Opcode::LLVMSDiv => Binary::DivideSigned,
        Opcode::LLVMURem => Binary::RemainderUnsigned,
        Opcode::LLVMSRem => Binary::RemainderSigned,
        Opcode::LLVMShl => Binary::ShiftLeft,
        Opcode::LLVMLShr => Binary::ShiftRight,
        Opcode::LLVMAShr => Binary::ShiftRightSigned,
        Opcode::LLVMAnd => Binary::And,
        Opcode::LLVMOr => Binary::Or,
        Opcode::LLVMXor => Binary::Xor,
        _ => return None,
    })
}

fn predicate(predicate: llvm::Predicate) -> Predicate {
    match predicate {
        llvm::Predicate::LLVMIntEQ => Predicate::Equal,
        llvm::Predicate::LLVMIntNE => Predicate::NotEqual,
        llvm::Predicate::LLVMIntUGT => Predicate::UnsignedGreater,
        llvm::Predicate::LLVMIntUGE => Predicate::UnsignedGreaterEqual,
        llvm::Predicate::LLVMIntULT => Predicate::UnsignedLess,
        llvm::Predicate::LLVMIntULE => Predicate::UnsignedLessEqual,
        llvm::Predicate::LLVMIntSGT => Predicate::SignedGreater,
        llvm::Predicate::LLVMIntSGE => Predicate::SignedGreaterEqual,
        llvm::Predicate::LLVMIntSLT => Predicate::SignedLess,
        llvm::Predicate::LLVMIntSLE => Predicate::SignedLessEqual,
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
