//! Crashes a recorded run and walks the tree of what recovery does; several workers share the tree.

use std::sync::Arc;

use crashproof_protocol::{CRASHES_ADDRESS, Patch, Record, exit, mode, record};
use num_bigint::BigUint;
use px86::storage::CachedStore;
use px86::{Kind, Line};
use rustc_hash::FxHashMap;

use crate::crash::{Content, CrashState, Later, Revealed, value};
use crate::explore::{Check, Common};
use crate::failure::{Failure, Finding};
use crate::history::History;
use crate::judge::{Met, judge};
use crate::schedule::Schedule;
use crate::session::{Ending, Error, Session};
use crate::suppress::Suppression;
use crate::timeline::Timeline;
use crate::told::{Read, Reads, Told};
use crate::tree::{NodeId, Outcome, ROOT, Seen};

/// Places to crash that a worker takes at once.
const BLOCK: usize = 64;

pub(crate) struct Worker<'a> {
    check: &'a Check<'a>,
    session: Session,
    records: &'a [Record],
    history: &'a History<'a>,
    schedule: Schedule,
    /// Files on the PM path that the recorded run created; a bit each.
    files_created: u64,
    /// Recoveries run for the crash of the recorded run that is being explored.
    recoveries: u64,
}

/// Why a walk ended early.
enum Stop {
    /// A limit was hit; the reason is noted.
    Limit,
    /// This crash has too many behaviours; the reason is noted, others go on.
    Crash,
    /// The machine is at its limits.
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Error(error)
    }
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
        Worker { check, session, records, history, schedule, files_created, recoveries: 0 }
    }

    /// Crashes the run at this worker's share of the places. Gives the session back.
    ///
    /// Shares are blocks: crashes close to each other make recovery do the same, and one worker should find
    /// that out.
    pub(crate) fn run(mut self, number: usize, of: usize) -> Result<Session, Error> {
        let mut timeline = Timeline::first(self.check.options.platform, self.files_created);
        let mut place = 0;
        loop {
            if timeline.is_crash_point(self.records) {
                if place / BLOCK % of == number {
                    let state = CrashState { first: &timeline, history: self.history, later: Vec::new() };
                    self.recoveries = 0;
                    match self.crash(&state) {
                        Ok(()) | Err(Stop::Crash) => {}
                        Err(Stop::Limit) => return Ok(self.session),
                        Err(Stop::Error(error)) => return Err(error),
                    }
                }
                place += 1;
                timeline.crashed();
            }
            let Some(next) = self.records.get(timeline.at) else { return Ok(self.session) };
            for store in timeline.advance(next) {
                self.session.set_image(store.event.address, store.event.width, store.event.value);
            }
        }
    }

    /// The power fails: follows recovery into everything it may do.
    fn crash(&mut self, state: &CrashState) -> Result<(), Stop> {
        let eager = state.timelines().map(Timeline::eager_states).product::<BigUint>();
        {
            let mut common = self.check.common();
            if common.stopped {
                return Err(Stop::Limit);
            }
            common.statistics.failure_points += 1;
            common.statistics.eager_states += eager;
        }
        self.walk(state, ROOT, &mut Revealed::default(), &mut Reads::new(), true)
    }

    /// Follows recovery from a node of the tree into everything it may do after this crash.
    ///
    /// `known` says whether everything on the way here was known before.
    fn walk(
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
                    self.recover(state, revealed)?;
                    if matches!(self.check.common().tree.look(at), Seen::Unknown) {
                        // It went another way although it read the same; that is noted.
                        break;
                    }
                }
                Seen::Leaf(outcome) => {
                    self.check.common().statistics.recoveries_saved += u64::from(known);
                    self.leaf(state, outcome, revealed, reads);
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
    fn follow_certain(&self, state: &CrashState, at: &mut NodeId, reads: &mut Reads) -> Seen {
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

    /// What a line may hold, given what recovery's reads revealed.
    fn contents(&self, state: &CrashState, line: Line, revealed: &Revealed) -> Vec<Content> {
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
        let mut key: Vec<u8> = [outcome, state.crashes()].map(usize::to_le_bytes).concat();
        let mut lines: Vec<Line> = state.open_lines().into_iter().collect();
        lines.sort_unstable();
        for line in lines {
            let contents = self.contents(state, line, revealed);
            key.extend(line.0.to_le_bytes());
            key.extend(contents.len().to_le_bytes());
            contents.iter().for_each(|content| key.extend(content.bytes));
        }
        if !self.check.common().recoveries_crashed.insert(key) {
            return Ok(());
        }
        let robust = self.check.options.robust;
        let history = if robust { History::of(&records) } else { History::unknown() };
        // What it has read, as it goes along; the reads are the loads of its records.
        let mut upcoming = reads.iter().enumerate();
        let mut had_read = Reads::new();
        let mut timeline = Timeline::after(self.check.options.platform, state.last());
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
                });
                self.crash(&again)?;
                timeline.crashed();
            }
            let Some(next) = records.get(timeline.at) else { return Ok(()) };
            if next.kind == Kind::Load as u8
                && let Some((index, read)) = upcoming.next()
                && ignored.binary_search(&(index as u32)).is_err()
            {
                had_read.push(*read);
            }
            for store in timeline.advance(next) {
                persisted.entry(Line::containing(store.event.address)).or_default().push(store);
            }
        }
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
        let reason = if options.max_recoveries.is_some_and(|most| recoveries >= most) {
            format!("stopped after {recoveries} recoveries (--max-recoveries)")
        } else if options.max_time.is_some_and(|most| self.check.started.elapsed() >= most) {
            "stopped after the time allowed (--time)".into()
        } else {
            return Ok(());
        };
        self.check.note(reason);
        self.check.common().stopped = true;
        Err(Stop::Limit)
    }

    /// Runs recovery with contents that agree with what it is to read; adds what it did to the tree.
    fn recover(&mut self, state: &CrashState, revealed: &Revealed) -> Result<(), Stop> {
        self.within_limits()?;
        self.recoveries += 1;
        let patches: Vec<Patch> = state
            .open_lines()
            .into_iter()
            .map(|line| {
                let contents = self.contents(state, line, revealed);
                Patch { address: line.start(), bytes: Content::most_kept(&contents).bytes }
            })
            .collect();
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
        let ending = self.session.run(&patches)?;
        let threads = self.session.control().threads;
        let output = if ending == Ending::Exit(0) { String::new() } else { self.session.output_tail() };
        let records = self.session.records().to_vec();
        self.check.note_unknown(&records);
        let stores = |record: &Record| record.event_kind().is_some_and(Kind::stores);
        let writes = (options.crashes > 1 && records.iter().any(stores)).then(|| Arc::new(records.clone()));
        let ignored = ignored(&records).into();
        let added = {
            let mut common = self.check.common();
            common.statistics.recoveries += 1;
            common.recovery_has_threads |= threads > 1;
            common.tree.add(&records, Outcome { ending, output, writes, ignored })
        };
        if let Err(diverged) = added {
            let place = |read: Option<(u64, u32)>| match read {
                Some((address, site)) => {
                    let place = self.check.sites.get(site);
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

    /// Is the violation known to be harmless where it was lost or seen?
    fn is_suppressed(&self, state: &CrashState, met: &Met) -> bool {
        let suppress = &self.check.options.suppress;
        if suppress.is_empty() {
            return false;
        }
        let records = state.history(met.level).records;
        let lost = met.lost.iter().map(|store| records[*store as usize].site);
        let sites: Vec<u32> = lost.chain(met.reads.map(|read| read.site)).collect();
        let covers = |suppression: &Suppression| {
            sites.iter().any(|site| suppression.covers(self.check.sites.get(*site)))
        };
        let Some(number) = suppress.iter().position(covers) else { return false };
        self.check.common().suppressions_used.insert(number);
        true
    }

    /// Adds violations to those that were met before.
    fn note_violations(&self, common: &mut Common, state: &CrashState, violations: &[Met]) {
        for met in violations {
            let site = state.history(met.level).records[met.flush_after as usize].site;
            let rank = met.rank(state, self.schedule.seed);
            let mut count = 1;
            if let Some((known, known_rank)) = common.violations.get_mut(&site) {
                known.count += 1;
                count = known.count;
                if *known_rank <= rank {
                    continue;
                }
            }
            let mut violation = met.tell(&self.check.sites, state, self.schedule.seed);
            violation.count = count;
            common.violations.insert(site, (violation, rank));
        }
    }

    /// Recovery ended; if it failed, that is a finding, and so is what it read if no machine without caches could
    /// have left it.
    fn leaf(&self, state: &CrashState, outcome: usize, revealed: &Revealed, reads: &Reads) {
        let mut violations = Vec::new();
        if self.check.options.robust {
            let ignored = Arc::clone(&self.check.common().tree.outcomes[outcome].ignored);
            violations = judge(&self.session, &self.check.sites, state, revealed, reads, &ignored);
            violations.retain(|met| !self.is_suppressed(state, met));
        }
        let mut common = self.check.common();
        self.note_violations(&mut common, state, &violations);
        let Outcome { ending, output, .. } = &common.tree.outcomes[outcome];
        let output = output.clone();
        if *ending == Ending::Exit(exit::UNSUPPORTED) {
            drop(common);
            self.check.note(format!("recovery did something that cannot be followed: {output}"));
            return;
        }
        let Some(failure) = Failure::of(*ending) else { return };
        let mut told = Told::new(&self.check.sites);
        let mut crash_site = 0;
        for (level, timeline) in state.timelines().enumerate() {
            // What the recovery after it read says most about what an execution lost.
            let revealed = state.later.get(level).map_or(revealed, |later| later.revealed);
            crash_site = told.execution(level, timeline, revealed);
        }
        // Of several flushes that are missing, what was read last led here.
        let cause = violations.iter().filter(|met| !met.same_value).max_by_key(|met| met.seen_at);
        let lost = cause.map(|met| state.history(met.level).records[met.lost[0] as usize].site);
        let first = lost.or(told.first_lost).unwrap_or(crash_site);
        let key = (format!("{failure:?}"), first);
        let at = state.first.at;
        let mut count = 1;
        if let Some((known, known_at)) = common.findings.get_mut(&key) {
            known.count += 1;
            count = known.count;
            // Of several ways to the same failure the simplest is told, whoever found it first.
            if (known.crashes, known.lost, known.seed, *known_at)
                <= (state.crashes(), told.lost, self.schedule.seed, at)
            {
                return;
            }
        }
        told.reads(revealed, reads);
        let finding = Finding {
            failure,
            place: self.check.sites.get(first).clone(),
            lost: told.lost,
            crashes: state.crashes(),
            related: told.places,
            output,
            replay: self.check.token(self.schedule, told.crashes).encode(),
            count,
            seed: self.schedule.seed,
            cause: cause.map(|met| Box::new(met.tell(&self.check.sites, state, self.schedule.seed))),
        };
        common.findings.insert(key, (finding, at));
    }
}

/// Which of a recovery's reads do not count for robustness: those under a checksum that did not match, and those
/// that the program says it tolerates anything of.
fn ignored(records: &[Record]) -> Vec<u32> {
    let mut ignored = Vec::new();
    let mut number = 0;
    // For each thread, the brackets it is in, with the reads since each began.
    let mut open: FxHashMap<u16, Vec<Vec<u32>>> = FxHashMap::default();
    for next in records {
        match next.kind {
            record::CHECKSUM_BEGIN | record::TOLERATE_BEGIN => {
                open.entry(next.thread).or_default().push(Vec::new());
            }
            record::CHECKSUM_END | record::TOLERATE_END => {
                let matched = next.kind == record::CHECKSUM_END && next.address != 0;
                let brackets = open.entry(next.thread).or_default();
                let reads = brackets.pop().unwrap_or_default();
                match brackets.last_mut() {
                    // It is up to the bracket around it.
                    Some(outer) if matched => outer.extend(reads),
                    None if matched => {}
                    _ => ignored.extend(reads),
                }
            }
            _ if next.kind == Kind::Load as u8 => {
                if let Some(reads) = open.get_mut(&next.thread).and_then(|brackets| brackets.last_mut()) {
                    reads.push(number);
                }
                number += 1;
            }
            _ => {}
        }
    }
    // A checksum that never came to be compared.
    ignored.extend(open.into_values().flatten().flatten());
    ignored.sort_unstable();
    ignored
}

/// The contents by the value they show at `address`, those with the most stores kept first.
fn group(all: &[Content], address: u64, width: u8) -> Vec<(u64, Vec<Content>)> {
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
