//! The types, variables and globals of a program, from its debug information (DWARF).
//!
//! Read once, when something needs a name. Unreadable parts are skipped: objects then keep their source expressions,
//! and values are shown as numbers.

use std::path::Path;

use addr2line::gimli::{
    self, AttributeValue, DW_AT_abstract_origin, DW_AT_byte_size, DW_AT_const_value,
    DW_AT_data_member_location, DW_AT_decl_line, DW_AT_encoding, DW_AT_specification, DW_AT_type, UnitOffset,
};
use crashproof_findings::is_of_rust;
use rustc_hash::FxHashMap;

use crate::debug_info::{self, Entry, number, reference};

/// A type, by number.
pub(crate) type TypeId = u32;

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// Unknown.
    Unknown,
    /// A number or a character.
    Plain { bytes: u64, encoding: Encoding },
    /// A pointer or reference.
    Pointer(Option<TypeId>),
    /// A structure, class or union.
    Structure { name: String, bytes: u64, members: Vec<Member> },
    /// An array; of unknown length if `count` is 0.
    Array { of: TypeId, count: u64 },
    /// An enumeration and the names of its values.
    Enumeration { bytes: u64, values: Vec<(i64, String)> },
    /// An alias of another type: typedefs and qualifiers.
    Same(TypeId),
}

/// How to interpret a plain value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Signed,
    Unsigned,
    Boolean,
    Character,
    Float,
}

/// A member of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) offset: u64,
    pub(crate) ty: TypeId,
}

/// A variable of a function.
struct Variable {
    name: String,
    line: u32,
    ty: TypeId,
}

/// All types and variables.
#[derive(Default)]
pub(crate) struct Types {
    types: Vec<Type>,
    /// Keyed by the last part of the function's name.
    locals: FxHashMap<String, Vec<Variable>>,
    globals: FxHashMap<String, TypeId>,
}

/// The depth to which types are followed.
const DEEPEST: usize = 16;

/// The last part of a function's name, without arguments and generics: debug information and demangled names agree on
/// that.
pub(crate) fn last_part(function: &str) -> String {
    let mut plain = String::new();
    let mut depth = 0;
    for next in function.chars() {
        match next {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' if depth == 0 => break,
            _ if depth == 0 => plain.push(next),
            _ => {}
        }
    }
    // A hash at the end of legacy Rust symbol names.
    let is_hash = |part: &&str| {
        part.len() == 17 && part.starts_with('h') && part[1..].bytes().all(|it| it.is_ascii_hexdigit())
    };
    let last = plain.rsplit("::").find(|part| !part.is_empty() && !is_hash(part));
    last.unwrap_or_default().to_owned()
}

impl Types {
    /// Reads those of a program; empty without debug information.
    pub(crate) fn read(program: &Path) -> Types {
        read(program).unwrap_or_default()
    }

    /// Resolves typedefs and qualifiers.
    pub(crate) fn get(&self, ty: TypeId) -> (TypeId, &Type) {
        let mut ty = ty;
        for _ in 0..DEEPEST {
            match self.types.get(ty as usize) {
                Some(Type::Same(other)) => ty = *other,
                Some(found) => return (ty, found),
                None => break,
            }
        }
        (ty, &Type::Unknown)
    }

    /// The type of a variable visible to a function at a line.
    pub(crate) fn variable(&self, function: &str, line: u32, name: &str) -> Option<TypeId> {
        let locals = self.locals.get(&last_part(function)).into_iter().flatten();
        let local = locals.filter(|it| it.name == name && it.line <= line).max_by_key(|it| it.line);
        local.map(|it| it.ty).or_else(|| self.globals.get(name).copied())
    }

    /// Is this a variable of the function, according to the debug information?
    pub(crate) fn is_local(&self, function: &str, line: u32, name: &str) -> bool {
        let mut locals = self.locals.get(&last_part(function)).into_iter().flatten();
        locals.any(|it| it.name == name && it.line <= line)
    }

    /// Bytes that values of a type take.
    pub(crate) fn size(&self, ty: TypeId) -> u64 {
        self.size_within(ty, 0)
    }

    fn size_within(&self, ty: TypeId, depth: usize) -> u64 {
        match self.get(ty).1 {
            _ if depth > DEEPEST => 0,
            Type::Plain { bytes, .. } | Type::Structure { bytes, .. } | Type::Enumeration { bytes, .. } => {
                *bytes
            }
            Type::Pointer(_) => 8,
            Type::Array { of, count } => count.saturating_mul(self.size_within(*of, depth + 1)),
            Type::Unknown | Type::Same(_) => 0,
        }
    }

    /// A member of a structure, or of an anonymous structure or base class within it: its offset and type.
    pub(crate) fn member(&self, ty: TypeId, name: &str) -> Option<(u64, TypeId)> {
        self.member_within(ty, name, 0)
    }

    fn member_within(&self, ty: TypeId, name: &str, depth: usize) -> Option<(u64, TypeId)> {
        let Type::Structure { members, .. } = self.get(ty).1 else { return None };
        if let Some(found) = members.iter().find(|member| member.name == name) {
            return Some((found.offset, found.ty));
        }
        let inner = members.iter().filter(|member| member.name.is_empty() && depth < DEEPEST);
        inner
            .filter_map(|it| self.member_within(it.ty, name, depth + 1).map(|at| (it.offset + at.0, at.1)))
            .next()
    }

    /// For tests: a type.
    #[cfg(test)]
    pub(crate) fn push(&mut self, ty: Type) -> TypeId {
        self.types.push(ty);
        self.types.len() as TypeId - 1
    }

    /// For tests: a variable.
    #[cfg(test)]
    pub(crate) fn declare(&mut self, function: &str, name: &str, ty: TypeId) {
        let variable = Variable { name: name.into(), line: 0, ty };
        self.locals.entry(function.into()).or_default().push(variable);
    }
}

fn read(program: &Path) -> Option<Types> {
    let mut types = Types::default();
    debug_info::for_each_unit(program, |dwarf, unit| {
        // The libraries that ship with Rust are large, and not the user's.
        let of_rust = |part| debug_info::text(part).is_some_and(|text| is_of_rust(&text));
        if !of_rust(unit.comp_dir) && !of_rust(unit.name) {
            // A damaged unit is skipped from there on.
            let _ = Unit { dwarf, unit, types: &mut types, numbers: FxHashMap::default() }.read();
        }
    })?;
    Some(types)
}

struct Unit<'u, 'd> {
    dwarf: &'u debug_info::Dwarf<'d>,
    unit: &'u debug_info::Unit<'d>,
    types: &'u mut Types,
    numbers: FxHashMap<UnitOffset, TypeId>,
}

/// The entries around the current one.
#[derive(Default)]
struct Around {
    /// Depth and offset of each entry, outermost first.
    parents: Vec<(isize, UnitOffset)>,
    /// Depth and name of each function.
    functions: Vec<(isize, String)>,
    /// All functions so far, because others refer to them for their names.
    names: FxHashMap<UnitOffset, String>,
}

impl Around {
    fn leave_to(&mut self, depth: isize) {
        let inside = |above: isize| above < depth;
        self.parents.truncate(self.parents.partition_point(|(above, _)| inside(*above)));
        self.functions.truncate(self.functions.partition_point(|(above, _)| inside(*above)));
    }

    fn enter_function(&mut self, entry: &Entry, name: String) {
        self.functions.push((entry.depth(), last_part(&name)));
        self.names.insert(entry.offset(), name);
    }
}

impl Unit<'_, '_> {
    fn number(&mut self, offset: UnitOffset) -> TypeId {
        let types = &mut self.types.types;
        *self.numbers.entry(offset).or_insert_with(|| {
            types.push(Type::Unknown);
            types.len() as TypeId - 1
        })
    }

    fn nothing(&mut self) -> TypeId {
        self.number(UnitOffset(usize::MAX))
    }

    fn read(mut self) -> gimli::Result<()> {
        let mut around = Around::default();
        let unit = self.unit;
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            around.leave_to(entry.depth());
            if let Some(made) = self.type_of(entry) {
                let at = self.number(entry.offset());
                self.types.types[at as usize] = made;
            }
            match entry.tag() {
                gimli::DW_TAG_subprogram | gimli::DW_TAG_inlined_subroutine => {
                    let other = reference(entry, DW_AT_specification)
                        .or_else(|| reference(entry, DW_AT_abstract_origin));
                    let name = self.name(entry).or_else(|| around.names.get(&other?).cloned());
                    around.enter_function(entry, name.unwrap_or_default());
                }
                gimli::DW_TAG_formal_parameter | gimli::DW_TAG_variable => {
                    self.variable(entry, around.functions.last().map(|(_, function)| function));
                }
                _ => {
                    if let Some((_, parent)) = around.parents.last() {
                        self.part(entry, *parent);
                    }
                }
            }
            around.parents.push((entry.depth(), entry.offset()));
        }
        Ok(())
    }

    fn name(&self, entry: &Entry) -> Option<String> {
        debug_info::name(self.dwarf, self.unit, entry)
    }

    /// The type that an entry describes, still without its parts; `None` if it does not describe a type.
    fn type_of(&mut self, entry: &Entry) -> Option<Type> {
        let bytes = number(entry, DW_AT_byte_size).unwrap_or(0);
        let of = reference(entry, DW_AT_type);
        Some(match entry.tag() {
            gimli::DW_TAG_base_type => Type::Plain { bytes, encoding: self.encoding(entry) },
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => Type::Pointer(of.map(|of| self.number(of))),
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                Type::Structure { name: self.name(entry).unwrap_or_default(), bytes, members: Vec::new() }
            }
            gimli::DW_TAG_array_type => {
                let of = of.map(|of| self.number(of)).unwrap_or_else(|| self.nothing());
                Type::Array { of, count: 0 }
            }
            gimli::DW_TAG_enumeration_type => Type::Enumeration { bytes, values: Vec::new() },
            gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_restrict_type
            | gimli::DW_TAG_atomic_type => Type::Same(self.number(of?)),
            _ => return None,
        })
    }

    fn encoding(&self, entry: &Entry) -> Encoding {
        let Some(AttributeValue::Encoding(encoding)) = entry.attr_value(DW_AT_encoding) else {
            return Encoding::Unsigned;
        };
        match encoding {
            gimli::DW_ATE_signed => Encoding::Signed,
            gimli::DW_ATE_boolean => Encoding::Boolean,
            gimli::DW_ATE_float => Encoding::Float,
            // Rust's u8 and C's uint8_t are numbers; both are encoded as unsigned char.
            gimli::DW_ATE_signed_char | gimli::DW_ATE_unsigned_char | gimli::DW_ATE_UTF
                if self.name(entry).as_deref() == Some("char") =>
            {
                Encoding::Character
            }
            _ => Encoding::Unsigned,
        }
    }

    /// A variable or parameter, of a function or global.
    fn variable(&mut self, entry: &Entry, function: Option<&String>) {
        let (Some(name), Some(of)) = (self.name(entry), reference(entry, DW_AT_type)) else { return };
        let ty = self.number(of);
        match function {
            Some(function) => {
                let line = number(entry, DW_AT_decl_line).unwrap_or(0) as u32;
                self.types.locals.entry(function.clone()).or_default().push(Variable { name, line, ty });
            }
            None => {
                self.types.globals.insert(name, ty);
            }
        }
    }

    /// A part of the type that `parent` describes: a member, a base class, a value, a dimension.
    fn part(&mut self, entry: &Entry, parent: UnitOffset) {
        match entry.tag() {
            gimli::DW_TAG_member | gimli::DW_TAG_inheritance => {
                let Some(of) = reference(entry, DW_AT_type) else { return };
                let member = Member {
                    name: self.name(entry).unwrap_or_default(),
                    offset: number(entry, DW_AT_data_member_location).unwrap_or(0),
                    ty: self.number(of),
                };
                let at = self.number(parent) as usize;
                if let Type::Structure { members, .. } = &mut self.types.types[at] {
                    members.push(member);
                }
            }
            gimli::DW_TAG_enumerator => {
                let value = entry.attr_value(DW_AT_const_value);
                let value = value.and_then(|it| it.sdata_value().or(it.udata_value().map(|it| it as i64)));
                let (Some(value), Some(name)) = (value, self.name(entry)) else { return };
                let at = self.number(parent) as usize;
                if let Type::Enumeration { values, .. } = &mut self.types.types[at] {
                    values.push((value, name));
                }
            }
            gimli::DW_TAG_subrange_type => {
                self.dimension(parent, debug_info::elements(entry));
            }
            _ => {}
        }
    }

    /// Adds a dimension to an array, outermost first.
    fn dimension(&mut self, array: UnitOffset, count: u64) {
        let mut at = self.number(array);
        loop {
            let Type::Array { of, count: known } = self.types.types[at as usize].clone() else { return };
            if known == 0 {
                self.types.types[at as usize] = Type::Array { of, count };
                return;
            }
            // A further dimension: an array of arrays.
            let inner = match self.types.types[of as usize] {
                Type::Array { count: 0, .. } => of,
                _ => {
                    self.types.types.push(Type::Array { of, count: 0 });
                    let inner = self.types.types.len() as TypeId - 1;
                    self.types.types[at as usize] = Type::Array { of: inner, count: known };
                    inner
                }
            };
            at = inner;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_functions() {
        for (name, last) in [
            ("insert", "insert"),
            ("pm::Log::append(int, char*)", "append"),
            ("kv::Table<T>::put", "put"),
            ("<kv::Table as core::Drop>::drop", "drop"),
            ("kv::table::insert::h0123456789abcdef", "insert"),
            ("put<u64>", "put"),
            ("", ""),
        ] {
            assert_eq!(last_part(name), last, "{name}");
        }
    }

    #[test]
    fn members_of_nameless_structures_are_found() {
        let mut types = Types::default();
        let word = types.push(Type::Plain { bytes: 8, encoding: Encoding::Unsigned });
        let member = |name: &str, offset, ty| Member { name: name.into(), offset, ty };
        let inner = types.push(Type::Structure {
            name: String::new(),
            bytes: 16,
            members: vec![member("a", 0, word), member("b", 8, word)],
        });
        let outer = types.push(Type::Structure {
            name: "outer".into(),
            bytes: 24,
            members: vec![member("x", 0, word), member("", 8, inner)],
        });
        assert_eq!(types.member(outer, "b"), Some((16, word)));
        assert_eq!(types.member(outer, "c"), None);
        assert_eq!(types.size(outer), 24);
    }
}
