//! The places where pointers to functions are kept: members of structures, by structure name and offset, for all
//! objects; variables; slots of C++ virtual tables.
//!
//! A call through such a place calls one of the functions stored there anywhere in the program. If a non-constant is
//! stored there, the callee is unknown.

use crate::llvm::{Opcode, Type, TypeKind, Value};
use rustc_hash::FxHashMap;

use super::reader::{Context, Reader};
use crate::program::ir::*;

impl<'m> Reader<'m> {
    /// The named place from which a pointer is loaded, if any.
    pub(crate) fn home_of_loaded(
        &mut self,
        pointer: Value<'m>,
        types: &FxHashMap<Value<'m>, TypeId>,
    ) -> Option<Home> {
        (pointer.is_instruction() && pointer.opcode() == Opcode::LLVMLoad)
            .then(|| self.home(pointer.operand(0), types))
            .flatten()
    }

    /// The place at an address.
    pub(crate) fn home(&mut self, address: Value<'m>, types: &FxHashMap<Value<'m>, TypeId>) -> Option<Home> {
        if address.is_constant() {
            let (base, offset) = self.module.constant_base(address)?;
            if !base.is_global_variable() {
                return None;
            }
            let inside = self.innermost(base.global_type(), u64::try_from(offset).ok()?);
            return inside.or_else(|| self.variable(base, offset));
        }
        if address.is_instruction() && address.opcode() == Opcode::LLVMGetElementPtr {
            return self.home_of_element(address);
        }
        // The first member of a structure has the structure's address.
        self.innermost_of_source(*types.get(&address)?, 0)
    }

    fn home_of_element(&mut self, address: Value<'m>) -> Option<Home> {
        let mut ty = address.gep_source_type();
        if ty.is_pointer() && address.operand_count() == 2 && address.operand(0).opcode() == Opcode::LLVMLoad
        {
            return Some(Home::Virtual(address.operand(1).as_number()?));
        }
        // An element of a table in a variable.
        let base = address.operand(0);
        if base.is_global_variable()
            && ty.kind() == TypeKind::LLVMArrayTypeKind
            && ty.element().is_pointer()
            && base.global_type().kind() == TypeKind::LLVMArrayTypeKind
        {
            return self.variable(base, 0);
        }
        let mut offset = 0_u64;
        for position in 2..address.operand_count() {
            let operand = address.operand(position);
            if ty.kind() == TypeKind::LLVMStructTypeKind {
                let member = operand.as_number()? as u32;
                let inner = ty.member(member);
                if inner.kind() != TypeKind::LLVMStructTypeKind && inner.kind() != TypeKind::LLVMArrayTypeKind
                {
                    return self.innermost(ty, self.module.member_offset(ty, member));
                }
                if position + 1 == address.operand_count() {
                    return self.innermost(inner, 0);
                }
                ty = inner;
            } else {
                ty = ty.element();
            }
            offset = 0;
        }
        self.innermost(ty, offset)
    }

    /// A place in a variable. All elements of an array are one place: an index may select any of them.
    fn variable(&self, global: Value<'m>, offset: i64) -> Option<Home> {
        let is_array = global.global_type().kind() == TypeKind::LLVMArrayTypeKind;
        Some(Home::Variable(*self.globals.get(&global)?, if is_array { 0 } else { offset }))
    }

    /// The innermost structure around an offset, and the offset in it.
    fn innermost(&self, ty: Type<'m>, offset: u64) -> Option<Home> {
        match ty.kind() {
            TypeKind::LLVMStructTypeKind => {
                let member = (0..ty.members())
                    .rev()
                    .find(|member| self.module.member_offset(ty, *member) <= offset)?;
                let inner = ty.member(member);
                let rest = offset - self.module.member_offset(ty, member);
                match self.innermost(inner, rest) {
                    Some(home) => Some(home),
                    None => {
                        let name = plain_name(&ty.name());
                        (!name.is_empty()).then_some(Home::Member(name, offset))
                    }
                }
            }
            TypeKind::LLVMArrayTypeKind => {
                let element = ty.element();
                let bytes = self.module.alloc_size(element).max(1);
                self.innermost(element, offset % bytes)
            }
            _ => None,
        }
    }

    fn innermost_of_source(&self, ty: TypeId, offset: u64) -> Option<Home> {
        let source = &self.program.types[ty.0 as usize];
        if source.is_pointer || source.is_array {
            return None;
        }
        let (start, _, inner) = source.members.iter().rev().find(|member| member.0 <= offset)?;
        inner.and_then(|inner| self.innermost_of_source(inner, offset - start)).or_else(|| {
            let name = plain_name(&source.name);
            (!name.is_empty()).then_some(Home::Member(name, offset))
        })
    }

    /// Records a store to a place.
    pub(crate) fn moved_in(&mut self, home: Home, value: Operand) {
        let stored = self.program.stored_functions.entry(home).or_default();
        match value {
            Operand::Function(id) if !stored.functions.contains(&id) => stored.functions.push(id),
            Operand::Function(_) | Operand::Int(_) | Operand::Undefined => {}
            _ => stored.open = true,
        }
    }

    /// A pointer in the initial content of a variable.
    pub(crate) fn moved_in_initially(&mut self, global: Value<'m>, offset: u64, function: FunctionId) {
        let home = match self.innermost(global.global_type(), offset) {
            // A virtual table starts with an offset and type information.
            _ if global.name().starts_with("_ZTV") => match offset.checked_sub(16) {
                Some(rest) => Home::Virtual(rest / 8),
                None => return,
            },
            Some(home) => home,
            None => match self.variable(global, offset as i64) {
                Some(home) => home,
                None => return,
            },
        };
        self.moved_in(home, Operand::Function(function));
    }

    /// The types of pointers' targets in a function, where the source reveals them.
    pub(crate) fn pointees(&mut self, function: Value<'m>) -> FxHashMap<Value<'m>, TypeId> {
        let mut all = FxHashMap::default();
        for variable in function.variables() {
            let Some(ty) = variable.ty.filter(|_| !variable.is_address) else { continue };
            let ty = self.source_type(ty);
            if let Some(base) = self.program.types[ty.0 as usize].base
                && self.program.types[ty.0 as usize].is_pointer
            {
                all.insert(variable.value, base);
            }
        }
        all
    }

    /// Records where the pointers of indirect calls come from, and what is stored to each place.
    pub(crate) fn note_homes(&mut self, function: Value<'m>, context: &Context<'m>) -> FxHashMap<u32, Home> {
        let mut homes = FxHashMap::default();
        let types = self.pointees(function);
        for block in function.blocks() {
            for instruction in block.instructions() {
                match instruction.opcode() {
                    Opcode::LLVMCall | Opcode::LLVMInvoke if !instruction.callee().is_constant() => {
                        if let Some(home) = self.home_of_loaded(instruction.callee(), &types) {
                            homes.insert(context.numbers[&instruction], home);
                        }
                    }
                    Opcode::LLVMStore if instruction.operand(0).ty().is_pointer() => {
                        let Some(home) = self.home(instruction.operand(1), &types) else { continue };
                        for choice in choices(instruction.operand(0)) {
                            // Copying from the same place adds nothing.
                            if self.home_of_loaded(choice, &types).as_ref() != Some(&home) {
                                let value = self.operand(choice, context);
                                self.moved_in(home.clone(), value);
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        homes
    }
}

/// The possible values: both alternatives of a choice, or the value itself.
fn choices<'m>(value: Value<'m>) -> Vec<Value<'m>> {
    if !value.is_constant() && value.is_instruction() {
        match value.opcode() {
            Opcode::LLVMSelect => return vec![value.operand(1), value.operand(2)],
            Opcode::LLVMPHI => return value.incoming(),
            _ => {}
        }
    }
    vec![value]
}

/// A structure's name in the source, without LLVM's additions: its kind, disambiguating numbers, and namespaces.
fn plain_name(name: &str) -> String {
    let name =
        ["struct.", "class.", "union."].iter().find_map(|kind| name.strip_prefix(kind)).unwrap_or(name);
    let name = match name.rsplit_once('.') {
        Some((rest, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => name,
    };
    let name = name.rsplit("::").next().unwrap_or(name);
    if name == "anon" { String::new() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::plain_name;

    #[test]
    fn names_are_those_of_the_source() {
        assert_eq!(plain_name("struct.pmem_ops.12"), "pmem_ops");
        assert_eq!(plain_name("class.store::Table"), "Table");
        assert_eq!(plain_name("struct.anon"), "");
    }
}
