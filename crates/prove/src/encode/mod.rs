//! A program as a formula: which executions, with which crash, leave which memory.
//!
//! # The model, as axioms
//!
//! px86's machine lets instructions take effect one after another, and writes each line back for the last time at some
//! moment before the crash. As axioms over one order of all effects (Khyzha and Lahav's DPTSOsyn, in the form of the
//! SMT paper, section 2, with lines of several locations):
//!
//! - Instructions of one thread are in order where px86's table says so ([`px86::order::PRESERVED`]); `ppo.rs`.
//! - A load reads the last store to its place in that order, or the own thread's youngest store before it if that is
//!   still on its way: reads-from, coherence, from-read; `reads.rs`.
//! - A locked instruction reads and writes at one moment, so it is one node.
//! - Every line has a moment *P*, its last write-back. What the line's survivors were overwritten by comes after P
//!   (from-read again); a flush of the line that took effect comes before P: the paper's flush-before, `crash.rs`.
//! - A non-temporal store is a store and a `clflushopt` of its line, which the next fence completes: that is what
//!   deviation 3 of px86 comes to.
//! - Every P comes before the crash. A line whose cache survives ([`px86::Domain`]) has the crash itself as its P.
//!
//! # Two ways to crash
//!
//! [`CrashEncoding::Partial`]: every event has a variable *executed*; what is not executed is not in the graph, except
//! that a thread may read its own stores that never left its buffer. [`CrashEncoding::Full`]: all events are in the
//! graph, as if there was no crash, and *executed* is asked only of what a survivor needs (the paper's porf-prefix,
//! with px86's table instead of program order); flushes count only if executed. The two agree because an execution
//! can always be continued (the paper's Lemmas 1 and 2).
//!
//! # What is left out
//!
//! Loads of places that only one thread accesses are not events: they read what the thread stored there last, and are
//! terms. Loads whose value nobody uses are dropped, unless asked for ([`Settings::keep_all_reads`]): a load can always
//! read something. Stores that nobody can see take no part in any order.

mod counters;
mod crash;
mod ppo;
mod reads;
mod recovery;
pub mod strict;
mod threads;

use crashproof_ordersat::closure::Closure;
use crashproof_ordersat::{Graph, Lit, NodeId, Solver, SolverKind, SourceId};
use px86::{Class, Domain, Line, Platform};
use rustc_hash::FxHashMap;

use crate::blast::Blaster;
use crate::gates::Gates;
use crate::memory::{CellId, Lane, Memory};
use crate::program::{Program, SiteId};
use crate::term::Term;
use crate::values::Analysis;

/// How a crash is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CrashEncoding {
    /// Partial executions: DPTSOsyn.
    Partial,
    /// Full executions, of which a part was executed: DPTSOsyn,full.
    #[default]
    Full,
}

impl CrashEncoding {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            CrashEncoding::Partial => "partial",
            CrashEncoding::Full => "full",
        }
    }
}

/// What to encode, and how.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How a crash is encoded.
    pub crash: CrashEncoding,
    /// The persistence domain of the lines for which the program gives none.
    pub domain: Domain,
    /// Who solves.
    pub solver: SolverKind,
    /// Are all persistent cells observed after the crash, not only what recovery loads?
    pub observe_all: bool,
    /// Keep loads whose value nobody uses, and those of private places.
    pub keep_all_reads: bool,
    /// How many crashes in a row: from 2 on recovery crashes, too.
    pub crashes: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            crash: CrashEncoding::default(),
            domain: Domain::Adr,
            solver: SolverKind::default(),
            observe_all: false,
            keep_all_reads: false,
            crashes: 1,
        }
    }
}

/// Where an event stands: its thread (none for recovery) and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventRef {
    /// None for recovery.
    pub thread: Option<usize>,
    /// Place in the thread's events.
    pub index: usize,
}

/// An access to memory: where it can go.
#[derive(Clone, Debug)]
pub struct Access {
    /// The address.
    pub address: Term,
    /// The places, and for each whether it is this one.
    pub places: Vec<(u64, Lit)>,
    /// The parts.
    pub lanes: Vec<Lane>,
}

/// An event as a node of the order.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// Which event.
    pub event: EventRef,
    /// What it is for the ordering table.
    pub class: Class,
    /// Its node.
    pub node: NodeId,
    /// Does its thread get there, if nothing crashes?
    pub guard: Lit,
    /// Did it take effect before the crash?
    pub executed: Lit,
    /// Is it in the graph?
    pub live: Lit,
    /// Where it goes, if it accesses memory.
    pub access: Option<Access>,
    /// The lines it may concern, with the condition for each; empty for fences.
    pub lines: Vec<(Line, Lit)>,
    /// What it reads, if it does: bits of the whole access.
    pub read: Option<Vec<Lit>>,
    /// What it writes, if it may, and whether it does given that it is issued.
    pub write: Option<(Vec<Lit>, Lit)>,
    /// Its source for each lane, if somebody can read what it wrote.
    pub sources: Vec<Option<SourceId>>,
    /// The condition under which a created thread exists is part of the guard; the place in program order is this.
    pub position: usize,
}

/// Something that may be wrong, and the literal that says it is.
#[derive(Clone, Debug)]
pub struct Violation {
    /// It is wrong.
    pub lit: Lit,
    /// What.
    pub what: Wrong,
    /// Where.
    pub event: EventRef,
    /// Where in the source.
    pub site: SiteId,
    /// After how many crashes: 0 for threads, more than 1 for a recovery after one that crashed.
    pub crashes: usize,
}

/// What may be wrong at an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// An assertion is false.
    Assertion(String),
    /// An access misses every object.
    Outside,
}

/// Why an access that takes two steps is too far: it is encoded as one, which is less than what can happen.
pub(crate) const CROSSES_LINE: &str = "an access that crosses a cache line is not modeled";

/// Why an access to an address of which next to nothing is known is too far.
pub(crate) const GOES_ANYWHERE: &str =
    "an access to an address that is not known, in memory too large to try every place, is not modeled";

/// Something that makes a verdict unknown if it can be reached.
#[derive(Clone, Debug)]
pub struct Limit {
    /// It is reached.
    pub lit: Lit,
    /// Why that is too far.
    pub reason: String,
    /// Where.
    pub event: EventRef,
    /// Where in the source.
    pub site: SiteId,
}

/// Reads-from, for telling a model: who reads what from whom.
#[derive(Clone, Copy, Debug)]
pub struct ReadsFrom {
    /// It does.
    pub lit: Lit,
    /// Into `Encoder::events`.
    pub reader: usize,
    /// Lane of the reader.
    pub lane: usize,
    /// Into `Encoder::events`, with its lane; none: the initial value.
    pub writer: Option<(usize, usize)>,
}

/// Coherence, for telling a model: who overwrites whom.
#[derive(Clone, Copy, Debug)]
pub struct Overwrites {
    /// It does.
    pub lit: Lit,
    /// Into `Encoder::events`.
    pub first: usize,
    /// Into `Encoder::events`.
    pub second: usize,
}

/// A lane of a store: into `Encoder::events`, and which.
pub type LaneRef = (usize, usize);

/// Who left what a cell holds, and the literal that it was they; none: the initial value.
pub type Left = (Option<LaneRef>, Lit);

/// What a load of recovery read, for telling.
#[derive(Clone, Debug)]
pub struct RecoveryLoad {
    /// Its place in recovery's events.
    pub index: usize,
    /// After how many crashes.
    pub crashes: usize,
    /// Does recovery get there?
    pub guard: Lit,
    /// What it read.
    pub bits: Vec<Lit>,
    /// Where, with the condition for each place.
    pub places: Vec<(u64, Lit)>,
}

/// A cell that is looked at after the crash.
#[derive(Clone, Debug)]
pub struct Survivor {
    /// Which cell.
    pub cell: CellId,
    /// What it holds.
    pub bits: Vec<Lit>,
    /// From whom: into `Encoder::events`, with the lane; none: the initial value.
    pub from: Vec<Left>,
}

/// A program being encoded, then the result.
pub struct Encoder<'a> {
    /// The program.
    pub program: &'a Program,
    /// How.
    pub settings: Settings,
    /// What values can occur.
    pub analysis: &'a Analysis,
    /// Cells.
    pub memory: Memory,
    /// The formula.
    pub gates: Gates,
    /// Bits of terms.
    pub blaster: Blaster,
    /// The orders.
    pub graph: Graph,
    /// Events that take part in the order, threads one after another, each in program order.
    pub events: Vec<Encoded>,
    /// What may be wrong.
    pub violations: Vec<Violation>,
    /// What may be too far.
    pub limits: Vec<Limit>,
    /// For counterexamples.
    pub reads_from: Vec<ReadsFrom>,
    /// For counterexamples.
    pub overwrites: Vec<Overwrites>,
    /// What is looked at after the crash.
    pub survivors: Vec<Survivor>,
    /// The moment P of each line that is looked at.
    pub moments: FxHashMap<Line, NodeId>,
    /// The crash, if it is the moment P of any line.
    pub(crate) crash: Option<NodeId>,
    /// The persistence domain of each line.
    pub(crate) platform: Platform,
    /// Flush-before, for telling: event, line, literal.
    pub flush_before: Vec<(usize, Line, Lit)>,
    /// What each recovery load read.
    pub recovery_reads: Vec<RecoveryLoad>,
    /// What each crash of recovery leaves.
    pub left: Vec<Vec<(CellId, Vec<Lit>)>>,
    order: Closure,
    initial_sources: FxHashMap<CellId, SourceId>,
    /// What cells hold at the start of which not everything is known.
    open_cells: FxHashMap<CellId, Vec<Lit>>,
    same_memo: FxHashMap<(Term, u8, Term, u8), Lit>,
    lanes_of: FxHashMap<EventRef, Vec<Lane>>,
    private: Vec<Option<usize>>,
}

impl<'a> Encoder<'a> {
    /// Encodes a program. None if the solver is not built in.
    pub fn new(program: &'a Program, analysis: &'a Analysis, settings: Settings) -> Option<Encoder<'a>> {
        Some(Encoder::for_solver(program, analysis, settings, settings.solver.make()?))
    }

    /// Encodes a program for a solver of one's own.
    pub fn for_solver(
        program: &'a Program,
        analysis: &'a Analysis,
        settings: Settings,
        solver: Box<dyn Solver>,
    ) -> Encoder<'a> {
        let mut encoder = Encoder {
            program,
            settings,
            analysis,
            memory: Memory::default(),
            gates: Gates::new(solver),
            blaster: Blaster::new(&program.terms),
            graph: Graph::default(),
            events: Vec::new(),
            violations: Vec::new(),
            limits: Vec::new(),
            reads_from: Vec::new(),
            overwrites: Vec::new(),
            survivors: Vec::new(),
            moments: FxHashMap::default(),
            crash: None,
            platform: program.platform(settings.domain),
            flush_before: Vec::new(),
            recovery_reads: Vec::new(),
            left: Vec::new(),
            order: Closure::default(),
            initial_sources: FxHashMap::default(),
            open_cells: FxHashMap::default(),
            same_memo: FxHashMap::default(),
            lanes_of: FxHashMap::default(),
            private: Vec::new(),
        };
        encoder.cut_memory();
        let nodes = encoder.threads();
        encoder.program_order(&nodes);
        encoder.reads();
        encoder.survivors();
        encoder.coherence();
        encoder.counters();
        encoder.recovery();
        encoder.only_what_was_followed();
        encoder
    }

    /// Where an access was not followed, what comes after it is not known: nothing is wrong there for sure.
    fn only_what_was_followed(&mut self) {
        let lost: Vec<Lit> =
            self.limits.iter().filter(|limit| limit.reason == GOES_ANYWHERE).map(|limit| limit.lit).collect();
        if lost.is_empty() {
            return;
        }
        let lost = self.gates.any(&lost);
        for at in 0..self.violations.len() {
            self.violations[at].lit = self.gates.and(self.violations[at].lit, !lost);
        }
    }

    /// Recovery gets to something that it claims; true if it claims nothing.
    pub fn recovery_claims(&mut self) -> Lit {
        if self.program.recovery_claims.is_empty() {
            return self.gates.yes();
        }
        let guards = self.program.recovery_claims.clone();
        let reached: Vec<Lit> = guards
            .into_iter()
            .filter(|guard| self.analysis.get(*guard).contains(1))
            .map(|guard| self.truth(guard))
            .collect();
        self.gates.any(&reached)
    }

    /// Gives the orders to the solver. Nothing may be encoded afterwards but clauses.
    pub fn finish(&mut self) {
        self.gates.solver.set_graph(&self.graph, crashproof_ordersat::theory::Keeping::default());
    }

    fn truth(&mut self, term: Term) -> Lit {
        self.blaster.truth(&mut self.gates, &self.program.terms, self.analysis, term)
    }

    fn bits(&mut self, term: Term) -> Vec<Lit> {
        self.blaster.bits(&mut self.gates, &self.program.terms, self.analysis, term)
    }

    /// The literal that an address is this place.
    fn is_at(&mut self, address: Term, place: u64, only: bool) -> Lit {
        if only {
            return self.gates.yes();
        }
        let bits = self.bits(address);
        self.gates.is(&bits, place)
    }

    /// The cell of an access's lane at one of its places.
    pub fn cell_of(&self, place: u64, lane: Lane) -> CellId {
        self.memory.at(place + u64::from(lane.offset)).expect("memory was cut for every access")
    }

    /// Do two lanes cover the same cell?
    fn same(&mut self, a: (usize, usize), b: (usize, usize)) -> Lit {
        let (one, two) = (self.lane(a), self.lane(b));
        let (first, second) = (self.access(a.0), self.access(b.0));
        let key = (first.address, one.offset, second.address, two.offset);
        if let Some(&lit) = self.same_memo.get(&key) {
            return lit;
        }
        let lit = if first.address == second.address && one.offset == two.offset {
            self.gates.yes()
        } else {
            let mut common = Vec::new();
            for &(place, here) in &first.places {
                let at = place + u64::from(one.offset);
                for &(other, there) in &second.places {
                    if other + u64::from(two.offset) == at {
                        common.push((here, there));
                    }
                }
            }
            let both: Vec<Lit> = common.into_iter().map(|(a, b)| self.gates.and(a, b)).collect();
            self.gates.any(&both)
        };
        self.same_memo.insert(key, lit);
        lit
    }

    fn access(&self, event: usize) -> &Access {
        self.events[event].access.as_ref().expect("only accesses are compared")
    }

    fn lane(&self, (event, lane): (usize, usize)) -> Lane {
        self.access(event).lanes[lane]
    }

    /// The bits of one lane.
    fn slice(bits: &[Lit], lane: Lane) -> &[Lit] {
        &bits[8 * usize::from(lane.offset)..8 * usize::from(lane.offset + lane.bytes)]
    }

    /// The cells a lane may cover, with the condition for each.
    fn cells_of_lane(&self, (event, lane): (usize, usize)) -> Vec<(CellId, Lit)> {
        let access = self.access(event);
        access.places.iter().map(|&(place, lit)| (self.cell_of(place, access.lanes[lane]), lit)).collect()
    }

    /// Does a lane cover this cell?
    pub(crate) fn covers(&mut self, lane: (usize, usize), cell: CellId) -> Lit {
        let here: Vec<Lit> = self
            .cells_of_lane(lane)
            .into_iter()
            .filter(|&(other, _)| other == cell)
            .map(|(_, lit)| lit)
            .collect();
        self.gates.any(&here)
    }

    /// Is the first before the second whatever happens?
    fn surely_before(&self, a: usize, b: usize) -> bool {
        self.node_surely_before(self.events[a].node, self.events[b].node)
    }

    /// The same for nodes. Crash moments become nodes after program order is known, so nothing is surely before them.
    fn node_surely_before(&self, a: NodeId, b: NodeId) -> bool {
        let (a, b) = (a as usize, b as usize);
        a.max(b) < self.order.nodes() && self.order.before(a, b)
    }

    /// Is the first of the same thread as the second, and earlier in it?
    pub(crate) fn program_before(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.events[a], &self.events[b]);
        a.event.thread == b.event.thread && a.position < b.position
    }

    fn source(&mut self, event: usize, lane: usize) -> SourceId {
        if let Some(source) = self.events[event].sources[lane] {
            return source;
        }
        let source = self.graph.source();
        self.events[event].sources[lane] = Some(source);
        source
    }

    fn initial_source(&mut self, cell: CellId) -> SourceId {
        let graph = &mut self.graph;
        *self.initial_sources.entry(cell).or_insert_with(|| graph.source())
    }

    /// Does the event put a value into memory, being in the graph?
    pub(crate) fn writes(&mut self, event: usize) -> Lit {
        let encoded = &self.events[event];
        let (live, stores) = (encoded.live, encoded.write.as_ref().expect("a store").1);
        self.gates.and(live, stores)
    }

    /// Does the event put a value at least into its thread's buffer?
    fn issues(&mut self, event: usize) -> Lit {
        let encoded = &self.events[event];
        let (guard, stores) = (encoded.guard, encoded.write.as_ref().expect("a store").1);
        self.gates.and(guard, stores)
    }

    fn writers(&self) -> Vec<(usize, usize)> {
        let lanes = |(index, event): (usize, &Encoded)| {
            let lanes = event.access.as_ref().map_or(0, |access| access.lanes.len());
            (0..lanes).map(move |lane| (index, lane)).collect::<Vec<_>>()
        };
        self.events.iter().enumerate().filter(|(_, event)| event.write.is_some()).flat_map(lanes).collect()
    }
}
