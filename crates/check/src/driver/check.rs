//! A check from start to end: one schedule after another, each recorded once and crashed at every crash point.

use std::ops::ControlFlow;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

use crashproof_protocol::{GLOBALS, Record};
use px86::Kind;

use crate::crash::Timeline;
use crate::driver::call_stacks::{self, Calls, Sought};
use crate::driver::checkpoint::{self, Checkpoint};
use crate::driver::judging::Judging;
use crate::driver::options::Options;
use crate::driver::other_files::NOT_READ;
use crate::driver::prepare::{discover, start};
use crate::driver::recording::{Recorded, record_run};
use crate::driver::remarks::{self, Used};
use crate::driver::unseen::without_unseen;
use crate::judge::{
    DataRace, Dependence, Model, RedundantWork, Report, any_marked, dependences, merge, merge_races, races,
};
use crate::narrate::readable;
use crate::search::{Draws, Incomplete, Plan, Random, Recording, Search, Statistics, Worker, count};
use crate::subject::{
    AllSites, Error, Failure, Launch, Placement, Process, Schedule, Subject, Trace, fault, system,
};

/// Shorter runs are explored by one worker: starting another would take longer.
const WORTH_SHARING: usize = 2000;

/// Runs a program once under a schedule, without a crash, and returns its trace.
pub fn record(options: &Options, seed: u32) -> Result<Trace, Error> {
    let mut process = start(options, options.launch())?;
    let schedule = options.strategy.schedule(seed, 0);
    Ok(record_run(&mut process, options.model.is_some(), schedule, options.run_limits())?.records)
}

/// Checks a program.
pub fn check(options: &Options) -> Result<Report, Error> {
    if options.merged.is_empty() {
        return check_process(options);
    }
    let mut options = options.clone();
    let merged = std::mem::take(&mut options.merged);
    let (fitting, missing) = checkpoint::fitting(&mut options, merged)?;
    options.merged = fitting;
    let mut report = check_process(&options)?;
    report.unknown.extend(missing);
    Ok(report)
}

fn check_process(options: &Options) -> Result<Report, Error> {
    match within_time(options, || prepare_and_check(options)) {
        Err(Error::Interrupted) if options.monitor.ran_out_of_time() => Err(Error::TimeUp),
        result => result,
    }
}

fn prepare_and_check(options: &Options) -> Result<Report, Error> {
    let (options, discovered) = &discover(options)?;
    let process = start(options, options.launch())?;
    let recovering = start_recovering(options)?;
    let placed = recovering.is_some();
    let mut report =
        check_subject(options, process, recovering, &|sought| call_stacks::collect(options, sought))?;
    report.remarks.extend(discovered.remark());
    report.unknown.extend(discovered.incomplete());
    if !placed {
        report.remarks.push(
            "recoveries ran at the addresses of the recorded run: pointers to volatile memory that are kept in \
             persistent memory were not looked for"
                .into(),
        );
    }
    Ok(report)
}

/// Performs a check. If the first run has not been recorded when the time is up, it is ended; from then on the search
/// itself watches the clock.
fn within_time<R>(options: &Options, work: impl FnOnce() -> R) -> R {
    let Some(time) = options.max_time else { return work() };
    let (done, ended) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        // Without this thread the run is bounded only by its processor time.
        let _ = std::thread::Builder::new().spawn_scoped(scope, move || {
            if ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
                options.monitor.end_recording();
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// The process for recoveries, if it is not the recorded one: another program, or another placement (see
/// `subject::placement`).
fn start_recovering(options: &Options) -> Result<Option<Process>, Error> {
    let launch = options.launch_recovery();
    if let Some(placement) = Placement::other(&launch.program)
        && let Ok(process) = Process::start(Launch { placement, ..launch.clone() })
    {
        return Ok(Some(process));
    }
    // A program that does not start in the other placement may start in the usual one.
    options.recover.as_ref().map(|_| Process::start(launch)).transpose()
}

/// Checks a subject; `recovering` runs the recoveries, if it is a different one.
pub(crate) fn check_subject<S: Subject>(
    options: &Options,
    mut subject: S,
    mut recovering: Option<S>,
    calls: &dyn Fn(&[Sought]) -> Vec<Calls>,
) -> Result<Report, Error> {
    let recovery = recovering.as_mut().map(Subject::sites).transpose()?;
    let judging = Judging::new(options, AllSites { recorded: subject.sites()?, recovery });
    let mut search = Search::new(options.search(), &judging);
    let checkpoint = Checkpoint::open(options, &mut search)?;
    for directory in &options.merged {
        checkpoint::learn(&search, directory)?;
    }
    let mut check = Check {
        options,
        judging: &judging,
        search: &search,
        redundant: RedundantWork::default(),
        dependences: Vec::new(),
        races: Vec::new(),
        switch_points: 0,
        threads: 1,
        sampling: false,
        vacuous: true,
    };
    match options.all_schedules {
        Some(budget) => check.systematically(budget, &mut subject, recovering.as_mut())?,
        None => check.by_seeds(options.schedules.max(1), &mut subject, recovering.as_mut())?,
    }
    check.count(|statistics| statistics.threads = check.threads);
    let Check { redundant, dependences, races, vacuous, .. } = check;
    if let Some(checkpoint) = checkpoint {
        let ended = !search.shared().stopped;
        checkpoint.finish(&search, ended)?;
    }
    if let Some(part) = remarks::is_one_shard(options) {
        judging.note(part);
    }
    let mut shared = search.into_shared();
    shared.count_behaviors();
    // Recoveries run earlier count as run, not as skipped.
    let skipped = &mut shared.statistics.recoveries_saved;
    *skipped = skipped.saturating_sub(shared.known_before);
    let used = Used::by(&subject, recovering.as_ref());
    judging.set_files(used.files.clone());
    let mut basis = remarks::checksums(&shared, &judging.sites);
    basis.extend(remarks::set_aside(&shared, &judging.sites, options.exhaustive));
    basis.extend(remarks::coverage(&shared));
    basis.extend(remarks::medium(options).filter(|_| used.uses_files));
    // Files created by this process are removed with it; repeated runs create them again.
    drop((subject, recovering));
    let redundant = judging.redundant_places(redundant, calls);
    let persistency_races = judging.persistency_races();
    let (findings, violations, unused_suppressions, mut found) = judging.into_findings(calls);
    found.remarks.extend(basis);
    if findings.is_empty() && violations.is_empty() && shared.set_aside.is_any() {
        // Crash states are set aside only because of a failure: without one, none may be.
        found
            .incomplete
            .push("crash states were set aside although no failure was reported (use --exhaustive)".into());
    }
    let (findings, violations) = without_unseen(findings, violations, &mut found.incomplete);
    if vacuous && findings.is_empty() {
        found.incomplete.push(used.nothing_persistent());
    }
    // Reads of recoveries run by an earlier check are no longer known.
    let ran_all = shared.statistics.recoveries > 0 && shared.known_before == 0;
    if ran_all && findings.is_empty() && violations.is_empty() && found.files_used.are_others(&used.files) {
        // It matters more than anything that was not explored.
        found.incomplete.insert(0, NOT_READ.into());
    }
    Ok(Report {
        findings,
        dependences,
        violations,
        unused_suppressions,
        races,
        persistency_races,
        redundant,
        unknown: found.incomplete,
        remarks: found.remarks,
        crashes: options.crashes,
        statistics: shared.statistics,
    })
}

/// One check, all schedules.
pub(super) struct Check<'a> {
    pub(super) options: &'a Options,
    pub(super) judging: &'a Judging<'a>,
    pub(super) search: &'a Search<'a>,
    redundant: RedundantWork,
    dependences: Vec<Dependence>,
    races: Vec<DataRace>,
    /// Number of points at which threads could be switched under the default schedule.
    pub(super) switch_points: u64,
    /// Number of threads in that run.
    pub(super) threads: u32,
    /// Are schedules sampled because not all could be explored?
    pub(super) sampling: bool,
    /// Has there been nothing to judge so far?
    pub(super) vacuous: bool,
}

impl Check<'_> {
    /// Tries schedules made from seeds.
    fn by_seeds<S: Subject>(
        &mut self,
        seeds: u32,
        subject: &mut S,
        mut recovering: Option<&mut S>,
    ) -> Result<(), Error> {
        let strategy = self.options.strategy;
        for seed in 0..seeds {
            let schedule = strategy.schedule(seed, self.switch_points);
            if self.schedule(schedule, subject, recovering.as_deref_mut())?.is_break() {
                break;
            }
            subject.rewind();
        }
        if let Some(guarantee) = strategy.guarantee(seeds, self.threads, self.switch_points) {
            self.judging.remark(&guarantee);
        }
        Ok(())
    }

    /// Records the program under a schedule and tries its crashes. Returns whether another schedule is worth trying.
    pub(super) fn schedule<S: Subject>(
        &mut self,
        schedule: Schedule,
        subject: &mut S,
        recovering: Option<&mut S>,
    ) -> Result<ControlFlow<()>, Error> {
        let seed = schedule.seed;
        self.search.shared().forget_scheduled_recoveries();
        self.judging.begin_schedule();
        let started = Instant::now();
        let limits = self.options.run_limits();
        let recorded = record_run(subject, self.options.model.is_some(), schedule, limits);
        self.count(|statistics| {
            statistics.recording += started.elapsed();
            statistics.schedules += 1;
        });
        let recorded = match recorded {
            Ok(recorded) => recorded,
            // A thread that waits for one that is never scheduled waits forever: the fault lies with an unfair
            // schedule.
            Err(Error::FailsAlone { failure: Failure::Endless, .. }) if seed > 0 && self.sampling => {
                self.judging
                    .note("the program did not end under a PCT schedule, which need not be fair".into());
                return Ok(ControlFlow::Break(()));
            }
            // The program finished before, so it is the schedule that makes it fail.
            Err(Error::FailsAlone { failure, output, .. }) if seed > 0 => {
                self.judging.fails_without_crash(subject.records(), &[], schedule, failure, output);
                return Ok(ControlFlow::Continue(()));
            }
            // No invocation makes a program correct that does this.
            Err(Error::FailsAlone { failure, output, .. })
                if failure.is_fault() || fault::place(&output).is_some() =>
            {
                self.judging.fails_without_crash(subject.records(), &[], schedule, failure, output);
                return Ok(ControlFlow::Break(()));
            }
            Err(Error::Interrupted) if seed > 0 => {
                self.search.stop(Incomplete::Interrupted);
                return Ok(ControlFlow::Break(()));
            }
            Err(error) => return Err(error),
        };
        if seed == 0 {
            self.switch_points = recorded.switch_points;
            self.threads = recorded.threads;
        }
        if !self.crash_recorded(seed, &recorded, subject, recovering, schedule)? {
            // Under another schedule it may.
            let single = recorded.threads == 1;
            return Ok(if single { ControlFlow::Break(()) } else { ControlFlow::Continue(()) });
        }
        // Without threads, before or after the crash, all schedules are the same.
        let shared = self.search.shared();
        let single = recorded.threads == 1 && !shared.recovery_has_threads;
        Ok(if shared.stopped || single { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    /// Tries the crashes of a recorded run; returns whether it does anything to persistent memory.
    pub(super) fn crash_recorded<S: Subject>(
        &mut self,
        seed: u32,
        recorded: &Recorded,
        subject: &mut S,
        recovering: Option<&mut S>,
        schedule: Schedule,
    ) -> Result<bool, Error> {
        if !recorded.touches_persistent_memory() {
            return Ok(false);
        }
        self.vacuous = false;
        self.options.environment.get_or_init(|| subject.environment());
        self.look_at(seed, recorded);
        self.judging.set_name_versions(subject.name_versions());
        let started = Instant::now();
        self.recovering_with(subject, recovering, recorded, |check, subject| {
            check.explore(subject, recorded, schedule)
        })?;
        self.count(|statistics| statistics.exploring += started.elapsed());
        self.judging.end_schedule();
        Ok(true)
    }

    /// Runs recoveries with the recovering subject, which may be a different one.
    pub(super) fn recovering_with<S: Subject>(
        &self,
        subject: &mut S,
        recovering: Option<&mut S>,
        recorded: &Recorded,
        explore: impl FnOnce(&Self, &mut S) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(recovering) = recovering else { return explore(self, subject) };
        self.shares_memory(recorded)?;
        recovering.adopt_files(subject);
        explore(self, recovering)?;
        recovering.rewind();
        subject.copy_file_table(recovering);
        Ok(())
    }

    pub(super) fn count(&self, add: impl FnOnce(&mut Statistics)) {
        add(&mut self.search.shared().statistics);
    }

    /// Checks a recorded run in ways that need no crash.
    pub(super) fn look_at(&mut self, seed: u32, recorded: &Recorded) {
        let records = &recorded.records;
        self.options.monitor.recorded(records.len());
        self.judging.note_untracked(records, 0);
        self.judging.note_stored(records);
        self.count(|statistics| statistics.events += records.len() as u64);
        self.redundant.look_at(records, &self.judging.sites.recorded);
        if recorded.threads > 1 {
            merge_races(&mut self.races, races(records, &self.judging.sites.recorded));
        }
        if let Some(model) = self.options.model {
            merge(&mut self.dependences, dependences(records, model, &self.judging.sites.recorded));
            if seed == 0 && !any_marked(records, model) {
                let region = Model::region(model);
                self.judging.note(format!(
                    "no {region} is marked (crashproof_{region}_begin, crashproof_{region}_end)"
                ));
            }
        }
    }

    /// Rejects pairs of programs where one stores to memory the other cannot locate: persistent globals have different
    /// addresses in different programs. The root object, allocations and files have the same addresses in all of them.
    fn shares_memory(&self, recorded: &Recorded) -> Result<(), Error> {
        if self.options.one_program() {
            return Ok(());
        }
        let stores = |record: &&Record| record.event_kind().is_some_and(Kind::stores);
        let mut stores = recorded.records.iter().filter(stores);
        match stores.find(|record| GLOBALS.contains(record.address())) {
            None => Ok(()),
            Some(record) => {
                let place = self.judging.sites.recorded.get(record.site);
                Err(Error::OtherGlobals { file: place.file.clone(), line: place.line })
            }
        }
    }

    /// Explores the crashes of a recorded run, and minimizes the failures.
    fn explore<S: Subject>(
        &self,
        subject: &mut S,
        recorded: &Recorded,
        schedule: Schedule,
    ) -> Result<(), Error> {
        let history = &self.search.history(&recorded.records);
        let recording = Recording { records: &recorded.records, history, schedule };
        match self.options.random {
            None => {
                self.explore_by(&Plan::Everything, subject, recording)?;
                self.count_what_was_left(recording);
            }
            Some(random) => self.explore_randomly(random, subject, recording)?,
        }
        self.judging.minimize(Worker::new(self.search, subject, recording))
    }

    /// If a limit ended the search, counts what there was to explore.
    fn count_what_was_left(&self, recording: Recording) {
        if !self.search.shared().stopped || self.search.shared().statistics.schedules != 1 {
            return;
        }
        let (points, states) = count(Timeline::first(&self.options.platform), recording.records);
        let mut shared = self.search.shared();
        (shared.coverage.points, shared.coverage.states) = (Some(points as u64), Some(states));
    }

    /// Tries random crashes of a recorded run; if these happen to show everything recovery can do, the check is
    /// complete nonetheless.
    fn explore_randomly<S: Subject>(
        &self,
        random: Random,
        subject: &mut S,
        recording: Recording,
    ) -> Result<(), Error> {
        let start = Timeline::first(&self.options.platform);
        let (points, states) = count(start, recording.records);
        let before = (self.judging.snapshot(), self.search.shared().statistics.clone());
        let plan = Plan::Random(Draws::new(random, recording.schedule, points));
        self.explore_by(&plan, subject, recording)?;
        if self.search.shared().stopped {
            return Ok(());
        }
        let Random { crashes: tried, seed } = random;
        if !Worker::new(self.search, subject, recording).knows_everything()? {
            self.count(|statistics| statistics.eager_states += &states);
            self.judging.note(format!(
                "{tried} random crashes (--random, --seed {seed}) of {} possible ones",
                readable(&states)
            ));
            return Ok(());
        }
        // Counts again, as if crashes had not been chosen at random; no recovery remains to be run.
        self.judging.restore(before.0);
        self.search.shared().forget_what_is_set_aside();
        self.count(|now| *now = Statistics { recoveries: now.recoveries, ..before.1 });
        self.judging.remark(&format!("{tried} random crashes showed all that recovery can do"));
        self.explore_by(&Plan::Everything, subject, recording)
    }

    /// Explores crashes of a recorded run with a suitable number of workers.
    pub(super) fn explore_by<S: Subject>(
        &self,
        plan: &Plan<'_>,
        subject: &mut S,
        recording: Recording,
    ) -> Result<(), Error> {
        let alone = recording.records.len() < WORTH_SHARING || subject.uses_files();
        let jobs = if alone { 1 } else { self.options.jobs.max(1) };
        std::thread::scope(|scope| {
            let helpers: Vec<_> = (1..jobs)
                .map(|number| {
                    let twin = subject.twin();
                    let search = self.search;
                    std::thread::Builder::new().spawn_scoped(scope, move || {
                        plan.carry_out(Worker::new(search, &mut twin?, recording), number, jobs)
                    })
                })
                .collect();
            let mut result = plan.carry_out(Worker::new(self.search, subject, recording), 0, jobs);
            for helper in helpers {
                // The share of a worker that could not be started is not explored.
                let theirs = helper.map_err(system("cannot start a worker")).and_then(|helper| {
                    helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                });
                result = result.and(theirs);
            }
            result
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::InMemory;
    use crashproof_protocol::ARENA;

    /// A check does not need a process either.
    #[test]
    fn a_program_in_memory_can_be_checked() {
        let event = |kind: Kind, address, width| Record::new(kind as u8, address, width, 1, 0, 1);
        let (data, done) = (ARENA.base, ARENA.base + 64);
        let records =
            vec![event(Kind::Store, data, 8), event(Kind::Store, done, 8), event(Kind::Flush, done, 0)];
        let subject = InMemory::new(records, |memory| {
            i32::from(memory.read(ARENA.base + 64) > memory.read(ARENA.base))
        });
        let options = Options { jobs: 1, ..Options::new("memory".into(), Vec::new()) };
        let report = check_subject(&options, subject, None, &|_| Vec::new()).expect("a report");
        let [failed] = &report.findings[..] else { panic!("{report:?}") };
        assert_eq!((&failed.failure, failed.lost), (&Failure::Exit(1), 1));
        assert!(failed.cause.is_some() && report.unknown.is_empty());
    }
}
