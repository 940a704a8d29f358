//! The names of a global's parts, according to debug information: `slots[2].value`.

#![allow(unsafe_code, reason = "see the documentation of the parent module")]

use llvm_sys::core::*;
use llvm_sys::debuginfo::*;
use llvm_sys::prelude::*;

use super::handles::{Value, text};

/// A scalar in a global.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it begins.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// The suffix of the global's name: `.slots[2].value`.
    pub name: String,
}

/// Parts beyond these have no names: names for arrays this long would be useless.
const MOST: usize = 4096;

/// DWARF's numbers for kinds of types.
mod tag {
    pub(super) const ARRAY: u16 = 0x01;
    pub(super) const MEMBER: u16 = 0x0d;
    pub(super) const STRUCTURE: u16 = 0x13;
    pub(super) const TYPEDEF: u16 = 0x16;
    pub(super) const CONST: u16 = 0x26;
    pub(super) const VOLATILE: u16 = 0x35;
    pub(super) const ATOMIC: u16 = 0x47;
}

/// Indices of operands in LLVM 22's nodes for variables and types.
const TYPE_OF_VARIABLE: usize = 3;
const BASE: usize = 5;
const ELEMENTS: usize = 6;
const COUNT: usize = 0;

impl Value<'_> {
    /// The scalars that make up a global variable. Unions are one part; overlapping bit-fields are left out.
    pub fn parts(self) -> Vec<Part> {
        // SAFETY: every value has a type, and every type a context.
        let context = unsafe { LLVMGetTypeContext(LLVMTypeOf(self.0)) };
        let mut found = Vec::new();
        if let Some(ty) = type_of(context, self.0) {
            collect(context, ty, 0, String::new(), &mut found);
        }
        found
    }
}

fn type_of(context: LLVMContextRef, global: LLVMValueRef) -> Option<LLVMMetadataRef> {
    let mut count = 0;
    // SAFETY: a global of this context; the entries are disposed of after use.
    unsafe {
        let entries = LLVMGlobalCopyAllMetadata(global, &raw mut count);
        let variable = (0..count as u32)
            .map(|index| LLVMValueMetadataEntriesGetMetadata(entries, index))
            .find(|&node| {
                matches!(
                    LLVMGetMetadataKind(node),
                    LLVMMetadataKind::LLVMDIGlobalVariableExpressionMetadataKind
                )
            })
            .map(|node| LLVMDIGlobalVariableExpressionGetVariable(node));
        LLVMDisposeValueMetadataEntries(entries);
        operand(context, variable?, TYPE_OF_VARIABLE)
    }
}

fn collect(context: LLVMContextRef, ty: LLVMMetadataRef, offset: u64, name: String, found: &mut Vec<Part>) {
    if found.len() >= MOST || !is_type(ty) {
        return;
    }
    // SAFETY: a type; nodes with these tags have these operands.
    let (tag, bits) = unsafe { (LLVMGetDINodeTag(ty), LLVMDITypeGetSizeInBits(ty)) };
    match tag {
        tag::TYPEDEF | tag::CONST | tag::VOLATILE | tag::ATOMIC => {
            if let Some(base) = operand(context, ty, BASE) {
                collect(context, base, offset, name, found);
            }
        }
        tag::STRUCTURE => {
            for member in elements(context, ty).into_iter().filter(|&member| is_type(member)) {
                // SAFETY: an element of a structure's type is debug information.
                let (tag, begins, size) = unsafe {
                    (
                        LLVMGetDINodeTag(member),
                        LLVMDITypeGetOffsetInBits(member),
                        LLVMDITypeGetSizeInBits(member),
                    )
                };
                let whole = begins.is_multiple_of(8) && size.is_multiple_of(8);
                if let (tag::MEMBER, true, Some(base)) = (tag, whole, operand(context, member, BASE)) {
                    let called = type_name(member);
                    let name = if called.is_empty() { name.clone() } else { format!("{name}.{called}") };
                    collect(context, base, offset + begins / 8, name, found);
                }
            }
        }
        tag::ARRAY => {
            let counts: Option<Vec<u64>> =
                elements(context, ty).into_iter().map(|range| number(context, range, COUNT)).collect();
            let (Some(counts), Some(base)) = (counts, operand(context, ty, BASE)) else { return };
            let all: u64 = counts.iter().product();
            if all == 0 || bits / 8 / all == 0 {
                return;
            }
            let stride = bits / 8 / all;
            for index in 0..all.min(MOST as u64) {
                let mut rest = index;
                let mut place = String::new();
                for count in counts.iter().rev() {
                    place = format!("[{}]{place}", rest % count);
                    rest /= count;
                }
                collect(context, base, offset + index * stride, format!("{name}{place}"), found);
            }
        }
        _ if bits >= 8 && !name.is_empty() => found.push(Part { offset, size: bits / 8, name }),
        _ => {}
    }
}

fn is_type(node: LLVMMetadataRef) -> bool {
    use LLVMMetadataKind::*;
    // SAFETY: every metadata node has a kind.
    let kind = unsafe { LLVMGetMetadataKind(node) };
    matches!(
        kind,
        LLVMDIBasicTypeMetadataKind | LLVMDIDerivedTypeMetadataKind | LLVMDICompositeTypeMetadataKind
    )
}

fn type_name(ty: LLVMMetadataRef) -> String {
    let mut length = 0;
    // SAFETY: a type has a name, possibly empty, that lives as long as the type.
    let start = unsafe { LLVMDITypeGetName(ty, &raw mut length) };
    text(start, length)
}

fn elements(context: LLVMContextRef, ty: LLVMMetadataRef) -> Vec<LLVMMetadataRef> {
    let Some(list) = operand(context, ty, ELEMENTS) else { return Vec::new() };
    // SAFETY: the list of a type's elements is a node.
    operands(context, list)
        .into_iter()
        .filter(|node| !node.is_null())
        .map(|node| unsafe { LLVMValueAsMetadata(node) })
        .collect()
}

fn number(context: LLVMContextRef, node: LLVMMetadataRef, index: usize) -> Option<u64> {
    let value = *operands(context, node).get(index)?;
    // SAFETY: a null value is not a constant.
    unsafe {
        (!value.is_null() && !LLVMIsAConstantInt(value).is_null()).then(|| LLVMConstIntGetZExtValue(value))
    }
}

fn operand(context: LLVMContextRef, node: LLVMMetadataRef, index: usize) -> Option<LLVMMetadataRef> {
    let value = *operands(context, node).get(index)?;
    // SAFETY: a non-null operand is metadata.
    (!value.is_null()).then(|| unsafe { LLVMValueAsMetadata(value) })
}

fn operands(context: LLVMContextRef, node: LLVMMetadataRef) -> Vec<LLVMValueRef> {
    // SAFETY: LLVM writes as many operands as it reports; a non-node has none.
    unsafe {
        let value = LLVMMetadataAsValue(context, node);
        if LLVMIsAMDNode(value).is_null() {
            return Vec::new();
        }
        let mut all = vec![std::ptr::null_mut(); LLVMGetMDNodeNumOperands(value) as usize];
        LLVMGetMDNodeOperands(value, all.as_mut_ptr());
        all
    }
}
