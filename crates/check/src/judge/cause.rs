//! Why recovery finds what it finds: the kinds of causes, each with its own remedy.

use crate::judge::access::Access;

/// A flush or a fence of the recorded run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) level: usize,
    /// Where it is in the trace.
    pub(crate) index: usize,
    pub(crate) site: u32,
    pub(crate) address: u64,
}

/// Why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Nothing is known.
    #[default]
    Unknown,
    /// The lost store's line is never flushed afterwards. If a line next to it is, in the same breath, and was stored to
    /// just before, that flush and that store.
    NeverFlushed { neighbor: Option<(Instruction, Access)> },
    /// It is flushed, but only after the survivor was stored.
    FlushedLate(Instruction),
    /// It is flushed and fenced after the survivor was: the other way round than recovery needs it. If a line next to it
    /// was flushed in time, that flush and the store it was for.
    WrongOrder { flush: Instruction, neighbor: Option<(Instruction, Access)> },
    /// It is flushed in time, but no fence follows before the survivor.
    NotFenced(Instruction),
    /// A flush covers only some of the bytes that were stored together.
    PartialFlush { flush: Instruction, covered: u64, total: u64 },
    /// What is flushed instead had nothing to be written back.
    WrongAddress(Instruction),
    /// Parts of one update: nothing keeps them together.
    Torn {
        /// Are they parts of one store or copy?
        one_access: bool,
    },
    /// Nothing is lost: the last store persisted before what belongs to it was stored. If that is a flag which is cleared
    /// then, and was set before the last store, where: the program has told recovery that it was at work.
    StoredAfterCommit { begun: Option<Access> },
    /// A lock was held when the power failed, and recovery waits for it.
    LockHeld { taken: Access, released: Access },
    /// Recovery follows a pointer to memory that is not persistent.
    VolatileState(Volatile),
    /// Nothing is lost, and nothing that recovery read would be stored later: recovery fails on a state that is as the
    /// program wants it.
    RecoveryWrong,
}

/// A pointer to memory that is not persistent: where recovery read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Volatile {
    pub(crate) address: u64,
    pub(crate) site: u32,
}

impl Cause {
    /// Its name, for programs.
    pub(crate) fn id(&self) -> &'static str {
        match self {
            Cause::Unknown => "unknown",
            Cause::NeverFlushed { .. } => "never-flushed",
            Cause::FlushedLate(_) => "flushed-too-late",
            Cause::WrongOrder { .. } => "wrong-order",
            Cause::NotFenced(_) => "flushed-not-fenced",
            Cause::PartialFlush { .. } => "flush-covers-too-little",
            Cause::WrongAddress(_) => "wrong-address-flushed",
            Cause::Torn { .. } => "torn-update",
            Cause::StoredAfterCommit { .. } => "stored-after-commit",
            Cause::LockHeld { .. } => "lock-held",
            Cause::VolatileState(_) => "recovery-trusts-volatile-state",
            Cause::RecoveryWrong => "recovery-wrong",
        }
    }

    /// The flushes that it is about.
    pub(crate) fn flushes(&self) -> impl Iterator<Item = Instruction> {
        let (own, neighbor) = match self {
            Cause::FlushedLate(flush)
            | Cause::NotFenced(flush)
            | Cause::PartialFlush { flush, .. }
            | Cause::WrongAddress(flush) => (Some(*flush), None),
            Cause::WrongOrder { flush, neighbor } => (Some(*flush), neighbor.as_ref()),
            Cause::NeverFlushed { neighbor } => (None, neighbor.as_ref()),
            _ => (None, None),
        };
        own.into_iter().chain(neighbor.map(|(flush, _)| *flush))
    }
}
