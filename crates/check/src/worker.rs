//! Crashes a recorded run and walks the tree of what recovery does; several workers share the tree.

use std::sync::Arc;

use crashproof_protocol::{CRASHES_ADDRESS, Patch, Record, mode};
use num_bigint::BigUint;
use px86::storage::CachedStore;
use px86::{Kind, Line};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::crash::{Chosen, Content, CrashState, Later, Revealed, value};
use crate::explore::Check;
use crate::history::History;
use crate::random::Draws;
use crate::robustness::ignored;
use crate::schedule::Schedule;
use crate::session::{Ending, Error, Session};
use crate::timeline::Timeline;
use crate::told::{Read, Reads};
use crate::tree::{NodeId, Outcome, ROOT, Seen};

/// Places to crash that a worker takes at once.
const BLOCK: usize = 64;

/// Which crashes to try.
pub(crate) enum Plan {
    /// All that can be told apart.
    Everything,
    /// Some, by chance.
    Random(Draws),
}

pub(crate) struct Worker<'a> {
    pub(crate) check: &'a Check<'a>,
    pub(crate) session: Session,
    pub(crate) records: &'a [Record],
    pub(crate) history: &'a History<'a>,
    pub(crate) schedule: Schedule,
    /// Files on the PM path that the recorded run created; a bit each.
    files_created: u64,
    /// Recoveries run for the crash of the recorded run that is being explored.
    pub(crate) recoveries: u64,
    /// Recoveries that may still be run, where that is limited for this worker alone.
    pub(crate) runs_left: Option<u64>,
    /// Set while the worker only looks whether everything is known already, and runs nothing: the recoveries it
    /// crashed on the way, as in [`crate::explore::Common::recoveries_crashed`].
    pub(crate) looking: Option<FxHashSet<Vec<u8>>>,
    /// A place from which recovery fails whatever is lost; the next place to crash is still to come.
    pub(crate) hopeless_at: Option<usize>,
}

/// The one way recovery goes if lines hold what was chosen.
pub(crate) struct Followed {
    pub(crate) outcome: usize,
    pub(crate) revealed: Revealed,
    pub(crate) reads: Reads,
    /// The numbers of the reads that a checksum protects.
    pub(crate) checksummed: Vec<u32>,
    /// Was it known before?
    pub(crate) known: bool,
}

/// Why a walk ended early.
pub(crate) enum Stop {
    /// A limit was hit; the reason is noted.
    Limit,
    /// This crash has too many behaviours; the reason is noted, others go on.
    Crash,
    /// Something is not known, and the worker only looks.
    NotKnown,
    /// The machine is at its limits.
    Error(Error),
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        check: &'a Check<'a>,
        session: Session,
        records: &'a [Record],
        history: &'a History<'a>,
        schedule: Schedule,
    ) -> Worker<'a> {
        let files_created = session.files_created();
        Worker {
            check,
            session,
            records,
            history,
            schedule,
            files_created,
            recoveries: 0,
            runs_left: None,
            looking: None,
            hopeless_at: None,
        }
    }

    /// Crashes the run at this worker's share of the places. Gives the session back.
    ///
    /// Shares are blocks: crashes close to each other make recovery do the same, and one worker should find
    /// that out.
    pub(crate) fn run(mut self, number: usize, of: usize, plan: &Plan) -> Result<Session, Error> {
        let result = self.at_every_place(|worker, timeline, place| {
            if let Some(before) = worker.hopeless_at.take() {
                worker.check.common().hopeless.followed(before, timeline.at);
            }
            if place / BLOCK % of != number {
                return Ok(());
            }
            worker.recoveries = 0;
            match plan {
                Plan::Everything => worker.crash(&worker.crashed(timeline)),
                Plan::Random(draws) => worker.random_crashes(timeline, draws, place),
            }
        });
        match result {
            Ok(()) | Err(Stop::Limit | Stop::Crash | Stop::NotKnown) => Ok(self.session),
            Err(Stop::Error(error)) => Err(error),
        }
    }

    /// The recorded run crashed where the timeline is.
    pub(crate) fn crashed<'s>(&self, timeline: &'s Timeline) -> CrashState<'s>
    where
        'a: 's,
    {
        CrashState { first: timeline, history: self.history, later: Vec::new() }
    }

    /// Is everything that recovery may do after any crash known already? Runs nothing.
    pub(crate) fn knows_everything(mut self) -> Result<(bool, Session), Error> {
        self.looking = Some(FxHashSet::default());
        self.session.rewind();
        let result = self.at_every_place(|worker, timeline, _| worker.crash(&worker.crashed(timeline)));
        self.session.rewind();
        match result {
            Ok(()) => Ok((true, self.session)),
            Err(Stop::Error(error)) => Err(error),
            Err(Stop::Limit | Stop::Crash | Stop::NotKnown) => Ok((false, self.session)),
        }
    }

    /// Goes through the run, and calls `crash` at every place to crash it, with the image as it then is.
    pub(crate) fn at_every_place(
        &mut self,
        crash: impl FnMut(&mut Self, &Timeline, usize) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.session.stay_together(true);
        let result = self.go_through(crash);
        self.session.stay_together(false);
        result
    }

    fn go_through(
        &mut self,
        mut crash: impl FnMut(&mut Self, &Timeline, usize) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let mut timeline = Timeline::first(&self.check.options.platform, self.files_created);
        let mut place = 0;
        loop {
            if timeline.is_crash_point(self.records) {
                match crash(self, &timeline, place) {
                    Ok(()) | Err(Stop::Crash) => {}
                    Err(stop) => return Err(stop),
                }
                place += 1;
                timeline.crashed();
            }
            let Some(next) = self.records.get(timeline.at) else { return Ok(()) };
            for store in timeline.advance(next) {
                self.session.set_image(store.event.address, store.event.width, store.event.value);
            }
        }
    }

    /// The power fails: follows recovery into everything it may do.
    fn crash(&mut self, state: &CrashState) -> Result<(), Stop> {
        self.within_time()?;
        if self.looking.is_none() {
            let eager = state.timelines().map(Timeline::eager_states).product::<BigUint>();
            let mut common = self.check.common();
            if common.stopped {
                return Err(Stop::Limit);
            }
            common.statistics.failure_points += 1;
            common.statistics.eager_states += eager;
            self.check.options.monitor.crashed(state.first.at, common.findings.len());
        }
        self.walk(state, ROOT, &mut Revealed::default(), &mut Reads::new(), true)
    }

    /// Follows recovery from a node of the tree into everything it may do after this crash.
    ///
    /// `known` says whether everything on the way here was known before.
    pub(crate) fn walk(
        &mut self,
        state: &CrashState,
        mut at: NodeId,
        revealed: &mut Revealed,
        reads: &mut Reads,
        mut known: bool,
    ) -> Result<(), Stop> {
        let depth = reads.len();
        loop {
            match self.follow_certain(state, &mut at, reads) {
                Seen::Unknown => {
                    known = false;
                    let patches = self.most_kept(state, revealed);
                    self.recover(state, &patches)?;
                    if matches!(self.check.common().tree.look(at), Seen::Unknown) {
                        // It went another way although it read the same; that is noted.
                        break;
                    }
                }
                Seen::Begin => {
                    if self.bracket(state, at, revealed, reads, known)? {
                        break;
                    }
                    at = self.check.common().tree.pass(at);
                }
                Seen::End { .. } => at = self.check.common().tree.pass(at),
                Seen::Leaf(outcome) => {
                    if self.looking.is_none() {
                        self.check.common().statistics.recoveries_saved += u64::from(known);
                        self.leaf(state, outcome, revealed, reads);
                    }
                    self.crash_recovery(state, outcome, revealed, reads)?;
                    break;
                }
                Seen::Read { address, width, site } => {
                    let line = Line::containing(address);
                    let before = revealed.get(&line).cloned();
                    let all = match &before {
                        Some(contents) => contents.clone(),
                        None => state.contents(line, self.session.image_line(line)),
                    };
                    let groups = group(&all, address, width);
                    if let [(value, _)] = groups[..] {
                        reads.push(Read { site, address, width, value, open: true });
                        at = self.check.common().tree.follow(at, value);
                        continue;
                    }
                    for (value, contents) in groups {
                        revealed.insert(line, contents);
                        reads.push(Read { site, address, width, value, open: true });
                        let next = self.check.common().tree.follow(at, value);
                        self.walk(state, next, revealed, reads, known)?;
                        reads.pop();
                    }
                    match before {
                        Some(contents) => revealed.insert(line, contents),
                        None => revealed.remove(&line),
                    };
                    break;
                }
            }
        }
        reads.truncate(depth);
        Ok(())
    }

    /// Follows recovery as long as it reads what can be but one thing; gives what comes then.
    pub(crate) fn follow_certain(&self, state: &CrashState, at: &mut NodeId, reads: &mut Reads) -> Seen {
        let mut common = self.check.common();
        loop {
            let seen = common.tree.look(*at);
            let Seen::Read { address, width, site } = seen else { return seen };
            let value = if address == CRASHES_ADDRESS {
                state.crashes() as u64
            } else if !state.is_open(Line::containing(address)) {
                self.session.image_value(address, width)
            } else {
                return seen;
            };
            reads.push(Read { site, address, width, value, open: false });
            *at = common.tree.follow(*at, value);
        }
    }

    /// Follows recovery down the one way it goes if the open lines hold what was chosen. None if it went
    /// another way although it read the same, which is noted.
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
                    if matches!(self.check.common().tree.look(at), Seen::Unknown) {
                        return Ok(None);
                    }
                }
                Seen::Begin => {
                    began = Some(reads.len());
                    at = self.check.common().tree.pass(at);
                }
                Seen::End { .. } => {
                    checksummed.extend(began.take().unwrap_or(reads.len()) as u32..reads.len() as u32);
                    at = self.check.common().tree.pass(at);
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
                    at = self.check.common().tree.follow(at, seen);
                }
            }
        }
    }

    /// What a line may hold, given what recovery's reads revealed.
    pub(crate) fn contents(&self, state: &CrashState, line: Line, revealed: &Revealed) -> Vec<Content> {
        match revealed.get(&line) {
            Some(contents) => contents.clone(),
            None => state.contents(line, self.session.image_line(line)),
        }
    }

    /// Crashes a recovery in its turn, everywhere it matters, if so many crashes are wanted.
    fn crash_recovery(
        &mut self,
        state: &CrashState,
        outcome: usize,
        revealed: &Revealed,
        reads: &Reads,
    ) -> Result<(), Stop> {
        if state.crashes() >= self.check.options.crashes {
            return Ok(());
        }
        let Outcome { writes, ignored, .. } = self.check.common().tree.outcomes[outcome].clone();
        let Some(records) = writes else { return Ok(()) };
        // What it ran on: what surely persisted of each execution, which goes with how far it came, then what was open.
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
        let new = match &mut self.looking {
            Some(crashed) => crashed.insert(key),
            None => self.check.common().recoveries_crashed.insert(key),
        };
        if !new {
            return Ok(());
        }
        let history = self.check.history(&records);
        // What it has read, as it goes along; the reads are the loads of its records.
        let mut upcoming = reads.iter().enumerate();
        let mut had_read = Reads::new();
        let mut timeline = Timeline::after(&self.check.options.platform, state.last());
        let mut persisted: FxHashMap<Line, Vec<CachedStore>> = FxHashMap::default();
        loop {
            if timeline.is_crash_point(&records) {
                let mut again = state.clone();
                again.later.push(Later {
                    revealed,
                    timeline: &timeline,
                    persisted: &persisted,
                    history: &history,
                    reads: &had_read,
                    records: &records,
                });
                self.crash(&again)?;
                timeline.crashed();
            }
            let Some(next) = records.get(timeline.at) else { return Ok(()) };
            if next.kind() == Kind::Load as u8
                && let Some((index, read)) = upcoming.next()
                && ignored.binary_search(&(index as u32)).is_err()
            {
                had_read.push(*read);
            }
            timeline.advance_into(next, &mut persisted);
        }
    }

    /// Is there still time? If not, everybody stops.
    pub(crate) fn within_time(&self) -> Result<(), Stop> {
        let options = self.check.options;
        if options.monitor.cancelled() {
            return Err(self.check.interrupted());
        }
        if options.max_time.is_none_or(|most| self.check.started.elapsed() < most) {
            return Ok(());
        }
        self.check.note("stopped after the time allowed (--time)".into());
        self.check.common().stopped = true;
        Err(Stop::Limit)
    }

    /// Is there still room for another recovery? If not, everybody stops.
    fn within_limits(&self) -> Result<(), Stop> {
        let options = self.check.options;
        if options.max_per_crash.is_some_and(|most| self.recoveries >= most) {
            let most = self.recoveries;
            self.check.note(format!(
                "some crashes can be recovered from in more than {most} ways: only so many were tried \
                 (--max-per-crash); fix what is found first, or give a higher number"
            ));
            return Err(Stop::Crash);
        }
        let recoveries = self.check.common().statistics.recoveries;
        if options.max_recoveries.is_some_and(|most| recoveries >= most) {
            self.check.note(format!("stopped after {recoveries} recoveries (--max-recoveries)"));
            self.check.common().stopped = true;
            return Err(Stop::Limit);
        }
        self.within_time()
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
        if self.looking.is_some() {
            return Err(Stop::NotKnown);
        }
        self.within_limits()?;
        if let Some(left) = &mut self.runs_left {
            *left = left.checked_sub(1).ok_or(Stop::Limit)?;
        }
        self.recoveries += 1;
        let (options, schedule) = (self.check.options, self.schedule);
        // What other recoveries created is on disk but does not exist.
        let files_absent = state.last().files_absent | self.session.files_created() & !self.files_created;
        let control = self.session.control();
        control.mode = mode::RECOVER;
        schedule.apply(control);
        control.crashes = state.crashes() as u32;
        control.arena_end = state.last().arena_end;
        control.files_absent = files_absent;
        control.heap_ends = state.last().heap_ends;
        control.max_records = (self.records.len() as u64 * 20 + 1_000_000).min(options.max_records);
        control.max_cpu_seconds = options.max_cpu_seconds;
        let ending = match self.session.run(patches) {
            Ok(ending) => ending,
            Err(Error::Interrupted) => return Err(self.check.interrupted()),
            Err(error) => return Err(Stop::Error(error)),
        };
        let threads = self.session.control().threads;
        let output =
            if ending == Ending::Exit(0) { String::new() } else { self.session.output_about(ending) };
        let records = self.session.records().to_vec();
        self.check.note_unknown(&records, 1);
        let stores = |record: &Record| record.event_kind().is_some_and(Kind::stores);
        let writes = (options.crashes > 1 && records.iter().any(stores)).then(|| Arc::new(records.clone()));
        let ignored = ignored(&records).into();
        let added = {
            let mut common = self.check.common();
            common.statistics.recoveries += 1;
            common.recovery_has_threads |= threads > 1;
            let added = common.tree.add(&records, Outcome { ending, output, writes, ignored });
            options.monitor.recovered(common.tree.behaviours(), common.findings.len());
            added
        };
        if let Err(diverged) = added {
            let place = |read: Option<(u64, u32)>| match read {
                Some((address, site)) => {
                    let place = self.check.sites.of_recovery().get(site);
                    format!("read {address:#x} at {}:{}", place.file, place.line)
                }
                None => "ended".into(),
            };
            self.check.note(format!(
                "recovery is not repeatable: after reading the same it once {}, once {}",
                place(diverged.expected),
                place(diverged.found)
            ));
        }
        Ok(())
    }
}

/// The contents by the value they show at `address`, those with the most stores kept first.
pub(crate) fn group(all: &[Content], address: u64, width: u8) -> Vec<(u64, Vec<Content>)> {
    let mut groups: Vec<(u64, Vec<Content>)> = Vec::new();
    for content in all.iter().rev() {
        let seen = value(&content.bytes, address, width);
        match groups.iter_mut().find(|(value, _)| *value == seen) {
            Some((_, members)) => members.push(content.clone()),
            None => groups.push((seen, vec![content.clone()])),
        }
    }
    groups
}
