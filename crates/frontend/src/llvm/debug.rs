//! What debug information says about variables and types.

#![allow(unsafe_code, reason = "see the documentation of the crate")]

use std::ffi::{c_char, c_uint, c_void};
use std::ptr;

use llvm_sys::prelude::*;

use super::handles::*;

#[repr(C)]
struct CpType {
    kind: c_uint,
    name: *const c_char,
    name_len: usize,
    bytes: u64,
    base: LLVMMetadataRef,
    alignment: u64,
}

type TellVariable = unsafe extern "C" fn(
    *mut c_void,
    LLVMValueRef,
    *const c_char,
    usize,
    *const c_char,
    usize,
    LLVMMetadataRef,
    bool,
);
type TellMember = unsafe extern "C" fn(*mut c_void, *const c_char, usize, u64, LLVMMetadataRef);

unsafe extern "C" {
    fn cp_variables(function: LLVMValueRef, tell: TellVariable, context: *mut c_void);
    fn cp_global_type(global: LLVMValueRef) -> LLVMMetadataRef;
    fn cp_type(node: LLVMMetadataRef, out: *mut CpType);
    fn cp_members(node: LLVMMetadataRef, tell: TellMember, context: *mut c_void);
}

/// A source variable and the value that holds it.
#[derive(Clone, Debug)]
pub struct Variable<'m> {
    pub value: Value<'m>,
    pub name: String,
    /// The function whose variable it is, as the linker knows it; an inlined one keeps its variables.
    pub function: String,
    pub ty: Option<Meta<'m>>,
    /// The value is the address of the variable, not its content.
    pub is_address: bool,
}

/// What a type is, behind typedefs and qualifiers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DebugKind {
    Unknown,
    Pointer,
    Structure,
    Array,
    Plain,
}

/// A type of the source.
#[derive(Clone, Debug)]
pub struct DebugType<'m> {
    pub kind: DebugKind,
    pub name: String,
    pub bytes: u64,
    /// What a pointer points to, or the element of an array.
    pub base: Option<Meta<'m>>,
    /// As declared; 0 if the type's own.
    pub alignment: u64,
}

/// A member of a structure.
#[derive(Clone, Debug)]
pub struct Member<'m> {
    pub name: String,
    pub offset: u64,
    pub ty: Option<Meta<'m>>,
}

fn node<'m>(raw: LLVMMetadataRef) -> Option<Meta<'m>> {
    (!raw.is_null()).then(|| Meta::new(raw))
}

impl<'m> Value<'m> {
    /// The variables that values of this function hold.
    pub fn variables(self) -> Vec<Variable<'m>> {
        unsafe extern "C" fn tell(
            context: *mut c_void,
            value: LLVMValueRef,
            name: *const c_char,
            length: usize,
            function: *const c_char,
            function_length: usize,
            ty: LLVMMetadataRef,
            is_address: bool,
        ) {
            // The context is the vector below, alive while the shim runs.
            let all = unsafe { &mut *context.cast::<Vec<Variable<'_>>>() };
            let (name, function) = (text(name, length), text(function, function_length));
            all.push(Variable { value: Value::new(value), name, function, ty: node(ty), is_address });
        }
        let mut all: Vec<Variable<'m>> = Vec::new();
        unsafe { cp_variables(self.0, tell, (&raw mut all).cast()) };
        all
    }

    /// The type of a global variable as its source has it.
    pub fn global_debug_type(self) -> Option<Meta<'m>> {
        node(unsafe { cp_global_type(self.0) })
    }
}

impl<'m> Meta<'m> {
    /// Of a node that is a type.
    pub fn debug_type(self) -> DebugType<'m> {
        let mut out =
            CpType { kind: 0, name: ptr::null(), name_len: 0, bytes: 0, base: ptr::null_mut(), alignment: 0 };
        unsafe { cp_type(self.0, &mut out) };
        let kind = match out.kind {
            1 => DebugKind::Pointer,
            2 => DebugKind::Structure,
            3 => DebugKind::Array,
            4 => DebugKind::Plain,
            _ => DebugKind::Unknown,
        };
        DebugType {
            kind,
            name: text(out.name, out.name_len),
            bytes: out.bytes,
            base: node(out.base),
            alignment: out.alignment,
        }
    }

    /// Of a node that is a structure, class or union, behind typedefs.
    pub fn members(self) -> Vec<Member<'m>> {
        unsafe extern "C" fn tell(
            context: *mut c_void,
            name: *const c_char,
            length: usize,
            offset: u64,
            ty: LLVMMetadataRef,
        ) {
            // As above.
            let all = unsafe { &mut *context.cast::<Vec<Member<'_>>>() };
            all.push(Member { name: text(name, length), offset, ty: node(ty) });
        }
        let mut all: Vec<Member<'m>> = Vec::new();
        unsafe { cp_members(self.0, tell, (&raw mut all).cast()) };
        all
    }
}
