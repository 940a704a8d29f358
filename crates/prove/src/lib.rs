//! `crashproof prove`: bounded proofs about what survives a crash, over all schedules and all crashes.
//!
//! A front end creates a [`program::Program`]: loop-free threads of events over [`term::Terms`]. [`values`] determines
//! which values can occur where, [`encode`] creates a formula modulo orders, and [`crashproof_ordersat`] solves it.

pub mod axiomatic;
pub mod blast;
pub mod confirm;
pub mod encode;
pub mod findings;
pub mod gates;
mod joined;
pub mod litmus;
pub mod memory;
pub mod program;
pub mod prove;
pub mod question;
pub mod robust;
pub mod story;
pub mod term;
pub mod values;
pub mod words;
