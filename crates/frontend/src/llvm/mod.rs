//! A thin, safe-looking face over LLVM's C interface and the C++ shim, for everything here that reads or
//! changes LLVM IR: the instrumenting plugin and the static analysis.
//!
//! inkwell is not used on purpose: its typed enums panic on values they do not know, and what reads IR
//! must accept whatever module a compiler hands it.
//!
//! # Why the unsafe code here is sound
//!
//! One invariant covers every block: all handles ([`Value`], [`Type`], [`Block`], [`Meta`]) come from the
//! module that was handed to [`Module::new`] or read by [`File`], the module outlives the run, and it is used
//! from one thread only. A handle is not used after the instruction behind it was erased; [`Value::erase`]
//! takes care to be the last word on its value. Handles of the wrong class (an operand asked of a
//! constant integer) would be undefined in LLVM, so callers ask [`Value::opcode`] or an `is_` method
//! first; what each method expects is said on it.

#![allow(unsafe_code, reason = "the only door to LLVM; see the module documentation")]
#![allow(missing_docs, reason = "most names are LLVM's own; what they do is in its documentation")]

mod builder;
mod debug;
mod file;
mod module;
mod types;
mod value;

pub use builder::Builder;
pub use debug::{DebugKind, DebugType, Member, Variable};
pub use file::File;
pub use module::Module;

use std::ffi::{CStr, CString, c_char, c_uint};
use std::ptr;

use llvm_sys::prelude::*;
pub use llvm_sys::{
    LLVMAtomicRMWBinOp as RmwOp, LLVMIntPredicate as Predicate, LLVMLinkage as Linkage, LLVMOpcode as Opcode,
    LLVMTypeKind as TypeKind,
};

#[repr(C)]
struct CpLocation {
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
    fn cp_location(location: LLVMMetadataRef, out: *mut CpLocation) -> bool;
    fn cp_function_location(function: LLVMValueRef, out: *mut CpLocation) -> bool;
    fn cp_debug_loc(instruction: LLVMValueRef) -> LLVMMetadataRef;
    fn cp_demangle(name: *const c_char, length: usize) -> *mut c_char;
    fn cp_split(at: LLVMValueRef, rare: LLVMValueRef, then: *mut LLVMValueRef, other: *mut LLVMValueRef);
    fn cp_split_then(at: LLVMValueRef, rare: LLVMValueRef) -> LLVMValueRef;
    fn cp_move_before(instruction: LLVMValueRef, place: LLVMValueRef);
    fn cp_after_definition(instruction: LLVMValueRef) -> LLVMValueRef;
    fn cp_after_allocas(function: LLVMValueRef) -> LLVMValueRef;
    fn cp_strip_constant_offsets(pointer: LLVMValueRef) -> LLVMValueRef;
    fn cp_constant_base(pointer: LLVMValueRef, module: LLVMModuleRef, offset: *mut i64) -> LLVMValueRef;
    fn cp_expand_rmw(instruction: LLVMValueRef);
    fn cp_forget_memory_attributes(module: LLVMModuleRef);
    fn cp_constant_users_to_instructions(global: LLVMValueRef);
    fn cp_append_constructor(module: LLVMModuleRef, function: LLVMValueRef, priority: i32);
    fn cp_call_class(call: LLVMValueRef) -> c_uint;
    fn cp_touches_memory(call: LLVMValueRef) -> bool;
    fn cp_free_of_effects(call: LLVMValueRef) -> bool;
    fn free(memory: *mut std::ffi::c_void);
}

/// A value: instruction, argument, constant or global.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Value(LLVMValueRef);

/// A type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Type(LLVMTypeRef);

/// A basic block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Block(LLVMBasicBlockRef);

/// A metadata node, here always a debug location.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Meta(LLVMMetadataRef);

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

fn optional(value: LLVMValueRef) -> Option<Value> {
    (!value.is_null()).then_some(Value(value))
}

fn text(start: *const c_char, length: usize) -> String {
    if start.is_null() {
        return String::new();
    }
    // LLVM says where its string begins and how long it is.
    let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) };
    String::from_utf8_lossy(bytes).into_owned()
}

fn c_string(name: &str) -> CString {
    CString::new(name.replace('\0', "?")).expect("no zero byte is left")
}

/// A symbol as its source would write it.
pub fn demangle(name: &str) -> String {
    let readable = unsafe { cp_demangle(name.as_ptr().cast(), name.len()) };
    if readable.is_null() {
        return name.to_owned();
    }
    let result = unsafe { CStr::from_ptr(readable) }.to_string_lossy().into_owned();
    unsafe { free(readable.cast()) };
    without_hash(&result).to_owned()
}

/// Rust's old mangling ends with `::h` and sixteen digits that tell the reader nothing.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => path,
        _ => name,
    }
}

impl CpLocation {
    fn empty() -> Self {
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

    fn read(&self) -> Location {
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

impl Meta {
    /// Reads a debug location and the one it was inlined at.
    pub fn location(self) -> Option<(Location, Option<Meta>)> {
        let mut out = CpLocation::empty();
        if !unsafe { cp_location(self.0, &mut out) } {
            return None;
        }
        Some((out.read(), (!out.inlined_at.is_null()).then_some(Meta(out.inlined_at))))
    }
}
