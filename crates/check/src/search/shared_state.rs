//! What the workers of a check share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crashproof_protocol::{Record, record};
use num_bigint::BigUint;
use px86::{Kind, Platform};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::crash::{History, ignored};
use crate::search::effects::Effects;
use crate::search::journal::{Journal, Journaled};
use crate::search::observer::{Incomplete, Observer};
use crate::search::recovery_schedules::RecoverySchedules;
use crate::search::set_aside::SetAside;
use crate::search::shards::Shards;
use crate::search::tree::{Outcome, Tree};
use crate::subject::{Ending, Error, Failure, Limits, RunLimits};

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
    /// Bytes of memory that the check is to stay within.
    pub(crate) memory: u64,
    /// Is nothing to be set aside?
    pub(crate) exhaustive: bool,
    /// The crash points to take; all if not given.
    pub(crate) shards: Option<Shards>,
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
    /// Threads of the program under the first of them.
    pub threads: u32,
    /// Are those all that the program has, up to equivalence?
    pub all_schedules: bool,
    /// Schedules that turned out, on their way, to be equivalent to one tried before.
    pub redundant_schedules: u64,
    /// Crash points.
    pub failure_points: u64,
    /// Recoveries run.
    pub recoveries: u64,
    /// Recoveries that need not run, because their behavior was known.
    pub recoveries_saved: u64,
    /// Distinct behaviors explored.
    pub behaviors: u64,
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
    pub(crate) recovery_schedules: RecoverySchedules,
    /// How many contents each checksum is trusted to refuse, by the site where its reads begin.
    pub(crate) checksums: BTreeMap<u32, BigUint>,
    /// Recoveries that were crashed, by behavior and what they ran on: each once.
    pub(crate) recoveries_crashed: FxHashSet<u128>,
    pub(crate) statistics: Statistics,
    /// A limit was hit; everybody ends.
    pub(crate) stopped: bool,
    pub(crate) set_aside: SetAside,
    pub(crate) coverage: Coverage,
    /// When each worker that is exploring a crash began it, as the tree counts.
    pub(crate) active: FxHashMap<usize, u32>,
    /// Was anything dropped from the tree to stay within the memory?
    pub(crate) dropped: bool,
    /// Recoveries that were run by somebody else, or before.
    pub(crate) known_before: u64,
    /// The longest that a recovery took that ended, and how many did not end.
    longest: Duration,
    endless: u64,
}

/// How much was covered where limits cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coverage {
    /// Crash points with more states than recoveries they are allowed.
    pub(crate) large_points: u64,
    /// Corners of those that were tried.
    pub(crate) corners: u64,
    /// Crash points of which not even all corners were tried.
    pub(crate) corners_cut: u64,
    /// Crash points that were not explored whole.
    pub(crate) points_cut: u64,
    /// Crash states of those, and how many recoveries were run for them.
    pub(crate) states_cut: BigUint,
    pub(crate) tried: u64,
}

impl Shared {
    /// Counts the behaviors of the tree and forgets it.
    pub(crate) fn count_behaviors(&mut self) {
        self.statistics.behaviors += self.tree.behaviors() as u64;
        self.tree = Tree::default();
        self.recoveries_crashed.clear();
    }

    /// Whatever failed is to be found once more.
    pub(crate) fn forget_what_is_set_aside(&mut self) {
        self.set_aside = SetAside::default();
    }

    /// A recovery took this long.
    pub(crate) fn took(&mut self, ending: Ending, time: Duration) {
        if Failure::of(ending) == Some(Failure::Endless) {
            self.endless += 1;
        } else {
            self.longest = self.longest.max(time);
        }
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
    /// Where recoveries are kept, if they are.
    pub(crate) journal: Option<Journal>,
    started: Instant,
    shared: Mutex<Shared>,
    workers: AtomicUsize,
}

impl<'a> Search<'a> {
    pub(crate) fn new(settings: Settings, observer: &'a dyn Observer) -> Search<'a> {
        Search {
            settings,
            observer,
            journal: None,
            started: Instant::now(),
            shared: Mutex::default(),
            workers: AtomicUsize::new(0),
        }
    }

    /// State shared by all workers. Safe to use after a worker panics: every update is a single assignment.
    pub(crate) fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn into_shared(self) -> Shared {
        self.shared.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a recovery that was run before.
    pub(crate) fn learn(&self, recovery: Journaled) {
        let Journaled { records, ending, output, waits_for } = recovery;
        let outcome = self.outcome(&records, ending, output, waits_for);
        let (added, behaviors) = {
            let mut shared = self.shared();
            let before = shared.tree.behaviors();
            let added = shared.tree.add(&records, outcome);
            let new = (shared.tree.behaviors() - before) as u64;
            shared.statistics.recoveries += new;
            shared.known_before += new;
            (added, shared.tree.behaviors())
        };
        self.observer.ran(&records, behaviors);
        if let Err(diverged) = added {
            self.observer.incomplete(Incomplete::Diverged(diverged));
        }
    }

    /// How a recovery ended that did this and printed this.
    pub(crate) fn outcome(
        &self,
        records: &[Record],
        ending: Ending,
        printed: String,
        waits_for: Vec<u64>,
    ) -> Outcome {
        let ends_well = ending == Ending::Exit(0);
        let effects = Effects::of(records, &printed).filter(|_| ends_well && self.settings.history);
        Outcome {
            ending,
            output: if ends_well { String::new() } else { printed },
            writes: self.writes(records),
            ignored: ignored(records),
            waits_for,
            threads: records.iter().any(|record| record.kind() == record::SPAWN),
            effects,
        }
    }

    /// All that a recovery did, if it stored anything and may be crashed itself.
    fn writes(&self, records: &[Record]) -> Option<Vec<Record>> {
        let stores = |record: &Record| record.event_kind().is_some_and(Kind::stores);
        (self.settings.crashes > 1 && records.iter().any(stores)).then(|| records.to_vec())
    }

    /// The stores of an execution, if anybody will ask for them.
    pub(crate) fn history<'r>(&self, records: &'r [Record]) -> History<'r> {
        if self.settings.history { History::of(records) } else { History::unknown() }
    }

    /// A number of its own for a worker.
    pub(crate) fn number_worker(&self) -> usize {
        self.workers.fetch_add(1, Ordering::Relaxed)
    }

    /// Another crash is explored by this worker: if the tree has grown too large, what is cold is dropped.
    pub(crate) fn make_room(&self, worker: usize) -> Result<(), Stop> {
        // The other half is for traces, images and the program's own.
        let most = (self.settings.memory / 2) as usize;
        let mut shared = self.shared();
        let now = shared.tree.next_crash();
        shared.active.insert(worker, now);
        if shared.tree.bytes() <= most {
            return Ok(());
        }
        let oldest = shared.active.values().copied().min().unwrap_or(now);
        shared.dropped |= shared.tree.drop_cold(most, oldest);
        if shared.tree.bytes() > most + most / 2 {
            drop(shared);
            return Err(self.stop(Incomplete::Memory(self.settings.memory)));
        }
        Ok(())
    }

    /// How long a recovery may go on. Where some have not ended, those do not either that do far more than any that did.
    pub(crate) fn recovery_limits(&self, records: usize) -> Limits {
        let limits = self.settings.limits.recovery(records);
        let shared = self.shared();
        if shared.endless == 0 || shared.longest.is_zero() {
            return limits;
        }
        let far_more = shared.longest * 100;
        let seconds = far_more.as_secs().clamp(1, 600) as u32;
        let cpu_seconds = if limits.cpu_seconds == 0 { 0 } else { limits.cpu_seconds.min(seconds) };
        // A read takes more than a nanosecond.
        let reads = far_more.as_nanos().clamp(2_000_000, u128::from(limits.idle_reads)) as u64;
        Limits { cpu_seconds, idle_reads: reads, ..limits }
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
