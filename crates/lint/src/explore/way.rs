//! Summaries: the ways through a function as a caller sees them, in terms of parameters.

use rustc_hash::FxHashSet;

use crate::event::Event;
use crate::expression::{Address, Expression, Persistence};
use crate::extent::Extent;

/// The most ways that callers see, in addition to one that represents all others.
pub(super) const MAX_WAYS: usize = 12;
/// With more ways than this, those that leave the same open are joined for callers.
pub(super) const FEW_WAYS: usize = 4;
/// Contents of memory a caller sees of one way.
pub(super) const MAX_MEMORY: usize = 1024;
/// Events a caller sees of one way.
pub(super) const MAX_EVENTS: usize = 300;

/// One way through a function, as a caller sees it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Way {
    pub(super) events: Vec<Event>,
    pub(super) result: Expression,
    pub(super) facts: Vec<(Expression, bool)>,
    pub(super) memory: Vec<Entry>,
    pub(super) exit: bool,
    /// Hashes of what still matters to rules, and of what is still open.
    pub(super) signature: u64,
    pub(super) open: u64,
}

/// All ways through a function.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Summary {
    pub(super) ways: Vec<Way>,
    /// Objects with a known alignment larger than usual.
    pub(super) alignments: Vec<(Expression, u64)>,
    /// Pointers loaded from unknown places that lead to persistent memory.
    pub(super) loaded: Vec<(Expression, Persistence)>,
    /// Arrays that indices select from.
    pub(super) extents: Vec<Extent>,
    /// Facts that come from assertions: they guard nothing.
    pub(super) asserted: FxHashSet<Expression>,
    /// The returned value depends on the iteration count of a loop with an unknown end.
    pub(super) counts: bool,
}

/// The content of memory at an address: number of bytes, value.
pub(super) type Entry = (Address, u64, Expression);

/// The pseudo-address that records that anything may have been stored to an object.
pub(super) fn whole(object: Expression) -> Address {
    Address { object, element: None, offset: i64::MIN }
}

/// The length of such an entry; it ends before any real address.
pub(super) const WHOLE_BYTES: u64 = i64::MAX as u64;
