//! Makes instructions.

#![allow(unsafe_code, reason = "see the documentation of the parent module")]

use std::ffi::c_char;
use std::marker::PhantomData;
use std::ptr;

use llvm_sys::core::*;

use llvm_sys::prelude::*;

use super::handles::*;

/// Makes instructions at a place.
pub struct Builder<'m>(LLVMBuilderRef, PhantomData<&'m ()>);

impl Drop for Builder<'_> {
    fn drop(&mut self) {
        unsafe { LLVMDisposeBuilder(self.0) }
    }
}

const NO_NAME: *const c_char = c"".as_ptr();

impl<'m> Builder<'m> {
    pub(super) fn new(raw: LLVMBuilderRef) -> Self {
        Builder(raw, PhantomData)
    }

    /// Goes before an instruction, keeping the debug location.
    pub fn before(&self, instruction: Value<'m>) {
        unsafe { LLVMPositionBuilderBefore(self.0, instruction.0) }
    }

    pub fn at_end(&self, block: Block<'m>) {
        unsafe { LLVMPositionBuilderAtEnd(self.0, block.0) }
    }

    /// New instructions carry this location.
    pub fn locate(&self, location: Option<Meta<'m>>) {
        let raw = location.map_or(ptr::null_mut(), |meta| meta.0);
        unsafe { LLVMSetCurrentDebugLocation2(self.0, raw) }
    }

    pub fn call(&self, ty: Type<'m>, function: Value<'m>, arguments: &[Value<'m>]) -> Value<'m> {
        let mut raw: Vec<_> = arguments.iter().map(|v| v.0).collect();
        Value::new(unsafe {
            LLVMBuildCall2(self.0, ty.0, function.0, raw.as_mut_ptr(), raw.len() as u32, NO_NAME)
        })
    }

    pub fn load(&self, ty: Type<'m>, from: Value<'m>, align: u32) -> Value<'m> {
        let load = Value::new(unsafe { LLVMBuildLoad2(self.0, ty.0, from.0, NO_NAME) });
        load.set_alignment(align);
        load
    }

    pub fn store(&self, value: Value<'m>, to: Value<'m>, align: u32) {
        Value::new(unsafe { LLVMBuildStore(self.0, value.0, to.0) }).set_alignment(align);
    }

    pub fn alloca(&self, ty: Type<'m>, align: u32) -> Value<'m> {
        let alloca = Value::new(unsafe { LLVMBuildAlloca(self.0, ty.0, NO_NAME) });
        alloca.set_alignment(align);
        alloca
    }

    pub fn phi(&self, ty: Type<'m>) -> Value<'m> {
        Value::new(unsafe { LLVMBuildPhi(self.0, ty.0, NO_NAME) })
    }

    pub fn ptr_to_int(&self, pointer: Value<'m>, ty: Type<'m>) -> Value<'m> {
        Value::new(unsafe { LLVMBuildPtrToInt(self.0, pointer.0, ty.0, NO_NAME) })
    }

    pub fn int_to_ptr(&self, value: Value<'m>, ty: Type<'m>) -> Value<'m> {
        Value::new(unsafe { LLVMBuildIntToPtr(self.0, value.0, ty.0, NO_NAME) })
    }

    pub fn shift_right(&self, value: Value<'m>, by: Value<'m>) -> Value<'m> {
        Value::new(unsafe { LLVMBuildLShr(self.0, value.0, by.0, NO_NAME) })
    }

    pub fn add(&self, left: Value<'m>, right: Value<'m>) -> Value<'m> {
        Value::new(unsafe { LLVMBuildAdd(self.0, left.0, right.0, NO_NAME) })
    }

    pub fn multiply(&self, left: Value<'m>, right: Value<'m>) -> Value<'m> {
        Value::new(unsafe { LLVMBuildMul(self.0, left.0, right.0, NO_NAME) })
    }

    pub fn or(&self, left: Value<'m>, right: Value<'m>) -> Value<'m> {
        Value::new(unsafe { LLVMBuildOr(self.0, left.0, right.0, NO_NAME) })
    }

    pub fn and(&self, left: Value<'m>, right: Value<'m>) -> Value<'m> {
        Value::new(unsafe { LLVMBuildAnd(self.0, left.0, right.0, NO_NAME) })
    }

    pub fn equal(&self, left: Value<'m>, right: Value<'m>) -> Value<'m> {
        Value::new(unsafe { LLVMBuildICmp(self.0, Predicate::LLVMIntEQ, left.0, right.0, NO_NAME) })
    }

    pub fn less_signed(&self, left: Value<'m>, right: Value<'m>) -> Value<'m> {
        Value::new(unsafe { LLVMBuildICmp(self.0, Predicate::LLVMIntSLT, left.0, right.0, NO_NAME) })
    }

    /// Zero-extends or truncates an integer (or vector of integers) to a type of the same shape.
    pub fn resize(&self, value: Value<'m>, ty: Type<'m>) -> Value<'m> {
        let width = |t: Type<'m>| if t.is_fixed_vector() { t.element().int_bits() } else { t.int_bits() };
        let (from, to) = (width(value.ty()), width(ty));
        Value::new(unsafe {
            match from.cmp(&to) {
                std::cmp::Ordering::Less => LLVMBuildZExt(self.0, value.0, ty.0, NO_NAME),
                std::cmp::Ordering::Equal => value.0,
                std::cmp::Ordering::Greater => LLVMBuildTrunc(self.0, value.0, ty.0, NO_NAME),
            }
        })
    }

    /// Sign-extends an integer, if it is narrower.
    pub fn sign_extend(&self, value: Value<'m>, ty: Type<'m>) -> Value<'m> {
        if value.ty() == ty {
            return value;
        }
        Value::new(unsafe { LLVMBuildSExt(self.0, value.0, ty.0, NO_NAME) })
    }

    pub fn bit_cast(&self, value: Value<'m>, ty: Type<'m>) -> Value<'m> {
        if value.ty() == ty {
            return value;
        }
        Value::new(unsafe { LLVMBuildBitCast(self.0, value.0, ty.0, NO_NAME) })
    }

    pub fn extract_lane(&self, vector: Value<'m>, lane: Value<'m>) -> Value<'m> {
        Value::new(unsafe { LLVMBuildExtractElement(self.0, vector.0, lane.0, NO_NAME) })
    }

    pub fn insert_lane(&self, vector: Value<'m>, element: Value<'m>, lane: Value<'m>) -> Value<'m> {
        Value::new(unsafe { LLVMBuildInsertElement(self.0, vector.0, element.0, lane.0, NO_NAME) })
    }

    pub fn insert_field(&self, aggregate: Value<'m>, field: Value<'m>, index: u32) -> Value<'m> {
        Value::new(unsafe { LLVMBuildInsertValue(self.0, aggregate.0, field.0, index, NO_NAME) })
    }

    pub fn extract_field(&self, aggregate: Value<'m>, index: u32) -> Value<'m> {
        Value::new(unsafe { LLVMBuildExtractValue(self.0, aggregate.0, index, NO_NAME) })
    }

    /// `pointer + bytes`
    pub fn offset(&self, byte: Type<'m>, pointer: Value<'m>, bytes: Value<'m>) -> Value<'m> {
        let mut index = bytes.0;
        Value::new(unsafe { LLVMBuildGEP2(self.0, byte.0, pointer.0, &mut index, 1, NO_NAME) })
    }

    pub fn return_void(&self) {
        unsafe { LLVMBuildRetVoid(self.0) };
    }
}
