//! What a caller sees of a function: its ways, in terms of parameters.

use rustc_hash::FxHashSet;

use crate::event::Event;
use crate::expression::{Address, Expression, Persistence};
use crate::extent::Extent;

/// Ways that callers see of a function, beside one that stands for all others.
pub(super) const MAX_WAYS: usize = 12;
/// With more ways than this, those that leave the same open become one for callers.
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
    /// What of it still matters to rules, and what of it is still open, as numbers.
    pub(super) signature: u64,
    pub(super) open: u64,
}

/// All ways through a function.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Summary {
    pub(super) ways: Vec<Way>,
    /// Objects that are known to be aligned at more than usual.
    pub(super) alignments: Vec<(Expression, u64)>,
    /// Pointers loaded from somewhere unknown that lead to persistent memory.
    pub(super) loaded: Vec<(Expression, Persistence)>,
    /// Arrays that indices choose from.
    pub(super) extents: Vec<Extent>,
    /// Facts of the ways that assertions made: they guard nothing.
    pub(super) asserted: FxHashSet<Expression>,
    /// What is returned depends on how often a loop ran whose end is not known.
    pub(super) counts: bool,
}

/// What memory holds at an address: a number of bytes, a value.
pub(super) type Entry = (Address, u64, Expression);

/// Where it is noted that anything may have been stored to an object.
pub(super) fn whole(object: Expression) -> Address {
    Address { object, element: None, offset: i64::MIN }
}

/// The length of such a note; it ends before anything that has an address.
pub(super) const WHOLE_BYTES: u64 = i64::MAX as u64;
