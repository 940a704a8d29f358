//! The C library's functions where they touch PM, or differ from run to run.
//!
//! The C library is not instrumented: what its functions read and write in PM would go unseen. What a function writes
//! becomes stores; what it must look at for its result counts as read.

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
mod streams;
mod strings;
pub(crate) mod time;
mod timers;
mod transfers;
mod untracked;
pub(crate) mod waiting;
mod wide;
