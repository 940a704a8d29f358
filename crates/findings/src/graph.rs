//! The events of a counterexample and how they are ordered.

use serde::Serialize;

use crate::place::Place;

/// An execution as a graph, as papers about memory models draw it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EventGraph {
    /// What to call the columns: threads first, then, if it has events, recovery.
    pub threads: Vec<String>,
    /// The events, those of one thread in program order.
    pub events: Vec<GraphEvent>,
    /// How they are ordered.
    pub edges: Vec<GraphEdge>,
    /// What the graph shows, in a sentence.
    pub caption: String,
}

/// A node of the graph.
#[derive(Clone, Debug, Serialize)]
pub struct GraphEvent {
    /// The column; `None` for the initial content of memory.
    pub thread: Option<usize>,
    /// As it is written: `x = 1`, `flush x`, `r0 = x`.
    pub text: String,
    /// Where in the source.
    pub place: Place,
    /// Its fate in the crash.
    pub fate: Fate,
}

/// The fate of an event in the crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// Nothing to say: a fence, a load, or a store before the crash that is of no interest.
    #[default]
    Plain,
    /// A store that was lost.
    Lost,
    /// A store that may have been lost and survived.
    Survived,
    /// A store that had surely persisted.
    Certain,
    /// Did not happen: the crash came before.
    After,
}

/// An edge of the graph.
#[derive(Clone, Debug, Serialize)]
pub struct GraphEdge {
    /// Index of the event it leaves.
    pub from: usize,
    /// Index of the event it enters.
    pub to: usize,
    /// Which relation it belongs to.
    pub kind: EdgeKind,
}

/// The relations that are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EdgeKind {
    /// Program order.
    Po,
    /// Reads-from.
    Rf,
    /// Coherence: the order of stores to one location or line.
    Co,
    /// From-read: a load before the store that overwrites what it read.
    Fr,
    /// A flush and the stores it makes persistent.
    Flush,
}
