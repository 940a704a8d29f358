//! The tree of first reads: everything recovery has been seen to do, by what it read.
//!
//! A node is a read of bytes not touched before, an edge the value it saw, a leaf how recovery ended. The tree grows
//! with recoveries that are run; walking it needs no process.
//!
//! Reads seen with only one value are kept in runs (`blocks`), which are split when another value appears. A [`Place`]
//! within a run that was split in the meantime remains valid: it refers to the same read. Parts not visited for long
//! can be dropped ([`Tree::drop_cold`]); recovery is run again if they are ever reached.

use std::sync::Arc;

use crashproof_protocol::{Record, record};
use px86::Kind;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::search::blocks::{Block, BlockId, Blocks, Step, hash_step, same};
use crate::search::effects::Effects;
use crate::subject::Ending;

/// A node, by number.
type NodeId = u32;

/// A place in the tree: a node and, if that is a run, how many of its reads come before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    node: NodeId,
    index: u32,
}

pub(crate) const ROOT: Place = Place { node: 0, index: 0 };

/// Edges by the value that was read.
enum Edges {
    Few(Vec<(u64, NodeId)>),
    Many(FxHashMap<u64, NodeId>),
}

/// Up to this many edges, a linear search is fastest.
const FEW: usize = 16;

impl Edges {
    fn get(&self, value: u64) -> Option<NodeId> {
        match self {
            Edges::Few(edges) => edges.iter().find(|(seen, _)| *seen == value).map(|(_, next)| *next),
            Edges::Many(edges) => edges.get(&value).copied(),
        }
    }

    fn insert(&mut self, value: u64, next: NodeId) {
        match self {
            Edges::Few(edges) if edges.len() < FEW => edges.push((value, next)),
            Edges::Few(edges) => {
                let mut many: FxHashMap<u64, NodeId> = edges.drain(..).collect();
                many.insert(value, next);
                *self = Edges::Many(many);
            }
            Edges::Many(edges) => drop(edges.insert(value, next)),
        }
    }

    fn all(&self) -> Vec<(u64, NodeId)> {
        match self {
            Edges::Few(edges) => edges.clone(),
            Edges::Many(edges) => edges.iter().map(|(value, next)| (*value, *next)).collect(),
        }
    }
}

enum Kinds {
    /// Unexplored.
    Unknown,
    /// Reads seen with one value each.
    Run { blocks: Vec<BlockId>, reads: u32, next: NodeId },
    /// Recovery reads these bytes, which it has not touched before. `first` is the value from the run that this read
    /// was part of: places behind it in that run continue there.
    Read { address: u64, width: u8, site: u32, first: u64, edges: Edges },
    /// A checksum over the following reads is about to be verified.
    Begin { next: NodeId },
    /// It has been verified.
    End { matched: bool, next: NodeId },
    /// Recovery ended with this outcome.
    Leaf(u32),
    /// Dropped; the number is free.
    Gone,
}

struct Node {
    kind: Kinds,
    /// When it was last visited.
    visited: u32,
}

/// What is at a place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Seen {
    /// Unexplored.
    Unknown,
    /// Recovery reads these bytes.
    Read { address: u64, width: u8, site: u32 },
    /// A checksum over the following reads is about to be verified.
    Begin,
    /// It has been verified.
    End { matched: bool },
    /// Recovery ended; the number of its outcome.
    Leaf(u32),
}

/// Start and end of the reads that a checksum protects.
#[derive(Clone, Copy)]
enum Mark {
    Begin,
    End { matched: bool },
}

/// Finds the brackets of a recovery: nested ones do not count, nor do any once there are threads, since concurrent
/// reads of other threads are not protected.
#[derive(Default)]
struct Brackets {
    depth: u32,
    threads: bool,
}

impl Brackets {
    fn mark(&mut self, record: &Record) -> Option<Mark> {
        self.threads |= record.kind() == record::SPAWN;
        match record.kind() {
            _ if self.threads => None,
            record::CHECKSUM_BEGIN => {
                self.depth += 1;
                (self.depth == 1).then_some(Mark::Begin)
            }
            record::CHECKSUM_END if self.depth > 0 => {
                self.depth -= 1;
                (self.depth == 0).then_some(Mark::End { matched: record.address() != 0 })
            }
            _ => None,
        }
    }
}

/// How a recovery ended.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) ending: Ending,
    /// The end of its output, if it failed.
    pub(crate) output: String,
    /// All its records, if it stored anything and may itself be crashed.
    pub(crate) writes: Option<Vec<Record>>,
    /// The numbers of its reads that do not count for robustness, in order.
    pub(crate) ignored: Vec<u32>,
    /// The keys of the names it looked up, in order, as far as crashes may change them; see `record::NAME`.
    pub(crate) names: Vec<u64>,
    /// If it did not end: the addresses it read over and over.
    pub(crate) waits_for: Vec<u64>,
    /// Did it create threads? Then what it does depends on the schedule, too.
    pub(crate) threads: bool,
    /// What it stored and printed, if it ended well.
    pub(crate) effects: Option<Arc<Effects>>,
}

impl Outcome {
    fn is_plain(&self) -> bool {
        self.output.is_empty()
            && self.writes.is_none()
            && self.ignored.is_empty()
            && self.names.is_empty()
            && self.waits_for.is_empty()
            && !self.threads
            && self.effects.is_none()
    }

    fn bytes(&self) -> usize {
        let writes = self.writes.as_ref().map_or(0, |records| size_of_val(&records[..]));
        let effects = self.effects.as_ref().map_or(0, |effects| effects.bytes());
        size_of::<Outcome>()
            + self.output.len()
            + writes
            + size_of_val(&self.ignored[..])
            + size_of_val(&self.names[..])
            + effects
    }
}

/// Recovery did something else although it read the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Diverged {
    /// What it read before: address and site; `None` if it ended.
    pub(crate) expected: Option<(u64, u32)>,
    /// What it read now.
    pub(crate) found: Option<(u64, u32)>,
}

/// Is a record a read as the tree keeps it?
fn is_step(record: &Record) -> bool {
    record.kind() == Kind::Load as u8 && record.thread() == 0
}

pub(crate) struct Tree {
    nodes: Vec<Node>,
    free: Vec<NodeId>,
    blocks: Blocks,
    outcomes: Vec<Arc<Outcome>>,
    /// Outcomes that consist only of how recovery ended, which are shared.
    plain: FxHashMap<Ending, u32>,
    behaviors: usize,
    /// Behaviors that were dropped, by a hash of their reads, so that they count only once.
    dropped: FxHashSet<u64>,
    /// Approximate size of nodes and outcomes in bytes.
    bytes: usize,
    /// Incremented with every crash that is tried.
    now: u32,
    drops: u32,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree {
            nodes: vec![Node { kind: Kinds::Unknown, visited: 0 }],
            free: Vec::new(),
            blocks: Blocks::default(),
            outcomes: Vec::new(),
            plain: FxHashMap::default(),
            behaviors: 0,
            dropped: FxHashSet::default(),
            bytes: 0,
            now: 0,
            drops: 0,
        }
    }
}

impl Tree {
    /// What is at a place.
    pub(crate) fn look(&self, at: Place) -> Seen {
        let at = self.resolve(at);
        match &self.nodes[at.node as usize].kind {
            Kinds::Unknown | Kinds::Gone => Seen::Unknown,
            Kinds::Run { .. } => {
                let step = self.step_at(at);
                Seen::Read { address: step.address(), width: step.width(), site: step.site }
            }
            Kinds::Read { address, width, site, .. } => {
                Seen::Read { address: *address, width: *width, site: *site }
            }
            Kinds::Begin { .. } => Seen::Begin,
            Kinds::End { matched, .. } => Seen::End { matched: *matched },
            Kinds::Leaf(outcome) => Seen::Leaf(*outcome),
        }
    }

    /// Normalizes a place: runs may have been split since, and the end of a run is the start of the next node.
    fn resolve(&self, mut at: Place) -> Place {
        loop {
            match &self.nodes[at.node as usize].kind {
                Kinds::Run { reads, next, .. } if at.index >= *reads => {
                    at = Place { node: *next, index: at.index - reads };
                }
                Kinds::Read { first, edges, .. } if at.index > 0 => {
                    let node = edges.get(*first).expect("the run that was split");
                    at = Place { node, index: at.index - 1 };
                }
                Kinds::Run { .. } => return at,
                // Only runs have places inside; the run was dropped.
                _ => return Place { node: at.node, index: 0 },
            }
        }
    }

    /// The block of a run containing the read at a place: its index in the run, and how many of its reads come before.
    fn block_at(&self, at: Place) -> (usize, usize) {
        let Kinds::Run { blocks, .. } = &self.nodes[at.node as usize].kind else {
            unreachable!("only runs have blocks")
        };
        let mut left = at.index as usize;
        for (position, block) in blocks.iter().enumerate() {
            let reads = self.blocks.get(*block).steps.len();
            if left < reads {
                return (position, left);
            }
            left -= reads;
        }
        unreachable!("a place within the run")
    }

    fn step_at(&self, at: Place) -> &Step {
        let (position, offset) = self.block_at(at);
        let Kinds::Run { blocks, .. } = &self.nodes[at.node as usize].kind else {
            unreachable!("only runs have steps")
        };
        &self.blocks.get(blocks[position]).steps[offset]
    }

    /// Follows a run from a place as long as `pass` accepts the reads: for each block (by number, and from which read
    /// on) it returns how many have the recorded value. Stops at the first that may not, and returns that place.
    pub(crate) fn follow_run(
        &mut self,
        at: Place,
        mut pass: impl FnMut(BlockId, &Arc<Block>, usize) -> usize,
    ) -> Place {
        let mut at = self.resolve(at);
        while let Kinds::Run { blocks, next, .. } = &self.nodes[at.node as usize].kind {
            let (position, mut offset) = self.block_at(at);
            let mut index = at.index;
            for block in &blocks[position..] {
                let content = self.blocks.get(*block);
                let passed = pass(*block, content, offset);
                index += passed as u32;
                if passed < content.steps.len() - offset {
                    self.nodes[at.node as usize].visited = self.now;
                    return Place { node: at.node, index };
                }
                offset = 0;
            }
            let next = *next;
            self.nodes[at.node as usize].visited = self.now;
            at = Place { node: next, index: 0 };
        }
        self.nodes[at.node as usize].visited = self.now;
        at
    }

    /// How a recovery ended, by its number.
    pub(crate) fn outcome(&self, number: u32) -> Arc<Outcome> {
        Arc::clone(&self.outcomes[number as usize])
    }

    fn new_node(&mut self, kind: Kinds) -> NodeId {
        let node = Node { kind, visited: self.now };
        if let Some(free) = self.free.pop() {
            self.nodes[free as usize] = node;
            return free;
        }
        self.bytes += size_of::<Node>();
        self.nodes.push(node);
        self.nodes.len() as NodeId - 1
    }

    /// Adds a recovery that was run: its reads, in order, and how it ended.
    pub(crate) fn add(&mut self, records: &[Record], outcome: Outcome) -> Result<(), Diverged> {
        let mut at = ROOT;
        let mut brackets = Brackets::default();
        let mut hash = 0;
        // Reads not in the tree yet, to be added at `at`.
        let mut fresh: Vec<Step> = Vec::new();
        let mut rest = records;
        while let Some((next, after)) = rest.split_first() {
            if next.kind() == Kind::Load as u8 {
                let fresh_here = !fresh.is_empty() || matches!(self.look(at), Seen::Unknown);
                if fresh_here && fresh.is_empty() && rest.iter().all(is_step) {
                    // Nothing but reads to the end, as of most recoveries: they are not copied first.
                    hash = self.hash_for_dropped(hash, rest);
                    at = self.append_steps(at, rest);
                    break;
                }
                if fresh_here {
                    hash = hash_step(hash, next);
                    fresh.push(Step::new(
                        next.kind(),
                        next.address(),
                        next.width(),
                        next.value,
                        0,
                        next.site,
                    ));
                } else {
                    let known = self.add_known(&mut at, rest, &mut hash);
                    if known > 0 {
                        rest = &rest[known..];
                        continue;
                    }
                    hash = hash_step(hash, next);
                    at = self.step(at, next)?;
                }
            } else if let Some(mark) = brackets.mark(next) {
                at = self.append(at, &mut fresh);
                at = self.step_mark(at, mark)?;
            }
            rest = after;
        }
        at = self.append(at, &mut fresh);
        self.end(at, outcome, hash)
    }

    /// Skips consecutive reads that are already in the tree; returns how many.
    fn add_known(&mut self, at: &mut Place, records: &[Record], hash: &mut u64) -> usize {
        let mut passed = 0;
        *at = self.follow_run(*at, |_, block, offset| {
            let pairs = block.steps[offset..].iter().zip(&records[passed..]);
            let alike = pairs.take_while(|(one, other)| other.kind() == Kind::Load as u8 && same(one, other));
            let count = alike.count();
            passed += count;
            count
        });
        *hash = self.hash_for_dropped(*hash, &records[..passed]);
        passed
    }

    /// Extends the hash by which a behavior that was dropped is recognized; nothing was, as a rule.
    fn hash_for_dropped(&self, hash: u64, steps: &[Step]) -> u64 {
        if self.dropped.is_empty() { hash } else { steps.iter().fold(hash, hash_step) }
    }

    /// Adds reads at an unexplored place; returns the place after them.
    fn append(&mut self, at: Place, steps: &mut Vec<Step>) -> Place {
        if steps.is_empty() {
            return at;
        }
        let next = self.append_steps(at, steps);
        steps.clear();
        next
    }

    /// The same, of at least one read.
    fn append_steps(&mut self, at: Place, steps: &[Step]) -> Place {
        let at = self.resolve(at);
        let blocks = self.blocks.cut(steps);
        self.bytes += size_of_val(&blocks[..]);
        let next = self.new_node(Kinds::Unknown);
        let node = &mut self.nodes[at.node as usize];
        node.visited = self.now;
        node.kind = Kinds::Run { blocks, reads: steps.len() as u32, next };
        Place { node: next, index: 0 }
    }

    fn end(&mut self, at: Place, outcome: Outcome, hash: u64) -> Result<(), Diverged> {
        let at = self.resolve(at);
        match &self.nodes[at.node as usize].kind {
            Kinds::Unknown | Kinds::Gone => {
                let number = self.number(outcome);
                self.nodes[at.node as usize] = Node { kind: Kinds::Leaf(number), visited: self.now };
                self.behaviors += usize::from(!self.dropped.remove(&hash));
                Ok(())
            }
            Kinds::Leaf(known) => {
                if self.outcomes[*known as usize].ending == outcome.ending {
                    return Ok(());
                }
                Err(Diverged { expected: None, found: None })
            }
            _ => {
                let expected = match self.look(at) {
                    Seen::Read { address, site, .. } => Some((address, site)),
                    _ => None,
                };
                Err(Diverged { expected, found: None })
            }
        }
    }

    /// The number of an outcome; trivial ones share one.
    fn number(&mut self, outcome: Outcome) -> u32 {
        let fresh = self.outcomes.len() as u32;
        if outcome.is_plain() {
            let number = *self.plain.entry(outcome.ending).or_insert(fresh);
            if number != fresh {
                return number;
            }
        }
        self.bytes += outcome.bytes();
        self.outcomes.push(Arc::new(outcome));
        fresh
    }

    /// Adds a read with a value that the tree does not have yet.
    fn step(&mut self, at: Place, read: &Record) -> Result<Place, Diverged> {
        let found = Some((read.address(), read.site));
        match self.look(at) {
            Seen::Read { address, width, site } => {
                if address != read.address() || width != read.width() {
                    return Err(Diverged { expected: Some((address, site)), found });
                }
                Ok(self.follow(at, read.value))
            }
            _ => Err(Diverged { expected: None, found }),
        }
    }

    fn step_mark(&mut self, at: Place, mark: Mark) -> Result<Place, Diverged> {
        let at = self.resolve(at);
        let expected = match self.look(at) {
            Seen::Read { address, site, .. } => Some((address, site)),
            _ => None,
        };
        let unknown = matches!(self.nodes[at.node as usize].kind, Kinds::Unknown | Kinds::Gone);
        if unknown {
            let next = self.new_node(Kinds::Unknown);
            self.nodes[at.node as usize].kind = match mark {
                Mark::Begin => Kinds::Begin { next },
                Mark::End { matched } => Kinds::End { matched, next },
            };
        }
        match (&self.nodes[at.node as usize].kind, mark) {
            (Kinds::Begin { next }, Mark::Begin) => Ok(Place { node: *next, index: 0 }),
            (Kinds::End { matched: before, next }, Mark::End { matched }) if *before == matched => {
                Ok(Place { node: *next, index: 0 })
            }
            _ => Err(Diverged { expected, found: None }),
        }
    }

    /// The place after the start or end of a bracket.
    pub(crate) fn pass(&mut self, at: Place) -> Place {
        let node = self.resolve(at).node as usize;
        self.nodes[node].visited = self.now;
        match self.nodes[node].kind {
            Kinds::Begin { next } | Kinds::End { next, .. } => Place { node: next, index: 0 },
            _ => unreachable!("only brackets are passed"),
        }
    }

    /// The place that reading `value` leads to; a new one if this value is new there.
    pub(crate) fn follow(&mut self, at: Place, value: u64) -> Place {
        let at = self.resolve(at);
        self.nodes[at.node as usize].visited = self.now;
        if matches!(self.nodes[at.node as usize].kind, Kinds::Run { .. }) {
            if self.step_at(at).value == value {
                return Place { node: at.node, index: at.index + 1 };
            }
            return self.split(at, value);
        }
        let Kinds::Read { edges, .. } = &self.nodes[at.node as usize].kind else {
            unreachable!("only reads lead anywhere")
        };
        if let Some(next) = edges.get(value) {
            return Place { node: next, index: 0 };
        }
        let next = self.new_node(Kinds::Unknown);
        self.bytes += 24;
        let Kinds::Read { edges, .. } = &mut self.nodes[at.node as usize].kind else {
            unreachable!("just looked at")
        };
        edges.insert(value, next);
        Place { node: next, index: 0 }
    }

    /// Splits a run at a read that can also have another value; returns the place which that value leads to.
    fn split(&mut self, at: Place, value: u64) -> Place {
        let (position, offset) = self.block_at(at);
        let node = &mut self.nodes[at.node as usize];
        let (reads, visited) = match &node.kind {
            Kinds::Run { reads, .. } => (*reads, node.visited),
            _ => unreachable!("only runs are split"),
        };
        let Kinds::Run { mut blocks, next, .. } = std::mem::replace(&mut node.kind, Kinds::Unknown) else {
            unreachable!("just looked at")
        };
        let block = self.blocks.get(blocks[position]);
        let step = block.steps[offset];
        let (before, after) = (block.steps[..offset].to_vec(), block.steps[offset + 1..].to_vec());
        let mut tail = self.blocks.cut(&after);
        tail.extend(&blocks[position + 1..]);
        blocks.truncate(position);
        blocks.extend(self.blocks.cut(&before));
        let left = reads - at.index - 1;
        let rest = match left {
            0 => next,
            _ => self.new_node(Kinds::Run { blocks: tail, reads: left, next }),
        };
        self.nodes[rest as usize].visited = visited;
        let other = self.new_node(Kinds::Unknown);
        let branch = Kinds::Read {
            address: step.address(),
            width: step.width(),
            site: step.site,
            first: step.value,
            edges: Edges::Few(vec![(step.value, rest), (value, other)]),
        };
        self.bytes += 64;
        if at.index == 0 {
            self.nodes[at.node as usize].kind = branch;
        } else {
            let branch = self.new_node(branch);
            self.nodes[at.node as usize].kind = Kinds::Run { blocks, reads: at.index, next: branch };
        }
        Place { node: other, index: 0 }
    }

    /// The number of distinct behaviors of recovery.
    pub(crate) fn behaviors(&self) -> usize {
        self.behaviors
    }

    /// Another crash is tried: advances the clock for visits.
    pub(crate) fn next_crash(&mut self) -> u32 {
        self.now += 1;
        self.now
    }

    /// How often parts have been dropped.
    pub(crate) fn drops(&self) -> u32 {
        self.drops
    }

    /// Its approximate size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.blocks.bytes() + 16 * self.dropped.len()
    }

    /// Drops what has not been visited for the longest time, until about half of `limit` remains, but nothing visited
    /// at or after `keep_since`. Returns whether anything was dropped.
    pub(crate) fn drop_cold(&mut self, limit: usize, keep_since: u32) -> bool {
        let mut oldest = self.nodes[1..].iter().map(|node| node.visited).min().unwrap_or(0);
        let before = self.bytes();
        while self.bytes() > limit / 2 && oldest < keep_since {
            // In steps, so that no more is dropped than necessary.
            oldest += (keep_since - oldest).div_ceil(2);
            self.drop_before(oldest);
        }
        self.bytes() < before
    }

    fn drop_before(&mut self, since: u32) {
        self.drops += 1;
        let mut wanted = vec![false; self.blocks.count()];
        let mut outcomes: FxHashMap<u32, u32> = FxHashMap::default();
        let mut kept: Vec<Arc<Outcome>> = Vec::new();
        // Nodes to examine, whether they stay, and the hash of the reads on the way.
        let mut waiting: Vec<(NodeId, bool, u64)> = vec![(ROOT.node, true, 0)];
        while let Some((id, stays, hash)) = waiting.pop() {
            let node = &self.nodes[id as usize];
            let keep = stays && (id == ROOT.node || node.visited >= since);
            match &node.kind {
                Kinds::Unknown | Kinds::Gone => {}
                Kinds::Leaf(_) if !keep => drop(self.dropped.insert(hash)),
                Kinds::Leaf(number) => {
                    let fresh = kept.len() as u32;
                    if *outcomes.entry(*number).or_insert(fresh) == fresh {
                        kept.push(Arc::clone(&self.outcomes[*number as usize]));
                    }
                }
                Kinds::Begin { next } | Kinds::End { next, .. } => waiting.push((*next, keep, hash)),
                Kinds::Read { address, width, site, edges, .. } => {
                    for (value, next) in edges.all() {
                        let step = Step::new(Kind::Load as u8, *address, *width, value, 0, *site);
                        waiting.push((next, keep, hash_step(hash, &step)));
                    }
                }
                Kinds::Run { blocks, next, .. } => {
                    let mut hash = hash;
                    for block in blocks {
                        hash = self.blocks.get(*block).steps.iter().fold(hash, hash_step);
                        wanted[*block as usize] |= keep;
                    }
                    waiting.push((*next, keep, hash));
                }
            }
            if !keep {
                let node = &mut self.nodes[id as usize];
                // The topmost one is still referenced by its parent, and becomes unexplored.
                node.kind = if stays { Kinds::Unknown } else { Kinds::Gone };
                if !stays {
                    self.free.push(id);
                }
            }
        }
        for node in &mut self.nodes {
            if let Kinds::Leaf(number) = &mut node.kind {
                *number = outcomes[number];
            }
        }
        self.outcomes = kept;
        self.plain.retain(|_, number| {
            outcomes.get(number).is_some_and(|new| {
                *number = *new;
                true
            })
        });
        self.blocks.keep(&wanted);
        while self.nodes.len() > 1 && matches!(self.nodes.last(), Some(Node { kind: Kinds::Gone, .. })) {
            self.nodes.pop();
        }
        self.nodes.shrink_to_fit();
        let count = self.nodes.len();
        self.free.retain(|id| (*id as usize) < count);
        self.count_bytes();
    }

    fn count_bytes(&mut self) {
        let nodes = self.nodes.iter().map(|node| match &node.kind {
            Kinds::Run { blocks, .. } => size_of_val(&blocks[..]),
            Kinds::Read { edges: Edges::Few(edges), .. } => 24 * edges.len(),
            Kinds::Read { edges: Edges::Many(edges), .. } => 24 * edges.len(),
            _ => 0,
        });
        let outcomes = self.outcomes.iter().map(|outcome| outcome.bytes());
        self.bytes = nodes.sum::<usize>() + outcomes.sum::<usize>() + self.nodes.len() * size_of::<Node>();
    }
}
