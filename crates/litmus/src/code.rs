//! A litmus test as the engines run it: flat code in which every instruction runs at most once.

use px86::{Class, Domain, LINE_BYTES, Line, Platform};

use crate::error::Span;

/// A location, by its place in [`Test::locations`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocId(pub u16);

/// A register of one thread, by its place in [`Code::registers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegId(pub u16);

/// A whole test.
#[derive(Clone, Debug)]
pub struct Test {
    /// Its name.
    pub name: String,
    /// The text it was read from; spans point into it.
    pub source: String,
    /// All locations, in the order of declaration.
    pub locations: Vec<Location>,
    /// How many cache lines the locations lie on.
    pub lines: usize,
    /// The persistence domain of each line, where the file says which.
    pub domains: Vec<Option<Domain>>,
    /// The threads that run before the crash.
    pub threads: Vec<Code>,
    /// What runs after the crash, if given.
    pub recover: Option<Code>,
    /// The questions asked, in the order of the file.
    pub queries: Vec<Query>,
}

/// A named word of persistent memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Its name.
    pub name: String,
    /// Which `line` block declared it.
    pub line: usize,
    /// Its address: lines are 64 bytes, locations 8 bytes, in the order of the block.
    pub address: u64,
    /// What it holds at the start.
    pub init: i64,
}

/// A question about what persisted at the crash.
#[derive(Clone, Debug)]
pub struct Query {
    /// Must it hold in some outcome, or in none?
    pub kind: QueryKind,
    /// The condition as written, without the parentheses around it.
    pub text: String,
    /// The condition; its variables are locations.
    pub condition: Expr,
    /// Where it stands.
    pub span: Span,
}

/// The claim of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueryKind {
    /// No outcome satisfies it.
    Forbidden,
    /// Some outcome satisfies it.
    Allowed,
}

impl QueryKind {
    /// The keyword.
    pub const fn name(self) -> &'static str {
        match self {
            QueryKind::Forbidden => "forbidden",
            QueryKind::Allowed => "allowed",
        }
    }
}

/// The code of one thread, or of recovery.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// The instructions. Jumps go forward only.
    pub instructions: Vec<Instruction>,
    /// Names of the registers; all are 0 at the start.
    pub registers: Vec<String>,
}

/// One instruction and where it stands.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// What it does.
    pub op: Op,
    /// The statement it came from; instructions of an unrolled loop share theirs.
    pub span: Span,
}

/// What an instruction does.
#[derive(Clone, Debug)]
pub enum Op {
    /// Register := expression over registers. No memory is touched.
    Assign(RegId, Expr),
    /// Register := location.
    Load(RegId, LocId),
    /// Location := expression.
    Store(LocId, Expr),
    /// Location := expression, non-temporal.
    NonTemporal(LocId, Expr),
    /// Locked read-modify-write; the register, if any, gets the old value.
    Rmw(Option<RegId>, LocId, Rmw),
    /// `clflush`.
    Flush(LocId),
    /// `clflushopt`, `clwb`.
    FlushOpt(LocId),
    /// `sfence`.
    StoreFence,
    /// `mfence`.
    Fence,
    /// Goes to the target if the expression is 0. The target is further down.
    JumpIfZero(Expr, usize),
    /// Goes to the target, further down.
    Jump(usize),
    /// Fails if the expression is 0. In recovery only.
    Assert(Expr),
}

/// What a locked instruction stores.
#[derive(Clone, Debug)]
pub enum Rmw {
    /// The second value, if the location holds the first; else nothing.
    Cas(Expr, Expr),
    /// The sum of the old value and this.
    Faa(Expr),
    /// This value.
    Xchg(Expr),
}

impl Rmw {
    /// What is stored, given the old value: none if the instruction only reads.
    pub fn store(&self, old: i64, registers: &[i64]) -> Option<i64> {
        match self {
            Rmw::Cas(expected, new) => (old == expected.eval(registers)).then(|| new.eval(registers)),
            Rmw::Faa(add) => Some(old.wrapping_add(add.eval(registers))),
            Rmw::Xchg(new) => Some(new.eval(registers)),
        }
    }

    /// The expressions it evaluates.
    pub fn operands(&self) -> impl Iterator<Item = &Expr> {
        let (first, second) = match self {
            Rmw::Cas(expected, new) => (expected, Some(new)),
            Rmw::Faa(one) | Rmw::Xchg(one) => (one, None),
        };
        std::iter::once(first).chain(second)
    }
}

impl Op {
    /// Row and column of the ordering table; `None` for what accesses no memory.
    pub fn class(&self) -> Option<Class> {
        Some(match self {
            Op::Load(..) => Class::Read,
            Op::Store(..) => Class::Write,
            Op::NonTemporal(..) => Class::NonTemporal,
            Op::Rmw(..) | Op::Fence => Class::Fence,
            Op::Flush(_) => Class::Flush,
            Op::FlushOpt(_) => Class::FlushOpt,
            Op::StoreFence => Class::StoreFence,
            Op::Assign(..) | Op::JumpIfZero(..) | Op::Jump(_) | Op::Assert(_) => return None,
        })
    }

    /// The location it names.
    pub fn location(&self) -> Option<LocId> {
        match *self {
            Op::Load(_, at)
            | Op::Store(at, _)
            | Op::NonTemporal(at, _)
            | Op::Rmw(_, at, _)
            | Op::Flush(at)
            | Op::FlushOpt(at) => Some(at),
            _ => None,
        }
    }

    /// May it put a value into memory?
    pub fn may_store(&self) -> bool {
        matches!(self, Op::Store(..) | Op::NonTemporal(..) | Op::Rmw(..))
    }

    /// Does it take a value out of memory?
    pub fn loads(&self) -> bool {
        matches!(self, Op::Load(..) | Op::Rmw(..))
    }

    /// The expressions it evaluates.
    pub fn expressions(&self) -> Vec<&Expr> {
        match self {
            Op::Assign(_, e)
            | Op::Store(_, e)
            | Op::NonTemporal(_, e)
            | Op::JumpIfZero(e, _)
            | Op::Assert(e) => vec![e],
            Op::Rmw(_, _, rmw) => rmw.operands().collect(),
            _ => Vec::new(),
        }
    }
}

impl Test {
    /// The location with this id.
    pub fn location(&self, id: LocId) -> &Location {
        &self.locations[usize::from(id.0)]
    }

    /// The domain of every line, if the test's first line is `first` and lines without a domain of their own are in
    /// `default`.
    pub fn platform(&self, default: Domain, first: Line) -> Platform {
        let own = (first.0..).zip(&self.domains).filter_map(|(line, domain)| domain.map(|own| (line, own)));
        own.fold(Platform::all(default), |platform, (line, own)| {
            platform.with(Line(line)..Line(line + 1), own)
        })
    }

    /// All location ids.
    pub fn location_ids(&self) -> impl Iterator<Item = LocId> + use<> {
        (0..self.locations.len() as u16).map(LocId)
    }

    /// The ids in the order of their names, the order in which outcomes are shown.
    pub fn locations_by_name(&self) -> Vec<LocId> {
        let mut ids: Vec<LocId> = self.location_ids().collect();
        ids.sort_by_key(|&id| &self.location(id).name);
        ids
    }

    /// The text of an instruction, as written.
    pub fn text(&self, instruction: &Instruction) -> &str {
        instruction.span.text(&self.source).trim_end_matches(';').trim_end()
    }

    /// The line of the source, from 1, on which a span begins.
    pub fn line_number(&self, span: Span) -> usize {
        self.source.get(..span.start).map_or(1, |before| before.matches('\n').count() + 1)
    }
}

impl Location {
    /// The cache line it lies on.
    pub fn cache_line(&self) -> Line {
        Line::containing(self.address)
    }

    pub(crate) fn address(line: usize, slot: usize) -> u64 {
        line as u64 * LINE_BYTES + slot as u64 * u64::from(px86::line::WORD_BYTES)
    }
}

/// An expression over registers (in code) or locations (in queries): 64-bit, signed, wrapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr {
    /// A constant.
    Int(i64),
    /// A register or location, by number.
    Variable(u16),
    /// Of one operand.
    Unary(UnaryOp, Box<Expr>),
    /// Of two operands.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
}

/// Operators of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `!`: 1 if the operand is 0, else 0.
    Not,
    /// `-`.
    Negate,
}

/// Operators of two operands. Comparisons give 1 or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
}

impl Expr {
    /// The value, given those of the variables.
    ///
    /// Shift counts are taken modulo 64; `>>` keeps the sign.
    pub fn eval(&self, variables: &[i64]) -> i64 {
        match self {
            Expr::Int(value) => *value,
            Expr::Variable(index) => variables[usize::from(*index)],
            Expr::Unary(UnaryOp::Not, e) => i64::from(e.eval(variables) == 0),
            Expr::Unary(UnaryOp::Negate, e) => e.eval(variables).wrapping_neg(),
            Expr::Binary(op, left, right) => {
                let (left, right) = (left.eval(variables), right.eval(variables));
                match op {
                    BinaryOp::Or => i64::from(left != 0 || right != 0),
                    BinaryOp::And => i64::from(left != 0 && right != 0),
                    BinaryOp::BitOr => left | right,
                    BinaryOp::BitXor => left ^ right,
                    BinaryOp::BitAnd => left & right,
                    BinaryOp::Equal => i64::from(left == right),
                    BinaryOp::NotEqual => i64::from(left != right),
                    BinaryOp::Less => i64::from(left < right),
                    BinaryOp::LessEqual => i64::from(left <= right),
                    BinaryOp::Greater => i64::from(left > right),
                    BinaryOp::GreaterEqual => i64::from(left >= right),
                    BinaryOp::ShiftLeft => left.wrapping_shl(right as u32),
                    BinaryOp::ShiftRight => left.wrapping_shr(right as u32),
                    BinaryOp::Add => left.wrapping_add(right),
                    BinaryOp::Subtract => left.wrapping_sub(right),
                    BinaryOp::Multiply => left.wrapping_mul(right),
                }
            }
        }
    }

    /// Calls `visit` with every variable that occurs.
    pub fn variables(&self, visit: &mut impl FnMut(u16)) {
        match self {
            Expr::Int(_) => {}
            Expr::Variable(index) => visit(*index),
            Expr::Unary(_, e) => e.variables(visit),
            Expr::Binary(_, left, right) => {
                left.variables(visit);
                right.variables(visit);
            }
        }
    }
}
