//! The program under test, behind [`Subject`]: something that runs from its start on a given crash state, records its
//! effects on persistent memory, and can be run again.
//!
//! | module | what it holds |
//! |---|---|
//! | `interface` | the interface of a program to the rest of the check |
//! | `run` | one run: mode, schedule, starting point, limits; the only place that fills the control block |
//! | `process` | a subject that is a process, parked before `main` |
//! | `ending` | how a run ended, and whether that is a failure |
//! | `trace` | the records of a run |
//! | `sites` | the places in the source of events |
//! | `descriptors` | the limit on open files |
//! | `pinning` | keeps a worker and its process on one processor |
//! | `sanitizer`, `panic`, `fault` | what sanitizers, Rust panics and the runtime print |
//! | `executable` | the kind of program, determined before it runs |
//! | `sandbox`, `private_files` | isolate a process from the rest of the machine |
//! | `placement` | the addresses of code, heap and stack of a process |
//!
//! This module neither knows the memory model nor decides what to run: `search` and `driver` do. A traced binary or a
//! remote worker would be another implementation of [`Subject`].

mod descriptors;
mod ending;
mod error;
mod executable;
pub(crate) mod fault;
mod file_names;
#[cfg(test)]
mod in_memory;
mod interface;
mod interrupt;
mod panic;
mod pinning;
mod placement;
mod private_files;
mod process;
mod run;
mod sandbox;
mod sanitizer;
mod sites;
mod trace;
mod waiting;

pub(crate) use ending::{Ended, Ending};
pub use ending::{Failure, Limit};
pub use error::Error;
pub(crate) use error::system;
pub(crate) use executable::is_low;
pub(crate) use file_names::{FileFact, FileNames, NameVersions};
#[cfg(test)]
pub(crate) use in_memory::{InMemory, Memory};
pub(crate) use interface::{Bytes, Subject};
pub(crate) use interrupt::Interrupt;
pub(crate) use placement::Placement;
pub use process::Heap;
pub(crate) use process::{Launch, Process};
pub(crate) use run::{Durable, Limits, Mode, Run, RunLimits, Schedule};
pub use sandbox::{Level, Sandbox, permitted_level};
pub(crate) use sites::{AllSites, Sites, in_user_code, is_assignment_operator, same_place};
pub use trace::Trace;
