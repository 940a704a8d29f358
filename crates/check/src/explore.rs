//! Crashes everywhere, and walks the tree of what recovery does.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crashproof_protocol::{ARENA, CRASHES_ADDRESS, Patch, Record, mode, record};
use num_bigint::BigUint;
use px86::storage::CachedStore;
use px86::{Kind, Line, Platform};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use crate::crash::{Content, CrashState, Later, Revealed, value};
use crate::failure::{Failure, Finding, Related, Role, Token, TokenCrash, store_text};
use crate::session::{Ending, Error, Session};
use crate::sites::Sites;
use crate::timeline::Timeline;
use crate::tree::{Node, NodeId, Outcome, ROOT, Tree};
use crate::wasted::{Waste, wasted};

/// What to check, and how far to go.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program, built with crashproof.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// What to call the program in replay tokens, if not by its path: the source it was built from.
    pub built_from: Option<PathBuf>,
    /// Whether caches survive.
    pub platform: Platform,
    /// How many crashes in a row, 1 to [`crate::MAX_CRASHES`]: from 2 on recovery is crashed too.
    pub crashes: usize,
    /// Recoveries to run at most.
    pub max_recoveries: Option<u64>,
    /// Time to spend at most.
    pub max_time: Option<Duration>,
    /// PM events a single run may have.
    pub max_records: u64,
    /// Seconds of processor time a recovery may take.
    pub max_cpu_seconds: u32,
}

impl Options {
    /// The usual limits for a program.
    pub fn new(program: PathBuf, arguments: Vec<OsString>) -> Options {
        Options {
            program,
            arguments,
            built_from: None,
            platform: Platform::Adr,
            crashes: 1,
            max_recoveries: None,
            max_time: None,
            max_records: 50_000_000,
            max_cpu_seconds: 10,
        }
    }
}

/// Figures about a check.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// PM events of the recorded run.
    pub events: u64,
    /// Places where the program was crashed.
    pub failure_points: u64,
    /// Recoveries run.
    pub recoveries: u64,
    /// Recoveries that need not run, because their behaviour was known.
    pub recoveries_saved: u64,
    /// Different things recovery was seen to do.
    pub behaviours: u64,
    /// Recoveries an eager checker would run.
    pub eager_states: BigUint,
    /// Time for recording.
    pub recording: Duration,
    /// Time for everything else.
    pub exploring: Duration,
}

/// What came of a check.
#[derive(Clone, Debug)]
pub struct Report {
    /// What is wrong, the least that must be lost first.
    pub findings: Vec<Finding>,
    /// Flushes and fences that did nothing.
    pub waste: Vec<Waste>,
    /// Why the check is not complete; empty if it is.
    pub unknown: Vec<String>,
    /// How many crashes in a row were tried.
    pub crashes: usize,
    /// Figures.
    pub statistics: Statistics,
}

const NO_PM_HELP: &str = "persistent memory is: globals marked PERSISTENT and memory from crashproof_alloc (crashproof.h), \
files mapped under the PM path, and whatever libpmem maps";

/// Checks a program.
pub fn check(options: &Options) -> Result<Report, Error> {
    let started = Instant::now();
    let mut session = Session::start(&options.program, &options.arguments)?;
    let sites = Sites::parse(&session.site_table()?);
    let records = record_run(&mut session, options)?;
    let recording = started.elapsed();
    let mut explorer = Explorer {
        options,
        session,
        sites: &sites,
        records: &records,
        tree: Tree::new(),
        findings: BTreeMap::new(),
        unknown: Vec::new(),
        recoveries_crashed: FxHashSet::default(),
        statistics: Statistics { events: records.len() as u64, recording, ..Statistics::default() },
        started,
    };
    explorer.note_unknown(&records);
    explorer.run()?;
    let mut statistics = explorer.statistics;
    statistics.behaviours = explorer.tree.behaviours() as u64;
    statistics.exploring = started.elapsed() - recording;
    let mut findings: Vec<Finding> = explorer.findings.into_values().collect();
    findings.sort_by_key(|finding| finding.lost);
    Ok(Report {
        findings,
        waste: wasted(&records, &sites),
        unknown: explorer.unknown,
        crashes: options.crashes,
        statistics,
    })
}

/// Runs the program once, undisturbed, and records it.
pub(crate) fn record_run(session: &mut Session, options: &Options) -> Result<Vec<Record>, Error> {
    let control = session.control();
    control.mode = mode::RECORD;
    control.crashes = 0;
    control.arena_end = ARENA.base;
    control.max_records = options.max_records;
    control.max_cpu_seconds = 0;
    let ending = session.run(&[])?;
    if let Some(failure) = Failure::of(ending) {
        return Err(Error::FailsAlone {
            how: format!("it {}", failure.describe()),
            output: session.output_tail(),
        });
    }
    let records = session.records().to_vec();
    if !records.iter().any(|record| record.event_kind().is_some_and(Kind::stores)) {
        return Err(Error::NoPersistentMemory { help: NO_PM_HELP });
    }
    Ok(records)
}

struct Explorer<'a> {
    options: &'a Options,
    session: Session,
    sites: &'a Sites,
    records: &'a [Record],
    tree: Tree,
    /// By what is wrong: the failure, and the place of the first lost store.
    findings: BTreeMap<(String, u32), Finding>,
    unknown: Vec<String>,
    /// Recoveries that were crashed, by behaviour and what they ran on: each once.
    recoveries_crashed: FxHashSet<u64>,
    statistics: Statistics,
    started: Instant,
}

/// Why a walk ended early.
enum Stop {
    /// A limit was hit; the reason is noted.
    Limit,
    /// The machine is at its limits.
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Error(error)
    }
}

/// What recovery read on the way to a leaf: the site, and the line if there was a choice.
type Reads = Vec<(u32, u64, u8, u64)>;

impl Explorer<'_> {
    fn note_unknown(&mut self, records: &[Record]) {
        for unknown in records.iter().filter(|r| r.kind == record::UNKNOWN) {
            let place = self.sites.get(unknown.site);
            let reason = format!("{}:{}: not understood: {}", place.file, place.line, place.text);
            if !self.unknown.contains(&reason) {
                self.unknown.push(reason);
            }
        }
    }

    fn run(&mut self) -> Result<(), Error> {
        let mut timeline = Timeline::new(self.options.platform, ARENA.base);
        let records = self.records;
        loop {
            if timeline.is_crash_point(records) {
                let state = CrashState { first: &timeline, later: Vec::new() };
                match self.crash(&state) {
                    Ok(()) => {}
                    Err(Stop::Limit) => return Ok(()),
                    Err(Stop::Error(error)) => return Err(error),
                }
                timeline.crashed();
            }
            let Some(next) = records.get(timeline.at) else { return Ok(()) };
            for store in timeline.advance(next) {
                self.session.set_image(store.event.address, store.event.width, store.event.value);
            }
        }
    }

    /// The power fails: follows recovery into everything it may do.
    fn crash(&mut self, state: &CrashState) -> Result<(), Stop> {
        self.statistics.failure_points += 1;
        self.statistics.eager_states += state.timelines().map(Timeline::eager_states).product::<BigUint>();
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
            match &self.tree.nodes[at] {
                Node::Unknown => {
                    known = false;
                    self.recover(state, revealed)?;
                    if matches!(self.tree.nodes[at], Node::Unknown) {
                        // It went another way although it read the same; that is noted.
                        break;
                    }
                }
                Node::Leaf(outcome) => {
                    let outcome = *outcome;
                    self.statistics.recoveries_saved += u64::from(known);
                    self.leaf(state, outcome, revealed, reads);
                    self.crash_recovery(state, outcome, revealed)?;
                    break;
                }
                &Node::Read { address, width, site, .. } => {
                    let line = Line::containing(address);
                    let certain = if address == CRASHES_ADDRESS {
                        Some(state.crashes() as u64)
                    } else if !state.is_open(line) {
                        Some(self.session.image_value(address, width))
                    } else {
                        None
                    };
                    if let Some(value) = certain {
                        reads.push((site, address, width, value));
                        at = self.tree.follow(at, value);
                        continue;
                    }
                    let before = revealed.get(&line).cloned();
                    let all = match &before {
                        Some(contents) => contents.clone(),
                        None => state.contents(line, self.session.image_line(line)),
                    };
                    let groups = group(&all, address, width);
                    if let [(value, _)] = groups[..] {
                        reads.push((site, address, width, value));
                        at = self.tree.follow(at, value);
                        continue;
                    }
                    for (value, contents) in groups {
                        revealed.insert(line, contents);
                        reads.push((site, address, width, value));
                        let next = self.tree.follow(at, value);
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

    /// Crashes a recovery in its turn, everywhere it matters, if so many crashes are wanted.
    fn crash_recovery(
        &mut self,
        state: &CrashState,
        outcome: usize,
        revealed: &Revealed,
    ) -> Result<(), Stop> {
        let Some(records) = self.tree.outcomes[outcome].writes.clone() else { return Ok(()) };
        if state.crashes() >= self.options.crashes {
            return Ok(());
        }
        let mut hasher = FxHasher::default();
        (outcome, state.crashes()).hash(&mut hasher);
        let mut lines: Vec<Line> = state.open_lines().into_iter().collect();
        lines.sort_unstable();
        for line in lines {
            let contents = match revealed.get(&line) {
                Some(contents) => contents.clone(),
                None => state.contents(line, self.session.image_line(line)),
            };
            line.hash(&mut hasher);
            contents.iter().for_each(|content| content.bytes.hash(&mut hasher));
        }
        if !self.recoveries_crashed.insert(hasher.finish()) {
            return Ok(());
        }
        let mut timeline = Timeline::new(self.options.platform, state.arena_end());
        let mut persisted: FxHashMap<Line, Vec<CachedStore>> = FxHashMap::default();
        loop {
            if timeline.is_crash_point(&records) {
                let mut again = state.clone();
                again.later.push(Later { revealed, timeline: &timeline, persisted: &persisted });
                self.crash(&again)?;
                timeline.crashed();
            }
            let Some(next) = records.get(timeline.at) else { return Ok(()) };
            for store in timeline.advance(next) {
                persisted.entry(Line::containing(store.event.address)).or_default().push(store);
            }
        }
    }

    /// Runs recovery with contents that agree with what it is to read; adds what it did to the tree.
    fn recover(&mut self, state: &CrashState, revealed: &Revealed) -> Result<(), Stop> {
        let limit = |what: String, unknown: &mut Vec<String>| {
            unknown.push(what);
            Stop::Limit
        };
        if self.options.max_recoveries.is_some_and(|most| self.statistics.recoveries >= most) {
            let most = self.statistics.recoveries;
            return Err(limit(
                format!("stopped after {most} recoveries (--max-recoveries)"),
                &mut self.unknown,
            ));
        }
        if self.options.max_time.is_some_and(|most| self.started.elapsed() >= most) {
            return Err(limit("stopped after the time allowed (--time)".into(), &mut self.unknown));
        }
        let patches: Vec<Patch> = state
            .open_lines()
            .into_iter()
            .map(|line| {
                let contents = match revealed.get(&line) {
                    Some(contents) => contents.clone(),
                    None => state.contents(line, self.session.image_line(line)),
                };
                Patch { address: line.start(), bytes: Content::most_kept(&contents).bytes }
            })
            .collect();
        let control = self.session.control();
        control.mode = mode::RECOVER;
        control.crashes = state.crashes() as u32;
        control.arena_end = state.arena_end();
        control.max_records = (self.records.len() as u64 * 20 + 1_000_000).min(self.options.max_records);
        control.max_cpu_seconds = self.options.max_cpu_seconds;
        let ending = self.session.run(&patches)?;
        self.statistics.recoveries += 1;
        let output = if ending == Ending::Exit(0) { String::new() } else { self.session.output_tail() };
        let records = self.session.records().to_vec();
        self.note_unknown(&records);
        let stores = |record: &Record| record.event_kind().is_some_and(Kind::stores);
        let writes =
            (self.options.crashes > 1 && records.iter().any(stores)).then(|| Rc::new(records.clone()));
        if let Err(diverged) = self.tree.add(&records, Outcome { ending, output, writes }) {
            let place = |read: Option<(u64, u32)>| match read {
                Some((address, site)) => {
                    let place = self.sites.get(site);
                    format!("read {address:#x} at {}:{}", place.file, place.line)
                }
                None => "ended".into(),
            };
            let reason = format!(
                "recovery is not repeatable: after reading the same it once {}, once {}",
                place(diverged.expected),
                place(diverged.found)
            );
            if !self.unknown.contains(&reason) {
                self.unknown.push(reason);
            }
        }
        Ok(())
    }

    /// Recovery ended; if it failed, that is a finding.
    fn leaf(&mut self, state: &CrashState, outcome: usize, revealed: &Revealed, reads: &Reads) {
        let outcome = &self.tree.outcomes[outcome];
        let Some(failure) = Failure::of(outcome.ending) else { return };
        let mut told =
            Told { sites: self.sites, lost: 0, first_lost: None, places: Vec::new(), crashes: Vec::new() };
        let mut crash_site = 0;
        for (level, timeline) in state.timelines().enumerate() {
            // What recovery read later says most about what every execution lost.
            let revealed = state.later.get(level).map_or(revealed, |later| later.revealed);
            crash_site = told.execution(level, timeline, revealed);
        }
        let first = told.first_lost.unwrap_or(crash_site);
        let key = (format!("{failure:?}"), first);
        if let Some(known) = self.findings.get_mut(&key) {
            known.count += 1;
            if (known.crashes, known.lost) <= (state.crashes(), told.lost) {
                return;
            }
        }
        told.reads(revealed, reads);
        let program = self.options.built_from.as_ref().unwrap_or(&self.options.program);
        let token = Token {
            v: 1,
            program: program.to_string_lossy().into_owned(),
            arguments: self
                .options
                .arguments
                .iter()
                .map(|text| text.to_string_lossy().into_owned())
                .collect(),
            crashes: told.crashes,
        };
        let count = self.findings.get(&key).map_or(1, |known| known.count);
        let finding = Finding {
            failure,
            place: self.sites.get(first).clone(),
            lost: told.lost,
            crashes: state.crashes(),
            related: told.places,
            output: outcome.output.clone(),
            replay: token.encode(),
            count,
        };
        self.findings.insert(key, finding);
    }
}

/// A failure, told from the first execution on.
struct Told<'a> {
    sites: &'a Sites,
    lost: usize,
    first_lost: Option<u32>,
    places: Vec<Related>,
    crashes: Vec<TokenCrash>,
}

impl Told<'_> {
    fn add(&mut self, role: Role, site: u32, message: String) {
        self.places.push(Related { role, place: self.sites.get(site).clone(), message });
    }

    /// Tells of one execution and its crash; gives the site at which it crashed.
    fn execution(&mut self, level: usize, timeline: &Timeline, revealed: &Revealed) -> u32 {
        let mut lost: Vec<CachedStore> = Vec::new();
        let mut survived: Vec<CachedStore> = Vec::new();
        let mut kept = Vec::new();
        for (&line, contents) in revealed {
            let stores = timeline.stores(line);
            let count = (Content::most_kept(contents).kept[level] as usize).min(stores.len());
            survived.extend(&stores[..count]);
            lost.extend(&stores[count..]);
            if count < stores.len() {
                kept.push((line.0, count));
            }
        }
        lost.sort_by_key(|store| store.at);
        survived.sort_by_key(|store| store.at);
        kept.sort_unstable();
        self.lost += lost.len();
        if self.first_lost.is_none() {
            self.first_lost = lost.first().map(|store| store.event.site.0);
        }
        lost.iter().for_each(|store| self.add(Role::Lost, store.event.site.0, store_text(store)));
        if let Some(store) = survived.last() {
            self.add(Role::Survived, store.event.site.0, store_text(store));
        }
        let (site, at_end) = timeline.next_site();
        let again = if level == 0 { "" } else { "again, in recovery, " };
        let where_ = if at_end { "at the end of the run" } else { "just before this" };
        self.add(Role::Crash, site, format!("the power fails {again}{where_}"));
        self.crashes.push(TokenCrash { at: timeline.at, kept });
        site
    }

    /// Tells what the last recovery read that it might have read differently, and what it read last.
    fn reads(&mut self, revealed: &Revealed, reads: &Reads) {
        let last = reads.len().wrapping_sub(1);
        for (index, &(site, address, width, value)) in reads.iter().enumerate() {
            let chosen = revealed.contains_key(&Line::containing(address));
            if chosen || index == last {
                let bytes = if width == 1 { "byte" } else { "bytes" };
                self.add(
                    Role::Read,
                    site,
                    format!("recovery reads {width} {bytes} at {address:#x}: {value:#x}"),
                );
            }
        }
    }
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
