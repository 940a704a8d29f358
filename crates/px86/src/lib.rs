//! What x86 persistent memory may hold after a crash.
//!
//! This crate is the only place in the project that knows what the hardware may do. It is pure: no unsafe code, no I/O,
//! no knowledge of any front end. The engines query it.
//!
//! # Sources
//!
//! The model is Px86 over x86-TSO in the form the Jaaru paper simulates it (Gorjiara et al., ASPLOS
//! 2021, section 4), with the ordering table that Jaaru, PSan and PMVerify share. Non-temporal stores
//! follow the informal rules of the architecture manual; none of the papers models them.
//!
//! # Where the rules live
//!
//! | rule | code | litmus tests |
//! |---|---|---|
//! | preserved program order | [`order::PRESERVED`] | `litmus/order/` |
//! | what may leave a store buffer | [`buffer::StoreBuffer::ready`] | `litmus/order/`, `litmus/movnt/` |
//! | loads see the own buffer first | [`buffer::StoreBuffer::forward`] | `litmus/forward/` |
//! | stores reach the cache one by one | [`storage::Execution::commit_store`] | `litmus/papers/` |
//! | clflush writes its line back at once | [`storage::Execution::commit_flush`] | `litmus/flush/` |
//! | clflushopt and clwb count at the next fence | [`storage::Execution::commit_flush_opt`] | `litmus/flush/` |
//! | fences complete pending write-backs | [`storage::Execution::fence`] | `litmus/flush/`, `litmus/rmw/` |
//! | a line survives as a prefix of its stores | [`survive::CrashStack`] | `litmus/papers/jaaru-*` |
//! | repeated crashes | [`survive::CrashStack::crash`] | `litmus/nested/` |
//! | what a run in program order hides | [`overtake`] | `litmus/movnt/`, `litmus/eadr/eadr-movnt*` |
//! | a non-temporal store begins its write-back | [`Kind::write_back`] | `litmus/movnt/` |
//! | when a store is certain | [`storage::LineHistory::certain`] | `litmus/flush/`, `litmus/eadr/` |
//! | which instruction makes something certain | [`storage::Execution::would_persist`] | `litmus/flush/`, `litmus/eadr/` |
//! | accesses split into lines and words | [`line::pieces`] | `crates/check/tests/bytes.rs` |
//! | what a power failure leaves of a line's cache | [`Domain`] | `litmus/eadr/`, `litmus/domains/` |
//!
//! [`replay`] checks a claimed execution against all of these.
//!
//! # Deviations, numbered
//!
//! 1. Stores to one *line* persist in the order they reached the cache (Jaaru, PSan). Px86 promises
//!    this only per location; real algorithms rely on the line.
//! 2. A load that only partly overlaps a buffered store takes the overlapping bytes from the buffer and
//!    the others from the cache. Hardware stalls instead, so this may show a mix that hardware does not.
//! 3. A non-temporal store is ordered with other stores and flushes of its thread only on the same line,
//!    and is certain to be persistent only once the next fence of its thread has completed. Hardware
//!    persists it as soon as it leaves the write-combining buffer; the model allows more.
//! 4. An access that crosses a line, or is wider than eight bytes, is several accesses, lowest address
//!    first. They may persist apart (true of hardware), and another thread may see them apart.

pub mod buffer;
pub mod domain;
pub mod event;
pub mod line;
pub mod order;
pub mod overtake;
pub mod replay;
pub mod robust;
pub mod storage;
pub mod survive;
pub mod work;

pub use domain::{Domain, Platform};
pub use event::{Event, Kind, Site, Thread};
pub use line::{LINE_BYTES, Line};
pub use order::{Class, Order};
