//! The runtime inside a program that was built with crashproof.
//!
//! It performs the program's accesses to persistent memory and, under `crashproof check`, records them. The checker
//! drives it: see `crashproof_protocol` for the whole picture. Without the checker the program runs as usual, except
//! that its persistent memory is lost when it ends.
//!
//! Imports go one way, from the last layer to the first:
//!
//! | layer | modules |
//! |---|---|
//! | plain data and logic, safe code | `random`, `text` (scanning, sorting), `conversions` (formats), `size_classes` (the heap), `file_table` |
//! | the process | `cell` (state of the running thread), `system`, `fixed` (mappings at addresses of the program's choice), `raw` (memory operations), `real` (the functions behind the interposed ones), `proc_self` (what the kernel says of it), `learned` (what children pass on to their parent), `prefault` (cheaper forks), `modules`, `callers`, `sites` (places in the source) |
//! | recording | `session` (shared memory, the trace), `processes` (those that the program forks), `recorder`, `shadow` (what recovery has touched), `protection` (who works for the runtime) |
//! | threads | `threads` |
//! | accesses | `access` (the hot path), `parallel` (without the checker), `assembly` |
//! | functions that programs call | `interpose` (the macros), `c_library`, `facts` (sizes and names of persistent files), `open_files`, `contents`, `files`, `mappings`, `pthreads`, `forking`, `pmem`, `pmem2`, `arena`, `annotations`, `globals` |
//! | code that was not rebuilt | `signals` (the program's handlers and ours), `strict` (names what was not rebuilt), `follow` |
//! | the end of a run | `faults` (where a signal ends it), `endless` (recognizes what never ends), `unseen` (does PM hold what was stored?), `process` |
//! | entry points | `abi` (called by instrumented code), `server` (parks the program, forks children) |
//!
//! The code runs inside the user's process, before `main`, in signal handlers and after `fork`. It does not allocate on
//! the hot path and never unwinds into the program.
//!
//! In tests no symbol is exported, so the test process itself is not interposed.

#![allow(
    unsafe_code,
    reason = "performs the program's accesses, interposes the C library; plain logic forbids it"
)]
#![deny(unsafe_op_in_unsafe_fn)]
#![warn(clippy::undocumented_unsafe_blocks)]
#![cfg_attr(
    test,
    allow(dead_code, non_snake_case, reason = "in tests nothing is exported, or named by others")
)]

mod abi;
mod access;
mod annotations;
mod arena;
mod assembly;
mod c_library;
mod callers;
mod cell;
mod clone;
mod contents;
mod conversions;
mod direct_end;
mod directories;
mod endless;
mod facts;
mod faults;
mod file_table;
mod files;
mod fixed;
mod follow;
mod forking;
mod globals;
mod interpose;
mod learned;
mod mapped;
mod mappings;
mod modules;
mod open_files;
mod own_memory;
mod parallel;
mod pmem;
mod pmem2;
mod prefault;
mod proc_self;
mod process;
mod processes;
mod protection;
mod pthreads;
mod random;
mod raw;
mod real;
mod recorder;
mod server;
mod session;
mod settled;
mod shadow;
mod signals;
mod sites;
mod size_classes;
mod stacks;
mod strict;
mod system;
mod text;
mod threads;
mod unseen;
