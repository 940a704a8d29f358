//! Translates LLVM's instructions one by one.

use crate::llvm::{Module, Opcode, Predicate, TypeKind, Value};
use crate::meaning::{self, Manner};

use super::reader::{Context, Reader};
use super::switches;
use crate::program::ir::*;

impl<'m> Reader<'m> {
    /// Appends the translation of `value` to `out`: usually one instruction, several for a call.
    pub(crate) fn instruction(
        &mut self,
        value: Value<'m>,
        context: &Context<'m>,
        place: PlaceId,
        out: &mut Vec<Instruction>,
    ) {
        let block = |block: crate::llvm::Block| context.blocks[&block];
        let opcode = value.opcode();
        let known = self
            .memory_operation(value, context)
            .or_else(|| self.computation(value, context))
            .or_else(|| self.control_flow(value, context));
        let op = match opcode {
            _ if let Some(op) = known => op,
            Opcode::LLVMCall | Opcode::LLVMInvoke => {
                let ops = self.call(value, context, out.len() as u32);
                out.extend(ops.into_iter().map(|op| Instruction { op, place }));
                if opcode == Opcode::LLVMInvoke {
                    out.push(Instruction { op: Op::Jump { to: block(value.normal_destination()) }, place });
                }
                return;
            }
            Opcode::LLVMIndirectBr | Opcode::LLVMCallBr => {
                self.not_understood(place, "a jump that is not followed");
                if opcode == Opcode::LLVMCallBr {
                    out.push(Instruction { op: Op::Other, place });
                }
                match value.successors().first() {
                    Some(first) => Op::Jump { to: block(*first) },
                    None => Op::Unreachable,
                }
            }
            _ if is_computation(opcode) => Op::Other,
            _ => {
                let what = format!("an instruction that is not understood ({opcode:?})");
                if value.is_terminator() {
                    self.not_understood(place, &what);
                    Op::Unreachable
                } else {
                    Op::NotUnderstood { what, pointers: Vec::new() }
                }
            }
        };
        out.push(Instruction { op, place });
    }

    /// Instructions that create, read, write or order memory.
    fn memory_operation(&mut self, value: Value<'m>, context: &Context<'m>) -> Option<Op> {
        Some(match value.opcode() {
            Opcode::LLVMAlloca => {
                let ty = value.allocated_type();
                let count = value.operand(0).as_number();
                let one = if ty.is_sized() { self.module.alloc_size(ty) } else { 0 };
                Op::Alloca { bytes: count.map_or(0, |count| count.saturating_mul(one)) }
            }
            Opcode::LLVMLoad => {
                Op::Load { address: self.operand(value.operand(0), context), bytes: self.bytes(value.ty()) }
            }
            Opcode::LLVMStore => {
                let address = self.operand(value.operand(1), context);
                let stored = self.escaping(value.operand(0), context);
                let bytes = self.bytes(value.operand(0).ty());
                match self.module.store_manner(value) {
                    Manner::Exchange => Op::Locked { address, value: stored, bytes, expected: None },
                    manner => {
                        let nontemporal = manner == Manner::NonTemporal;
                        Op::Store { address, value: stored, bytes, nontemporal }
                    }
                }
            }
            Opcode::LLVMAtomicRMW => Op::Locked {
                address: self.operand(value.operand(0), context),
                value: Operand::Undefined,
                bytes: self.bytes(value.operand(1).ty()),
                expected: None,
            },
            Opcode::LLVMAtomicCmpXchg => Op::Locked {
                address: self.operand(value.operand(0), context),
                value: self.escaping(value.operand(2), context),
                bytes: self.bytes(value.operand(2).ty()),
                expected: Some(self.operand(value.operand(1), context)),
            },
            Opcode::LLVMFence => match meaning::fence(value.ordering(), value.scope()) {
                Some(fence) => Op::Fence { class: fence.class() },
                None => Op::Other,
            },
            _ => return None,
        })
    }

    /// Instructions that compute a value from others.
    fn computation(&mut self, value: Value<'m>, context: &Context<'m>) -> Option<Op> {
        let block = |block: crate::llvm::Block| context.blocks[&block];
        Some(match value.opcode() {
            Opcode::LLVMGetElementPtr => self.address(value, context),
            Opcode::LLVMPHI => Op::Phi {
                incoming: value
                    .incoming_pairs()
                    .into_iter()
                    .map(|(incoming, from)| (block(from), self.escaping(incoming, context)))
                    .collect(),
            },
            Opcode::LLVMSelect => Op::Select {
                condition: self.operand(value.operand(0), context),
                yes: self.escaping(value.operand(1), context),
                no: self.escaping(value.operand(2), context),
            },
            Opcode::LLVMBitCast
            | Opcode::LLVMPtrToInt
            | Opcode::LLVMIntToPtr
            | Opcode::LLVMZExt
            | Opcode::LLVMSExt
            | Opcode::LLVMTrunc
            | Opcode::LLVMFreeze
            | Opcode::LLVMAddrSpaceCast => Op::Copy { value: self.escaping(value.operand(0), context) },
            Opcode::LLVMICmp => Op::Compare {
                what: comparison(value.predicate()),
                left: self.operand(value.operand(0), context),
                right: self.operand(value.operand(1), context),
            },
            Opcode::LLVMExtractValue => {
                let indices = value.indices();
                let aggregate = self.operand(value.operand(0), context);
                // Calling conventions produce one level; deeper ones are irrelevant.
                if indices.len() == 1 { Op::Extract { aggregate, index: indices[0] } } else { Op::Other }
            }
            Opcode::LLVMInsertValue => {
                let indices = value.indices();
                let aggregate = self.operand(value.operand(0), context);
                let inner = self.escaping(value.operand(1), context);
                if indices.len() == 1 {
                    Op::Insert { aggregate, value: inner, index: indices[0] }
                } else {
                    Op::Other
                }
            }
            other if let Some(what) = arithmetic(other) => Op::Arithmetic {
                what,
                left: self.operand(value.operand(0), context),
                right: self.operand(value.operand(1), context),
            },
            _ => return None,
        })
    }

    /// Terminators that are followed.
    fn control_flow(&mut self, value: Value<'m>, context: &Context<'m>) -> Option<Op> {
        let block = |block: crate::llvm::Block| context.blocks[&block];
        Some(match value.opcode() {
            Opcode::LLVMBr if switches::tests_for_one_bit(value).is_some() => {
                Op::Jump { to: block(value.successors()[0]) }
            }
            Opcode::LLVMBr => match value.condition() {
                Some(condition) => {
                    let to = value.successors();
                    let condition = self.operand(condition, context);
                    Op::Branch { condition, yes: block(to[0]), no: block(to[1]) }
                }
                None => Op::Jump { to: block(value.successors()[0]) },
            },
            Opcode::LLVMSwitch => {
                let to = value.successors();
                let written_for = switches::switched_over(value);
                let mut cases = Vec::new();
                for (number, case) in to.iter().enumerate().skip(1) {
                    if let Some(constant) = value.case_value(number as u32).as_signed() {
                        let constant = match written_for {
                            Some(number) => switches::bit(number, constant),
                            None => constant,
                        };
                        cases.push((constant, block(*case)));
                    }
                }
                let switched = self.operand(written_for.unwrap_or(value.operand(0)), context);
                Op::Switch { value: switched, cases, default: block(to[0]) }
            }
            Opcode::LLVMRet => {
                let result = (value.operand_count() > 0).then(|| self.escaping(value.operand(0), context));
                Op::Return { value: result }
            }
            Opcode::LLVMUnreachable | Opcode::LLVMResume => Op::Unreachable,
            _ => return None,
        })
    }

    pub(crate) fn address(&mut self, value: Value<'m>, context: &Context<'m>) -> Op {
        let base = self.escaping(value.operand(0), context);
        let mut ty = value.gep_source_type();
        let (mut offset, mut index, mut within) = (0_i64, Vec::new(), None);
        for position in 1..value.operand_count() {
            let operand = value.operand(position);
            let mut elements = 0;
            let scale = if position == 1 {
                self.module.alloc_size(ty)
            } else if ty.kind() == TypeKind::LLVMStructTypeKind {
                let member = operand.as_number().unwrap_or(0) as u32;
                offset += self.module.member_offset(ty, member) as i64;
                ty = ty.member(member);
                continue;
            } else {
                if ty.kind() == TypeKind::LLVMArrayTypeKind {
                    elements = ty.array_length();
                }
                ty = ty.element();
                self.module.alloc_size(ty)
            };
            match operand.as_signed() {
                Some(number) => offset += number * scale as i64,
                None => {
                    // An array of one element at the end of a structure is usually longer.
                    if index.is_empty() && elements > 1 {
                        within = i64::try_from(elements * scale).ok().map(|bytes| (offset, bytes));
                    }
                    index.push((self.operand(operand, context), scale as i64));
                }
            }
        }
        if within.is_none()
            && let [(_, scale)] = index[..]
            && value.operand_count() == 2
        {
            within = array_around(self.module, value.operand(0), scale);
        }
        Op::Offset { base, offset, index, within }
    }
}

/// The array from which a pointer was computed, `t->text` in `t->text + n`: its offset from the pointer, and its
/// size. Only arrays with this element size count.
pub(super) fn array_around<'m>(module: &Module<'m>, pointer: Value<'m>, scale: i64) -> Option<(i64, i64)> {
    if !pointer.is_instruction() || pointer.opcode() != Opcode::LLVMGetElementPtr {
        return None;
    }
    let mut ty = pointer.gep_source_type();
    // The array that the last index is of, and that index.
    let mut last = None;
    for position in 2..pointer.operand_count() {
        let number = pointer.operand(position).as_signed();
        if ty.kind() == TypeKind::LLVMStructTypeKind {
            last = None;
            ty = ty.member(number? as u32);
        } else {
            last = (ty.kind() == TypeKind::LLVMArrayTypeKind).then_some((ty, number));
            ty = ty.element();
        }
    }
    // A pointer to an array is a pointer to its first element.
    let (array, number) = match ty.kind() {
        TypeKind::LLVMArrayTypeKind => (ty, Some(0)),
        _ => last?,
    };
    let (elements, number) = (array.array_length(), number?);
    let is_element = module.alloc_size(array.element()) as i64 == scale;
    let bytes = i64::try_from(elements).ok()?.checked_mul(scale)?;
    (is_element && elements > 1).then_some((-number * scale, bytes))
}

/// Instructions whose results are irrelevant. `va_arg` reads a list on the stack.
fn is_computation(opcode: Opcode) -> bool {
    use Opcode::*;
    matches!(
        opcode,
        LLVMFAdd
            | LLVMFSub
            | LLVMFMul
            | LLVMFDiv
            | LLVMFRem
            | LLVMFNeg
            | LLVMFCmp
            | LLVMFPToSI
            | LLVMFPToUI
            | LLVMSIToFP
            | LLVMUIToFP
            | LLVMFPTrunc
            | LLVMFPExt
            | LLVMExtractElement
            | LLVMInsertElement
            | LLVMShuffleVector
            | LLVMLandingPad
            | LLVMVAArg
    )
}

fn comparison(predicate: Predicate) -> Compare {
    match predicate {
        Predicate::LLVMIntEQ => Compare::Eq,
        Predicate::LLVMIntNE => Compare::Ne,
        Predicate::LLVMIntSLT => Compare::Lt,
        Predicate::LLVMIntSLE => Compare::Le,
        Predicate::LLVMIntSGT => Compare::Gt,
        Predicate::LLVMIntSGE => Compare::Ge,
        Predicate::LLVMIntULT => Compare::Below,
        Predicate::LLVMIntULE => Compare::BelowOrEqual,
        Predicate::LLVMIntUGT => Compare::Above,
        Predicate::LLVMIntUGE => Compare::AboveOrEqual,
    }
}

fn arithmetic(opcode: Opcode) -> Option<Arithmetic> {
    Some(match opcode {
        Opcode::LLVMAdd => Arithmetic::Add,
        Opcode::LLVMSub => Arithmetic::Sub,
        Opcode::LLVMMul => Arithmetic::Mul,
        Opcode::LLVMAnd => Arithmetic::And,
        Opcode::LLVMOr => Arithmetic::Or,
        Opcode::LLVMXor => Arithmetic::Xor,
        Opcode::LLVMShl => Arithmetic::Shl,
        Opcode::LLVMLShr | Opcode::LLVMAShr => Arithmetic::Shr,
        Opcode::LLVMUDiv | Opcode::LLVMSDiv => Arithmetic::Div,
        Opcode::LLVMURem | Opcode::LLVMSRem => Arithmetic::Rem,
        _ => return None,
    })
}
