//! The program under test, behind [`Subject`]: something that runs from its start on a given crash state, records what
//! it does to persistent memory, and can be run again.
//!
//! | module | what it holds |
//! |---|---|
//! | `interface` | what the rest of the check sees of a program |
//! | `run` | one run: mode, schedule, starting point, limits; the only place that fills the control block |
//! | `process` | a subject that is a process, parked before `main` |
//! | `ending` | how a run ended, and whether that is a failure |
//! | `trace` | the records of a run |
//! | `sites` | where in the source events come from |
//! | `pinning` | keeps a worker and its process on one processor |
//! | `sanitizer`, `panic` | what sanitizers and Rust panics print |
//!
//! Nothing here knows the memory model or decides what to run: `search` and `driver` do. A traced binary or a remote
//! worker is another implementation of [`Subject`].

mod ending;
mod error;
#[cfg(test)]
mod in_memory;
mod interface;
mod interrupt;
mod panic;
mod pinning;
mod process;
mod run;
mod sanitizer;
mod sites;
mod trace;

pub use ending::Failure;
pub(crate) use ending::{Ended, Ending};
pub use error::Error;
#[cfg(test)]
pub(crate) use in_memory::{InMemory, Memory};
pub(crate) use interface::{Bytes, Subject};
pub(crate) use interrupt::Interrupt;
pub(crate) use process::{Launch, Process};
pub(crate) use run::{Durable, Mode, Run, RunLimits, Schedule};
pub(crate) use sites::{AllSites, Sites, in_user_code, same_place};
pub use trace::Trace;
