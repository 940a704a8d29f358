//! The graph of a function alone, and the targets of its calls through pointers.

use std::ops::Range;

use rustc_hash::FxHashSet;

use crate::{mapping, returned};

use super::function::FunctionGraph;
use super::graph::{Cell, Flags};
use crashproof_frontend::frameworks::{Apis, Meaning, Returns, What};
use crashproof_frontend::program::ir::{Callee, Function, FunctionId, Op, Operand, Program, SourceType};

const NONE: Flags = Flags {
    persistent: false,
    declared: false,
    page: false,
    inside: false,
    stack: false,
    heap: false,
    global: false,
};
const PERSISTENT: Flags = Flags { persistent: true, ..NONE };
const DECLARED: Flags = Flags { persistent: true, declared: true, ..NONE };
const HEAP: Flags = Flags { heap: true, ..NONE };
const STACK: Flags = Flags { stack: true, ..NONE };
const GLOBAL: Flags = Flags { global: true, ..NONE };

/// Builds the graph of a function.
pub(super) fn build(program: &Program, apis: &Apis, id: FunctionId) -> FunctionGraph {
    let function = program.function(id);
    let mut graph = FunctionGraph::default();
    declared_types(program, apis, function, &mut graph);
    // First, because a structure may be copied from a constant.
    content_of_globals(program, apis, &mut graph, operands_that_are_globals(function));
    for (number, instruction) in (0..).zip(&function.instructions) {
        content_of_elements(program, &mut graph, &instruction.op);
        one(program, apis, function, &mut graph, number, &instruction.op);
    }
    graph
}

/// An index selects an element of a constant table. The graph represents elements by the first one: whatever any of
/// them holds, the first may hold.
fn content_of_elements(program: &Program, graph: &mut FunctionGraph, op: &Op) {
    let Op::Offset { base: base @ Operand::Global(id, inside), offset, index, .. } = op else { return };
    let [(_, scale)] = index[..] else { return };
    let start = inside + offset;
    let cell = graph.value(*base);
    for (at, content) in &program.globals[id.0 as usize].pointers {
        let behind = *at as i64 - start;
        if scale < 8 || behind < scale {
            continue;
        }
        let first = Cell { node: cell.node, offset: cell.offset + offset + behind % scale };
        let target = graph.graph.pointee(first);
        match content {
            Operand::Function(function) => graph.graph.add_function(target, *function),
            Operand::Global(..) => {
                let own = graph.value(*content);
                graph.graph.unify(target, own);
            }
            _ => {}
        }
    }
}

/// Variables whose type a description declares persistent.
fn declared_types(program: &Program, apis: &Apis, function: &Function, graph: &mut FunctionGraph) {
    if apis.types.is_empty() {
        return;
    }
    for (operand, variable) in &function.variables {
        let Some(ty) = variable.ty.filter(|_| !variable.is_address) else { continue };
        let ty = &program.types[ty.0 as usize];
        let Some(base) = ty.base.filter(|_| ty.is_pointer) else { continue };
        let base = &program.types[base.0 as usize];
        let Some(declared) = apis.types.iter().find(|declared| declared.name == base.name) else { continue };
        let cell = graph.value(*operand);
        graph.graph.add_flags(cell, PERSISTENT);
        for (offset, name, _) in &base.members {
            if declared.volatile_from.as_ref() == Some(name) {
                graph.graph.add_volatile(cell, *offset as i64..i64::MAX);
            }
        }
        for path in &declared.volatile {
            if let Some(range) = member(program, base, path) {
                graph.graph.add_volatile(cell, range);
            }
        }
    }
}

/// The range of a member; nested members are separated by dots.
fn member(program: &Program, ty: &SourceType, path: &str) -> Option<Range<i64>> {
    let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
    let at = ty.members.iter().position(|member| member.1 == name)?;
    let (offset, _, inner) = &ty.members[at];
    let start = *offset as i64;
    match rest {
        Some(rest) => {
            let inside = member(program, &program.types[(*inner)?.0 as usize], rest)?;
            Some(start + inside.start..start + inside.end)
        }
        None => Some(start..ty.members.get(at + 1).map_or(ty.bytes, |next| next.0) as i64),
    }
}

fn operands_that_are_globals(function: &Function) -> Vec<Operand> {
    let mut all = Vec::new();
    let mut add = |operand: &Operand| {
        if matches!(operand, Operand::Global(..)) && !all.contains(operand) {
            all.push(*operand);
        }
    };
    for instruction in &function.instructions {
        match &instruction.op {
            Op::Load { address, .. } | Op::Locked { address, .. } | Op::Flush { address, .. } => add(address),
            Op::Store { address, value, .. } => {
                add(address);
                add(value);
            }
            Op::Offset { base, .. } => add(base),
            Op::Copy { value } => add(value),
            Op::Call { arguments, .. } => arguments.iter().for_each(&mut add),
            Op::Bulk { target, source, .. } => {
                add(target);
                source.iter().for_each(&mut add);
            }
            Op::Phi { incoming } => incoming.iter().for_each(|(_, operand)| add(operand)),
            Op::Select { yes, no, .. } => {
                add(yes);
                add(no);
            }
            Op::Return { value } => value.iter().for_each(&mut add),
            _ => {}
        }
    }
    all
}

/// The initial contents of globals, and of everything they point to.
fn content_of_globals(program: &Program, apis: &Apis, graph: &mut FunctionGraph, operands: Vec<Operand>) {
    let mut seen = FxHashSet::default();
    let mut work = operands;
    while let Some(operand) = work.pop() {
        let Operand::Global(id, _) = operand else { continue };
        if !seen.insert(id) {
            continue;
        }
        let global = &program.globals[id.0 as usize];
        let persistent = apis.sections.contains(&global.section);
        let flags = if persistent { PERSISTENT } else { GLOBAL };
        let cell = graph.graph.global(id, flags);
        graph.graph.add_flags(cell, flags);
        for (offset, content) in &global.pointers {
            let at = Cell { node: cell.node, offset: *offset as i64 + cell.offset };
            match content {
                Operand::Function(function) => {
                    let target = graph.graph.pointee(at);
                    graph.graph.add_function(target, *function);
                }
                Operand::Global(..) => {
                    let (target, own) = (graph.graph.pointee(at), graph.value(*content));
                    graph.graph.unify(target, own);
                    work.push(*content);
                }
                _ => {}
            }
        }
    }
}

fn is_value(operand: Operand) -> bool {
    !matches!(operand, Operand::Int(_) | Operand::Undefined)
}

/// Makes two values point to the same memory.
fn join(graph: &mut FunctionGraph, left: Operand, right: Operand) {
    if is_value(left) && is_value(right) {
        let (left, right) = (graph.value(left), graph.value(right));
        graph.graph.unify(left, right);
    }
}

/// Sets what a result points to.
fn define(graph: &mut FunctionGraph, this: Operand, cell: Cell) {
    match graph.values.get(&this) {
        Some(known) => graph.graph.unify(*known, cell),
        None => {
            graph.values.insert(this, cell);
        }
    }
}

fn one(program: &Program, apis: &Apis, owner: &Function, graph: &mut FunctionGraph, number: u32, op: &Op) {
    let this = Operand::Instruction(number);
    match op {
        Op::Alloca { .. } => {
            let cell = graph.value(this);
            graph.graph.add_flags(cell, STACK);
        }
        Op::Load { .. } | Op::Store { .. } | Op::Locked { .. } | Op::Bulk { .. } => access(graph, this, op),
        Op::Flush { address, .. } if is_value(*address) => {
            let cell = graph.value(*address);
            graph.graph.add_flags(cell, PERSISTENT);
        }
        Op::Return { value: Some(value) } if is_value(*value) => {
            let cell = graph.value(*value);
            match graph.result {
                Some(known) => graph.graph.unify(known, cell),
                None => graph.result = Some(cell),
            }
        }
        Op::NotUnderstood { pointers, .. } => {
            for pointer in pointers.iter().filter(|pointer| is_value(**pointer)) {
                graph.value(*pointer);
            }
        }
        // Callers determine what they pass.
        Op::Call { callee: Callee::Indirect(pointer), .. } if is_value(*pointer) => {
            graph.value(*pointer);
        }
        Op::Call { callee: Callee::Direct(called), arguments } => {
            let function = program.function(*called);
            // Whether unknown code is passed persistent memory may be known to callers only.
            if !function.is_defined() {
                arguments.iter().filter(|argument| is_value(**argument)).for_each(|argument| {
                    graph.value(*argument);
                });
            }
            if let Some(meaning) = apis.meaning(&function.name) {
                described(graph, this, meaning, arguments);
                if mapping::is_shared_file(program, apis, owner, op) {
                    let cell = graph.value(this);
                    graph.graph.add_flags(cell, Flags { page: true, ..DECLARED });
                }
                if let Some(id) = returned::function(program, apis, meaning.returns) {
                    let cell = graph.value(this);
                    graph.graph.add_function(cell, id);
                }
            }
        }
        _ => computed(graph, this, op),
    }
}

/// Loads, stores and copies.
fn access(graph: &mut FunctionGraph, this: Operand, op: &Op) {
    match op {
        Op::Load { address, .. } if is_value(*address) => {
            let address = graph.value(*address);
            let pointee = graph.graph.pointee(address);
            define(graph, this, pointee);
        }
        Op::Store { address, value, bytes: 8, .. } | Op::Locked { address, value, bytes: 8, .. }
            if is_value(*address) && is_value(*value) =>
        {
            let address = graph.value(*address);
            let pointee = graph.graph.pointee(address);
            let value = graph.value(*value);
            graph.graph.unify(pointee, value);
            exchanged(graph, this, op, pointee);
        }
        // No pointer is stored, but the target of the store is known.
        Op::Store { address, .. }
        | Op::Locked { address, .. }
        | Op::Bulk { target: address, source: None, .. }
            if is_value(*address) =>
        {
            graph.value(*address);
        }
        Op::Bulk { target, source: Some(source), .. } => copy(graph, *target, *source),
        _ => {}
    }
}

/// The result of a locked instruction is what memory held before; that of a compare-exchange is a pair with it.
fn exchanged(graph: &mut FunctionGraph, this: Operand, op: &Op, before: Cell) {
    match op {
        Op::Locked { expected: Some(_), .. } => {
            let pair = graph.value(this);
            let member = graph.graph.pointee(in_aggregate(pair, 0));
            graph.graph.unify(member, before);
        }
        Op::Locked { expected: None, .. } => define(graph, this, before),
        _ => {}
    }
}

/// Copies a structure: both now contain its pointers.
fn copy(graph: &mut FunctionGraph, target: Operand, source: Operand) {
    if !is_value(target) || !is_value(source) {
        return;
    }
    let (target, source) = (graph.value(target), graph.value(source));
    for offset in (0..128).step_by(8) {
        let from = Cell { node: source.node, offset: source.offset + offset };
        if let Some(pointee) = graph.graph.edge(from) {
            let to = Cell { node: target.node, offset: target.offset + offset };
            let own = graph.graph.pointee(to);
            graph.graph.unify(own, pointee);
        }
    }
}

/// A structure in registers, such as a returned pair, is represented like one in memory: its members are fields.
fn in_aggregate(aggregate: Cell, index: u32) -> Cell {
    Cell { node: aggregate.node, offset: aggregate.offset + i64::from(index) * 8 }
}

/// Pointers that are computed from others.
fn computed(graph: &mut FunctionGraph, this: Operand, op: &Op) {
    match op {
        Op::Offset { base, offset, index, .. } if is_value(*base) => {
            let base = graph.value(*base);
            if !index.is_empty() && graph.graph.find(base).offset + offset == 0 {
                graph.graph.add_flags(base, Flags { inside: true, ..Flags::default() });
            }
            define(graph, this, Cell { node: base.node, offset: base.offset + offset });
        }
        // The side that is a pointer determines the object.
        Op::Arithmetic { left, right, .. } => match (is_value(*left), is_value(*right)) {
            (true, false) => join(graph, this, *left),
            (false, true) => join(graph, this, *right),
            _ => {}
        },
        Op::Extract { aggregate, index } if is_value(*aggregate) => {
            let aggregate = graph.value(*aggregate);
            let member = graph.graph.pointee(in_aggregate(aggregate, *index));
            define(graph, this, member);
        }
        Op::Insert { aggregate, value, index } => {
            join(graph, this, *aggregate);
            if is_value(*value) {
                let (aggregate, value) = (graph.value(this), graph.value(*value));
                let member = graph.graph.pointee(in_aggregate(aggregate, *index));
                graph.graph.unify(member, value);
            }
        }
        Op::Copy { value } => join(graph, this, *value),
        Op::Phi { incoming } => incoming.iter().for_each(|(_, value)| join(graph, this, *value)),
        Op::Select { yes, no, .. } => {
            join(graph, this, *yes);
            join(graph, this, *no);
        }
        _ => {}
    }
}

/// Applies a description of the memory passed and returned.
fn described(graph: &mut FunctionGraph, this: Operand, meaning: &Meaning, arguments: &[Operand]) {
    for effect in &meaning.effects {
        let marks = matches!(
            effect.what,
            What::Store
                | What::StoreNonTemporal
                | What::Flush
                | What::FlushOrdered
                | What::FlushPages
                | What::Queue
                | What::Log
                | What::LogAndStore
        );
        let argument = effect.address.and_then(|address| arguments.get(address as usize));
        if let Some(argument) = argument.filter(|argument| marks && is_value(**argument)) {
            let cell = graph.value(*argument);
            graph.graph.add_flags(cell, PERSISTENT);
        }
    }
    let cell = graph.value(this);
    match meaning.returns {
        Returns::Persistent => {
            graph.graph.add_flags(cell, Flags { page: true, ..DECLARED });
        }
        Returns::Fresh => {
            graph.graph.add_flags(cell, Flags { inside: true, ..DECLARED });
        }
        Returns::Found | Returns::Direct(_) => {
            graph.graph.add_flags(cell, PERSISTENT);
        }
        Returns::Volatile => {
            graph.graph.add_flags(cell, HEAP);
        }
        Returns::Argument(number) => {
            if let Some(argument) = arguments.get(number as usize) {
                join(graph, this, *argument);
            }
        }
        _ => {}
    }
}

/// The targets of a call through a pointer: what the graph knows or, failing that, everything ever stored where the
/// pointer comes from. `None` if something unknown may be stored there, too.
pub(super) fn targets(
    program: &Program,
    graph: &FunctionGraph,
    id: FunctionId,
    call: u32,
    pointer: Operand,
    arguments: usize,
) -> Vec<FunctionId> {
    let fits = |target: &FunctionId| returned::takes(program, *target, arguments);
    let mut known = graph.lookup(pointer).map(|cell| graph.graph.functions(cell)).unwrap_or_default();
    known.retain(fits);
    if !known.is_empty() {
        return known;
    }
    let stored = program.function(id).homes.get(&call).and_then(|home| program.stored_functions.get(home));
    match stored {
        Some(stored) if !stored.open => stored.functions.iter().copied().filter(fits).collect(),
        _ => Vec::new(),
    }
}
