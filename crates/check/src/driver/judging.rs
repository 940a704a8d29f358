//! Judges every recovery that a search reports, and keeps what it finds, each failure and each missing flush once: of
//! several ways to the same one, the simplest.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crashproof_findings::Place;
use crashproof_protocol::{Record, exit};
use rustc_hash::FxHashSet;

use crate::crash::{CrashState, Layouts, Timeline};
use crate::driver::options::Options;
use crate::driver::token::Token;
use crate::judge::{
    FailedRecovery, FailureRank, Harmless, Key, Minimality, Rank, Suppression, TraceViolation, Unrecoverable,
    Violation, violations, with_other_reads,
};
use crate::narrate::{self, Narrative, describe_violation, event_diagram, missing_flush, untracked};
use crate::search::{self, Incomplete, MAX_RUNS, Observer, Recovered, Stop, Worker};
use crate::subject::{AllSites, Ending, Error, Failure, Schedule, Subject, same_place};

/// Missing flushes by the execution and site after which the flush is missing, each with how simply it was met.
type Violations = BTreeMap<(usize, u32), (Violation, Rank)>;

/// What was found so far.
#[derive(Default)]
pub(crate) struct Found {
    failures: BTreeMap<Key, FailedRecovery>,
    unrecoverable: Unrecoverable,
    violations: Violations,
    /// The suppressions that suppressed something, by number.
    suppressions_used: FxHashSet<usize>,
    /// Why the verdict does not cover everything.
    pub(crate) incomplete: Vec<String>,
    /// What else the verdict rests on.
    pub(crate) remarks: Vec<String>,
}

/// The judge of a check.
pub(crate) struct Judging<'a> {
    options: &'a Options,
    pub(crate) sites: AllSites,
    harmless: Harmless,
    found: Mutex<Found>,
}

/// A failure, before it is put into words.
struct Judged<'a> {
    key: Key,
    failure: Failure,
    narrative: Narrative<'a>,
    /// The flush whose absence led here, if one did.
    cause: Option<Box<Violation>>,
}

impl<'a> Judging<'a> {
    pub(crate) fn new(options: &'a Options, sites: AllSites) -> Judging<'a> {
        let harmless = Harmless::of(sites.of_recovery());
        Judging { options, sites, harmless, found: Mutex::default() }
    }

    /// What was found so far. Safe to use after a worker panics: every update is a single assignment.
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

    /// Notes what an execution did that is not understood.
    pub(crate) fn note_untracked(&self, records: &[Record], level: usize) {
        for reason in untracked(records, self.sites.of(level)) {
            let known = |head| self.found().incomplete.iter().any(|known| known.starts_with(head));
            if !reason.head.as_deref().is_some_and(known) {
                self.note(reason.text);
            }
        }
    }

    /// Adds a remark that belongs to the verdict.
    pub(crate) fn remark(&self, remark: &str) {
        let remarks = &mut self.found().remarks;
        if !remarks.iter().any(|known| known == remark) {
            remarks.push(remark.to_owned());
        }
    }

    /// Another schedule begins.
    pub(crate) fn begin_schedule(&self) {
        let found = &mut *self.found();
        found.unrecoverable.begin(&found.failures);
    }

    /// All crashes of a schedule were tried.
    pub(crate) fn end_schedule(&self) {
        let found = &mut *self.found();
        found.unrecoverable.merge(&mut found.failures);
    }

    /// The failures and missing flushes so far; [`Judging::restore`] goes back to them.
    pub(crate) fn snapshot(&self) -> (BTreeMap<Key, FailedRecovery>, Violations) {
        let found = self.found();
        (found.failures.clone(), found.violations.clone())
    }

    pub(crate) fn restore(&self, snapshot: (BTreeMap<Key, FailedRecovery>, Violations)) {
        let mut found = self.found();
        (found.failures, found.violations) = snapshot;
    }

    /// The recorded run itself failed, under a schedule other than the default one.
    pub(crate) fn fails_without_crash(
        &self,
        records: &[Record],
        schedule: Schedule,
        failure: Failure,
        output: String,
    ) {
        let site = records.iter().rev().map(|record| record.site).find(|&site| site != 0).unwrap_or(0);
        let failed = FailedRecovery {
            place: self.sites.recorded.get(site).clone(),
            lost: 0,
            minimality: Minimality::Proven,
            crashes: 0,
            related: Vec::new(),
            output,
            replay: Token::new(self.options, schedule, Vec::new()).encode(),
            count: 1,
            seed: schedule.seed,
            story: None,
            failure,
            cause: None,
            chosen: Vec::new(),
        };
        let key = (format!("without crash {:?}", failed.failure), (0, 0));
        self.found().failures.entry(key).and_modify(|known| known.count += 1).or_insert(failed);
    }

    /// The violations that a recovery shows, without those that are known to be harmless.
    fn violations(&self, recovered: &Recovered) -> Vec<TraceViolation> {
        if !self.options.robust {
            return Vec::new();
        }
        let mut violations = violations(recovered, &self.sites);
        violations.retain(|violation| !self.is_suppressed(recovered.state, violation));
        violations
    }

    /// Is the violation known to be harmless where it was lost or seen?
    fn is_suppressed(&self, state: &CrashState, violation: &TraceViolation) -> bool {
        let missing = &violation.reads[usize::from(violation.too_old)];
        if let Some(why) = self.harmless.why(self.sites.of_recovery().get(missing.site)) {
            self.remark(why);
            return true;
        }
        let suppress = &self.options.suppress;
        if suppress.is_empty() {
            return false;
        }
        let lost = violation.lost.iter().map(|store| {
            let (level, site) = violation.site(state, *store);
            self.sites.of(level).get(site)
        });
        let seen = violation.reads.map(|read| self.sites.of_recovery().get(read.site));
        let places: Vec<&Place> = lost.chain(seen).collect();
        let covers = |suppression: &Suppression| places.iter().any(|place| suppression.covers(place));
        let Some(number) = suppress.iter().position(covers) else { return false };
        self.found().suppressions_used.insert(number);
        true
    }

    /// Adds violations to those that were met before.
    fn note_violations(&self, recovered: &Recovered, violations: &[TraceViolation]) {
        let (state, seed) = (recovered.state, recovered.schedule.seed);
        let found = &mut *self.found();
        for met in violations {
            let site = met.site(state, met.flush_after);
            let rank = met.rank(state, seed);
            let mut count = 1;
            if let Some((known, known_rank)) = found.violations.get_mut(&site) {
                known.count += 1;
                count = known.count;
                if *known_rank <= rank {
                    continue;
                }
            }
            let mut violation = describe_violation(met, &self.sites, state, seed);
            violation.count = count;
            // Where no value shows what was lost, the diagram would not either.
            if !met.same_value {
                violation.story = Some(event_diagram(&self.sites, recovered));
            }
            if count == 1 {
                self.options.monitor.found(|| missing_flush(&violation));
            }
            found.violations.insert(site, (violation, rank));
        }
    }

    /// What is wrong, if recovery failed.
    fn judge(&self, recovered: &Recovered, violations: &[TraceViolation]) -> Option<Judged<'_>> {
        let Recovered { state, outcome, schedule, .. } = *recovered;
        let failure = Failure::of(outcome.ending)?;
        if outcome.ending == Ending::Exit(exit::UNSUPPORTED) {
            self.note(format!("recovery did something that cannot be followed: {}", outcome.output));
            return None;
        }
        let (narrative, crash_site) = Narrative::of_crashes(&self.sites, state, recovered.revealed);
        // Of several missing flushes, the one whose effect was read last led here.
        let cause = violations.iter().filter(|met| !met.same_value).max_by_key(|met| met.seen_at);
        let lost = cause.map(|met| met.site(state, met.lost[0]));
        let first = lost.or(narrative.first_lost).unwrap_or(crash_site);
        let cause = cause.map(|met| Box::new(describe_violation(met, &self.sites, state, schedule.seed)));
        Some(Judged { key: (failure.kind(&outcome.output), first), failure, narrative, cause })
    }

    /// A failure in full.
    fn narrate(&self, judged: Judged, recovered: &Recovered) -> FailedRecovery {
        let Judged { key, failure, mut narrative, cause } = judged;
        narrative.reads(recovered);
        FailedRecovery {
            failure,
            place: narrative.place(key.1).clone(),
            lost: narrative.lost,
            minimality: Minimality::Unfinished,
            crashes: recovered.state.crashes(),
            related: narrative.places,
            output: recovered.outcome.output.clone(),
            replay: Token::new(self.options, recovered.schedule, narrative.crashes.clone()).encode(),
            count: 1,
            seed: recovered.schedule.seed,
            cause,
            story: Some(event_diagram(&self.sites, recovered)),
            chosen: narrative.crashes,
        }
    }

    /// Replaces each failure of this schedule by one that loses the least.
    pub(crate) fn minimize<S: Subject>(&self, mut worker: Worker<S>) -> Result<(), Error> {
        let mut by_point: BTreeMap<usize, Vec<Key>> = BTreeMap::new();
        for (key, failed) in &self.found().failures {
            let of_schedule = failed.seed == worker.recording.schedule.seed;
            if let Some(first) = failed.chosen.first().filter(|_| of_schedule) {
                by_point.entry(first.at).or_default().push(key.clone());
            }
        }
        if by_point.is_empty() || self.is_interrupted() {
            return Ok(());
        }
        worker.subject.rewind();
        worker.runs_left = Some(MAX_RUNS);
        let result = worker.at_crash_points(|worker, timeline, _| {
            for key in by_point.remove(&timeline.at).unwrap_or_default() {
                self.minimize_one(worker, timeline, &key)?;
            }
            // Nothing is left to do.
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
        let mut best_key = key.clone();
        let finished = search::minimize(best.chosen.clone(), |crashes| {
            let state = worker.crashed(timeline);
            let failed = worker.probe(&state, crashes, &mut |recovered| {
                let judged = self.judge(recovered, &self.violations(recovered))?;
                Some((judged.key.clone(), self.narrate(judged, recovered)))
            })?;
            let Some((other_key, mut other)) = failed else { return Ok(None) };
            let simpler = other.lost < best.lost && other.chosen.len() == best.chosen.len();
            if !simpler || other_key.0 != best_key.0 {
                return Ok(None);
            }
            other.count = best.count;
            (best_key, best) = (other_key, other);
            Ok(Some(best.chosen.clone()))
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

    /// All that was found, once everything is over: failures and missing flushes with advice about the layout, and the
    /// suppressions that suppressed nothing.
    pub(crate) fn into_findings(self) -> (Vec<FailedRecovery>, Vec<Violation>, Vec<Suppression>, Found) {
        let mut found = self.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut failures: Vec<FailedRecovery> = std::mem::take(&mut found.failures).into_values().collect();
        failures.sort_by_key(|failed| (failed.crashes, failed.lost));
        let all = std::mem::take(&mut found.violations).into_values().map(|(violation, _)| violation);
        let mut violations = group_violations(all, &failures);
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

    fn ran(&self, records: &[Record], behaviors: usize) {
        self.note_untracked(records, 1);
        self.options.monitor.recovered(behaviors, self.found().failures.len());
    }

    fn ended(&self, recovered: &Recovered) -> bool {
        let violations = self.violations(recovered);
        if !violations.is_empty() {
            self.note_violations(recovered, &violations);
        }
        let Some(judged) = self.judge(recovered, &violations) else { return false };
        let (state, lost) = (recovered.state, judged.narrative.lost);
        let found = &mut *self.found();
        let output = &recovered.outcome.output;
        let unrecoverable =
            state.crashes() == 1 && found.unrecoverable.met(state.first.at, lost, output, &judged.key);
        let rank: FailureRank = (state.crashes(), lost, recovered.schedule.seed, state.first.at);
        let known = found.failures.get_mut(&judged.key);
        let count = known.as_ref().map_or(0, |known| known.count) + 1;
        if let Some(known) = known.filter(|known| known.rank() <= rank) {
            known.count = count;
            return unrecoverable;
        }
        let key = judged.key.clone();
        let failed = FailedRecovery { count, ..self.narrate(judged, recovered) };
        if count == 1 {
            self.options.monitor.found(|| narrate::failure(&failed));
        }
        found.failures.insert(key, failed);
        unrecoverable
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

/// Violations by where the flush is missing, without those that are the cause of a failure.
fn group_violations(
    violations: impl Iterator<Item = Violation>,
    failures: &[FailedRecovery],
) -> Vec<Violation> {
    let mut groups: BTreeMap<_, Violation> = BTreeMap::new();
    for violation in violations {
        let mut causes = failures.iter().filter_map(|failed| failed.cause.as_ref());
        if causes.any(|cause| same_place(&cause.last, &violation.last)) {
            continue;
        }
        // The same source may be several sites: inlined, or instantiated.
        let last = &violation.last;
        match groups.entry((last.file.clone(), last.line, last.column)) {
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
