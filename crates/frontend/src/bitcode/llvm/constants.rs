//! Constants, and what globals hold at first.

#![allow(unsafe_code, reason = "see the documentation of the parent module")]

use llvm_sys::core::*;
use llvm_sys::prelude::*;
use llvm_sys::{LLVMOpcode as Opcode, LLVMTypeKind as Kind};

use super::{Reader, name_of, take_message, text};
use crate::bitcode::ir::{Constant, Global, Initial, Type};

impl Reader {
    pub(super) fn global(&mut self, global: LLVMValueRef) -> Global {
        // SAFETY: a global variable; its section is a string of the module.
        let (ty, align, section, thread_local, constant, initializer) = unsafe {
            let mut length = 0;
            let section = LLVMGetSection(global);
            if !section.is_null() {
                length = std::ffi::CStr::from_ptr(section).count_bytes();
            }
            (
                LLVMGlobalGetValueType(global),
                LLVMGetAlignment(global),
                text(section, length),
                LLVMIsThreadLocal(global) != 0,
                LLVMIsGlobalConstant(global) != 0,
                LLVMGetInitializer(global),
            )
        };
        // SAFETY: any type.
        let sized = unsafe { LLVMTypeIsSized(ty) } != 0;
        let initial = (!initializer.is_null()).then(|| {
            let mut pieces = Vec::new();
            self.initial(initializer, 0, &mut pieces);
            pieces
        });
        Global {
            name: name_of(global),
            size: if sized { self.size(ty) } else { 0 },
            align: align.max(1).into(),
            section,
            thread_local,
            constant,
            initial,
            // SAFETY: the module is there as long as it is being read.
            parts: super::names::parts(unsafe { LLVMGetModuleContext(self.module) }, global),
            place: self.place(global),
        }
    }

    fn initial(&self, value: LLVMValueRef, at: u64, out: &mut Vec<(u64, Initial)>) {
        // SAFETY: each question is asked of the class that has an answer; see the comments.
        unsafe {
            if LLVMIsNull(value) != 0 || !LLVMIsAUndefValue(value).is_null() {
                return;
            }
            let ty = LLVMTypeOf(value);
            match LLVMGetTypeKind(ty) {
                Kind::LLVMStructTypeKind => {
                    for i in 0..LLVMCountStructElementTypes(ty) {
                        let member = LLVMGetAggregateElement(value, i);
                        self.initial(member, at + self.member_offset(ty, i), out);
                    }
                }
                Kind::LLVMArrayTypeKind | Kind::LLVMVectorTypeKind => {
                    let mut length = 0;
                    if !LLVMIsAConstantDataSequential(value).is_null() && LLVMIsConstantString(value) != 0 {
                        let start = LLVMGetAsString(value, &raw mut length);
                        let bytes = std::slice::from_raw_parts(start.cast::<u8>(), length).to_vec();
                        out.push((at, Initial::Bytes(bytes)));
                        return;
                    }
                    let count = if LLVMGetTypeKind(ty) == Kind::LLVMArrayTypeKind {
                        LLVMGetArrayLength2(ty)
                    } else {
                        LLVMGetVectorSize(ty).into()
                    };
                    let stride = self.size(LLVMGetElementType(ty));
                    for i in 0..count {
                        let member = LLVMGetAggregateElement(value, i as u32);
                        self.initial(member, at + i * stride, out);
                    }
                }
                _ => out.push((at, self.initial_scalar(value))),
            }
        }
    }

    fn initial_scalar(&self, value: LLVMValueRef) -> Initial {
        match self.constant(value) {
            Constant::Int { bits, value } => {
                Initial::Bytes(value.to_le_bytes()[..(bits as usize).div_ceil(8)].to_vec())
            }
            Constant::Float { bits, value } => {
                Initial::Bytes(value.to_le_bytes()[..(bits as usize).div_ceil(8).min(8)].to_vec())
            }
            address @ (Constant::Global(..) | Constant::Function(_)) => Initial::Address(address),
            Constant::Null | Constant::Zero(_) | Constant::Undefined(_) => Initial::Bytes(Vec::new()),
            Constant::Unsupported(what) => Initial::Unsupported(what),
            Constant::Aggregate(Type::Float(80), parts) => {
                let words = parts.iter().map(|part| match part {
                    Constant::Int { bits, value } => value.to_le_bytes()[..*bits as usize / 8].to_vec(),
                    _ => Vec::new(),
                });
                Initial::Bytes(words.collect::<Vec<_>>().concat())
            }
            Constant::Aggregate(..) => Initial::Unsupported("an aggregate".into()),
        }
    }

    pub(super) fn constant(&self, value: LLVMValueRef) -> Constant {
        // SAFETY: every question is asked of the class that has an answer.
        unsafe {
            let raw_type = LLVMTypeOf(value);
            if let Some(global) = self.globals.get(&value) {
                return Constant::Global(*global, 0);
            }
            if let Some(function) = self.functions.get(&value) {
                return Constant::Function(*function);
            }
            if !LLVMIsAUndefValue(value).is_null() {
                return Constant::Undefined(self.ty(raw_type));
            }
            if !LLVMIsAConstantInt(value).is_null() {
                let bits = LLVMGetIntTypeWidth(raw_type);
                if bits <= 64 {
                    return Constant::Int { bits, value: LLVMConstIntGetZExtValue(value) };
                }
            } else if !LLVMIsAConstantPointerNull(value).is_null() {
                return Constant::Null;
            } else if LLVMIsNull(value) != 0 {
                return Constant::Zero(self.ty(raw_type));
            } else if !LLVMIsAConstantFP(value).is_null() {
                let mut loses = 0;
                let number = LLVMConstRealGetDouble(value, &raw mut loses);
                match LLVMGetTypeKind(raw_type) {
                    Kind::LLVMFloatTypeKind => {
                        return Constant::Float { bits: 32, value: (number as f32).to_bits().into() };
                    }
                    Kind::LLVMDoubleTypeKind => {
                        return Constant::Float { bits: 64, value: number.to_bits() };
                    }
                    Kind::LLVMX86_FP80TypeKind if loses == 0 => {
                        let (low, high) = extended(number);
                        let part = |bits, value| Constant::Int { bits, value };
                        return Constant::Aggregate(
                            Type::Float(80),
                            vec![part(64, low), part(16, high.into())],
                        );
                    }
                    _ => {}
                }
            } else if !LLVMIsAConstantExpr(value).is_null() {
                if let Some(known) = self.expression(value) {
                    return known;
                }
            } else if let Type::Aggregate(aggregate) = self.ty(raw_type) {
                let members = (0..aggregate.members.len() as u32)
                    .map(|i| self.constant(LLVMGetAggregateElement(value, i)))
                    .collect();
                return Constant::Aggregate(Type::Aggregate(aggregate), members);
            } else if !LLVMIsAGlobalAlias(value).is_null() {
                return self.constant(LLVMAliasGetAliasee(value));
            }
            Constant::Unsupported(format!("constant {}", take_message(LLVMPrintValueToString(value))).into())
        }
    }

    /// A constant expression, if it is an address of something known or a number made from one.
    fn expression(&self, value: LLVMValueRef) -> Option<Constant> {
        // SAFETY: called for constant expressions; each opcode has the operands asked for.
        unsafe {
            match LLVMGetConstOpcode(value) {
                Opcode::LLVMGetElementPtr => {
                    let (offset, scaled) = self.offsets(value);
                    if !scaled.is_empty() {
                        return None;
                    }
                    match self.constant(LLVMGetOperand(value, 0)) {
                        Constant::Global(global, before) => Some(Constant::Global(global, before + offset)),
                        Constant::Null => Some(Constant::Int { bits: 64, value: offset as u64 }),
                        Constant::Int { bits: 64, value } => {
                            Some(Constant::Int { bits: 64, value: value.wrapping_add(offset as u64) })
                        }
                        _ => None,
                    }
                }
                Opcode::LLVMPtrToInt
                | Opcode::LLVMIntToPtr
                | Opcode::LLVMBitCast
                | Opcode::LLVMAddrSpaceCast => match self.constant(LLVMGetOperand(value, 0)) {
                    same @ (Constant::Global(..) | Constant::Function(_) | Constant::Null) => Some(same),
                    same @ Constant::Int { bits: 64, .. } => Some(same),
                    _ => None,
                },
                _ => None,
            }
        }
    }
}

/// The 80 bits of the x87 format for a number: significand with its leading one, then sign and exponent.
fn extended(number: f64) -> (u64, u16) {
    let bits = number.to_bits();
    let sign = ((bits >> 63) as u16) << 15;
    let (exponent, fraction) = ((bits >> 52 & 0x7ff) as u16, bits << 12 >> 1);
    let leading = 1 << 63;
    match exponent {
        0 if fraction == 0 => (0, sign),
        // Too small for a double's leading one, not for this format's.
        0 => {
            let shift = fraction.leading_zeros() as u16;
            (fraction << shift, sign | (16383 - 1022 - shift))
        }
        0x7ff => (leading | fraction, sign | 0x7fff),
        _ => (leading | fraction, sign | (exponent + (16383 - 1023))),
    }
}

#[cfg(test)]
mod tests {
    use super::extended;

    #[test]
    fn doubles_in_80_bits() {
        assert_eq!(extended(0.0), (0, 0));
        assert_eq!(extended(1.0), (1 << 63, 0x3fff));
        assert_eq!(extended(-2.5), (0xa000_0000_0000_0000, 0xc000));
        assert_eq!(extended(f64::INFINITY), (1 << 63, 0x7fff));
        // The smallest: 2 to the power of -1074.
        assert_eq!(extended(5e-324), (1 << 63, 16383 - 1074));
    }
}
