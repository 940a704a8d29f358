//! The findings of all engines, in one form.
//!
//! | module | what it holds |
//! |---|---|
//! | `finding` | a [`Finding`]: what is wrong, where, why, and what to do |
//! | `place` | places in the source |
//!  `report` | a [`Report`]: the findings of one command, its verdict, bounds and statistics |
//! | [`rules`] | every rule that a finding can break, explained, with an example of each kind |
//! | `fingerprint` | identifies findings across unrelated edits |
//! | `sources` | the text of source files, as far as it can be read |
//! | [`expression`] | what the source calls an object, found in the text of a line |
//! | [`story`] | the events around a crash, for drawing |
//! | [`graph`] | the events of a counterexample and how they are ordered, for drawing |
//! | [`ignore`] | comments in the source that excuse a finding |
//!  [`suppress`] | accepted findings |
//!  [`baseline`] | findings known from an earlier run |
//! | [`config`] | `crashproof.toml` |
//! | [`frameworks`] | the directories below `frameworks/`, built in, and what check knows of each |
//! | [`text_file`] | reads what a user gives as text, up to a limit |
//! | `toml_file` | files in TOML, and what is wrong with them |
//!
//! An engine fills a [`Report`] and calls nothing else here; the command line calls [`Report::finish`], sets aside
//! what is suppressed or known, and hands the rest to the formats.

pub mod baseline;
pub mod config;
pub mod expression;
mod finding;
mod fingerprint;
pub mod frameworks;
pub mod graph;
pub mod ignore;
mod place;
mod report;
pub mod rules;
mod sources;
pub mod story;
pub mod suppress;
pub mod text_file;
mod toml_file;

pub use finding::{Also, Cause, Edit, Finding, Fix, Inserted, Insertion, Related, Role, Window};
pub use place::{Frame, Place, plain_function};
pub use report::{Report, SetAside, Verdict, Why, no_persistent_memory};
pub use rules::{Engine, Example, Level, Rule};
pub use sources::{Source, Sources, is_of_others, is_of_rust};
