//! What execution writes down for later: threads to execute, objects of a pool, and what transactions did.

use crashproof_frontend::bitcode::ir::{FunctionId, Place};
use crashproof_prove::term::Term;

use crate::memory::Memory;

/// Who is executing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Who {
    Thread(u32),
    Recovery,
}

/// A thread that was started and not executed yet.
pub(crate) struct Spawn {
    pub(crate) thread: u32,
    pub(crate) function: FunctionId,
    pub(crate) argument: Argument,
    pub(crate) memory: Memory,
    pub(crate) place: Place,
}

pub(crate) enum Argument {
    Known(u64),
    /// Depends on what the starting thread read: handed over in memory.
    Handed(u64),
}

/// An object of the pool, for those who ask about it.
pub(crate) struct Allocated {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) kind: Term,
}

/// Everything that transactions have done so far.
#[derive(Default)]
pub(crate) struct Transactions {
    pub(crate) numbers: u64,
    pub(crate) entries: Vec<Entry>,
    pub(crate) ranges: Vec<Range>,
}

/// An entry of the log that may have been made.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) who: Who,
    pub(crate) number: u64,
    /// On this path.
    pub(crate) path: Vec<Term>,
    /// Where the number of its transaction is, once the entry is durable.
    pub(crate) flag: u64,
    /// The word that tells which numbers were committed.
    pub(crate) committed: u64,
    pub(crate) start: Term,
    /// Pieces of the range: offset, what was there, and where that was written down if it is not known.
    pub(crate) pieces: Vec<(u64, Term, Option<u64>)>,
}

/// A range that a transaction has added, or allocated.
#[derive(Clone)]
pub(crate) struct Range {
    pub(crate) who: Who,
    pub(crate) number: u64,
    pub(crate) path: Vec<Term>,
    pub(crate) start: Term,
    pub(crate) bytes: u64,
    pub(crate) flush: bool,
}

/// A range to be added to a transaction.
pub(crate) struct NewRange {
    /// Names the instruction that adds it.
    pub(crate) point: u64,
    /// The transaction's number.
    pub(crate) number: u64,
    /// The word that tells which numbers were committed.
    pub(crate) committed: u64,
    pub(crate) start: Term,
    pub(crate) bytes: u64,
    /// `POBJ_XADD_*`.
    pub(crate) flags: u64,
}
