//! What the workers of a check share.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crashproof_protocol::Record;
use num_bigint::BigUint;
use px86::Platform;
use rustc_hash::FxHashSet;

use crate::crash::History;
use crate::search::observer::{Incomplete, Observer};
use crate::search::tree::Tree;
use crate::subject::{Error, RunLimits};

/// How far a search goes.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) platform: Platform,
    /// Crashes in a row.
    pub(crate) crashes: usize,
    /// Recoveries for one crash of the recorded run.
    pub(crate) max_per_crash: Option<u64>,
    /// Recoveries in all.
    pub(crate) max_recoveries: Option<u64>,
    pub(crate) max_time: Option<Duration>,
    pub(crate) limits: RunLimits,
    /// Will anybody ask for the history of an execution?
    pub(crate) history: bool,
}

/// Figures about a check.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// PM events of the recorded runs.
    pub events: u64,
    /// Schedules tried; 1 if the program has no threads.
    pub schedules: u32,
    /// Crash points.
    pub failure_points: u64,
    /// Recoveries run.
    pub recoveries: u64,
    /// Recoveries that need not run, because their behavior was known.
    pub recoveries_saved: u64,
    /// Distinct behaviors explored.
    pub behaviours: u64,
    /// Contents that were not tried because a checksum is trusted to refuse them.
    pub checksummed: BigUint,
    /// Recoveries that brute force would run.
    pub eager_states: BigUint,
    /// Time for recording.
    pub recording: Duration,
    /// Time for everything else.
    pub exploring: Duration,
}

/// Why a walk ended early.
pub(crate) enum Stop {
    /// A limit was hit; the observer was told.
    Limit,
    /// This crash has too many behaviors; the observer was told, others go on.
    Crash,
    /// Something is not known, and the worker must not run anything.
    NotKnown,
    /// The program cannot be run any more.
    Error(Error),
}

/// State shared by all workers.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) tree: Tree,
    /// Did any recovery in the tree create threads? Then what it does depends on the schedule, too.
    pub(crate) recovery_has_threads: bool,
    /// How many contents each checksum is trusted to refuse, by the site where its reads begin.
    pub(crate) checksums: BTreeMap<u32, BigUint>,
    /// Recoveries that were crashed, by behavior and what they ran on: each once.
    pub(crate) recoveries_crashed: FxHashSet<Vec<u8>>,
    pub(crate) statistics: Statistics,
    /// A limit was hit; everybody ends.
    pub(crate) stopped: bool,
}

impl Shared {
    /// Counts the behaviors of the tree and forgets it.
    pub(crate) fn count_behaviors(&mut self) {
        self.statistics.behaviours += self.tree.behaviors() as u64;
        self.tree = Tree::default();
        self.recoveries_crashed.clear();
    }

    /// What recoveries with threads did holds only for the schedule they ran under.
    pub(crate) fn forget_scheduled_recoveries(&mut self) {
        if std::mem::take(&mut self.recovery_has_threads) {
            self.count_behaviors();
        }
    }
}

/// A search for all that recovery may do, over all schedules.
pub(crate) struct Search<'a> {
    pub(crate) settings: Settings,
    pub(crate) observer: &'a dyn Observer,
    started: Instant,
    shared: Mutex<Shared>,
}

impl<'a> Search<'a> {
    pub(crate) fn new(settings: Settings, observer: &'a dyn Observer) -> Search<'a> {
        Search { settings, observer, started: Instant::now(), shared: Mutex::default() }
    }

    /// State shared by all workers. Safe to use after a worker panics: every update is a single assignment.
    pub(crate) fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn into_shared(self) -> Shared {
        self.shared.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stores of an execution, if anybody will ask for them.
    pub(crate) fn history<'r>(&self, records: &'r [Record]) -> History<'r> {
        if self.settings.history { History::of(records) } else { History::unknown() }
    }

    /// Ends the search for everybody.
    pub(crate) fn stop(&self, why: Incomplete) -> Stop {
        self.observer.incomplete(why);
        self.shared().stopped = true;
        Stop::Limit
    }

    /// Is there still time? If not, everybody stops.
    pub(crate) fn within_time(&self) -> Result<(), Stop> {
        if self.observer.is_interrupted() {
            return Err(self.stop(Incomplete::Interrupted));
        }
        if self.settings.max_time.is_some_and(|most| self.started.elapsed() >= most) {
            return Err(self.stop(Incomplete::Time));
        }
        Ok(())
    }

    /// May another recovery be run, after this many for the same crash?
    pub(crate) fn within_limits(&self, recoveries_here: u64) -> Result<(), Stop> {
        if self.settings.max_per_crash.is_some_and(|most| recoveries_here >= most) {
            self.observer.incomplete(Incomplete::PerCrash(recoveries_here));
            return Err(Stop::Crash);
        }
        let recoveries = self.shared().statistics.recoveries;
        if self.settings.max_recoveries.is_some_and(|most| recoveries >= most) {
            return Err(self.stop(Incomplete::Recoveries(recoveries)));
        }
        self.within_time()
    }

    /// Contents were not tried because a checksum, first read at this site of recovery, is trusted to refuse them.
    pub(crate) fn trust_checksum(&self, site: u32, contents: BigUint) {
        let mut shared = self.shared();
        shared.statistics.checksummed += &contents;
        *shared.checksums.entry(site).or_default() += contents;
    }
}
