//! `crashproof fix`: turns missing flushes into source edits, and proves by checking again that they suffice.
//!
//! | module | what it does |
//! |---|---|
//! | `fixer` | the loop: check, edit, check again |
//! | `bench` | where the program is built and checked meanwhile |
//! | `tokens`, `statement` | finds the statement of a store and what it stores to |
//! | `style` | how the file flushes: `crashproof.h`, libpmem, intrinsics, the project's own macro |
//! | `plan` | from a missing flush to an edit, or to the reason why there is none |
//! | `edit` | makes edits; files are never half-written |
//!
//! The flush goes right after the statement of the last lost store of its line, which is in the primary window
//! (PSan, section 5.2); if that window is empty, after the load by which the other thread got to know of the store.
//! Nothing is assumed of a fix: the program is built and checked again with it, and what remains is fixed or
//! reported. Sources are read lexically, not preprocessed: where that is not enough it says why, and no edit
//! is made.

mod bench;
mod edit;
mod fixer;
mod plan;
mod statement;
mod style;
mod tokens;

pub use bench::{Bench, Checker, Project};
pub use edit::write;
pub use fixer::{Changed, Failed, Options, Outcome, Remaining, Workshop, fix, missing};
pub use style::Macros;
