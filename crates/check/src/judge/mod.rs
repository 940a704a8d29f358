//! Decides what is wrong.
//!
//! | module | what it holds |
//! |---|---|
//! | `failure` | a recovery that fails |
//! | `unrecoverable` | stretches of a run after which recovery fails whatever is lost |
//! | `robustness` | is what recovery read what a machine without caches could have left? |
//! | `violation` | a robustness violation in the source: the missing flush and where it belongs |
//! | `harmless` | protocols of libraries that lose stores by design, and notice |
//! | `suppress` | places where missing flushes are known to be harmless |
//! | `redundant` | redundant flushes and fences |
//! | `strands` | strands and epochs that depend on each other |
//! | `report` | everything that a check found |
//!
//! Findings here are places and figures; `narrate` puts them into words.

mod failure;
mod harmless;
mod redundant;
mod report;
mod robustness;
mod strands;
mod suppress;
mod unrecoverable;
mod violation;

pub use failure::{FailedRecovery, Minimality};
pub(crate) use failure::{Key, Rank as FailureRank};
pub(crate) use harmless::Harmless;
pub(crate) use redundant::RedundantWork;
pub use redundant::{Redundant, RedundantKind};
pub use report::Report;
pub(crate) use robustness::{TraceViolation, violations, with_other_reads};
pub use strands::{Conflict, Dependence, Model};
pub(crate) use strands::{any_marked, dependences, merge};
pub use suppress::{Extent, Suppression};
pub(crate) use unrecoverable::Unrecoverable;
pub(crate) use violation::Rank;
pub use violation::{Flushed, Saw, Violation, Window};
