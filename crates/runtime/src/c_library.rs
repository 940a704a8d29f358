//! The C library's functions that touch PM, or whose results differ from run to run.
//!
//! The C library is not instrumented, so its accesses to PM would go unseen. Whatever a function writes becomes stores;
//! whatever it must examine for its result counts as read.

pub(crate) mod determinism;
mod environment;
pub(crate) mod files;
mod format;
mod heap;
mod io;
mod lists;
pub(crate) mod memory;
pub(crate) mod processors;
pub(crate) mod results;
mod segments;
mod status;
mod streams;
mod strings;
pub(crate) mod time;
mod timers;
mod transfers;
mod untracked;
pub(crate) mod waiting;
mod wide;
