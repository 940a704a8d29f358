//! The program as the analysis sees it: functions of blocks of relevant instructions, independent of LLVM.
//!
//! Modules are linked here, by symbol: a function that one module declares and another defines is one
//! [`Function`]. Everything is an index into a table of [`Program`], so nothing borrows.

use rustc_hash::FxHashMap;

/// Index into [`Program::functions`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FunctionId(pub u32);

/// Index into [`Program::globals`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct GlobalId(pub u32);

/// Index into [`Program::places`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct PlaceId(pub u32);

/// Index into [`Program::types`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TypeId(pub u32);

/// A place in a source.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Place {
    /// As given to the compiler, relative to the working directory if possible; empty if unknown.
    pub file: String,
    /// From 1; 0 if unknown.
    pub line: u32,
    /// From 1; 0 if unknown.
    pub column: u32,
    /// The function's name in the source; an inlined function keeps its name.
    pub function: String,
    /// Where the code was inlined.
    pub inlined_at: Option<PlaceId>,
    /// The function belongs to a library, not the program.
    pub of_a_library: bool,
    /// The function is a lambda: its place is where its author wrote it.
    pub in_lambda: bool,
}

/// Whether a demangled C++ name denotes a lambda.
pub fn names_a_lambda(function: &str) -> bool {
    function.contains("::$_") || function.contains("'lambda")
}

/// What calls a Rust program's `fn main`.
const RUST_START: &str = "std::rt::lang_start";

/// A whole program.
#[derive(Default, Debug)]
pub struct Program {
    /// Defined and declared functions.
    pub functions: Vec<Function>,
    /// Global variables.
    pub globals: Vec<Global>,
    /// Places of the sources. The first is the unknown one.
    pub places: Vec<Place>,
    /// Types of the sources.
    pub types: Vec<SourceType>,
    /// Functions visible to all modules.
    pub symbols: FxHashMap<String, FunctionId>,
    /// Globals visible to all modules.
    pub global_symbols: FxHashMap<String, GlobalId>,
    /// Inline assembly and intrinsics that are not understood, with their places.
    pub not_understood: Vec<(PlaceId, String)>,
    /// Modules without debug information.
    pub without_debug_info: Vec<String>,
    /// Functions stored somewhere in order to be called from there.
    pub stored_functions: FxHashMap<Home, Stored>,
    /// Symbols defined by several modules, as in separately linked programs. Each module calls its own.
    pub defined_again: Vec<String>,
    place_ids: FxHashMap<Place, PlaceId>,
}

/// Where a pointer to a function is kept.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Home {
    /// In structures of this name, at this offset.
    Member(String, u64),
    /// In a variable.
    Variable(GlobalId, i64),
    /// In virtual tables, at this index.
    Virtual(u64),
}

/// The functions kept in one place.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// Functions, in the order they were seen.
    pub functions: Vec<FunctionId>,
    /// Other values may be stored there as well.
    pub open: bool,
}

/// A function.
#[derive(Debug, Default)]
pub struct Function {
    /// Its symbol.
    pub name: String,
    /// For messages.
    pub readable: String,
    /// Empty for a declaration.
    pub blocks: Vec<Block>,
    /// All instructions; blocks hold ranges of it.
    pub instructions: Vec<Instruction>,
    /// Number of parameters.
    pub parameters: u32,
    /// What it returns is a pointer.
    pub returns_pointer: bool,
    /// Other modules can call it.
    pub external: bool,
    /// Its address is used other than to call it.
    pub address_taken: bool,
    /// Where it is defined.
    pub place: Option<PlaceId>,
    /// Source variables that parameters and instructions hold.
    pub variables: FxHashMap<Operand, Variable>,
    /// Where the pointers of indirect calls come from, by instruction.
    pub homes: FxHashMap<u32, Home>,
}

/// What a source calls a value.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its type, if known.
    pub ty: Option<TypeId>,
    /// The value is the variable's address, not its content.
    pub is_address: bool,
    /// It belongs to an inlined library function.
    pub of_a_library: bool,
}

/// A type of a source, behind typedefs and qualifiers.
#[derive(Clone, Debug, Default)]
pub struct SourceType {
    /// The tag or, without one, the typedef.
    pub name: String,
    /// Size.
    pub bytes: u64,
    /// What a pointer points to, or the element of an array.
    pub base: Option<TypeId>,
    /// Whether it is a pointer.
    pub is_pointer: bool,
    /// Whether it is an array.
    pub is_array: bool,
    /// As declared; 0 if the type's own.
    pub alignment: u64,
    /// Members in the order of their offsets.
    pub members: Vec<(u64, String, Option<TypeId>)>,
}

/// A global variable.
#[derive(Debug, Default)]
pub struct Global {
    /// Its symbol.
    pub name: String,
    /// Its section, if it has one.
    pub section: String,
    /// Size, 0 if unknown.
    pub bytes: u64,
    /// Promised alignment.
    pub alignment: u64,
    /// Pointers in its initial content.
    pub pointers: Vec<(u64, Operand)>,
    /// Its type, if known.
    pub ty: Option<TypeId>,
    /// Some module defines its initial content.
    pub defined: bool,
}

/// A basic block: a range of the function's instructions, the last one a terminator.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// First instruction.
    pub start: u32,
    /// One past the last instruction.
    pub end: u32,
}

/// An instruction and where it comes from.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// What it does.
    pub op: Op,
    /// Where.
    pub place: PlaceId,
}

/// What an instruction works on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Operand {
    /// The result of an instruction of the same function.
    Instruction(u32),
    /// A parameter of the function.
    Parameter(u32),
    /// A constant; null is 0.
    Int(i64),
    /// An address in a global.
    Global(GlobalId, i64),
    /// The address of a function.
    Function(FunctionId),
    /// An irrelevant value.
    Undefined,
}

/// Arithmetic on addresses and lengths.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the names are what they do")]
pub enum Arithmetic {
    Add,
    Sub,
    Mul,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    Div,
    Rem,
    /// The number of set bits of the left operand, and of zeros below the lowest. The right operand is unused.
    Ones,
    Zeros,
}

impl Arithmetic {
    /// Its result for two numbers, if defined.
    #[must_use]
    pub fn of(self, left: i64, right: i64) -> Option<i64> {
        Some(match self {
            Arithmetic::Add => left.wrapping_add(right),
            Arithmetic::Sub => left.wrapping_sub(right),
            Arithmetic::Mul => left.wrapping_mul(right),
            Arithmetic::And => left & right,
            Arithmetic::Or => left | right,
            Arithmetic::Xor => left ^ right,
            Arithmetic::Shl => left.checked_shl(u32::try_from(right).ok()?)?,
            Arithmetic::Shr => left.checked_shr(u32::try_from(right).ok()?)?,
            Arithmetic::Div => left.checked_div(right)?,
            Arithmetic::Rem => left.checked_rem(right)?,
            // The width of the number is unknown.
            Arithmetic::Ones if left >= 0 => left.count_ones().into(),
            Arithmetic::Zeros if left != 0 => left.trailing_zeros().into(),
            Arithmetic::Ones | Arithmetic::Zeros => return None,
        })
    }
}

/// Comparison.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "the names are what they do")]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    // The same, unsigned.
    Below,
    BelowOrEqual,
    Above,
    AboveOrEqual,
}

impl Compare {
    /// Whether it holds of two numbers.
    #[must_use]
    pub fn holds(self, left: i64, right: i64) -> bool {
        // Narrower numbers are kept sign-extended, which preserves unsigned order.
        let (below, above) = (left as u64, right as u64);
        match self {
            Compare::Eq => left == right,
            Compare::Ne => left != right,
            Compare::Lt => left < right,
            Compare::Le => left <= right,
            Compare::Gt => left > right,
            Compare::Ge => left >= right,
            Compare::Below => below < above,
            Compare::BelowOrEqual => below <= above,
            Compare::Above => below > above,
            Compare::AboveOrEqual => below >= above,
        }
    }
}

/// Who is called.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Callee {
    /// A function known by name.
    Direct(FunctionId),
    /// Whatever the pointer points to.
    Indirect(Operand),
}

/// An instruction.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "fields are named after what LLVM calls them")]
pub enum Op {
    Alloca {
        bytes: u64,
    },
    Load {
        address: Operand,
        bytes: u64,
    },
    Store {
        address: Operand,
        value: Operand,
        bytes: u64,
        nontemporal: bool,
    },
    /// Locked read-modify-write, compare-exchange, `xchg` or sequentially consistent store: stores `value` (`Undefined`
    /// if that depends on memory, or if it may not store at all), and is a full fence **regardless of the memory it
    /// accesses**: even on volatile memory it waits for earlier flushes of this thread.
    Locked {
        address: Operand,
        value: Operand,
        bytes: u64,
        /// It stores only if memory holds this, and its result is a pair: the old value, and whether it stored.
        expected: Option<Operand>,
    },
    /// `base + offset + sum of index * scale`.
    Offset {
        base: Operand,
        offset: i64,
        index: Vec<(Operand, i64)>,
        /// The array that the indices select from, according to its type: its offset from `base`, and its size.
        within: Option<(i64, i64)>,
    },
    Arithmetic {
        what: Arithmetic,
        left: Operand,
        right: Operand,
    },
    Compare {
        what: Compare,
        left: Operand,
        right: Operand,
    },
    Select {
        condition: Operand,
        yes: Operand,
        no: Operand,
    },
    Phi {
        incoming: Vec<(u32, Operand)>,
    },
    /// The same value in another type.
    Copy {
        value: Operand,
    },
    Extract {
        aggregate: Operand,
        index: u32,
    },
    Insert {
        aggregate: Operand,
        value: Operand,
        index: u32,
    },
    Call {
        callee: Callee,
        arguments: Vec<Operand>,
    },
    Flush {
        address: Operand,
        class: px86::order::Class,
    },
    Fence {
        class: px86::order::Class,
    },
    /// A range of plain stores by library functions that copy, fill, format, sort or read files. `source` is the copied
    /// memory, if any; `value` the byte of a fill. An `Undefined` `length` means an unknown length from `target` on.
    Bulk {
        target: Operand,
        source: Option<Operand>,
        value: Operand,
        length: Operand,
    },
    /// An irrelevant computation without memory accesses or ordering.
    Other,
    /// Something not in the table of meaning, or not expressible in this IR, that may access memory. No verdict may
    /// rest on it if one of `pointers` may be persistent; without any it may access any memory.
    NotUnderstood {
        what: String,
        pointers: Vec<Operand>,
    },
    Jump {
        to: u32,
    },
    Branch {
        condition: Operand,
        yes: u32,
        no: u32,
    },
    Switch {
        value: Operand,
        cases: Vec<(i64, u32)>,
        default: u32,
    },
    Return {
        value: Option<Operand>,
    },
    Unreachable,
}

impl Op {
    /// Where a terminator may go.
    #[must_use]
    pub fn successors(&self) -> Vec<u32> {
        match self {
            Op::Jump { to } => vec![*to],
            Op::Branch { yes, no, .. } => vec![*yes, *no],
            Op::Switch { cases, default, .. } => {
                let mut all: Vec<u32> = cases.iter().map(|case| case.1).collect();
                all.push(*default);
                all.sort_unstable();
                all.dedup();
                all
            }
            _ => Vec::new(),
        }
    }
}

impl Function {
    /// Whether there is code.
    #[must_use]
    pub fn is_defined(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// The instructions of a block with their numbers.
    pub fn block(&self, block: u32) -> impl Iterator<Item = (u32, &Instruction)> {
        let Block { start, end } = self.blocks[block as usize];
        (start..end).map(|number| (number, &self.instructions[number as usize]))
    }

    /// The last instruction of a block.
    #[must_use]
    pub fn terminator(&self, block: u32) -> &Instruction {
        &self.instructions[self.blocks[block as usize].end as usize - 1]
    }
}

impl Program {
    /// An empty program.
    #[must_use]
    pub fn new() -> Self {
        Program { places: vec![Place::default()], ..Program::default() }
    }

    /// A function by its number.
    #[must_use]
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.0 as usize]
    }

    /// A place by its number.
    #[must_use]
    pub fn place(&self, id: PlaceId) -> &Place {
        &self.places[id.0 as usize]
    }

    /// The number of a place.
    pub fn add_place(&mut self, place: Place) -> PlaceId {
        let next = PlaceId(self.places.len() as u32);
        *self.place_ids.entry(place).or_insert_with_key(|place| {
            self.places.push(place.clone());
            next
        })
    }

    /// All functions with code.
    pub fn defined(&self) -> impl Iterator<Item = FunctionId> + '_ {
        (0..self.functions.len() as u32).map(FunctionId).filter(|id| self.function(*id).is_defined())
    }

    /// Where programs begin: `main`, or the function that it hands to the runtime of Rust. Several sources may define one.
    #[must_use]
    pub fn mains(&self) -> Vec<FunctionId> {
        let all = self.defined().filter(|id| self.function(*id).name == "main");
        all.map(|id| self.started_by_rust(id).unwrap_or(id)).collect()
    }

    /// The `fn main` that a `main` made by rustc starts.
    fn started_by_rust(&self, main: FunctionId) -> Option<FunctionId> {
        self.function(main).instructions.iter().find_map(|instruction| {
            let Op::Call { callee: Callee::Direct(called), arguments } = &instruction.op else { return None };
            match arguments.first() {
                Some(Operand::Function(own)) if self.function(*called).readable.starts_with(RUST_START) => {
                    Some(*own)
                }
                _ => None,
            }
        })
    }

    /// The member of a type at an offset, in source notation, and its type: the innermost one, or the one with exactly
    /// this many bytes.
    #[must_use]
    pub fn member(&self, id: TypeId, offset: u64, bytes: Option<u64>) -> Option<(String, Option<TypeId>)> {
        let is_all = |ty: TypeId| {
            let size = self.types[ty.0 as usize].bytes;
            size > 0 && bytes.is_some_and(|bytes| bytes >= size)
        };
        let ty = &self.types[id.0 as usize];
        if ty.is_array {
            let element = ty.base?;
            let one = self.types[element.0 as usize].bytes.max(1);
            let whole = offset.is_multiple_of(one) && is_all(element);
            let inner = (!whole).then(|| self.member(element, offset % one, bytes)).flatten();
            let (rest, inner) = match inner {
                Some((rest, inner)) => (Some(rest), inner),
                None => (None, Some(element)),
            };
            return Some((format!("[{}]{}", offset / one, dotted(rest)), inner));
        }
        let last = ty.members.iter().rev().find(|member| member.0 <= offset)?.0;
        let mut same = ty.members.iter().filter(|member| member.0 == last);
        // For a union, the member that is probably meant.
        let first = same.next()?;
        let member =
            std::iter::once(first).chain(same).find(|member| !member.1.starts_with('_')).unwrap_or(first);
        let whole = offset == last && member.2.is_some_and(is_all) && !member.1.is_empty();
        let inner = member.2.filter(|_| !whole).and_then(|inner| self.member(inner, offset - last, bytes));
        let (rest, ty) = match inner {
            Some((rest, ty)) => (Some(rest), ty),
            None => (None, member.2),
        };
        if member.1.is_empty() {
            return Some((rest?, ty));
        }
        Some((format!("{}{}", member.1, dotted(rest)), ty))
    }
}

fn dotted(rest: Option<String>) -> String {
    match rest {
        Some(rest) if rest.starts_with('[') => rest,
        Some(rest) => format!(".{rest}"),
        None => String::new(),
    }
}
