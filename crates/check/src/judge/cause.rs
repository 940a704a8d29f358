//! Why recovery finds what it finds: the kinds of causes, each with its own remedy.

use crate::judge::access::Access;

/// A flush or a fence of the recorded run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) level: usize,
    /// Its place in the trace.
    pub(crate) index: usize,
    pub(crate) site: u32,
    pub(crate) address: u64,
}

/// The cause of a finding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Unknown.
    #[default]
    Unknown,
    /// The lost store's line is never flushed afterwards. If an adjacent line that was just stored to is flushed at the
    /// same time, that flush and that store.
    NeverFlushed { neighbor: Option<(Instruction, Access)> },
    /// It is flushed, but only after the survivor was stored.
    FlushedLate(Instruction),
    /// It is flushed and fenced after the survivor was: the reverse of the order that recovery needs. If an adjacent
    /// line was flushed in time, that flush and the store it was for.
    WrongOrder { flush: Instruction, neighbor: Option<(Instruction, Access)> },
    /// It is flushed in time, but not fenced before the survivor.
    NotFenced(Instruction),
    /// A flush covers only some of the bytes stored together.
    PartialFlush { flush: Instruction, covered: u64, total: u64 },
    /// The line flushed instead had nothing to write back.
    WrongAddress(Instruction),
    /// Parts of one update that nothing keeps together.
    Torn {
        /// Do the parts belong to one store or copy?
        one_access: bool,
    },
    /// Nothing is lost: the last store persisted before the data it refers to was stored. If it is a flag that is
    /// cleared next, and was set before the last store, where it was set: the program had told recovery that an update
    /// was in progress.
    StoredAfterCommit { begun: Option<Access> },
    /// A lock was held at the crash, and recovery waits for it.
    LockHeld { taken: Access, released: Access },
    /// Recovery follows a pointer to memory that is not persistent.
    VolatileState(Volatile),
    /// Nothing is lost, and recovery read nothing that would be stored later: recovery fails on a state that the
    /// program intended.
    RecoveryWrong,
}

/// A pointer to memory that is not persistent: where recovery read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Volatile {
    pub(crate) address: u64,
    pub(crate) site: u32,
}

impl Cause {
    /// Its identifier in machine-readable reports.
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

    /// The flushes it involves.
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
