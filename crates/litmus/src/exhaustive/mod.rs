//! The exhaustive machine: every reachable state of a litmus program, every crash, every outcome.
//!
//! This is the ground truth with which the other engines are compared: an operational machine in the style of Px86,
//! with threads that have store buffers above a shared cache above persistent memory. `machine.rs` explains which steps
//! are choices and why the others need not be; `arena.rs` how states are stored; `crates/crashproof/tests` compares it
//! with a literal machine without these reductions.
//!
//! # Robustness
//!
//! - `state` and `event`: the outcomes are compared with the memories that the machine has while no line
//!   is closed, which are those of x86-TSO. By value, or by which write left each value.
//! - `strict` (PSan, Definitions 1-3): an execution and an outcome have a happens-before-closed prefix
//!   exactly if no store that happened before a surviving (and observed) store is itself lost in an
//!   observed location. For if there is such a store, every prefix with the survivor contains it, and the
//!   observer would have read it or a later one; and if there is none, the smallest prefix that contains
//!   the survivors will do. The machine tracks just these losses.

mod arena;
mod machine;
mod program;
mod recovery;
mod search;
mod sets;
mod state;

use std::cell::Cell;

use crate::answer::{
    Answer, AssertionFailure, Assertions, InstructionRef, LostAndSurvived, Options, QueryAnswer, Robust,
    Statistics, Story, Verdict, Witness, sort_states,
};
use crate::{Code, Op, QueryKind, Test};
use px86::{Line, Platform};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::exhaustive::arena::{Arena, StateId};
use crate::exhaustive::machine::{Machine, lost_location, stored_by_number};
use crate::exhaustive::program::Program;
use crate::exhaustive::search::{Flow, replay, search};
use crate::exhaustive::state::{State, Tracking};

/// The engine's name.
pub const NAME: &str = "exhaustive";

/// Answers every question about `test`.
pub fn run(test: &Test, options: &Options) -> Answer {
    Run::new(test, options).answer()
}

struct Run<'a> {
    test: &'a Test,
    options: &'a Options,
    program: Program<'a>,
    memory: Vec<i64>,
    platform: Platform,
}

/// What the searches of a run add up to.
#[derive(Default)]
struct Tally {
    incomplete: Vec<String>,
    explored: u64,
}

/// The outcomes of crashing somewhere in a program, each with a state that leaves it.
struct Outcomes {
    arena: Arena,
    found: FxHashMap<Vec<i64>, StateId>,
    /// In the order they were found, nearest first.
    order: Vec<Vec<i64>>,
    /// Every memory that x86-TSO can reach.
    memories: FxHashSet<Vec<i64>>,
    complete: bool,
}

impl<'a> Run<'a> {
    fn new(test: &'a Test, options: &'a Options) -> Run<'a> {
        Run {
            test,
            options,
            program: Program::new(test, test.threads.iter().collect()),
            memory: test.locations.iter().map(|location| location.init).collect(),
            platform: test.platform(options.domain, Line(0)),
        }
    }

    fn answer(&self) -> Answer {
        let mut tally = Tally::default();
        let outcomes = self.outcomes(&self.program, &self.memory, "outcomes", &mut tally);
        let queries = self.queries(&outcomes);
        let assertions = self.assertions(&outcomes, &mut tally);
        let robust = self.robust(&outcomes, &mut tally);
        let mut states = outcomes.order;
        sort_states(self.test, &mut states);
        Answer {
            engine: NAME,
            incomplete: tally.incomplete,
            states,
            robust,
            assertions,
            queries,
            statistics: Statistics { explored: tally.explored, ..Statistics::default() },
        }
    }

    fn outcomes(&self, program: &Program, memory: &[i64], what: &str, tally: &mut Tally) -> Outcomes {
        let mut found: FxHashMap<Vec<i64>, StateId> = FxHashMap::default();
        let mut order = Vec::new();
        let mut memories: FxHashSet<Vec<i64>> = FxHashSet::default();
        let mut outcome = Vec::new();
        let mut machine = Machine::new(program, Tracking::Values, &self.platform);
        let limit = self.options.limits.outcomes;
        let held = Cell::new(0);
        let search = search(&mut machine, memory, self.options.limits, &held, |_, state, id| {
            outcome.clear();
            outcome.extend((0..program.line_of.len()).map(|at| state.survivor(program, at).value));
            if !state.closed.contains(&true) && !memories.contains(&outcome) {
                held.set(held.get() + footprint(&outcome));
                memories.insert(outcome.clone());
            }
            if !found.contains_key(&outcome) {
                order.push(outcome.clone());
                found.insert(outcome.clone(), id);
            }
            if order.len() > limit { Flow::Stop } else { Flow::Continue }
        });
        tally.explored += search.arena.len() as u64;
        if search.stopped {
            tally.incomplete.push(format!("{what}: more than {limit} different ones"));
            order.truncate(limit);
        }
        if let Some(limit) = &search.limit {
            tally.incomplete.push(format!("{what}: {limit}"));
        }
        let complete = search.limit.is_none() && !search.stopped;
        Outcomes { arena: search.arena, found, order, memories, complete }
    }

    /// How `outcome` arose.
    fn chapter(&self, outcomes: &Outcomes, outcome: &[i64]) -> crate::answer::Chapter {
        let mut machine = Machine::new(&self.program, Tracking::Values, &self.platform);
        replay(&mut machine, &self.memory, &outcomes.arena, outcomes.found[outcome]).0
    }

    fn queries(&self, outcomes: &Outcomes) -> Vec<QueryAnswer> {
        let answer = |query: &crate::Query| {
            let meets = outcomes.order.iter().find(|outcome| query.condition.eval(outcome) != 0);
            let holds = match (query.kind, meets.is_some()) {
                (QueryKind::Forbidden, true) => Some(false),
                (QueryKind::Allowed, true) => Some(true),
                (QueryKind::Forbidden, false) => outcomes.complete.then_some(true),
                (QueryKind::Allowed, false) => outcomes.complete.then_some(false),
            };
            let story = meets.filter(|_| query.kind == QueryKind::Forbidden).map(|outcome| Story {
                chapters: vec![self.chapter(outcomes, outcome)],
                recovery: Vec::new(),
            });
            QueryAnswer { holds, outcome: meets.cloned(), story }
        };
        self.test.queries.iter().map(answer).collect()
    }

    fn assertions(&self, outcomes: &Outcomes, tally: &mut Tally) -> Assertions {
        let Some(code) = &self.test.recover else { return Assertions::None };
        if !code.instructions.iter().any(|instruction| matches!(instruction.op, Op::Assert(_))) {
            return Assertions::None;
        }
        let mut crashes = CrashTree::new(&outcomes.order);
        let mut complete = outcomes.complete;
        for round in 1..=self.options.crashes {
            for node in crashes.fresh() {
                let run = recovery::run(code, &crashes.nodes[node].outcome);
                if let Some(instruction) = run.failed {
                    let story = self.nested_story(outcomes, &crashes, node, code);
                    let story = Story { recovery: run.steps, ..story };
                    return Assertions::Fail(Box::new(AssertionFailure {
                        outcome: crashes.nodes[node].outcome.clone(),
                        instruction,
                        story: Some(story),
                    }));
                }
            }
            if round < self.options.crashes {
                complete &= self.crash_recovery(&mut crashes, code, tally);
            }
        }
        if complete { Assertions::Hold } else { Assertions::Unknown }
    }

    /// Crashes recovery from every outcome of the last round. `false` if a limit was hit.
    fn crash_recovery(&self, crashes: &mut CrashTree, code: &Code, tally: &mut Tally) -> bool {
        let program = Program::new(self.test, vec![code]);
        let mut complete = true;
        for node in crashes.next_round() {
            let memory = crashes.nodes[node].outcome.clone();
            let outcomes = self.outcomes(&program, &memory, "crashes in recovery", tally);
            complete &= outcomes.complete;
            outcomes.order.into_iter().for_each(|outcome| crashes.add(outcome, node));
            if crashes.nodes.len() > self.options.limits.outcomes {
                let limit = self.options.limits.outcomes;
                tally.incomplete.push(format!("crashes in recovery: more than {limit} outcomes"));
                return false;
            }
        }
        complete
    }

    /// The executions that led to a node of the crash tree.
    fn nested_story(&self, outcomes: &Outcomes, crashes: &CrashTree, node: usize, code: &Code) -> Story {
        let mut lineage = vec![node];
        while let Some(parent) = crashes.nodes[lineage[lineage.len() - 1]].parent {
            lineage.push(parent);
        }
        lineage.reverse();
        let mut chapters = vec![self.chapter(outcomes, &crashes.nodes[lineage[0]].outcome)];
        let program = Program::new(self.test, vec![code]);
        for pair in lineage.windows(2) {
            let memory = &crashes.nodes[pair[0]].outcome;
            let wanted = &crashes.nodes[pair[1]].outcome;
            let mut machine = Machine::new(&program, Tracking::Values, &self.platform);
            let mut last = 0;
            let found = search(&mut machine, memory, self.options.limits, &Cell::new(0), |_, state, id| {
                last = id;
                if &survivors(&program, state) == wanted { Flow::Stop } else { Flow::Continue }
            });
            let (chapter, _) = replay(&mut machine, memory, &found.arena, last);
            chapters.push(crate::answer::Chapter { recovery: true, ..chapter });
        }
        Story { chapters, recovery: Vec::new() }
    }

    fn robust(&self, outcomes: &Outcomes, tally: &mut Tally) -> Robust {
        let state = self.robust_by_value(outcomes);
        let strict = self.robust_strictly(tally);
        let everything_observed = self.test.recover.is_none();
        let event = match (&state, &strict) {
            // The same state shows both: a memory that differs by value differs by write.
            (Verdict::No(witness), _) => Verdict::No(witness.clone()),
            // A strictly persistent prefix is an execution of x86-TSO that ends in this very memory.
            (Verdict::Yes, Verdict::Yes) if everything_observed => Verdict::Yes,
            _ => self.robust_by_write(tally),
        };
        Robust { strict, event, state }
    }

    fn robust_by_value(&self, outcomes: &Outcomes) -> Verdict {
        if !outcomes.complete {
            return Verdict::Unknown;
        }
        match outcomes.order.iter().find(|outcome| !outcomes.memories.contains(*outcome)) {
            None => Verdict::Yes,
            Some(outcome) => {
                let story = Story { chapters: vec![self.chapter(outcomes, outcome)], recovery: Vec::new() };
                Verdict::No(Box::new(Witness { outcome: outcome.clone(), pair: None, story: Some(story) }))
            }
        }
    }

    fn robust_by_write(&self, tally: &mut Tally) -> Verdict {
        let program = &self.program;
        let limits = self.options.limits;
        let writes = |state: &State| -> Vec<(i64, u32)> {
            (0..program.line_of.len())
                .map(|at| state.survivor(program, at))
                .map(|cell| (cell.value, cell.writer))
                .collect()
        };
        let mut memories = FxHashSet::default();
        // Where every cache survives no line is ever closed: the machine is plain x86-TSO.
        let mut tso = Machine::new(program, Tracking::Writers, &Platform::EADR);
        let held = Cell::new(0);
        let reached = search(&mut tso, &self.memory, limits, &held, |_, state, _| {
            let memory = writes(state);
            held.set(held.get() + footprint(&memory));
            memories.insert(memory);
            Flow::Continue
        });
        let mut explored = reached.arena.len() as u64;
        let mut verdict = Verdict::Yes;
        let mut limit = reached.limit;
        let cached = (0..program.lines as u64).all(|line| self.platform.cache_survives(Line(line)));
        if limit.is_none() && !cached {
            let mut machine = Machine::new(program, Tracking::Writers, &self.platform);
            let mut last = 0;
            let found = search(&mut machine, &self.memory, limits, &held, |_, state, id| {
                last = id;
                if memories.contains(&writes(state)) { Flow::Continue } else { Flow::Stop }
            });
            explored += found.arena.len() as u64;
            if found.stopped {
                let (chapter, state) = replay(&mut machine, &self.memory, &found.arena, last);
                let outcome = survivors(program, &state);
                let story = Some(Story { chapters: vec![chapter], recovery: Vec::new() });
                verdict = Verdict::No(Box::new(Witness { outcome, pair: None, story }));
            }
            limit = found.limit;
        }
        tally.explored += explored;
        if let Some(limit) = limit {
            tally.incomplete.push(format!("robust by event: {limit}"));
            verdict = Verdict::Unknown;
        }
        verdict
    }

    fn robust_strictly(&self, tally: &mut Tally) -> Verdict {
        let program = &self.program;
        let recover = self.test.recover.as_ref();
        let mut machine = Machine::new(program, Tracking::Losses, &self.platform);
        let mut last = 0;
        let held = Cell::new(0);
        let found = search(&mut machine, &self.memory, self.options.limits, &held, |machine, state, id| {
            last = id;
            let suspicious = (0..program.line_of.len())
                .any(|at| !machine.sets.members(state.survivor(program, at).losses).is_empty());
            if !suspicious {
                return Flow::Continue;
            }
            let Some(code) = recover else { return Flow::Stop };
            let observed = recovery::run(code, &survivors(program, state)).observed;
            match violation(machine, state, &observed) {
                Some(_) => Flow::Stop,
                None => Flow::Continue,
            }
        });
        tally.explored += found.arena.len() as u64;
        if found.stopped {
            let mut machine = Machine::new(program, Tracking::Losses, &self.platform);
            machine.exact = true;
            let (chapter, state) = replay(&mut machine, &self.memory, &found.arena, last);
            let outcome = survivors(program, &state);
            let observed = match recover {
                Some(code) => recovery::run(code, &outcome).observed,
                None => vec![true; program.line_of.len()],
            };
            let pair = violation(&machine, &state, &observed);
            let story = Some(Story { chapters: vec![chapter], recovery: Vec::new() });
            return Verdict::No(Box::new(Witness { outcome, pair, story }));
        }
        match found.limit {
            None => Verdict::Yes,
            Some(limit) => {
                tally.incomplete.push(format!("strict robustness: {limit}"));
                Verdict::Unknown
            }
        }
    }
}

/// Bytes that a set of such vectors needs for one, about.
fn footprint<T>(content: &[T]) -> usize {
    size_of_val(content) + 48
}

/// What persistent memory holds if the crash comes in `state`.
fn survivors(program: &Program, state: &State) -> Vec<i64> {
    (0..program.line_of.len()).map(|at| state.survivor(program, at).value).collect()
}

/// A store lost in an observed location that happened before a survivor of an observed location.
///
/// The stores are named only if the machine keeps exact losses.
fn violation(machine: &Machine, state: &State, observed: &[bool]) -> Option<LostAndSurvived> {
    let program = machine.program;
    let name = |number: u32| {
        let thread = program.threads.iter().rposition(|thread| thread.first <= number)?;
        Some(InstructionRef { thread, index: (number - program.threads[thread].first) as usize })
    };
    (0..program.line_of.len()).filter(|&at| observed[at]).find_map(|at| {
        let survivor = state.survivor(program, at);
        let lost_in = |token: u32| match token.checked_sub(lost_location(program, 0)) {
            Some(location) => Some(location as usize),
            None => stored_by_number(program, token),
        };
        let losses = machine.sets.members(survivor.losses);
        let lost = losses.iter().find(|&&token| lost_in(token).is_some_and(|location| observed[location]))?;
        let nameless = InstructionRef { thread: 0, index: 0 };
        Some(LostAndSurvived {
            lost: name(*lost).filter(|_| machine.exact).unwrap_or(nameless),
            survived: name(survivor.writer.wrapping_sub(1)).filter(|_| machine.exact).unwrap_or(nameless),
        })
    })
}

/// The outcomes of one crash after another, each found once, with the outcome recovery started from.
struct CrashTree {
    nodes: Vec<CrashNode>,
    known: FxHashSet<Vec<i64>>,
    /// Nodes from here on have not been recovered from yet.
    unchecked: usize,
    /// Nodes from here on have not been crashed in recovery yet.
    uncrashed: usize,
}

struct CrashNode {
    outcome: Vec<i64>,
    parent: Option<usize>,
}

impl CrashTree {
    fn new(first: &[Vec<i64>]) -> CrashTree {
        let mut tree =
            CrashTree { nodes: Vec::new(), known: FxHashSet::default(), unchecked: 0, uncrashed: 0 };
        for outcome in first {
            tree.known.insert(outcome.clone());
            tree.nodes.push(CrashNode { outcome: outcome.clone(), parent: None });
        }
        tree
    }

    fn add(&mut self, outcome: Vec<i64>, parent: usize) {
        if self.known.insert(outcome.clone()) {
            self.nodes.push(CrashNode { outcome, parent: Some(parent) });
        }
    }

    fn fresh(&mut self) -> std::ops::Range<usize> {
        let range = self.unchecked..self.nodes.len();
        self.unchecked = range.end;
        range
    }

    fn next_round(&mut self) -> std::ops::Range<usize> {
        let range = self.uncrashed..self.nodes.len();
        self.uncrashed = range.end;
        range
    }
}
