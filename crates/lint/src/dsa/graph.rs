//! The graph of data-structure analysis: nodes are memory objects, edges are pointers in their fields.
//!
//! Nodes are joined by unification (Lattner, Lenharth and Adve, PLDI 2007), with byte offsets: joining two
//! nodes shifts one into the other. If one node would have to lie inside itself at two offsets, its fields
//! are collapsed into one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::expression::Persistence;
use crashproof_frontend::program::ir::{FunctionId, GlobalId};

/// What is known about the memory a node represents. Several flags may hold if objects were joined.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Flags {
    pub(crate) persistent: bool,
    /// A description declares the memory itself persistent; that the program flushes it is not enough.
    pub(crate) declared: bool,
    /// A mapping: its first byte begins a page.
    pub(crate) page: bool,
    /// Some of it does not begin a page: an allocation, part of a mapping, or an element of an array at the start of a
    /// mapping.
    pub(crate) inside: bool,
    pub(crate) stack: bool,
    pub(crate) heap: bool,
    pub(crate) global: bool,
}

impl Flags {
    pub(crate) fn add(&mut self, other: Flags) -> bool {
        let before = *self;
        self.persistent |= other.persistent;
        self.declared |= other.declared;
        self.page |= other.page;
        self.inside |= other.inside;
        self.stack |= other.stack;
        self.heap |= other.heap;
        self.global |= other.global;
        *self != before
    }

    /// Persistent according to a description, and nothing else.
    pub(crate) fn surely_declared(self) -> bool {
        self.declared && !self.volatile()
    }

    /// Whether its first byte begins a page.
    fn begins_page(self) -> bool {
        self.page && !self.inside && !self.volatile()
    }

    /// Some of what the node represents is certainly volatile.
    pub(crate) fn volatile(self) -> bool {
        self.stack || self.heap || self.global
    }
}

/// A byte of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Cell {
    pub(crate) node: u32,
    pub(crate) offset: i64,
}

#[derive(Clone, Default, Debug)]
struct Node {
    /// Joined into another node, at this offset.
    forward: Option<Cell>,
    flags: Flags,
    collapsed: bool,
    edges: BTreeMap<i64, Cell>,
    functions: BTreeSet<FunctionId>,
    /// Offsets of data that is used only by the running program.
    volatile: Vec<Range<i64>>,
}

impl Node {
    fn is_surely_persistent(&self) -> bool {
        self.flags.persistent && !self.flags.volatile()
    }

    fn add_volatile(&mut self, range: Range<i64>, shift: i64) {
        // The end of all memory stays where it is.
        let range = range.start.saturating_add(shift)..range.end.saturating_add(shift);
        if !self.collapsed && !self.volatile.contains(&range) {
            self.volatile.push(range);
        }
    }
}

/// A graph.
#[derive(Clone, Default, Debug)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
    globals: FxHashMap<GlobalId, Cell>,
}

/// Copies of recursive structures deeper than this add no information.
const COPY_DEPTH: u32 = 8;

impl Graph {
    pub(crate) fn node(&mut self, flags: Flags) -> Cell {
        self.nodes.push(Node { flags, ..Node::default() });
        Cell { node: self.nodes.len() as u32 - 1, offset: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The current location of a cell.
    pub(crate) fn find(&self, mut cell: Cell) -> Cell {
        while let Some(next) = self.nodes[cell.node as usize].forward {
            cell = Cell { node: next.node, offset: next.offset + cell.offset };
        }
        if self.nodes[cell.node as usize].collapsed {
            cell.offset = 0;
        }
        cell
    }

    pub(crate) fn flags(&self, cell: Cell) -> Flags {
        self.nodes[self.find(cell).node as usize].flags
    }

    pub(crate) fn is_volatile_part(&self, cell: Cell) -> bool {
        let cell = self.find(cell);
        self.nodes[cell.node as usize].volatile.iter().any(|range| range.contains(&cell.offset))
    }

    /// Whether a cell is the first byte of a mapped file, and nothing else.
    pub(crate) fn begins_page(&self, cell: Cell) -> bool {
        let cell = self.find(cell);
        let node = &self.nodes[cell.node as usize];
        cell.offset == 0 && !node.collapsed && node.flags.begins_page()
    }

    /// What is known about the memory of a cell.
    pub(crate) fn persistence(&self, cell: Cell) -> Persistence {
        let flags = self.flags(cell);
        if !flags.persistent || self.is_volatile_part(cell) {
            Persistence::No
        } else if flags.volatile() {
            Persistence::Perhaps
        } else {
            Persistence::Surely
        }
    }

    pub(crate) fn add_volatile(&mut self, cell: Cell, range: Range<i64>) {
        let cell = self.find(cell);
        self.nodes[cell.node as usize].add_volatile(range, cell.offset);
    }

    pub(crate) fn add_flags(&mut self, cell: Cell, flags: Flags) -> bool {
        let at = self.find(cell).node as usize;
        self.nodes[at].flags.add(flags)
    }

    pub(crate) fn add_function(&mut self, cell: Cell, function: FunctionId) {
        let at = self.find(cell).node as usize;
        self.nodes[at].functions.insert(function);
    }

    pub(crate) fn functions(&self, cell: Cell) -> Vec<FunctionId> {
        self.nodes[self.find(cell).node as usize].functions.iter().copied().collect()
    }

    /// The node of a global variable.
    pub(crate) fn global(&mut self, id: GlobalId, flags: Flags) -> Cell {
        if let Some(known) = self.globals.get(&id) {
            return *known;
        }
        let cell = self.node(flags);
        self.globals.insert(id, cell);
        cell
    }

    pub(crate) fn globals(&self) -> Vec<(GlobalId, Cell)> {
        self.globals.iter().map(|(id, cell)| (*id, *cell)).collect()
    }

    pub(crate) fn global_cell(&self, id: GlobalId) -> Option<Cell> {
        self.globals.get(&id).copied()
    }

    /// What a field points to, if any pointer was seen there.
    pub(crate) fn edge(&self, cell: Cell) -> Option<Cell> {
        let cell = self.find(cell);
        let target = self.nodes[cell.node as usize].edges.get(&cell.offset)?;
        Some(self.find(*target))
    }

    /// What a field points to; an unknown object if no pointer was seen.
    pub(crate) fn pointee(&mut self, cell: Cell) -> Cell {
        if let Some(known) = self.edge(cell) {
            return known;
        }
        let cell = self.find(cell);
        let fresh = self.node(Flags::default());
        self.nodes[cell.node as usize].edges.insert(cell.offset, fresh);
        fresh
    }

    /// Whether a cell, or anything reachable from it through pointers, is certainly persistent.
    pub(crate) fn leads_to_persistent(&self, cell: Cell) -> bool {
        let mut seen = rustc_hash::FxHashSet::default();
        let mut work = vec![self.find(cell).node];
        while let Some(at) = work.pop() {
            if seen.insert(at) {
                let node = &self.nodes[at as usize];
                if node.is_surely_persistent() {
                    return true;
                }
                work.extend(node.edges.values().map(|target| self.find(*target).node));
            }
        }
        false
    }

    /// Whether anything in the graph is certainly persistent.
    pub(crate) fn has_persistent(&self) -> bool {
        self.nodes.iter().any(|node| node.forward.is_none() && node.is_surely_persistent())
    }

    /// Unifies two cells that are the same memory.
    pub(crate) fn unify(&mut self, left: Cell, right: Cell) {
        let mut work = vec![(left, right)];
        while let Some((left, right)) = work.pop() {
            let (mut left, mut right) = (self.find(left), self.find(right));
            if left.node == right.node {
                if left.offset != right.offset {
                    self.collapse(left.node, &mut work);
                }
                continue;
            }
            // The cell that lies further inside keeps its node; offsets stay positive.
            if left.offset < right.offset {
                std::mem::swap(&mut left, &mut right);
            }
            let any_collapsed =
                self.nodes[left.node as usize].collapsed || self.nodes[right.node as usize].collapsed;
            let shift = if any_collapsed { 0 } else { left.offset - right.offset };
            let moved = std::mem::take(&mut self.nodes[right.node as usize]);
            self.nodes[right.node as usize].forward = Some(Cell { node: left.node, offset: shift });
            let target = &mut self.nodes[left.node as usize];
            target.flags.add(moved.flags);
            target.flags.inside |= shift != 0 && (moved.flags.page || target.flags.page);
            target.functions.extend(moved.functions);
            for range in moved.volatile {
                target.add_volatile(range, shift);
            }
            if any_collapsed {
                self.collapse(left.node, &mut work);
            }
            for (offset, pointee) in moved.edges {
                let at = if any_collapsed { 0 } else { offset + shift };
                match self.nodes[left.node as usize].edges.get(&at).copied() {
                    Some(known) => work.push((known, pointee)),
                    None => {
                        self.nodes[left.node as usize].edges.insert(at, pointee);
                    }
                }
            }
        }
    }

    fn collapse(&mut self, node: u32, work: &mut Vec<(Cell, Cell)>) {
        let node = &mut self.nodes[node as usize];
        node.collapsed = true;
        node.volatile.clear();
        let mut edges = std::mem::take(&mut node.edges).into_values();
        if let Some(first) = edges.next() {
            node.edges.insert(0, first);
            work.extend(edges.map(|other| (first, other)));
        }
    }

    /// Copies what is reachable from cells of another graph and joins the copies with cells of this one. Each call gets
    /// its own copy, so contexts and a callee's allocations stay separate per caller.
    pub(crate) fn join_copy(&mut self, other: &Graph, pairs: &[(Cell, Cell)]) {
        let mut copies: FxHashMap<u32, u32> = FxHashMap::default();
        let mut joins = Vec::new();
        for (own, theirs) in pairs {
            let theirs = other.find(*theirs);
            let copy = self.copy_node(other, theirs.node, COPY_DEPTH, &mut copies);
            joins.push((*own, Cell { node: copy, offset: theirs.offset }));
        }
        for (left, right) in joins {
            self.unify(left, right);
        }
    }

    fn copy_node(&mut self, other: &Graph, node: u32, depth: u32, copies: &mut FxHashMap<u32, u32>) -> u32 {
        if let Some(known) = copies.get(&node) {
            return *known;
        }
        let source = &other.nodes[node as usize];
        self.nodes.push(Node {
            // A callee's stack is gone when it returns; its flag remains so that the memory is known to be volatile.
            flags: source.flags,
            collapsed: source.collapsed,
            functions: source.functions.clone(),
            volatile: source.volatile.clone(),
            ..Node::default()
        });
        let copy = self.nodes.len() as u32 - 1;
        copies.insert(node, copy);
        if depth > 0 {
            for (offset, target) in &source.edges {
                let target = other.find(*target);
                let inner = self.copy_node(other, target.node, depth - 1, copies);
                self.nodes[copy as usize].edges.insert(*offset, Cell { node: inner, offset: target.offset });
            }
        }
        copy
    }

    /// Propagates flags of the caller's memory to the callee. Returns whether anything changed.
    pub(crate) fn take_flags(&mut self, caller: &Graph, pairs: &[(Cell, Cell)]) -> bool {
        let mut changed = false;
        let mut seen = rustc_hash::FxHashSet::default();
        let mut work: Vec<(Cell, Cell, u32)> =
            pairs.iter().map(|(own, theirs)| (*own, *theirs, COPY_DEPTH)).collect();
        while let Some((own, theirs, depth)) = work.pop() {
            let (own, theirs) = (self.find(own), caller.find(theirs));
            if !seen.insert((own.node, theirs.node)) {
                continue;
            }
            let mut flags = caller.nodes[theirs.node as usize].flags;
            flags.inside |= own.offset != theirs.offset;
            changed |= self.nodes[own.node as usize].flags.add(flags);
            let functions = caller.nodes[theirs.node as usize].functions.clone();
            self.nodes[own.node as usize].functions.extend(functions);
            if !self.nodes[own.node as usize].collapsed {
                for range in &caller.nodes[theirs.node as usize].volatile {
                    self.nodes[own.node as usize].add_volatile(range.clone(), own.offset - theirs.offset);
                }
            }
            if depth == 0 {
                continue;
            }
            let shift = theirs.offset - own.offset;
            for (offset, target) in &self.nodes[own.node as usize].edges {
                let at = if caller.nodes[theirs.node as usize].collapsed { 0 } else { offset + shift };
                if let Some(known) = caller.nodes[theirs.node as usize].edges.get(&at) {
                    work.push((*target, *known, depth - 1));
                }
            }
        }
        changed
    }

    /// A pointer in persistent memory points to persistent memory unless known to be volatile. If a node's fields were
    /// collapsed, it is unknown which one holds the pointer.
    pub(crate) fn spread(&mut self) {
        let mut work: Vec<u32> = (0..self.nodes.len() as u32)
            .filter(|n| {
                let node = &self.nodes[*n as usize];
                node.forward.is_none() && node.flags.persistent && !node.flags.volatile() && !node.collapsed
            })
            .collect();
        while let Some(at) = work.pop() {
            let node = &self.nodes[at as usize];
            let is_volatile = |offset: &i64| node.volatile.iter().any(|range| range.contains(offset));
            let targets: Vec<Cell> = node
                .edges
                .iter()
                .filter(|(offset, _)| !is_volatile(offset))
                .map(|(_, target)| *target)
                .collect();
            for target in targets {
                let target = self.find(target).node;
                let node = &mut self.nodes[target as usize];
                if !node.flags.volatile() && !node.flags.persistent && node.functions.is_empty() {
                    node.flags.persistent = true;
                    if !node.collapsed {
                        work.push(target);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unification_shifts_fields_and_collapses_on_conflict() {
        let mut graph = Graph::default();
        let (whole, part) = (graph.node(Flags::default()), graph.node(Flags::default()));
        let inner = graph.pointee(Cell { offset: 4, ..part });
        graph.unify(Cell { offset: 8, ..whole }, part);
        assert_eq!(graph.edge(Cell { offset: 12, ..whole }), Some(graph.find(inner)));
        let other = graph.pointee(Cell { offset: 20, ..whole });
        graph.unify(whole, Cell { offset: 8, ..whole });
        assert_eq!(graph.find(inner), graph.find(other));
    }

    #[test]
    fn copies_keep_contexts_apart() {
        let mut callee = Graph::default();
        let parameter = callee.node(Flags::default());
        callee.pointee(Cell { offset: 8, ..parameter });
        let mut caller = Graph::default();
        let pm = caller.node(Flags { persistent: true, ..Flags::default() });
        let stack = caller.node(Flags { stack: true, ..Flags::default() });
        caller.join_copy(&callee, &[(pm, parameter)]);
        caller.join_copy(&callee, &[(stack, parameter)]);
        assert!(caller.flags(pm).persistent && !caller.flags(pm).stack);
        assert!(!caller.flags(stack).persistent);
        caller.spread();
        assert!(caller.flags(caller.edge(Cell { offset: 8, ..pm }).unwrap()).persistent);
    }
}
