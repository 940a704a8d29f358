//! Handles for LLVM's objects, and the interface of the C++ shim.

#![allow(unsafe_code, reason = "see the documentation of the parent module")]

use std::ffi::{CStr, CString, c_char, c_uint};
use std::marker::PhantomData;
use std::ptr;

use llvm_sys::prelude::*;
pub use llvm_sys::{
    LLVMAtomicRMWBinOp as RmwOp, LLVMIntPredicate as Predicate, LLVMLinkage as Linkage, LLVMOpcode as Opcode,
    LLVMTypeKind as TypeKind,
};

#[repr(C)]
pub(super) struct CpLocation {
    line: c_uint,
    column: c_uint,
    file: *const c_char,
    file_len: usize,
    directory: *const c_char,
    directory_len: usize,
    function: *const c_char,
    function_len: usize,
    inlined_at: LLVMMetadataRef,
}

unsafe extern "C" {
    pub(super) fn cp_location(location: LLVMMetadataRef, out: *mut CpLocation) -> bool;
    pub(super) fn cp_function_location(function: LLVMValueRef, out: *mut CpLocation) -> bool;
    pub(super) fn cp_debug_loc(instruction: LLVMValueRef) -> LLVMMetadataRef;
    pub(super) fn cp_demangle(name: *const c_char, length: usize) -> *mut c_char;
    pub(super) fn cp_split(
        at: LLVMValueRef,
        rare: LLVMValueRef,
        then: *mut LLVMValueRef,
        other: *mut LLVMValueRef,
    );
    pub(super) fn cp_split_then(at: LLVMValueRef, rare: LLVMValueRef) -> LLVMValueRef;
    pub(super) fn cp_move_before(instruction: LLVMValueRef, place: LLVMValueRef);
    pub(super) fn cp_after_definition(instruction: LLVMValueRef) -> LLVMValueRef;
    pub(super) fn cp_after_allocas(function: LLVMValueRef) -> LLVMValueRef;
    pub(super) fn cp_strip_constant_offsets(pointer: LLVMValueRef) -> LLVMValueRef;
    pub(super) fn cp_constant_base(
        pointer: LLVMValueRef,
        module: LLVMModuleRef,
        offset: *mut i64,
    ) -> LLVMValueRef;
    pub(super) fn cp_expand_rmw(instruction: LLVMValueRef);
    pub(super) fn cp_forget_memory_attributes(module: LLVMModuleRef);
    pub(super) fn cp_constant_users_to_instructions(global: LLVMValueRef);
    pub(super) fn cp_append_constructor(module: LLVMModuleRef, function: LLVMValueRef, priority: i32);
    pub(super) fn cp_call_class(call: LLVMValueRef) -> c_uint;
    pub(super) fn cp_touches_memory(call: LLVMValueRef) -> bool;
    pub(super) fn cp_free_of_effects(call: LLVMValueRef) -> bool;
    fn free(memory: *mut std::ffi::c_void);
}

/// A handle wraps a pointer of LLVM's. It cannot outlive its module.
macro_rules! handle {
    ($(#[$doc:meta])* $name:ident($raw:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct $name<'m>(pub(super) $raw, PhantomData<&'m ()>);

        impl $name<'_> {
            /// Only for this module, which knows what the pointer belongs to.
            pub(super) fn new(raw: $raw) -> Self {
                $name(raw, PhantomData)
            }
        }
    };
}

handle! {
    /// A value: instruction, argument, constant or global.
    Value(LLVMValueRef)
}

handle! {
    /// A type.
    Type(LLVMTypeRef)
}

handle! {
    /// A basic block.
    Block(LLVMBasicBlockRef)
}

handle! {
    /// A node of debug information: a location, or a type.
    Meta(LLVMMetadataRef)
}

/// Where an instruction comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Location {
    pub line: u32,
    pub column: u32,
    pub file: String,
    /// Demangled.
    pub function: String,
}

/// What kind of callee a call has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallClass {
    Function,
    Asm,
    Intrinsic,
}

/// The text of an inline assembly call.
#[derive(Clone, Debug)]
pub struct AsmText {
    pub template: String,
    pub constraints: String,
    pub intel: bool,
}

pub(super) fn optional<'m>(value: LLVMValueRef) -> Option<Value<'m>> {
    (!value.is_null()).then(|| Value::new(value))
}

pub(super) fn text(start: *const c_char, length: usize) -> String {
    if start.is_null() {
        return String::new();
    }
    // LLVM returns the start of its string and its length.
    let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) };
    String::from_utf8_lossy(bytes).into_owned()
}

pub(super) fn c_string(name: &str) -> CString {
    CString::new(name.replace('\0', "?")).expect("no zero byte is left")
}

/// Takes and frees a message allocated by LLVM.
pub(super) fn taken(message: *mut c_char) -> String {
    if message.is_null() {
        return String::new();
    }
    // SAFETY: LLVM returns a string that we must dispose of.
    unsafe {
        let text = CStr::from_ptr(message).to_string_lossy().trim().to_owned();
        llvm_sys::core::LLVMDisposeMessage(message);
        text
    }
}

/// A symbol in source notation.
pub fn demangle(name: &str) -> String {
    let readable = unsafe { cp_demangle(name.as_ptr().cast(), name.len()) };
    if readable.is_null() {
        return name.to_owned();
    }
    let result = unsafe { CStr::from_ptr(readable) }.to_string_lossy().into_owned();
    unsafe { free(readable.cast()) };
    without_hash(&result).to_owned()
}

/// Rust's legacy mangling ends with `::h` and sixteen digits, which mean nothing to the reader.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => path,
        _ => name,
    }
}

impl CpLocation {
    pub(super) fn empty() -> Self {
        CpLocation {
            line: 0,
            column: 0,
            file: ptr::null(),
            file_len: 0,
            directory: ptr::null(),
            directory_len: 0,
            function: ptr::null(),
            function_len: 0,
            inlined_at: ptr::null_mut(),
        }
    }

    pub(super) fn read(&self) -> Location {
        let file = text(self.file, self.file_len);
        let directory = text(self.directory, self.directory_len);
        let relative = !directory.is_empty() && !file.starts_with('/');
        Location {
            line: self.line,
            column: self.column,
            file: if relative { format!("{directory}/{file}") } else { file },
            function: demangle(&text(self.function, self.function_len)),
        }
    }
}

impl<'m> Meta<'m> {
    /// Reads a debug location and the one it was inlined at.
    pub fn location(self) -> Option<(Location, Option<Meta<'m>>)> {
        let mut out = CpLocation::empty();
        if !unsafe { cp_location(self.0, &mut out) } {
            return None;
        }
        Some((out.read(), (!out.inlined_at.is_null()).then(|| Meta::new(out.inlined_at))))
    }
}
