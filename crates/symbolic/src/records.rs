//! What execution records for later: threads to execute, objects of a pool, and the effects of transactions.

use crashproof_frontend::bitcode::ir::{FunctionId, Place};
use crashproof_prove::term::Term;
use rustc_hash::FxHashSet;

use crate::memory::Memory;

/// The current thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Who {
    Thread(u32),
    Recovery,
}

/// A thread that was started but not executed yet.
pub(crate) struct Spawn {
    pub(crate) thread: u32,
    pub(crate) function: FunctionId,
    pub(crate) argument: Argument,
    pub(crate) memory: Memory,
    pub(crate) place: Place,
}

pub(crate) enum Argument {
    Known(u64),
    /// Depends on what the starting thread read: passed in memory.
    Handed(u64),
}

/// Why recovery's threads are not followed.
pub(crate) const SHARING: &str = "threads of recovery that share what one of them writes are not modeled";

/// The assumption about them when nothing more is claimed.
pub(crate) const UNFOLLOWED: &str = "that recovery ends well once it has started threads that share memory, after which it \
                                     claims nothing";

/// Functions whose call is a failed claim.
pub(crate) const FAILING: &[&str] =
    &["__assert_fail", "__crashproof_assert_failed", "abort", "reach_error", "__VERIFIER_error"];

/// Does every call of this function fail? True for Rust panics and libstdc++ assertions.
pub(crate) fn fails(name: &str) -> bool {
    FAILING.contains(&name) || is_panic(name) || is_library_assertion(name)
}

/// Is it the failure function of libstdc++ assertions? Those are not claims of the program's own.
pub(crate) fn is_library_assertion(name: &str) -> bool {
    name.starts_with("_ZSt21__glibcxx_assert_fail")
}

/// Is it one of the functions of Rust's `core::panicking`, or `std::process::abort`?
pub(crate) fn is_panic(name: &str) -> bool {
    name.starts_with("_R") && (name.contains("4core9panicking") || name.contains("3std7process5abort"))
}

/// Is a call of this function a claim?
pub(crate) fn is_claim(name: &str) -> bool {
    FAILING.contains(&name) || is_panic(name) || name == "__VERIFIER_assert"
}

/// Threads that recovery has started and not joined.
#[derive(Default)]
pub(crate) struct Helpers {
    /// How many have been started.
    pub(crate) started: u64,
    /// Those that may still be running: their numbers and memory accesses.
    pub(crate) running: Vec<(u64, Footprint)>,
    /// The accesses so far of the one being executed.
    pub(crate) current: Option<Footprint>,
    /// The result of each one.
    pub(crate) results: Vec<Option<Term>>,
    /// The functions they have called.
    pub(crate) functions: FxHashSet<FunctionId>,
    /// The addresses they have written.
    pub(crate) written: Vec<u64>,
}

/// The memory accesses of one of recovery's threads.
#[derive(Clone, Default)]
pub(crate) struct Footprint {
    /// Address ranges, and whether they are written.
    pub(crate) ranges: Vec<(u64, u64, bool)>,
    /// It accesses an unknown address.
    pub(crate) anywhere: bool,
}

impl Footprint {
    /// Whether the order of the two matters.
    pub(crate) fn conflicts(&self, other: &Footprint) -> bool {
        let meets = |a: &(u64, u64, bool), b: &(u64, u64, bool)| a.0 < b.1 && b.0 < a.1 && (a.2 || b.2);
        self.anywhere && !other.ranges.is_empty()
            || other.anywhere && !self.ranges.is_empty()
            || self.anywhere && other.anywhere
            || self.ranges.iter().any(|a| other.ranges.iter().any(|b| meets(a, b)))
    }

    /// Adds the accesses of another.
    pub(crate) fn add(&mut self, other: Footprint) {
        other.ranges.into_iter().for_each(|(from, to, write)| self.note(from, to, write));
        self.anywhere |= other.anywhere;
    }

    /// Records an access.
    pub(crate) fn note(&mut self, from: u64, to: u64, write: bool) {
        if self.ranges.last() != Some(&(from, to, write)) {
            self.ranges.push((from, to, write));
        }
    }
}

/// An object of the pool, for queries about it.
pub(crate) struct Allocated {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) kind: Term,
}

/// The effects of all transactions so far.
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
    /// The address that holds the number of its transaction once the entry is durable.
    pub(crate) flag: u64,
    /// The word that records which numbers were committed.
    pub(crate) committed: u64,
    pub(crate) start: Term,
    /// Pieces of the range: offset, old content, and where that was logged if it is unknown.
    pub(crate) pieces: Vec<(u64, Term, Option<u64>)>,
}

/// A range that a transaction has added or allocated.
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
    /// Identifies the instruction that adds it.
    pub(crate) point: u64,
    /// The transaction's number.
    pub(crate) number: u64,
    /// The word that records which numbers were committed.
    pub(crate) committed: u64,
    pub(crate) start: Term,
    pub(crate) bytes: u64,
    /// `POBJ_XADD_*`.
    pub(crate) flags: u64,
}
