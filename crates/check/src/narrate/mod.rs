//! Puts findings into words and diagrams; all decisions are made elsewhere.
//!
//! | module | what it holds |
//! |---|---|
//! | `names` | objects and values by their source names and types |
//! | `stacks` | the call stacks of events |
//! | `words` | titles, causes, advice, relevant places |
//! | `event_diagram` | the events around a crash, for drawing |
//! | `freed` | memory that was freed too early |
//! | `missing_flush` | missing flushes, and advice on them |
//! | `schedule` | the actions of the threads, in order |
//! | `untracked` | why a verdict does not cover everything |
//! | `report` | all of it in the form shared by all engines |

mod event_diagram;
mod freed;
mod missing_flush;
mod names;
mod report;
mod schedule;
mod stacks;
mod untracked;
mod words;

pub(crate) use event_diagram::event_diagram;
pub(crate) use freed::reword as reword_freed;
pub(crate) use missing_flush::finding as missing_flush;
pub(crate) use names::Names;
pub use report::readable;
pub(crate) use report::{failure, volatile_pointer};
pub(crate) use schedule::steps as schedule_steps;
pub(crate) use stacks::{Stacks, failed_at, panic_place};
pub(crate) use untracked::{incomplete, untracked};
pub(crate) use words::{Consequence, Narrator, short};
