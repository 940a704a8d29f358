//! The crash states a crash may leave.
//!
//! | module | what it holds |
//! |---|---|
//! | `timeline` | a recorded run, replayed through px86 to any point; its crash points |
//! | `state` | crash states: what each line may hold after one or several crashes |
//! | `kinds` | which kinds of records a run left |
//! | `reads` | what recovery reads from a crash state |
//! | `history` | which stores were made, and what happened before each |
//! | `layout` | which layout of a structure would make a flush unnecessary |
//!
//! Ordering rules are px86's alone. Nothing here runs a program.

mod history;
mod kinds;
mod layout;
mod reads;
mod state;
mod timeline;

pub(crate) use history::{History, bits};
pub(crate) use kinds::RecordKinds;
pub(crate) use layout::Layouts;
pub(crate) use reads::{Read, Reads, had_read, ignored, names_looked_up};
pub(crate) use state::{
    Chosen, Content, CrashState, Later, Persisted, Revealed, agree, apply, group, survive, value,
};
pub use state::{ChosenCrash, MAX_CRASHES};
pub(crate) use timeline::{Moments, Timeline};
