//! The runtime inside a program that was built with crashproof.
//!
//! It performs the program's accesses to persistent memory and, under `crashproof check`, records them. The
//! checker drives it: see `crashproof_protocol` for the whole picture. Without the checker the program runs
//! as an ordinary one whose persistent memory is forgotten when it ends.
//!
//! | module | what it does |
//! |---|---|
//! | `session` | maps the shared memory, knows in which mode the process is |
//! | `server` | parks the program before `main` and forks children on command |
//! | `access` | loads, stores, flushes and fences on PM: the hot path |
//! | `abi` | the functions that instrumented code calls |
//! | `sites` | numbers for places in the source |
//! | `globals` | places for persistent globals |
//! | `arena` | the functions of `crashproof.h` |
//! | `parallel` | locked instructions when nobody schedules |
//! | `threads` | one thread at a time, by a seed; pthreads, store buffers |
//!
//! The code runs inside somebody else's process, before `main`, in signal handlers and after `fork`. It
//! allocates nothing on the hot path and never unwinds.

#![allow(static_mut_refs, reason = "one thread of the program runs at a time; hot paths cannot afford locks")]

mod abi;
mod access;
mod arena;
mod globals;
mod parallel;
mod server;
mod session;
mod sites;
mod threads;
