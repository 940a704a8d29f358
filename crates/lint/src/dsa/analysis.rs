//! The phases over all graphs, and the call graph they result in.

use rustc_hash::{FxHashMap, FxHashSet};

use super::calls::{Calls, call_graph, components, handed_on, inlined_elsewhere};
use super::function::FunctionGraph;
use super::graph::{Cell, Flags};
use super::local;
use crate::returned;
use crashproof_frontend::frameworks::Apis;
use crashproof_frontend::program::ir::{Callee, FunctionId, GlobalId, Op, Operand, Program};

/// All graphs, and the call graph.
#[derive(Debug)]
pub(crate) struct Analysis {
    pub(crate) graphs: FxHashMap<FunctionId, FunctionGraph>,
    /// Targets of calls through pointers, by function and instruction.
    pub(crate) targets: FxHashMap<(FunctionId, u32), Vec<FunctionId>>,
    /// Callees before callers; each entry is a strongly connected component.
    pub(crate) order: Vec<Vec<FunctionId>>,
    /// Functions that some code of the program calls.
    pub(crate) called: FxHashSet<FunctionId>,
    /// Library functions that the program stores in objects in order to call them, and that are not inlined into a
    /// function of the program.
    pub(crate) handed_on: FxHashSet<FunctionId>,
    /// Library functions that are no longer called because they were inlined.
    pub(crate) left_over: FxHashSet<FunctionId>,
    /// Functions that the library calls with a fresh object, and which parameter that is.
    pub(crate) constructors: FxHashMap<FunctionId, u32>,
    pub(crate) calls_itself: FxHashSet<FunctionId>,
    pub(crate) threads: Vec<Thread>,
    /// Where programs begin.
    pub(crate) mains: Vec<FunctionId>,
    /// Functions whose graph is missing some callees.
    pub(crate) too_large: Vec<FunctionId>,
}

/// With more targets than this, a call is treated as a call of unknown code.
const MAX_TARGETS: usize = 16;
/// Rounds in which callbacks passed through callbacks are resolved.
const ROUNDS: usize = 3;
/// A graph with more nodes than this is mostly copies of copies: no more callees are copied into it, and the function
/// is reported as UNKNOWN.
const MAX_NODES: usize = 200_000;

/// A started thread: the call that starts it, the function it runs, and its argument.
#[derive(Debug)]
pub(crate) struct Thread {
    by: FunctionId,
    pub(crate) runs: FunctionId,
    passed: Operand,
}

/// What calls reveal besides their targets.
#[derive(Default)]
struct Resolved {
    constructors: FxHashMap<FunctionId, u32>,
    /// Functions that are passed to functions of the program.
    callbacks: FxHashSet<FunctionId>,
    threads: Vec<Thread>,
}

/// The functions that C++ threads run: the one that calls what a `std::thread` was given, found through the virtual
/// table of the object that holds it.
fn thread_objects(program: &Program) -> FxHashMap<GlobalId, FunctionId> {
    let of_run = |name: &str| -> Option<String> {
        let arguments = name.strip_prefix("_ZNSt6thread11_State_impl")?.strip_suffix("6_M_runEv")?;
        Some(arguments.to_owned())
    };
    let runs: FxHashMap<String, FunctionId> =
        program.defined().filter_map(|id| Some((of_run(&program.function(id).name)?, id))).collect();
    let of_table = |name: &str| -> Option<FunctionId> {
        let arguments = name.strip_prefix("_ZTVNSt6thread11_State_impl")?.strip_suffix('E')?;
        runs.get(arguments).copied()
    };
    (0..)
        .zip(&program.globals)
        .filter_map(|(id, global)| Some((GlobalId(id), of_table(&global.name)?)))
        .collect()
}

/// Finds the targets of calls through pointers, the constructors and the callbacks.
fn resolve(
    program: &Program,
    apis: &Apis,
    graphs: &FxHashMap<FunctionId, FunctionGraph>,
    targets: &mut FxHashMap<(FunctionId, u32), Vec<FunctionId>>,
) -> Resolved {
    let mut resolved = Resolved::default();
    let runs = thread_objects(program);
    for id in program.defined() {
        for (number, instruction) in (0..).zip(&program.function(id).instructions) {
            if let Op::Store { address, value: Operand::Global(table, _), .. } = &instruction.op
                && let Some(runs) = runs.get(table)
            {
                resolved.threads.push(Thread { by: id, runs: *runs, passed: *address });
            }
            let Op::Call { callee, arguments } = &instruction.op else { continue };
            match callee {
                Callee::Indirect(pointer) => {
                    if targets.contains_key(&(id, number)) {
                        continue;
                    }
                    let found = local::targets(program, &graphs[&id], id, number, *pointer, arguments.len());
                    if (1..=MAX_TARGETS).contains(&found.len()) {
                        targets.insert((id, number), found);
                    }
                }
                Callee::Direct(called) => {
                    let meaning = apis.meaning(&program.function(*called).name);
                    if let Some(constructor) = meaning.and_then(|meaning| meaning.constructor)
                        && let Some(Operand::Function(target)) = arguments.get(constructor.argument as usize)
                    {
                        resolved.constructors.insert(*target, constructor.object);
                    }
                    if let Some(starts) = meaning.and_then(|meaning| meaning.starts)
                        && let Some(Operand::Function(runs)) = arguments.get(starts.argument as usize)
                    {
                        let passed = arguments.get(starts.passes as usize).copied();
                        let passed = passed.unwrap_or(Operand::Undefined);
                        resolved.threads.push(Thread { by: id, runs: *runs, passed });
                    }
                    if meaning.is_none() && program.function(*called).is_defined() {
                        resolved.callbacks.extend(arguments.iter().filter_map(|argument| match argument {
                            Operand::Function(id) => Some(*id),
                            _ => None,
                        }));
                    }
                }
            }
        }
    }
    resolved
}

impl Analysis {
    /// Runs all phases, repeatedly while that resolves more calls: a callback is known at its call only after its
    /// callers have been analyzed.
    pub(crate) fn run(program: &Program, apis: &Apis) -> Analysis {
        let mut analysis = Analysis::once(program, apis, FxHashMap::default());
        for _ in 0..ROUNDS {
            let found = analysis.callbacks_found(program);
            if found.is_empty() {
                break;
            }
            let mut known = std::mem::take(&mut analysis.targets);
            known.extend(found);
            analysis = Analysis::once(program, apis, known);
        }
        analysis
    }

    fn once(
        program: &Program,
        apis: &Apis,
        mut targets: FxHashMap<(FunctionId, u32), Vec<FunctionId>>,
    ) -> Analysis {
        let mut graphs: FxHashMap<FunctionId, FunctionGraph> =
            program.defined().map(|id| (id, local::build(program, apis, id))).collect();
        let Resolved { constructors, callbacks, threads } = resolve(program, apis, &graphs, &mut targets);
        for (id, parameter) in &constructors {
            if let Some(graph) = graphs.get_mut(id) {
                let cell = graph.value(Operand::Parameter(*parameter));
                graph.graph.add_flags(cell, Flags { persistent: true, ..Flags::default() });
            }
        }
        let calls = call_graph(program, apis, &targets);
        let handed_on = handed_on(program, apis);
        let mut followed = calls.clone();
        for (from, own) in &handed_on {
            followed.entry(*from).or_default().extend(own);
        }
        let order = components(program, &followed);
        let mut handed_on: FxHashSet<FunctionId> = handed_on.values().flatten().map(|(_, id)| *id).collect();
        let component: FxHashMap<FunctionId, usize> =
            order.iter().enumerate().flat_map(|(at, all)| all.iter().map(move |id| (*id, at))).collect();
        // A callback is called by the function it is passed to.
        let (mut called, mut calls_itself) = (callbacks, FxHashSet::default());
        for (from, own) in &calls {
            for (_, to) in own {
                if from == to {
                    calls_itself.insert(*to);
                } else if component[from] != component[to] {
                    called.insert(*to);
                }
            }
        }
        called.extend(&handed_on);
        // What a runtime starts is an entry point, although it is passed to a function of the program.
        let mains = program.mains();
        called.retain(|id| !mains.contains(id));
        let elsewhere = inlined_elsewhere(program, apis);
        handed_on.retain(|id| !elsewhere.contains(id));
        let runs = |id: &FunctionId| threads.iter().any(|thread| thread.runs == *id);
        let left_over = elsewhere.into_iter().filter(|id| !called.contains(id) && !runs(id)).collect();
        let mut analysis = Analysis {
            graphs,
            targets,
            order,
            called,
            left_over,
            handed_on,
            constructors,
            calls_itself,
            threads,
            mains,
            too_large: Vec::new(),
        };
        analysis.bottom_up(program, &calls);
        analysis.top_down(program, &calls);
        for graph in analysis.graphs.values_mut() {
            graph.graph.spread();
        }
        analysis
    }

    /// Targets of previously unresolved calls, now that the callers' arguments are known.
    fn callbacks_found(&self, program: &Program) -> FxHashMap<(FunctionId, u32), Vec<FunctionId>> {
        let mut found = FxHashMap::default();
        for id in program.defined() {
            for (number, instruction) in (0..).zip(&program.function(id).instructions) {
                let Op::Call { callee: Callee::Indirect(pointer), arguments } = &instruction.op else {
                    continue;
                };
                // A place that may hold anything has no complete list of functions.
                if self.targets.contains_key(&(id, number))
                    || program.function(id).homes.contains_key(&number)
                {
                    continue;
                }
                let graph = &self.graphs[&id];
                let mut all =
                    graph.lookup(*pointer).map(|cell| graph.graph.functions(cell)).unwrap_or_default();
                all.retain(|target| returned::takes(program, *target, arguments.len()));
                if !all.is_empty() && all.len() <= MAX_TARGETS {
                    found.insert((id, number), all);
                }
            }
        }
        found
    }

    fn bottom_up(&mut self, program: &Program, calls: &Calls) {
        for component in self.order.clone() {
            // Inside a component the current graphs stand in for each other: a second round would only add what the
            // first has already joined.
            for id in component {
                let Some(mut graph) = self.graphs.remove(&id) else { continue };
                for (number, target) in calls.get(&id).into_iter().flatten() {
                    if *target == id {
                        continue;
                    }
                    let Some(callee) = self.graphs.get(target) else { continue };
                    let Op::Call { arguments, .. } = &program.function(id).instructions[*number as usize].op
                    else {
                        continue;
                    };
                    let pairs = graph.pairs(callee, *number, arguments);
                    graph.graph.join_copy(&callee.graph, &pairs);
                    if graph.graph.len() > MAX_NODES {
                        self.too_large.push(id);
                        break;
                    }
                }
                self.graphs.insert(id, graph);
            }
        }
    }

    fn top_down(&mut self, program: &Program, calls: &Calls) {
        // What globals point to is the same for all functions.
        let mut shared: FxHashMap<GlobalId, Flags> = FxHashMap::default();
        for _ in 0..2 {
            for graph in self.graphs.values_mut() {
                graph.graph.spread();
                for (id, cell) in graph.graph.globals() {
                    if let Some(pointee) = graph.graph.edge(cell) {
                        let flags = graph.graph.flags(pointee);
                        shared.entry(id).or_default().add(flags);
                    }
                }
            }
            for graph in self.graphs.values_mut() {
                for (id, cell) in graph.graph.globals() {
                    if let Some(flags) = shared.get(&id)
                        && let Some(pointee) = graph.graph.edge(cell)
                    {
                        graph.graph.add_flags(pointee, *flags);
                    }
                }
            }
            for component in self.order.clone().into_iter().rev() {
                for id in component {
                    let Some(mut graph) = self.graphs.remove(&id) else { continue };
                    graph.graph.spread();
                    for (number, target) in calls.get(&id).into_iter().flatten() {
                        let Some(callee) = self.graphs.get_mut(target) else { continue };
                        let Op::Call { arguments, .. } =
                            &program.function(id).instructions[*number as usize].op
                        else {
                            continue;
                        };
                        let pairs: Vec<(Cell, Cell)> = (0..)
                            .zip(arguments)
                            .filter_map(|(parameter, argument)| {
                                let own = *callee.values.get(&Operand::Parameter(parameter))?;
                                Some((own, graph.lookup(*argument)?))
                            })
                            .collect();
                        callee.graph.take_flags(&graph.graph, &pairs);
                    }
                    for thread in self.threads.iter().filter(|thread| thread.by == id && thread.runs != id) {
                        let passed = graph.lookup(thread.passed);
                        let runs = self.graphs.get_mut(&thread.runs);
                        if let (Some(passed), Some(runs)) = (passed, runs) {
                            let own = runs.value(Operand::Parameter(0));
                            runs.graph.take_flags(&graph.graph, &[(own, passed)]);
                        }
                    }
                    self.graphs.insert(id, graph);
                }
            }
        }
    }
}
