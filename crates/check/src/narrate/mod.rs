//! Puts what was found into words and pictures; nothing here decides anything.
//!
//! | module | what it holds |
//! |---|---|
//! | `narrative` | what was lost, what survived, where the power failed, what recovery read |
//! | `event_diagram` | the events around a crash, for drawing |
//! | `missing_flush` | missing flushes, and what to do about them |
//! | `untracked` | why a verdict does not cover everything |
//! | `report` | all of it in the form that all engines share |

mod event_diagram;
mod missing_flush;
mod narrative;
mod report;
mod untracked;

pub(crate) use event_diagram::event_diagram;
pub(crate) use missing_flush::{describe as describe_violation, finding as missing_flush};
pub(crate) use narrative::Narrative;
pub(crate) use report::failure;
pub use report::readable;
pub(crate) use untracked::{incomplete, untracked};
