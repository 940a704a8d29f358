//! Drives a check: options in, report out.
//!
//! | module | what it holds |
//! |---|---|
//! | `options` | what a check is asked to do |
//! | `check` | one schedule after the other, recorded and crashed everywhere |
//! | `judging` | judges every recovery, keeps what is found |
//! | `token`, `replay` | reproduces one failure |
//! | `monitor` | progress, and a way to end early |

mod check;
mod judging;
mod monitor;
mod options;
mod replay;
mod token;

pub use check::{check, record};
pub use monitor::{Monitor, Progress};
pub use options::{Options, Recover};
pub use replay::{Replay, replay};
pub use token::Token;
