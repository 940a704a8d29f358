//! Walks the paths of a function.
//!
//! Section 4.3 of the DeepMC paper enumerates traces by depth-first search. Here, paths that did the same to
//! persistent memory are one: where they meet they are joined, so only branches that decide over a store, a
//! flush or a transaction multiply, and what they decided is remembered as a fact that later branches are
//! asked against. A function that called another sees its paths as a summary in terms of parameters.
//!
//! # What is cut
//!
//! 1. A loop is left once another round changes nothing that rules look at, and after `loops` rounds anyway.
//!    It is taken to run at least once if it touches persistent memory.
//! 2. `setjmp` returns once; abort paths of transactions are not followed.
//! 3. Of a function with more paths than the budget allows only some are walked; it is named (`budget`).

mod bases;
mod branch;
mod budget;
mod call;
mod emit;
mod masked;
mod meet;
mod naming;
mod reach;
mod replay;
mod slice;
mod step;
mod summary;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::dsa::Analysis;
use crate::event::{EMPTY, Names, Traces};
use crate::expression::{Address, Expression, Expressions, NOTHING, Persistence};
use crate::loops::Shape;
use crate::machine::{Exit, Machine};
use crate::rules::{Model, Verdicts};
pub(crate) use budget::{Cut, Cuts};
use crashproof_frontend::frameworks::{Apis, What};
use crashproof_frontend::program::ir::{
    Callee, Function, FunctionId, GlobalId, Op, Operand, PlaceId, Program,
};
use summary::{Summary, Way};

/// How far to go.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Rounds of a loop.
    pub loops: u32,
    /// Rounds of recursion.
    pub recursion: u32,
    /// Paths that may be open at one place of a function.
    pub paths: usize,
    /// Blocks walked and events met in one function, over all paths.
    pub steps: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { loops: 10, recursion: 5, paths: 96, steps: 40_000 }
    }
}

/// So many rounds mark a loop that has to be left.
const EXHAUSTED: u32 = u32::MAX / 4;
/// Rounds that a loop to a constant may have to be walked to its end; of a longer one, what it stores is known in part.
const COUNTED: u32 = 64;
/// So many paths are told apart by all they did; more only by what still matters, and half of what the bounds allow only by
/// what is still open.
const TOLD_APART: usize = 8;
/// Pointers behind pointers that are told apart.
const MAX_DEPTH: u8 = 20;

/// What memory holds, where it is known.
type Memory = BTreeMap<Address, (u64, Expression)>;

#[derive(Clone)]
struct State {
    values: Vec<Expression>,
    memory: Rc<Memory>,
    facts: Rc<BTreeMap<Expression, bool>>,
    machine: Rc<Machine>,
    trace: u32,
    from: u32,
    /// Rounds of each loop, and what it looked like at its head.
    rounds: Rc<BTreeMap<u32, (u32, Vec<u64>)>>,
}

/// Walks all functions of a program.
pub(crate) struct Explorer<'a> {
    pub(crate) program: &'a Program,
    pub(crate) apis: &'a Apis,
    pub(crate) analysis: &'a Analysis,
    pub(crate) model: Model,
    pub(crate) pedantic: bool,
    pub(crate) bounds: Bounds,
    pub(crate) expressions: Expressions,
    pub(crate) names: Names,
    pub(crate) verdicts: Verdicts,
    traces: Traces,
    summaries: FxHashMap<FunctionId, Summary>,
    /// What was not looked at.
    pub(crate) cuts: Cuts,
    /// Functions called that nothing is known of.
    pub(crate) unresolved: FxHashSet<String>,
    /// What may touch persistent memory and is not understood, with where it is.
    pub(crate) not_understood: BTreeSet<(PlaceId, String)>,
    /// Functions that are handed on and were met where they are called.
    met: FxHashSet<FunctionId>,
    /// The program has transactions that keep other threads out.
    isolates: bool,
    /// Variables in which only pointers to whole mapped files are ever stored.
    pub(crate) bases: FxHashSet<GlobalId>,
}

impl Explorer<'_> {
    pub(crate) fn new<'a>(
        program: &'a Program,
        apis: &'a Apis,
        analysis: &'a Analysis,
        model: Model,
        pedantic: bool,
        bounds: Bounds,
    ) -> Explorer<'a> {
        Explorer {
            program,
            apis,
            analysis,
            model,
            pedantic,
            bounds,
            expressions: Expressions::new(),
            names: Names::new(),
            verdicts: Verdicts::default(),
            traces: Traces::default(),
            summaries: FxHashMap::default(),
            cuts: Cuts::default(),
            unresolved: FxHashSet::default(),
            not_understood: BTreeSet::new(),
            met: FxHashSet::default(),
            isolates: program.functions.iter().any(|function| {
                apis.meaning(&function.name).is_some_and(|meaning| {
                    apis.frameworks[meaning.framework].commit.isolates
                        && meaning.effects.iter().any(|effect| effect.what == What::Begin)
                })
            }),
            bases: bases::of(program, apis),
        }
    }

    /// Callees first; recursion is followed until nothing changes, or to its bound.
    pub(crate) fn run(&mut self) {
        for component in &self.analysis.order {
            let recursive = component.len() > 1 || self.analysis.calls_itself.contains(&component[0]);
            let rounds = if recursive { self.bounds.recursion.max(1) } else { 1 };
            for round in 0..rounds {
                let mut changed = false;
                for id in component {
                    if self.analysis.left_over.contains(id)
                        || self.apis.meaning(&self.program.function(*id).name).is_some()
                        || round > 0 && self.cuts.is_inside(*id)
                    {
                        continue;
                    }
                    let is_root = !self.analysis.called.contains(id);
                    let summary = Walk::new(self, *id, is_root).run();
                    changed |= self.summaries.get(id) != Some(&summary);
                    self.summaries.insert(*id, summary);
                    self.traces.clear();
                }
                if !changed || round + 1 == rounds {
                    break;
                }
            }
        }
        // What is called from somewhere out of sight is a way into the program.
        for id in self.analysis.order.iter().flatten() {
            if self.analysis.handed_on.contains(id) && !self.met.contains(id) {
                Walk::new(self, *id, true).run();
                self.traces.clear();
            }
        }
    }
}

/// The walk through one function.
struct Walk<'e, 'a> {
    all: &'e mut Explorer<'a>,
    id: FunctionId,
    function: &'a Function,
    shape: Shape,
    pending: BTreeMap<(u32, u32), Vec<State>>,
    ways: Vec<Way>,
    /// How paths of a function ended that nobody calls, and whether that may have been a failure as well.
    ends: Vec<(Rc<Machine>, Exit, bool)>,
    /// Objects that are flushed or logged on some path.
    cared_for: FxHashSet<Expression>,
    /// Loops that touch persistent memory.
    eventful: FxHashSet<u32>,
    is_root: bool,
    steps: usize,
    meetings: u32,
    /// Variables that hold pointers, in a fixed order.
    variables: Vec<(Operand, &'a crashproof_frontend::program::ir::Variable)>,
}

impl<'e, 'a> Walk<'e, 'a> {
    fn new(all: &'e mut Explorer<'a>, id: FunctionId, is_root: bool) -> Self {
        let function = all.program.function(id);
        let shape = Shape::of(all.program, function);
        let mut walk = Walk {
            function,
            shape,
            pending: BTreeMap::new(),
            ways: Vec::new(),
            ends: Vec::new(),
            cared_for: FxHashSet::default(),
            eventful: FxHashSet::default(),
            is_root,
            steps: 0,
            meetings: 0,
            variables: Vec::new(),
            all,
            id,
        };
        walk.variables = function
            .variables
            .iter()
            .filter(|(_, variable)| {
                let ty = variable.ty.map(|ty| &walk.all.program.types[ty.0 as usize]);
                !variable.is_address && ty.is_some_and(|ty| ty.is_pointer)
            })
            .map(|(operand, variable)| (*operand, variable))
            .collect();
        walk.variables.sort_by_key(|(operand, _)| *operand);
        walk.eventful = walk
            .shape
            .loops
            .iter()
            .filter(|(_, a_loop)| a_loop.blocks.iter().any(|block| walk.is_eventful(*block)))
            .map(|(header, _)| *header)
            .collect();
        walk
    }

    fn is_eventful(&self, block: u32) -> bool {
        self.function.block(block).any(|(_, instruction)| match &instruction.op {
            Op::Flush { .. } | Op::Fence { .. } => true,
            Op::Store { address, .. } | Op::Bulk { target: address, .. } => {
                let graph = &self.all.analysis.graphs[&self.id];
                graph.lookup(*address).is_some_and(|cell| graph.graph.flags(cell).persistent)
            }
            Op::Call { callee: Callee::Direct(called), .. } => {
                let name = &self.all.program.function(*called).name;
                match self.all.apis.meaning(name) {
                    Some(meaning) => !meaning.effects.is_empty(),
                    None => self
                        .all
                        .summaries
                        .get(called)
                        .is_some_and(|summary| summary.ways.iter().any(|way| !way.events.is_empty())),
                }
            }
            _ => false,
        })
    }

    fn run(mut self) -> Summary {
        let state = State {
            values: vec![NOTHING; self.function.instructions.len()],
            memory: Rc::default(),
            facts: Rc::default(),
            machine: Rc::default(),
            trace: EMPTY,
            from: u32::MAX,
            rounds: Rc::default(),
        };
        self.pending.insert((0, 0), vec![state]);
        while let Some(((_, block), states)) = self.pending.pop_first() {
            let states = self.join(block, None, states);
            let states = self.thin(states);
            self.steps += states.len();
            if self.is_over() {
                break;
            }
            self.block(block, states);
        }
        self.summary()
    }

    /// Walks all open paths through a block at once, so that they can be joined after each call.
    fn block(&mut self, block: u32, mut states: Vec<State>) {
        if let Some(flushes) = self.shape.flush_loops.get(&block).copied() {
            for state in &mut states {
                if state.rounds.get(&block).is_some_and(|(rounds, _)| *rounds == 0) {
                    self.flush_loop(state, flushes);
                }
            }
        }
        let crashproof_frontend::program::ir::Block { start, end } = self.function.blocks[block as usize];
        for number in start..end - 1 {
            let instruction = &self.function.instructions[number as usize];
            if let Op::Call { arguments, .. } = &instruction.op
                && self.is_in_flush_loop(number)
            {
                for state in &mut states {
                    self.flush_in_loop(state, number, arguments, instruction.place);
                }
            } else if let Op::Call { callee, arguments } = &instruction.op {
                let mut after = Vec::new();
                for state in states {
                    after.extend(self.call(state, number, *callee, arguments, instruction.place));
                }
                states = if after.len() > 1 { self.join(block, Some(number), after) } else { after };
                states = self.thin(states);
            } else {
                for state in &mut states {
                    self.plain(state, number, &instruction.op, instruction.place);
                }
            }
        }
        for state in states {
            self.terminator(block, &self.function.terminator(block).op, state);
        }
    }
}

/// What the graph of a function says of the memory that a value points to.
fn persistence_of(analysis: &Analysis, id: FunctionId, number: u32) -> Persistence {
    let graph = &analysis.graphs[&id];
    match graph.lookup(Operand::Instruction(number)) {
        Some(cell) => graph.graph.persistence(cell),
        None => Persistence::No,
    }
}
