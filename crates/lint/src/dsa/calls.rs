//! The call graph, callees first.

use rustc_hash::{FxHashMap, FxHashSet};

use crashproof_frontend::frameworks::Apis;
use crashproof_frontend::program::ir::{Callee, FunctionId, Op, Operand, Program};

/// Calls of each function, by instruction.
pub(super) type Calls = FxHashMap<FunctionId, Vec<(u32, FunctionId)>>;

/// The call graph. Described functions are leaves.
pub(super) fn call_graph(
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
pub(super) fn components(program: &Program, calls: &Calls) -> Vec<Vec<FunctionId>> {
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
        // The current path of functions, each with the next call to visit.
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

/// Functions of C++ libraries stored in objects, as `std::function` does with the function that calls a lambda, and the
/// storing instruction. Their callers are known only during exploration, so they are explored first.
pub(super) fn handed_on(program: &Program, apis: &Apis) -> Calls {
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

/// Functions of C++ libraries whose lambdas are also inlined into functions of the program: they are not entry points.
/// Those called only by a library, for example in a thread, are.
pub(super) fn inlined_elsewhere(program: &Program, apis: &Apis) -> FxHashSet<FunctionId> {
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
