//! Searches all that recovery may do after any crash (Jaaru, section 3).
//!
//! | module | what it holds |
//! |---|---|
//! | `shared_state` | what the workers of a check share: settings, the tree, statistics |
//! | `observer` | what a search reports, and to whom |
//! | `blocks` | runs of reads, stored once |
//! | `journal` | recoveries kept in a file, for checks that go on and shards that are merged |
//! | `shards` | the part of the crash points that a check takes |
//! | `effects` | what a recovery stored and printed |
//! | `tree` | everything recovery was ever seen to do, by what it read |
//! | `path` | what a recovery reads on its way down the tree |
//! | `unchanged` | what has not changed since the crash point before, and need not be looked at again |
//! | `worker` | crashes the recorded run, walks the tree, runs recoveries where the tree ends |
//! | `corners` | the crash states that bugs prefer, first |
//! | `coping` | recoveries that read something stale, and leave everything as if they had not |
//! | `set_aside` | crash states whose failure is known |
//! | `waiting` | recoveries that would wait forever as others have |
//! | `plan` | which crashes to try, and how workers share them |
//! | `checksums` | recovery that trusts a checksum, without trying every torn content |
//! | `random` | some crashes instead of all |
//! | `minimize` | the least that must be lost for a failure |
//! | `schedules` | schedules from seeds |
//! | `recovery_schedules` | what is known about schedules of recoveries that have threads |
//! | `other_schedules` | follows such recoveries into all their schedules |
//!
//! Recovery is a function of what it reads from before the crash. So the tree of first reads (node: an address; edge: the
//! bytes seen; leaf: how recovery ended) answers for every crash whose possible contents stay within what was seen; a
//! process runs only for behavior that is new. Whether an outcome is a bug is not decided here: an [`Observer`] learns of
//! every recovery that ends.

mod blocks;
mod checksums;
mod coping;
mod corners;
mod effects;
mod journal;
mod minimize;
mod observer;
mod other_schedules;
mod path;
mod plan;
mod random;
mod recovery_schedules;
mod schedules;
mod set_aside;
mod shards;
mod shared_state;
#[cfg(test)]
mod tests;
mod tree;
mod unchanged;
mod waiting;
mod worker;

pub(crate) use journal::{FILE as JOURNAL_FILE, Journal, read as read_journal};
pub(crate) use minimize::{MAX_RUNS, minimize};
pub(crate) use observer::{Incomplete, Judgement, Observer, Recovered};
pub(crate) use plan::Plan;
pub use random::Random;
pub(crate) use random::{Draws, count};
pub use schedules::Strategy;
pub use shards::Shards;
pub use shared_state::Statistics;
pub(crate) use shared_state::{Search, Settings, Shared, Stop};
pub(crate) use worker::{Recording, Worker, completed};
