//! `crashproof check`: runs a real program once, crashes it at every point that matters, and recovers from every crash
//! state that recovery can distinguish (Jaaru). It reports stores that need a flush even if nothing fails (PSan).
//!
//! In layers; each uses only those above it:
//!
//! | layer | what it holds |
//! |---|---|
//! | `debug_info` | the DWARF of a program, unit by unit |
//! | `subject` | the program under test behind a trait: a process that can be run and recorded any number of times |
//! | `crash` | the recorded run replayed through px86, its crash points, what may survive |
//! | `schedules` | all schedules: partial-order reduction, crashes at every consistent cut |
//! | `search` | the tree of everything recovery may do, and the workers that explore it |
//! | `judge` | failures, missing flushes, redundant flushes and fences, strands and epochs |
//! | `narrate` | findings in words and diagrams |
//! | `driver` | options, the loop over schedules, replay, progress |
//!
//! There is no symbolic execution and no model of the program: it runs the real one. Anything the runtime inside the
//! program does not understand makes the verdict UNKNOWN.

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
pub use search::{Random, Shards, Statistics, Strategy, recoveries_among};
pub use subject::{Error, Failure, Heap, Level, Limit, Sandbox, Trace, permitted_level};
