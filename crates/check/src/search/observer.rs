//! What a search reports, and the trait that receives it.

use crashproof_protocol::Record;
use crashproof_protocol::steps::Actor;
use px86::Line;

use crate::crash::{CrashState, Read, RecordKinds, Revealed};
use crate::search::tree::{Diverged, Outcome};
use crate::subject::{Bytes, Limit, Schedule};

/// A recovery that ended: the crashes before it, its reads, and how it ended.
#[derive(Clone, Copy)]
pub(crate) struct Recovered<'a> {
    pub(crate) state: &'a CrashState<'a>,
    /// What its reads revealed about the last crash.
    pub(crate) revealed: &'a Revealed,
    pub(crate) reads: &'a [Read],
    pub(crate) outcome: &'a Outcome,
    pub(crate) schedule: Schedule,
    /// The certain content of a line when the recorded run crashed.
    pub(crate) certain: &'a dyn Fn(Line) -> Bytes,
}

/// An observer's judgment of a recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Judgement {
    /// Is it worth reporting?
    pub(crate) noted: bool,
    /// Does it fail no matter what is lost?
    pub(crate) unrecoverable: bool,
    /// If it fails: the store that would have to persist, by execution and site.
    pub(crate) cause: Option<(usize, u32)>,
    /// If it does not fail, but reads something stale: the same.
    pub(crate) stale: Option<(usize, u32)>,
}

/// Why a search does not cover everything.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Incomplete {
    /// The user interrupted it.
    Interrupted,
    /// The time limit was reached.
    Time,
    /// This limit on recoveries was reached.
    Recoveries(u64),
    /// A crash has more behaviors than its budget of recoveries.
    PerCrash(u64),
    /// The explored behaviors do not fit into the memory limit, in bytes.
    Memory(u64),
    /// A recovery hit a limit.
    Run(Limit),
    /// Recovery is not a function of what it reads.
    Diverged(Diverged),
}

/// Observes a search. Called concurrently from several worker threads, never while they hold the lock of the shared
/// state.
pub(crate) trait Observer: Sync {
    /// Should the search end early?
    fn is_interrupted(&self) -> bool;

    /// The search does not cover everything.
    fn incomplete(&self, why: Incomplete);

    /// A crash is being tried, this far into the recorded run.
    fn crashed(&self, at: usize);

    /// A recovery was run and made these records, of these kinds; the number of distinct behaviors is now `behaviors`.
    fn ran(&self, records: &[Record], kinds: RecordKinds, behaviors: usize);

    /// Report even recoveries that succeed and read only what a machine without caches could have left?
    fn wants_all(&self) -> bool {
        false
    }

    /// A recovery ended, run or reused.
    fn ended(&self, recovered: &Recovered) -> Judgement;

    /// Recoveries that end from here on ran under the schedule that begins with these decisions.
    fn recovery_follows(&self, _decisions: &[Actor]) {}

    /// A recovery that read something stale, as [`Observer::ended`] said, leaves everything as if it had not.
    fn copes(&self, _recovered: &Recovered) {}

    /// Only this one of all paths was followed; `checksummed` are the numbers of the reads protected by a checksum.
    fn sampled(&self, recovered: &Recovered, checksummed: &[u32]);

    /// After the crash at `at`, for which [`Observer::ended`] said that recovery fails no matter what is lost, the next
    /// crash point is at `next`.
    fn next_crash_point(&self, at: usize, next: usize);

    /// The checksum whose reads start at this site of recovery also matches torn contents.
    fn distrusted_checksum(&self, site: u32);
}
