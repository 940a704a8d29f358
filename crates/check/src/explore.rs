//! A check from start to end: a schedule after the other, each recorded once and crashed everywhere.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsString;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crashproof_protocol::{ARENA, GLOBALS, HEAP_CLASSES, Record, mode, reason, record, untracked};
use num_bigint::BigUint;
use px86::Kind;
use rustc_hash::FxHashSet;

use crate::failure::{Failure, Finding, Least, Token, TokenCrash};
use crate::found::{Key, Met};
use crate::harmless::Harmless;
use crate::history::History;
use crate::hopeless::Hopeless;
use crate::layout::suggest;
use crate::options::{Options, Part, Random, Report, Statistics, readable};
use crate::random::{self, Draws};
use crate::regions;
use crate::schedule::Schedule;
use crate::session::{Error, Session};
use crate::sites::{AllSites, Sites, Source};
use crate::trace::Trace;
use crate::tree::Tree;
use crate::unseen::unseen;
use crate::violation::{Rank, Violation};
use crate::wasted::Wasted;
use crate::worker::{Plan, Stop, Worker};

const NO_PM_HELP: &str = "persistent memory is: globals marked PERSISTENT and memory from crashproof_alloc (crashproof.h), \
files mapped under the PM path, and whatever libpmem maps";

/// Runs shorter than this are explored by one worker: starting another takes longer.
const WORTH_SHARING: usize = 2000;

/// A recorded run.
pub(crate) struct Recorded {
    pub(crate) records: Trace,
    /// Threads it had.
    threads: u32,
    /// Places where they might have been switched.
    points: u64,
}

/// Runs a program once under a schedule, without any crash: its trace.
pub fn record(options: &Options, seed: u32) -> Result<Trace, Error> {
    let mut session = Session::start(options, Part::Recorded)?;
    Ok(record_run(&mut session, options, options.strategy.schedule(seed, 0))?.records)
}

/// Runs the program once, undisturbed, and records it.
pub(crate) fn record_run(
    session: &mut Session,
    options: &Options,
    schedule: Schedule,
) -> Result<Recorded, Error> {
    // What runs of other schedules created is on disk, but not there yet.
    let files_created = session.files_created();
    session.forget_trace();
    let control = session.control();
    control.mode = if options.model.is_some() { mode::RECORD_REGIONS } else { mode::RECORD };
    schedule.apply(control);
    control.crashes = 0;
    control.arena_end = ARENA.base;
    control.max_records = options.max_records;
    control.max_cpu_seconds = options.max_run_seconds;
    control.files_absent = files_created;
    control.heap_ends = [0; HEAP_CLASSES];
    let ending = session.run(&[])?;
    let (threads, points) = (session.control().threads, session.control().points);
    if let Some(failure) = Failure::of(ending) {
        let how = format!("it {}", failure.describe());
        return Err(Error::FailsAlone { how, failure, output: session.output_about(ending) });
    }
    let known =
        |record: &Record| record.kind() == record::UNKNOWN || record.event_kind().is_some_and(Kind::stores);
    let records = session.keep_trace()?;
    if !records.iter().any(known) {
        return Err(Error::NoPersistentMemory { help: NO_PM_HELP });
    }
    Ok(Recorded { records, threads, points })
}

/// What the workers of a check find, together.
pub(crate) struct Common {
    pub(crate) tree: Tree,
    /// Did any recovery in the tree create threads? What it does then depends on the schedule, too.
    pub(crate) recovery_has_threads: bool,
    pub(crate) findings: BTreeMap<Key, Met>,
    pub(crate) hopeless: Hopeless,
    /// Robustness violations by the execution and site after which a flush is missing, with how they were met.
    pub(crate) violations: BTreeMap<(usize, u32), (Violation, Rank)>,
    /// The suppressions that suppressed something, by number.
    pub(crate) suppressions_used: FxHashSet<usize>,
    pub(crate) unknown: Vec<String>,
    pub(crate) remarks: Vec<String>,
    /// How many contents each checksum is trusted to refuse, by where its reads begin.
    pub(crate) checksums: BTreeMap<u32, BigUint>,
    /// Recoveries that were crashed, by behaviour and what they ran on: each once.
    pub(crate) recoveries_crashed: FxHashSet<Vec<u8>>,
    pub(crate) statistics: Statistics,
    /// A limit was hit; everybody ends.
    pub(crate) stopped: bool,
}

/// One check.
pub(crate) struct Check<'a> {
    pub(crate) options: &'a Options,
    pub(crate) sites: AllSites,
    pub(crate) harmless: Harmless,
    pub(crate) started: Instant,
    common: Mutex<Common>,
}

impl Check<'_> {
    /// What is known so far. A worker that panicked left it whole: nothing is ever half-written.
    pub(crate) fn common(&self) -> MutexGuard<'_, Common> {
        self.common.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stores of an execution, if anybody will ask for them.
    pub(crate) fn history<'r>(&self, records: &'r [Record]) -> History<'r> {
        if self.options.robust { History::of(records) } else { History::unknown() }
    }

    /// Notes what an execution did that is not understood.
    pub(crate) fn note_unknown(&self, records: &[Record], level: usize) {
        let sites = self.sites.of(level);
        for (index, unknown) in records.iter().enumerate() {
            if unknown.kind() != record::UNKNOWN {
                continue;
            }
            let place = sites.get(unknown.site);
            self.note(match reason::text(unknown.value) {
                Some(text) if matches!(unknown.value, reason::UNSEEN | reason::CHANGED) => {
                    let (head, sentence) = unseen(text, unknown, &records[index + 1..], sites);
                    if self.common().unknown.iter().any(|known| known.starts_with(&head)) {
                        continue;
                    }
                    sentence
                }
                Some(text) if unknown.value == reason::FUNCTION => {
                    let name = untracked::NAMES.get(unknown.address() as usize).unwrap_or(&"a function");
                    format!("{}:{}: {name} {text}", place.file, place.line)
                }
                Some(text) if unknown.site == 0 => text.to_owned(),
                Some(text) => format!("{}:{}: {text}", place.file, place.line),
                None => format!("{}:{}: not understood: {}", place.file, place.line, place.text),
            });
        }
    }

    /// Adds a reason why the verdict does not cover everything.
    pub(crate) fn note(&self, reason: String) {
        let unknown = &mut self.common().unknown;
        if !unknown.contains(&reason) {
            unknown.push(reason);
        }
    }

    /// Somebody ended the check.
    pub(crate) fn interrupted(&self) -> Stop {
        self.note("interrupted: this is what was found until then".into());
        self.common().stopped = true;
        Stop::Limit
    }

    /// Contents were not tried because a checksum, first read at this site of recovery, is trusted to refuse them.
    pub(crate) fn trust_checksum(&self, site: u32, contents: BigUint) {
        let mut common = self.common();
        common.statistics.checksummed += &contents;
        *common.checksums.entry(site).or_default() += contents;
    }

    /// The checksum, first read at this site of recovery, accepted what was torn.
    pub(crate) fn distrust_checksum(&self, site: u32) {
        let place = self.sites.of_recovery().get(site);
        let remark = format!(
            "the checksum over what is read from {}:{} on also matches torn contents: all were followed",
            place.file, place.line
        );
        self.remark(&remark);
    }

    /// Adds something that whoever reads the verdict should know.
    pub(crate) fn remark(&self, remark: &str) {
        let remarks = &mut self.common().remarks;
        if !remarks.iter().any(|known| known == remark) {
            remarks.push(remark.to_owned());
        }
    }

    pub(crate) fn token(&self, schedule: Schedule, crashes: Vec<TokenCrash>) -> Token {
        let program = self.options.built_from.as_ref().unwrap_or(&self.options.program);
        let arguments = self.options.arguments.iter();
        Token {
            v: 1,
            program: program.to_string_lossy().into_owned(),
            arguments: arguments.map(|text| text.to_string_lossy().into_owned()).collect(),
            recover: self.options.recover.as_ref().map_or(Vec::new(), |recover| {
                let program = recover.built_from.as_ref().unwrap_or(&recover.program).as_os_str();
                let words = std::iter::once(program).chain(recover.arguments.iter().map(OsString::as_os_str));
                words.map(|word| word.to_string_lossy().into_owned()).collect()
            }),
            seed: schedule.seed,
            strategy: schedule.strategy,
            expected_points: schedule.expected_points,
            pm_path: self.options.pm_path.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
            pm_heap: self.options.pm_heap,
            eadr: self.options.platform.every_cache_survives(),
            crashes,
        }
    }

    /// Refuses programs of which one stores where the other does not look: persistent globals have their places by
    /// the program they belong to. The root object, what is allocated and files are at the same places for all.
    fn both_know(&self, recorded: &Recorded) -> Result<(), Error> {
        if self.options.one_program() {
            return Ok(());
        }
        let stores = |record: &&Record| record.event_kind().is_some_and(Kind::stores);
        let mut stores = recorded.records.iter().filter(stores);
        match stores.find(|record| GLOBALS.contains(record.address())) {
            None => Ok(()),
            Some(record) => {
                let place = self.sites.recorded.get(record.site);
                Err(Error::OtherGlobals { file: place.file.clone(), line: place.line })
            }
        }
    }

    /// The recorded run itself failed, under a schedule other than the default one.
    fn fails_without_crash(
        &self,
        session: &mut Session,
        schedule: Schedule,
        failure: Failure,
        output: String,
    ) {
        let records = session.records();
        let site = records.iter().rev().map(|record| record.site).find(|&site| site != 0).unwrap_or(0);
        let token = self.token(schedule, Vec::new());
        let finding = Finding {
            place: self.sites.recorded.get(site).clone(),
            lost: 0,
            least: Least::Proven,
            crashes: 0,
            related: Vec::new(),
            output,
            replay: token.encode(),
            count: 1,
            seed: schedule.seed,
            story: None,
            failure,
            cause: None,
        };
        let key = (format!("without crash {:?}", finding.failure), (0, 0));
        let findings = &mut self.common().findings;
        let met = Met { finding, crashes: Vec::new() };
        findings.entry(key).and_modify(|known| known.finding.count += 1).or_insert(met);
    }

    /// Explores the crashes of a recorded run.
    fn explore(&self, session: Session, recorded: &Recorded, schedule: Schedule) -> Result<Session, Error> {
        let history = &self.history(&recorded.records);
        let session = match self.options.random {
            None => self.explore_by(&Plan::Everything, session, recorded, history, schedule),
            Some(random) => self.explore_randomly(random, session, recorded, history, schedule),
        }?;
        Worker::new(self, session, &recorded.records, history, schedule).minimise()
    }

    /// Tries some crashes of a recorded run at random; if that happens to have shown everything recovery can do,
    /// the check is complete all the same.
    fn explore_randomly(
        &self,
        random: Random,
        session: Session,
        recorded: &Recorded,
        history: &History,
        schedule: Schedule,
    ) -> Result<Session, Error> {
        let (places, crashes) =
            random::count(&self.options.platform, session.files_created(), &recorded.records);
        let before = {
            let common = self.common();
            (common.findings.clone(), common.violations.clone(), common.statistics.clone())
        };
        let plan = Plan::Random(Draws::new(random, schedule, places));
        let session = self.explore_by(&plan, session, recorded, history, schedule)?;
        if self.common().stopped {
            return Ok(session);
        }
        let worker = Worker::new(self, session, &recorded.records, history, schedule);
        let (complete, session) = worker.knows_everything()?;
        let Random { crashes: tried, seed } = random;
        if !complete {
            self.common().statistics.eager_states += &crashes;
            self.note(format!(
                "{tried} random crashes (--random, --seed {seed}) of {} that there are",
                readable(&crashes)
            ));
            return Ok(session);
        }
        {
            // Counted anew, as if nothing had been left to chance; no recovery is left to run.
            let mut common = self.common();
            common.findings = before.0;
            common.violations = before.1;
            common.statistics = Statistics { recoveries: common.statistics.recoveries, ..before.2 };
        }
        self.remark(&format!("{tried} random crashes showed all that recovery can do"));
        self.explore_by(&Plan::Everything, session, recorded, history, schedule)
    }

    /// Explores crashes of a recorded run, with as many workers as it is worth.
    fn explore_by(
        &self,
        plan: &Plan,
        session: Session,
        recorded: &Recorded,
        history: &History,
        schedule: Schedule,
    ) -> Result<Session, Error> {
        let alone = recorded.records.len() < WORTH_SHARING || session.uses_files();
        let jobs = if alone { 1 } else { self.options.jobs.max(1) };
        std::thread::scope(|scope| {
            let helpers: Vec<_> = (1..jobs)
                .map(|number| {
                    let twin = session.twin(self.options);
                    scope.spawn(move || {
                        Worker::new(self, twin?, &recorded.records, history, schedule).run(number, jobs, plan)
                    })
                })
                .collect();
            let mut result =
                Worker::new(self, session, &recorded.records, history, schedule).run(0, jobs, plan);
            for helper in helpers {
                let theirs = helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                if let (Ok(_), Err(error)) = (&result, theirs) {
                    result = Err(error);
                }
            }
            result
        })
    }
}

/// Checks a program.
pub fn check(options: &Options) -> Result<Report, Error> {
    let mut session = Session::start(options, Part::Recorded)?;
    let mut sites = AllSites { recorded: Sites::parse(&session.site_table()?), recovery: None };
    // The one that recovers, if it is another.
    let mut other = options.recover.is_some().then(|| Session::start(options, Part::Recovery)).transpose()?;
    if let Some(other) = &mut other {
        sites.recovery = Some(Sites::parse(&other.site_table()?));
    }
    let common = Common {
        tree: Tree::new(),
        recovery_has_threads: false,
        findings: BTreeMap::new(),
        hopeless: Hopeless::default(),
        violations: BTreeMap::new(),
        suppressions_used: FxHashSet::default(),
        unknown: Vec::new(),
        remarks: Vec::new(),
        checksums: BTreeMap::new(),
        recoveries_crashed: FxHashSet::default(),
        statistics: Statistics::default(),
        stopped: false,
    };
    let harmless = Harmless::of(sites.of_recovery());
    let check = Check { options, sites, harmless, started: Instant::now(), common: Mutex::new(common) };
    let mut waste = Wasted::default();
    let mut dependences = Vec::new();
    let mut points = 0;
    for seed in 0..options.schedules.max(1) {
        let schedule = options.strategy.schedule(seed, points);
        {
            let common = &mut *check.common();
            common.forget_scheduled_recoveries();
            common.hopeless.begin(&common.findings);
        }
        let started = Instant::now();
        let recorded = record_run(&mut session, options, schedule);
        {
            let statistics = &mut check.common().statistics;
            statistics.recording += started.elapsed();
            statistics.schedules += 1;
        }
        let recorded = match recorded {
            Ok(recorded) => recorded,
            // The program got through before: it is the schedule that makes it fail.
            Err(Error::FailsAlone { failure, output, .. }) if seed > 0 => {
                check.fails_without_crash(&mut session, schedule, failure, output);
                continue;
            }
            Err(Error::Interrupted) if seed > 0 => {
                check.interrupted();
                break;
            }
            Err(error) => return Err(error),
        };
        options.monitor.recorded(recorded.records.len());
        check.note_unknown(&recorded.records, 0);
        check.common().statistics.events += recorded.records.len() as u64;
        if let Some(model) = options.model {
            regions::merge(
                &mut dependences,
                regions::dependences(&recorded.records, model, &check.sites.recorded),
            );
            if seed == 0 && !regions::any(&recorded.records, model) {
                let region = model.region();
                check.note(format!(
                    "no {region} is marked (crashproof_{region}_begin, crashproof_{region}_end)"
                ));
            }
        }
        waste.look_at(&recorded.records);
        if seed == 0 {
            points = recorded.points;
        }
        let started = Instant::now();
        match other.take() {
            None => session = check.explore(session, &recorded, schedule)?,
            Some(mut recovering) => {
                check.both_know(&recorded)?;
                recovering.adopt_files(&session);
                recovering = check.explore(recovering, &recorded, schedule)?;
                recovering.rewind();
                session.copy_files(&recovering);
                other = Some(recovering);
            }
        }
        {
            let common = &mut *check.common();
            common.statistics.exploring += started.elapsed();
            common.hopeless.merge(&mut common.findings);
        }
        // Without threads, before or after the crash, all schedules are the same.
        let single = recorded.threads == 1 && !check.common().recovery_has_threads;
        if check.common().stopped || single {
            break;
        }
        session.rewind();
    }
    let mut common = check.common.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (site, contents) in std::mem::take(&mut common.checksums) {
        let place = check.sites.of_recovery().get(site);
        common.remarks.push(format!(
            "the checksum over what is read from {}:{} on is trusted to refuse {} torn contents that were not tried",
            place.file,
            place.line,
            readable(&contents)
        ));
    }
    common.count_behaviours();
    let mut findings: Vec<Finding> = common.findings.into_values().map(|met| met.finding).collect();
    findings.sort_by_key(|finding| (finding.crashes, finding.lost));
    let mut violations = grouped(common.violations.into_values().map(|(violation, _)| violation), &findings);
    let causes = findings.iter_mut().filter_map(|finding| finding.cause.as_deref_mut());
    suggest(&options.program, causes.chain(&mut violations));
    let suppressions = options.suppress.iter().enumerate();
    let unused_suppressions = suppressions
        .filter(|(number, _)| !common.suppressions_used.contains(number))
        .map(|(_, suppression)| suppression.clone())
        .collect();
    Ok(Report {
        findings,
        dependences,
        violations,
        unused_suppressions,
        waste: waste.told(&check.sites.recorded),
        unknown: common.unknown,
        remarks: common.remarks,
        crashes: options.crashes,
        statistics: common.statistics,
    })
}

/// Violations by where the flush is missing, without those that a failure already tells of.
fn grouped(violations: impl Iterator<Item = Violation>, findings: &[Finding]) -> Vec<Violation> {
    let place = |source: &Source| (source.file.clone(), source.line, source.column);
    let mut groups: BTreeMap<_, Violation> = BTreeMap::new();
    for violation in violations {
        let causes = findings.iter().filter_map(|finding| finding.cause.as_ref());
        if causes.into_iter().any(|cause| place(&cause.last) == place(&violation.last)) {
            continue;
        }
        // The same source may be several sites: inlined, or instantiated.
        match groups.entry(place(&violation.last)) {
            Entry::Vacant(slot) => {
                slot.insert(violation);
            }
            Entry::Occupied(mut slot) => {
                let count = slot.get().count + violation.count;
                if (violation.same_value, violation.crashes, violation.seed)
                    < (slot.get().same_value, slot.get().crashes, slot.get().seed)
                {
                    slot.insert(violation);
                }
                slot.get_mut().count = count;
            }
        }
    }
    let mut violations: Vec<Violation> = groups.into_values().collect();
    violations.sort_by_key(|violation| (violation.same_value, violation.crashes));
    violations
}

impl Common {
    /// The tree is done with.
    fn count_behaviours(&mut self) {
        self.statistics.behaviours += self.tree.behaviours() as u64;
        self.tree = Tree::new();
        self.recoveries_crashed.clear();
    }

    /// What recoveries with threads did holds for the schedule they did it under.
    fn forget_scheduled_recoveries(&mut self) {
        if std::mem::take(&mut self.recovery_has_threads) {
            self.count_behaviours();
        }
    }
}
