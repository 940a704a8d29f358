//! Unrolls a C program into the guarded events that `crashproof prove` reasons about.
//!
//! The input is a module as [`crashproof_frontend::bitcode`] reads it; the output is a [`Program`]: threads of events over
//! terms, and recovery. Paths are merged where they meet, so the result grows with the length of the
//! program and not with the number of its paths.
//!
//! Modules, from the bottom up; each imports only what stands before it:
//!
//! * data: `options`, `value`, `block_order`, `objects`, `memory`, `state`, `frame`, `records`, `machine`;
//! * what every operation needs: `symbols`, `emit`, `cases`, `globals`, `operands`, `allocation`;
//! * operations: `flush`, `access`, `arithmetic`, `atomics`, `bulk`, `effects`, `instructions`, `variadic`,
//!   `intrinsics`, `assembly`;
//! * functions known by name, a table of handlers per family: `claims`, `heap`, `persistent`, `process`, `jumps`, `threads`,
//!   `locks`, `transactions`, `pool`, all in `library`;
//! * `rounds`, `paths`: walk functions and dispatch calls; `driver`: begins and ends;
//! * [`deepen`]: asks the prover, with more and more rounds of loops.
//!
//! # What it takes for granted
//!
//! Ordered by what could make a proof hold where the program fails:
//!
//! 1. Objects of a pool lie as libpmemobj's default allocation classes place them ([`pool`]), persistent globals as
//!    [`globals`] says; the verdict says so where they could lie otherwise.
//! 2. Allocation never fails, and memory given back is not handed out again. Functions of the C library that
//!    write to a terminal or file do nothing the program could see.
//! 3. Compilers may reorder or merge plain accesses of the source; the events are those of the source. Use
//!    atomics or `volatile` where it matters, as the compiler expects anyway.
//! 4. A thread that waits in a loop which does nothing but read is a thread that waits: such rounds are not
//!    counted, and whether the wait ever ends is not asked, except of recovery and of a program without threads.
//! 5. Library functions are those of `models/`, written for this purpose.
//!
//! What is not understood ends its path with [`Action::Unknown`](crashproof_prove::program::Action) and the
//! reason; nothing is skipped silently.

mod access;
mod allocation;
mod arithmetic;
mod assembly;
mod atomics;
mod block_order;
mod bulk;
mod cases;
mod claims;
pub mod deepen;
mod driver;
mod effects;
mod emit;
mod flush;
mod frame;
mod globals;
mod heap;
mod instructions;
mod intrinsics;
mod invocation;
mod jumps;
mod library;
mod locks;
mod machine;
mod memory;
mod objects;
mod operands;
mod options;
mod paths;
mod persistent;
mod pool;
mod process;
mod records;
mod rounds;
mod state;
mod symbols;
mod threads;
mod transactions;
mod value;
mod variadic;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use crashproof_frontend::bitcode::Error as BitcodeError;
pub use crashproof_frontend::bitcode::ir::Module;
use crashproof_frontend::bitcode::{Compiler, MODEL_DIRECTORY, ir};
use crashproof_prove::program::Program;

pub use options::{Error, Flushes, LoopBound, LoopName, Options, Pool};

/// Compiles source files (or takes bitcode) and unrolls the program.
///
/// # Errors
///
/// If it does not compile, or cannot be started.
pub fn program(files: &[PathBuf], compiler: Vec<OsString>, options: &Options) -> Result<Program, Error> {
    unroll(&compile(files, compiler)?, options)
}

/// Compiles source files, and links what they need of the models.
///
/// # Errors
///
/// If it does not compile.
pub fn compile(files: &[PathBuf], compiler: Vec<OsString>) -> Result<Module, Error> {
    let io = |cause| BitcodeError::Io { path: PathBuf::from("temporary directory"), cause };
    compile_in(tempfile::tempdir().map_err(io)?.path(), files, compiler)
}

/// The same, with intermediate files in a directory that is there.
///
/// # Errors
///
/// If it does not compile.
pub fn compile_in(directory: &Path, files: &[PathBuf], compiler: Vec<OsString>) -> Result<Module, Error> {
    Ok(Compiler::find(compiler)?.module(files, library::MODELS, directory)?)
}

/// The symbol of the function that recovers; none if `main` does.
pub fn recovery(module: &Module) -> Option<&str> {
    driver::recovery(module).map(|id| module.function(id).name.as_str())
}

/// Does the program ask for values that are not the same in every run?
pub fn has_inputs(module: &Module) -> bool {
    let asks = ["crashproof_nondet_", "__VERIFIER_nondet_", "rand", "time", "clock", "gettimeofday"];
    let own = |function: &&ir::Function| !function.place.file.starts_with(MODEL_DIRECTORY);
    let called = module.functions.iter().filter(own);
    called.clone().any(|function| asks.iter().any(|name| function.name.starts_with(name)))
}

/// Unrolls a program.
///
/// # Errors
///
/// If it cannot be started.
pub fn unroll(module: &Module, options: &Options) -> Result<Program, Error> {
    driver::run(module, options)
}
