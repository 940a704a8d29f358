//! Collects what the program does with members of persistent structures (`crate::uses`).

use std::collections::hash_map::Entry;
use std::rc::Rc;

use rustc_hash::FxHashSet;

use super::naming::DEPTH;
use super::translate::Translation;
use super::walk::{State, Walk};
use crate::expression::{Address, Expression, Form, NOTHING, Persistence};
use crate::uses::{Access, At, Member, Put, is_used};
use crashproof_frontend::program::ir::{Arithmetic, FunctionId, Op, Operand, PlaceId, Program, TypeId};

/// The most accesses that a function leaves for its callers to name. Any more are dropped.
const UNNAMED: usize = 64;

impl Walk<'_, '_> {
    /// The members at an address, from the outermost known structure to the innermost.
    fn members_at(&mut self, state: &State, address: Expression) -> Vec<Member> {
        if let Some(known) = self.members.get(&address) {
            return known.clone();
        }
        let at = self.explorer.expressions.address(address);
        let mut found = self.members_through(state, at);
        if found.is_empty() {
            // A pointer to the member itself says nothing; there may also be one to its structure.
            self.hidden = Some(at);
            found = self.members_through(state, at);
            self.hidden = None;
        }
        self.members.insert(address, found.clone());
        found
    }

    fn members_through(&mut self, state: &State, at: Address) -> Vec<Member> {
        let mut found = Vec::new();
        let Some((mut offset, mut ty)) = self.typed(state, at) else { return found };
        let program = self.explorer.program;
        loop {
            let own = &program.types[ty.0 as usize];
            if own.is_array {
                let Some(element) = own.base else { break };
                let one = program.types[element.0 as usize].bytes.max(1);
                (offset, ty) = (offset % one, element);
                continue;
            }
            let Some((start, _, inner)) = own.members.iter().rev().find(|member| member.0 <= offset) else {
                break;
            };
            // Internals of the C++ library's atomics are the same for all of them.
            let is_library = own.name.starts_with('_') || own.name.starts_with("atomic<");
            if !own.name.is_empty() && !is_library {
                let first = first_of_arrays(program, ty, offset);
                found.push(self.explorer.uses.member(&own.name, first));
            }
            let Some(inner) = inner else { break };
            (offset, ty) = (offset - start, *inner);
        }
        found
    }

    /// The type that contains an address, and the offset. Of elements selected by an index, the first represents all.
    fn typed(&mut self, state: &State, at: Address) -> Option<(u64, TypeId)> {
        if let Form::Global(id) = self.explorer.expressions.form(at.object) {
            let ty = self.explorer.program.globals[id.0 as usize].ty?;
            return Some((u64::try_from(at.offset).ok()?, ty));
        }
        if let Some((distance, _, base)) = self.nearest_pointer(state, at, DEPTH) {
            return Some((u64::try_from(distance).ok()?, base));
        }
        let Form::Element(base, _, scale) = self.explorer.expressions.form(at.element?) else { return None };
        let array = self.explorer.expressions.address(base);
        let one = u64::try_from(scale).ok()?;
        // Constants added to or subtracted from an index become part of the offset.
        let mut first = |by: i64, of_rows: bool| {
            let first = Address { offset: array.offset + at.offset + by, ..array };
            let (offset, ty) = self.typed(state, first)?;
            has_elements_of(self.explorer.program, ty, offset, one, of_rows).then_some((offset, ty))
        };
        [0, scale, -scale].into_iter().find_map(|by| first(by, false)).or_else(|| first(0, true))
    }

    fn is_of_callers(&self, address: Expression) -> bool {
        let object = self.explorer.expressions.address(address).object;
        matches!(self.explorer.expressions.form(object), Form::Parameter(_))
    }

    /// Leaves an access to the callers, if there are any and the limit is not reached.
    fn leave_to_callers(&mut self, address: Expression, access: Access, put: Put) -> bool {
        let unnamed = self.explorer.unnamed.entry(self.id).or_default();
        let is_known = unnamed.contains(&(address, access, put));
        if self.is_root || unnamed.len() >= UNNAMED && !is_known {
            return false;
        }
        if !is_known {
            unnamed.push((address, access, put));
        }
        true
    }

    /// A path loads from persistent memory.
    pub(super) fn note_load(&mut self, state: &mut State, address: Expression, bytes: u64, number: u32) {
        if address == NOTHING || self.persistence(address) == Persistence::No {
            return;
        }
        if bytes > 8 {
            self.note_copied(state, address);
        }
        self.loads_member(state, address, (self.id, number), bytes);
    }

    fn loads_member(&mut self, state: &mut State, address: Expression, at: At, bytes: u64) {
        let members = self.members_at(state, address);
        if members.is_empty() {
            if self.explorer.expressions.address(address).element.is_some() {
                // Byte by byte, as for checksums.
                self.note_copied(state, address);
            }
            let is_left = self.is_of_callers(address)
                && self.leave_to_callers(address, Access::Load(at, bytes), Put::Other);
            if !is_left {
                self.explorer.uses.load_unnamed(bytes);
            }
            return;
        }
        let is_reset = members.iter().all(|member| state.resets.contains(member));
        Self::note_read(state, &members);
        for member in members {
            self.explorer.uses.load(member, at);
            if !is_reset {
                self.explorer.uses.read_first.entry(self.id).or_default().insert(member);
            }
        }
    }

    /// A path stores to persistent memory.
    pub(super) fn note_store(
        &mut self,
        state: &mut State,
        number: u32,
        (address, bytes): (Expression, u64),
        place: PlaceId,
    ) {
        if address == NOTHING || self.persistence(address) == Persistence::No {
            return;
        }
        let put = self.put(state, number, address);
        let place = self.outside_of_libraries(place, false);
        self.stores_member(state, address, Access::Store(place, (self.id, number), bytes), put);
    }

    fn stores_member(&mut self, state: &mut State, address: Expression, access: Access, put: Put) {
        let Access::Store(place, at, bytes) = access else { return };
        let members = self.members_at(state, address);
        if members.is_empty() && self.is_of_callers(address) {
            self.leave_to_callers(address, access, put);
        }
        if put == Put::Constant && !members.is_empty() {
            self.note_redone(state, address, place, &members);
        }
        for member in members {
            self.explorer.uses.store(member, place, at, put, bytes);
            if put == Put::Constant {
                Rc::make_mut(&mut state.resets).insert(member);
            }
        }
    }

    fn put(&mut self, state: &State, number: u32, address: Expression) -> Put {
        let instructions = &self.function.instructions;
        let op = |operand: Operand| match operand {
            Operand::Instruction(number) => Some(&instructions[number as usize].op),
            _ => None,
        };
        match &instructions[number as usize].op {
            Op::Store { value: Operand::Int(_), .. }
            | Op::Locked { value: Operand::Int(_), expected: None, .. } => Put::Constant,
            Op::Store { value, .. } => {
                let Some(Op::Arithmetic { what: Arithmetic::Add | Arithmetic::Sub, left, right }) =
                    op(*value)
                else {
                    return Put::Other;
                };
                let loaded: Vec<Operand> = [*left, *right]
                    .into_iter()
                    .filter_map(|side| match op(side) {
                        Some(Op::Load { address, .. }) => Some(*address),
                        _ => None,
                    })
                    .collect();
                let counts = loaded.into_iter().any(|from| self.value(state, from) == address);
                if counts { Put::Counted } else { Put::Other }
            }
            Op::Locked { expected: None, .. } if !is_used(self.function, number) => Put::Counted,
            _ => Put::Other,
        }
    }

    /// Memory is read as a whole, with whatever structures it contains.
    pub(super) fn note_copied(&mut self, state: &State, address: Expression) {
        if address == NOTHING || self.persistence(address) == Persistence::No {
            return;
        }
        let at = self.explorer.expressions.address(address);
        let whole = Address { element: None, offset: at.offset.max(0), ..at };
        let found = self.typed(state, at).or_else(|| self.typed(state, whole));
        let mut work: Vec<TypeId> = found.into_iter().map(|(_, ty)| ty).collect();
        let mut seen = FxHashSet::default();
        while let Some(ty) = work.pop() {
            if !seen.insert(ty) {
                continue;
            }
            let own = &self.explorer.program.types[ty.0 as usize];
            if own.is_pointer {
                continue;
            }
            if !own.members.is_empty() {
                self.explorer.uses.copy(&own.name);
            }
            work.extend(own.base.into_iter().chain(own.members.iter().filter_map(|member| member.2)));
        }
    }

    /// The path calls a function: everything that reads first is read here, unless it was reset before.
    pub(super) fn note_uses_of(&mut self, state: &mut State, callee: FunctionId, values: &[Expression]) {
        self.note_redone_by(state, callee, values);
        let Some(read) = self.explorer.uses.read_first.get(&callee) else { return };
        let read: Vec<Member> =
            read.iter().filter(|member| !state.resets.contains(member)).copied().collect();
        if !read.is_empty() {
            Self::note_read(state, &read);
            self.explorer.uses.read_first.entry(self.id).or_default().extend(read);
        }
    }

    /// What the callee knows only through a pointer is named here.
    pub(super) fn name_uses_of(&mut self, here: &mut Translation, state: &mut State, callee: FunctionId) {
        let unnamed = self.explorer.unnamed.get(&callee).cloned().unwrap_or_default();
        for (address, access, put) in unnamed {
            let own = self.translate(here, address);
            if own == NOTHING || self.persistence(own) == Persistence::No {
                continue;
            }
            match access {
                Access::Load(at, bytes) => self.loads_member(state, own, at, bytes),
                Access::Store(..) => self.stores_member(state, own, access, put),
            }
        }
        if let Some(resets) = self.explorer.uses.resets.get(&callee)
            && !resets.is_subset(&state.resets)
        {
            Rc::make_mut(&mut state.resets).extend(resets);
        }
    }

    /// A path of the function succeeds: its resets count if all other successful paths make them, too. For `main`, the
    /// resets of any path count: that others do not read it earlier is known from elsewhere.
    pub(super) fn note_resets(&mut self, state: &State) {
        if self.is_main {
            self.explorer.uses.resets.entry(self.id).or_default().extend(state.resets.iter());
            return;
        }
        match self.explorer.uses.resets.entry(self.id) {
            Entry::Occupied(mut known) => {
                known.get_mut().retain(|member| state.resets.contains(member));
            }
            Entry::Vacant(first) => {
                first.insert((*state.resets).clone());
            }
        }
    }
}

/// The offset that selects the first elements of all enclosing arrays.
fn first_of_arrays(program: &Program, ty: TypeId, offset: u64) -> u64 {
    let own = &program.types[ty.0 as usize];
    if own.is_array {
        let Some(element) = own.base else { return 0 };
        let one = program.types[element.0 as usize].bytes.max(1);
        return first_of_arrays(program, element, offset % one);
    }
    match own.members.iter().rev().find(|member| member.0 <= offset) {
        Some((start, _, Some(inner))) => start + first_of_arrays(program, *inner, offset - start),
        Some((start, ..)) => *start,
        None => 0,
    }
}

/// Whether the bytes at an offset of a type are an element of this size: of an array inside it, or of what a pointer to
/// the type points to. Rows of an array have no type of their own: they are ranges of elements.
fn has_elements_of(program: &Program, mut ty: TypeId, mut offset: u64, one: u64, of_rows: bool) -> bool {
    loop {
        let own = &program.types[ty.0 as usize];
        if own.bytes == one {
            return true;
        }
        if own.is_array {
            let Some(element) = own.base else { return false };
            let bytes = program.types[element.0 as usize].bytes.max(1);
            if of_rows && one.is_multiple_of(bytes) && one < own.bytes {
                return true;
            }
            (offset, ty) = (offset % bytes, element);
            continue;
        }
        let Some((start, _, Some(inner))) = own.members.iter().rev().find(|member| member.0 <= offset) else {
            return false;
        };
        (offset, ty) = (offset - start, *inner);
    }
}
