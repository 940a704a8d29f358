//! The theory: edges enabled by literals, reasons, forced orders, explanations.
//!
//! # Atoms
//!
//! - An *edge* `a -> b` of a literal: while the literal is true, a comes before b.
//! - A *source* is something that is read and overwritten: one value that one write gave one place. A *read* of
//!   a source by a node and an *overwrite* of it by a node, each with its literal, compose: while both are true
//!   the reader comes before the overwriter (`from-read`). A node that reads and overwrites the same source, a
//!   locked instruction, is not before itself.
//! - Some pairs of nodes are *apart*: no composition may put the first before the second, although nothing puts
//!   the second before the first either. Loads overtake earlier stores of their own thread in the order of memory,
//!   but never see past them.
//!
//! # Reasons
//!
//! An edge knows the literals it is there for, at most two. A cycle is explained by the path with the fewest such
//! literals (edges that are always there cost nothing). A literal is found false by the theory when its edge would
//! close a cycle with what is in order already; it is explained only when asked, by a path over edges that were
//! there at the time.
//!
//! Compositions are looked ahead at, too: a read that is switched on refutes overwrites by whatever is before the
//! reader already, and vice versa. That is half of what a program's loads can tell, and costs a lookup.

use rustc_hash::FxHashMap;

use crate::closure::Closure;
use crate::levels::Levels;
use crate::literal::Lit;

/// An event, by number.
pub type NodeId = u32;

/// Something that is read and overwritten, by number.
pub type SourceId = u32;

/// The graph of the theory, built once before solving.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    nodes: usize,
    sources: usize,
    fixed: Vec<(NodeId, NodeId)>,
    edges: Vec<(Lit, NodeId, NodeId)>,
    reads: Vec<(Lit, SourceId, NodeId)>,
    overwrites: Vec<(Lit, SourceId, NodeId)>,
    apart: Vec<(NodeId, NodeId)>,
}

impl Graph {
    /// A new node.
    pub fn node(&mut self) -> NodeId {
        self.nodes += 1;
        self.nodes as NodeId - 1
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// How many atoms there are.
    pub fn atoms(&self) -> usize {
        self.edges.len() + self.reads.len() + self.overwrites.len()
    }

    /// A new source.
    pub fn source(&mut self) -> SourceId {
        self.sources += 1;
        self.sources as SourceId - 1
    }

    /// `a` always comes before `b`.
    pub fn always(&mut self, a: NodeId, b: NodeId) {
        self.fixed.push((a, b));
    }

    /// `a` comes before `b` while the literal is true.
    pub fn edge(&mut self, lit: Lit, a: NodeId, b: NodeId) {
        self.edges.push((lit, a, b));
    }

    /// `node` reads `source` while the literal is true.
    pub fn read(&mut self, lit: Lit, source: SourceId, node: NodeId) {
        self.reads.push((lit, source, node));
    }

    /// `node` overwrites `source` while the literal is true.
    pub fn overwrite(&mut self, lit: Lit, source: SourceId, node: NodeId) {
        self.overwrites.push((lit, source, node));
    }

    /// No composition may put `reader` before `writer`.
    pub fn apart(&mut self, reader: NodeId, writer: NodeId) {
        self.apart.push((reader, writer));
    }

    /// What is always in order.
    pub fn fixed_edges(&self) -> &[(NodeId, NodeId)] {
        &self.fixed
    }

    /// Edges with their literals.
    pub fn literal_edges(&self) -> &[(Lit, NodeId, NodeId)] {
        &self.edges
    }

    /// Reads with their literals.
    pub fn reads(&self) -> &[(Lit, SourceId, NodeId)] {
        &self.reads
    }

    /// Overwrites with their literals.
    pub fn overwrites(&self) -> &[(Lit, SourceId, NodeId)] {
        &self.overwrites
    }

    /// Whether no composition may put `reader` before `writer`.
    pub fn is_apart(&self, reader: NodeId, writer: NodeId) -> bool {
        self.apart.contains(&(reader, writer))
    }

    /// How many sources there are.
    pub fn sources(&self) -> usize {
        self.sources
    }

    /// A linearization of all nodes consistent with every edge and composition whose literals are true. `None` if there
    /// is none: then the literals are not a model.
    pub fn row(&self, value: impl Fn(Lit) -> bool) -> Option<Vec<NodeId>> {
        let mut edges = self.fixed.clone();
        edges.extend(self.edges.iter().filter(|&&(lit, ..)| value(lit)).map(|&(_, a, b)| (a, b)));
        let mut overwriters: Vec<Vec<NodeId>> = vec![Vec::new(); self.sources];
        for &(_, source, node) in self.overwrites.iter().filter(|&&(lit, ..)| value(lit)) {
            overwriters[source as usize].push(node);
        }
        for &(_, source, reader) in self.reads.iter().filter(|&&(lit, ..)| value(lit)) {
            for &writer in overwriters[source as usize].iter().filter(|&&writer| writer != reader) {
                if self.apart.contains(&(reader, writer)) {
                    return None;
                }
                edges.push((reader, writer));
            }
        }
        let mut outgoing: Vec<Vec<NodeId>> = vec![Vec::new(); self.nodes];
        let mut waits = vec![0; self.nodes];
        for (a, b) in edges {
            outgoing[a as usize].push(b);
            waits[b as usize] += 1;
        }
        let mut ready: std::collections::BinaryHeap<std::cmp::Reverse<NodeId>> = (0..self.nodes as NodeId)
            .filter(|&node| waits[node as usize] == 0)
            .map(std::cmp::Reverse)
            .collect();
        let mut row = Vec::with_capacity(self.nodes);
        while let Some(std::cmp::Reverse(node)) = ready.pop() {
            row.push(node);
            for &next in &outgoing[node as usize] {
                waits[next as usize] -= 1;
                if waits[next as usize] == 0 {
                    ready.push(std::cmp::Reverse(next));
                }
            }
        }
        (row.len() == self.nodes).then_some(row)
    }

    /// The same with other literals.
    pub fn renamed(&self, mut name: impl FnMut(Lit) -> Lit) -> Graph {
        let mut graph = self.clone();
        graph.edges.iter_mut().for_each(|(lit, ..)| *lit = name(*lit));
        graph.reads.iter_mut().for_each(|(lit, ..)| *lit = name(*lit));
        graph.overwrites.iter_mut().for_each(|(lit, ..)| *lit = name(*lit));
        graph
    }

    /// Every literal that means something to the theory.
    pub fn literals(&self) -> impl Iterator<Item = Lit> + '_ {
        let edges = self.edges.iter().map(|&(lit, ..)| lit);
        let reads = self.reads.iter().map(|&(lit, ..)| lit);
        edges.chain(reads).chain(self.overwrites.iter().map(|&(lit, ..)| lit))
    }
}

/// How the order is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Keeping {
    /// As a closure, which tells forced orders. For graphs that fit.
    #[default]
    Closure,
    /// As levels, which only tell cycles.
    Levels,
}

/// From this many nodes on, the closure's rows cost more than forced orders save.
const CLOSURE_NODES: usize = 6000;

#[derive(Debug)]
enum Order {
    Closure(Closure),
    Levels(Levels),
}

/// What switching a literal on does.
#[derive(Clone, Copy, Debug)]
enum Trigger {
    Edge(NodeId, NodeId),
    Read(SourceId, NodeId),
    Overwrite(SourceId, NodeId),
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    to: NodeId,
    /// Index in the history; edges that are always there have 0.
    at: u32,
    why: [Option<Lit>; 2],
}

/// Why the theory found a literal true: the edge that its opposite would have added and that would have closed a cycle
/// with what was in order at the time; and a literal that the edge would have needed besides, if it is composed.
#[derive(Clone, Copy, Debug)]
struct Because {
    from: NodeId,
    to: NodeId,
    at: u32,
    besides: Option<Lit>,
}

/// Something to take back.
#[derive(Clone, Copy, Debug)]
enum Done {
    Edge(NodeId),
    Read(SourceId, NodeId),
    Overwrite(SourceId, NodeId),
    Forced(Lit),
}

/// The theory's state while a solver runs.
#[derive(Debug)]
pub struct Theory {
    order: Order,
    triggers: Vec<Vec<Trigger>>,
    outgoing: Vec<Vec<Edge>>,
    /// Readers and overwriters of each source that are switched on.
    readers: Vec<Vec<(Lit, NodeId)>>,
    overwriters: Vec<Vec<(Lit, NodeId)>>,
    apart: Vec<Vec<NodeId>>,
    /// Literals whose edge goes from the first to the second.
    by_edge: FxHashMap<(NodeId, NodeId), Vec<Lit>>,
    done: Vec<Done>,
    /// For each level: how long `done` was, and the order's mark.
    levels: Vec<(usize, usize)>,
    /// Literals found true by the theory and not yet fetched.
    forced: Vec<Lit>,
    /// How a forced literal came about. The first way counts: an explanation must not use what came later.
    because: Vec<Option<Because>>,
    /// Literals by which a node reads a source, or overwrites one.
    read_by: FxHashMap<(SourceId, NodeId), Vec<Lit>>,
    overwritten_by: FxHashMap<(SourceId, NodeId), Vec<Lit>>,
    /// All nodes that may read a source, or overwrite it.
    may_read: Vec<Vec<NodeId>>,
    may_overwrite: Vec<Vec<NodeId>>,
    /// Sources that a node reads, or overwrites, at present, with the literal.
    reading: Vec<Vec<(SourceId, Lit)>>,
    overwriting: Vec<Vec<(SourceId, Lit)>>,
    /// Watched pairs that came in order and were not looked at yet.
    fresh_pairs: Vec<(NodeId, NodeId, u32)>,
    clock: u32,
    /// Literals that cannot all be true, after a failed [`Theory::assign`].
    conflict: Vec<Lit>,
    /// For searches: cost and the edge it came by.
    cost: Vec<u32>,
    came: Vec<(NodeId, [Option<Lit>; 2])>,
    explanation: Vec<Lit>,
    /// How many literals were found by the theory.
    pub propagations: u64,
    /// How many conflicts the theory found.
    pub conflicts: u64,
    contradiction: bool,
}

impl Theory {
    /// The theory of a graph. `literals` is twice the number of variables.
    pub fn new(graph: &Graph, literals: usize, keeping: Keeping) -> Theory {
        let nodes = graph.nodes;
        let mut triggers = vec![Vec::new(); literals];
        for &(lit, a, b) in &graph.edges {
            triggers[lit.index()].push(Trigger::Edge(a, b));
        }
        for &(lit, source, node) in &graph.reads {
            triggers[lit.index()].push(Trigger::Read(source, node));
        }
        for &(lit, source, node) in &graph.overwrites {
            triggers[lit.index()].push(Trigger::Overwrite(source, node));
        }
        let mut apart = vec![Vec::new(); nodes];
        for &(reader, writer) in &graph.apart {
            apart[reader as usize].push(writer);
        }
        apart.iter_mut().for_each(|writers: &mut Vec<NodeId>| writers.sort_unstable());
        let mut by_edge: FxHashMap<(NodeId, NodeId), Vec<Lit>> = FxHashMap::default();
        let mut read_by: FxHashMap<(SourceId, NodeId), Vec<Lit>> = FxHashMap::default();
        let mut overwritten_by: FxHashMap<(SourceId, NodeId), Vec<Lit>> = FxHashMap::default();
        let mut may_read: Vec<Vec<NodeId>> = vec![Vec::new(); graph.sources];
        let mut may_overwrite: Vec<Vec<NodeId>> = vec![Vec::new(); graph.sources];
        for (atoms, by, may) in [
            (&graph.reads, &mut read_by, &mut may_read),
            (&graph.overwrites, &mut overwritten_by, &mut may_overwrite),
        ] {
            for &(lit, source, node) in atoms {
                by.entry((source, node)).or_default().push(lit);
                may[source as usize].push(node);
            }
            may.iter_mut().for_each(|nodes| {
                nodes.sort_unstable();
                nodes.dedup();
            });
        }
        let order = if keeping == Keeping::Closure && nodes <= CLOSURE_NODES {
            let mut closure = Closure::new(nodes);
            for &(lit, a, b) in &graph.edges {
                closure.watch(b as usize, a as usize);
                by_edge.entry((a, b)).or_default().push(lit);
            }
            for source in 0..graph.sources {
                for &writer in &may_overwrite[source] {
                    for &reader in may_read[source].iter().filter(|&&reader| reader != writer) {
                        closure.watch(writer as usize, reader as usize);
                    }
                }
            }
            Order::Closure(closure)
        } else {
            Order::Levels(Levels::new(nodes, graph.edges.len() + graph.fixed.len()))
        };
        let mut theory = Theory {
            order,
            triggers,
            outgoing: vec![Vec::new(); nodes],
            readers: vec![Vec::new(); graph.sources],
            overwriters: vec![Vec::new(); graph.sources],
            apart,
            by_edge,
            done: Vec::new(),
            levels: Vec::new(),
            forced: Vec::new(),
            because: vec![None; literals],
            read_by,
            overwritten_by,
            may_read,
            may_overwrite,
            reading: vec![Vec::new(); nodes],
            overwriting: vec![Vec::new(); nodes],
            fresh_pairs: Vec::new(),
            clock: 0,
            conflict: Vec::new(),
            cost: vec![u32::MAX; nodes],
            came: vec![(0, [None; 2]); nodes],
            explanation: Vec::new(),
            propagations: 0,
            conflicts: 0,
            contradiction: false,
        };
        for &(a, b) in &graph.fixed {
            if theory.insert(a, b, [None; 2]).is_err() {
                theory.contradiction = true;
            }
        }
        theory.done.clear();
        theory.fresh_pairs.clear();
        if let Order::Closure(closure) = &mut theory.order {
            closure.forget_undo();
        }
        theory
    }

    /// Do the edges that are always there contradict each other?
    pub fn is_contradictory(&self) -> bool {
        self.contradiction
    }

    /// Does the theory want to know of this literal?
    pub fn watches(&self, lit: Lit) -> bool {
        self.triggers.get(lit.index()).is_some_and(|triggers| !triggers.is_empty())
    }

    /// How many levels there are.
    pub fn level_count(&self) -> usize {
        self.levels.len()
    }

    /// A level to come back to.
    pub fn push_level(&mut self) {
        let mark = match &self.order {
            Order::Closure(closure) => closure.mark(),
            Order::Levels(levels) => levels.mark(),
        };
        self.levels.push((self.done.len(), mark));
    }

    /// Takes back the last `count` levels.
    pub fn pop_levels(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        let (done, mark) = self.levels[self.levels.len() - count];
        self.levels.truncate(self.levels.len() - count);
        match &mut self.order {
            Order::Closure(closure) => closure.undo_to(mark),
            Order::Levels(levels) => levels.undo_to(mark),
        }
        while self.done.len() > done {
            match self.done.pop().expect("longer than the mark") {
                Done::Edge(from) => {
                    self.outgoing[from as usize].pop();
                }
                Done::Read(source, node) => {
                    self.readers[source as usize].pop();
                    self.reading[node as usize].pop();
                }
                Done::Overwrite(source, node) => {
                    self.overwriters[source as usize].pop();
                    self.overwriting[node as usize].pop();
                }
                Done::Forced(lit) => self.because[lit.index()] = None,
            }
        }
        self.forced.clear();
        self.fresh_pairs.clear();
    }

    /// A literal became true. On a contradiction, the error lists the true literals involved.
    pub fn assign(&mut self, lit: Lit) -> Result<(), &[Lit]> {
        for at in 0..self.triggers[lit.index()].len() {
            let ok = match self.triggers[lit.index()][at] {
                Trigger::Edge(a, b) => self.insert(a, b, [Some(lit), None]),
                Trigger::Read(source, node) => {
                    self.readers[source as usize].push((lit, node));
                    self.reading[node as usize].push((source, lit));
                    self.done.push(Done::Read(source, node));
                    self.compose_read(lit, source, node).map(|()| self.refute_overwrites(lit, source, node))
                }
                Trigger::Overwrite(source, node) => {
                    self.overwriters[source as usize].push((lit, node));
                    self.overwriting[node as usize].push((source, lit));
                    self.done.push(Done::Overwrite(source, node));
                    self.compose_overwrite(lit, source, node).map(|()| self.refute_reads(lit, source, node))
                }
            };
            if ok.is_err() {
                self.conflicts += 1;
                self.conflict.sort_unstable();
                self.conflict.dedup();
                return Err(&self.conflict);
            }
            self.look_at_pairs();
        }
        Ok(())
    }

    /// `reader` reads the source now: what is before it does not overwrite the source.
    fn refute_overwrites(&mut self, lit: Lit, source: SourceId, reader: NodeId) {
        let Order::Closure(closure) = &self.order else { return };
        for &writer in &self.may_overwrite[source as usize] {
            if closure.before(writer as usize, reader as usize) {
                let because = Because { from: reader, to: writer, at: self.clock, besides: Some(lit) };
                let lits = &self.overwritten_by[&(source, writer)];
                force(lits, because, &mut self.because, &mut self.done, &mut self.forced);
            }
        }
    }

    /// `writer` overwrites the source now: what is after it does not read the source.
    fn refute_reads(&mut self, lit: Lit, source: SourceId, writer: NodeId) {
        let Order::Closure(closure) = &self.order else { return };
        for &reader in &self.may_read[source as usize] {
            if closure.before(writer as usize, reader as usize) {
                let because = Because { from: reader, to: writer, at: self.clock, besides: Some(lit) };
                let lits = &self.read_by[&(source, reader)];
                force(lits, because, &mut self.because, &mut self.done, &mut self.forced);
            }
        }
    }

    /// Pairs came in order: what would compose to the opposite is refuted.
    fn look_at_pairs(&mut self) {
        for (writer, reader, at) in std::mem::take(&mut self.fresh_pairs) {
            for &(source, lit) in &self.overwriting[writer as usize] {
                if let Some(lits) = self.read_by.get(&(source, reader)) {
                    let because = Because { from: reader, to: writer, at, besides: Some(lit) };
                    force(lits, because, &mut self.because, &mut self.done, &mut self.forced);
                }
            }
            for &(source, lit) in &self.reading[reader as usize] {
                if let Some(lits) = self.overwritten_by.get(&(source, writer)) {
                    let because = Because { from: reader, to: writer, at, besides: Some(lit) };
                    force(lits, because, &mut self.because, &mut self.done, &mut self.forced);
                }
            }
        }
    }

    fn compose_read(&mut self, lit: Lit, source: SourceId, reader: NodeId) -> Result<(), ()> {
        for at in 0..self.overwriters[source as usize].len() {
            let (overwrites, writer) = self.overwriters[source as usize][at];
            self.compose(lit, reader, overwrites, writer)?;
        }
        Ok(())
    }

    fn compose_overwrite(&mut self, lit: Lit, source: SourceId, writer: NodeId) -> Result<(), ()> {
        for at in 0..self.readers[source as usize].len() {
            let (reads, reader) = self.readers[source as usize][at];
            self.compose(reads, reader, lit, writer)?;
        }
        Ok(())
    }

    fn compose(&mut self, reads: Lit, reader: NodeId, overwrites: Lit, writer: NodeId) -> Result<(), ()> {
        if reader == writer {
            return Ok(());
        }
        if self.apart[reader as usize].binary_search(&writer).is_ok() {
            self.conflict.clear();
            self.conflict.extend([reads, overwrites]);
            return Err(());
        }
        self.insert(reader, writer, [Some(reads), Some(overwrites)])
    }

    fn insert(&mut self, a: NodeId, b: NodeId, why: [Option<Lit>; 2]) -> Result<(), ()> {
        self.clock += 1;
        let clock = self.clock;
        let (by_edge, forced, because, done, pairs) =
            (&self.by_edge, &mut self.forced, &mut self.because, &mut self.done, &mut self.fresh_pairs);
        let fits = match &mut self.order {
            Order::Closure(closure) => {
                // Known already: the edge adds nothing, not even a shorter reason worth its upkeep.
                if closure.before(a as usize, b as usize) {
                    return Ok(());
                }
                closure.insert(a as usize, b as usize, |x, y| {
                    let (x, y) = (x as NodeId, y as NodeId);
                    pairs.push((x, y, clock));
                    // x is before y now, so what would put y before x is false.
                    if let Some(lits) = by_edge.get(&(y, x)) {
                        force(
                            lits,
                            Because { from: y, to: x, at: clock, besides: None },
                            because,
                            done,
                            forced,
                        );
                    }
                })
            }
            Order::Levels(levels) => levels.insert(a as usize, b as usize),
        };
        if !fits {
            self.path(b, a, u32::MAX);
            self.conflict.clone_from(&self.explanation);
            self.conflict.extend(why.iter().flatten());
            return Err(());
        }
        self.outgoing[a as usize].push(Edge { to: b, at: clock, why });
        self.done.push(Done::Edge(a));
        Ok(())
    }

    /// A literal that the theory found true, if there is one left to tell.
    pub fn next_forced(&mut self) -> Option<Lit> {
        let lit = self.forced.pop()?;
        self.propagations += 1;
        Some(lit)
    }

    /// The true literals because of which `lit`, found by the theory, is true.
    pub fn explain(&mut self, lit: Lit) -> &[Lit] {
        let because = self.because[lit.index()].expect("only what the theory found is explained");
        self.path(because.to, because.from, because.at);
        self.explanation.extend(because.besides);
        self.explanation.sort_unstable();
        self.explanation.dedup();
        &self.explanation
    }

    /// Finds the path with the fewest literals over edges not younger than `latest`; leaves them in `explanation`.
    fn path(&mut self, from: NodeId, to: NodeId, latest: u32) {
        let mut touched = vec![from];
        // Costs are 0, 1 or 2 an edge: buckets instead of a heap.
        let mut buckets: Vec<Vec<NodeId>> = vec![vec![from]];
        self.cost[from as usize] = 0;
        let mut at = 0;
        'search: while at < buckets.len() {
            while let Some(node) = buckets[at].pop() {
                if self.cost[node as usize] as usize != at {
                    continue;
                }
                if node == to {
                    break 'search;
                }
                for edge in &self.outgoing[node as usize] {
                    if edge.at > latest {
                        continue;
                    }
                    if let Order::Closure(closure) = &self.order
                        && edge.to != to
                        && !closure.before(edge.to as usize, to as usize)
                    {
                        continue;
                    }
                    let cost = at as u32 + edge.why.iter().flatten().count() as u32;
                    let known = &mut self.cost[edge.to as usize];
                    if cost < *known {
                        if *known == u32::MAX {
                            touched.push(edge.to);
                        }
                        *known = cost;
                        self.came[edge.to as usize] = (node, edge.why);
                        if buckets.len() <= cost as usize {
                            buckets.resize(cost as usize + 1, Vec::new());
                        }
                        buckets[cost as usize].push(edge.to);
                    }
                }
            }
            at += 1;
        }
        self.explanation.clear();
        let mut node = to;
        while node != from {
            let (before, why) = self.came[node as usize];
            self.explanation.extend(why.iter().flatten());
            node = before;
        }
        for node in touched {
            self.cost[node as usize] = u32::MAX;
        }
    }
}

/// Notes that none of these can be true, if that is not known.
fn force(
    lits: &[Lit],
    why: Because,
    because: &mut [Option<Because>],
    done: &mut Vec<Done>,
    forced: &mut Vec<Lit>,
) {
    for &lit in lits {
        let known = &mut because[(!lit).index()];
        if known.is_none() {
            *known = Some(why);
            done.push(Done::Forced(!lit));
            forced.push(!lit);
        }
    }
}
