//! Drives a check: options in, report out.
//!
//! | module | what it holds |
//! |---|---|
//! | `options` | what a check is asked to do |
//! | `recording` | the recorded run |
//! | `prepare` | files that another program prepares, and which files are mapped |
//! | `call_stacks` | the calls that led to what was found |
//! | `check` | one schedule after the other, recorded and crashed everywhere |
//! | `checkpoint` | checks that go on where they ended, and that several machines share |
//! | `judging` | judges every recovery, keeps what is found |
//! | `remarks` | what a verdict rests on besides its findings |
//! | `other_files` | whether recoveries look at what the crashed run stored |
//! | `token`, `replay` | reproduces one failure |
//! | `monitor` | progress, and a way to end early |

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
