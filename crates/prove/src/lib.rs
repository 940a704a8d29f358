//! `crashproof prove`: bounded proofs about what survives a crash, over all schedules and all crashes.
//!
//! A front end makes a [`program::Program`]: loop-free threads of events over [`term::Terms`].

pub mod program;
pub mod term;
