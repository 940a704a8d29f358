//! Decides what is wrong.
//!
//! | module | what it holds |
//! |---|---|
//! | `facts` | the facts of a finding as data: lost and surviving stores, the crash, the reads |
//! | `cause`, `classify` | why: never flushed, flushed too late, torn, ... |
//! | `words` | the text of a finding |
//! | `failure` | a recovery that fails |
//! | `one_cause` | merges failures that show one mistake from several sides |
//! | `locks` | words of PM that are locks |
//! | `volatile` | pointers to volatile memory that recovery follows |
//! | `unrecoverable` | parts of a run in which recovery fails no matter what is lost |
//! | `robustness` | could a machine without caches have left what recovery read? |
//! | `violation` | a robustness violation in the source: the missing flush and where it belongs |
//! | `harmless` | library protocols that lose stores by design, and detect it |
//! | `suppress` | places where missing flushes are known to be harmless |
//! | `redundant` | redundant flushes and fences |
//! | `races` | data races on persistent memory |
//! | `persistency_races` | plain stores that recovery may read in part |
//! | `strands` | strands and epochs that depend on each other |
//! | `report` | everything a check found |
//!
//! Findings here are places and numbers; `narrate` puts them into words.

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
pub(crate) use volatile::{followed, volatile_from};
pub(crate) use words::Words;
