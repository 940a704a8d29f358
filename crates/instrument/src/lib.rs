//! An LLVM pass plugin that sends every access to persistent memory to the crashproof runtime.
//!
//! Load it with `clang -fpass-plugin=` or `ld.lld --load-pass-plugin=`; the drivers in `crashproof-cc` do.
//!
//! # What it does to a module
//!
//! * At the start of the pipeline, persistent globals are replaced by descriptors (`globals`), and
//!   small library functions of unoptimized code are marked for inlining (`library`).
//! * At its end, also without optimization, each access that may touch PM gets an inline check of its
//!   address: volatile memory is accessed by the original instruction, PM by a call into the runtime
//!   (`access`, `groups`, `bulk`, `lanes`). Running last keeps vectorisation and everything else the optimizer
//!   does: what is checked is the program that would have run.
//! * Flushes, fences and inline assembly become calls (`order`, `assembly`).
//! * A constructor registers the table of source places (`sites`).
//!
//! # What it does not see
//!
//! Ordered by what could make the checker miss something:
//!
//! 1. Code it did not compile: libraries, assembly files. The runtime intercepts libc's memory and string
//!    functions; for the rest there is strict mode.
//! 2. Pointers made from a local variable or a volatile global by arithmetic that leaves the object are
//!    taken to stay inside it (`provenance`), as LLVM's own optimizer does.
//! 3. What is not understood is named in a warning and makes the runtime say UNKNOWN once it runs: see
//!    `crashproof_frontend::meaning`, which lists what is understood.
//!
//! The interface to the runtime is `crashproof_protocol::abi` and `abi/crashproof_abi.h`.

mod access;
mod assembly;
mod bulk;
mod globals;
mod groups;
mod instrument;
mod lanes;
mod library;
mod nondeterminism;
mod order;
mod plugin;
mod provenance;
mod runtime;
mod sites;
mod warn;
