//! Modules.

#![allow(unsafe_code, reason = "see the documentation of the parent module")]

use std::ffi::CStr;
use std::ptr;

use llvm_sys::core::*;
use llvm_sys::target::{
    LLVMABIAlignmentOfType, LLVMGetModuleDataLayout, LLVMStoreSizeOfType, LLVMTargetDataRef,
};

use llvm_sys::prelude::*;

use super::builder::Builder;
use super::handles::*;
use crate::meaning::{self, Manner, Ordering, Scope, Stored};

/// A module, with the types used all the time.
pub struct Module<'m> {
    raw: LLVMModuleRef,
    context: LLVMContextRef,
    layout: LLVMTargetDataRef,
    pub void: Type<'m>,
    pub i1: Type<'m>,
    pub i8: Type<'m>,
    pub i32: Type<'m>,
    pub i64: Type<'m>,
    pub ptr: Type<'m>,
}

/// Iterates over a module's values of one kind.
fn chain<'m>(
    first: LLVMValueRef,
    following: unsafe extern "C" fn(LLVMValueRef) -> LLVMValueRef,
) -> Vec<Value<'m>> {
    std::iter::successors(optional(first), |value| optional(unsafe { following(value.0) })).collect()
}

impl<'m> Module<'m> {
    /// # Safety
    ///
    /// `raw` must be a module that lives as long as the result and everything obtained from it.
    pub unsafe fn new(raw: LLVMModuleRef) -> Self {
        unsafe {
            let context = LLVMGetModuleContext(raw);
            Module {
                raw,
                context,
                layout: LLVMGetModuleDataLayout(raw),
                void: Type::new(LLVMVoidTypeInContext(context)),
                i1: Type::new(LLVMInt1TypeInContext(context)),
                i8: Type::new(LLVMInt8TypeInContext(context)),
                i32: Type::new(LLVMInt32TypeInContext(context)),
                i64: Type::new(LLVMInt64TypeInContext(context)),
                ptr: Type::new(LLVMPointerTypeInContext(context, 0)),
            }
        }
    }

    /// An integer type.
    pub fn int(&self, bits: u32) -> Type<'m> {
        Type::new(unsafe { LLVMIntTypeInContext(self.context, bits) })
    }

    pub fn structure(&self, fields: &[Type<'m>]) -> Type<'m> {
        let mut raw: Vec<_> = fields.iter().map(|t| t.0).collect();
        Type::new(unsafe { LLVMStructTypeInContext(self.context, raw.as_mut_ptr(), raw.len() as u32, 0) })
    }

    /// Bytes a store of this type writes.
    pub fn store_size(&self, ty: Type<'m>) -> u64 {
        unsafe { LLVMStoreSizeOfType(self.layout, ty.0) }
    }

    /// Distance between array elements of this type.
    pub fn alloc_size(&self, ty: Type<'m>) -> u64 {
        unsafe { llvm_sys::target::LLVMABISizeOfType(self.layout, ty.0) }
    }

    /// Bits of a sized type.
    pub fn bits(&self, ty: Type<'m>) -> u64 {
        unsafe { llvm_sys::target::LLVMSizeOfTypeInBits(self.layout, ty.0) }
    }

    pub fn abi_alignment(&self, ty: Type<'m>) -> u32 {
        unsafe { LLVMABIAlignmentOfType(self.layout, ty.0) }
    }

    /// Offset of a member of a structure type.
    pub fn member_offset(&self, ty: Type<'m>, member: u32) -> u64 {
        unsafe { llvm_sys::target::LLVMOffsetOfElement(self.layout, ty.0, member) }
    }

    /// How a store reaches memory. Constants go through general registers unless the function must not be optimized.
    pub fn store_manner(&self, store: Value<'m>) -> Manner {
        let value = store.operand(0);
        let ty = value.ty();
        let stored = match ty.kind() {
            TypeKind::LLVMVectorTypeKind => Stored::Vector,
            TypeKind::LLVMIntegerTypeKind | TypeKind::LLVMPointerTypeKind => Stored::General,
            TypeKind::LLVMStructTypeKind | TypeKind::LLVMArrayTypeKind => Stored::Aggregate,
            _ if value.is_constant() && !store.function().has_function_attribute("optnone") => {
                Stored::FloatConstant
            }
            _ => Stored::Float,
        };
        // Only atomic stores have a scope.
        let ordering = store.ordering();
        let scope = if ordering == Ordering::NotAtomic { Scope::System } else { store.scope() };
        let hint = store.has_metadata("nontemporal");
        meaning::store(ordering, scope, hint, stored, self.store_size(ty))
    }

    /// The global and constant offset denoted by a constant pointer (or its integer value).
    pub fn constant_base(&self, pointer: Value<'m>) -> Option<(Value<'m>, i64)> {
        let mut offset = 0;
        let base = optional(unsafe { cp_constant_base(pointer.0, self.raw, &mut offset) })?;
        Some((base, offset))
    }

    pub fn functions(&self) -> Vec<Value<'m>> {
        chain(unsafe { LLVMGetFirstFunction(self.raw) }, LLVMGetNextFunction)
    }

    pub fn globals(&self) -> Vec<Value<'m>> {
        chain(unsafe { LLVMGetFirstGlobal(self.raw) }, LLVMGetNextGlobal)
    }

    /// Other names of functions and variables.
    pub fn aliases(&self) -> Vec<Value<'m>> {
        chain(unsafe { LLVMGetFirstGlobalAlias(self.raw) }, LLVMGetNextGlobalAlias)
    }

    pub fn source_file(&self) -> String {
        let mut length = 0;
        let start = unsafe { LLVMGetSourceFileName(self.raw, &mut length) };
        text(start, length)
    }

    /// Assembly outside any function.
    pub fn file_scope_assembly(&self) -> String {
        let mut length = 0;
        let start = unsafe { LLVMGetModuleInlineAsm(self.raw, &mut length) };
        text(start, length)
    }

    pub fn target(&self) -> String {
        unsafe { CStr::from_ptr(LLVMGetTarget(self.raw)) }.to_string_lossy().into_owned()
    }

    /// Writes the module to a file. False if that fails.
    pub fn write_bitcode(&self, path: &std::path::Path) -> bool {
        let path = c_string(&path.to_string_lossy());
        unsafe { llvm_sys::bit_writer::LLVMWriteBitcodeToFile(self.raw, path.as_ptr()) == 0 }
    }

    /// Whether named metadata of this name exists; used to mark processed modules.
    pub fn has_mark(&self, name: &str) -> bool {
        !unsafe { LLVMGetNamedMetadata(self.raw, name.as_ptr().cast(), name.len()) }.is_null()
    }

    pub fn mark(&self, name: &str) {
        unsafe { LLVMGetOrInsertNamedMetadata(self.raw, name.as_ptr().cast(), name.len()) };
    }

    pub fn function_named(&self, name: &str) -> Option<Value<'m>> {
        optional(unsafe { LLVMGetNamedFunction(self.raw, c_string(name).as_ptr()) })
    }

    pub fn function_type(&self, result: Type<'m>, params: &[Type<'m>]) -> Type<'m> {
        let mut raw: Vec<_> = params.iter().map(|t| t.0).collect();
        Type::new(unsafe { LLVMFunctionType(result.0, raw.as_mut_ptr(), raw.len() as u32, 0) })
    }

    pub fn add_function(&self, name: &str, ty: Type<'m>) -> Value<'m> {
        Value::new(unsafe { LLVMAddFunction(self.raw, c_string(name).as_ptr(), ty.0) })
    }

    pub fn add_function_attribute(&self, function: Value<'m>, name: &str) {
        let kind = unsafe { LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()) };
        let attribute = unsafe { LLVMCreateEnumAttribute(self.context, kind, 0) };
        unsafe { LLVMAddAttributeAtIndex(function.0, llvm_sys::LLVMAttributeFunctionIndex, attribute) };
    }

    /// Adds an attribute to the callee, for this call only.
    pub fn add_call_attribute(&self, call: Value<'m>, name: &str) {
        let kind = unsafe { LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()) };
        let attribute = unsafe { LLVMCreateEnumAttribute(self.context, kind, 0) };
        unsafe { LLVMAddCallSiteAttribute(call.0, llvm_sys::LLVMAttributeFunctionIndex, attribute) };
    }

    pub fn add_global(&self, name: &str, ty: Type<'m>) -> Value<'m> {
        Value::new(unsafe { LLVMAddGlobal(self.raw, ty.0, c_string(name).as_ptr()) })
    }

    /// A private constant zero-terminated string.
    pub fn string(&self, content: &str) -> Value<'m> {
        let bytes = c_string(content).into_bytes();
        let data = Value::new(unsafe {
            LLVMConstStringInContext2(self.context, bytes.as_ptr().cast(), bytes.len(), 0)
        });
        let global = self.add_global("__crashproof.text", data.ty());
        global.set_initializer(data);
        global.set_linkage(Linkage::LLVMPrivateLinkage);
        global.set_global_constant(true);
        global.set_unnamed_address();
        global.set_alignment(1);
        global
    }

    /// The address of an element of a global array, as a constant.
    pub fn element_address(&self, array: Value<'m>, element: Type<'m>, index: u64) -> Value<'m> {
        let mut index = self.i64.number(index).0;
        Value::new(unsafe { LLVMConstInBoundsGEP2(element.0, array.0, &mut index, 1) })
    }

    /// `pointer` as a constant integer.
    pub fn constant_address(&self, pointer: Value<'m>) -> Value<'m> {
        Value::new(unsafe { LLVMConstPtrToInt(pointer.0, self.i64.0) })
    }

    pub fn append_block(&self, function: Value<'m>) -> Block<'m> {
        Block::new(unsafe { LLVMAppendBasicBlockInContext(self.context, function.0, c"".as_ptr()) })
    }

    pub fn append_constructor(&self, function: Value<'m>, priority: i32) {
        unsafe { cp_append_constructor(self.raw, function.0, priority) }
    }

    pub fn forget_memory_attributes(&self) {
        unsafe { cp_forget_memory_attributes(self.raw) }
    }

    /// Marks a load as always returning the same non-null pointer.
    pub fn mark_invariant(&self, load: Value<'m>) {
        for kind in ["invariant.load", "nonnull"] {
            let id =
                unsafe { LLVMGetMDKindIDInContext(self.context, kind.as_ptr().cast(), kind.len() as u32) };
            let empty = unsafe { LLVMMDNodeInContext2(self.context, ptr::null_mut(), 0) };
            unsafe { LLVMSetMetadata(load.0, id, LLVMMetadataAsValue(self.context, empty)) };
        }
    }

    pub fn builder(&self) -> Builder<'m> {
        Builder::new(unsafe { LLVMCreateBuilderInContext(self.context) })
    }

    /// The intrinsic that a call calls, such as `llvm.memcpy.p0.p0.i64`; the name may be longer than LLVM's own prefix.
    pub fn intrinsic_name(&self, call: Value<'m>) -> String {
        call.callee().name()
    }
}
