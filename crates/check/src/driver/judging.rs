//! Judges every recovery that a search reports, and keeps each failure and each missing flush once, in the simplest
//! form in which it was met.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crashproof_findings::{Place, is_of_others};
use crashproof_protocol::steps::{Actor, Note};
use crashproof_protocol::{Record, exit, record, schedule};
use rustc_hash::FxHashSet;

use crate::crash::{ChosenCrash, CrashState, Layouts, RecordKinds, Timeline};
use crate::driver::call_stacks::{Calls, Sought};
use crate::driver::options::{Medium, Options};
use crate::driver::other_files::FilesUsed;
use crate::driver::token::Token;
use crate::judge::{
    Facts, FailedRecovery, FailureRank, Harmless, Key, Minimality, PersistencyRace, Race, Rank, Redundant,
    RedundantWork, Suppression, TraceViolation, Unrecoverable, Violation, VolatilePointer, Words, followed,
    is_of_lock, join_by_cause, persistency_races, tells, violations, volatile_from, with_other_reads,
};
use crate::narrate::{self, Consequence, Names, Narrator, Stacks, event_diagram, missing_flush, untracked};
use crate::search::{self, Incomplete, Judgement, MAX_RUNS, Observer, Recovered, Stop, Worker};
use crate::subject::{
    AllSites, Ending, Error, Failure, FileNames, NameVersions, Schedule, Subject, fault, in_user_code,
    same_place,
};

/// Missing flushes by the execution and site after which the flush is missing, each with its rank.
type Violations = BTreeMap<(usize, u32), (Violation, Rank)>;

/// The findings so far.
#[derive(Default)]
pub(crate) struct Found {
    failures: BTreeMap<Key, FailedRecovery>,
    unrecoverable: Unrecoverable,
    violations: Violations,
    /// Persistency races, and the number of recoveries that showed each.
    persistency_races: BTreeMap<Race, u64>,
    /// The suppressions that matched something, by number.
    suppressions_used: FxHashSet<usize>,
    pub(crate) files_used: FilesUsed,
    /// Why the verdict does not cover everything.
    pub(crate) incomplete: Vec<String>,
    /// Remarks about what the verdict rests on.
    pub(crate) remarks: Vec<String>,
}

/// The judge of a check.
pub(crate) struct Judging<'a> {
    options: &'a Options,
    pub(crate) sites: AllSites,
    pub(crate) names: Names,
    files: OnceLock<FileNames>,
    name_versions: Mutex<Arc<NameVersions>>,
    /// Where the program's volatile memory begins.
    volatile_from: u64,
    harmless: Harmless,
    found: Mutex<Found>,
    /// The decisions of the run being examined, and the places of its records in it.
    decided: Mutex<(Vec<u64>, Vec<u32>)>,
    /// Places in code that was not rebuilt whose volatile accesses are steps.
    watched: Mutex<Vec<u32>>,
    /// The decisions that recoveries follow, if any.
    recovery: Mutex<Option<Vec<u64>>>,
}

/// A failure before it is put into words.
struct Judged {
    key: Key,
    failure: Failure,
    facts: Facts,
    /// The missing flush that caused it, if any.
    cause: Option<Box<Violation>>,
    /// The store that would have to persist, by execution and site; `None` if nothing is lost.
    lost: Option<(usize, u32)>,
    /// The pointer to volatile memory that was followed, if any.
    volatile: Option<VolatilePointer>,
}

impl<'a> Judging<'a> {
    pub(crate) fn new(options: &'a Options, sites: AllSites) -> Judging<'a> {
        let harmless = Harmless::of(sites.of_recovery());
        let names = Names::of(&options.program);
        Judging {
            options,
            sites,
            names,
            files: OnceLock::new(),
            name_versions: Mutex::default(),
            volatile_from: volatile_from(&options.program),
            harmless,
            found: Mutex::default(),
            decided: Mutex::default(),
            watched: Mutex::default(),
            recovery: Mutex::default(),
        }
    }

    /// The findings so far. Safe to use after a worker panics: every update is a single assignment.
    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a reason why the verdict does not cover everything.
    pub(crate) fn note(&self, reason: String) {
        let incomplete = &mut self.found().incomplete;
        if !incomplete.contains(&reason) {
            incomplete.push(reason);
        }
    }

    /// Records which files a recorded run stored to.
    pub(crate) fn note_stored(&self, records: &[Record]) {
        self.found().files_used.recorded(records);
    }

    /// Notes untracked actions of an execution.
    pub(crate) fn note_untracked(&self, records: &[Record], level: usize) {
        for reason in untracked(records, self.sites.of(level)) {
            let known = |head| self.found().incomplete.iter().any(|known| known.starts_with(head));
            if !reason.head.as_deref().is_some_and(known) {
                self.note(reason.text);
            }
        }
    }

    /// Adds a remark to the verdict.
    pub(crate) fn remark(&self, remark: &str) {
        let remarks = &mut self.found().remarks;
        if !remarks.iter().any(|known| known == remark) {
            remarks.push(remark.to_owned());
        }
    }

    /// Sets the persistent files, for messages.
    pub(crate) fn set_files(&self, files: FileNames) {
        let _ = self.files.set(files);
    }

    /// Sets the names of files that the runs examined from here on changed.
    pub(crate) fn set_name_versions(&self, versions: NameVersions) {
        *self.name_versions.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(versions);
    }

    /// Sets the decisions of the run examined from here on; its records are in the order of `places`.
    pub(crate) fn set_decisions(&self, decisions: Vec<u64>, places: Vec<u32>) {
        *self.decided.lock().unwrap_or_else(PoisonError::into_inner) = (decisions, places);
    }

    /// Sets the decisions that recoveries follow from here on, if any.
    pub(crate) fn set_recovery(&self, decisions: Option<Vec<u64>>) {
        *self.recovery.lock().unwrap_or_else(PoisonError::into_inner) = decisions;
    }

    /// Does recovery follow a schedule other than its first?
    fn recovery_is_decided(&self) -> bool {
        let recovery = self.recovery.lock().unwrap_or_else(PoisonError::into_inner);
        recovery.as_ref().is_some_and(|decisions| !decisions.is_empty())
    }

    /// Runs make steps of accesses of volatile memory at these places from here on.
    pub(crate) fn set_watched(&self, watched: &[u32]) {
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = watched.to_vec();
    }

    fn token(&self, schedule: Schedule, crashes: Vec<ChosenCrash>) -> Token {
        let mut token = Token::new(self.options, schedule, crashes);
        token.recovery_decisions.clone_from(&self.recovery.lock().unwrap_or_else(PoisonError::into_inner));
        if schedule.strategy != schedule::DECISIONS {
            return token;
        }
        let decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
        token.watched.clone_from(&self.watched.lock().unwrap_or_else(PoisonError::into_inner));
        token.with_decisions(&decided.0, &decided.1)
    }

    /// A new schedule begins.
    pub(crate) fn begin_schedule(&self) {
        let found = &mut *self.found();
        found.unrecoverable.begin(&found.failures);
    }

    /// All crashes of a schedule have been tried.
    pub(crate) fn end_schedule(&self) {
        let found = &mut *self.found();
        found.unrecoverable.merge(&mut found.failures);
    }

    /// The failures and missing flushes so far, for [`Judging::restore`].
    pub(crate) fn snapshot(&self) -> (BTreeMap<Key, FailedRecovery>, Violations) {
        let found = self.found();
        (found.failures.clone(), found.violations.clone())
    }

    pub(crate) fn restore(&self, snapshot: (BTreeMap<Key, FailedRecovery>, Violations)) {
        let mut found = self.found();
        (found.failures, found.violations) = snapshot;
    }

    /// The recorded run itself failed, under a schedule other than the default.
    pub(crate) fn fails_without_crash(
        &self,
        records: &[Record],
        notes: &[Note],
        schedule: Schedule,
        failure: Failure,
        output: String,
    ) {
        let key = (format!("without crash {failure:?}"), (0, 0), (0, 0));
        if let Some(known) = self.found().failures.get_mut(&key) {
            known.count += 1;
            return;
        }
        let sites = &self.sites.recorded;
        let last = || {
            let places = records.iter().rev().filter(|record| record.site != 0);
            let mut places = places.map(|record| in_user_code(sites.get(record.site)));
            places.find(|place| place.is_known() && !is_of_others(&place.file))
        };
        // Where it crashed, if known; otherwise its last access to persistent memory.
        let place =
            fault::place(&output).or_else(|| narrate::panic_place(&output)).or_else(last).unwrap_or_default();
        let failed = FailedRecovery {
            place,
            lost: 0,
            minimality: Minimality::Proven,
            crashes: 0,
            facts: Facts::default(),
            words: Words {
                title: match schedule.seed {
                    0 => format!("the program {} without any power failure", failure.describe()),
                    seed => {
                        format!("the program {} without any crash under schedule {seed}", failure.describe())
                    }
                },
                related: narrate::schedule_steps(notes, &self.sites, &self.names),
                ..Words::default()
            },
            output,
            with_threads: true,
            under_schedule: false,
            replay: self.token(schedule, Vec::new()).encode(),
            count: 1,
            seed: schedule.seed,
            story: None,
            failure,
            cause: None,
            volatile: None,
        };
        self.found().failures.insert(key, failed);
    }

    /// The persistency races found, by place.
    pub(crate) fn persistency_races(&self) -> Vec<PersistencyRace> {
        let mut races: Vec<PersistencyRace> = Vec::new();
        for (((level, store), load), &count) in &self.found().persistency_races {
            let store = in_user_code(self.sites.of(*level).get(*store));
            let load = in_user_code(self.sites.of_recovery().get(*load));
            let known =
                races.iter_mut().find(|it| same_place(&it.store, &store) && same_place(&it.load, &load));
            match known {
                Some(known) => known.count += count,
                None => races.push(PersistencyRace { store, load, count }),
            }
        }
        races
    }

    /// The violations that a recovery shows, except those known to be harmless.
    fn violations(&self, recovered: &Recovered) -> Vec<TraceViolation> {
        if !self.options.robust {
            return Vec::new();
        }
        let names = self.name_versions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut violations = violations(recovered, &self.sites, &names);
        violations.retain(|violation| !self.is_lost_lock(recovered.state, violation));
        violations.retain(|violation| !self.is_suppressed(recovered.state, violation));
        violations
    }

    /// Is the lost store a lock that recovery takes? A lost lock is free, as intended; a lock that survives while held
    /// is found by a recovery that waits for it.
    fn is_lost_lock(&self, state: &CrashState, violation: &TraceViolation) -> bool {
        let read = &violation.reads[usize::from(violation.too_old)];
        // A plain load does not take a lock. Checked first, because looking for locks searches the trace.
        if self.sites.of_recovery().is_plain(read.site) {
            return false;
        }
        let records = state.records(violation.level);
        let (seen, sites) = (self.sites.of_recovery().get(read.site), self.sites.of(violation.level));
        let takes = |record: &Record| {
            let place = sites.get(record.site);
            record.event_kind() == Some(px86::Kind::Rmw)
                && record.address() == read.address
                && (&place.file, place.line) == (&seen.file, seen.line)
        };
        violation.lost.iter().all(|store| is_of_lock(records, *store as usize)) && records.iter().any(takes)
    }

    /// Is the violation known to be harmless at the lost store or at the load that sees it?
    fn is_suppressed(&self, state: &CrashState, violation: &TraceViolation) -> bool {
        let missing = &violation.reads[usize::from(violation.too_old)];
        let lost = violation.lost.iter().map(|store| {
            let (level, site) = violation.site(state, *store);
            self.sites.of(level).get(site)
        });
        let lost: Vec<&Place> = lost.collect();
        if let Some(why) = self.harmless.why(self.sites.of_recovery().get(missing.site), &lost) {
            self.remark(why);
            return true;
        }
        let suppress = &self.options.suppress;
        if suppress.is_empty() {
            return false;
        }
        let seen = violation.reads.map(|read| self.sites.of_recovery().get(read.site));
        let places: Vec<&Place> = lost.into_iter().chain(seen).collect();
        let covers = |suppression: &Suppression| places.iter().any(|place| suppression.covers(place));
        let Some(number) = suppress.iter().position(covers) else { return false };
        self.found().suppressions_used.insert(number);
        true
    }

    /// Adds violations to those met before.
    fn note_violations(&self, recovered: &Recovered, violations: &[TraceViolation]) {
        let (state, seed) = (recovered.state, recovered.schedule.seed);
        let fails = Failure::of(recovered.outcome.ending).is_some();
        let found = &mut *self.found();
        for met in violations {
            let site = met.site(state, met.flush_after);
            let rank = met.rank(state, seed);
            // If no value reveals the loss, there is nothing to cope with.
            let (mut count, mut failed, mut coped_with) = (1, fails, u64::from(met.same_value));
            if let Some((known, known_rank)) = found.violations.get_mut(&site) {
                known.count += 1;
                known.coped_with += coped_with;
                known.failed |= fails;
                (count, failed, coped_with) = (known.count, known.failed, known.coped_with);
                if *known_rank <= rank {
                    continue;
                }
            }
            let mut violation = self.describe(met, recovered);
            (violation.count, violation.failed, violation.coped_with) = (count, failed, coped_with);
            // If no value reveals the loss, the diagram would not either.
            if !met.same_value {
                violation.story = Some(event_diagram(&self.sites, &self.names, recovered));
            }
            if count == 1 {
                self.options.monitor.found(|| {
                    let mut violation = violation.clone();
                    violation.words = self.words_of_violation(&violation, &Stacks::default());
                    missing_flush(&violation)
                });
            }
            found.violations.insert(site, (violation, rank));
        }
    }

    /// The failure, if recovery failed.
    fn judge(&self, recovered: &Recovered, violations: &[TraceViolation]) -> Option<Judged> {
        let Recovered { state, outcome, schedule, .. } = *recovered;
        let failure = Failure::of(outcome.ending)?;
        if outcome.ending == Ending::Exit(exit::UNSUPPORTED) {
            self.note(format!("recovery did something that cannot be followed: {}", outcome.output));
            return None;
        }
        // Of several missing flushes, the one whose effect was read last is the cause.
        let cause = violations.iter().filter(|met| !met.same_value).max_by_key(|met| met.seen_at);
        let flush_after = cause.map(|met| met.site(state, met.flush_after));
        let mut facts = Facts::of(recovered, cause);
        let first_lost = facts.lost.first().map(|access| (access.level, access.site));
        let lost = flush_after.or(first_lost);
        let pointer = fault::address(&outcome.output)
            .and_then(|address| followed(recovered, &failure, address, self.volatile_from));
        if let Some((index, store)) = pointer {
            let read = &recovered.reads[index];
            let place = self.sites.of_recovery().get(read.site).clone();
            let (value, address) = (read.value, read.address);
            let volatile = Some(VolatilePointer { value, address, read: place, number: index });
            // No flush helps, whatever the pointer leads to and whatever else is lost.
            let site = (store.level, store.site);
            (facts.lost, facts.lost_more, facts.survived) = (Vec::new(), 0, Some(store));
            let key = ("volatile pointer".to_owned(), site, site);
            return Some(Judged { key, failure, facts, cause: None, lost: None, volatile });
        }
        let cause = cause.map(|met| Box::new(met.locate(&self.sites, state, schedule.seed)));
        let first = facts.key();
        // One fsync covers everything the kernel writes back: which part of it is lost besides the first makes no
        // difference.
        let disk = matches!(self.options.medium, Some(Medium::Disk(_)));
        let last = facts.lost.last().filter(|_| !disk).map_or(first, |access| (access.level, access.site));
        let kind =
            if disk && !facts.lost.is_empty() { "not synced".into() } else { failure.kind(&outcome.output) };
        let key = (kind, first, last);
        Some(Judged { key, failure, facts, cause, lost, volatile: None })
    }

    /// A missing flush with its facts.
    fn describe(&self, met: &TraceViolation, recovered: &Recovered) -> Violation {
        let mut violation = met.locate(&self.sites, recovered.state, recovered.schedule.seed);
        violation.facts = Facts::of(recovered, Some(met)).complete(recovered, None, &self.sites);
        violation.facts.lost_more = 0;
        violation.schedule = recovered.schedule;
        self.names.learn(recovered.state.records(0), &self.sites);
        violation
    }

    fn narrator<'s>(&'s self, stacks: &'s Stacks) -> Narrator<'s> {
        Narrator {
            sites: &self.sites,
            names: &self.names,
            stacks,
            files: self.files.get_or_init(Default::default),
            renamed: Vec::new(),
        }
    }

    fn words_of_violation(&self, violation: &Violation, stacks: &Stacks) -> Words {
        let consequence = match (violation.same_value, violation.failed) {
            (true, _) => Consequence::Nothing,
            (false, false) if violation.is_harmless() => Consequence::Coped,
            (false, true) => Consequence::StaleAndFailed,
            (false, false) => Consequence::Stale,
        };
        self.narrator(stacks).words(&violation.facts, Some(violation), &consequence)
    }

    fn words_of_failure(&self, failed: &FailedRecovery, stacks: &Stacks) -> Words {
        if failed.crashes == 0 {
            return failed.words.clone();
        }
        let consequence = Consequence::Fails(failed.failure.describe_with(&failed.output));
        let narrator = self.narrator(stacks);
        let words = narrator.words(&failed.facts, failed.cause.as_deref(), &consequence);
        match (&failed.volatile, &failed.facts.survived) {
            (Some(_), Some(store)) => narrate::volatile_pointer(words, &narrator.object(store), failed),
            _ => {
                let how = failed.failure.describe_with(&failed.output);
                let freed = self.options.heap.freed;
                narrate::reword_freed(&narrator, &failed.facts, freed, &how, words)
            }
        }
    }

    /// A complete failure except for the words.
    fn narrate(&self, judged: Judged, recovered: &Recovered) -> FailedRecovery {
        let Judged { key, failure, facts, cause, volatile, .. } = judged;
        self.names.learn(recovered.state.records(0), &self.sites);
        let mut facts = facts.complete(recovered, Some(&failure), &self.sites);
        if let Some(pointer) = &volatile {
            facts.not_yet = None;
            facts.reads.retain(|read| read.number == pointer.number);
        }
        FailedRecovery {
            failure,
            place: self.sites.of(key.1.0).get(key.1.1).clone(),
            lost: facts.lost_stores,
            minimality: Minimality::Unfinished,
            crashes: recovered.state.crashes(),
            output: recovered.outcome.output.clone(),
            with_threads: recovered.outcome.threads,
            under_schedule: self.recovery_is_decided(),
            replay: self.token(recovered.schedule, facts.chosen.clone()).encode(),
            count: 1,
            seed: recovered.schedule.seed,
            cause,
            volatile,
            story: Some(event_diagram(&self.sites, &self.names, recovered)),
            facts,
            words: Words::default(),
        }
    }

    /// Replaces each failure of this schedule by one that loses the fewest stores.
    pub(crate) fn minimize<S: Subject>(&self, mut worker: Worker<S>) -> Result<(), Error> {
        let mut by_point: BTreeMap<usize, Vec<Key>> = BTreeMap::new();
        for (key, failed) in &self.found().failures {
            let of_schedule = failed.seed == worker.recording.schedule.seed;
            if let Some(first) = failed.facts.chosen.first().filter(|_| of_schedule) {
                by_point.entry(first.at).or_default().push(key.clone());
            }
        }
        if by_point.is_empty() || self.is_interrupted() {
            return Ok(());
        }
        worker.subject.rewind();
        worker.runs_left = Some(MAX_RUNS);
        // Everything lost was lost before it was assumed to persist.
        worker.sets_aside = false;
        let result = worker.at_crash_points(|worker, timeline, _| {
            for key in by_point.remove(&timeline.at).unwrap_or_default() {
                self.minimize_one(worker, timeline, &key)?;
            }
            if by_point.is_empty() { Err(Stop::NotKnown) } else { Ok(()) }
        });
        search::completed(result).map(|_| ())
    }

    fn minimize_one<S: Subject>(
        &self,
        worker: &mut Worker<S>,
        timeline: &Timeline,
        key: &Key,
    ) -> Result<(), Stop> {
        let Some(mut best) = self.found().failures.get(key).cloned() else { return Ok(()) };
        if best.under_schedule {
            // The tree knows what recovery does under its first schedule only.
            return Ok(());
        }
        let mut best_key = key.clone();
        let finished = search::minimize(best.facts.chosen.clone(), |crashes| {
            let state = worker.crashed(timeline);
            let failed = worker.probe(&state, crashes, &mut |recovered| {
                let judged = self.judge(recovered, &self.violations(recovered))?;
                Some((judged.key.clone(), self.narrate(judged, recovered)))
            })?;
            let Some((other_key, mut other)) = failed else { return Ok(None) };
            let simpler = other.lost < best.lost && other.facts.chosen.len() == best.facts.chosen.len();
            if !simpler || other_key.0 != best_key.0 {
                return Ok(None);
            }
            other.count = best.count;
            (best_key, best) = (other_key, other);
            Ok(Some(best.facts.chosen.clone()))
        });
        let found = &mut *self.found();
        best.minimality = match &finished {
            Ok(()) if found.incomplete.is_empty() => Minimality::Proven,
            Ok(()) => Minimality::Local,
            Err(_) => Minimality::Unfinished,
        };
        found.failures.remove(key);
        match found.failures.entry(best_key) {
            Entry::Occupied(known) if known.get().rank() <= best.rank() => {
                known.into_mut().count += best.count;
            }
            Entry::Occupied(mut known) => {
                best.count += known.get().count;
                known.insert(best);
            }
            Entry::Vacant(slot) => {
                slot.insert(best);
            }
        }
        finished
    }

    /// Collects call stacks, and puts all findings into words.
    fn put_into_words(
        &self,
        failures: &mut [FailedRecovery],
        violations: &mut [Violation],
        collect: &dyn Fn(&[Sought]) -> Vec<Calls>,
    ) {
        let of_failures = failures.iter().filter(|failed| failed.crashes > 0).filter_map(|failed| {
            let token = Token::decode(&failed.replay).ok()?;
            // An endless recovery has no end whose stack could be recorded, and takes the maximum time.
            let ends = failed.failure != Failure::Endless;
            Some(Sought { facts: &failed.facts, token, ends })
        });
        let of_violations = violations.iter().map(|violation| {
            let token = Token::new(self.options, violation.schedule, Vec::new());
            Sought { facts: &violation.facts, token, ends: false }
        });
        let sought: Vec<Sought> = of_failures.chain(of_violations).collect();
        let calls = if sought.is_empty() { Vec::new() } else { collect(&sought) };
        let mut calls = calls.into_iter();
        for failed in failures.iter_mut() {
            let Calls { stacks, end } =
                if failed.crashes > 0 { calls.next().unwrap_or_default() } else { Calls::default() };
            failed.words = self.words_of_failure(failed, &stacks);
            failed.words.failed_at = narrate::failed_at(self.sites.of_recovery(), &end, &failed.output);
        }
        for violation in violations {
            let Calls { stacks, .. } = calls.next().unwrap_or_default();
            violation.words = self.words_of_violation(violation, &stacks);
        }
    }

    /// Redundant flushes and fences by place; in helpers that are useful to some callers, by caller.
    pub(crate) fn redundant_places(
        &self,
        redundant: RedundantWork,
        collect: &dyn Fn(&[Sought]) -> Vec<Calls>,
    ) -> Vec<Redundant> {
        let sites = &self.sites.recorded;
        let wanted = redundant.wanted(sites);
        let facts = Facts::about_events(&wanted);
        let calls = match &wanted[..] {
            [] => None,
            _ => {
                let token = Token::new(self.options, Schedule::default(), Vec::new());
                collect(&[Sought { facts: &facts, token, ends: false }]).into_iter().next()
            }
        };
        let stacks = calls.map(|calls| calls.stacks).unwrap_or_default();
        redundant.into_places(sites, &|index, site| {
            let place = sites.get(site);
            let callers = stacks.callers(sites, 0, index, place);
            let mut place = place.clone();
            place.frames.extend((!callers.is_empty()).then_some(callers)?);
            Some(sites.outside_helpers(place))
        })
    }

    /// All findings of the completed check: failures and missing flushes with advice on layout, and the suppressions
    /// that matched nothing.
    pub(crate) fn into_findings(
        self,
        collect: &dyn Fn(&[Sought]) -> Vec<Calls>,
    ) -> (Vec<FailedRecovery>, Vec<Violation>, Vec<Suppression>, Found) {
        let mut found = std::mem::take(&mut *self.found());
        let mut failures: Vec<FailedRecovery> = std::mem::take(&mut found.failures).into_values().collect();
        if leave_out_repeated(&mut failures) {
            found.remarks.push(
                "recoveries that create threads also fail as the program does without a crash: not told apart from that".into(),
            );
        }
        let all = std::mem::take(&mut found.violations).into_values().map(|(violation, _)| violation);
        let mut violations = group_violations(all, &failures);
        let disk = matches!(self.options.medium, Some(Medium::Disk(_)));
        let mut failures = join_by_cause(if disk { join_by_place(failures) } else { failures });
        failures.sort_by_key(|failed| (failed.crashes, failed.lost));
        self.put_into_words(&mut failures, &mut violations, collect);
        let mut failures = join_by_title(failures);
        let causes = failures.iter_mut().filter_map(|failed| failed.cause.as_deref_mut());
        let mut layouts = Layouts::of(&self.options.program);
        for violation in causes.chain(&mut violations) {
            let lost = (&violation.place, violation.address);
            violation.layout = layouts.advice(lost, (&violation.survived, violation.survivor_address));
        }
        let suppressions = self.options.suppress.iter().enumerate();
        let unused = suppressions
            .filter(|(number, _)| !found.suppressions_used.contains(number))
            .map(|(_, suppression)| suppression.clone())
            .collect();
        (failures, violations, unused, found)
    }
}

/// Leaves out failures of recoveries with threads that fail as the program does without a crash: where recovery is the program
/// run again, its threads do what they did, and nothing that is lost has to do with it. Says whether there were any.
fn leave_out_repeated(failures: &mut Vec<FailedRecovery>) -> bool {
    let how = |failed: &FailedRecovery| failed.failure.kind(&failed.output);
    // An exit code alone says too little.
    let tells = |failed: &FailedRecovery| {
        matches!(failed.failure, Failure::Endless | Failure::Deadlock) || how(failed).contains(' ')
    };
    let alone: Vec<String> =
        failures.iter().filter(|failed| failed.crashes == 0 && tells(failed)).map(how).collect();
    let before = failures.len();
    failures.retain(|failed| failed.crashes == 0 || !failed.with_threads || !alone.contains(&how(failed)));
    failures.len() < before
}

/// Joins failures that are reported at the same place: of what a call hands to the kernel, all is lost for one reason.
fn join_by_place(failures: Vec<FailedRecovery>) -> Vec<FailedRecovery> {
    let mut joined: Vec<FailedRecovery> = Vec::new();
    for failed in failures {
        let same = |known: &&mut FailedRecovery| {
            known.crashes == failed.crashes && same_place(&known.place, &failed.place)
        };
        match joined.iter_mut().find(same) {
            None => joined.push(failed),
            Some(known) => {
                let count = known.count + failed.count;
                if failed.rank() < known.rank() {
                    *known = failed;
                }
                known.count = count;
            }
        }
    }
    joined
}

/// Joins failures with the same text: in a library without debug information all places look alike.
fn join_by_title(failures: Vec<FailedRecovery>) -> Vec<FailedRecovery> {
    let mut joined: Vec<FailedRecovery> = Vec::new();
    for failed in failures {
        let same = |known: &&mut FailedRecovery| {
            known.lost == 0 && failed.lost == 0 && known.words.title == failed.words.title
        };
        match joined.iter_mut().find(same) {
            Some(known) => known.count += failed.count,
            None => joined.push(failed),
        }
    }
    joined
}

impl Observer for Judging<'_> {
    fn is_interrupted(&self) -> bool {
        self.options.monitor.cancelled()
    }

    fn incomplete(&self, why: Incomplete) {
        self.note(narrate::incomplete(why, self.sites.of_recovery()));
    }

    fn crashed(&self, at: usize) {
        self.options.monitor.crashed(at, self.found().failures.len());
    }

    fn ran(&self, records: &[Record], kinds: RecordKinds, behaviors: usize) {
        if kinds.has(record::UNKNOWN) {
            self.note_untracked(records, 1);
        }
        self.found().files_used.recovered(records);
        self.options.monitor.recovered(behaviors, self.found().failures.len());
    }

    fn wants_all(&self) -> bool {
        self.options.persistency_races
    }

    fn ended(&self, recovered: &Recovered) -> Judgement {
        if self.options.persistency_races {
            for race in persistency_races(recovered, &self.sites) {
                *self.found().persistency_races.entry(race).or_default() += 1;
            }
        }
        let violations = self.violations(recovered);
        if !violations.is_empty() {
            self.note_violations(recovered, &violations);
        }
        let Some(judged) = self.judge(recovered, &violations) else {
            let stale = violations.iter().find(|met| !met.same_value);
            let stale = stale.map(|met| met.site(recovered.state, met.flush_after));
            return Judgement { noted: !violations.is_empty(), stale, ..Judgement::default() };
        };
        let (state, lost) = (recovered.state, judged.facts.lost_stores);
        let found = &mut *self.found();
        let output = &recovered.outcome.output;
        let unrecoverable =
            state.crashes() == 1 && found.unrecoverable.met(state.first.at, lost, output, &judged.key);
        let judgement = Judgement { noted: true, unrecoverable, cause: judged.lost, stale: None };
        let rank: FailureRank = (state.crashes(), lost, recovered.schedule.seed, state.first.at);
        let known = found.failures.get_mut(&judged.key);
        let count = known.as_ref().map_or(0, |known| known.count) + 1;
        if let Some(known) = known.filter(|known| known.rank() <= rank) {
            known.count = count;
            return judgement;
        }
        let key = judged.key.clone();
        let failed = FailedRecovery { count, ..self.narrate(judged, recovered) };
        if count == 1 {
            self.options.monitor.found(|| {
                let words = self.words_of_failure(&failed, &Stacks::default());
                narrate::failure(&FailedRecovery { words, ..failed.clone() })
            });
        }
        found.failures.insert(key, failed);
        judgement
    }

    fn recovery_follows(&self, decisions: &[Actor]) {
        self.set_recovery(Some(decisions.to_vec()));
    }

    fn copes(&self, recovered: &Recovered) {
        let violations = self.violations(recovered);
        let found = &mut *self.found();
        for met in violations.iter().filter(|met| !met.same_value) {
            let site = met.site(recovered.state, met.flush_after);
            if let Some((known, _)) = found.violations.get_mut(&site) {
                known.coped_with += 1;
            }
        }
    }

    fn sampled(&self, recovered: &Recovered, checksummed: &[u32]) {
        if self.options.robust {
            with_other_reads(recovered, checksummed, |other| {
                self.note_violations(other, &self.violations(other));
            });
        }
    }

    fn next_crash_point(&self, at: usize, next: usize) {
        self.found().unrecoverable.followed(at, next);
    }

    fn distrusted_checksum(&self, site: u32) {
        let place = self.sites.of_recovery().get(site);
        self.remark(&format!(
            "the checksum over what is read from {}:{} on also matches torn contents: all were followed",
            place.file, place.line
        ));
    }
}

/// Groups violations by where the flush is missing, except those that cause a failure.
fn group_violations(
    violations: impl Iterator<Item = Violation>,
    failures: &[FailedRecovery],
) -> Vec<Violation> {
    let mut groups: BTreeMap<_, Violation> = BTreeMap::new();
    for violation in violations {
        let mut causes = failures.iter().filter_map(|failed| failed.cause.as_ref());
        if causes.any(|cause| same_place(&cause.last, &violation.last))
            || failures.iter().any(|failed| tells(failed, &violation))
        {
            continue;
        }
        // One source location may be several sites, due to inlining or instantiation.
        let last = &violation.last;
        match groups.entry((last.file.clone(), last.line, last.column)) {
            Entry::Vacant(slot) => {
                slot.insert(violation);
            }
            Entry::Occupied(mut slot) => {
                let count = slot.get().count + violation.count;
                let coped_with = slot.get().coped_with + violation.coped_with;
                if (violation.same_value, violation.crashes, violation.seed)
                    < (slot.get().same_value, slot.get().crashes, slot.get().seed)
                {
                    slot.insert(violation);
                }
                (slot.get_mut().count, slot.get_mut().coped_with) = (count, coped_with);
            }
        }
    }
    let mut violations: Vec<Violation> = groups.into_values().collect();
    violations.sort_by_key(|violation| (violation.same_value, violation.crashes));
    violations
}
