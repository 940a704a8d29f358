//! Searches everything recovery may do after any crash (Jaaru, section 3).
//!
//! | module | what it holds |
//! |---|---|
//! | `shared_state` | what the workers of a check share: settings, the tree, statistics |
//! | `observer` | what a search reports |
//! | `blocks` | runs of reads, each stored once |
//! | `journal` | recoveries saved to a file, for resuming checks and merging shards |
//! | `shards` | the part of the crash points that a check explores |
//! | `effects` | what a recovery stored and printed |
//! | `tree` | everything recovery has been seen to do, by what it read |
//! | `path` | what a recovery reads on its way down the tree |
//! | `unchanged` | what has not changed since the previous crash point, and need not be examined again |
//! | `worker` | crashes the recorded run, walks the tree, runs recoveries at its unexplored ends |
//! | `corners` | the crash states most likely to reveal bugs, which come first |
//! | `stage` | the order in which corners are tried |
//! | `reported_ends` | ends of recovery that were reported already |
//! | `known_contents` | what open lines may hold, while corners of one crash state are tried |
//! | `coping` | recoveries that read something stale, but leave the same state as if they had not |
//! | `set_aside` | crash states whose failure is known |
//! | `waiting` | recoveries that would wait forever like others before |
//! | `plan` | which crashes to try, and how workers share them |
//! | `checksums` | recovery that trusts a checksum, without trying every torn content |
//! | `random` | random crashes instead of all |
//! | `minimize` | the smallest loss that causes a failure |
//! | `schedules` | schedules from seeds |
//! | `recovery_schedules` | what is known about schedules of recoveries that have threads |
//! | `other_schedules` | follows such recoveries into all their schedules |
//!
//! Recovery is a function of what it reads from before the crash. So the tree of first reads (node: an address; edge:
//! the bytes seen; leaf: how recovery ended) covers every crash whose possible contents stay within what was seen; a
//! process runs only for new behavior. Whether an outcome is a bug is decided elsewhere: an [`Observer`] is notified of
//! every recovery that ends.

mod blocks;
mod checksums;
mod coping;
mod corners;
mod effects;
mod journal;
mod known_contents;
mod minimize;
mod observer;
mod other_schedules;
mod path;
mod plan;
mod random;
mod recovery_schedules;
mod reported_ends;
mod schedules;
mod set_aside;
mod shards;
mod shared_state;
mod stage;
#[cfg(test)]
mod tests;
mod tree;
mod unchanged;
mod waiting;
mod worker;

pub use journal::recoveries_among;
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
