//! `crashproof check`: runs a real program once, crashes it everywhere it matters, and recovers it from
//! every surviving state that recovery can tell apart.
//!
//! | module | what it does |
//! |---|---|
//! | `session` | the program, parked before `main`; runs children on command |
//! | `sanitizer` | reports of sanitizers, if the program was built with any |
//! | `panic` | what Rust programs say when they panic |
//! | `sites` | where in the source events come from |
//! | `timeline` | the recorded run, replayed through the model; the places to crash |
//! | `crash` | what each line may hold after a crash |
//! | `tree` | everything recovery was ever seen to do, by what it read |
//! | `schedule` | in which orders the threads of a program run |
//! | `unseen` | tells of accesses to PM that the runtime did not see |
//! | `hopeless` | crashes after which recovery fails even if nothing is lost |
//! | `explore` | a schedule after the other: records it, sets workers on it |
//! | `worker` | crashes, walks the tree, runs what is not known yet |
//! | `checksum` | recovery that believes a checksum, without trying every torn content |
//! | `random` | some crashes instead of all |
//! | `found`, `told`, `failure` | what went wrong, and its story |
//! | `drawn` | its events, for drawing |
//! | `least` | the least that must be lost for it |
//! | `monitor` | how it is coming along |
//! | `history` | who stored what, and what happened before it |
//! | `judge` | robustness: is what recovery read what a machine without caches could have left? |
//! | `robustness` | violations as the exploration meets them |
//! | `violation` | what it found: the lost store, the survivor, where the flush belongs |
//! | `layout` | which layout would make the flush unnecessary |
//! | `suppress` | violations that somebody knows to be harmless |
//! | `told`, `failure` | what went wrong, the least that must be lost for it |
//! | `replay` | shows one failure again |
//! | `regions` | strands and epochs that depend on each other |
//! | `wasted` | flushes and fences that did nothing |
//! | `missing_flush` | missing flushes in the common form |
//! | `common` | the report in the form that all engines share |
//!
//! Recovery is a function of what it reads from before the crash. So the tree of first reads (node: an
//! address; edge: the bytes seen; leaf: how it ended) answers for every crash whose possible contents stay
//! within what was seen; a process runs only for behaviour that is new.

#[path = "search/checksums.rs"]
mod checksum;
#[path = "narrate/report.rs"]
mod common;
#[path = "crash/state.rs"]
mod crash;
#[path = "narrate/event_diagram.rs"]
mod drawn;
#[path = "driver/check.rs"]
mod explore;
#[path = "judge/failure.rs"]
mod failure;
#[path = "driver/failures.rs"]
mod found;
#[path = "judge/harmless.rs"]
mod harmless;
#[path = "crash/history.rs"]
mod history;
#[path = "judge/unrecoverable.rs"]
mod hopeless;
#[path = "judge/robustness.rs"]
mod judge;
#[path = "crash/layout.rs"]
mod layout;
#[path = "search/minimize.rs"]
mod least;
#[path = "narrate/missing_flush.rs"]
mod missing_flush;
#[path = "driver/monitor.rs"]
mod monitor;
#[path = "driver/options.rs"]
mod options;
#[path = "subject/panic.rs"]
mod panic;
#[path = "search/random.rs"]
mod random;
#[path = "judge/strands.rs"]
mod regions;
#[path = "driver/replay.rs"]
mod replay;
#[path = "driver/violations.rs"]
mod robustness;
#[path = "subject/sanitizer.rs"]
mod sanitizer;
#[path = "search/schedules.rs"]
mod schedule;
#[path = "subject/process.rs"]
mod session;
#[path = "subject/sites.rs"]
mod sites;
#[path = "judge/suppress.rs"]
mod suppress;
#[path = "crash/timeline.rs"]
mod timeline;
#[path = "subject/pinning.rs"]
mod together;
#[path = "narrate/narrative.rs"]
mod told;
#[path = "subject/trace.rs"]
mod trace;
#[path = "search/tree.rs"]
mod tree;
#[path = "narrate/untracked.rs"]
mod unseen;
#[path = "judge/violation.rs"]
mod violation;
#[path = "judge/redundant.rs"]
mod wasted;
#[path = "search/worker.rs"]
mod worker;

pub use crash::MAX_CRASHES;
pub use explore::{check, record};
pub use failure::{Failure, Finding, Least, Place, Related, Role, Token, TokenCrash};
pub use monitor::{Monitor, Progress};
pub use options::{Options, Random, Recover, Report, Statistics, readable};
pub use regions::{Conflict, Dependence, Model};
pub use replay::{Replay, replay};
pub use schedule::Strategy;
pub use session::Error;
pub use sites::{Caller, Source};
pub use suppress::{Extent, Suppression};
pub use trace::Trace;
pub use violation::{Flushed, Saw, Violation, Window};
pub use wasted::{Waste, WasteKind};
