//! The syntax tree: what the file says, names unresolved, loops not unrolled.

use crate::code::{BinaryOp, QueryKind, UnaryOp};
use crate::error::Span;
use px86::Domain;

#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) struct File {
    pub(crate) name: Name,
    pub(crate) lines: Vec<Line>,
    pub(crate) init: Vec<(Name, i64)>,
    pub(crate) threads: Vec<Vec<Statement>>,
    pub(crate) recover: Option<Vec<Statement>>,
    pub(crate) queries: Vec<Query>,
}

#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) span: Span,
    pub(crate) domain: Option<Domain>,
    pub(crate) names: Vec<Name>,
}

#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) kind: QueryKind,
    pub(crate) span: Span,
    pub(crate) condition: Expr,
}

#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) span: Span,
    pub(crate) kind: StatementKind,
}

#[derive(Debug)]
pub(crate) enum StatementKind {
    /// `name = expression`: a store, a load or a register assignment, depending on the names.
    Assign(Name, Expr),
    /// A read-modify-write, with the register for the old value if one is wanted.
    Rmw {
        target: Option<Name>,
        op: RmwOp,
        location: Name,
        arguments: Vec<Expr>,
    },
    NonTemporal(Name, Expr),
    Flush {
        opt: bool,
        location: Name,
    },
    StoreFence,
    Fence,
    Assert(Expr),
    If {
        condition: Expr,
        then: Vec<Statement>,
        otherwise: Vec<Statement>,
    },
    Repeat {
        count: i64,
        count_span: Span,
        body: Vec<Statement>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RmwOp {
    Cas,
    Faa,
    Xchg,
}

#[derive(Debug)]
pub(crate) struct Expr {
    pub(crate) span: Span,
    /// Height of the tree, bounded so that walking it cannot exhaust the stack.
    pub(crate) height: usize,
    pub(crate) kind: ExprKind,
}

#[derive(Debug)]
pub(crate) enum ExprKind {
    Int(i64),
    Name(String),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
}
