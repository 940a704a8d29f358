//! `crashproof check`: runs a real program once, crashes it everywhere it matters, and recovers it from every crash state
//! that recovery can distinguish (Jaaru), and shows the store that needed a flush even if nothing fails (PSan).
//!
//! In layers; each uses only those above it:
//!
//! | layer | what it holds |
//! |---|---|
//! | `debug_info` | the DWARF of a program, unit by unit |
//! | `subject` | the program under test behind a trait: a process that can be run, recorded and run again |
//! | `crash` | the recorded run replayed through px86, its crash points, what may survive |
//! | `schedules` | every schedule: partial-order reduction, crashes at every consistent cut |
//! | `search` | the tree of all that recovery may do, and the workers that explore it |
//! | `judge` | failures, missing flushes, redundant flushes and fences, strands and epochs |
//! | `narrate` | what was found in words and pictures |
//! | `driver` | options, the loop over schedules, replay, progress |
//!
//! It runs what you run: no symbolic execution, no model of the program. What the runtime inside the program does not
//! understand makes the verdict UNKNOWN.

mod crash;
mod debug_info;
mod driver;
mod judge;
mod narrate;
mod schedules;
mod search;
mod subject;

pub use crash::{ChosenCrash, MAX_CRASHES};
pub use crashproof_findings::{Place, Related, Role};
pub use driver::{
    Budget, Manifest, Medium, Monitor, NotAToken, Options, Progress, Recover, Replay, Token, check, record,
    replay, use_runtime,
};
pub use judge::{
    Conflict, DataRace, Dependence, Extent, FailedRecovery, Flushed, Minimality, Model, PersistencyRace,
    Redundant, RedundantKind, Report, Saw, Suppression, Violation, VolatilePointer, Window,
};
pub use narrate::readable;
pub use search::{Random, Shards, Statistics, Strategy};
pub use subject::{Error, Failure, Heap, Level, Limit, Sandbox, Trace, permitted_level};
