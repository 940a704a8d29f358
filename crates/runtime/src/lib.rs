//! The runtime inside a program that was built with crashproof.
//!
//! It performs the program's accesses to persistent memory and, under `crashproof check`, records them. The
//! checker drives it: see `crashproof_protocol` for the whole picture. Without the checker the program runs
//! as an ordinary one whose persistent memory is forgotten when it ends.
//!
//! | module | what it does |
//! |---|---|
//! | `session` | maps the shared memory, knows in which mode the process is |
//! | `server` | parks the program before its constructors and forks children on command |
//! | `access` | loads, stores, flushes and fences on PM: the hot path |
//! | `abi` | the functions that instrumented code calls |
//! | `sites` | numbers for places in the source |
//! | `globals` | places for persistent globals |
//! | `arena` | the functions of `crashproof.h` |
//! | `brackets` | loads that may not count |
//! | `parallel` | locked instructions when nobody schedules |
//! | `threads` | one thread at a time, by a seed; pthreads, store buffers |
//! | `pmem`, `pmem2` | libpmem and libpmem2 |
//! | `regions` | strands and epochs that the program marks |
//! | `process` | `fork`, `exec`, and how a process ends |
//! | `real` | the C library's functions, and how others stand before them |
//! | `raw` | memory operations that are surely nobody else's |
//! | `strict` | names what touches PM unseen |
//! | `unseen` | whether PM holds what was stored to it |
//! | `callers` | places in the program that have no site |
//! | `determinism` | process numbers and random bytes, the same in every run |
//! | `files` | files that are persistent memory |
//! | `heap` | `malloc` and its kin |
//! | `libc_format` | `printf` and its kin on PM |
//! | `libc_io` | input into PM and output from PM |
//! | `libc_untracked` | functions that make a verdict UNKNOWN on PM |
//! | `libc_wide` | wide strings on PM |
//! | `libc_memory` | `memcpy`, `strcpy`, `qsort` and their kin on PM |
//!
//! The code runs inside somebody else's process, before `main`, in signal handlers and after `fork`. It
//! allocates nothing on the hot path and never unwinds.

#![allow(static_mut_refs, reason = "one thread of the program runs at a time; hot paths cannot afford locks")]

mod abi;
mod access;
mod arena;
mod brackets;
mod callers;
mod determinism;
mod files;
mod globals;
mod heap;
mod libc_format;
mod libc_io;
mod libc_memory;
mod libc_untracked;
mod libc_wide;
mod parallel;
mod pmem;
mod pmem2;
mod process;
mod processors;
mod raw;
mod real;
mod regions;
mod server;
mod session;
mod sites;
mod strict;
mod threads;
mod unseen;
