//! Stores and fences of the language, by ordering and shape.

use super::effect::{Fence, Manner};

/// How strongly an access or fence of the language is ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ordering {
    /// Not atomic.
    NotAtomic,
    /// Unordered, relaxed, acquire, release or both: x86 needs no instruction for any of these.
    Weak,
    /// Sequentially consistent.
    SequentiallyConsistent,
}

/// The scope of an atomic operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// All threads.
    System,
    /// Signal handlers of the same thread: constrains only the compiler.
    SingleThread,
}

/// The stored type, as far as it affects the choice of instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stored {
    /// An integer or a pointer.
    General,
    /// A floating-point number.
    Float,
    /// A floating-point constant, which an optimizer moves through a general register.
    FloatConstant,
    /// A vector.
    Vector,
    /// A structure or array.
    Aggregate,
}

/// How a store in the source language reaches memory. `hint` means that it carries `!nontemporal`.
#[must_use]
pub fn store(ordering: Ordering, scope: Scope, hint: bool, stored: Stored, bytes: u64) -> Manner {
    if ordering == Ordering::SequentiallyConsistent && scope == Scope::System {
        Manner::Exchange
    } else if hint && is_stored_non_temporally(stored, bytes) {
        Manner::NonTemporal
    } else {
        Manner::Plain
    }
}

/// Whether the code generator honors a non-temporal hint. x86-64 has non-temporal stores of general registers of 4 and
/// 8 bytes and of whole vector registers; otherwise the hint is dropped silently.
#[must_use]
pub fn is_stored_non_temporally(stored: Stored, bytes: u64) -> bool {
    match stored {
        // Wider integers are stored in several pieces.
        Stored::General => bytes == 4 || bytes > 0 && bytes.is_multiple_of(8),
        Stored::FloatConstant => matches!(bytes, 4 | 8),
        Stored::Vector => bytes > 0 && bytes.is_multiple_of(16),
        Stored::Float | Stored::Aggregate => false,
    }
}

/// The instruction that a fence in the source language becomes. A locked read-modify-write or compare-exchange needs no
/// table: with any ordering, and whether or not it stores, it is [`Fence::Full`] in addition to an access.
#[must_use]
pub fn fence(ordering: Ordering, scope: Scope) -> Option<Fence> {
    (ordering == Ordering::SequentiallyConsistent && scope == Scope::System).then_some(Fence::Full)
}
