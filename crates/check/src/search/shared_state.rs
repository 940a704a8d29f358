//! What the workers of a check share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crashproof_protocol::{Record, record};
use num_bigint::BigUint;
use px86::Platform;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::crash::{History, RecordKinds, ignored, names_looked_up};
use crate::search::effects::Effects;
use crate::search::journal::{Journal, Journaled};
use crate::search::observer::{Incomplete, Observer};
use crate::search::recovery_schedules::RecoverySchedules;
use crate::search::set_aside::SetAside;
use crate::search::shards::Shards;
use crate::search::stage::Stage;
use crate::search::tree::{Outcome, Tree};
use crate::subject::{Ending, Error, Failure, Limits, RunLimits};

/// The limits of a search.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) platform: Platform,
    /// Consecutive crashes.
    pub(crate) crashes: usize,
    /// Recoveries per crash of the recorded run.
    pub(crate) max_per_crash: Option<u64>,
    /// Total recoveries.
    pub(crate) max_recoveries: Option<u64>,
    pub(crate) max_time: Option<Duration>,
    pub(crate) limits: RunLimits,
    /// Memory limit of the check, in bytes.
    pub(crate) memory: u64,
    /// Should nothing be set aside?
    pub(crate) exhaustive: bool,
    /// The crash points to explore; all if not given.
    pub(crate) shards: Option<Shards>,
    /// Is the history of executions needed?
    pub(crate) history: bool,
}

impl Settings {
    /// May a limit end the whole check?
    pub(crate) fn may_end_early(&self) -> bool {
        self.max_recoveries.is_some() || self.max_time.is_some()
    }
}

/// Statistics of a check.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// PM events of the recorded runs.
    pub events: u64,
    /// Schedules tried; 1 if the program has no threads.
    pub schedules: u32,
    /// Threads of the program under the first of them.
    pub threads: u32,
    /// Are those all schedules of the program, up to equivalence?
    pub all_schedules: bool,
    /// Schedules that turned out midway to be equivalent to an earlier one.
    pub redundant_schedules: u64,
    /// Crash points.
    pub failure_points: u64,
    /// Recoveries run.
    pub recoveries: u64,
    /// Recoveries skipped because their behavior was known.
    pub recoveries_saved: u64,
    /// Distinct behaviors explored.
    pub behaviors: u64,
    /// Contents not tried because a checksum is trusted to reject them.
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
    /// A limit was hit; the observer has been notified.
    Limit,
    /// This crash has too many behaviors; the observer has been notified, and other crashes continue.
    Crash,
    /// This crash point has had its turn; it goes on once all others have had theirs.
    Turn,
    /// Something is unknown, and the worker may not run anything.
    NotKnown,
    /// The program can no longer be run.
    Error(Error),
}

/// State shared by all workers.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) tree: Tree,
    /// Did any recovery in the tree create threads? Then it also depends on the schedule.
    pub(crate) recovery_has_threads: bool,
    pub(crate) recovery_schedules: RecoverySchedules,
    /// How many contents each checksum is trusted to reject, by the site where its reads begin.
    pub(crate) checksums: BTreeMap<u32, BigUint>,
    /// Recoveries that were crashed, by behavior and starting state: each once.
    pub(crate) recoveries_crashed: FxHashSet<u128>,
    pub(crate) statistics: Statistics,
    /// A limit was hit; all workers end.
    pub(crate) stopped: bool,
    pub(crate) set_aside: SetAside,
    pub(crate) coverage: Coverage,
    /// For each worker exploring a crash, when it began that crash, in the tree's clock.
    pub(crate) active: FxHashMap<usize, u32>,
    /// Was anything dropped from the tree to stay within the memory limit?
    pub(crate) dropped: bool,
    /// Recoveries run by other shards, or earlier.
    pub(crate) known_before: u64,
    work: Work,
}

/// How much recoveries do.
#[derive(Clone, Copy, Default)]
struct Work {
    /// The longest time and the most records of those that ended.
    longest: Duration,
    records: u64,
    /// The number of those that did not end.
    endless: u64,
}

/// If some recoveries have not ended, one that does this many times as much as any that did, and twice as much as the
/// recorded run, does not end, either.
const FAR_MORE: u32 = 100;
/// Less than this proves nothing: records, and reads in a row that bring nothing new.
const FEWEST_RECORDS: u64 = 100_000;
const FEWEST_READS: u128 = 2_000_000;

impl Work {
    /// The limits of the next recovery, by the number of records of the run.
    fn limits(&self, limits: Limits, recorded: usize) -> Limits {
        if self.endless == 0 || self.longest.is_zero() {
            return limits;
        }
        let far_more = self.longest * FAR_MORE;
        let seconds = far_more.as_secs().clamp(1, 600) as u32;
        let cpu_seconds = if limits.cpu_seconds == 0 { 0 } else { limits.cpu_seconds.min(seconds) };
        // A read takes more than a nanosecond.
        let idle_reads =
            far_more.as_nanos().clamp(FEWEST_READS, u128::from(limits.idle_reads).max(FEWEST_READS)) as u64;
        let records = (self.records * u64::from(FAR_MORE)).max(2 * recorded as u64).max(FEWEST_RECORDS);
        Limits { cpu_seconds, idle_reads, records: records.min(limits.records) }
    }
}

/// Coverage where limits were hit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coverage {
    /// All crash points of a run that a limit cut short, if that is the only one, and their crash states.
    pub(crate) points: Option<u64>,
    pub(crate) states: Option<BigUint>,
    /// Crash points explored completely, and how many of them at once.
    pub(crate) complete: u64,
    pub(crate) at_once: u64,
    /// Crash points whose corners were tried, by stage, beside those explored at once.
    pub(crate) stages: [u64; Stage::ALL.len()],
    /// Crash points of which not even all corners were tried.
    pub(crate) corners_cut: u64,
    /// Crash points with more states than their budget of recoveries.
    pub(crate) points_cut: u64,
    /// The number of their crash states, and of recoveries run for them.
    pub(crate) states_cut: BigUint,
    pub(crate) tried: u64,
}

impl Shared {
    /// Counts the behaviors of the tree, then discards it.
    pub(crate) fn count_behaviors(&mut self) {
        self.statistics.behaviors += self.tree.behaviors() as u64;
        self.tree = Tree::default();
        self.recoveries_crashed.clear();
    }

    /// Forgets what is set aside, so that all failures are found again.
    pub(crate) fn forget_what_is_set_aside(&mut self) {
        self.set_aside = SetAside::default();
    }

    /// A recovery took this long, and made this number of records.
    pub(crate) fn took(&mut self, ending: Ending, time: Duration, records: usize) {
        let work = &mut self.work;
        if Failure::of(ending) == Some(Failure::Endless) {
            work.endless += 1;
        } else {
            (work.longest, work.records) = (work.longest.max(time), work.records.max(records as u64));
        }
    }

    /// Results of recoveries with threads hold only for the schedule they ran under.
    pub(crate) fn forget_scheduled_recoveries(&mut self) {
        if std::mem::take(&mut self.recovery_has_threads) {
            self.count_behaviors();
        }
    }
}

/// A search for everything recovery may do, over all schedules.
pub(crate) struct Search<'a> {
    pub(crate) settings: Settings,
    pub(crate) observer: &'a dyn Observer,
    /// The journal in which recoveries are saved, if any.
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

    /// Adds a recovery that was run earlier.
    pub(crate) fn learn(&self, recovery: Journaled) {
        let Journaled { records, ending, output, waits_for } = recovery;
        let kinds = RecordKinds::of(&records);
        let outcome = self.outcome(&records, kinds, ending, output, waits_for);
        let (added, behaviors) = {
            let mut shared = self.shared();
            let before = shared.tree.behaviors();
            let added = shared.tree.add(&records, outcome);
            let new = (shared.tree.behaviors() - before) as u64;
            shared.statistics.recoveries += new;
            shared.known_before += new;
            (added, shared.tree.behaviors())
        };
        self.observer.ran(&records, kinds, behaviors);
        if let Err(diverged) = added {
            self.observer.incomplete(Incomplete::Diverged(diverged));
        }
    }

    /// The outcome of a recovery with these records and this output.
    pub(crate) fn outcome(
        &self,
        records: &[Record],
        kinds: RecordKinds,
        ending: Ending,
        printed: String,
        waits_for: Vec<u64>,
    ) -> Outcome {
        let ends_well = ending == Ending::Exit(0);
        let has_effects = kinds.has_stores() || !printed.is_empty();
        let is_compared = ends_well && self.settings.history && has_effects;
        let effects = is_compared.then(|| Effects::of(records, &printed)).flatten();
        Outcome {
            ending,
            output: if ends_well { String::new() } else { printed },
            writes: (self.settings.crashes > 1 && kinds.has_stores()).then(|| records.to_vec()),
            ignored: if kinds.has_brackets() { ignored(records) } else { Vec::new() },
            names: if kinds.has(record::NAME) { names_looked_up(records) } else { Vec::new() },
            waits_for,
            threads: kinds.has(record::SPAWN),
            effects,
        }
    }

    /// The stores of an execution, if they are needed.
    pub(crate) fn history<'r>(&self, records: &'r [Record]) -> History<'r> {
        if self.settings.history { History::of(records) } else { History::unknown() }
    }

    /// A unique number for a worker.
    pub(crate) fn number_worker(&self) -> usize {
        self.workers.fetch_add(1, Ordering::Relaxed)
    }

    /// This worker explores another crash: if the tree has grown too large, cold parts are dropped.
    pub(crate) fn make_room(&self, worker: usize) -> Result<(), Stop> {
        // The other half is for traces, images and the program's own memory.
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

    /// The limits of a recovery. If some recoveries have not ended, those that do far more work than any that did are
    /// assumed endless, too.
    pub(crate) fn recovery_limits(&self, records: usize) -> Limits {
        let limits = self.settings.limits.recovery(records);
        self.shared().work.limits(limits, records)
    }

    /// Ends the search for all workers.
    pub(crate) fn stop(&self, why: Incomplete) -> Stop {
        self.observer.incomplete(why);
        self.shared().stopped = true;
        Stop::Limit
    }

    /// Is there time left? If not, stops all workers.
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

    /// Contents were not tried because the checksum first read at this site of recovery is trusted to reject them.
    pub(crate) fn trust_checksum(&self, site: u32, contents: BigUint) {
        let mut shared = self.shared();
        shared.statistics.checksummed += &contents;
        *shared.checksums.entry(site).or_default() += contents;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_a_recovery_did_not_end_others_have_lower_limits() {
        let all = Limits { records: 2_000_000, cpu_seconds: 10, idle_reads: 100_000_000 };
        let ended = |records| Work { longest: Duration::from_micros(10), records, endless: 1 };
        assert_eq!(Work { endless: 0, ..ended(10) }.limits(all, 0), all, "all have ended");
        assert_eq!(Work { endless: 3, ..Work::default() }.limits(all, 0), all, "none has ended");
        let lower = Limits { records: 100_000, cpu_seconds: 1, idle_reads: 2_000_000 };
        assert_eq!(ended(10).limits(all, 500), lower);
        assert_eq!(ended(10).limits(all, 300_000).records, 600_000, "far more than the run");
        assert_eq!(ended(5_000).limits(all, 0).records, 500_000, "far more than any that ended");
        assert_eq!(ended(1_000_000).limits(all, 0).records, all.records, "never more than without");
        let debugged = Limits { cpu_seconds: 0, ..all };
        assert_eq!(ended(10).limits(debugged, 0).cpu_seconds, 0, "not bounded");
    }
}
