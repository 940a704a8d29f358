//! A check from start to end: one schedule after the other, each recorded once and crashed everywhere.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use crashproof_findings::no_persistent_memory;
use crashproof_protocol::{GLOBALS, Record, record};
use px86::Kind;

use crate::crash::Timeline;
use crate::driver::judging::Judging;
use crate::driver::options::Options;
use crate::judge::{Dependence, Model, RedundantWork, Report, any_marked, dependences, merge};
use crate::narrate::readable;
use crate::search::{Draws, Incomplete, Plan, Random, Recording, Search, Statistics, Worker, count};
use crate::subject::{
    AllSites, Durable, Error, Failure, Mode, Process, Run, RunLimits, Schedule, Subject, Trace,
};

/// What the runtime takes for persistent memory.
const PERSISTENT_MEMORY: &str = "files mapped below --pm-path (default: /mnt/pmem*, /pmem* and /dev/dax*), what libpmem, \
    libpmem2 and libpmemobj map, globals marked PERSISTENT, memory from crashproof_root and crashproof_alloc \
    (crashproof.h), and the heap with --pm-heap";

/// Runs shorter than this are explored by one worker: starting another takes longer.
const WORTH_SHARING: usize = 2000;

/// A recorded run.
pub(crate) struct Recorded {
    pub(crate) records: Trace,
    /// Threads it had.
    threads: u32,
    /// Points at which they could be switched.
    switch_points: u64,
}

impl Recorded {
    /// Did it do anything to persistent memory that a crash could undo, as far as anybody can tell?
    fn touches_persistent_memory(&self) -> bool {
        let touches = |record: &Record| {
            record.kind() == record::UNKNOWN || record.event_kind().is_some_and(Kind::stores)
        };
        self.records.iter().any(touches)
    }
}

/// Runs a program once under a schedule, without any crash: its trace.
pub fn record(options: &Options, seed: u32) -> Result<Trace, Error> {
    let mut process = Process::start(options.launch())?;
    let schedule = options.strategy.schedule(seed, 0);
    Ok(record_run(&mut process, options.model.is_some(), schedule, options.run_limits())?.records)
}

/// Runs the program once, undisturbed, and records it; with `regions`, for the analysis of strands and epochs.
pub(crate) fn record_run<S: Subject>(
    subject: &mut S,
    regions: bool,
    schedule: Schedule,
    limits: RunLimits,
) -> Result<Recorded, Error> {
    subject.forget_trace();
    let run = Run {
        mode: Mode::Record { regions },
        schedule,
        crashes: 0,
        durable: Durable::nothing(0),
        limits: limits.recording(),
    };
    let ended = subject.run(&run, &[])?;
    if let Some(failure) = Failure::of(ended.ending) {
        let how = format!("it {}", failure.describe());
        return Err(Error::FailsAlone { how, failure, output: subject.output(ended.ending) });
    }
    let records = subject.keep_trace()?;
    Ok(Recorded { records, threads: ended.threads, switch_points: ended.switch_points })
}

/// Checks a program.
pub fn check(options: &Options) -> Result<Report, Error> {
    let process = Process::start(options.launch())?;
    let recovering = options.recover.as_ref().map(|_| Process::start(options.launch_recovery()));
    check_subject(options, process, recovering.transpose()?)
}

/// Checks a subject; `recovering` is the one that recovers, if it is another.
pub(crate) fn check_subject<S: Subject>(
    options: &Options,
    mut subject: S,
    mut recovering: Option<S>,
) -> Result<Report, Error> {
    let recovery = recovering.as_mut().map(Subject::sites).transpose()?;
    let judging = Judging::new(options, AllSites { recorded: subject.sites()?, recovery });
    let search = Search::new(options.search(), &judging);
    let mut check = Check {
        options,
        judging: &judging,
        search: &search,
        redundant: RedundantWork::default(),
        dependences: Vec::new(),
        switch_points: 0,
        vacuous: true,
    };
    for seed in 0..options.schedules.max(1) {
        if check.schedule(seed, &mut subject, recovering.as_mut())?.is_break() {
            break;
        }
        subject.rewind();
    }
    let Check { redundant, dependences, vacuous, .. } = check;
    let mut shared = search.into_shared();
    shared.count_behaviors();
    let redundant = redundant.into_places(&judging.sites.recorded);
    let checksums = shared.checksums.iter().map(|(site, contents)| {
        let place = judging.sites.of_recovery().get(*site);
        format!(
            "the checksum over what is read from {}:{} on is trusted to refuse {} torn contents that were not tried",
            place.file,
            place.line,
            readable(contents)
        )
    });
    let checksums: Vec<String> = checksums.collect();
    let (findings, violations, unused_suppressions, mut found) = judging.into_findings();
    found.remarks.extend(checksums);
    if vacuous && findings.is_empty() {
        found.incomplete.push(no_persistent_memory(PERSISTENT_MEMORY, &mapped_outside(&subject)));
    }
    Ok(Report {
        findings,
        dependences,
        violations,
        unused_suppressions,
        redundant,
        unknown: found.incomplete,
        remarks: found.remarks,
        crashes: options.crashes,
        statistics: shared.statistics,
    })
}

/// The file that a program maps outside the PM path, if any, and how to make it count.
fn mapped_outside(subject: &impl Subject) -> Vec<String> {
    let hint = |path: PathBuf| {
        let directory = path.parent()?.display();
        Some(format!("{} (try --pm-path {directory})", path.display()))
    };
    subject.mapped_outside().and_then(hint).into_iter().collect()
}

/// One check, all schedules.
struct Check<'a> {
    options: &'a Options,
    judging: &'a Judging<'a>,
    search: &'a Search<'a>,
    redundant: RedundantWork,
    dependences: Vec<Dependence>,
    /// Points at which threads could be switched under the default schedule.
    switch_points: u64,
    /// Was there nothing to judge so far?
    vacuous: bool,
}

impl Check<'_> {
    /// Records the program under a schedule and tries its crashes. Says whether there is a point in trying another one.
    fn schedule<S: Subject>(
        &mut self,
        seed: u32,
        subject: &mut S,
        recovering: Option<&mut S>,
    ) -> Result<ControlFlow<()>, Error> {
        let schedule = self.options.strategy.schedule(seed, self.switch_points);
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
            // The program got through before: it is the schedule that makes it fail.
            Err(Error::FailsAlone { failure, output, .. }) if seed > 0 => {
                self.judging.fails_without_crash(subject.records(), schedule, failure, output);
                return Ok(ControlFlow::Continue(()));
            }
            Err(Error::Interrupted) if seed > 0 => {
                self.search.stop(Incomplete::Interrupted);
                return Ok(ControlFlow::Break(()));
            }
            Err(error) => return Err(error),
        };
        if seed == 0 {
            self.switch_points = recorded.switch_points;
        }
        if !recorded.touches_persistent_memory() {
            // Under another schedule it may.
            let single = recorded.threads == 1;
            return Ok(if single { ControlFlow::Break(()) } else { ControlFlow::Continue(()) });
        }
        self.vacuous = false;
        self.look_at(seed, &recorded);
        let started = Instant::now();
        match recovering {
            None => self.explore(subject, &recorded, schedule)?,
            Some(recovering) => {
                self.shares_memory(&recorded)?;
                recovering.adopt_files(subject);
                self.explore(recovering, &recorded, schedule)?;
                recovering.rewind();
                subject.copy_file_table(recovering);
            }
        }
        self.count(|statistics| statistics.exploring += started.elapsed());
        self.judging.end_schedule();
        // Without threads, before or after the crash, all schedules are the same.
        let shared = self.search.shared();
        let single = recorded.threads == 1 && !shared.recovery_has_threads;
        Ok(if shared.stopped || single { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    fn count(&self, add: impl FnOnce(&mut Statistics)) {
        add(&mut self.search.shared().statistics);
    }

    /// What can be said about a recorded run without crashing it.
    fn look_at(&mut self, seed: u32, recorded: &Recorded) {
        let records = &recorded.records;
        self.options.monitor.recorded(records.len());
        self.judging.note_untracked(records, 0);
        self.count(|statistics| statistics.events += records.len() as u64);
        self.redundant.look_at(records);
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

    /// Refuses programs of which one stores where the other does not look: persistent globals have their addresses by
    /// the program they belong to. The root object, what is allocated and files are at the same addresses for all.
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

    /// Explores the crashes of a recorded run, and minimizes what they show.
    fn explore<S: Subject>(
        &self,
        subject: &mut S,
        recorded: &Recorded,
        schedule: Schedule,
    ) -> Result<(), Error> {
        let history = &self.search.history(&recorded.records);
        let recording = Recording { records: &recorded.records, history, schedule };
        match self.options.random {
            None => self.explore_by(&Plan::Everything, subject, recording)?,
            Some(random) => self.explore_randomly(random, subject, recording)?,
        }
        self.judging.minimize(Worker::new(self.search, subject, recording))
    }

    /// Tries some crashes of a recorded run at random; if that happens to have shown everything recovery can do, the
    /// check is complete all the same.
    fn explore_randomly<S: Subject>(
        &self,
        random: Random,
        subject: &mut S,
        recording: Recording,
    ) -> Result<(), Error> {
        let start = Timeline::first(&self.options.platform, subject.files_created());
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
        // Counted anew, as if nothing had been left to chance; no recovery is left to run.
        self.judging.restore(before.0);
        self.count(|now| *now = Statistics { recoveries: now.recoveries, ..before.1 });
        self.judging.remark(&format!("{tried} random crashes showed all that recovery can do"));
        self.explore_by(&Plan::Everything, subject, recording)
    }

    /// Explores crashes of a recorded run, with as many workers as it is worth.
    fn explore_by<S: Subject>(
        &self,
        plan: &Plan,
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
                    scope.spawn(move || {
                        plan.carry_out(Worker::new(search, &mut twin?, recording), number, jobs)
                    })
                })
                .collect();
            let mut result = plan.carry_out(Worker::new(self.search, subject, recording), 0, jobs);
            for helper in helpers {
                let theirs = helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
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

    /// A check needs no process either.
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
        let report = check_subject(&options, subject, None).expect("a report");
        let [failed] = &report.findings[..] else { panic!("{report:?}") };
        assert_eq!((&failed.failure, failed.lost), (&Failure::Exit(1), 1));
        assert!(failed.cause.is_some() && report.unknown.is_empty());
    }
}
