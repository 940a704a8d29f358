//! Types and their layout.

use std::rc::Rc;

use super::reader::Reader;
use crate::bitcode::ir::{Aggregate, Type};
use crate::llvm::{self, TypeKind};

/// Longer arrays are not represented as values: programs do not load them as a whole.
const LONGEST: u64 = 4096;

impl<'m> Reader<'m> {
    pub(crate) fn ty(&self, ty: llvm::Type<'m>) -> Type {
        match ty.kind() {
            TypeKind::LLVMVoidTypeKind => Type::Void,
            TypeKind::LLVMIntegerTypeKind => Type::Int(ty.int_bits()),
            TypeKind::LLVMPointerTypeKind if ty.address_space() == 0 => Type::Pointer,
            TypeKind::LLVMHalfTypeKind | TypeKind::LLVMBFloatTypeKind => Type::Float(16),
            TypeKind::LLVMFloatTypeKind => Type::Float(32),
            TypeKind::LLVMDoubleTypeKind => Type::Float(64),
            TypeKind::LLVMX86_FP80TypeKind => Type::Float(80),
            TypeKind::LLVMStructTypeKind => {
                let members = (0..ty.members())
                    .map(|member| (self.module.member_offset(ty, member), self.ty(ty.member(member))))
                    .collect();
                Type::Aggregate(Rc::new(Aggregate { size: self.module.alloc_size(ty), members }))
            }
            TypeKind::LLVMArrayTypeKind if ty.array_length() <= LONGEST => {
                self.repeated(ty, ty.array_length())
            }
            TypeKind::LLVMVectorTypeKind => self.repeated(ty, ty.lanes().into()),
            _ => Type::Unsupported(ty.printed().into()),
        }
    }

    fn repeated(&self, ty: llvm::Type<'m>, count: u64) -> Type {
        let (size, member) = (self.module.alloc_size(ty.element()), self.ty(ty.element()));
        let members = (0..count).map(|index| (index * size, member.clone())).collect();
        Type::Aggregate(Rc::new(Aggregate { size: self.module.alloc_size(ty), members }))
    }
}
