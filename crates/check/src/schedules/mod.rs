//! All schedules: dynamic partial-order reduction over real executions, and crashes at every consistent cut.
//!
//! | module | what it holds |
//! |---|---|
//! | `happens_before` | steps, which of them depend on each other, races |
//!  `explore` | which schedules to run: one per Mazurkiewicz trace |
//!  `notes` | a run's notes as steps, and as units between which a crash may come |
//!  `unseen` | accesses unknown to the exploration: are they ordered nonetheless? |
//!  `cuts` | where in a trace a crash can come, and why that is complete |
//! | `linearize` | a run's records with a cut first |
//!
//! This module runs nothing: the driver does, and passes on the run's notes. Steps are those of an x86-TSO machine in
//! which flushes and store fences leave the buffer as early as possible (`litmus::exhaustive` explains why that
//! suffices); draining a store is a decision.

mod cuts;
mod explore;
mod happens_before;
mod linearize;
mod notes;
mod unseen;

pub(crate) use explore::{Explorer, Plan};
pub(crate) use linearize::{Linearized, Seen, linearize, rearranged};
pub(crate) use notes::Steps;
pub(crate) use unseen::unordered;
