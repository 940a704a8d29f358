//! The exploration: functions, callees first, and the blocks of each function with the paths open in them.

use std::collections::BTreeMap;
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::dsa::Analysis;
use crate::event::{EMPTY, Names, Traces};
use crate::expression::{Address, Expression, Expressions, NOTHING, Persistence};
use crate::extent::Extents;
use crate::guards::Guards;
use crate::loops::Shape;
use crate::machine::{Exit, Machine};
use crate::rules::{Model, Verdicts};
use crate::uses::{Access, Member, Put, Uses};
use crashproof_findings::Sources;
use crashproof_frontend::frameworks::{Apis, What};
use crashproof_frontend::program::ir::{Callee, Function, FunctionId, GlobalId, Op, Operand, Program};

use super::bases;
use super::limits::{Bounds, Cuts};
use super::way::{Summary, Way};

/// Marks a loop that must be left, in place of its iteration count.
pub(super) const EXHAUSTED: u32 = u32::MAX / 4;
/// Loops with a constant trip count are followed to the end up to this many iterations; the stores of longer ones are
/// known only in part.
pub(super) const COUNTED: u32 = 64;
/// The number of paths distinguished by everything they did. Beyond that, only what still matters distinguishes them,
/// and from half the limit on, only what is still open.
pub(super) const DISTINGUISHED: usize = 8;
/// The pointer depth up to which expressions are distinguished.
pub(super) const MAX_DEPTH: u8 = 20;

/// The known contents of memory.
pub(super) type Memory = BTreeMap<Address, (u64, Expression)>;

/// One open path.
#[derive(Clone)]
pub(super) struct State {
    pub(super) values: Vec<Expression>,
    pub(super) memory: Rc<Memory>,
    pub(super) facts: Rc<BTreeMap<Expression, bool>>,
    pub(super) machine: Rc<Machine>,
    pub(super) trace: u32,
    pub(super) from: u32,
    /// The number of iterations of each loop, and its states at the head.
    pub(super) rounds: Rc<BTreeMap<u32, (u32, Vec<u64>)>>,
    /// Members of persistent structures to which the path assigned a constant.
    pub(super) resets: Rc<FxHashSet<Member>>,
    /// Members that the path read.
    pub(super) reads: Rc<FxHashSet<Member>>,
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
    /// Arrays that indices select from, in the current function.
    pub(crate) extents: Extents,
    pub(crate) names: Names,
    pub(crate) sources: Sources,
    pub(crate) verdicts: Verdicts,
    pub(super) traces: Traces,
    pub(super) summaries: FxHashMap<FunctionId, Summary>,
    /// Exceeded limits.
    pub(crate) cuts: Cuts,
    /// Functions passed to libraries that were encountered where they are called.
    pub(super) met: FxHashSet<FunctionId>,
    /// The program has transactions that exclude other threads.
    pub(super) isolates: bool,
    /// The program has transactions.
    pub(super) has_transactions: bool,
    /// Variables in which only pointers to whole mapped files are ever stored.
    pub(crate) bases: FxHashSet<GlobalId>,
    /// What guards what.
    pub(crate) guards: Guards,
    /// Names of everything each function and its callees access.
    pub(super) touched: FxHashMap<FunctionId, FxHashSet<u32>>,
    /// Facts that compare a checksum with the data it is computed from.
    pub(super) validations: FxHashSet<Expression>,
    /// What the program does with members of persistent structures, and accesses left for callers to name.
    pub(crate) uses: Uses,
    pub(super) unnamed: FxHashMap<FunctionId, Vec<(Expression, Access, Put)>>,
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
        let begins = |isolates: bool| {
            program.functions.iter().any(|function| {
                apis.meaning(&function.name).is_some_and(|meaning| {
                    (!isolates || apis.frameworks[meaning.framework].commit.isolates)
                        && meaning.effects.iter().any(|effect| effect.what == What::Begin)
                })
            })
        };
        Explorer {
            program,
            apis,
            analysis,
            model,
            pedantic,
            bounds,
            expressions: Expressions::new(),
            extents: Extents::default(),
            names: Names::new(),
            sources: Sources::default(),
            verdicts: Verdicts::default(),
            traces: Traces::default(),
            summaries: FxHashMap::default(),
            cuts: Cuts::default(),
            met: FxHashSet::default(),
            isolates: begins(true),
            has_transactions: begins(false),
            bases: bases::of(program, apis),
            guards: Guards::default(),
            touched: FxHashMap::default(),
            validations: FxHashSet::default(),
            uses: Uses::default(),
            unnamed: FxHashMap::default(),
        }
    }

    /// Callees first; recursion is followed until nothing changes, or up to its bound.
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
        self.run_exported();
        // A function called only by code out of sight is an entry point.
        for id in self.analysis.order.iter().flatten() {
            if self.analysis.handed_on.contains(id) && !self.met.contains(id) {
                Walk::new(self, *id, true).run();
                self.traces.clear();
            }
        }
    }
}

impl Explorer<'_> {
    /// Without a `main`, non-static functions may be called from outside even if the program itself calls them, so they
    /// are judged as entry points as well. What a caller in the program makes good is not reported.
    fn run_exported(&mut self) {
        if self.program.defined().any(|id| self.program.function(id).name == "main") {
            return;
        }
        self.verdicts.is_tentative = true;
        for id in self.analysis.order.iter().flatten() {
            let function = self.program.function(*id);
            if function.external
                && self.analysis.called.contains(id)
                && !self.analysis.handed_on.contains(id)
                && !self.analysis.left_over.contains(id)
                && !self.cuts.is_inside(*id)
                && self.apis.meaning(&function.name).is_none()
                && !self.apis.is_of_a_library(&function.readable)
            {
                Walk::new(self, *id, true).run();
                self.traces.clear();
            }
        }
        self.verdicts.is_tentative = false;
        let mut verdicts = std::mem::take(&mut self.verdicts);
        verdicts.adopt(self.has_transactions, &|caller, called| self.leads_to(caller, called));
        self.verdicts = verdicts;
    }

    /// Whether a function is one of these, or calls one of them, directly or not.
    fn leads_to(&self, from: FunctionId, to: &FxHashSet<FunctionId>) -> bool {
        let mut seen = FxHashSet::default();
        let mut work = vec![from];
        while let Some(id) = work.pop() {
            if to.contains(&id) {
                return true;
            }
            if !seen.insert(id) {
                continue;
            }
            for (number, instruction) in (0..).zip(&self.program.function(id).instructions) {
                match instruction.op {
                    Op::Call { callee: Callee::Direct(called), .. } => work.push(called),
                    Op::Call { .. } => {
                        work.extend(self.analysis.targets.get(&(id, number)).into_iter().flatten())
                    }
                    _ => {}
                }
            }
        }
        false
    }
}

/// The walk through one function.
pub(super) struct Walk<'e, 'a> {
    pub(super) explorer: &'e mut Explorer<'a>,
    pub(super) id: FunctionId,
    pub(super) function: &'a Function,
    pub(super) shape: Shape,
    pub(super) pending: BTreeMap<(u32, u32), Vec<State>>,
    pub(super) ways: Vec<Way>,
    /// How the paths of an entry point ended, and whether that may also have been a failure.
    pub(super) ends: Vec<(Rc<Machine>, Exit, bool)>,
    /// Objects that are flushed or logged on some path.
    pub(super) cared_for: FxHashSet<Expression>,
    /// Loops that access persistent memory.
    pub(super) eventful: FxHashSet<u32>,
    pub(super) is_root: bool,
    /// `main`, or a thread's function: no code outside the program calls it and flushes later.
    pub(super) is_entry: bool,
    /// A program begins here.
    pub(super) is_main: bool,
    pub(super) steps: usize,
    pub(super) meetings: u32,
    /// Blocks where some path has ended a loop.
    pub(super) left_at: FxHashSet<u32>,
    /// Conditions of assertions.
    pub(super) asserted: FxHashSet<Expression>,
    /// Heads of loops that were left although their end is unknown.
    pub(super) undecided: FxHashSet<u32>,
    /// The returned value depends on the iteration count of such a loop.
    pub(super) counts: bool,
    /// The current block, and the blocks that branch on each fact.
    pub(super) current: u32,
    pub(super) branches: FxHashMap<Expression, FxHashSet<u32>>,
    /// Whether a block is reached on either side of another one's branch, as far as computed.
    pub(super) either_way: FxHashMap<(u32, u32), bool>,
    /// Guards and accesses already recorded.
    pub(super) seen_guards: FxHashSet<(Expression, Expression)>,
    pub(super) seen_touched: FxHashSet<Expression>,
    pub(super) seen_callees: FxHashSet<FunctionId>,
    pub(super) seen_guarded_callees: FxHashSet<(Expression, FunctionId)>,
    /// The members at addresses.
    pub(super) members: FxHashMap<Expression, Vec<Member>>,
    /// Pointers to this address are not used for names.
    pub(super) hidden: Option<Address>,
    /// Was the last description that of an element of an array, with an unknown index?
    pub(super) some_element: bool,
    /// Variables that hold pointers, in a fixed order.
    pub(super) variables: Vec<(Operand, &'a crashproof_frontend::program::ir::Variable)>,
}

impl<'e, 'a> Walk<'e, 'a> {
    fn new(explorer: &'e mut Explorer<'a>, id: FunctionId, is_root: bool) -> Self {
        let function = explorer.program.function(id);
        let shape = Shape::of(explorer.program, function);
        let is_main = function.name == "main" || explorer.analysis.mains.contains(&id);
        let is_entry = is_main || explorer.analysis.threads.iter().any(|thread| thread.runs == id);
        let mut walk = Walk {
            function,
            shape,
            pending: BTreeMap::new(),
            ways: Vec::new(),
            ends: Vec::new(),
            cared_for: FxHashSet::default(),
            eventful: FxHashSet::default(),
            is_root,
            is_entry,
            is_main,
            steps: 0,
            meetings: 0,
            asserted: FxHashSet::default(),
            undecided: FxHashSet::default(),
            counts: false,
            current: 0,
            left_at: FxHashSet::default(),
            branches: FxHashMap::default(),
            either_way: FxHashMap::default(),
            seen_guards: FxHashSet::default(),
            seen_touched: FxHashSet::default(),
            seen_callees: FxHashSet::default(),
            seen_guarded_callees: FxHashSet::default(),
            members: FxHashMap::default(),
            hidden: None,
            some_element: false,
            variables: Vec::new(),
            explorer,
            id,
        };
        walk.variables = function
            .variables
            .iter()
            .filter(|(_, variable)| {
                let ty = variable.ty.map(|ty| &walk.explorer.program.types[ty.0 as usize]);
                // Names the compiler invents, as for `for (auto &x : all)`, mean nothing to the user.
                let is_own = variable.name.starts_with("__");
                !variable.is_address && !is_own && ty.is_some_and(|ty| ty.is_pointer)
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
                let graph = &self.explorer.analysis.graphs[&self.id];
                graph.lookup(*address).is_some_and(|cell| graph.graph.flags(cell).persistent)
            }
            Op::Call { callee: Callee::Direct(called), .. } => {
                let name = &self.explorer.program.function(*called).name;
                match self.explorer.apis.meaning(name) {
                    Some(meaning) => !meaning.effects.is_empty(),
                    None => self
                        .explorer
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
            resets: Rc::default(),
            reads: Rc::default(),
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

    /// Walks all open paths through a block together, so that they can be joined after each call.
    fn block(&mut self, block: u32, mut states: Vec<State>) {
        self.current = block;
        if let Some(flushes) = self.shape.flush_loops.get(&block).copied() {
            for state in &mut states {
                if state.rounds.get(&block).is_some_and(|(rounds, _)| *rounds == 0) {
                    self.flush_loop(state, block, flushes);
                }
            }
        }
        let crashproof_frontend::program::ir::Block { start, end } = self.function.blocks[block as usize];
        for number in start..end - 1 {
            let instruction = &self.function.instructions[number as usize];
            if matches!(&instruction.op, Op::Offset { within: Some(_), .. }) && self.may_have_stopped(block) {
                states.retain(|state| !self.leaves_array(state, number, &instruction.op));
            }
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
            } else if let Op::Locked { expected: Some(_), .. } = &instruction.op {
                let each = states.into_iter();
                let after: Vec<State> = each
                    .flat_map(|state| {
                        self.compare_exchange(state, number, &instruction.op, instruction.place)
                    })
                    .collect();
                states = self.join(block, Some(number), after);
                states = self.thin(states);
            } else if let Op::Select { condition, yes, no } = &instruction.op {
                states = self.select_each(states, number, [*condition, *yes, *no]);
            } else {
                for state in &mut states {
                    self.step(state, number, &instruction.op, instruction.place);
                }
            }
        }
        for state in states {
            self.terminator(block, &self.function.terminator(block).op, state);
        }
    }
}

/// Whether a function's graph says that the target of a value was mapped or declared, and is nothing else.
pub(super) fn is_declared(analysis: &Analysis, id: FunctionId, number: u32) -> bool {
    let graph = &analysis.graphs[&id];
    graph.lookup(Operand::Instruction(number)).is_some_and(|cell| graph.graph.flags(cell).surely_declared())
}

/// What a function's graph says about the target of a value.
pub(super) fn persistence_of(analysis: &Analysis, id: FunctionId, number: u32) -> Persistence {
    let graph = &analysis.graphs[&id];
    match graph.lookup(Operand::Instruction(number)) {
        Some(cell) => graph.graph.persistence(cell),
        None => Persistence::No,
    }
}
