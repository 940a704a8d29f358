//! What a search reports, and to whom.

use crashproof_protocol::Record;
use crashproof_protocol::steps::Actor;
use px86::Line;

use crate::crash::{CrashState, Read, Revealed};
use crate::search::tree::{Diverged, Outcome};
use crate::subject::{Bytes, Limit, Schedule};

/// A recovery that ended: after which crashes, what it read, and how it ended.
#[derive(Clone, Copy)]
pub(crate) struct Recovered<'a> {
    pub(crate) state: &'a CrashState<'a>,
    /// What its reads revealed about the last crash.
    pub(crate) revealed: &'a Revealed,
    pub(crate) reads: &'a [Read],
    pub(crate) outcome: &'a Outcome,
    pub(crate) schedule: Schedule,
    /// What a line surely held when the recorded run crashed.
    pub(crate) certain: &'a dyn Fn(Line) -> Bytes,
}

/// What an observer makes of a recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Judgement {
    /// Is there anything to tell about it?
    pub(crate) noted: bool,
    /// Does it fail whatever is lost?
    pub(crate) unrecoverable: bool,
    /// If it fails: the store that would have to persist, by its execution and site.
    pub(crate) cause: Option<(usize, u32)>,
    /// If it does not fail, but reads something stale: the same.
    pub(crate) stale: Option<(usize, u32)>,
}

/// Why a search does not cover everything.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Incomplete {
    /// The user interrupted it.
    Interrupted,
    /// The time allowed was up.
    Time,
    /// This many recoveries were run, all that were allowed.
    Recoveries(u64),
    /// A crash has more behaviors than recoveries that it is allowed.
    PerCrash(u64),
    /// What is known of recovery does not fit into the memory allowed, in bytes.
    Memory(u64),
    /// A recovery ran into a limit.
    Run(Limit),
    /// Recovery is not a function of what it reads.
    Diverged(Diverged),
}

/// Follows a search. Workers call it at the same time, from several threads, and never while they
/// hold the lock of the shared state.
pub(crate) trait Observer: Sync {
    /// Is the search to end early?
    fn is_interrupted(&self) -> bool;

    /// The search does not cover everything.
    fn incomplete(&self, why: Incomplete);

    /// A crash is tried, this far into the recorded run.
    fn crashed(&self, at: usize);

    /// A recovery was run, and did this; `behaviors` distinct behaviors are known now.
    fn ran(&self, records: &[Record], behaviors: usize);

    /// Are recoveries wanted, too, that end well and read nothing that a machine without caches could not have left?
    fn wants_all(&self) -> bool {
        false
    }

    /// A recovery ended, run or known.
    fn ended(&self, recovered: &Recovered) -> Judgement;

    /// Recoveries that end from here on ran under the schedule that begins with these decisions.
    fn recovery_follows(&self, _decisions: &[Actor]) {}

    /// A recovery that read something stale, as [`Observer::ended`] said, leaves everything as if it had not.
    fn copes(&self, _recovered: &Recovered) {}

    /// Only this one of all ways was followed; `checksummed` are the numbers of the reads that a checksum protects.
    fn sampled(&self, recovered: &Recovered, checksummed: &[u32]);

    /// The crash after one at `at` that [`Observer::ended`] said fails whatever is lost is at `next`.
    fn next_crash_point(&self, at: usize, next: usize);

    /// The checksum over what is read from this site of recovery on also matches torn contents.
    fn distrusted_checksum(&self, site: u32);
}
