//! Types and blocks.

#![allow(unsafe_code, reason = "see the documentation of the parent module")]

use llvm_sys::core::*;

use super::handles::{Block, Type, TypeKind, Value, optional, taken, text};

impl<'m> Type<'m> {
    pub fn kind(self) -> TypeKind {
        unsafe { LLVMGetTypeKind(self.0) }
    }

    pub fn is_pointer(self) -> bool {
        self.kind() == TypeKind::LLVMPointerTypeKind
    }

    pub fn is_integer(self) -> bool {
        self.kind() == TypeKind::LLVMIntegerTypeKind
    }

    pub fn is_struct(self) -> bool {
        self.kind() == TypeKind::LLVMStructTypeKind
    }

    pub fn is_void(self) -> bool {
        self.kind() == TypeKind::LLVMVoidTypeKind
    }

    pub fn is_fixed_vector(self) -> bool {
        self.kind() == TypeKind::LLVMVectorTypeKind
    }

    /// Of an integer type.
    pub fn int_bits(self) -> u32 {
        unsafe { LLVMGetIntTypeWidth(self.0) }
    }

    /// Of a fixed vector type.
    pub fn lanes(self) -> u32 {
        unsafe { LLVMGetVectorSize(self.0) }
    }

    /// Of a vector or array type.
    pub fn element(self) -> Type<'m> {
        Type::new(unsafe { LLVMGetElementType(self.0) })
    }

    pub fn is_sized(self) -> bool {
        unsafe { LLVMTypeIsSized(self.0) != 0 }
    }

    pub fn null(self) -> Value<'m> {
        Value::new(unsafe { LLVMConstNull(self.0) })
    }

    /// Of an integer type.
    pub fn number(self, value: u64) -> Value<'m> {
        Value::new(unsafe { LLVMConstInt(self.0, value, 0) })
    }

    /// Of a pointer type, and only for pointers.
    pub fn address_space(self) -> u32 {
        unsafe { LLVMGetPointerAddressSpace(self.0) }
    }

    pub fn vector_of(self, lanes: u32) -> Type<'m> {
        Type::new(unsafe { LLVMVectorType(self.0, lanes) })
    }

    pub fn array_of(self, length: u64) -> Type<'m> {
        Type::new(unsafe { LLVMArrayType2(self.0, length) })
    }

    /// A constant array of this element type.
    pub fn const_array(self, elements: &[Value<'m>]) -> Value<'m> {
        let mut raw: Vec<_> = elements.iter().map(|v| v.0).collect();
        Value::new(unsafe { LLVMConstArray2(self.0, raw.as_mut_ptr(), raw.len() as u64) })
    }

    /// A constant of this named or literal structure type.
    pub fn const_struct(self, fields: &[Value<'m>]) -> Value<'m> {
        let mut raw: Vec<_> = fields.iter().map(|v| v.0).collect();
        Value::new(unsafe { LLVMConstNamedStruct(self.0, raw.as_mut_ptr(), raw.len() as u32) })
    }

    /// Number of elements of an array type.
    pub fn array_length(self) -> u64 {
        unsafe { LLVMGetArrayLength2(self.0) }
    }

    /// A member of a structure type.
    pub fn member(self, index: u32) -> Type<'m> {
        Type::new(unsafe { LLVMStructGetTypeAtIndex(self.0, index) })
    }

    /// The name of a structure type; empty if it has none.
    pub fn name(self) -> String {
        let name = unsafe { LLVMGetStructName(self.0) };
        if name.is_null() {
            return String::new();
        }
        // SAFETY: LLVM's names are zero-terminated.
        text(name, unsafe { std::ffi::CStr::from_ptr(name) }.count_bytes())
    }

    /// The type as IR text.
    pub fn printed(self) -> String {
        taken(unsafe { LLVMPrintTypeToString(self.0) })
    }

    /// Number of members of a structure type.
    pub fn members(self) -> u32 {
        unsafe { LLVMCountStructElementTypes(self.0) }
    }
}

impl<'m> Block<'m> {
    /// Its first instruction; every block of a complete function has one.
    pub fn first(self) -> Value<'m> {
        Value::new(unsafe { LLVMGetFirstInstruction(self.0) })
    }

    /// Its last instruction; every block of a complete function has one.
    pub fn terminator(self) -> Value<'m> {
        Value::new(unsafe { LLVMGetBasicBlockTerminator(self.0) })
    }

    /// A snapshot of its instructions.
    pub fn instructions(self) -> Vec<Value<'m>> {
        let mut all = Vec::new();
        let mut next = optional(unsafe { LLVMGetFirstInstruction(self.0) });
        while let Some(instruction) = next {
            all.push(instruction);
            next = optional(unsafe { LLVMGetNextInstruction(instruction.0) });
        }
        all
    }
}
