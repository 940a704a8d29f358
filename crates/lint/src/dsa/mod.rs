//! Data-structure analysis: which memory is persistent, which pointers may be the same, and what function
//! pointers point to.
//!
//! Three phases, as in Lattner, Lenharth and Adve (PLDI 2007) and section 4.2 of the DeepMC paper: a graph
//! for each function alone (`local`); callees' graphs copied into their callers, bottom up over the strongly
//! connected components of the call graph; and what callers know pushed down into callees. Context is kept
//! by copying, fields by byte offsets, allocation sites by a node each.
//!
//! Persistence starts at what the descriptions of libraries say (`crashproof_frontend::frameworks`), at persistent sections, and at
//! whatever is flushed or logged: nobody does that to volatile memory. It spreads along pointers.
//!
//! Deliberately coarse: array elements share the fields of the first one, and copies stop at a depth of
//! eight pointers. Both can only lose a reason to call memory persistent.

mod graph;
mod local;

use rustc_hash::{FxHashMap, FxHashSet};

use crashproof_frontend::frameworks::Apis;
use crashproof_frontend::program::ir::{Callee, FunctionId, GlobalId, Op, Operand, PlaceId, Program};

pub(crate) use graph::{Cell, Flags, Graph};

/// The graph of one function.
#[derive(Default, Debug)]
pub(crate) struct FunctionGraph {
    pub(crate) graph: Graph,
    /// What each value points to, if it was used as a pointer.
    pub(crate) values: FxHashMap<Operand, Cell>,
    /// What a returned pointer points to.
    pub(crate) result: Option<Cell>,
}

/// All graphs, and the call graph that came out.
#[derive(Debug)]
pub(crate) struct Analysis {
    pub(crate) graphs: FxHashMap<FunctionId, FunctionGraph>,
    /// Targets of calls through pointers, by function and instruction.
    pub(crate) targets: FxHashMap<(FunctionId, u32), Vec<FunctionId>>,
    /// Callees before callers; each entry is a strongly connected component.
    pub(crate) order: Vec<Vec<FunctionId>>,
    /// Functions that some code of the program calls.
    pub(crate) called: FxHashSet<FunctionId>,
    /// Functions of libraries that the program puts into objects, to be called through them, and that are not looked at elsewhere.
    pub(crate) handed_on: FxHashSet<FunctionId>,
    /// Functions of libraries that nothing calls any more, and that call nothing that is not looked at elsewhere.
    pub(crate) left_over: FxHashSet<FunctionId>,
    /// Functions that the library calls with a fresh object, and which parameter that is.
    pub(crate) constructors: FxHashMap<FunctionId, u32>,
    pub(crate) calls_itself: FxHashSet<FunctionId>,
    /// Calls through pointers with so many targets that none is followed.
    pub(crate) too_many: Vec<PlaceId>,
    /// Functions whose graph does not hold what all their callees know.
    pub(crate) too_large: Vec<FunctionId>,
}

/// More targets than this say nothing: the call is one of unknown code, and told.
const MAX_TARGETS: usize = 16;
/// So often callbacks that are passed on through callbacks are looked for.
const ROUNDS: usize = 3;
/// A graph of so many nodes is mostly copies of copies: no more callees are copied into it, and that is told.
const MAX_NODES: usize = 200_000;

/// Functions of C++ libraries that are put into objects, as `std::function` does with what calls a lambda, and by which
/// instruction. Who calls them shows only on the way through a function; they are looked at before.
fn handed_on(program: &Program, apis: &Apis) -> Calls {
    let mut all = Calls::default();
    for id in program.defined() {
        for (number, instruction) in (0..).zip(&program.function(id).instructions) {
            if let Op::Store { value: Operand::Function(target), .. } = &instruction.op
                && *target != id
                && program.function(*target).is_defined()
                && apis.is_of_a_library(&program.function(*target).readable)
            {
                all.entry(id).or_default().push((number, *target));
            }
        }
    }
    all
}

/// What libraries of C++ have made of lambdas, and what is left of themselves: no way into the program, as long as each lambda is
/// also part of a function of the program. Those that only a library calls, in a thread for example, are such ways.
fn looked_at_elsewhere(program: &Program, apis: &Apis) -> FxHashSet<FunctionId> {
    let lambdas = |id: FunctionId| -> FxHashSet<&str> {
        let mut all = FxHashSet::default();
        for instruction in &program.function(id).instructions {
            let mut next = Some(instruction.place);
            while let Some(place) = next.map(|id| program.place(id)) {
                if place.in_lambda {
                    all.insert(place.function.as_str());
                }
                next = place.inlined_at;
            }
        }
        all
    };
    let (theirs, own): (Vec<FunctionId>, Vec<FunctionId>) =
        program.defined().partition(|id| apis.is_of_a_library(&program.function(*id).readable));
    if theirs.is_empty() {
        return FxHashSet::default();
    }
    let covered: FxHashSet<&str> = own.into_iter().flat_map(lambdas).collect();
    theirs.into_iter().filter(|id| lambdas(*id).is_subset(&covered)).collect()
}

impl Analysis {
    /// Runs all phases, again while they show more functions that pointers point to: a callback is known where it is
    /// called only after the callers were looked at.
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
        let (mut constructors, mut callbacks) = (FxHashMap::default(), FxHashSet::default());
        let mut too_many = Vec::new();
        for id in program.defined() {
            for (number, instruction) in (0..).zip(&program.function(id).instructions) {
                let Op::Call { callee, arguments } = &instruction.op else { continue };
                match callee {
                    Callee::Indirect(pointer) => {
                        if targets.contains_key(&(id, number)) {
                            continue;
                        }
                        let found =
                            local::targets(program, &graphs[&id], id, number, *pointer, arguments.len());
                        if found.len() > MAX_TARGETS {
                            too_many.push(instruction.place);
                        } else if !found.is_empty() {
                            targets.insert((id, number), found);
                        }
                    }
                    Callee::Direct(called) => {
                        let meaning = apis.meaning(&program.function(*called).name);
                        if let Some(constructor) = meaning.and_then(|meaning| meaning.constructor)
                            && let Some(Operand::Function(target)) =
                                arguments.get(constructor.argument as usize)
                        {
                            constructors.insert(*target, constructor.object);
                        }
                        if meaning.is_none() && program.function(*called).is_defined() {
                            callbacks.extend(arguments.iter().filter_map(|argument| match argument {
                                Operand::Function(id) => Some(*id),
                                _ => None,
                            }));
                        }
                    }
                }
            }
        }
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
        // Whoever is handed to other code as a callback is called from there.
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
        let elsewhere = looked_at_elsewhere(program, apis);
        handed_on.retain(|id| !elsewhere.contains(id));
        let left_over = elsewhere.into_iter().filter(|id| !called.contains(id)).collect();
        let mut analysis = Analysis {
            graphs,
            targets,
            order,
            called,
            left_over,
            handed_on,
            constructors,
            calls_itself,
            too_many,
            too_large: Vec::new(),
        };
        analysis.bottom_up(program, &calls);
        analysis.top_down(program, &calls);
        for graph in analysis.graphs.values_mut() {
            graph.graph.spread();
        }
        analysis
    }

    /// Targets of calls that had none, now that callers have told what they pass.
    fn callbacks_found(&self, program: &Program) -> FxHashMap<(FunctionId, u32), Vec<FunctionId>> {
        let mut found = FxHashMap::default();
        for id in program.defined() {
            for (number, instruction) in (0..).zip(&program.function(id).instructions) {
                let Op::Call { callee: Callee::Indirect(pointer), arguments } = &instruction.op else {
                    continue;
                };
                // What is stored where somebody may store anything is no full list.
                if self.targets.contains_key(&(id, number))
                    || program.function(id).homes.contains_key(&number)
                {
                    continue;
                }
                let graph = &self.graphs[&id];
                let mut all =
                    graph.lookup(*pointer).map(|cell| graph.graph.functions(cell)).unwrap_or_default();
                all.retain(|target| program.function(*target).parameters as usize == arguments.len());
                if !all.is_empty() && all.len() <= MAX_TARGETS {
                    found.insert((id, number), all);
                }
            }
        }
        found
    }

    fn bottom_up(&mut self, program: &Program, calls: &Calls) {
        for component in self.order.clone() {
            // Inside a component the graphs as they are now stand for each other: a second round would only add
            // what the first already joined.
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
        // What globals hold is known to all.
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
                    self.graphs.insert(id, graph);
                }
            }
        }
    }
}

impl FunctionGraph {
    /// What a value points to, made if need be.
    pub(crate) fn value(&mut self, operand: Operand) -> Cell {
        if let Some(known) = self.lookup(operand) {
            return known;
        }
        let cell = match operand {
            Operand::Global(id, offset) => {
                let cell = self.graph.global(id, Flags::default());
                return Cell { node: cell.node, offset: cell.offset + offset };
            }
            _ => self.graph.node(Flags::default()),
        };
        if let Operand::Function(id) = operand {
            self.graph.add_function(cell, id);
        }
        self.values.insert(operand, cell);
        cell
    }

    /// What a value points to, if it is known.
    pub(crate) fn lookup(&self, operand: Operand) -> Option<Cell> {
        match operand {
            Operand::Global(id, offset) => {
                let cell = self.graph.global_cell(id)?;
                Some(Cell { node: cell.node, offset: cell.offset + offset })
            }
            _ => self.values.get(&operand).copied(),
        }
    }

    /// Arguments and result of a call beside parameters and result of the callee.
    fn pairs(&mut self, callee: &FunctionGraph, call: u32, arguments: &[Operand]) -> Vec<(Cell, Cell)> {
        let mut pairs = Vec::new();
        for (parameter, argument) in (0..).zip(arguments) {
            if matches!(argument, Operand::Int(_) | Operand::Undefined) {
                continue;
            }
            if let Some(theirs) = callee.values.get(&Operand::Parameter(parameter)) {
                pairs.push((self.value(*argument), *theirs));
            }
        }
        if let Some(theirs) = callee.result {
            pairs.push((self.value(Operand::Instruction(call)), theirs));
        }
        for (id, theirs) in callee.graph.globals() {
            let flags = callee.graph.flags(theirs);
            pairs.push((self.graph.global(id, flags), theirs));
        }
        pairs
    }
}

type Calls = FxHashMap<FunctionId, Vec<(u32, FunctionId)>>;

/// Who calls whom. What a description covers is not looked into.
fn call_graph(
    program: &Program,
    apis: &Apis,
    targets: &FxHashMap<(FunctionId, u32), Vec<FunctionId>>,
) -> Calls {
    let mut calls = Calls::default();
    for id in program.defined() {
        let mut own = Vec::new();
        for (number, instruction) in (0..).zip(&program.function(id).instructions) {
            let Op::Call { callee, .. } = &instruction.op else { continue };
            let called: &[FunctionId] = match callee {
                Callee::Direct(called) => &[*called],
                Callee::Indirect(_) => targets.get(&(id, number)).map_or(&[], |all| all),
            };
            for target in called {
                let function = program.function(*target);
                if function.is_defined() && apis.meaning(&function.name).is_none() {
                    own.push((number, *target));
                }
            }
        }
        calls.insert(id, own);
    }
    calls
}

/// Tarjan's strongly connected components, callees first; without recursion, for deep call graphs.
fn components(program: &Program, calls: &Calls) -> Vec<Vec<FunctionId>> {
    struct Mark {
        index: u32,
        low: u32,
        on_stack: bool,
    }
    let mut marks: FxHashMap<FunctionId, Mark> = FxHashMap::default();
    let (mut stack, mut order) = (Vec::new(), Vec::new());
    for root in program.defined() {
        if marks.contains_key(&root) {
            continue;
        }
        // Functions on the way down, each with the next call to look at.
        let mut way: Vec<(FunctionId, usize)> = Vec::new();
        let mut enter = Some(root);
        loop {
            if let Some(id) = enter.take() {
                let index = marks.len() as u32;
                marks.insert(id, Mark { index, low: index, on_stack: true });
                stack.push(id);
                way.push((id, 0));
            }
            let Some((id, next)) = way.last_mut() else { break };
            let id = *id;
            if let Some((_, target)) = calls[&id].get(*next) {
                *next += 1;
                match marks.get(target) {
                    None => enter = Some(*target),
                    Some(mark) if mark.on_stack => {
                        let index = mark.index;
                        let own = marks.get_mut(&id).expect("entered");
                        own.low = own.low.min(index);
                    }
                    Some(_) => {}
                }
                continue;
            }
            way.pop();
            let (index, low) = (marks[&id].index, marks[&id].low);
            if let Some((above, _)) = way.last() {
                let above = marks.get_mut(above).expect("entered");
                above.low = above.low.min(low);
            }
            if low == index {
                let mut component = Vec::new();
                while let Some(member) = stack.pop() {
                    marks.get_mut(&member).expect("entered").on_stack = false;
                    component.push(member);
                    if member == id {
                        break;
                    }
                }
                order.push(component);
            }
        }
    }
    order
}
