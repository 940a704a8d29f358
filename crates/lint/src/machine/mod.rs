//! The state of persistent memory at a point of a path, and the rules judged there.
//!
//! The machine processes the events of one path. For each store it tracks whether the data is only in the cache, queued
//! or pending, or durable; for each flush, whether anything was stored there since. It is a function of the trace, so
//! paths with the same trace have the same machine.
//!
//! # Where the rules come from
//!
//! Tables 4 and 5 of the DeepMC paper (PPoPP 2022), sections 3.2, 3.3 and 4.3. Deviations at the default level (under
//! `pedantic` the paper's rules apply literally):
//!
//! 1. Lines and words matter, not fields: data on a line that is written back anyway costs nothing and is not lost
//!    (`crate::span`). `px86` determines ordering.
//! 2. Objects that are still unreachable may be built in any order.
//! 3. Consecutive epochs on one object are a mistake only if no protocol explains them: data before the number or flag
//!    that makes it valid, or a flag set before and cleared after.
//! 4. What a caller may have stored or will flush is left to the caller.

mod context;
mod end;
mod epoch;
mod flush;
mod meet;
mod naming;
mod order;
mod overtaken;
mod publish;
mod state;
mod store;
mod transaction;

pub(crate) use context::Context;
pub(crate) use flush::keeps_order;
pub(crate) use state::{Exit, MAX_WRITES, Machine};
