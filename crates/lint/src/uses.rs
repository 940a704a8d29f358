//! What the program does with members of persistent structures: a store that is never written back is lost, but that
//! matters only if code reads it after a crash.
//!
//! Two kinds of members need no flush, and programmers who know that omit it: lock words and reference counts, which
//! the program resets at startup before reading them; and statistics, which it only increments and prints. A member is
//! identified by its structure and offset, regardless of the function that accesses it. That a member is never read is
//! never claimed: a load through a byte pointer does not reveal which member it reads.
//!
//! Not covered: what other programs read from the pool, and loads through pointers whose structure no function involved
//! knows.

use rustc_hash::{FxHashMap, FxHashSet};

use crashproof_frontend::program::ir::{
    Arithmetic, Callee, Function, FunctionId, Op, Operand, PlaceId, Program,
};

/// A member: the number of a structure's name with an offset.
pub(crate) type Member = u32;

/// An instruction of a function.
pub(crate) type At = (FunctionId, u32);

/// What a store puts into a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Put {
    Constant,
    /// Its previous value, plus or minus something.
    Counted,
    Other,
}

/// Why a store needs no flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Needless {
    ResetAtStart,
    RedoneAtStart,
    OnlyCounted,
}

impl Needless {
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Needless::ResetAtStart => "the program resets it at start, before it reads it",
            Needless::RedoneAtStart => "every start of the program stores the same, before anything locks it",
            Needless::OnlyCounted => "the program only counts with it, and nothing else depends on it",
        }
    }
}

/// An access that its function knows only through a pointer: its callers know the structure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Access {
    Load(At, u64),
    Store(PlaceId, At, u64),
}

#[derive(Default, Debug)]
pub(crate) struct Uses {
    members: FxHashMap<(String, u64), Member>,
    loads: FxHashMap<Member, FxHashSet<At>>,
    stores: FxHashMap<Member, FxHashSet<PlaceId>>,
    /// Members that are stored to at a place.
    stored_at: FxHashMap<PlaceId, FxHashSet<Member>>,
    puts: FxHashMap<Member, Vec<(At, Put)>>,
    /// The sizes of stores to each member, and the sizes of loads of unknown members.
    stored_bytes: FxHashMap<Member, FxHashSet<u64>>,
    unnamed_bytes: FxHashSet<u64>,
    /// Structures that are copied or compared as a whole, or passed to unknown code.
    copied: FxHashSet<String>,
    /// Members that a function may read without resetting them first.
    pub(crate) read_first: FxHashMap<FunctionId, FxHashSet<Member>>,
    /// Stores of constants that a function makes before it reads what it stores to, and whether some call of it, or some
    /// path to it, makes that untrue.
    redone: FxHashMap<FunctionId, FxHashSet<PlaceId>>,
    not_redone: FxHashSet<PlaceId>,
    /// Members that a function resets on all paths on which it succeeds.
    pub(crate) resets: FxHashMap<FunctionId, FxHashSet<Member>>,
}

impl Uses {
    pub(crate) fn member(&mut self, structure: &str, offset: u64) -> Member {
        let next = self.members.len() as u32;
        *self.members.entry((structure.to_owned(), offset)).or_insert(next)
    }

    pub(crate) fn load(&mut self, member: Member, at: At) {
        self.loads.entry(member).or_default().insert(at);
    }

    /// A load from persistent memory, of an unknown member.
    pub(crate) fn load_unnamed(&mut self, bytes: u64) {
        self.unnamed_bytes.insert(bytes);
    }

    pub(crate) fn store(&mut self, member: Member, place: PlaceId, at: At, put: Put, bytes: u64) {
        self.stored_bytes.entry(member).or_default().insert(bytes);
        self.stores.entry(member).or_default().insert(place);
        self.stored_at.entry(place).or_default().insert(member);
        let puts = self.puts.entry(member).or_default();
        if !puts.contains(&(at, put)) {
            puts.push((at, put));
        }
    }

    pub(crate) fn copy(&mut self, structure: &str) {
        if !self.copied.contains(structure) {
            self.copied.insert(structure.to_owned());
        }
    }

    /// A function makes a store of a constant. Whether `main` does so too depends on its calls.
    pub(crate) fn redone(&mut self, by: FunctionId, place: PlaceId, but_not_always: bool) {
        self.redone.entry(by).or_default().insert(place);
        if but_not_always {
            self.not_redone.insert(place);
        }
    }

    pub(crate) fn redone_in(&self, function: FunctionId) -> Option<Vec<PlaceId>> {
        self.redone.get(&function).map(|places| places.iter().copied().collect())
    }

    pub(crate) fn members_stored_at(&self, place: PlaceId) -> impl Iterator<Item = Member> + '_ {
        self.stored_at.get(&place).into_iter().flatten().copied()
    }

    /// Whether a store at a place releases locks whenever the program starts. Locks are members that are read only in
    /// order to change them at once: what a crash leaves in them means nothing, because no thread holds them.
    fn is_lock_released_at_start(&self, program: &Program, place: PlaceId, main: FunctionId) -> bool {
        let is_exchange = |(id, number): &At| {
            matches!(program.function(*id).instructions[*number as usize].op, Op::Locked { .. })
        };
        let mut loads = self.members_stored_at(place).filter_map(|member| self.loads.get(&member)).flatten();
        let first = loads.next();
        self.redone.get(&main).is_some_and(|places| places.contains(&place))
            && !self.not_redone.contains(&place)
            && first.is_some_and(is_exchange)
            && loads.all(is_exchange)
    }

    /// Why a store at a place needs no flush; `None` if it does, as far as known. `is_flushed` says whether a store is
    /// always written back: code that does so in one place considers it important.
    pub(crate) fn needless(
        &self,
        program: &Program,
        place: PlaceId,
        is_flushed: impl Fn(PlaceId) -> bool,
    ) -> Option<Needless> {
        let members = self.stored_at.get(&place)?;
        let main = *program.mains().first()?;
        // Recovery is a separate function: what `main` does first says nothing.
        if program.defined().any(|id| program.function(id).name == "recover") {
            return None;
        }
        if self.is_lock_released_at_start(program, place, main) {
            return Some(Needless::RedoneAtStart);
        }
        let copied = self
            .members
            .iter()
            .any(|((structure, _), member)| members.contains(member) && self.copied.contains(structure));
        if copied {
            return None;
        }
        let loads: FxHashSet<At> =
            members.iter().filter_map(|member| self.loads.get(member)).flatten().copied().collect();
        let puts: Vec<(At, Put)> =
            members.iter().filter_map(|member| self.puts.get(member)).flatten().copied().collect();
        let resets = self.resets.get(&main).is_some_and(|resets| !resets.is_disjoint(members));
        let is_read = self.read_first.get(&main).is_some_and(|read| !read.is_disjoint(members));
        // It is reset, and the reset is not its only store.
        if !loads.is_empty() && puts.len() > 1 && resets && !is_read {
            return Some(Needless::ResetAtStart);
        }
        let may_be_read = |member: &Member| {
            self.stored_bytes[member].iter().any(|bytes| self.unnamed_bytes.contains(bytes))
        };
        let flushes = |member: &Member| self.stores[member].iter().any(|place| is_flushed(*place));
        if members.iter().any(|member| may_be_read(member) || flushes(member)) {
            return None;
        }
        let counts = puts.iter().any(|(_, put)| *put == Put::Counted)
            && puts.iter().all(|(_, put)| *put != Put::Other)
            && loads.iter().all(|(id, number)| {
                only_counts(program.function(*id), program, *number, &|place| {
                    self.stored_at.get(&place).is_some_and(|others| !others.is_disjoint(members))
                })
            });
        counts.then_some(Needless::OnlyCounted)
    }
}

/// Whether a value only becomes the next value of the same member, or is passed to library functions that print it.
fn only_counts(
    function: &Function,
    program: &Program,
    number: u32,
    is_own: &dyn Fn(PlaceId) -> bool,
) -> bool {
    let own = Operand::Instruction(number);
    (0..).zip(&function.instructions).all(|(user, instruction)| {
        let mut used = false;
        each_operand(&instruction.op, &mut |operand| used |= operand == own);
        if !used {
            return true;
        }
        match &instruction.op {
            Op::Arithmetic { what: Arithmetic::Add | Arithmetic::Sub, .. } | Op::Copy { .. } => {
                only_counts(function, program, user, is_own)
            }
            Op::Store { address, .. } => *address != own && is_own(instruction.place),
            Op::Call { callee: Callee::Direct(called), .. } => !program.function(*called).is_defined(),
            _ => false,
        }
    })
}

/// Whether the result of an instruction is used at all.
pub(crate) fn is_used(function: &Function, number: u32) -> bool {
    let own = Operand::Instruction(number);
    function.instructions.iter().any(|instruction| {
        let mut used = false;
        each_operand(&instruction.op, &mut |operand| used |= operand == own);
        used
    })
}

fn each_operand(op: &Op, see: &mut dyn FnMut(Operand)) {
    match op {
        Op::Load { address, .. } | Op::Flush { address, .. } => see(*address),
        Op::Store { address, value, .. } => [*address, *value].into_iter().for_each(see),
        Op::Locked { address, value, expected, .. } => {
            [*address, *value].into_iter().chain(*expected).for_each(see);
        }
        Op::Offset { base, index, .. } => {
            see(*base);
            index.iter().for_each(|(operand, _)| see(*operand));
        }
        Op::Arithmetic { left, right, .. } | Op::Compare { left, right, .. } => {
            [*left, *right].into_iter().for_each(see);
        }
        Op::Select { condition, yes, no } => [*condition, *yes, *no].into_iter().for_each(see),
        Op::Phi { incoming } => incoming.iter().for_each(|(_, operand)| see(*operand)),
        Op::Copy { value } => see(*value),
        Op::Extract { aggregate, .. } => see(*aggregate),
        Op::Insert { aggregate, value, .. } => [*aggregate, *value].into_iter().for_each(see),
        Op::Call { callee, arguments } => {
            if let Callee::Indirect(pointer) = callee {
                see(*pointer);
            }
            arguments.iter().copied().for_each(see);
        }
        Op::Bulk { target, source, value, length } => {
            [*target, *value, *length].into_iter().chain(*source).for_each(see);
        }
        Op::NotUnderstood { pointers, .. } => pointers.iter().copied().for_each(see),
        Op::Branch { condition, .. } => see(*condition),
        Op::Switch { value, .. } => see(*value),
        Op::Return { value } => value.iter().copied().for_each(see),
        Op::Alloca { .. } | Op::Fence { .. } | Op::Other | Op::Jump { .. } | Op::Unreachable => {}
    }
}
