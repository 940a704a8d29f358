//! Lazy exploration of crashes, after Jaaru (Gorjiara et al., ASPLOS 2021, section 4).
//!
//! A program runs; before every operation that makes something persistent, and at the end, it crashes; recovery runs on
//! the crash state. That state remains undetermined until recovery reads it: a load branches over the stores it may
//! read from, and each branch remembers what its choice implies for the rest of the cache line. So the work depends on
//! what recovery reads, not on how much may have been lost.
//!
//! The explorer ([`explorer`]) knows programs only through the traits of [`subject`] and reports to an
//! [`observer::Observer`]. [`engine`] drives it
//! for litmus tests, over all their schedules.

pub mod engine;
pub mod explorer;
mod litmus_subject;
pub mod observer;
pub mod subject;
mod world;
