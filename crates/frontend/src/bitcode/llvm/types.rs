//! Types and their layout.

#![allow(unsafe_code, reason = "see the documentation of the parent module")]

use std::rc::Rc;

use llvm_sys::LLVMTypeKind as Kind;
use llvm_sys::core::*;
use llvm_sys::prelude::*;
use llvm_sys::target::{LLVMABISizeOfType, LLVMOffsetOfElement, LLVMStoreSizeOfType};

use super::Reader;
use crate::bitcode::ir::{Aggregate, Type};

/// Arrays longer than this are not held as values: nobody loads them whole.
const LONGEST: u64 = 4096;

impl Reader {
    /// Distance between array elements of this type.
    pub(super) fn size(&self, ty: LLVMTypeRef) -> u64 {
        // SAFETY: asked of sized types only.
        unsafe { LLVMABISizeOfType(self.layout, ty) }
    }

    /// Bytes a store of this type writes.
    pub(super) fn store_size(&self, ty: LLVMTypeRef) -> u64 {
        // SAFETY: as above.
        unsafe { LLVMStoreSizeOfType(self.layout, ty) }
    }

    /// Offset of a member of a structure.
    pub(super) fn member_offset(&self, ty: LLVMTypeRef, member: u32) -> u64 {
        // SAFETY: asked of structure types, with a member they have.
        unsafe { LLVMOffsetOfElement(self.layout, ty, member) }
    }

    pub(super) fn ty(&self, ty: LLVMTypeRef) -> Type {
        // SAFETY: each question is asked of the kind that has an answer.
        unsafe {
            match LLVMGetTypeKind(ty) {
                Kind::LLVMVoidTypeKind => Type::Void,
                Kind::LLVMIntegerTypeKind => Type::Int(LLVMGetIntTypeWidth(ty)),
                Kind::LLVMPointerTypeKind if LLVMGetPointerAddressSpace(ty) == 0 => Type::Pointer,
                Kind::LLVMHalfTypeKind | Kind::LLVMBFloatTypeKind => Type::Float(16),
                Kind::LLVMFloatTypeKind => Type::Float(32),
                Kind::LLVMDoubleTypeKind => Type::Float(64),
                Kind::LLVMX86_FP80TypeKind => Type::Float(80),
                Kind::LLVMStructTypeKind => {
                    let members = (0..LLVMCountStructElementTypes(ty))
                        .map(|i| (self.member_offset(ty, i), self.ty(LLVMStructGetTypeAtIndex(ty, i))))
                        .collect();
                    Type::Aggregate(Rc::new(Aggregate { size: self.size(ty), members }))
                }
                Kind::LLVMArrayTypeKind if LLVMGetArrayLength2(ty) <= LONGEST => {
                    self.repeated(ty, LLVMGetArrayLength2(ty))
                }
                Kind::LLVMVectorTypeKind => self.repeated(ty, LLVMGetVectorSize(ty).into()),
                _ => {
                    let printed = LLVMPrintTypeToString(ty);
                    Type::Unsupported(super::take_message(printed).into())
                }
            }
        }
    }

    fn repeated(&self, ty: LLVMTypeRef, count: u64) -> Type {
        // SAFETY: called for arrays and vectors.
        let element = unsafe { LLVMGetElementType(ty) };
        let (size, member) = (self.size(element), self.ty(element));
        let members = (0..count).map(|i| (i * size, member.clone())).collect();
        Type::Aggregate(Rc::new(Aggregate { size: self.size(ty), members }))
    }
}
