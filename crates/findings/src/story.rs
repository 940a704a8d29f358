//! The events around a crash: a lane for each cache line that matters, and what happened on it.
//!
//! A story is bounded. It holds the lines that the finding is about and the events just before the crash; what
//! was left out is counted.

use serde::Serialize;

pub use crate::graph::Fate;

/// A crash, or several in a row, and the recovery that went wrong.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Story {
    /// The executions in order: the run, recoveries that crashed in their turn, the last recovery.
    pub executions: Vec<Execution>,
    /// Where events come from; they refer to it by index.
    pub places: Vec<StoryPlace>,
}

/// Where an event comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct StoryPlace {
    /// The file.
    pub file: String,
    /// From 1; 0 if not known.
    pub line: u32,
    /// From 1; 0 if not known.
    pub column: u32,
    /// The function.
    pub function: String,
}

/// One execution of the program.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Execution {
    /// What it is: "the run", "recovery".
    pub title: String,
    /// The lanes, by address.
    pub lanes: Vec<Lane>,
    /// The events on them, in the order they took effect, and the fences between.
    pub events: Vec<Event>,
    /// Where the crash came; `None` if the execution completed.
    pub crash: Option<Crash>,
    /// Earlier events of these lines that are not in the story.
    pub left_out: u64,
    /// Lines that are not in the story although something on them was open.
    pub lanes_left_out: u64,
}

/// A cache line.
#[derive(Clone, Debug, Serialize)]
pub struct Lane {
    /// Its first address, in hexadecimal: JavaScript has no 64-bit numbers.
    pub address: String,
    /// What the program keeps there, by its first object; empty if that has no name.
    pub name: String,
    /// The last write-back of the line before the crash came after this event, an index; `None` if not even one of the
    /// events shown need have been written back.
    pub written_after: Option<usize>,
    /// ... and before this one; `None` if it may have come at any moment up to the crash.
    pub written_before: Option<usize>,
}

/// Something that happened.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// Its number in the recorded run.
    pub number: u64,
    /// Who did it.
    pub thread: u16,
    /// What it is.
    pub kind: Kind,
    /// The lane; `None` for fences.
    pub lane: Option<usize>,
    /// The address, in hexadecimal; empty for fences.
    pub address: String,
    /// Bytes accessed; 0 for flushes and fences.
    pub width: u8,
    /// The value, in hexadecimal; empty for flushes and fences.
    pub value: String,
    /// What is accessed, as the source calls it; may be empty.
    pub name: String,
    /// The value in words, by its type; may be empty.
    pub shown: String,
    /// Index of the place.
    pub place: usize,
    /// Its fate.
    pub fate: Fate,
}

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A store.
    Store,
    /// A non-temporal store.
    NonTemporalStore,
    /// A locked instruction that stored.
    Rmw,
    /// A locked instruction that stored nothing.
    FailedRmw,
    /// `clflush`.
    Flush,
    /// `clflushopt` or `clwb`.
    FlushOpt,
    /// `sfence`.
    StoreFence,
    /// `mfence`.
    Fence,
    /// A load of recovery that saw what the crash left.
    Read,
}

/// Where the power failed.
#[derive(Clone, Debug, Serialize)]
pub struct Crash {
    /// The place of what would have come next.
    pub place: usize,
    /// In words: "just before this", "at the end of the run".
    pub message: String,
}
