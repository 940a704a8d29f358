//! Makes instructions.

#![allow(unsafe_code, reason = "see the documentation of the parent module")]

use std::ffi::c_char;
use std::ptr;

use llvm_sys::core::*;

use super::*;

/// Makes instructions at a place.
pub struct Builder(pub(super) LLVMBuilderRef);

impl Drop for Builder {
    fn drop(&mut self) {
        unsafe { LLVMDisposeBuilder(self.0) }
    }
}

const NO_NAME: *const c_char = c"".as_ptr();

impl Builder {
    /// Goes before an instruction, keeping the debug location.
    pub fn before(&self, instruction: Value) {
        unsafe { LLVMPositionBuilderBefore(self.0, instruction.0) }
    }

    pub fn at_end(&self, block: Block) {
        unsafe { LLVMPositionBuilderAtEnd(self.0, block.0) }
    }

    /// New instructions carry this location.
    pub fn locate(&self, location: Option<Meta>) {
        let raw = location.map_or(ptr::null_mut(), |meta| meta.0);
        unsafe { LLVMSetCurrentDebugLocation2(self.0, raw) }
    }

    pub fn call(&self, ty: Type, function: Value, arguments: &[Value]) -> Value {
        let mut raw: Vec<_> = arguments.iter().map(|v| v.0).collect();
        Value(unsafe {
            LLVMBuildCall2(self.0, ty.0, function.0, raw.as_mut_ptr(), raw.len() as u32, NO_NAME)
        })
    }

    pub fn load(&self, ty: Type, from: Value, align: u32) -> Value {
        let load = Value(unsafe { LLVMBuildLoad2(self.0, ty.0, from.0, NO_NAME) });
        load.set_alignment(align);
        load
    }

    pub fn store(&self, value: Value, to: Value, align: u32) {
        Value(unsafe { LLVMBuildStore(self.0, value.0, to.0) }).set_alignment(align);
    }

    pub fn alloca(&self, ty: Type, align: u32) -> Value {
        let alloca = Value(unsafe { LLVMBuildAlloca(self.0, ty.0, NO_NAME) });
        alloca.set_alignment(align);
        alloca
    }

    pub fn phi(&self, ty: Type) -> Value {
        Value(unsafe { LLVMBuildPhi(self.0, ty.0, NO_NAME) })
    }

    pub fn ptr_to_int(&self, pointer: Value, ty: Type) -> Value {
        Value(unsafe { LLVMBuildPtrToInt(self.0, pointer.0, ty.0, NO_NAME) })
    }

    pub fn int_to_ptr(&self, value: Value, ty: Type) -> Value {
        Value(unsafe { LLVMBuildIntToPtr(self.0, value.0, ty.0, NO_NAME) })
    }

    pub fn shift_right(&self, value: Value, by: Value) -> Value {
        Value(unsafe { LLVMBuildLShr(self.0, value.0, by.0, NO_NAME) })
    }

    pub fn add(&self, left: Value, right: Value) -> Value {
        Value(unsafe { LLVMBuildAdd(self.0, left.0, right.0, NO_NAME) })
    }

    pub fn multiply(&self, left: Value, right: Value) -> Value {
        Value(unsafe { LLVMBuildMul(self.0, left.0, right.0, NO_NAME) })
    }

    pub fn or(&self, left: Value, right: Value) -> Value {
        Value(unsafe { LLVMBuildOr(self.0, left.0, right.0, NO_NAME) })
    }

    pub fn and(&self, left: Value, right: Value) -> Value {
        Value(unsafe { LLVMBuildAnd(self.0, left.0, right.0, NO_NAME) })
    }

    pub fn equal(&self, left: Value, right: Value) -> Value {
        Value(unsafe { LLVMBuildICmp(self.0, Predicate::LLVMIntEQ, left.0, right.0, NO_NAME) })
    }

    pub fn less_signed(&self, left: Value, right: Value) -> Value {
        Value(unsafe { LLVMBuildICmp(self.0, Predicate::LLVMIntSLT, left.0, right.0, NO_NAME) })
    }

    /// Zero-extends or truncates an integer (or vector of integers) to a type of the same shape.
    pub fn resize(&self, value: Value, ty: Type) -> Value {
        let width = |t: Type| if t.is_fixed_vector() { t.element().int_bits() } else { t.int_bits() };
        let (from, to) = (width(value.ty()), width(ty));
        Value(unsafe {
            match from.cmp(&to) {
                std::cmp::Ordering::Less => LLVMBuildZExt(self.0, value.0, ty.0, NO_NAME),
                std::cmp::Ordering::Equal => value.0,
                std::cmp::Ordering::Greater => LLVMBuildTrunc(self.0, value.0, ty.0, NO_NAME),
            }
        })
    }

    /// Sign-extends an integer, if it is narrower.
    pub fn sign_extend(&self, value: Value, ty: Type) -> Value {
        if value.ty() == ty {
            return value;
        }
        Value(unsafe { LLVMBuildSExt(self.0, value.0, ty.0, NO_NAME) })
    }

    pub fn bit_cast(&self, value: Value, ty: Type) -> Value {
        if value.ty() == ty {
            return value;
        }
        Value(unsafe { LLVMBuildBitCast(self.0, value.0, ty.0, NO_NAME) })
    }

    pub fn extract_lane(&self, vector: Value, lane: Value) -> Value {
        Value(unsafe { LLVMBuildExtractElement(self.0, vector.0, lane.0, NO_NAME) })
    }

    pub fn insert_lane(&self, vector: Value, element: Value, lane: Value) -> Value {
        Value(unsafe { LLVMBuildInsertElement(self.0, vector.0, element.0, lane.0, NO_NAME) })
    }

    pub fn insert_field(&self, aggregate: Value, field: Value, index: u32) -> Value {
        Value(unsafe { LLVMBuildInsertValue(self.0, aggregate.0, field.0, index, NO_NAME) })
    }

    pub fn extract_field(&self, aggregate: Value, index: u32) -> Value {
        Value(unsafe { LLVMBuildExtractValue(self.0, aggregate.0, index, NO_NAME) })
    }

    /// `pointer + bytes`
    pub fn offset(&self, byte: Type, pointer: Value, bytes: Value) -> Value {
        let mut index = bytes.0;
        Value(unsafe { LLVMBuildGEP2(self.0, byte.0, pointer.0, &mut index, 1, NO_NAME) })
    }

    pub fn return_void(&self) {
        unsafe { LLVMBuildRetVoid(self.0) };
    }
}
