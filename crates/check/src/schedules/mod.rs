//! Every schedule: dynamic partial-order reduction over real executions, and crashes at every consistent cut.
//!
//! | module | what it holds |
//! |---|---|
//! | `happens_before` | steps, which of them depend on each other, races |
//! | `explore` | which schedules to run: one for each Mazurkiewicz trace |
//! | `notes` | what a run noted, as steps and as units that a crash may come between |
//! | `unseen` | accesses that the exploration does not know of: are they ordered all the same? |
//! | `cuts` | where a crash can fall in a trace, and why that is all |
//! | `linearize` | a run's records with a cut first |
//!
//! Nothing here runs anything: the driver does, and hands over what the run noted. Steps are those of an x86-TSO machine
//! in which flushes and store fences leave the buffer as early as they may (see `litmus::exhaustive` for why that is
//! enough); draining a store is a decision.

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
