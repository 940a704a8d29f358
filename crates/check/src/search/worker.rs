//! Crashes a recorded run and walks the tree of what recovery does; several workers share the tree.

use std::sync::Arc;
use std::time::Instant;

use crashproof_protocol::{CRASHES_ADDRESS, Patch, Record, exit};
use num_bigint::BigUint;
use px86::{Kind, Line};
use rustc_hash::FxHashSet;

use crate::crash::{
    Content, CrashState, History, Later, Persisted, Read, Reads, RecordKinds, Revealed, Timeline, group,
    value,
};
use crate::search::journal::two_hashes;
use crate::search::known_contents::{Known, KnownContents, Lines};
use crate::search::observer::{Incomplete, Recovered};
use crate::search::path::Path;
use crate::search::reported_ends::ReportedEnds;
use crate::search::set_aside::View;
use crate::search::shared_state::{Search, Stop};
use crate::search::tree::{Diverged, Outcome, Place, ROOT, Seen};
use crate::search::unchanged::Unchanged;
use crate::subject::{Bytes, Ended, Ending, Error, Failure, Mode, Run, Schedule, Subject};

/// One in this many recoveries is run twice.
const REPEATED: u64 = 100;

/// A recorded run.
#[derive(Clone, Copy)]
pub(crate) struct Recording<'a> {
    pub(crate) records: &'a [Record],
    pub(crate) history: &'a History<'a>,
    pub(crate) schedule: Schedule,
}

/// Crashes a recorded run; each worker has a subject of its own for the recoveries.
pub(crate) struct Worker<'a, S> {
    pub(crate) search: &'a Search<'a>,
    pub(crate) subject: &'a mut S,
    pub(crate) recording: Recording<'a>,
    /// Recoveries run for the current crash of the recorded run.
    pub(crate) recoveries: u64,
    /// Recoveries run for all of them.
    runs: u64,
    /// The number of recoveries that may still be run, if limited for this worker alone.
    pub(crate) runs_left: Option<u64>,
    /// Set while the worker runs nothing and only checks whether everything is known: the recoveries it crashed on the
    /// way, as in [`crate::search::shared_state::Shared::recoveries_crashed`].
    pub(crate) only_known: Option<FxHashSet<u128>>,
    /// A crash point after which recovery fails no matter what is lost, until the next crash point is reached.
    pub(crate) unrecoverable_at: Option<usize>,
    /// What has not changed since the crash point before.
    pub(crate) unchanged: Unchanged,
    /// The walk of the last crash point that was walked.
    pub(crate) last: LastWalk,
    /// How recovery ends after the crash at this point if nothing is torn.
    pub(crate) plain_ends: Option<(usize, Vec<PlainEnd>)>,
    /// Are crash states with a known failure set aside?
    pub(crate) sets_aside: bool,
    pub(crate) set_aside: View,
    /// Where recovery was seen to end after the current crash of the recorded run; only if that is explored in several
    /// rounds.
    pub(crate) reported: Option<ReportedEnds>,
    /// The recoveries after which the current crash waits for its next turn.
    pub(crate) turn: Option<u64>,
    pub(crate) known_contents: KnownContents,
    number: usize,
}

/// The result of a walk from the root of the tree.
#[derive(Clone, Copy, Default)]
pub(crate) struct LastWalk {
    /// Ways in which recovery ended.
    leaves: u64,
    /// Was everything followed to its end, and nothing found?
    pub(crate) uneventful: bool,
}

/// Did the work complete, rather than stop early?
pub(crate) fn completed(result: Result<(), Stop>) -> Result<bool, Error> {
    match result {
        Ok(()) => Ok(true),
        Err(Stop::Error(error)) => Err(error),
        Err(Stop::Limit | Stop::Crash | Stop::Turn | Stop::NotKnown) => Ok(false),
    }
}

/// A path down the tree.
#[derive(Clone)]
pub(crate) struct Walk {
    pub(crate) revealed: Revealed,
    pub(crate) path: Path,
    /// Was everything on the way already known?
    pub(crate) known: bool,
}

impl Default for Walk {
    fn default() -> Walk {
        Walk { revealed: Revealed::default(), path: Path::default(), known: true }
    }
}

/// The value that recovery reads, if there is only one possibility.
fn certain_value(subject: &impl Subject, state: &CrashState, address: u64, width: u8) -> Option<u64> {
    if address == CRASHES_ADDRESS {
        return Some(state.crashes() as u64);
    }
    (!state.is_open(Line::containing(address))).then(|| subject.image_value(address, width))
}

/// How recovery ends after a crash that a machine without caches could have left.
pub(crate) struct PlainEnd {
    pub(crate) revealed: Revealed,
    pub(crate) outcome: Arc<Outcome>,
}

/// The one path that recovery takes if lines hold the chosen contents.
pub(crate) struct Followed {
    /// Where in the tree it ends.
    pub(crate) at: Place,
    pub(crate) outcome: u32,
    pub(crate) revealed: Revealed,
    pub(crate) path: Path,
    /// The numbers of the reads that a checksum protects.
    pub(crate) checksummed: Vec<u32>,
    /// Was it already known?
    pub(crate) known: bool,
}

impl<'a, S: Subject> Worker<'a, S> {
    pub(crate) fn new(search: &'a Search<'a>, subject: &'a mut S, recording: Recording<'a>) -> Worker<'a, S> {
        Worker {
            search,
            subject,
            recording,
            recoveries: 0,
            runs: 0,
            runs_left: None,
            only_known: None,
            unrecoverable_at: None,
            unchanged: Unchanged::default(),
            last: LastWalk::default(),
            plain_ends: None,
            sets_aside: !search.settings.exhaustive,
            set_aside: View::default(),
            reported: None,
            turn: None,
            known_contents: KnownContents::default(),
            number: search.number_worker(),
        }
    }

    /// Is everything recovery may do after any crash already known? Runs nothing.
    pub(crate) fn knows_everything(mut self) -> Result<bool, Error> {
        self.only_known = Some(FxHashSet::default());
        self.subject.rewind();
        let result = self.at_crash_points(|worker, timeline, _| worker.crash(&worker.crashed(timeline)));
        self.subject.rewind();
        completed(result)
    }

    /// The state after the recorded run crashes at the timeline's position.
    pub(crate) fn crashed<'s>(&self, timeline: &'s Timeline) -> CrashState<'s>
    where
        'a: 's,
    {
        let Recording { records, history, .. } = self.recording;
        CrashState { first: timeline, records, history, later: Vec::new() }
    }

    /// Traverses the run and calls `crash` at every crash point, with the image in its current state.
    pub(crate) fn at_crash_points(
        &mut self,
        crash: impl FnMut(&mut Self, &Timeline, usize) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.subject.pin(true);
        let result = self.go_through(crash);
        self.subject.pin(false);
        self.search.shared().active.remove(&self.number);
        result
    }

    fn go_through(
        &mut self,
        mut crash: impl FnMut(&mut Self, &Timeline, usize) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let mut timeline = Timeline::first(&self.search.settings.platform);
        let mut point = 0;
        (self.unchanged, self.last, self.plain_ends) = (Unchanged::default(), LastWalk::default(), None);
        let mut assumed = 0;
        loop {
            if timeline.is_crash_point(self.recording.records) {
                self.look_what_is_set_aside(timeline.at);
                if self.sets_aside && self.set_aside.version() != assumed {
                    assumed = self.set_aside.version();
                    for store in timeline.assume(&self.set_aside.assumed_of_run()) {
                        self.subject.set_image(store.event.address, store.event.width, store.event.value);
                    }
                }
                timeline.take_changed(|line| self.unchanged.line_changed(line));
                match crash(self, &timeline, point) {
                    Ok(()) | Err(Stop::Crash) => {}
                    Err(stop) => return Err(stop),
                }
                point += 1;
                timeline.crashed();
            }
            let Some(next) = self.recording.records.get(timeline.at) else { return Ok(()) };
            for store in timeline.advance(next) {
                self.subject.set_image(store.event.address, store.event.width, store.event.value);
            }
        }
    }

    /// Begins exploring a crash: counts it, and makes room for its results.
    pub(crate) fn begin_crash(&mut self, state: &CrashState) -> Result<(), Stop> {
        self.search.within_time()?;
        if self.only_known.is_some() {
            return Ok(());
        }
        let eager = state.timelines().map(Timeline::eager_states).product::<BigUint>();
        {
            let mut shared = self.search.shared();
            if shared.stopped {
                return Err(Stop::Limit);
            }
            shared.statistics.failure_points += 1;
            shared.statistics.eager_states += eager;
        }
        self.search.observer.crashed(state.first.at);
        self.prepare(state)
    }

    /// Crashes: follows recovery into everything it may do.
    pub(crate) fn crash(&mut self, state: &CrashState) -> Result<(), Stop> {
        self.begin_crash(state)?;
        self.explore(state)
    }

    /// Follows recovery into everything it may do after a crash that has begun.
    pub(crate) fn explore(&mut self, state: &CrashState) -> Result<(), Stop> {
        self.prepare(state)?;
        if !state.later.is_empty() {
            return self.walk(state, ROOT, &mut Walk::default());
        }
        if self.is_as_before() {
            self.search.shared().statistics.recoveries_saved += self.last.leaves;
            return Ok(());
        }
        self.unchanged.begin_walk();
        self.last = LastWalk { leaves: 0, uneventful: true };
        let result = self.walk(state, ROOT, &mut Walk::default());
        self.last.uneventful &= result.is_ok();
        result
    }

    /// Makes room for the results of a crash of the recorded run, and picks up other workers' findings.
    fn prepare(&mut self, state: &CrashState) -> Result<(), Stop> {
        if state.later.is_empty() {
            self.search.make_room(self.number)?;
            self.look_what_is_set_aside(state.first.at);
        }
        Ok(())
    }

    /// Picks up what was set aside since the last crash.
    fn look_what_is_set_aside(&mut self, at: usize) {
        if self.sets_aside {
            let version = self.set_aside.version();
            let newer = || {
                let shared = self.search.shared();
                (shared.set_aside.version != version).then(|| shared.set_aside.clone())
            };
            let newer = newer();
            self.last.uneventful &= newer.is_none();
            self.set_aside.update(|| newer, &self.recording.records[..at]);
        }
    }

    /// Can recovery do exactly what it could after the previous crash of the recorded run, without findings?
    fn is_as_before(&self) -> bool {
        let alone = self.search.settings.crashes == 1 && self.only_known.is_none();
        alone && self.last.uneventful && self.last.leaves > 0 && !self.unchanged.anything_changed()
    }

    /// Follows recovery from a node of the tree into everything it may do after this crash.
    pub(crate) fn walk(&mut self, state: &CrashState, mut at: Place, walk: &mut Walk) -> Result<(), Stop> {
        let start = walk.path.mark();
        loop {
            match self.follow_certain(state, &mut at, &mut walk.path) {
                Seen::Unknown => {
                    walk.known = false;
                    let patches = self.most_kept(state, &walk.revealed);
                    if self.would_wait(state, &patches) {
                        self.search.shared().set_aside.not_recovered += 1;
                        self.last.uneventful = false;
                        break;
                    }
                    self.recover(state, &patches)?;
                    if matches!(self.search.shared().tree.look(at), Seen::Unknown) {
                        // Recovery is not repeatable; the observer has been notified.
                        self.last.uneventful = false;
                        break;
                    }
                }
                Seen::Begin => {
                    if self.bracket(state, at, walk)? {
                        break;
                    }
                    at = self.search.shared().tree.pass(at);
                }
                Seen::End { .. } => at = self.search.shared().tree.pass(at),
                Seen::Leaf(number) => {
                    let outcome = self.outcome(number);
                    if self.only_known.is_none() {
                        // Set aside, even if another worker has already run it.
                        if Failure::of(outcome.ending) == Some(Failure::Endless)
                            && self.would_wait(state, &self.most_kept(state, &walk.revealed))
                        {
                            self.search.shared().set_aside.not_recovered += 1;
                            self.last.uneventful = false;
                            break;
                        }
                        self.search.shared().statistics.recoveries_saved += u64::from(walk.known);
                        if !self.was_reported(state, at) {
                            self.leaf(state, &walk.revealed, &walk.path, &outcome)?;
                        }
                    }
                    if outcome.threads && self.search.shared().recovery_schedules.follows() {
                        self.other_schedules(state, walk, &outcome)?;
                    }
                    self.crash_recovery(state, number, &outcome, walk)?;
                    break;
                }
                Seen::Read { address, width, site } => {
                    let line = Line::containing(address);
                    let all = self.contents(state, line, &walk.revealed);
                    let groups = group(&all, address, width);
                    let read = |value| Read { site, address, width, value, open: true };
                    if let [(value, _)] = groups[..] {
                        walk.path.push(read(value));
                        at = self.search.shared().tree.follow(at, value);
                        continue;
                    }
                    let (before, known) = (walk.revealed.get(&line).cloned(), walk.known);
                    let here = walk.path.mark();
                    for (value, contents) in groups {
                        walk.revealed.insert(line, contents);
                        walk.path.push(read(value));
                        let next = self.search.shared().tree.follow(at, value);
                        self.walk(state, next, walk)?;
                        walk.path.truncate(here);
                        walk.known = known;
                    }
                    match before {
                        Some(contents) => walk.revealed.insert(line, contents),
                        None => walk.revealed.remove(&line),
                    };
                    break;
                }
            }
        }
        walk.path.truncate(start);
        Ok(())
    }

    /// How a recovery ended.
    pub(crate) fn outcome(&self, number: u32) -> Arc<Outcome> {
        self.search.shared().tree.outcome(number)
    }

    /// Was it reported in an earlier round that recovery ends here after this crash? From now on it is.
    fn was_reported(&mut self, state: &CrashState, at: Place) -> bool {
        // After another crash the same reads may see other stores.
        let Some(reported) = self.reported.as_mut().filter(|_| state.later.is_empty()) else { return false };
        let drops = self.search.shared().tree.drops();
        !reported.insert(at, drops)
    }

    /// Passes a recovery that ended to `judge`.
    pub(crate) fn recovered<T>(
        &self,
        state: &CrashState,
        revealed: &Revealed,
        reads: &[Read],
        outcome: &Outcome,
        judge: &mut dyn FnMut(&Recovered) -> T,
    ) -> T {
        let schedule = self.recording.schedule;
        let certain = &|line| self.subject.image_line(line);
        judge(&Recovered { state, revealed, reads, outcome, schedule, certain })
    }

    /// Recovery ended.
    pub(crate) fn leaf(
        &mut self,
        state: &CrashState,
        revealed: &Revealed,
        path: &Path,
        outcome: &Outcome,
    ) -> Result<(), Stop> {
        self.last.leaves += 1;
        let observer = self.search.observer;
        // Successful recoveries from what a machine without caches could have left are not worth reporting.
        let harmless = outcome.ending == Ending::Exit(0) && !observer.wants_all();
        let robust = || {
            !self.search.settings.history
                || state.later.is_empty() && (!path.any_open() || state.is_obviously_robust())
        };
        if harmless && robust() {
            return Ok(());
        }
        let reads = path.reads();
        if !outcome.waits_for.is_empty() && state.later.is_empty() {
            self.waited_for(state, &outcome.waits_for);
        }
        let judged =
            self.recovered(state, revealed, &reads, outcome, &mut |recovered| observer.ended(recovered));
        if judged.unrecoverable {
            self.unrecoverable_at = Some(state.first.at);
        }
        if let Some((level, site)) = judged.cause {
            let endless = Failure::of(outcome.ending) == Some(Failure::Endless);
            self.search.shared().set_aside.failed((level > 0, site), endless);
            self.look_what_is_set_aside(state.first.at);
        }
        if let Some((level, site)) = judged.stale {
            self.search.shared().set_aside.stale((level > 0, site));
        }
        self.last.uneventful &= !judged.noted;
        if judged.stale.is_some() && self.copes(state, revealed, outcome)? {
            self.recovered(state, revealed, &reads, outcome, &mut |recovered| observer.copes(recovered));
        }
        Ok(())
    }

    /// Follows recovery as long as its reads can have only one value; returns what comes next.
    pub(crate) fn follow_certain(&mut self, state: &CrashState, at: &mut Place, path: &mut Path) -> Seen {
        let mut shared = self.search.shared();
        let (subject, unchanged) = (&*self.subject, &mut self.unchanged);
        // After a second crash lines also hold other contents.
        let first = state.later.is_empty();
        loop {
            *at = shared.tree.follow_run(*at, |id, block, from| {
                let rest = block.steps.len() - from;
                let mut passed = rest;
                if !(first && unchanged.is_good(id)) {
                    let certain = |step: &&Record| {
                        let known = certain_value(subject, state, step.address(), step.width());
                        known == Some(step.value)
                    };
                    passed = block.steps[from..].iter().take_while(certain).count();
                    if first && passed == block.steps.len() {
                        unchanged.found_good(id, block);
                    } else {
                        let steps = &block.steps[from..from + passed];
                        steps.iter().for_each(|step| unchanged.looked_at(Line::containing(step.address())));
                    }
                }
                path.push_block(block, from, passed);
                passed
            });
            let seen = shared.tree.look(*at);
            let Seen::Read { address, width, site } = seen else { return seen };
            unchanged.looked_at(Line::containing(address));
            let Some(value) = certain_value(subject, state, address, width) else { return seen };
            path.push(Read { site, address, width, value, open: false });
            *at = shared.tree.follow(*at, value);
        }
    }

    /// Follows recovery down the one path it takes if open lines hold the chosen contents. `None` if recovery is not
    /// repeatable; the observer has been notified.
    pub(crate) fn follow_chosen(
        &mut self,
        state: &CrashState,
        chosen: &dyn Fn(&Self, Line) -> Bytes,
    ) -> Result<Option<Followed>, Stop> {
        let mut at = ROOT;
        let (mut revealed, mut path, mut known) = (Revealed::default(), Path::default(), true);
        let (mut checksummed, mut began) = (Vec::new(), None);
        loop {
            match self.follow_certain(state, &mut at, &mut path) {
                Seen::Unknown => {
                    known = false;
                    let patch = |line: Line| Patch { address: line.start(), bytes: chosen(self, line) };
                    let patches: Vec<Patch> = state.open_lines().into_iter().map(patch).collect();
                    self.recover(state, &patches)?;
                    if matches!(self.search.shared().tree.look(at), Seen::Unknown) {
                        return Ok(None);
                    }
                }
                Seen::Begin => {
                    began = Some(path.len());
                    at = self.search.shared().tree.pass(at);
                }
                Seen::End { .. } => {
                    checksummed.extend(began.take().unwrap_or(path.len()) as u32..path.len() as u32);
                    at = self.search.shared().tree.pass(at);
                }
                Seen::Leaf(outcome) => {
                    checksummed.extend(began.unwrap_or(path.len()) as u32..path.len() as u32);
                    return Ok(Some(Followed { at, outcome, revealed, path, checksummed, known }));
                }
                Seen::Read { address, width, site } => {
                    let line = Line::containing(address);
                    let seen = value(&chosen(self, line), address, width);
                    // Regardless of what is set aside: this state was requested.
                    let left = self.left_by_read(state, &revealed, (line, address, width), seen);
                    if let Some(left) = left {
                        revealed.insert(line, left);
                    }
                    path.push(Read { site, address, width, value: seen, open: true });
                    at = self.search.shared().tree.follow(at, seen);
                }
            }
        }
    }

    /// What a line may hold, given what recovery's reads revealed.
    pub(crate) fn contents(&self, state: &CrashState, line: Line, revealed: &Revealed) -> Vec<Content> {
        let contents = state.contents_given(line, revealed, |line| self.subject.image_line(line));
        self.without_set_aside(state, line, contents)
    }

    /// The contents of a line that agree with a read of it, if there are others; regardless of what is set aside.
    fn left_by_read(
        &self,
        state: &CrashState,
        revealed: &Revealed,
        (line, address, width): (Line, u64, u8),
        seen: u64,
    ) -> Option<Vec<Content>> {
        let left = |all: &[Content]| {
            let agree = |content: &&Content| value(&content.bytes, address, width) == seen;
            (!all.iter().all(|content| agree(&content))).then(|| all.iter().filter(agree).cloned().collect())
        };
        // Other lines say something about this one only if they survive together with it.
        let together = state.first.together(line);
        if together.end - together.start > 1 || revealed.contains_key(&line) {
            return left(&state.contents_given(line, revealed, |line| self.subject.image_line(line)));
        }
        left(&self.known_contents(state, line).all)
    }

    /// Keeps what lines may hold during some work that concerns only one crash state.
    pub(crate) fn keeping_contents<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.known_contents.keep(Some(Lines::default()));
        let result = work(self);
        self.known_contents.keep(outer);
        result
    }

    /// What a line may hold.
    pub(crate) fn known_contents(&self, state: &CrashState, line: Line) -> Arc<Known> {
        self.known_contents.of(line, self.set_aside.version(), || {
            let all = state.contents_given(line, &Revealed::default(), |line| self.subject.image_line(line));
            let possible = self.without_set_aside(state, line, all.clone());
            Known::of(all, possible)
        })
    }

    /// Retains the contents in which the stores assumed to persist survive.
    pub(crate) fn without_set_aside(
        &self,
        state: &CrashState,
        line: Line,
        mut contents: Vec<Content>,
    ) -> Vec<Content> {
        if self.sets_aside && self.set_aside.assumes_anything() {
            self.set_aside.retain(state, line, &mut contents);
        }
        contents
    }

    /// Crashes a recovery in turn at all its crash points, if that many crashes are wanted.
    fn crash_recovery(
        &mut self,
        state: &CrashState,
        number: u32,
        outcome: &Outcome,
        walk: &Walk,
    ) -> Result<(), Stop> {
        if state.crashes() >= self.search.settings.crashes {
            return Ok(());
        }
        let Some(records) = &outcome.writes else { return Ok(()) };
        let key = two_hashes(&self.ran_on(state, number, &walk.revealed));
        let new = match &mut self.only_known {
            Some(crashed) => crashed.insert(key),
            None => self.search.shared().recoveries_crashed.insert(key),
        };
        if !new {
            return Ok(());
        }
        let history = self.search.history(records);
        // Its reads so far are the loads among its records.
        let reads = walk.path.reads();
        let mut upcoming = reads.iter().enumerate();
        let mut had_read = Reads::new();
        let mut timeline = Timeline::after(&self.search.settings.platform, state.last());
        let mut persisted = Persisted::default();
        loop {
            if timeline.is_crash_point(records) {
                let again = state.then(Later {
                    revealed: &walk.revealed,
                    timeline: &timeline,
                    persisted: &persisted,
                    history: &history,
                    reads: &had_read,
                    records,
                });
                self.crash(&again)?;
                timeline.crashed();
            }
            let Some(next) = records.get(timeline.at) else { return Ok(()) };
            if next.kind() == Kind::Load as u8
                && let Some((index, read)) = upcoming.next()
                && outcome.ignored.binary_search(&(index as u32)).is_err()
            {
                had_read.push(*read);
            }
            timeline.advance_into(next, &mut persisted);
        }
    }

    /// Identifies a recovery and its starting state: what certainly persisted of each execution, which depends on how
    /// far that got, then what was open.
    fn ran_on(&self, state: &CrashState, outcome: u32, revealed: &Revealed) -> Vec<u8> {
        let mut key: Vec<u8> =
            [outcome as usize, state.crashes(), state.first.at].map(usize::to_le_bytes).concat();
        for later in &state.later {
            let mut lines: Vec<_> = later.persisted.iter().collect();
            lines.sort_unstable_by_key(|(line, _)| **line);
            for store in lines.into_iter().flat_map(|(_, stores)| stores) {
                key.extend(store.event.address.to_le_bytes());
                key.extend(store.event.value.to_le_bytes());
                key.push(store.event.width);
            }
            key.extend(u64::MAX.to_le_bytes());
        }
        let mut lines: Vec<Line> = state.open_lines().into_iter().collect();
        lines.sort_unstable();
        for line in lines {
            let contents = self.contents(state, line, revealed);
            key.extend(line.0.to_le_bytes());
            key.extend(contents.len().to_le_bytes());
            contents.iter().for_each(|content| key.extend(content.bytes));
        }
        key
    }

    /// What recovery reads there, if that cannot be anything else.
    pub(crate) fn certain(&self, state: &CrashState, address: u64, width: u8) -> Option<u64> {
        certain_value(self.subject, state, address, width)
    }

    /// Contents of all open lines that agree with what recovery read, with as many stores kept as possible.
    pub(crate) fn most_kept(&self, state: &CrashState, revealed: &Revealed) -> Vec<Patch> {
        let lines = state.open_lines().into_iter();
        lines
            .map(|line| {
                let contents = self.contents(state, line, revealed);
                Patch { address: line.start(), bytes: Content::most_kept(&contents).bytes }
            })
            .collect()
    }

    pub(crate) fn run_once(&mut self, run: &Run, patches: &[Patch]) -> Result<Ended, Stop> {
        match self.subject.run(run, patches) {
            Ok(ended) => Ok(ended),
            Err(Error::Interrupted) => Err(self.search.stop(Incomplete::Interrupted)),
            Err(error) => Err(Stop::Error(error)),
        }
    }

    /// Runs the last recovery once more: if it does not behave identically, nothing known about it counts. Code
    /// followed by faults may have been patched in the meantime, and then reports the same accesses in different
    /// pieces, so it gets one more try.
    fn repeat(&mut self, run: &Run, patches: &[Patch]) -> Result<(), Stop> {
        let tries = if self.subject.is_rebuilt() { 1 } else { 2 };
        let mut diverged = None;
        for _ in 0..tries {
            let before = self.subject.records().to_vec();
            self.run_once(run, patches)?;
            let now = self.subject.records();
            let longest = before.len().max(now.len());
            let Some(at) = (0..longest).find(|at| before.get(*at) != now.get(*at)) else { return Ok(()) };
            let event = |records: &[Record]| records.get(at).map(|record| (record.address(), record.site));
            diverged = Some(Diverged { expected: event(&before), found: event(now) });
        }
        if let Some(diverged) = diverged {
            self.search.observer.incomplete(Incomplete::Diverged(diverged));
        }
        Ok(())
    }

    /// How to run recovery after a crash.
    pub(crate) fn recovery_run(&self, state: &CrashState, schedule: Schedule) -> Run {
        Run {
            mode: Mode::Recover,
            schedule,
            crashes: state.crashes(),
            durable: state.last().durable,
            limits: self.search.recovery_limits(self.recording.records.len()),
        }
    }

    /// Runs recovery on the image with these lines changed; adds what it did to the tree.
    pub(crate) fn recover(&mut self, state: &CrashState, patches: &[Patch]) -> Result<(), Stop> {
        if self.only_known.is_some() {
            return Err(Stop::NotKnown);
        }
        if self.turn.is_some_and(|most| self.recoveries >= most) {
            return Err(Stop::Turn);
        }
        self.search.within_limits(self.recoveries)?;
        if let Some(left) = &mut self.runs_left {
            *left = left.checked_sub(1).ok_or(Stop::Limit)?;
        }
        self.recoveries += 1;
        self.runs += 1;
        // Under the first of its schedules; `other_schedules` has the others.
        let decided = self.search.shared().recovery_schedules.follows();
        let schedule = if decided { Schedule::DECIDED } else { self.recording.schedule };
        if decided {
            self.subject.decide(&[], &[]);
        }
        let run = self.recovery_run(state, schedule);
        let started = Instant::now();
        let mut ended = self.run_once(&run, patches)?;
        // Where code is followed by faults, that a state repeats is less than certain: it must be seen twice.
        if ended.repeats && !decided && !self.subject.is_rebuilt() {
            ended = self.run_once(&run, patches)?;
        }
        let Ended { ending, threads, waits_for, .. } = ended;
        self.search.shared().took(ending, started.elapsed(), self.subject.records().len());
        let too_long = decided && ending == Ending::Exit(exit::TOO_MANY_STEPS);
        self.search.shared().recovery_schedules.too_long |= too_long;
        let ending = if too_long { Ending::Exit(0) } else { ending };
        if let Ending::Limit(limit) = ending {
            self.search.observer.incomplete(Incomplete::Run(limit));
        }
        // Of one that ends well, only whether it prints the same as another matters.
        let is_judged = ending != Ending::Exit(0) || self.search.settings.history;
        let output = if is_judged { self.subject.output(ending) } else { String::new() };
        // An endless recovery is stopped at an arbitrary place.
        let endless = Failure::of(ending) == Some(Failure::Endless);
        if self.runs % REPEATED == 1 && threads == 1 && !endless {
            self.repeat(&run, patches)?;
        }
        let records = self.subject.records();
        let waits_for = if endless { waits_for } else { Vec::new() };
        if let Some(journal) = self.search.journal.as_ref().filter(|_| !decided && threads == 1) {
            journal.add(records, ending, &output, &waits_for);
        }
        let kinds = RecordKinds::of(records);
        let outcome = self.search.outcome(records, kinds, ending, output, waits_for);
        let (added, behaviors) = {
            let mut shared = self.search.shared();
            shared.statistics.recoveries += 1;
            shared.recovery_has_threads |= threads > 1;
            (shared.tree.add(records, outcome), shared.tree.behaviors())
        };
        self.search.observer.ran(records, kinds, behaviors);
        if let Err(diverged) = added {
            self.search.observer.incomplete(Incomplete::Diverged(diverged));
        }
        Ok(())
    }
}
