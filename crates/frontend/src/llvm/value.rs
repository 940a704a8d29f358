//! Values: instructions, arguments, constants and globals.

#![allow(unsafe_code, reason = "see the documentation of the parent module")]

use std::ffi::CStr;
use std::ptr;

use llvm_sys::LLVMAtomicOrdering;
use llvm_sys::core::*;
use llvm_sys::debuginfo::LLVMGetSubprogram;

use super::handles::*;
use crate::meaning::{Ordering, Scope};

impl<'m> Value<'m> {
    pub fn ty(self) -> Type<'m> {
        Type::new(unsafe { LLVMTypeOf(self.0) })
    }

    /// Of an instruction.
    pub fn opcode(self) -> Opcode {
        unsafe { LLVMGetInstructionOpcode(self.0) }
    }

    pub fn is_instruction(self) -> bool {
        !unsafe { LLVMIsAInstruction(self.0) }.is_null()
    }

    pub fn is_argument(self) -> bool {
        !unsafe { LLVMIsAArgument(self.0) }.is_null()
    }

    pub fn is_global(self) -> bool {
        !unsafe { LLVMIsAGlobalValue(self.0) }.is_null()
    }

    pub fn is_constant(self) -> bool {
        !unsafe { LLVMIsAConstant(self.0) }.is_null()
    }

    pub fn is_null_constant(self) -> bool {
        unsafe { LLVMIsNull(self.0) != 0 }
    }

    pub fn is_undefined(self) -> bool {
        !unsafe { LLVMIsAUndefValue(self.0) }.is_null()
    }

    pub fn is_constant_expression(self) -> bool {
        !unsafe { LLVMIsAConstantExpr(self.0) }.is_null()
    }

    /// The opcode of a constant expression.
    pub fn constant_opcode(self) -> Opcode {
        unsafe { LLVMGetConstOpcode(self.0) }
    }

    /// The value of a constant integer of at most 64 bits.
    pub fn as_number(self) -> Option<u64> {
        if unsafe { LLVMIsAConstantInt(self.0) }.is_null() || self.ty().int_bits() > 64 {
            return None;
        }
        Some(unsafe { LLVMConstIntGetZExtValue(self.0) })
    }

    /// Number of operands of an instruction or constant.
    pub fn operand_count(self) -> u32 {
        unsafe { LLVMGetNumOperands(self.0) as u32 }
    }

    pub fn operand(self, index: u32) -> Value<'m> {
        Value::new(unsafe { LLVMGetOperand(self.0, index) })
    }

    pub fn set_operand(self, index: u32, value: Value<'m>) {
        unsafe { LLVMSetOperand(self.0, index, value.0) }
    }

    /// All users of a value; finding the operand positions is left to the caller.
    pub fn users(self) -> Vec<Value<'m>> {
        let mut all = Vec::new();
        let mut next = unsafe { LLVMGetFirstUse(self.0) };
        while !next.is_null() {
            all.push(Value::new(unsafe { LLVMGetUser(next) }));
            next = unsafe { LLVMGetNextUse(next) };
        }
        all
    }

    pub fn has_uses(self) -> bool {
        !unsafe { LLVMGetFirstUse(self.0) }.is_null()
    }

    pub fn replace_uses_with(self, other: Value<'m>) {
        unsafe { LLVMReplaceAllUsesWith(self.0, other.0) }
    }

    /// Erases an instruction that has no uses left.
    ///
    /// # Safety
    ///
    /// No copy of the handle may be used afterwards.
    pub unsafe fn erase(self) {
        unsafe { LLVMInstructionEraseFromParent(self.0) }
    }

    /// The block of an instruction.
    pub fn block(self) -> Block<'m> {
        Block::new(unsafe { LLVMGetInstructionParent(self.0) })
    }

    /// The function of an instruction.
    pub fn function(self) -> Value<'m> {
        Value::new(unsafe { LLVMGetBasicBlockParent(self.block().0) })
    }

    pub fn next(self) -> Option<Value<'m>> {
        optional(unsafe { LLVMGetNextInstruction(self.0) })
    }

    pub fn previous(self) -> Option<Value<'m>> {
        optional(unsafe { LLVMGetPreviousInstruction(self.0) })
    }

    /// The function of an argument.
    pub fn argument_function(self) -> Value<'m> {
        Value::new(unsafe { LLVMGetParamParent(self.0) })
    }

    pub fn name(self) -> String {
        let mut length = 0;
        let start = unsafe { LLVMGetValueName2(self.0, &mut length) };
        text(start, length)
    }

    /// Blocks of a function, empty for a declaration.
    pub fn blocks(self) -> Vec<Block<'m>> {
        let mut all = Vec::new();
        let mut next = unsafe { LLVMGetFirstBasicBlock(self.0) };
        while !next.is_null() {
            all.push(Block::new(next));
            next = unsafe { LLVMGetNextBasicBlock(next) };
        }
        all
    }

    /// Parameters of a function.
    pub fn parameters(self) -> Vec<Value<'m>> {
        (0..unsafe { LLVMCountParams(self.0) })
            .map(|i| Value::new(unsafe { LLVMGetParam(self.0, i) }))
            .collect()
    }

    pub fn is_declaration(self) -> bool {
        unsafe { LLVMIsDeclaration(self.0) != 0 }
    }

    pub fn linkage(self) -> Linkage {
        unsafe { LLVMGetLinkage(self.0) }
    }

    pub fn set_linkage(self, linkage: Linkage) {
        unsafe { LLVMSetLinkage(self.0, linkage) }
    }

    pub fn is_local(self) -> bool {
        matches!(self.linkage(), Linkage::LLVMInternalLinkage | Linkage::LLVMPrivateLinkage)
    }

    /// Section of a global object.
    pub fn section(self) -> String {
        let section = unsafe { LLVMGetSection(self.0) };
        if section.is_null() {
            return String::new();
        }
        unsafe { CStr::from_ptr(section) }.to_string_lossy().into_owned()
    }

    pub fn set_section(self, section: &str) {
        unsafe { LLVMSetSection(self.0, c_string(section).as_ptr()) }
    }

    /// Of a global variable.
    pub fn initializer(self) -> Option<Value<'m>> {
        optional(unsafe { LLVMGetInitializer(self.0) })
    }

    pub fn set_initializer(self, value: Value<'m>) {
        unsafe { LLVMSetInitializer(self.0, value.0) }
    }

    /// The type of the content of a global.
    pub fn global_type(self) -> Type<'m> {
        Type::new(unsafe { LLVMGlobalGetValueType(self.0) })
    }

    pub fn is_thread_local(self) -> bool {
        unsafe { LLVMIsThreadLocal(self.0) != 0 }
    }

    pub fn set_global_constant(self, constant: bool) {
        unsafe { LLVMSetGlobalConstant(self.0, constant.into()) }
    }

    pub fn set_externally_initialized(self) {
        unsafe { LLVMSetExternallyInitialized(self.0, 1) }
    }

    /// The address of a local constant does not matter; equal ones may be merged.
    pub fn set_unnamed_address(self) {
        unsafe { LLVMSetUnnamedAddress(self.0, llvm_sys::LLVMUnnamedAddr::LLVMGlobalUnnamedAddr) }
    }

    /// Removes a global that has no uses left.
    ///
    /// # Safety
    ///
    /// No copy of the handle may be used afterwards.
    pub unsafe fn delete_global(self) {
        unsafe { LLVMDeleteGlobal(self.0) }
    }

    /// Takes over linkage, visibility, storage class and, under its own name, the comdat of another global.
    pub fn take_linkage_of(self, other: Value<'m>) {
        unsafe {
            LLVMSetLinkage(self.0, LLVMGetLinkage(other.0));
            LLVMSetVisibility(self.0, LLVMGetVisibility(other.0));
            LLVMSetDLLStorageClass(self.0, LLVMGetDLLStorageClass(other.0));
            let comdat = llvm_sys::comdat::LLVMGetComdat(other.0);
            if !comdat.is_null() {
                let own = llvm_sys::comdat::LLVMGetOrInsertComdat(
                    LLVMGetGlobalParent(self.0),
                    c_string(&self.name()).as_ptr(),
                );
                llvm_sys::comdat::LLVMSetComdatSelectionKind(
                    own,
                    llvm_sys::comdat::LLVMGetComdatSelectionKind(comdat),
                );
                llvm_sys::comdat::LLVMSetComdat(self.0, own);
            }
        }
    }

    /// Alignment of a load, store, alloca or global; 0 if none was given.
    pub fn alignment(self) -> u32 {
        unsafe { LLVMGetAlignment(self.0) }
    }

    pub fn set_alignment(self, bytes: u32) {
        unsafe { LLVMSetAlignment(self.0, bytes) }
    }

    /// Of a load, store, atomicrmw or cmpxchg.
    pub fn is_volatile(self) -> bool {
        unsafe { LLVMGetVolatile(self.0) != 0 }
    }

    /// Of a load, store, fence or atomicrmw.
    pub fn ordering(self) -> Ordering {
        match unsafe { LLVMGetOrdering(self.0) } {
            LLVMAtomicOrdering::LLVMAtomicOrderingNotAtomic => Ordering::NotAtomic,
            LLVMAtomicOrdering::LLVMAtomicOrderingSequentiallyConsistent => Ordering::SequentiallyConsistent,
            _ => Ordering::Weak,
        }
    }

    /// Of a fence or atomic access.
    pub fn scope(self) -> Scope {
        match unsafe { LLVMIsAtomicSingleThread(self.0) } {
            0 => Scope::System,
            _ => Scope::SingleThread,
        }
    }

    /// Of an atomicrmw.
    pub fn rmw_operation(self) -> RmwOp {
        unsafe { LLVMGetAtomicRMWBinOp(self.0) }
    }

    pub fn has_metadata(self, kind: &str) -> bool {
        let id = unsafe {
            LLVMGetMDKindIDInContext(LLVMGetTypeContext(self.ty().0), kind.as_ptr().cast(), kind.len() as u32)
        };
        unsafe { LLVMHasMetadata(self.0) != 0 && !LLVMGetMetadata(self.0, id).is_null() }
    }

    /// Debug location of an instruction.
    pub fn debug_location(self) -> Option<Meta<'m>> {
        let location = unsafe { cp_debug_loc(self.0) };
        (!location.is_null()).then_some(Meta::new(location))
    }

    /// Debug location of a function.
    pub fn function_location(self) -> Option<Location> {
        let mut out = CpLocation::empty();
        unsafe { cp_function_location(self.0, &mut out) }.then(|| out.read())
    }

    pub fn has_debug_info(self) -> bool {
        !unsafe { LLVMGetSubprogram(self.0) }.is_null()
    }

    pub fn has_function_attribute(self, name: &str) -> bool {
        let kind = unsafe { LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()) };
        !unsafe { LLVMGetEnumAttributeAtIndex(self.0, llvm_sys::LLVMAttributeFunctionIndex, kind) }.is_null()
    }

    /// The text of a function's attribute that is one, such as `target-features`.
    pub fn text_attribute(self, name: &str) -> Option<String> {
        let index = llvm_sys::LLVMAttributeFunctionIndex;
        let found =
            unsafe { LLVMGetStringAttributeAtIndex(self.0, index, name.as_ptr().cast(), name.len() as u32) };
        (!found.is_null()).then(|| {
            let mut length = 0;
            let text = unsafe { LLVMGetStringAttributeValue(found, &raw mut length) };
            let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length as usize) };
            String::from_utf8_lossy(bytes).into_owned()
        })
    }

    pub fn remove_function_attribute(self, name: &str) {
        let kind = unsafe { LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()) };
        unsafe { LLVMRemoveEnumAttributeAtIndex(self.0, llvm_sys::LLVMAttributeFunctionIndex, kind) };
    }

    /// Whether a global is invisible outside its linked program or library.
    pub fn has_hidden_visibility(self) -> bool {
        unsafe { LLVMGetVisibility(self.0) == llvm_sys::LLVMVisibility::LLVMHiddenVisibility }
    }

    pub fn has_parameter_attribute(self, index: u32, name: &str) -> bool {
        let kind = unsafe { LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()) };
        !unsafe { LLVMGetEnumAttributeAtIndex(self.0, index + 1, kind) }.is_null()
    }

    /// Class of the callee of a call, invoke or callbr.
    pub fn call_class(self) -> CallClass {
        match unsafe { cp_call_class(self.0) } {
            1 => CallClass::Asm,
            2 => CallClass::Intrinsic,
            _ => CallClass::Function,
        }
    }

    /// Whether a call may read or write memory the program can see.
    pub fn touches_memory(self) -> bool {
        unsafe { cp_touches_memory(self.0) }
    }

    /// Whether a call only computes.
    pub fn is_free_of_effects(self) -> bool {
        unsafe { cp_free_of_effects(self.0) }
    }

    pub fn argument_count(self) -> u32 {
        unsafe { LLVMGetNumArgOperands(self.0) }
    }

    /// Callee of a call.
    pub fn callee(self) -> Value<'m> {
        Value::new(unsafe { LLVMGetCalledValue(self.0) })
    }

    pub fn asm_text(self) -> AsmText {
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
    pub fn argument_type_attribute(self, index: u32, name: &str) -> Option<Type<'m>> {
        let kind = unsafe { LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()) };
        let attribute = unsafe { LLVMGetCallSiteEnumAttribute(self.0, index + 1, kind) };
        (!attribute.is_null()).then(|| Type::new(unsafe { LLVMGetTypeAttributeValue(attribute) }))
    }

    /// The alignment promised for an argument of a call, 1 if none.
    pub fn argument_alignment(self, index: u32) -> u32 {
        let kind = unsafe { LLVMGetEnumAttributeKindForName("align".as_ptr().cast(), 5) };
        let attribute = unsafe { LLVMGetCallSiteEnumAttribute(self.0, index + 1, kind) };
        if attribute.is_null() { 1 } else { unsafe { LLVMGetEnumAttributeValue(attribute) as u32 } }
    }

    pub fn is_must_tail(self) -> bool {
        unsafe { LLVMGetTailCallKind(self.0) == llvm_sys::LLVMTailCallKind::LLVMTailCallKindMustTail }
    }

    pub fn clear_tail(self) {
        unsafe { LLVMSetTailCallKind(self.0, llvm_sys::LLVMTailCallKind::LLVMTailCallKindNone) }
    }

    /// Incoming values of a phi.
    pub fn incoming(self) -> Vec<Value<'m>> {
        (0..unsafe { LLVMCountIncoming(self.0) })
            .map(|i| Value::new(unsafe { LLVMGetIncomingValue(self.0, i) }))
            .collect()
    }

    pub fn add_incoming(self, value: Value<'m>, from: Block<'m>) {
        let (mut value, mut from) = (value.0, from.0);
        unsafe { LLVMAddIncoming(self.0, &mut value, &mut from, 1) }
    }

    /// Splits the block before this instruction. Returns the terminators of a rarely taken and of a usual
    /// arm; both lead back to this instruction.
    pub fn split(self, rare: Value<'m>) -> (Value<'m>, Value<'m>) {
        let (mut then, mut other) = (ptr::null_mut(), ptr::null_mut());
        unsafe { cp_split(self.0, rare.0, &mut then, &mut other) };
        (Value::new(then), Value::new(other))
    }

    /// Splits the block before this instruction, with only a rarely taken arm.
    pub fn split_then(self, rare: Value<'m>) -> Value<'m> {
        Value::new(unsafe { cp_split_then(self.0, rare.0) })
    }

    pub fn move_before(self, place: Value<'m>) {
        unsafe { cp_move_before(self.0, place.0) }
    }

    /// The first instruction that may use the result of this one, if there is one.
    pub fn after_definition(self) -> Option<Value<'m>> {
        optional(unsafe { cp_after_definition(self.0) })
    }

    /// The first instruction of a function behind its allocas.
    pub fn after_allocas(self) -> Value<'m> {
        Value::new(unsafe { cp_after_allocas(self.0) })
    }

    /// The pointer this one was made from by constant, in-bounds offsets.
    pub fn strip_constant_offsets(self) -> Value<'m> {
        Value::new(unsafe { cp_strip_constant_offsets(self.0) })
    }

    /// Expands an atomicrmw into the compare-exchange loop that the code generator would emit.
    ///
    /// # Safety
    ///
    /// No copy of the handle may be used afterwards.
    pub unsafe fn expand_rmw(self) {
        unsafe { cp_expand_rmw(self.0) }
    }

    /// Converts constant expressions in functions that refer to this global into instructions.
    pub fn constant_users_to_instructions(self) {
        unsafe { cp_constant_users_to_instructions(self.0) }
    }
}

/// For readers of IR.
impl<'m> Value<'m> {
    /// The value of a constant integer of at most 64 bits, with its sign.
    pub fn as_signed(self) -> Option<i64> {
        self.as_number()?;
        Some(unsafe { LLVMConstIntGetSExtValue(self.0) })
    }

    /// The value as IR text, without references to metadata, which mean nothing to a reader.
    pub fn printed(self) -> String {
        let whole = taken(unsafe { LLVMPrintValueToString(self.0) });
        whole.split(", !").next().unwrap_or(&whole).trim().to_owned()
    }

    pub fn is_inline_assembly(self) -> bool {
        !unsafe { LLVMIsAInlineAsm(self.0) }.is_null()
    }

    pub fn is_null_pointer(self) -> bool {
        !unsafe { LLVMIsAConstantPointerNull(self.0) }.is_null()
    }

    /// The target of a global alias.
    pub fn aliasee(self) -> Option<Value<'m>> {
        let is_alias = !unsafe { LLVMIsAGlobalAlias(self.0) }.is_null();
        is_alias.then(|| Value::new(unsafe { LLVMAliasGetAliasee(self.0) }))
    }

    /// The value of a floating-point constant, and whether a double loses precision.
    pub fn as_double(self) -> Option<(f64, bool)> {
        let is_float = !unsafe { LLVMIsAConstantFP(self.0) }.is_null();
        is_float.then(|| {
            let mut loses = 0;
            (unsafe { LLVMConstRealGetDouble(self.0, &raw mut loses) }, loses != 0)
        })
    }

    /// The bytes of a constant array of bytes.
    pub fn as_bytes(self) -> Option<Vec<u8>> {
        unsafe {
            if LLVMIsAConstantDataSequential(self.0).is_null() || LLVMIsConstantString(self.0) == 0 {
                return None;
            }
            let mut length = 0;
            let start = LLVMGetAsString(self.0, &raw mut length);
            Some(std::slice::from_raw_parts(start.cast::<u8>(), length).to_vec())
        }
    }

    pub fn is_global_constant(self) -> bool {
        unsafe { LLVMIsGlobalConstant(self.0) != 0 }
    }

    /// How many parameters the called function is declared with.
    pub fn called_parameter_count(self) -> u32 {
        unsafe { LLVMCountParamTypes(LLVMGetCalledFunctionType(self.0)) }
    }

    /// The type given by an attribute of a parameter of a function.
    pub fn parameter_type_attribute(self, index: u32, name: &str) -> Option<Type<'m>> {
        let kind = unsafe { LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()) };
        let attribute = unsafe { LLVMGetEnumAttributeAtIndex(self.0, index + 1, kind) };
        (!attribute.is_null()).then(|| Type::new(unsafe { LLVMGetTypeAttributeValue(attribute) }))
    }

    /// The file, line and column of an instruction, function or global variable; empty and zero if unknown.
    pub fn source_place(self) -> (String, u32, u32) {
        let mut length = 0;
        unsafe {
            let start = LLVMGetDebugLocFilename(self.0, &raw mut length);
            let column = if self.is_instruction() { LLVMGetDebugLocColumn(self.0) } else { 0 };
            (text(start, length as usize), LLVMGetDebugLocLine(self.0), column)
        }
    }

    /// Whether a function is declared to touch no memory.
    pub fn is_pure(self) -> bool {
        let name = "memory";
        let kind = unsafe { LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()) };
        let attribute =
            unsafe { LLVMGetEnumAttributeAtIndex(self.0, llvm_sys::LLVMAttributeFunctionIndex, kind) };
        !attribute.is_null() && unsafe { LLVMGetEnumAttributeValue(attribute) } == 0
    }

    /// The type that the indices of a `getelementptr` walk through.
    pub fn gep_source_type(self) -> Type<'m> {
        Type::new(unsafe { LLVMGetGEPSourceElementType(self.0) })
    }

    /// Of an `icmp`.
    pub fn predicate(self) -> Predicate {
        unsafe { LLVMGetICmpPredicate(self.0) }
    }

    /// Of an `extractvalue` or `insertvalue`.
    pub fn indices(self) -> Vec<u32> {
        let count = unsafe { LLVMGetNumIndices(self.0) } as usize;
        let start = unsafe { LLVMGetIndices(self.0) };
        if count == 0 || start.is_null() {
            return Vec::new();
        }
        unsafe { std::slice::from_raw_parts(start, count) }.to_vec()
    }

    pub fn is_terminator(self) -> bool {
        !unsafe { LLVMIsATerminatorInst(self.0) }.is_null()
    }

    /// Where a terminator may go.
    pub fn successors(self) -> Vec<Block<'m>> {
        (0..unsafe { LLVMGetNumSuccessors(self.0) })
            .map(|i| Block::new(unsafe { LLVMGetSuccessor(self.0, i) }))
            .collect()
    }

    /// The condition of a `br` that has one.
    pub fn condition(self) -> Option<Value<'m>> {
        (unsafe { LLVMIsConditional(self.0) } != 0).then(|| Value::new(unsafe { LLVMGetCondition(self.0) }))
    }

    /// The value of a case of a `switch`; 1 is the first.
    pub fn case_value(self, successor: u32) -> Value<'m> {
        Value::new(unsafe { LLVMGetSwitchCaseValue(self.0, successor) })
    }

    /// Where an `invoke` goes if nothing is thrown.
    pub fn normal_destination(self) -> Block<'m> {
        Block::new(unsafe { LLVMGetNormalDest(self.0) })
    }

    /// Incoming values of a phi, with the blocks they come from.
    pub fn incoming_pairs(self) -> Vec<(Value<'m>, Block<'m>)> {
        (0..unsafe { LLVMCountIncoming(self.0) })
            .map(|i| unsafe {
                (Value::new(LLVMGetIncomingValue(self.0, i)), Block::new(LLVMGetIncomingBlock(self.0, i)))
            })
            .collect()
    }

    pub fn is_global_variable(self) -> bool {
        !unsafe { LLVMIsAGlobalVariable(self.0) }.is_null()
    }

    pub fn is_function(self) -> bool {
        !unsafe { LLVMIsAFunction(self.0) }.is_null()
    }

    /// An element of a constant structure or array.
    pub fn aggregate_element(self, index: u32) -> Option<Value<'m>> {
        optional(unsafe { LLVMGetAggregateElement(self.0, index) })
    }

    /// What a function returns.
    pub fn returned_type(self) -> Type<'m> {
        Type::new(unsafe { LLVMGetReturnType(LLVMGlobalGetValueType(self.0)) })
    }

    /// The type an alloca makes room for.
    pub fn allocated_type(self) -> Type<'m> {
        Type::new(unsafe { LLVMGetAllocatedType(self.0) })
    }
}
