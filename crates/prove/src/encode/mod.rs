//! A program as a formula: which executions, with which crash, leave which memory.
//!
//! # The model, as axioms
//!
//! px86's machine lets instructions take effect one after another, and writes each line back for the last time at some
//! time before the crash. As axioms over a single order of all effects (Khyzha and Lahav's DPTSOsyn, in the form of the
//! SMT paper, section 2, with lines of several locations):
//!
//! - Instructions of one thread are ordered according to px86's table ([`px86::order::PRESERVED`]); `ppo.rs`.
//! - A load reads the last store to its location in that order, or its own thread's youngest preceding store if that is
//!   still buffered: reads-from, coherence, from-read; `reads.rs`.
//! - A locked instruction reads and writes at the same time, so it is a single node.
//! - Every line has a time *P*, its last write-back. Stores that overwrite the line's survivors come after P (from-read
//!   again); a flush of the line that took effect comes before P: the paper's flush-before, `crash.rs`.
//! - A non-temporal store is a store plus a `clflushopt` of its line, completed by the next fence: this is the effect
//!   of px86's deviation 3.
//! - Every P precedes the crash. For a line with a persistent cache ([`px86::Domain`]), P is the crash itself.
//!
//! # Two ways to crash
//!
//! [`CrashEncoding::Partial`]: every event has a variable *executed*; events that are not executed are not in the
//! graph, except that a thread may read its own stores that never left its buffer. [`CrashEncoding::Full`]: all events
//! are in the graph, as if there were no crash, and *executed* is required only of what a survivor needs (the paper's
//! porf-prefix, with px86's table instead of program order); flushes count only if executed. The two are equivalent
//! because an execution can always be continued (the paper's Lemmas 1 and 2).
//!
//! # What is left out
//!
//! Loads of locations accessed by a single thread are not events: they read the thread's last store, and are terms.
//! Loads whose value is unused are dropped unless requested ([`Settings::keep_all_reads`]): a load can always read
//! something. Unobservable stores take part in no order.

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
    /// Full executions, part of which was executed: DPTSOsyn,full.
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
    /// The persistence domain of lines for which the program specifies none.
    pub domain: Domain,
    /// Who solves.
    pub solver: SolverKind,
    /// Are all persistent cells observed after the crash, not only what recovery loads?
    pub observe_all: bool,
    /// Keep loads whose value is unused, and those of private locations.
    pub keep_all_reads: bool,
    /// The number of consecutive crashes: from 2 on, recovery crashes, too.
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

/// The position of an event: its thread (`None` for recovery) and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventRef {
    /// `None` for recovery.
    pub thread: Option<usize>,
    /// Place in the thread's events.
    pub index: usize,
}

/// A memory access and its possible locations.
#[derive(Clone, Debug)]
pub struct Access {
    /// The address.
    pub address: Term,
    /// The possible locations, each with the literal that it is this one.
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
    /// Does its thread reach it, in the absence of a crash?
    pub guard: Lit,
    /// Did it take effect before the crash?
    pub executed: Lit,
    /// Is it in the graph?
    pub live: Lit,
    /// Its possible targets, if it accesses memory.
    pub access: Option<Access>,
    /// The lines it may affect, each with its condition; empty for fences.
    pub lines: Vec<(Line, Lit)>,
    /// What it reads, if anything: bits of the whole access.
    pub read: Option<Vec<Lit>>,
    /// What it writes, if anything, and whether it does when issued.
    pub write: Option<(Vec<Lit>, Lit)>,
    /// Its source for each lane, if its store can be read.
    pub sources: Vec<Option<SourceId>>,
    /// The position in program order; the condition for a created thread's existence is part of the guard.
    pub position: usize,
}

/// A possible violation, and the literal that says it occurs.
#[derive(Clone, Debug)]
pub struct Violation {
    /// It occurs.
    pub lit: Lit,
    /// What.
    pub what: Wrong,
    /// Where.
    pub event: EventRef,
    /// Where in the source.
    pub site: SiteId,
    /// The number of crashes before it: 0 for threads, more than 1 for a recovery after a crashed one.
    pub crashes: usize,
}

/// What may be wrong at an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// An assertion is false.
    Assertion(String),
    /// An access lies outside every object.
    Outside,
}

/// Why an access that takes two steps is a limit: encoding it as one underapproximates what can happen.
pub(crate) const CROSSES_LINE: &str = "an access that crosses a cache line is not modeled";

/// Why an access to a mostly unknown address is a limit.
pub(crate) const GOES_ANYWHERE: &str =
    "an access to an address that is not known, in memory too large to try every place, is not modeled";

/// Something that makes the verdict unknown if it is reachable.
#[derive(Clone, Debug)]
pub struct Limit {
    /// It is reached.
    pub lit: Lit,
    /// The reason.
    pub reason: String,
    /// Where.
    pub event: EventRef,
    /// Where in the source.
    pub site: SiteId,
}

/// Reads-from, for reading off a model.
#[derive(Clone, Copy, Debug)]
pub struct ReadsFrom {
    /// The literal that it does.
    pub lit: Lit,
    /// Into `Encoder::events`.
    pub reader: usize,
    /// Lane of the reader.
    pub lane: usize,
    /// An index into `Encoder::events`, with the lane; `None` for the initial value.
    pub writer: Option<(usize, usize)>,
}

/// Coherence, for reading off a model.
#[derive(Clone, Copy, Debug)]
pub struct Overwrites {
    /// The literal that it does.
    pub lit: Lit,
    /// Into `Encoder::events`.
    pub first: usize,
    /// Into `Encoder::events`.
    pub second: usize,
}

/// A lane of a store: into `Encoder::events`, and which.
pub type LaneRef = (usize, usize);

/// The store from which a cell's content comes, with its literal; `None` for the initial value.
pub type Left = (Option<LaneRef>, Lit);

/// A load of recovery, for reading off a model.
#[derive(Clone, Debug)]
pub struct RecoveryLoad {
    /// Its place in recovery's events.
    pub index: usize,
    /// The number of crashes before it.
    pub crashes: usize,
    /// Does recovery reach it?
    pub guard: Lit,
    /// What it read.
    pub bits: Vec<Lit>,
    /// Where, with the condition for each place.
    pub places: Vec<(u64, Lit)>,
}

/// A cell observed after the crash.
#[derive(Clone, Debug)]
pub struct Survivor {
    /// Which cell.
    pub cell: CellId,
    /// What it holds.
    pub bits: Vec<Lit>,
    /// The origin of the content: an index into `Encoder::events`, with the lane; `None` for the initial value.
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
    /// Possible violations.
    pub violations: Vec<Violation>,
    /// Possible limits.
    pub limits: Vec<Limit>,
    /// For counterexamples.
    pub reads_from: Vec<ReadsFrom>,
    /// For counterexamples.
    pub overwrites: Vec<Overwrites>,
    /// Cells observed after the crash.
    pub survivors: Vec<Survivor>,
    /// The time P of each observed line.
    pub moments: FxHashMap<Line, NodeId>,
    /// The crash, if it is the time P of any line.
    pub(crate) crash: Option<NodeId>,
    /// The persistence domain of each line.
    pub(crate) platform: Platform,
    /// Flush-before, for reading off a model: event, line, literal.
    pub flush_before: Vec<(usize, Line, Lit)>,
    /// What each recovery load read.
    pub recovery_reads: Vec<RecoveryLoad>,
    /// The contents after each crash of recovery.
    pub left: Vec<Vec<(CellId, Vec<Lit>)>>,
    order: Closure,
    initial_sources: FxHashMap<CellId, SourceId>,
    /// Initial contents of cells that are not entirely known.
    open_cells: FxHashMap<CellId, Vec<Lit>>,
    same_memo: FxHashMap<(Term, u8, Term, u8), Lit>,
    lanes_of: FxHashMap<EventRef, Vec<Lane>>,
    private: Vec<Option<usize>>,
}

impl<'a> Encoder<'a> {
    /// Encodes a program. `None` if the solver is not built in.
    pub fn new(program: &'a Program, analysis: &'a Analysis, settings: Settings) -> Option<Encoder<'a>> {
        Some(Encoder::for_solver(program, analysis, settings, settings.solver.make()?))
    }

    /// Encodes a program for a given solver.
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

    /// What follows an access that was not followed is unknown, so nothing there is certainly wrong.
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

    /// Recovery reaches a claim; true if it makes none.
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

    /// Passes the orders to the solver. Afterwards only clauses may be added.
    pub fn finish(&mut self) {
        self.gates.solver.set_graph(&self.graph, crashproof_ordersat::theory::Keeping::default());
    }

    fn truth(&mut self, term: Term) -> Lit {
        self.blaster.truth(&mut self.gates, &self.program.terms, self.analysis, term)
    }

    fn bits(&mut self, term: Term) -> Vec<Lit> {
        self.blaster.bits(&mut self.gates, &self.program.terms, self.analysis, term)
    }

    /// The literal that an address is this location.
    fn is_at(&mut self, address: Term, place: u64, only: bool) -> Lit {
        if only {
            return self.gates.yes();
        }
        let bits = self.bits(address);
        self.gates.is(&bits, place)
    }

    /// The cell of an access's lane at one of its locations.
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

    /// The cells that a lane may cover, each with its condition.
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

    /// Does the first always precede the second?
    fn surely_before(&self, a: usize, b: usize) -> bool {
        self.node_surely_before(self.events[a].node, self.events[b].node)
    }

    /// The same for nodes. Crash times become nodes after program order has been computed, so nothing certainly
    /// precedes them.
    fn node_surely_before(&self, a: NodeId, b: NodeId) -> bool {
        let (a, b) = (a as usize, b as usize);
        a.max(b) < self.order.nodes() && self.order.before(a, b)
    }

    /// Does the first precede the second in the same thread?
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

    /// Does the event write to memory, given that it is in the graph?
    pub(crate) fn writes(&mut self, event: usize) -> Lit {
        let encoded = &self.events[event];
        let (live, stores) = (encoded.live, encoded.write.as_ref().expect("a store").1);
        self.gates.and(live, stores)
    }

    /// Does the event at least write to its thread's buffer?
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
