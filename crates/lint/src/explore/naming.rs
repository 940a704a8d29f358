//! Names of memory in the source, for messages, and its types, for alignment.

use px86::LINE_BYTES;

use super::walk::{State, Walk};
use crate::expression::{Address, Expression, Form, NOTHING};
use crate::guards::SOME_ELEMENT;
use crate::span::{Length, Span};
use crashproof_frontend::program::ir::{SourceType, TypeId};

/// The pointer depth to which memory is still named.
pub(super) const DEPTH: u32 = 4;

/// Part of an object: its name, and its type if known.
struct Part {
    name: String,
    ty: Option<TypeId>,
}

impl Walk<'_, '_> {
    /// The name of a range in the source; empty if unknown.
    pub(super) fn describe(&mut self, state: &State, span: &Span) -> String {
        self.some_element = false;
        let bytes = match span.length {
            Length::Known(bytes) => Some(bytes),
            _ => None,
        };
        let name = self.part(state, span.at, bytes, DEPTH).map(|part| part.name).unwrap_or_default();
        // Without a name for the object, only the member.
        let name = match name.strip_prefix("->") {
            Some(member) => member.to_owned(),
            None if name == "*" => String::new(),
            None => name,
        };
        // Internals of the C++ library's atomics are of no interest.
        let inside = ["._M_", "->_M_"].into_iter().filter_map(|inside| name.find(inside)).min();
        let name =
            if name.starts_with("_M_") { "" } else { &name[..inside.unwrap_or(name.len())] }.to_owned();
        let in_rust =
            self.function.place.is_some_and(|place| self.explorer.program.place(place).file.ends_with(".rs"));
        if in_rust { name.replace("->", ".") } else { name }
    }

    fn ty(&self, id: TypeId) -> &SourceType {
        &self.explorer.program.types[id.0 as usize]
    }

    /// The object or member at an address; with a length, the whole object if that is what it covers.
    fn part(&mut self, state: &State, at: Address, bytes: Option<u64>, depth: u32) -> Option<Part> {
        let depth = depth.checked_sub(1)?;
        let program = self.explorer.program;
        let covers = |ty: TypeId| {
            let size = program.types[ty.0 as usize].bytes;
            size > 0 && bytes.is_some_and(|bytes| bytes >= size)
        };
        if let Form::Global(id) = self.explorer.expressions.form(at.object) {
            let global = &program.globals[id.0 as usize];
            let own = crashproof_frontend::llvm::demangle(&global.name);
            let Some(ty) = global.ty else { return Some(Part { name: own, ty: None }) };
            let member = (!(at.offset == 0 && covers(ty)))
                .then(|| program.member(ty, at.offset as u64, bytes))
                .flatten();
            return Some(match member {
                // The index decides which element.
                Some((field, ty)) if field.starts_with("[0]") && at.element.is_some() => {
                    Part { name: format!("{own}[..]{}", &field[3..]), ty }
                }
                Some((field, ty)) if field.starts_with('[') => Part { name: format!("{own}{field}"), ty },
                Some((field, ty)) => Part { name: format!("{own}.{field}"), ty },
                None => Part { name: own, ty: Some(ty) },
            });
        }
        let Some((distance, name, base)) = self.nearest_pointer(state, at, depth) else {
            return self.some_element(state, at, bytes, depth);
        };
        let target = self.ty(base);
        if target.bytes > 0 && distance >= target.bytes as i64 && !target.members.is_empty() {
            return None;
        }
        let member = (!(distance == 0 && covers(base)))
            .then(|| program.member(base, distance as u64, bytes))
            .flatten();
        Some(match member {
            Some((field, ty)) => Part { name: format!("{name}->{field}"), ty },
            None => Part { name: format!("*{name}"), ty: Some(base) },
        })
    }

    /// An element, with an unknown index, of an array that has a name: `table->slots[..]`.
    fn some_element(&mut self, state: &State, at: Address, bytes: Option<u64>, depth: u32) -> Option<Part> {
        let mut array = at.element?;
        while let Form::Plus(base, _) = self.explorer.expressions.form(array) {
            array = base;
        }
        let Form::Element(base, _, scale) = self.explorer.expressions.form(array) else { return None };
        // Bytes at a computed offset may be anything.
        if scale.unsigned_abs() <= 1 {
            return None;
        }
        let outer = self.explorer.expressions.address(base);
        let start = Address { offset: at.offset, ..outer };
        let part = self.part(state, start, bytes, depth)?;
        let (first, last) = (part.name.rfind('[')?, part.name.rfind(']')?);
        if !part.name[first + 1..last].bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        self.some_element = true;
        Some(Part {
            name: format!("{}{SOME_ELEMENT}{}", &part.name[..first], &part.name[last + 1..]),
            ty: part.ty,
        })
    }

    /// A pointer with a name in the source that points at or before an address: the distance, the name, and the
    /// pointed-to type.
    pub(super) fn nearest_pointer(
        &mut self,
        state: &State,
        at: Address,
        depth: u32,
    ) -> Option<(i64, String, TypeId)> {
        /// Byte pointers say nothing about what they are part of: any other pointer has a better name.
        type Rank = (bool, i64, bool);
        let mut best: Option<(Rank, (i64, String, TypeId))> = None;
        let variables = std::mem::take(&mut self.variables);
        for (operand, variable) in &variables {
            let value = self.value(state, *operand);
            let Some(base) = variable.ty.and_then(|ty| self.ty(ty).base) else { continue };
            let own = self.explorer.expressions.address(value);
            if value == NOTHING
                || self.hidden == Some(own)
                || own.object != at.object
                || own.element != at.element
                || own.offset > at.offset
            {
                continue;
            }
            let distance = at.offset - own.offset;
            let target = self.ty(base);
            let outside = target.bytes > 0 && distance >= target.bytes as i64 && !target.members.is_empty();
            let bytes = target.bytes <= 1 && target.members.is_empty();
            let rank = (bytes || variable.of_a_library, distance, variable.of_a_library);
            if !outside && best.as_ref().is_none_or(|(known, _)| rank < *known) {
                // A library's name means nothing to its users.
                let name = if variable.of_a_library { "" } else { &variable.name };
                best = Some((rank, (distance, name.to_owned(), base)));
            }
        }
        self.variables = variables;
        // A library's name means nothing to its users, unless there is no other.
        let by_library = best.as_ref().is_some_and(|((.., of_a_library), _)| *of_a_library);
        let best = best.map(|(_, found)| found);
        if best.is_some() && !by_library {
            return best;
        }
        if let Some(found) = self.global_pointer(state, at) {
            return Some(found);
        }
        let loaded = self.pointer(state, at.element.unwrap_or(at.object), depth).filter(|_| at.offset >= 0);
        loaded.map(|(name, base)| (at.offset, name, base)).or(best)
    }

    /// A global variable that points to the object: a pool that was mapped on this path.
    fn global_pointer(&self, state: &State, at: Address) -> Option<(i64, String, TypeId)> {
        if !matches!(self.explorer.expressions.form(at.object), Form::Mapped(_)) {
            return None;
        }
        state.memory.iter().find_map(|(known, (_, value))| {
            let Form::Global(id) = self.explorer.expressions.form(known.object) else { return None };
            let own = self.explorer.expressions.address(*value);
            let holds = known.offset == 0
                && known.element.is_none()
                && own.object == at.object
                && own.element.is_none()
                && own.offset <= at.offset;
            let global = &self.explorer.program.globals[id.0 as usize];
            let ty = self.ty(global.ty.filter(|_| holds)?);
            let base = ty.base.filter(|_| ty.is_pointer)?;
            let distance = at.offset - own.offset;
            // Bytes at a computed offset are not a member, unless a member is a byte array.
            let is_member = !self.is_by_byte(at)
                || self
                    .explorer
                    .program
                    .member(base, distance as u64, Some(1))
                    .is_some_and(|(field, _)| field.ends_with(']'));
            let name = crashproof_frontend::llvm::demangle(&global.name);
            is_member.then_some((distance, name, base))
        })
    }

    /// Whether an index selects a byte of the object.
    fn is_by_byte(&self, at: Address) -> bool {
        let mut next = at.element;
        while let Some(element) = next {
            next = match self.explorer.expressions.form(element) {
                Form::Element(_, _, 1) => return true,
                Form::Element(base, ..) | Form::Plus(base, _) => Some(base),
                _ => None,
            };
        }
        false
    }

    /// A pointer loaded from something that has a name.
    fn pointer(&mut self, state: &State, pointer: Expression, depth: u32) -> Option<(String, TypeId)> {
        match self.explorer.expressions.form(pointer) {
            Form::Content(address) => {
                let at = self.explorer.expressions.address(address);
                let part = self.part(state, at, None, depth)?;
                let ty = self.ty(part.ty?);
                let base = ty.base.filter(|_| ty.is_pointer)?;
                Some((part.name, base))
            }
            // PMDK's typed identifiers carry the type of the object.
            Form::Direct(id) => {
                let Form::Content(address) = self.explorer.expressions.form(id) else { return None };
                let start = self.explorer.expressions.plus(address, -8);
                let at = self.explorer.expressions.address(start);
                let part = self.part(state, at, Some(16), depth)?;
                let typed = self.ty(part.ty?).members.iter().find(|member| member.1 == "_type")?.2?;
                let base = self.ty(typed).base?;
                Some((format!("D_RW({})", part.name.trim_start_matches('*')), base))
            }
            _ => None,
        }
    }

    /// Records the alignment of an object, if its type or its library determines it.
    pub(super) fn note_alignment(&mut self, state: &State, object: Expression) {
        if self.explorer.expressions.alignment(object).is_some() {
            return;
        }
        let at = Address { object, element: None, offset: 0 };
        let Some((0, _, base)) = self.nearest_pointer(state, at, DEPTH) else { return };
        let ty = self.ty(base);
        let declared = self.explorer.apis.types.iter().filter(|known| known.name == ty.name);
        let alignment = declared.map(|known| known.alignment).fold(ty.alignment, u64::max);
        // A structure padded to whole lines is laid out in lines.
        let padded = ty.bytes > 0 && ty.bytes.is_multiple_of(LINE_BYTES) && !ty.members.is_empty();
        let alignment = if padded { alignment.max(LINE_BYTES) } else { alignment };
        if alignment > 8 {
            self.explorer.expressions.set_alignment(object, alignment);
        }
    }
}
