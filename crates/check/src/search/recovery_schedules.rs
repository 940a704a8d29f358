//! Schedules of multithreaded recoveries.
//!
//! What such a recovery does depends on what it reads and on its schedule. The tree has what it does under the first schedule.
//! A *case* is memory of which everything is decided that recovery reads under any of its schedules: there it is a program
//! like any other, and all its schedules are explored as those of the program are (`schedules::explore`). Crash states with the
//! same case are looked at once; see `other_schedules` for how cases are found.

use std::sync::Arc;

use crashproof_protocol::steps::Actor;
use rustc_hash::FxHashMap;

use crate::crash::Read;
use crate::search::tree::Outcome;

/// Steps of a recovery whose schedules can be explored.
pub(crate) const MAX_STEPS: usize = 2_000;

/// What a recovery does under some of its schedules.
#[derive(Clone)]
pub(crate) struct Way {
    /// One of these schedules.
    pub(crate) decisions: Arc<[Actor]>,
    pub(crate) reads: Arc<[Read]>,
    pub(crate) outcome: Arc<Outcome>,
}

/// All that a recovery does where what it reads has these values.
#[derive(Default)]
pub(crate) struct Case {
    /// Every read under any schedule: address, width, value.
    pub(crate) values: Vec<(u64, u8, u64)>,
    /// Schedules that read or do something else than the ones before.
    pub(crate) ways: Vec<Way>,
    /// All schedules, up to equivalence.
    pub(crate) schedules: u64,
}

/// What is known about schedules of recoveries.
#[derive(Default)]
pub(crate) struct RecoverySchedules {
    /// Do recoveries follow decisions?
    follows: bool,
    /// Runs that may still be made, those that turn out to be redundant included.
    left: u64,
    /// Cases by what recovery reads under the first schedule.
    cases: FxHashMap<u64, Vec<Arc<Case>>>,
    /// The most schedules of any case.
    pub(crate) most: u64,
    /// Not all of a recovery's schedules were explored: there were too many.
    pub(crate) cut: bool,
    /// A recovery was too long.
    pub(crate) too_long: bool,
    /// What its schedules do not show, as of the program's own.
    pub(crate) timed_out: bool,
    pub(crate) counted: bool,
    pub(crate) retried: bool,
}

impl RecoverySchedules {
    /// From here on recoveries follow decisions, in at most this many runs.
    pub(crate) fn begin(&mut self, most: u64) {
        *self = RecoverySchedules { follows: true, left: most, ..RecoverySchedules::default() };
    }

    pub(crate) fn follows(&self) -> bool {
        self.follows
    }

    /// May another one be run?
    pub(crate) fn take_run(&mut self) -> bool {
        self.cut |= self.left == 0;
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }

    /// The cases of recoveries that read this under the first schedule.
    pub(crate) fn cases(&self, first: u64) -> Vec<Arc<Case>> {
        self.cases.get(&first).cloned().unwrap_or_default()
    }

    pub(crate) fn add(&mut self, first: u64, case: Arc<Case>) {
        self.most = self.most.max(case.schedules);
        self.cases.entry(first).or_default().push(case);
    }
}
