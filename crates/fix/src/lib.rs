//! `crashproof fix`: turns missing flushes into source edits, and proves by checking again that they suffice.
//!
//! | module | what it does |
//! |---|---|
//! | `fixer` | the loop: check, edit, check again |
//!  `bench` | where the program is built and checked |
//! | `syntax` | sources as syntax trees: the statement at a place |
//! | `project` | what the sources around it define: functions and macros that flush, structs |
//! | `object` | objects in memory by the expressions of the source |
//! | `target`, `c`, `rust` | what a statement stores to |
//! | `extend` | flushes that cover too little, and objects that are flushed as a whole |
//! | `style` | how the code around flushes: the project's own function, a library, intrinsics |
//! | `transaction` | stores in transactions, which are added to them |
//! | `plan` | from a missing flush to an edit, or to the reason why there is none |
//! | `edit` | makes edits; files are never half-written |
//! | `undo` | what was written last, so that it can be undone |
//!
//! The flush goes right after the statement of the last lost store of its line, which is in the primary window (PSan,
//! section 5.2); if that window is empty, after the load through which the other thread saw the store. A fix is never
//! assumed to work: the program is built and checked again with it, and whatever remains is fixed or reported. Sources
//! are parsed, not preprocessed: if that is not enough, the reason is reported and no edit is made.

mod bench;
mod c;
mod edit;
mod extend;
mod fixer;
mod object;
mod plan;
mod project;
mod rust;
mod style;
mod syntax;
mod target;
mod transaction;
mod undo;

pub use bench::{Bench, Checker, Project};
pub use edit::write;
pub use fixer::{Changed, Failed, Options, Outcome, Remaining, Workshop, fix, missing};
pub use style::Macros;
pub use undo::undo;
