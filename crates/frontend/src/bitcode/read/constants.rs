//! Constants, and the initial content of globals.

use super::reader::Reader;
use crate::bitcode::ir::{Constant, Global, Initial, Type};
use crate::llvm::{Opcode, TypeKind, Value};

impl<'m> Reader<'m> {
    pub(crate) fn global(&mut self, global: Value<'m>) -> Global {
        let ty = global.global_type();
        let initial = global.initializer().map(|initializer| {
            let mut pieces = Vec::new();
            self.initial(initializer, 0, &mut pieces);
            pieces
        });
        Global {
            name: global.name(),
            size: if ty.is_sized() { self.module.alloc_size(ty) } else { 0 },
            align: global.alignment().max(1).into(),
            section: global.section(),
            thread_local: global.is_thread_local(),
            constant: global.is_global_constant(),
            initial,
            parts: global.parts(),
            place: self.place(global),
        }
    }

    fn initial(&self, value: Value<'m>, at: u64, out: &mut Vec<(u64, Initial)>) {
        if value.is_null_constant() || value.is_undefined() {
            return;
        }
        let ty = value.ty();
        let count = match ty.kind() {
            TypeKind::LLVMStructTypeKind => {
                for index in 0..ty.members() {
                    if let Some(member) = value.aggregate_element(index) {
                        self.initial(member, at + self.module.member_offset(ty, index), out);
                    }
                }
                return;
            }
            TypeKind::LLVMArrayTypeKind => ty.array_length(),
            TypeKind::LLVMVectorTypeKind => ty.lanes().into(),
            _ => {
                out.push((at, self.initial_scalar(value)));
                return;
            }
        };
        if let Some(bytes) = value.as_bytes() {
            out.push((at, Initial::Bytes(bytes)));
            return;
        }
        let stride = self.module.alloc_size(ty.element());
        for index in 0..count {
            if let Some(member) = value.aggregate_element(index as u32) {
                self.initial(member, at + index * stride, out);
            }
        }
    }

    fn initial_scalar(&self, value: Value<'m>) -> Initial {
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

    pub(crate) fn constant(&self, value: Value<'m>) -> Constant {
        if let Some(global) = self.globals.get(&value) {
            return Constant::Global(*global, 0);
        }
        if let Some(function) = self.functions.get(&value) {
            return Constant::Function(*function);
        }
        let ty = value.ty();
        if value.is_undefined() {
            return Constant::Undefined(self.ty(ty));
        }
        if let Some(number) = value.as_number() {
            return Constant::Int { bits: ty.int_bits(), value: number };
        }
        if value.is_null_pointer() {
            return Constant::Null;
        }
        // Only constants can be null; a wide zero is not one of the numbers represented here.
        if value.is_constant() && !ty.is_integer() && value.is_null_constant() {
            return Constant::Zero(self.ty(ty));
        }
        let known = if let Some((number, loses)) = value.as_double() {
            floating(ty.kind(), number, loses)
        } else if value.is_constant_expression() {
            self.expression(value)
        } else if let Type::Aggregate(aggregate) = self.ty(ty) {
            let count = aggregate.members.len() as u32;
            let members: Option<Vec<Constant>> =
                (0..count).map(|index| Some(self.constant(value.aggregate_element(index)?))).collect();
            members.map(|members| Constant::Aggregate(Type::Aggregate(aggregate), members))
        } else {
            value.aliasee().map(|target| self.constant(target))
        };
        known.unwrap_or_else(|| Constant::Unsupported(format!("constant {}", value.printed()).into()))
    }

    /// A constant expression, if it is an address of something known or a number made from one.
    fn expression(&self, value: Value<'m>) -> Option<Constant> {
        match value.constant_opcode() {
            Opcode::LLVMGetElementPtr => {
                let (offset, scaled) = self.offsets(value);
                if !scaled.is_empty() {
                    return None;
                }
                match self.constant(value.operand(0)) {
                    Constant::Global(global, before) => Some(Constant::Global(global, before + offset)),
                    Constant::Null => Some(Constant::Int { bits: 64, value: offset as u64 }),
                    Constant::Int { bits: 64, value } => {
                        Some(Constant::Int { bits: 64, value: value.wrapping_add(offset as u64) })
                    }
                    _ => None,
                }
            }
            Opcode::LLVMPtrToInt | Opcode::LLVMIntToPtr | Opcode::LLVMBitCast | Opcode::LLVMAddrSpaceCast => {
                match self.constant(value.operand(0)) {
                    same @ (Constant::Global(..) | Constant::Function(_) | Constant::Null) => Some(same),
                    same @ Constant::Int { bits: 64, .. } => Some(same),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

fn floating(kind: TypeKind, number: f64, loses: bool) -> Option<Constant> {
    match kind {
        TypeKind::LLVMFloatTypeKind => {
            Some(Constant::Float { bits: 32, value: (number as f32).to_bits().into() })
        }
        TypeKind::LLVMDoubleTypeKind => Some(Constant::Float { bits: 64, value: number.to_bits() }),
        TypeKind::LLVMX86_FP80TypeKind if !loses => {
            let (low, high) = extended(number);
            let part = |bits, value| Constant::Int { bits, value };
            Some(Constant::Aggregate(Type::Float(80), vec![part(64, low), part(16, high.into())]))
        }
        _ => None,
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
        // Too small for a double's implicit leading one, but not for this format's.
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
