//! Robustness to weak persistency: PSan's analysis (Gorjiara et al., PLDI 2022, sections 3 to 5).
//!
//! An execution is robust if what is read after each crash could also have been read after a crash of a
//! machine that persists stores in the order they become visible. [`Clocks`] tracks which stores happen
//! before which (Figure 3); [`Intervals`] tracks where, thread by thread, such a machine would have had to
//! crash (Figure 10). When an interval becomes empty there is no such place, and the two stores that
//! emptied it are the bug: one was lost although it happened before the other, which survived.
//!
//! Deviation: non-temporal stores, which PSan does not model, may reach the cache after later stores of
//! their thread. A store that never reached the cache counts as newer than every one that did.

mod clocks;
mod intervals;
mod order;
mod survivors;

pub use clocks::{Clock, Clocks, Stamp};
pub use intervals::{Intervals, Observation, StoreRef, Violation};
pub use order::{Issued, Order};
pub use survivors::{Candidate, Survivors};
