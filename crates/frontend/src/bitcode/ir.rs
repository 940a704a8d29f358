//! A module as plain data: what a program does to values and memory, with everything that depends on the data layout
//! (sizes, offsets, strides) already resolved.
//!
//! Anything that cannot be expressed is kept as `Unsupported` with a short description, in place: it matters only if it
//! is reached.

use std::rc::Rc;

pub use crate::llvm::Part;

/// A function of a [`Module`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// A global variable of a [`Module`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct GlobalId(pub u32);

/// A parameter or the result of an instruction, within its function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// A block within its function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct BlockId(pub u32);

/// A program.
#[derive(Debug, Default)]
pub struct Module {
    /// Defined and declared functions.
    pub functions: Vec<Function>,
    /// Global variables.
    pub globals: Vec<Global>,
    /// Assembly outside any function.
    pub assembly: String,
}

impl Module {
    /// A function by its symbol.
    #[must_use]
    pub fn function_named(&self, name: &str) -> Option<FunctionId> {
        self.functions.iter().position(|f| f.name == name).map(|index| FunctionId(index as u32))
    }

    /// The function.
    #[must_use]
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.0 as usize]
    }

    /// The global.
    #[must_use]
    pub fn global(&self, id: GlobalId) -> &Global {
        &self.globals[id.0 as usize]
    }
}

/// A place in the source, as the compiler was given it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub struct Place {
    /// Empty if unknown.
    pub file: Rc<str>,
    /// From 1 on; 0 if unknown.
    pub line: u32,
    /// From 1 on; 0 if unknown.
    pub column: u32,
}

/// A type, as far as values have one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Type {
    /// No value.
    Void,
    /// An integer of this many bits.
    Int(u32),
    /// An address.
    Pointer,
    /// A floating-point number of this many bits.
    Float(u32),
    /// A structure, array or vector held as one value.
    Aggregate(Rc<Aggregate>),
    /// Something else.
    Unsupported(Rc<str>),
}

/// A structure, array or vector held as one value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Aggregate {
    /// Bytes, with padding.
    pub size: u64,
    /// Each member's byte offset and type.
    pub members: Vec<(u64, Type)>,
}

/// A global variable.
#[derive(Debug)]
pub struct Global {
    /// Symbol.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Bytes, a power of two.
    pub align: u64,
    /// Section it was put into, if any.
    pub section: String,
    /// One for each thread.
    pub thread_local: bool,
    /// Never written.
    pub constant: bool,
    /// Its initial content, except zeros; `None` if it is defined elsewhere.
    pub initial: Option<Vec<(u64, Initial)>>,
    /// Names of its members and elements, if it has any and there is debug information.
    pub parts: Vec<Part>,
    /// Where it is declared.
    pub place: Place,
}

/// A piece of a global's initial content.
#[derive(Clone, Debug)]
pub enum Initial {
    /// Bytes as they are.
    Bytes(Vec<u8>),
    /// Not understood; the text describes it.
    Address(Constant),
    /// Not understood; the words say what.
    Unsupported(Rc<str>),
}

/// A function.
#[derive(Debug)]
pub struct Function {
    /// Symbol.
    pub name: String,
    /// Parameters in order, with their types.
    pub parameters: Vec<(ValueId, Type)>,
    /// Sizes of parameters that are passed as a copy in memory.
    pub copied: Vec<Option<u64>>,
    /// What it returns.
    pub result: Type,
    /// Empty if it is defined elsewhere. The first is the entry.
    pub blocks: Vec<Block>,
    /// How many [`ValueId`]s there are.
    pub values: u32,
    /// Where it begins.
    pub place: Place,
    /// Declared not to access memory: its result depends only on its arguments.
    pub pure: bool,
    /// Not visible outside of its file: `static`.
    pub local: bool,
}

/// A block.
#[derive(Debug)]
pub struct Block {
    /// Values that depend on the incoming edge.
    pub phis: Vec<Phi>,
    /// Everything except the terminator.
    pub instructions: Vec<Instruction>,
    /// Where control goes.
    pub terminator: Terminator,
    /// Of the terminator.
    pub place: Place,
}

impl Block {
    /// All operands, except those that determine the callee.
    pub fn operands(&self) -> impl Iterator<Item = &Operand> {
        let phis = self.phis.iter().flat_map(|phi| phi.incoming.iter().map(|(_, operand)| operand));
        let instructions = self.instructions.iter().flat_map(|instruction| instruction.op.operands());
        let end = match &self.terminator {
            Terminator::Return(Some(operand))
            | Terminator::Branch(operand, ..)
            | Terminator::Switch(operand, ..) => Some(operand),
            _ => None,
        };
        phis.chain(instructions).chain(end)
    }
}

/// A value that depends on the incoming edge.
#[derive(Debug)]
pub struct Phi {
    /// The value.
    pub result: ValueId,
    /// Its type.
    pub ty: Type,
    /// For each predecessor.
    pub incoming: Vec<(BlockId, Operand)>,
}

/// An instruction.
#[derive(Debug)]
pub struct Instruction {
    /// The value it makes; unused if `ty` is void.
    pub result: ValueId,
    /// Of the value.
    pub ty: Type,
    /// What it does.
    pub op: Op,
    /// Where it stands in the source.
    pub place: Place,
}

/// An operand.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A parameter or an instruction's result.
    Local(ValueId),
    /// Known already.
    Constant(Constant),
}

/// A constant.
#[derive(Clone, Debug)]
pub enum Constant {
    /// An integer of at most 64 bits.
    Int {
        /// Width.
        bits: u32,
        /// Upper bits are zero.
        value: u64,
    },
    /// The null pointer.
    Null,
    /// Zero of any type.
    Zero(Type),
    /// Anything: `undef` or `poison`.
    Undefined(Type),
    /// The address of a global and a distance from it.
    Global(GlobalId, i64),
    /// The address of a function.
    Function(FunctionId),
    /// The bits of a floating-point number.
    Float {
        /// Width.
        bits: u32,
        /// Its representation.
        value: u64,
    },
    /// Member by member.
    Aggregate(Type, Vec<Constant>),
    /// Not understood; the text describes it.
    Unsupported(Rc<str>),
}

/// What an instruction does.
#[derive(Debug)]
pub enum Op {
    /// Arithmetic on integers.
    Binary(Binary, Operand, Operand),
    /// Comparison of integers or addresses.
    Compare(Predicate, Operand, Operand),
    /// The second operand if the first is true, else the third.
    Select(Operand, Operand, Operand),
    /// To a wider integer, filled with zeros.
    ZeroExtend(Operand),
    /// To a wider integer, filled with the sign.
    SignExtend(Operand),
    /// To a narrower integer.
    Truncate(Operand),
    /// The same bits under another type.
    Same(Operand),
    /// `base + offset + sum of operand * stride`. The operands are signed.
    Address {
        /// Where it starts.
        base: Operand,
        /// The constant part.
        offset: i64,
        /// The rest.
        scaled: Vec<(Operand, i64)>,
    },
    /// Memory of the calling function.
    Alloca {
        /// Bytes of one element.
        size: u64,
        /// Number of elements.
        count: Operand,
        /// Bytes.
        align: u64,
    },
    /// Reads memory.
    Load {
        /// Address.
        from: Operand,
        /// Bytes.
        bytes: u64,
    },
    /// Writes memory.
    Store {
        /// What.
        value: Operand,
        /// Type of the value.
        ty: Type,
        /// Address.
        to: Operand,
        /// Bytes.
        bytes: u64,
        /// How strongly ordered. Sequentially consistent: a locked `xchg`, which is a fence as well.
        order: Order,
        /// Bypasses the cache, which only some widths support: [`crate::meaning::is_stored_non_temporally`].
        nontemporal: bool,
    },
    /// Reads, computes and writes in one step; the result is the old value.
    Rmw {
        /// What is computed.
        op: Rmw,
        /// Address.
        at: Operand,
        /// The other operand.
        value: Operand,
        /// Bytes.
        bytes: u64,
    },
    /// Writes if memory holds the expected value; the result is the old value and whether it did.
    CompareExchange {
        /// Address.
        at: Operand,
        /// What must be there.
        expected: Operand,
        /// What is written.
        new: Operand,
        /// Bytes.
        bytes: u64,
    },
    /// Orders what is around it.
    Fence {
        /// How strongly.
        order: Order,
        /// Only for signal handlers of the same thread: no instruction at all.
        compiler_only: bool,
    },
    /// Calls.
    Call {
        /// What.
        callee: Callee,
        /// With.
        arguments: Vec<Operand>,
    },
    /// A member of an aggregate.
    Extract(Operand, Vec<u32>),
    /// An aggregate with another member.
    Insert(Operand, Operand, Vec<u32>),
    /// Not understood; the text describes it.
    Unsupported(Rc<str>),
}

impl Op {
    /// All operands, except the one that determines the callee.
    #[must_use]
    pub fn operands(&self) -> Vec<&Operand> {
        match self {
            Op::Binary(_, a, b) | Op::Compare(_, a, b) | Op::Insert(a, b, _) => vec![a, b],
            Op::Select(a, b, c) => vec![a, b, c],
            Op::ZeroExtend(a) | Op::SignExtend(a) | Op::Truncate(a) | Op::Same(a) | Op::Extract(a, _) => {
                vec![a]
            }
            Op::Address { base, scaled, .. } => {
                std::iter::once(base).chain(scaled.iter().map(|(index, _)| index)).collect()
            }
            Op::Alloca { count, .. } => vec![count],
            Op::Load { from, .. } => vec![from],
            Op::Store { value, to, .. } => vec![value, to],
            Op::Rmw { at, value, .. } => vec![at, value],
            Op::CompareExchange { at, expected, new, .. } => vec![at, expected, new],
            Op::Call { arguments, .. } => arguments.iter().collect(),
            Op::Fence { .. } | Op::Unsupported(_) => Vec::new(),
        }
    }
}

/// Arithmetic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "named as LLVM names them")]
pub enum Binary {
    Add,
    Sub,
    Mul,
    DivideUnsigned,
    DivideSigned,
    RemainderUnsigned,
    RemainderSigned,
    ShiftLeft,
    ShiftRight,
    ShiftRightSigned,
    And,
    Or,
    Xor,
}

/// Comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "named as LLVM names them")]
pub enum Predicate {
    Equal,
    NotEqual,
    UnsignedGreater,
    UnsignedGreaterEqual,
    UnsignedLess,
    UnsignedLessEqual,
    SignedGreater,
    SignedGreaterEqual,
    SignedLess,
    SignedLessEqual,
}

/// What an atomic instruction computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "named as LLVM names them")]
pub enum Rmw {
    Exchange,
    Add,
    Sub,
    And,
    Nand,
    Or,
    Xor,
    Max,
    Min,
    UnsignedMax,
    UnsignedMin,
}

/// How strongly an access or fence is ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Not atomic.
    None,
    /// Unordered, relaxed, acquire, release or both.
    Weak,
    /// Sequentially consistent.
    SequentiallyConsistent,
}

/// The callee of a call.
#[derive(Debug)]
pub enum Callee {
    /// A function by name; intrinsics too.
    Function(FunctionId),
    /// The target of a pointer.
    Pointer(Operand),
    /// Inline assembly.
    Assembly(Assembly),
}

/// Inline assembly.
#[derive(Debug)]
pub struct Assembly {
    /// The text, with `$0` for operands.
    pub template: String,
    /// The constraints.
    pub constraints: String,
    /// Intel rather than AT&T syntax.
    pub intel: bool,
    /// Bytes of the memory each argument points to, where it is a memory operand.
    pub memory: Vec<Option<u64>>,
}

/// How a block ends.
#[derive(Debug)]
pub enum Terminator {
    /// Back to the caller.
    Return(Option<Operand>),
    /// To a block.
    Jump(BlockId),
    /// To the first block if true, else to the second.
    Branch(Operand, BlockId, BlockId),
    /// To the block of the value, or to the default.
    Switch(Operand, BlockId, Vec<(u64, BlockId)>),
    /// Never reached, says the compiler.
    Unreachable,
    /// Not understood; the text describes it.
    Unsupported(Rc<str>),
}

impl Terminator {
    /// Where control may go.
    #[must_use]
    pub fn successors(&self) -> Vec<BlockId> {
        match self {
            Terminator::Jump(to) => vec![*to],
            Terminator::Branch(_, yes, no) => vec![*yes, *no],
            Terminator::Switch(_, default, cases) => {
                std::iter::once(*default).chain(cases.iter().map(|(_, block)| *block)).collect()
            }
            Terminator::Return(_) | Terminator::Unreachable | Terminator::Unsupported(_) => Vec::new(),
        }
    }
}
