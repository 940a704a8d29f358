//! A thin, safe-looking face over LLVM's C interface and the C++ shim.
//!
//! inkwell is not used on purpose: its typed enums panic on values they do not know, and an instrumenter
//! must accept whatever module a compiler hands it.
//!
//! # Why the unsafe code here is sound
//!
//! One invariant covers every block: all handles ([`Value`], [`Type`], [`Block`], [`Meta`]) come from the
//! module that the pass manager handed to [`Module::new`], the module outlives the run, and it is used
//! from one thread only. A handle is not used after the instruction behind it was erased; [`Value::erase`]
//! takes care to be the last word on its value. Handles of the wrong class (an operand asked of a
//! constant integer) would be undefined in LLVM, so callers ask [`Value::opcode`] or an `is_` method
//! first; what each method expects is said on it.

#![allow(unsafe_code, reason = "the only door to LLVM; see the module documentation")]

use std::ffi::{CStr, CString, c_char, c_uint};
use std::ptr;

use llvm_sys::core::*;
use llvm_sys::debuginfo::LLVMGetSubprogram;
use llvm_sys::prelude::*;
use llvm_sys::target::{
    LLVMABIAlignmentOfType, LLVMGetModuleDataLayout, LLVMStoreSizeOfType, LLVMTargetDataRef,
};
pub(crate) use llvm_sys::{
    LLVMAtomicOrdering as Ordering, LLVMAtomicRMWBinOp as RmwOp, LLVMIntPredicate as Predicate,
    LLVMLinkage as Linkage, LLVMOpcode as Opcode, LLVMTypeKind as TypeKind,
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
pub(crate) struct Value(LLVMValueRef);

/// A type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Type(LLVMTypeRef);

/// A basic block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Block(LLVMBasicBlockRef);

/// A metadata node, here always a debug location.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Meta(LLVMMetadataRef);

/// Where an instruction comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Location {
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) file: String,
    /// Demangled.
    pub(crate) function: String,
}

/// What kind of callee a call has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CallClass {
    Function,
    Asm,
    Intrinsic,
}

/// The text of an inline assembly call.
#[derive(Clone, Debug)]
pub(crate) struct AsmText {
    pub(crate) template: String,
    pub(crate) constraints: String,
    pub(crate) intel: bool,
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

fn demangle(name: &str) -> String {
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
        Location {
            line: self.line,
            column: self.column,
            file: if directory.is_empty() || file.starts_with('/') {
                file
            } else {
                format!("{directory}/{file}")
            },
            function: demangle(&text(self.function, self.function_len)),
        }
    }
}

impl Meta {
    /// Reads a debug location and the one it was inlined at.
    pub(crate) fn location(self) -> Option<(Location, Option<Meta>)> {
        let mut out = CpLocation::empty();
        if !unsafe { cp_location(self.0, &mut out) } {
            return None;
        }
        Some((out.read(), (!out.inlined_at.is_null()).then_some(Meta(out.inlined_at))))
    }
}

impl Type {
    pub(crate) fn kind(self) -> TypeKind {
        unsafe { LLVMGetTypeKind(self.0) }
    }

    pub(crate) fn is_pointer(self) -> bool {
        self.kind() == TypeKind::LLVMPointerTypeKind
    }

    pub(crate) fn is_integer(self) -> bool {
        self.kind() == TypeKind::LLVMIntegerTypeKind
    }

    pub(crate) fn is_void(self) -> bool {
        self.kind() == TypeKind::LLVMVoidTypeKind
    }

    pub(crate) fn is_fixed_vector(self) -> bool {
        self.kind() == TypeKind::LLVMVectorTypeKind
    }

    /// Of an integer type.
    pub(crate) fn int_bits(self) -> u32 {
        unsafe { LLVMGetIntTypeWidth(self.0) }
    }

    /// Of a fixed vector type.
    pub(crate) fn lanes(self) -> u32 {
        unsafe { LLVMGetVectorSize(self.0) }
    }

    /// Of a vector or array type.
    pub(crate) fn element(self) -> Type {
        Type(unsafe { LLVMGetElementType(self.0) })
    }

    pub(crate) fn is_sized(self) -> bool {
        unsafe { LLVMTypeIsSized(self.0) != 0 }
    }

    pub(crate) fn null(self) -> Value {
        Value(unsafe { LLVMConstNull(self.0) })
    }

    /// Of an integer type.
    pub(crate) fn number(self, value: u64) -> Value {
        Value(unsafe { LLVMConstInt(self.0, value, 0) })
    }

    /// Of a pointer type, and only for pointers.
    pub(crate) fn address_space(self) -> u32 {
        unsafe { LLVMGetPointerAddressSpace(self.0) }
    }

    pub(crate) fn vector_of(self, lanes: u32) -> Type {
        Type(unsafe { LLVMVectorType(self.0, lanes) })
    }

    pub(crate) fn array_of(self, length: u64) -> Type {
        Type(unsafe { LLVMArrayType2(self.0, length) })
    }

    /// A constant array of this element type.
    pub(crate) fn const_array(self, elements: &[Value]) -> Value {
        let mut raw: Vec<_> = elements.iter().map(|v| v.0).collect();
        Value(unsafe { LLVMConstArray2(self.0, raw.as_mut_ptr(), raw.len() as u64) })
    }

    /// A constant of this named or literal structure type.
    pub(crate) fn const_struct(self, fields: &[Value]) -> Value {
        let mut raw: Vec<_> = fields.iter().map(|v| v.0).collect();
        Value(unsafe { LLVMConstNamedStruct(self.0, raw.as_mut_ptr(), raw.len() as u32) })
    }

    /// Number of members of a structure type.
    pub(crate) fn members(self) -> u32 {
        unsafe { LLVMCountStructElementTypes(self.0) }
    }
}

impl Block {
    /// Its first instruction; every block of a complete function has one.
    pub(crate) fn first(self) -> Value {
        Value(unsafe { LLVMGetFirstInstruction(self.0) })
    }

    /// Its instructions, as they are now.
    pub(crate) fn instructions(self) -> Vec<Value> {
        let mut all = Vec::new();
        let mut next = optional(unsafe { LLVMGetFirstInstruction(self.0) });
        while let Some(instruction) = next {
            all.push(instruction);
            next = optional(unsafe { LLVMGetNextInstruction(instruction.0) });
        }
        all
    }
}

impl Value {
    pub(crate) fn ty(self) -> Type {
        Type(unsafe { LLVMTypeOf(self.0) })
    }

    /// Of an instruction.
    pub(crate) fn opcode(self) -> Opcode {
        unsafe { LLVMGetInstructionOpcode(self.0) }
    }

    pub(crate) fn is_instruction(self) -> bool {
        !unsafe { LLVMIsAInstruction(self.0) }.is_null()
    }

    pub(crate) fn is_argument(self) -> bool {
        !unsafe { LLVMIsAArgument(self.0) }.is_null()
    }

    pub(crate) fn is_global(self) -> bool {
        !unsafe { LLVMIsAGlobalValue(self.0) }.is_null()
    }

    pub(crate) fn is_constant(self) -> bool {
        !unsafe { LLVMIsAConstant(self.0) }.is_null()
    }

    pub(crate) fn is_null_constant(self) -> bool {
        unsafe { LLVMIsNull(self.0) != 0 }
    }

    pub(crate) fn is_undefined(self) -> bool {
        !unsafe { LLVMIsAUndefValue(self.0) }.is_null()
    }

    pub(crate) fn is_constant_expression(self) -> bool {
        !unsafe { LLVMIsAConstantExpr(self.0) }.is_null()
    }

    /// The opcode of a constant expression.
    pub(crate) fn constant_opcode(self) -> Opcode {
        unsafe { LLVMGetConstOpcode(self.0) }
    }

    /// The value of a constant integer of at most 64 bits.
    pub(crate) fn as_number(self) -> Option<u64> {
        if unsafe { LLVMIsAConstantInt(self.0) }.is_null() || self.ty().int_bits() > 64 {
            return None;
        }
        Some(unsafe { LLVMConstIntGetZExtValue(self.0) })
    }

    /// Number of operands of an instruction or constant.
    pub(crate) fn operand_count(self) -> u32 {
        unsafe { LLVMGetNumOperands(self.0) as u32 }
    }

    pub(crate) fn operand(self, index: u32) -> Value {
        Value(unsafe { LLVMGetOperand(self.0, index) })
    }

    pub(crate) fn set_operand(self, index: u32, value: Value) {
        unsafe { LLVMSetOperand(self.0, index, value.0) }
    }

    /// All users of a value, and all operand positions where an instruction uses it are left to the caller.
    pub(crate) fn users(self) -> Vec<Value> {
        let mut all = Vec::new();
        let mut next = unsafe { LLVMGetFirstUse(self.0) };
        while !next.is_null() {
            all.push(Value(unsafe { LLVMGetUser(next) }));
            next = unsafe { LLVMGetNextUse(next) };
        }
        all
    }

    pub(crate) fn has_uses(self) -> bool {
        !unsafe { LLVMGetFirstUse(self.0) }.is_null()
    }

    pub(crate) fn replace_uses_with(self, other: Value) {
        unsafe { LLVMReplaceAllUsesWith(self.0, other.0) }
    }

    /// Erases an instruction that has no uses left. The handle is dead afterwards.
    pub(crate) fn erase(self) {
        unsafe { LLVMInstructionEraseFromParent(self.0) }
    }

    /// The block of an instruction.
    pub(crate) fn block(self) -> Block {
        Block(unsafe { LLVMGetInstructionParent(self.0) })
    }

    /// The function of an instruction.
    pub(crate) fn function(self) -> Value {
        Value(unsafe { LLVMGetBasicBlockParent(self.block().0) })
    }

    pub(crate) fn next(self) -> Option<Value> {
        optional(unsafe { LLVMGetNextInstruction(self.0) })
    }

    pub(crate) fn previous(self) -> Option<Value> {
        optional(unsafe { LLVMGetPreviousInstruction(self.0) })
    }

    /// The function of an argument.
    pub(crate) fn argument_function(self) -> Value {
        Value(unsafe { LLVMGetParamParent(self.0) })
    }

    pub(crate) fn name(self) -> String {
        let mut length = 0;
        let start = unsafe { LLVMGetValueName2(self.0, &mut length) };
        text(start, length)
    }

    /// Blocks of a function, empty for a declaration.
    pub(crate) fn blocks(self) -> Vec<Block> {
        let mut all = Vec::new();
        let mut next = unsafe { LLVMGetFirstBasicBlock(self.0) };
        while !next.is_null() {
            all.push(Block(next));
            next = unsafe { LLVMGetNextBasicBlock(next) };
        }
        all
    }

    /// Parameters of a function.
    pub(crate) fn parameters(self) -> Vec<Value> {
        (0..unsafe { LLVMCountParams(self.0) }).map(|i| Value(unsafe { LLVMGetParam(self.0, i) })).collect()
    }

    pub(crate) fn is_declaration(self) -> bool {
        unsafe { LLVMIsDeclaration(self.0) != 0 }
    }

    pub(crate) fn linkage(self) -> Linkage {
        unsafe { LLVMGetLinkage(self.0) }
    }

    pub(crate) fn set_linkage(self, linkage: Linkage) {
        unsafe { LLVMSetLinkage(self.0, linkage) }
    }

    pub(crate) fn is_local(self) -> bool {
        matches!(self.linkage(), Linkage::LLVMInternalLinkage | Linkage::LLVMPrivateLinkage)
    }

    /// Section of a global object.
    pub(crate) fn section(self) -> String {
        let section = unsafe { LLVMGetSection(self.0) };
        if section.is_null() {
            return String::new();
        }
        unsafe { CStr::from_ptr(section) }.to_string_lossy().into_owned()
    }

    pub(crate) fn set_section(self, section: &str) {
        unsafe { LLVMSetSection(self.0, c_string(section).as_ptr()) }
    }

    /// Of a global variable.
    pub(crate) fn initializer(self) -> Option<Value> {
        optional(unsafe { LLVMGetInitializer(self.0) })
    }

    pub(crate) fn set_initializer(self, value: Value) {
        unsafe { LLVMSetInitializer(self.0, value.0) }
    }

    /// The type of the content of a global.
    pub(crate) fn global_type(self) -> Type {
        Type(unsafe { LLVMGlobalGetValueType(self.0) })
    }

    pub(crate) fn is_thread_local(self) -> bool {
        unsafe { LLVMIsThreadLocal(self.0) != 0 }
    }

    pub(crate) fn set_global_constant(self, constant: bool) {
        unsafe { LLVMSetGlobalConstant(self.0, constant.into()) }
    }

    pub(crate) fn set_externally_initialized(self) {
        unsafe { LLVMSetExternallyInitialized(self.0, 1) }
    }

    /// The address of a local constant does not matter; equal ones may be merged.
    pub(crate) fn set_unnamed_address(self) {
        unsafe { LLVMSetUnnamedAddress(self.0, llvm_sys::LLVMUnnamedAddr::LLVMGlobalUnnamedAddr) }
    }

    pub(crate) fn delete_global(self) {
        unsafe { LLVMDeleteGlobal(self.0) }
    }

    /// Takes over linkage, visibility, storage class and, under its own name, the comdat of another global.
    pub(crate) fn take_linkage_of(self, other: Value, module: &Module) {
        unsafe {
            LLVMSetLinkage(self.0, LLVMGetLinkage(other.0));
            LLVMSetVisibility(self.0, LLVMGetVisibility(other.0));
            LLVMSetDLLStorageClass(self.0, LLVMGetDLLStorageClass(other.0));
            let comdat = llvm_sys::comdat::LLVMGetComdat(other.0);
            if !comdat.is_null() {
                let own =
                    llvm_sys::comdat::LLVMGetOrInsertComdat(module.raw, c_string(&self.name()).as_ptr());
                llvm_sys::comdat::LLVMSetComdatSelectionKind(
                    own,
                    llvm_sys::comdat::LLVMGetComdatSelectionKind(comdat),
                );
                llvm_sys::comdat::LLVMSetComdat(self.0, own);
            }
        }
    }

    /// Alignment of a load, store, alloca or global; 0 if none was given.
    pub(crate) fn alignment(self) -> u32 {
        unsafe { LLVMGetAlignment(self.0) }
    }

    pub(crate) fn set_alignment(self, bytes: u32) {
        unsafe { LLVMSetAlignment(self.0, bytes) }
    }

    /// Of a load, store, atomicrmw or cmpxchg.
    pub(crate) fn is_volatile(self) -> bool {
        unsafe { LLVMGetVolatile(self.0) != 0 }
    }

    /// Of a load, store, fence or atomicrmw.
    pub(crate) fn ordering(self) -> Ordering {
        unsafe { LLVMGetOrdering(self.0) }
    }

    /// Whether a fence or atomic access is meant for signal handlers of the same thread only.
    pub(crate) fn is_single_thread(self) -> bool {
        unsafe { LLVMIsAtomicSingleThread(self.0) != 0 }
    }

    /// Of an atomicrmw.
    pub(crate) fn rmw_operation(self) -> RmwOp {
        unsafe { LLVMGetAtomicRMWBinOp(self.0) }
    }

    pub(crate) fn has_metadata(self, kind: &str) -> bool {
        let id = unsafe {
            LLVMGetMDKindIDInContext(LLVMGetTypeContext(self.ty().0), kind.as_ptr().cast(), kind.len() as u32)
        };
        unsafe { LLVMHasMetadata(self.0) != 0 && !LLVMGetMetadata(self.0, id).is_null() }
    }

    /// Debug location of an instruction.
    pub(crate) fn debug_location(self) -> Option<Meta> {
        let location = unsafe { cp_debug_loc(self.0) };
        (!location.is_null()).then_some(Meta(location))
    }

    /// Debug location of a function.
    pub(crate) fn function_location(self) -> Option<Location> {
        let mut out = CpLocation::empty();
        unsafe { cp_function_location(self.0, &mut out) }.then(|| out.read())
    }

    pub(crate) fn has_debug_info(self) -> bool {
        !unsafe { LLVMGetSubprogram(self.0) }.is_null()
    }

    pub(crate) fn has_function_attribute(self, name: &str) -> bool {
        let kind = unsafe { LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()) };
        !unsafe { LLVMGetEnumAttributeAtIndex(self.0, llvm_sys::LLVMAttributeFunctionIndex, kind) }.is_null()
    }

    pub(crate) fn remove_function_attribute(self, name: &str) {
        let kind = unsafe { LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()) };
        unsafe { LLVMRemoveEnumAttributeAtIndex(self.0, llvm_sys::LLVMAttributeFunctionIndex, kind) };
    }

    /// Whether a global is invisible outside the program or library it is linked into.
    pub(crate) fn has_hidden_visibility(self) -> bool {
        unsafe { LLVMGetVisibility(self.0) == llvm_sys::LLVMVisibility::LLVMHiddenVisibility }
    }

    pub(crate) fn has_parameter_attribute(self, index: u32, name: &str) -> bool {
        let kind = unsafe { LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()) };
        !unsafe { LLVMGetEnumAttributeAtIndex(self.0, index + 1, kind) }.is_null()
    }

    /// Class of the callee of a call, invoke or callbr.
    pub(crate) fn call_class(self) -> CallClass {
        match unsafe { cp_call_class(self.0) } {
            1 => CallClass::Asm,
            2 => CallClass::Intrinsic,
            _ => CallClass::Function,
        }
    }

    /// Whether a call may read or write memory the program can see.
    pub(crate) fn touches_memory(self) -> bool {
        unsafe { cp_touches_memory(self.0) }
    }

    /// Whether a call only computes.
    pub(crate) fn is_free_of_effects(self) -> bool {
        unsafe { cp_free_of_effects(self.0) }
    }

    pub(crate) fn argument_count(self) -> u32 {
        unsafe { LLVMGetNumArgOperands(self.0) }
    }

    /// Callee of a call.
    pub(crate) fn callee(self) -> Value {
        Value(unsafe { LLVMGetCalledValue(self.0) })
    }

    pub(crate) fn asm_text(self) -> AsmText {
        let asm = self.callee().0;
        let (mut length, mut constraint_length) = (0, 0);
        let template = unsafe { LLVMGetInlineAsmAsmString(asm, &mut length) };
        let constraints = unsafe { LLVMGetInlineAsmConstraintString(asm, &mut constraint_length) };
        let dialect = unsafe { LLVMGetInlineAsmDialect(asm) };
        AsmText {
            template: text(template, length),
            constraints: text(constraints, constraint_length),
            intel: dialect == llvm_sys::LLVMInlineAsmDialect::LLVMInlineAsmDialectIntel,
        }
    }

    /// The type given by `byval` or `elementtype` on an argument of a call.
    pub(crate) fn argument_type_attribute(self, index: u32, name: &str) -> Option<Type> {
        let kind = unsafe { LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()) };
        let attribute = unsafe { LLVMGetCallSiteEnumAttribute(self.0, index + 1, kind) };
        (!attribute.is_null()).then(|| Type(unsafe { LLVMGetTypeAttributeValue(attribute) }))
    }

    /// The alignment promised for an argument of a call, 1 if none.
    pub(crate) fn argument_alignment(self, index: u32) -> u32 {
        let kind = unsafe { LLVMGetEnumAttributeKindForName("align".as_ptr().cast(), 5) };
        let attribute = unsafe { LLVMGetCallSiteEnumAttribute(self.0, index + 1, kind) };
        if attribute.is_null() { 1 } else { unsafe { LLVMGetEnumAttributeValue(attribute) as u32 } }
    }

    pub(crate) fn is_must_tail(self) -> bool {
        unsafe { LLVMGetTailCallKind(self.0) == llvm_sys::LLVMTailCallKind::LLVMTailCallKindMustTail }
    }

    pub(crate) fn clear_tail(self) {
        unsafe { LLVMSetTailCallKind(self.0, llvm_sys::LLVMTailCallKind::LLVMTailCallKindNone) }
    }

    /// Incoming values of a phi.
    pub(crate) fn incoming(self) -> Vec<Value> {
        (0..unsafe { LLVMCountIncoming(self.0) })
            .map(|i| Value(unsafe { LLVMGetIncomingValue(self.0, i) }))
            .collect()
    }

    pub(crate) fn add_incoming(self, value: Value, from: Block) {
        let (mut value, mut from) = (value.0, from.0);
        unsafe { LLVMAddIncoming(self.0, &mut value, &mut from, 1) }
    }

    /// Splits the block before this instruction. Returns the terminators of a rarely taken and of a usual
    /// arm; both lead back to this instruction.
    pub(crate) fn split(self, rare: Value) -> (Value, Value) {
        let (mut then, mut other) = (ptr::null_mut(), ptr::null_mut());
        unsafe { cp_split(self.0, rare.0, &mut then, &mut other) };
        (Value(then), Value(other))
    }

    /// Splits the block before this instruction, with only a rarely taken arm.
    pub(crate) fn split_then(self, rare: Value) -> Value {
        Value(unsafe { cp_split_then(self.0, rare.0) })
    }

    pub(crate) fn move_before(self, place: Value) {
        unsafe { cp_move_before(self.0, place.0) }
    }

    /// The first instruction that may use the result of this one, if there is such a place.
    pub(crate) fn after_definition(self) -> Option<Value> {
        optional(unsafe { cp_after_definition(self.0) })
    }

    /// The first instruction of a function behind its allocas.
    pub(crate) fn after_allocas(self) -> Value {
        Value(unsafe { cp_after_allocas(self.0) })
    }

    /// The pointer this one was made from by constant, in-bounds offsets.
    pub(crate) fn strip_constant_offsets(self) -> Value {
        Value(unsafe { cp_strip_constant_offsets(self.0) })
    }

    /// Turns an atomicrmw into the compare-exchange loop the code generator would make of it.
    pub(crate) fn expand_rmw(self) {
        unsafe { cp_expand_rmw(self.0) }
    }

    /// Makes instructions out of the constant expressions, used in functions, that name this global.
    pub(crate) fn constant_users_to_instructions(self) {
        unsafe { cp_constant_users_to_instructions(self.0) }
    }
}

/// The module being instrumented, with the types used all the time.
pub(crate) struct Module {
    raw: LLVMModuleRef,
    context: LLVMContextRef,
    layout: LLVMTargetDataRef,
    pub(crate) void: Type,
    pub(crate) i1: Type,
    pub(crate) i8: Type,
    pub(crate) i32: Type,
    pub(crate) i64: Type,
    pub(crate) ptr: Type,
}

impl Module {
    /// # Safety
    ///
    /// `raw` must be a module that lives as long as the result and everything obtained from it.
    pub(crate) unsafe fn new(raw: LLVMModuleRef) -> Self {
        unsafe {
            let context = LLVMGetModuleContext(raw);
            Module {
                raw,
                context,
                layout: LLVMGetModuleDataLayout(raw),
                void: Type(LLVMVoidTypeInContext(context)),
                i1: Type(LLVMInt1TypeInContext(context)),
                i8: Type(LLVMInt8TypeInContext(context)),
                i32: Type(LLVMInt32TypeInContext(context)),
                i64: Type(LLVMInt64TypeInContext(context)),
                ptr: Type(LLVMPointerTypeInContext(context, 0)),
            }
        }
    }

    /// An integer type.
    pub(crate) fn int(&self, bits: u32) -> Type {
        Type(unsafe { LLVMIntTypeInContext(self.context, bits) })
    }

    pub(crate) fn structure(&self, fields: &[Type]) -> Type {
        let mut raw: Vec<_> = fields.iter().map(|t| t.0).collect();
        Type(unsafe { LLVMStructTypeInContext(self.context, raw.as_mut_ptr(), raw.len() as u32, 0) })
    }

    /// Bytes a store of this type writes.
    pub(crate) fn store_size(&self, ty: Type) -> u64 {
        unsafe { LLVMStoreSizeOfType(self.layout, ty.0) }
    }

    /// Distance between array elements of this type.
    pub(crate) fn alloc_size(&self, ty: Type) -> u64 {
        unsafe { llvm_sys::target::LLVMABISizeOfType(self.layout, ty.0) }
    }

    /// Bits of a sized type.
    pub(crate) fn bits(&self, ty: Type) -> u64 {
        unsafe { llvm_sys::target::LLVMSizeOfTypeInBits(self.layout, ty.0) }
    }

    pub(crate) fn abi_alignment(&self, ty: Type) -> u32 {
        unsafe { LLVMABIAlignmentOfType(self.layout, ty.0) }
    }

    /// Offset of a member of a structure type.
    pub(crate) fn member_offset(&self, ty: Type, member: u32) -> u64 {
        unsafe { llvm_sys::target::LLVMOffsetOfElement(self.layout, ty.0, member) }
    }

    /// A global and the constant offset from it that a constant pointer (or its integer) stands for.
    pub(crate) fn constant_base(&self, pointer: Value) -> Option<(Value, i64)> {
        let mut offset = 0;
        let base = optional(unsafe { cp_constant_base(pointer.0, self.raw, &mut offset) })?;
        Some((base, offset))
    }

    pub(crate) fn functions(&self) -> Vec<Value> {
        let mut all = Vec::new();
        let mut next = optional(unsafe { LLVMGetFirstFunction(self.raw) });
        while let Some(function) = next {
            all.push(function);
            next = optional(unsafe { LLVMGetNextFunction(function.0) });
        }
        all
    }

    pub(crate) fn globals(&self) -> Vec<Value> {
        let mut all = Vec::new();
        let mut next = optional(unsafe { LLVMGetFirstGlobal(self.raw) });
        while let Some(global) = next {
            all.push(global);
            next = optional(unsafe { LLVMGetNextGlobal(global.0) });
        }
        all
    }

    pub(crate) fn source_file(&self) -> String {
        let mut length = 0;
        let start = unsafe { LLVMGetSourceFileName(self.raw, &mut length) };
        text(start, length)
    }

    /// Assembly outside any function.
    pub(crate) fn file_scope_assembly(&self) -> String {
        let mut length = 0;
        let start = unsafe { LLVMGetModuleInlineAsm(self.raw, &mut length) };
        text(start, length)
    }

    pub(crate) fn target(&self) -> String {
        unsafe { CStr::from_ptr(LLVMGetTarget(self.raw)) }.to_string_lossy().into_owned()
    }

    /// Whether named metadata of this name exists; used to mark what was done to a module.
    pub(crate) fn has_mark(&self, name: &str) -> bool {
        !unsafe { LLVMGetNamedMetadata(self.raw, name.as_ptr().cast(), name.len()) }.is_null()
    }

    pub(crate) fn mark(&self, name: &str) {
        unsafe { LLVMGetOrInsertNamedMetadata(self.raw, name.as_ptr().cast(), name.len()) };
    }

    pub(crate) fn function_named(&self, name: &str) -> Option<Value> {
        optional(unsafe { LLVMGetNamedFunction(self.raw, c_string(name).as_ptr()) })
    }

    pub(crate) fn function_type(&self, result: Type, params: &[Type]) -> Type {
        let mut raw: Vec<_> = params.iter().map(|t| t.0).collect();
        Type(unsafe { LLVMFunctionType(result.0, raw.as_mut_ptr(), raw.len() as u32, 0) })
    }

    pub(crate) fn add_function(&self, name: &str, ty: Type) -> Value {
        Value(unsafe { LLVMAddFunction(self.raw, c_string(name).as_ptr(), ty.0) })
    }

    pub(crate) fn add_function_attribute(&self, function: Value, name: &str) {
        let kind = unsafe { LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()) };
        let attribute = unsafe { LLVMCreateEnumAttribute(self.context, kind, 0) };
        unsafe { LLVMAddAttributeAtIndex(function.0, llvm_sys::LLVMAttributeFunctionIndex, attribute) };
    }

    pub(crate) fn add_global(&self, name: &str, ty: Type) -> Value {
        Value(unsafe { LLVMAddGlobal(self.raw, ty.0, c_string(name).as_ptr()) })
    }

    /// A private constant zero-terminated string.
    pub(crate) fn string(&self, content: &str) -> Value {
        let bytes = c_string(content).into_bytes();
        let data =
            Value(unsafe { LLVMConstStringInContext2(self.context, bytes.as_ptr().cast(), bytes.len(), 0) });
        let global = self.add_global("__crashproof.text", data.ty());
        global.set_initializer(data);
        global.set_linkage(Linkage::LLVMPrivateLinkage);
        global.set_global_constant(true);
        global.set_unnamed_address();
        global.set_alignment(1);
        global
    }

    /// The address of an element of a global array, as a constant.
    pub(crate) fn element_address(&self, array: Value, element: Type, index: u64) -> Value {
        let mut index = self.i64.number(index).0;
        Value(unsafe { LLVMConstInBoundsGEP2(element.0, array.0, &mut index, 1) })
    }

    /// `pointer` as a constant integer.
    pub(crate) fn constant_address(&self, pointer: Value) -> Value {
        Value(unsafe { LLVMConstPtrToInt(pointer.0, self.i64.0) })
    }

    pub(crate) fn append_block(&self, function: Value) -> Block {
        Block(unsafe { LLVMAppendBasicBlockInContext(self.context, function.0, c"".as_ptr()) })
    }

    pub(crate) fn append_constructor(&self, function: Value, priority: i32) {
        unsafe { cp_append_constructor(self.raw, function.0, priority) }
    }

    pub(crate) fn forget_memory_attributes(&self) {
        unsafe { cp_forget_memory_attributes(self.raw) }
    }

    /// Says that a load gives the same pointer, not null, wherever it stands.
    pub(crate) fn mark_invariant(&self, load: Value) {
        for kind in ["invariant.load", "nonnull"] {
            let id =
                unsafe { LLVMGetMDKindIDInContext(self.context, kind.as_ptr().cast(), kind.len() as u32) };
            let empty = unsafe { LLVMMDNodeInContext2(self.context, ptr::null_mut(), 0) };
            unsafe { LLVMSetMetadata(load.0, id, LLVMMetadataAsValue(self.context, empty)) };
        }
    }

    pub(crate) fn builder(&self) -> Builder {
        Builder(unsafe { LLVMCreateBuilderInContext(self.context) })
    }

    /// Names longer than LLVM's own prefix: the intrinsic a call calls, such as `llvm.memcpy.p0.p0.i64`.
    pub(crate) fn intrinsic_name(&self, call: Value) -> String {
        call.callee().name()
    }
}

/// Makes instructions at a place.
pub(crate) struct Builder(LLVMBuilderRef);

impl Drop for Builder {
    fn drop(&mut self) {
        unsafe { LLVMDisposeBuilder(self.0) }
    }
}

const NO_NAME: *const c_char = c"".as_ptr();

impl Builder {
    /// Goes before an instruction, keeping the debug location.
    pub(crate) fn before(&self, instruction: Value) {
        unsafe { LLVMPositionBuilderBefore(self.0, instruction.0) }
    }

    pub(crate) fn at_end(&self, block: Block) {
        unsafe { LLVMPositionBuilderAtEnd(self.0, block.0) }
    }

    /// New instructions carry this location.
    pub(crate) fn locate(&self, location: Option<Meta>) {
        let raw = location.map_or(ptr::null_mut(), |meta| meta.0);
        unsafe { LLVMSetCurrentDebugLocation2(self.0, raw) }
    }

    pub(crate) fn call(&self, ty: Type, function: Value, arguments: &[Value]) -> Value {
        let mut raw: Vec<_> = arguments.iter().map(|v| v.0).collect();
        Value(unsafe {
            LLVMBuildCall2(self.0, ty.0, function.0, raw.as_mut_ptr(), raw.len() as u32, NO_NAME)
        })
    }

    pub(crate) fn load(&self, ty: Type, from: Value, align: u32) -> Value {
        let load = Value(unsafe { LLVMBuildLoad2(self.0, ty.0, from.0, NO_NAME) });
        load.set_alignment(align);
        load
    }

    pub(crate) fn store(&self, value: Value, to: Value, align: u32) {
        Value(unsafe { LLVMBuildStore(self.0, value.0, to.0) }).set_alignment(align);
    }

    pub(crate) fn alloca(&self, ty: Type, align: u32) -> Value {
        let alloca = Value(unsafe { LLVMBuildAlloca(self.0, ty.0, NO_NAME) });
        alloca.set_alignment(align);
        alloca
    }

    pub(crate) fn phi(&self, ty: Type) -> Value {
        Value(unsafe { LLVMBuildPhi(self.0, ty.0, NO_NAME) })
    }

    pub(crate) fn ptr_to_int(&self, pointer: Value, ty: Type) -> Value {
        Value(unsafe { LLVMBuildPtrToInt(self.0, pointer.0, ty.0, NO_NAME) })
    }

    pub(crate) fn int_to_ptr(&self, value: Value, ty: Type) -> Value {
        Value(unsafe { LLVMBuildIntToPtr(self.0, value.0, ty.0, NO_NAME) })
    }

    pub(crate) fn shift_right(&self, value: Value, by: Value) -> Value {
        Value(unsafe { LLVMBuildLShr(self.0, value.0, by.0, NO_NAME) })
    }

    pub(crate) fn add(&self, left: Value, right: Value) -> Value {
        Value(unsafe { LLVMBuildAdd(self.0, left.0, right.0, NO_NAME) })
    }

    pub(crate) fn multiply(&self, left: Value, right: Value) -> Value {
        Value(unsafe { LLVMBuildMul(self.0, left.0, right.0, NO_NAME) })
    }

    pub(crate) fn or(&self, left: Value, right: Value) -> Value {
        Value(unsafe { LLVMBuildOr(self.0, left.0, right.0, NO_NAME) })
    }

    pub(crate) fn and(&self, left: Value, right: Value) -> Value {
        Value(unsafe { LLVMBuildAnd(self.0, left.0, right.0, NO_NAME) })
    }

    pub(crate) fn equal(&self, left: Value, right: Value) -> Value {
        Value(unsafe { LLVMBuildICmp(self.0, Predicate::LLVMIntEQ, left.0, right.0, NO_NAME) })
    }

    pub(crate) fn less_signed(&self, left: Value, right: Value) -> Value {
        Value(unsafe { LLVMBuildICmp(self.0, Predicate::LLVMIntSLT, left.0, right.0, NO_NAME) })
    }

    /// Zero-extends or truncates an integer (or vector of integers) to a type of the same shape.
    pub(crate) fn resize(&self, value: Value, ty: Type) -> Value {
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
    pub(crate) fn sign_extend(&self, value: Value, ty: Type) -> Value {
        if value.ty() == ty {
            return value;
        }
        Value(unsafe { LLVMBuildSExt(self.0, value.0, ty.0, NO_NAME) })
    }

    pub(crate) fn bit_cast(&self, value: Value, ty: Type) -> Value {
        if value.ty() == ty {
            return value;
        }
        Value(unsafe { LLVMBuildBitCast(self.0, value.0, ty.0, NO_NAME) })
    }

    pub(crate) fn extract_lane(&self, vector: Value, lane: Value) -> Value {
        Value(unsafe { LLVMBuildExtractElement(self.0, vector.0, lane.0, NO_NAME) })
    }

    pub(crate) fn insert_lane(&self, vector: Value, element: Value, lane: Value) -> Value {
        Value(unsafe { LLVMBuildInsertElement(self.0, vector.0, element.0, lane.0, NO_NAME) })
    }

    pub(crate) fn insert_field(&self, aggregate: Value, field: Value, index: u32) -> Value {
        Value(unsafe { LLVMBuildInsertValue(self.0, aggregate.0, field.0, index, NO_NAME) })
    }

    /// `pointer + bytes`
    pub(crate) fn offset(&self, byte: Type, pointer: Value, bytes: Value) -> Value {
        let mut index = bytes.0;
        Value(unsafe { LLVMBuildGEP2(self.0, byte.0, pointer.0, &mut index, 1, NO_NAME) })
    }

    pub(crate) fn return_void(&self) {
        unsafe { LLVMBuildRetVoid(self.0) };
    }
}
