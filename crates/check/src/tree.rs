//! Everything recovery was ever seen to do, by what it read.

use std::sync::Arc;

use crashproof_protocol::Record;
use px86::Kind;

use crate::session::Ending;

/// A node, by number.
pub(crate) type NodeId = usize;

pub(crate) const ROOT: NodeId = 0;

enum Node {
    /// Nobody has been here yet.
    Unknown,
    /// Recovery reads these bytes, which it has not touched before.
    Read { address: u64, width: u8, site: u32, edges: Vec<(u64, NodeId)> },
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
    /// Recovery ended; the number of its outcome.
    Leaf(usize),
}

/// How a recovery ended.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) ending: Ending,
    /// The last of what it printed, if it failed.
    pub(crate) output: String,
    /// All it did, if it stored anything and may be crashed itself.
    pub(crate) writes: Option<Arc<Vec<Record>>>,
    /// The numbers of its reads that do not count for robustness, in order.
    pub(crate) ignored: Arc<[u32]>,
}

/// Recovery did something else although it read the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Diverged {
    /// What it read before.
    pub(crate) expected: Option<(u64, u32)>,
    /// What it read now.
    pub(crate) found: Option<(u64, u32)>,
}

pub(crate) struct Tree {
    nodes: Vec<Node>,
    pub(crate) outcomes: Vec<Outcome>,
}

impl Tree {
    pub(crate) fn new() -> Tree {
        Tree { nodes: vec![Node::Unknown], outcomes: Vec::new() }
    }

    /// What there is at a node.
    pub(crate) fn look(&self, at: NodeId) -> Seen {
        match self.nodes[at] {
            Node::Unknown => Seen::Unknown,
            Node::Read { address, width, site, .. } => Seen::Read { address, width, site },
            Node::Leaf(outcome) => Seen::Leaf(outcome),
        }
    }

    /// Adds a recovery that was run: what it read, in order, and how it ended.
    pub(crate) fn add(&mut self, records: &[Record], outcome: Outcome) -> Result<(), Diverged> {
        let mut at = ROOT;
        for read in records.iter().filter(|record| record.kind == Kind::Load as u8) {
            at = self.step(at, read)?;
        }
        match self.nodes[at] {
            Node::Unknown => {
                self.nodes[at] = Node::Leaf(self.outcomes.len());
                self.outcomes.push(outcome);
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
        }
    }

    fn step(&mut self, at: NodeId, read: &Record) -> Result<NodeId, Diverged> {
        let fresh = self.nodes.len();
        match &mut self.nodes[at] {
            unknown @ Node::Unknown => {
                *unknown = Node::Read {
                    address: read.address,
                    width: read.width,
                    site: read.site,
                    edges: vec![(read.value, fresh)],
                };
                self.nodes.push(Node::Unknown);
                Ok(fresh)
            }
            Node::Read { address, width, edges, site } => {
                if *address != read.address || *width != read.width {
                    let found = Some((read.address, read.site));
                    return Err(Diverged { expected: Some((*address, *site)), found });
                }
                if let Some((_, next)) = edges.iter().find(|(value, _)| *value == read.value) {
                    return Ok(*next);
                }
                edges.push((read.value, fresh));
                self.nodes.push(Node::Unknown);
                Ok(fresh)
            }
            Node::Leaf(_) => Err(Diverged { expected: None, found: Some((read.address, read.site)) }),
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

    /// How many different things recovery does.
    pub(crate) fn behaviours(&self) -> usize {
        self.outcomes.len()
    }
}
