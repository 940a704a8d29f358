//! Drives a check: options in, report out.
//!
//! | module | what it holds |
//! |---|---|
//!  `options` | the options of a check |
//! | `recording` | the recorded run |
//!  `prepare` | files that another program prepares, and discovery of mapped files |
//!  `call_stacks` | the call stacks that findings refer to |
//!  `check` | one schedule after another, recorded and crashed everywhere |
//!  `checkpoint` | resumable checks, and checks shared by several machines |
//!  `judging` | judges every recovery, keeps the findings |
//! | `remarks` | what a verdict rests on besides its findings |
//!  `other_files` | whether recoveries read what the crashed run stored |
//! | `token`, `replay` | reproduces one failure |
//!  `monitor` | progress, and early termination |

mod all_schedules;
mod call_stacks;
mod check;
mod checkpoint;
mod judging;
mod monitor;
mod options;
mod other_files;
mod prepare;
mod recording;
mod recovery_schedules;
mod remarks;
mod replay;
mod token;
mod unseen;

pub use check::{check, record};
pub use checkpoint::Manifest;
pub use monitor::{Monitor, Progress};
pub use options::{Budget, Medium, Options, Recover, use_runtime};
pub use replay::{Replay, replay};
pub use token::{NotAToken, Token};
