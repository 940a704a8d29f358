//! Decides what is wrong.
//!
//! | module | what it holds |
//! |---|---|
//! | `facts` | what a finding is about, as data: lost and surviving stores, the crash, the reads |
//! | `cause`, `classify` | why: never flushed, flushed too late, torn, ... |
//! | `words` | what is said of it |
//! | `failure` | a recovery that fails |
//! | `one_cause` | failures that show one mistake from several sides |
//! | `locks` | words of PM that are locks |
//! | `volatile` | pointers to volatile memory that recovery follows |
//! | `unrecoverable` | stretches of a run after which recovery fails whatever is lost |
//! | `robustness` | is what recovery read what a machine without caches could have left? |
//! | `violation` | a robustness violation in the source: the missing flush and where it belongs |
//! | `harmless` | protocols of libraries that lose stores by design, and notice |
//! | `suppress` | places where missing flushes are known to be harmless |
//! | `redundant` | redundant flushes and fences |
//! | `races` | data races on persistent memory |
//! | `persistency_races` | plain stores that recovery may read in part |
//! | `strands` | strands and epochs that depend on each other |
//! | `report` | everything that a check found |
//!
//! Findings here are places and figures; `narrate` puts them into words.

mod access;
mod cause;
mod classify;
mod facts;
mod failure;
mod harmless;
mod locks;
mod one_cause;
mod persistency_races;
mod races;
mod redundant;
mod report;
mod robustness;
mod strands;
mod suppress;
mod unrecoverable;
mod violation;
mod volatile;
mod words;

pub(crate) use access::Access;
pub(crate) use cause::{Cause, Instruction, Volatile};
pub(crate) use facts::{Crash, Facts, ReadFact};
pub use failure::{FailedRecovery, Minimality};
pub(crate) use failure::{Key, Rank as FailureRank};
pub(crate) use harmless::Harmless;
pub(crate) use locks::is_of_lock;
pub(crate) use one_cause::{join as join_by_cause, tells};
pub(crate) use persistency_races::{Race, persistency_races};
pub use races::DataRace;
pub(crate) use races::{merge as merge_races, races};
pub(crate) use redundant::RedundantWork;
pub use redundant::{Redundant, RedundantKind};
pub use report::{PersistencyRace, Report};
pub(crate) use robustness::{TraceViolation, violations, with_other_reads};
pub use strands::{Conflict, Dependence, Model};
pub(crate) use strands::{any_marked, dependences, merge};
pub use suppress::{Extent, Suppression};
pub(crate) use unrecoverable::Unrecoverable;
pub(crate) use violation::Rank;
pub use violation::{Flushed, Saw, Violation, Window};
pub use volatile::VolatilePointer;
pub(crate) use volatile::followed;
pub(crate) use words::Words;
