//! The tree of first reads: everything recovery was ever seen to do, by what it read.
//!
//! A node is a read of bytes that recovery did not touch before, an edge the value it saw, a leaf how it ended. The tree
//! grows by recoveries that were run; walking it needs no process.

use std::sync::Arc;

use crashproof_protocol::{Record, record};
use px86::Kind;

use crate::subject::Ending;

/// A node, by number.
pub(crate) type NodeId = usize;

pub(crate) const ROOT: NodeId = 0;

enum Node {
    /// Nobody has been here yet.
    Unknown,
    /// Recovery reads these bytes, which it has not touched before.
    Read { address: u64, width: u8, site: u32, edges: Vec<(u64, NodeId)> },
    /// A checksum is about to be verified over what is read next.
    Begin { next: NodeId },
    /// It was verified.
    End { matched: bool, next: NodeId },
    /// Recovery ended; what came of it.
    Leaf(usize),
}

/// What there is at a node.
#[derive(Clone, Copy)]
pub(crate) enum Seen {
    /// Nobody has been here yet.
    Unknown,
    /// Recovery reads these bytes.
    Read { address: u64, width: u8, site: u32 },
    /// A checksum is about to be verified over what is read next.
    Begin,
    /// It was verified.
    End { matched: bool },
    /// Recovery ended; the number of its outcome.
    Leaf(usize),
}

/// Beginning and end of the reads that a checksum protects.
#[derive(Clone, Copy)]
enum Mark {
    Begin,
    End { matched: bool },
}

/// Finds the brackets of a recovery: those within others do not count, nor do any once there are threads, since
/// what other threads read meanwhile is not protected.
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
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) ending: Ending,
    /// The last of what it printed, if it failed.
    pub(crate) output: String,
    /// All it did, if it stored anything and may be crashed itself.
    pub(crate) writes: Option<Vec<Record>>,
    /// The numbers of its reads that do not count for robustness, in order.
    pub(crate) ignored: Vec<u32>,
}

/// Recovery did something else although it read the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Diverged {
    /// What it read before: address and site; none if it ended.
    pub(crate) expected: Option<(u64, u32)>,
    /// What it read now.
    pub(crate) found: Option<(u64, u32)>,
}

pub(crate) struct Tree {
    nodes: Vec<Node>,
    outcomes: Vec<Arc<Outcome>>,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree { nodes: vec![Node::Unknown], outcomes: Vec::new() }
    }
}

impl Tree {
    /// What there is at a node.
    pub(crate) fn look(&self, at: NodeId) -> Seen {
        match self.nodes[at] {
            Node::Unknown => Seen::Unknown,
            Node::Read { address, width, site, .. } => Seen::Read { address, width, site },
            Node::Begin { .. } => Seen::Begin,
            Node::End { matched, .. } => Seen::End { matched },
            Node::Leaf(outcome) => Seen::Leaf(outcome),
        }
    }

    /// How a recovery ended, by its number.
    pub(crate) fn outcome(&self, number: usize) -> Arc<Outcome> {
        Arc::clone(&self.outcomes[number])
    }

    /// Adds a recovery that was run: what it read, in order, and how it ended.
    pub(crate) fn add(&mut self, records: &[Record], outcome: Outcome) -> Result<(), Diverged> {
        let mut at = ROOT;
        let mut brackets = Brackets::default();
        for record in records {
            if record.kind() == Kind::Load as u8 {
                at = self.step(at, record)?;
            } else if let Some(mark) = brackets.mark(record) {
                at = self.step_mark(at, mark)?;
            }
        }
        match self.nodes[at] {
            Node::Unknown => {
                self.nodes[at] = Node::Leaf(self.outcomes.len());
                self.outcomes.push(Arc::new(outcome));
                Ok(())
            }
            Node::Leaf(known) => {
                if self.outcomes[known].ending == outcome.ending {
                    return Ok(());
                }
                Err(Diverged { expected: None, found: None })
            }
            Node::Read { address, site, .. } => {
                Err(Diverged { expected: Some((address, site)), found: None })
            }
            Node::Begin { .. } | Node::End { .. } => Err(Diverged { expected: None, found: None }),
        }
    }

    fn step(&mut self, at: NodeId, read: &Record) -> Result<NodeId, Diverged> {
        let fresh = self.nodes.len();
        match &mut self.nodes[at] {
            unknown @ Node::Unknown => {
                *unknown = Node::Read {
                    address: read.address(),
                    width: read.width(),
                    site: read.site,
                    edges: vec![(read.value, fresh)],
                };
                self.nodes.push(Node::Unknown);
                Ok(fresh)
            }
            Node::Read { address, width, edges, site } => {
                if *address != read.address() || *width != read.width() {
                    let found = Some((read.address(), read.site));
                    return Err(Diverged { expected: Some((*address, *site)), found });
                }
                if let Some((_, next)) = edges.iter().find(|(value, _)| *value == read.value) {
                    return Ok(*next);
                }
                edges.push((read.value, fresh));
                self.nodes.push(Node::Unknown);
                Ok(fresh)
            }
            Node::Leaf(_) | Node::Begin { .. } | Node::End { .. } => {
                Err(Diverged { expected: None, found: Some((read.address(), read.site)) })
            }
        }
    }

    fn step_mark(&mut self, at: NodeId, mark: Mark) -> Result<NodeId, Diverged> {
        let next = self.nodes.len();
        match (&mut self.nodes[at], mark) {
            (unknown @ Node::Unknown, _) => {
                *unknown = match mark {
                    Mark::Begin => Node::Begin { next },
                    Mark::End { matched } => Node::End { matched, next },
                };
                self.nodes.push(Node::Unknown);
                Ok(next)
            }
            (Node::Begin { next }, Mark::Begin) => Ok(*next),
            (Node::End { matched: before, next }, Mark::End { matched }) if *before == matched => Ok(*next),
            (Node::Read { address, site, .. }, _) => {
                Err(Diverged { expected: Some((*address, *site)), found: None })
            }
            _ => Err(Diverged { expected: None, found: None }),
        }
    }

    /// The node after the beginning or the end of a bracket.
    pub(crate) fn pass(&self, at: NodeId) -> NodeId {
        match self.nodes[at] {
            Node::Begin { next } | Node::End { next, .. } => next,
            _ => unreachable!("only brackets are passed"),
        }
    }

    /// The node that reading `value` leads to; a new one if nobody has read it there yet.
    pub(crate) fn follow(&mut self, at: NodeId, value: u64) -> NodeId {
        let fresh = self.nodes.len();
        let Node::Read { edges, .. } = &mut self.nodes[at] else { unreachable!("only reads lead anywhere") };
        if let Some((_, next)) = edges.iter().find(|(seen, _)| *seen == value) {
            return *next;
        }
        edges.push((value, fresh));
        self.nodes.push(Node::Unknown);
        fresh
    }

    /// How many distinct behaviors recovery has.
    pub(crate) fn behaviors(&self) -> usize {
        self.outcomes.len()
    }
}
