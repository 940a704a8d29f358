//! Crashes everywhere, and walks the tree of what recovery does.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crashproof_protocol::{ARENA, HEAP_CLASSES, Patch, Record, flag, mode, reason, record};
use num_bigint::BigUint;
use px86::storage::CachedStore;
use px86::{Kind, Line, Platform};
use rustc_hash::FxHashMap;

use crate::crash::{Content, apply, contents, value};
use crate::failure::{Failure, Finding, Related, Role, Token, store_text};
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
    /// Whether caches survive.
    pub platform: Platform,
    /// Recoveries to run at most.
    pub max_recoveries: Option<u64>,
    /// Time to spend at most.
    pub max_time: Option<Duration>,
    /// PM events a single run may have.
    pub max_records: u64,
    /// Seconds of processor time a recovery may take.
    pub max_cpu_seconds: u32,
    /// Bytes of memory a run may take beyond what the program has before `main`.
    pub max_memory: u64,
    /// Files below these count as persistent memory when they are mapped; if empty, the runtime's own idea
    /// of where such files are.
    pub pm_path: Vec<PathBuf>,
    /// Whether the heap is persistent memory too.
    pub pm_heap: bool,
}

impl Options {
    /// The usual limits for a program.
    pub fn new(program: PathBuf, arguments: Vec<OsString>) -> Options {
        Options {
            program,
            arguments,
            platform: Platform::Adr,
            max_recoveries: None,
            max_time: None,
            max_records: 50_000_000,
            max_cpu_seconds: 10,
            max_memory: 4 << 30,
            pm_path: Vec::new(),
            pm_heap: false,
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
    /// Figures.
    pub statistics: Statistics,
}

const NO_PM_HELP: &str = "persistent memory is: globals marked PERSISTENT and memory from crashproof_alloc (crashproof.h), \
files mapped under the PM path, and whatever libpmem maps";

/// Checks a program.
pub fn check(options: &Options) -> Result<Report, Error> {
    let started = Instant::now();
    let mut session = Session::start(&options.program, &options.arguments, &options.pm_path)?;
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
        statistics: Statistics { events: records.len() as u64, recording, ..Statistics::default() },
        started,
        files_created: 0,
    };
    explorer.note_unknown(&records);
    explorer.run()?;
    let mut statistics = explorer.statistics;
    statistics.behaviours = explorer.tree.behaviours() as u64;
    statistics.exploring = started.elapsed() - recording;
    let mut findings: Vec<Finding> = explorer.findings.into_values().collect();
    findings.sort_by_key(|finding| finding.lost);
    Ok(Report { findings, waste: wasted(&records, &sites), unknown: explorer.unknown, statistics })
}

/// Runs the program once, undisturbed, and records it.
fn record_run(session: &mut Session, options: &Options) -> Result<Vec<Record>, Error> {
    let control = session.control();
    control.mode = mode::RECORD;
    control.crashes = 0;
    control.arena_end = ARENA.base;
    control.max_records = options.max_records;
    control.max_cpu_seconds = 0;
    control.max_memory = options.max_memory;
    control.files_absent = 0;
    control.heap_ends = [0; HEAP_CLASSES];
    control.flags = if options.pm_heap { flag::PM_HEAP } else { 0 };
    let ending = session.run(&[])?;
    if let Some(failure) = Failure::of(ending) {
        return Err(Error::FailsAlone {
            how: format!("it {}", failure.describe()),
            output: session.output_tail(),
        });
    }
    let records = session.records().to_vec();
    let known =
        |record: &Record| record.kind == record::UNKNOWN || record.event_kind().is_some_and(Kind::stores);
    if !records.iter().any(known) {
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
    statistics: Statistics,
    started: Instant,
    /// Files on the PM path that the recorded run created; a bit each.
    files_created: u64,
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
            let what = match unknown.value {
                reason::SITE => format!("not understood: {}", place.text),
                value => reason::text(value).to_owned(),
            };
            let reason = format!("{}:{}: {what}", place.file, place.line);
            if !self.unknown.contains(&reason) {
                self.unknown.push(reason);
            }
        }
    }

    fn run(&mut self) -> Result<(), Error> {
        let mut timeline = Timeline::new(self.options.platform, ARENA.base);
        self.files_created = self.session.files_created();
        timeline.files_absent = self.files_created;
        loop {
            if timeline.is_crash_point(self.records) {
                self.statistics.failure_points += 1;
                self.statistics.eager_states += timeline.eager_states();
                let mut refined = FxHashMap::default();
                let mut reads = Reads::new();
                match self.walk(&timeline, ROOT, &mut refined, &mut reads, true) {
                    Ok(()) => {}
                    Err(Stop::Limit) => return Ok(()),
                    Err(Stop::Error(error)) => return Err(error),
                }
                timeline.crashed();
            }
            let Some(next) = self.records.get(timeline.at) else { return Ok(()) };
            for store in timeline.advance(next) {
                self.session.set_image(store.event.address, store.event.width, store.event.value);
            }
        }
    }

    /// Follows recovery from a node of the tree into everything it may do after this crash.
    ///
    /// `known` says whether everything on the way here was known before.
    fn walk(
        &mut self,
        timeline: &Timeline,
        mut at: NodeId,
        refined: &mut FxHashMap<Line, Vec<Content>>,
        reads: &mut Reads,
        mut known: bool,
    ) -> Result<(), Stop> {
        let depth = reads.len();
        loop {
            match &self.tree.nodes[at] {
                Node::Unknown => {
                    known = false;
                    self.recover(timeline, refined)?;
                    if matches!(self.tree.nodes[at], Node::Unknown) {
                        // It went another way although it read the same; that is noted.
                        break;
                    }
                }
                Node::Leaf(outcome) => {
                    let outcome = *outcome;
                    self.statistics.recoveries_saved += u64::from(known);
                    self.leaf(timeline, outcome, refined, reads);
                    break;
                }
                &Node::Read { address, width, site, .. } => {
                    let line = Line::containing(address);
                    if !timeline.open_lines().contains(&line) {
                        let value = self.session.image_value(address, width);
                        reads.push((site, address, width, value));
                        at = self.tree.follow(at, value);
                        continue;
                    }
                    let before = refined.get(&line).cloned();
                    let all = match &before {
                        Some(contents) => contents.clone(),
                        None => contents(timeline.execution(), line, self.session.image_line(line)),
                    };
                    let groups = group(&all, address, width);
                    if let [(value, _)] = groups[..] {
                        reads.push((site, address, width, value));
                        at = self.tree.follow(at, value);
                        continue;
                    }
                    for (value, contents) in groups {
                        refined.insert(line, contents);
                        reads.push((site, address, width, value));
                        let next = self.tree.follow(at, value);
                        self.walk(timeline, next, refined, reads, known)?;
                        reads.pop();
                    }
                    match before {
                        Some(contents) => refined.insert(line, contents),
                        None => refined.remove(&line),
                    };
                    break;
                }
            }
        }
        reads.truncate(depth);
        Ok(())
    }

    /// Runs recovery with contents that agree with what it is to read; adds what it did to the tree.
    fn recover(&mut self, timeline: &Timeline, refined: &FxHashMap<Line, Vec<Content>>) -> Result<(), Stop> {
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
        let patches: Vec<Patch> = timeline
            .open_lines()
            .iter()
            .map(|&line| {
                let bytes = match refined.get(&line) {
                    Some(contents) => most_kept(contents).bytes,
                    None => latest(timeline, line, self.session.image_line(line)),
                };
                Patch { address: line.start(), bytes }
            })
            .collect();
        // What other recoveries created is on disk but does not exist.
        let files_absent = timeline.files_absent | self.session.files_created() & !self.files_created;
        let control = self.session.control();
        control.mode = mode::RECOVER;
        control.crashes = 1;
        control.arena_end = timeline.arena_end;
        control.files_absent = files_absent;
        control.heap_ends = timeline.heap_ends;
        control.max_records = (self.records.len() as u64 * 20 + 1_000_000).min(self.options.max_records);
        control.max_cpu_seconds = self.options.max_cpu_seconds;
        let ending = self.session.run(&patches)?;
        self.statistics.recoveries += 1;
        let output = if ending == Ending::Exit(0) { String::new() } else { self.session.output_tail() };
        let records = self.session.records().to_vec();
        self.note_unknown(&records);
        if let Err(diverged) = self.tree.add(&records, Outcome { ending, output }) {
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
    fn leaf(
        &mut self,
        timeline: &Timeline,
        outcome: usize,
        refined: &FxHashMap<Line, Vec<Content>>,
        reads: &Reads,
    ) {
        let outcome = &self.tree.outcomes[outcome];
        let Some(failure) = Failure::of(outcome.ending) else { return };
        let mut lost: Vec<&CachedStore> = Vec::new();
        let mut survived: Vec<&CachedStore> = Vec::new();
        let mut kept = Vec::new();
        for (&line, contents) in refined {
            let Some(history) = timeline.execution().line(line) else { continue };
            let stores = history.stores();
            let count = most_kept(contents).kept;
            survived.extend(&stores[..count]);
            lost.extend(&stores[count..]);
            if count < stores.len() {
                kept.push((line.0, count));
            }
        }
        lost.sort_by_key(|store| store.at);
        survived.sort_by_key(|store| store.at);
        kept.sort_unstable();
        let crash_site =
            self.records.get(timeline.at).or(self.records.last()).map_or(0, |record| record.site);
        let first = lost.first().map_or(crash_site, |store| store.event.site.0);
        let key = (format!("{failure:?}"), first);
        if let Some(known) = self.findings.get_mut(&key) {
            known.count += 1;
            if known.lost <= lost.len() {
                return;
            }
        }
        let related =
            |role, site: u32, message: String| Related { role, place: self.sites.get(site).clone(), message };
        let mut places: Vec<Related> = Vec::new();
        places.extend(lost.iter().map(|store| related(Role::Lost, store.event.site.0, store_text(store))));
        places.extend(
            survived.last().map(|store| related(Role::Survived, store.event.site.0, store_text(store))),
        );
        let crash_text = match timeline.at == self.records.len() {
            true => "the power fails at the end of the run",
            false => "the power fails just before this",
        };
        places.push(related(Role::Crash, crash_site, crash_text.into()));
        for &(site, address, width, value) in reads {
            if refined.contains_key(&Line::containing(address)) {
                let text = format!("recovery reads {width} bytes at {address:#x}: {value:#x}");
                places.push(related(Role::Read, site, text));
            }
        }
        if let Some(&(site, address, _, value)) = reads.last() {
            let text = format!("the last it read from before the crash was {value:#x} at {address:#x}");
            places.push(related(Role::Read, site, text));
        }
        let token = Token {
            v: 1,
            program: self.options.program.to_string_lossy().into_owned(),
            arguments: self
                .options
                .arguments
                .iter()
                .map(|text| text.to_string_lossy().into_owned())
                .collect(),
            at: timeline.at,
            kept,
        };
        let count = self.findings.get(&key).map_or(1, |known| known.count);
        let finding = Finding {
            failure,
            place: self.sites.get(first).clone(),
            lost: lost.len(),
            related: places,
            output: outcome.output.clone(),
            replay: token.encode(),
            count,
        };
        self.findings.insert(key, finding);
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

fn most_kept(contents: &[Content]) -> &Content {
    contents.iter().max_by_key(|content| content.kept).expect("a line holds something")
}

/// What an open line holds if nothing of it is lost.
fn latest(timeline: &Timeline, line: Line, mut bytes: crate::crash::Bytes) -> crate::crash::Bytes {
    if let Some(history) = timeline.execution().line(line) {
        history.stores().iter().for_each(|store| apply(&mut bytes, store));
    }
    bytes
}
