//! Crashes a recorded run and walks the tree of what recovery does; several workers share the tree.

use std::sync::Arc;

use crashproof_protocol::{CRASHES_ADDRESS, Patch, Record};
use num_bigint::BigUint;
use px86::{Kind, Line};
use rustc_hash::FxHashSet;

use crate::crash::{
    Chosen, Content, CrashState, History, Later, Persisted, Read, Reads, Revealed, Timeline, group, ignored,
    value,
};
use crate::search::observer::{Incomplete, Recovered};
use crate::search::shared_state::{Search, Stop};
use crate::search::tree::{NodeId, Outcome, ROOT, Seen};
use crate::subject::{Ended, Ending, Error, Mode, Run, Schedule, Subject};

/// A recorded run.
#[derive(Clone, Copy)]
pub(crate) struct Recording<'a> {
    pub(crate) records: &'a [Record],
    pub(crate) history: &'a History<'a>,
    pub(crate) schedule: Schedule,
}

/// Crashes a recorded run, with a subject of its own for the recoveries.
pub(crate) struct Worker<'a, S> {
    pub(crate) search: &'a Search<'a>,
    pub(crate) subject: &'a mut S,
    pub(crate) recording: Recording<'a>,
    /// Files on the PM path that the recorded run created; a bit each.
    files_created: u64,
    /// Recoveries run for the crash of the recorded run that is being explored.
    pub(crate) recoveries: u64,
    /// Recoveries that may still be run, if that is limited for this worker alone.
    pub(crate) runs_left: Option<u64>,
    /// Set while the worker runs nothing and only looks whether everything is known: the recoveries it crashed on the
    /// way, as in [`crate::search::shared_state::Shared::recoveries_crashed`].
    pub(crate) only_known: Option<FxHashSet<Vec<u8>>>,
    /// A crash point after which recovery fails whatever is lost; the next crash point is still to come.
    pub(crate) unrecoverable_at: Option<usize>,
}

/// Did nothing end the work early?
pub(crate) fn completed(result: Result<(), Stop>) -> Result<bool, Error> {
    match result {
        Ok(()) => Ok(true),
        Err(Stop::Error(error)) => Err(error),
        Err(Stop::Limit | Stop::Crash | Stop::NotKnown) => Ok(false),
    }
}

/// A path down the tree.
#[derive(Clone)]
pub(crate) struct Walk {
    pub(crate) revealed: Revealed,
    pub(crate) reads: Reads,
    /// Was everything on the way known before?
    pub(crate) known: bool,
}

impl Default for Walk {
    fn default() -> Walk {
        Walk { revealed: Revealed::default(), reads: Reads::new(), known: true }
    }
}

/// The one path that recovery takes if lines hold what was chosen.
pub(crate) struct Followed {
    pub(crate) outcome: usize,
    pub(crate) revealed: Revealed,
    pub(crate) reads: Reads,
    /// The numbers of the reads that a checksum protects.
    pub(crate) checksummed: Vec<u32>,
    /// Was it known before?
    pub(crate) known: bool,
}

impl<'a, S: Subject> Worker<'a, S> {
    pub(crate) fn new(search: &'a Search<'a>, subject: &'a mut S, recording: Recording<'a>) -> Worker<'a, S> {
        let files_created = subject.files_created();
        Worker {
            search,
            subject,
            recording,
            files_created,
            recoveries: 0,
            runs_left: None,
            only_known: None,
            unrecoverable_at: None,
        }
    }

    /// Is everything that recovery may do after any crash known already? Runs nothing.
    pub(crate) fn knows_everything(mut self) -> Result<bool, Error> {
        self.only_known = Some(FxHashSet::default());
        self.subject.rewind();
        let result = self.at_crash_points(|worker, timeline, _| worker.crash(&worker.crashed(timeline)));
        self.subject.rewind();
        completed(result)
    }

    /// The recorded run crashed where the timeline is.
    pub(crate) fn crashed<'s>(&self, timeline: &'s Timeline) -> CrashState<'s>
    where
        'a: 's,
    {
        let Recording { records, history, .. } = self.recording;
        CrashState { first: timeline, records, history, later: Vec::new() }
    }

    /// Goes through the run, and calls `crash` at every crash point, with the image as it then is.
    pub(crate) fn at_crash_points(
        &mut self,
        crash: impl FnMut(&mut Self, &Timeline, usize) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.subject.pin(true);
        let result = self.go_through(crash);
        self.subject.pin(false);
        result
    }

    fn go_through(
        &mut self,
        mut crash: impl FnMut(&mut Self, &Timeline, usize) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let mut timeline = Timeline::first(&self.search.settings.platform, self.files_created);
        let mut point = 0;
        loop {
            if timeline.is_crash_point(self.recording.records) {
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

    /// The power fails: follows recovery into everything it may do.
    pub(crate) fn crash(&mut self, state: &CrashState) -> Result<(), Stop> {
        self.search.within_time()?;
        if self.only_known.is_none() {
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
        }
        self.walk(state, ROOT, &mut Walk::default())
    }

    /// Follows recovery from a node of the tree into everything it may do after this crash.
    pub(crate) fn walk(&mut self, state: &CrashState, mut at: NodeId, walk: &mut Walk) -> Result<(), Stop> {
        let depth = walk.reads.len();
        loop {
            match self.follow_certain(state, &mut at, &mut walk.reads) {
                Seen::Unknown => {
                    walk.known = false;
                    let patches = self.most_kept(state, &walk.revealed);
                    self.recover(state, &patches)?;
                    if matches!(self.search.shared().tree.look(at), Seen::Unknown) {
                        // Recovery is not repeatable; the observer was told.
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
                        self.search.shared().statistics.recoveries_saved += u64::from(walk.known);
                        self.leaf(state, &walk.revealed, &walk.reads, &outcome);
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
                        walk.reads.push(read(value));
                        at = self.search.shared().tree.follow(at, value);
                        continue;
                    }
                    let (before, known) = (walk.revealed.get(&line).cloned(), walk.known);
                    for (value, contents) in groups {
                        walk.revealed.insert(line, contents);
                        walk.reads.push(read(value));
                        let next = self.search.shared().tree.follow(at, value);
                        self.walk(state, next, walk)?;
                        walk.reads.pop();
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
        walk.reads.truncate(depth);
        Ok(())
    }

    /// How a recovery ended.
    pub(crate) fn outcome(&self, number: usize) -> Arc<Outcome> {
        self.search.shared().tree.outcome(number)
    }

    /// Hands a recovery that ended to `judge`.
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
        reads: &[Read],
        outcome: &Outcome,
    ) {
        let observer = self.search.observer;
        if self.recovered(state, revealed, reads, outcome, &mut |recovered| observer.ended(recovered)) {
            self.unrecoverable_at = Some(state.first.at);
        }
    }

    /// Follows recovery as long as what it reads can have only one value; gives what comes then.
    pub(crate) fn follow_certain(&self, state: &CrashState, at: &mut NodeId, reads: &mut Reads) -> Seen {
        let mut shared = self.search.shared();
        loop {
            let seen = shared.tree.look(*at);
            let Seen::Read { address, width, site } = seen else { return seen };
            let value = if address == CRASHES_ADDRESS {
                state.crashes() as u64
            } else if !state.is_open(Line::containing(address)) {
                self.subject.image_value(address, width)
            } else {
                return seen;
            };
            reads.push(Read { site, address, width, value, open: false });
            *at = shared.tree.follow(*at, value);
        }
    }

    /// Follows recovery down the one path it takes if the open lines hold what was chosen. None if recovery is not
    /// repeatable; the observer was told.
    pub(crate) fn follow_chosen(
        &mut self,
        state: &CrashState,
        chosen: &Chosen,
    ) -> Result<Option<Followed>, Stop> {
        let mut at = ROOT;
        let (mut revealed, mut reads, mut known) = (Revealed::default(), Reads::new(), true);
        let (mut checksummed, mut began) = (Vec::new(), None);
        loop {
            match self.follow_certain(state, &mut at, &mut reads) {
                Seen::Unknown => {
                    known = false;
                    let patch = |(&line, &bytes): (&Line, _)| Patch { address: line.start(), bytes };
                    let patches: Vec<Patch> = chosen.iter().map(patch).collect();
                    self.recover(state, &patches)?;
                    if matches!(self.search.shared().tree.look(at), Seen::Unknown) {
                        return Ok(None);
                    }
                }
                Seen::Begin => {
                    began = Some(reads.len());
                    at = self.search.shared().tree.pass(at);
                }
                Seen::End { .. } => {
                    checksummed.extend(began.take().unwrap_or(reads.len()) as u32..reads.len() as u32);
                    at = self.search.shared().tree.pass(at);
                }
                Seen::Leaf(outcome) => {
                    checksummed.extend(began.unwrap_or(reads.len()) as u32..reads.len() as u32);
                    return Ok(Some(Followed { outcome, revealed, reads, checksummed, known }));
                }
                Seen::Read { address, width, site } => {
                    let line = Line::containing(address);
                    let seen = value(&chosen[&line], address, width);
                    let all = self.contents(state, line, &revealed);
                    let agree = |content: &&Content| value(&content.bytes, address, width) == seen;
                    let left: Vec<Content> = all.iter().filter(agree).cloned().collect();
                    if left.len() < all.len() {
                        revealed.insert(line, left);
                    }
                    reads.push(Read { site, address, width, value: seen, open: true });
                    at = self.search.shared().tree.follow(at, seen);
                }
            }
        }
    }

    /// What a line may hold, given what recovery's reads revealed.
    pub(crate) fn contents(&self, state: &CrashState, line: Line, revealed: &Revealed) -> Vec<Content> {
        state.contents_given(line, revealed, |line| self.subject.image_line(line))
    }

    /// Crashes a recovery in its turn, at all its crash points, if that many crashes are wanted.
    fn crash_recovery(
        &mut self,
        state: &CrashState,
        number: usize,
        outcome: &Outcome,
        walk: &Walk,
    ) -> Result<(), Stop> {
        if state.crashes() >= self.search.settings.crashes {
            return Ok(());
        }
        let Some(records) = &outcome.writes else { return Ok(()) };
        let key = self.ran_on(state, number, &walk.revealed);
        let new = match &mut self.only_known {
            Some(crashed) => crashed.insert(key),
            None => self.search.shared().recoveries_crashed.insert(key),
        };
        if !new {
            return Ok(());
        }
        let history = self.search.history(records);
        // What it has read so far; the reads are the loads of its records.
        let mut upcoming = walk.reads.iter().enumerate();
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

    /// What a recovery ran on, and which one it was: what surely persisted of each execution, which goes with how far
    /// that came, then what was open.
    fn ran_on(&self, state: &CrashState, outcome: usize, revealed: &Revealed) -> Vec<u8> {
        let mut key: Vec<u8> = [outcome, state.crashes(), state.first.at].map(usize::to_le_bytes).concat();
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

    /// Contents of all open lines that agree with what recovery read, with as many stores kept as possible.
    fn most_kept(&self, state: &CrashState, revealed: &Revealed) -> Vec<Patch> {
        let lines = state.open_lines().into_iter();
        lines
            .map(|line| {
                let contents = self.contents(state, line, revealed);
                Patch { address: line.start(), bytes: Content::most_kept(&contents).bytes }
            })
            .collect()
    }

    /// Runs recovery on the image with these lines changed; adds what it did to the tree.
    pub(crate) fn recover(&mut self, state: &CrashState, patches: &[Patch]) -> Result<(), Stop> {
        if self.only_known.is_some() {
            return Err(Stop::NotKnown);
        }
        self.search.within_limits(self.recoveries)?;
        if let Some(left) = &mut self.runs_left {
            *left = left.checked_sub(1).ok_or(Stop::Limit)?;
        }
        self.recoveries += 1;
        let settings = &self.search.settings;
        let run = Run {
            mode: Mode::Recover,
            schedule: self.recording.schedule,
            crashes: state.crashes(),
            durable: state.last().durable,
            limits: settings.limits.recovery(self.recording.records.len()),
        };
        let Ended { ending, threads, .. } = match self.subject.run(&run, patches) {
            Ok(ended) => ended,
            Err(Error::Interrupted) => return Err(self.search.stop(Incomplete::Interrupted)),
            Err(error) => return Err(Stop::Error(error)),
        };
        let output = if ending == Ending::Exit(0) { String::new() } else { self.subject.output(ending) };
        let records = self.subject.records();
        let stores = |record: &Record| record.event_kind().is_some_and(Kind::stores);
        let writes = (settings.crashes > 1 && records.iter().any(stores)).then(|| records.to_vec());
        let outcome = Outcome { ending, output, writes, ignored: ignored(records) };
        let (added, behaviors) = {
            let mut shared = self.search.shared();
            shared.statistics.recoveries += 1;
            shared.recovery_has_threads |= threads > 1;
            (shared.tree.add(records, outcome), shared.tree.behaviors())
        };
        self.search.observer.ran(records, behaviors);
        if let Err(diverged) = added {
            self.search.observer.incomplete(Incomplete::Diverged(diverged));
        }
        Ok(())
    }
}
