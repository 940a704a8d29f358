//! Unrolls a C program into the guarded events that `crashproof prove` reasons about.
//!
//! The input is a module as read by [`crashproof_frontend::bitcode`]; the output is a [`Program`]: threads of events
//! over terms, and recovery. Paths are merged where they meet, so the result grows with the length of the program
//! rather than the number of its paths.
//!
//! Modules, from the bottom up; each imports only those listed before it:
//!
//! * data: `options`, `value`, `block_order`, `objects`, `memory`, `state`, `frame`, `records`, `machine`;
//! * shared by all operations: `symbols`, `emit`, `cases`, `globals`, `operands`, `allocation`;
//! * operations: `flush`, `access`, `arithmetic`, `atomics`, `bulk`, `effects`, `instructions`, `variadic`,
//!   `intrinsics`, `assembly`;
//! * functions known by name, a table of handlers per family: `claims`, `heap`, `persistent`, `process`, `jumps`, `threads`,
//!   `locks`, `transactions`, `pool`, all in `library`;
//! * `rounds`, `paths`: walk functions and dispatch calls; `driver`: begins and ends;
//! * [`deepen`]: calls the prover with increasing loop bounds.
//!
//! # What it assumes
//!
//! Ordered by what could make a proof hold although the program fails:
//!
//! 1. Objects of a pool are placed as by libpmemobj's default allocation classes ([`pool`]), persistent globals as
//!    described in [`globals`]; the verdict says so if they could be placed differently.
//! 2. Allocation never fails, and freed memory is not reused. C library functions that write to a terminal or file have
//!    no effect visible to the program.
//! 3. Compilers may reorder or merge plain accesses; the events are those of the source. Use atomics or `volatile`
//!    where it matters, as the language requires anyway.
//! 4. A thread in a loop that only reads is treated as waiting: such iterations are not counted, and termination of the
//!    wait is not checked, except for recovery and for programs without threads.
//! 5. Library functions are those of `models/`, written for this purpose.
//!
//! Anything not understood ends its path with [`Action::Unknown`](crashproof_prove::program::Action) and the reason;
//! nothing is skipped silently.

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
use rustc_hash::FxHashSet;

pub use options::{Error, Flushes, LoopBound, LoopName, Options, Pool};

/// Compiles source files (or takes bitcode) and unrolls the program.
///
/// # Errors
///
/// If it does not compile, or has no entry point that can be executed.
pub fn program(files: &[PathBuf], compiler: Vec<OsString>, options: &Options) -> Result<Program, Error> {
    unroll(&compile(files, compiler)?, options)
}

/// Compiles source files, and links the models they need.
///
/// # Errors
///
/// If it does not compile.
pub fn compile(files: &[PathBuf], compiler: Vec<OsString>) -> Result<Module, Error> {
    let io = |cause| BitcodeError::Io { path: PathBuf::from("temporary directory"), cause };
    compile_in(tempfile::tempdir().map_err(io)?.path(), files, compiler)
}

/// The same, with intermediate files in an existing directory.
///
/// # Errors
///
/// If it does not compile.
pub fn compile_in(directory: &Path, files: &[PathBuf], compiler: Vec<OsString>) -> Result<Module, Error> {
    Ok(Compiler::find(compiler)?.module(files, library::MODELS, directory)?)
}

/// The symbol of the recovery function; `None` if `main` recovers.
pub fn recovery(module: &Module) -> Option<&str> {
    driver::recovery(module).map(|id| module.function(id).name.as_str())
}

/// Does the program use values that differ between runs?
pub fn has_inputs(module: &Module) -> bool {
    // Prefixes of names.
    let asks = [
        "crashproof_nondet_",
        "__VERIFIER_nondet_",
        "rand",
        "time",
        "clock",
        "gettimeofday",
        "getrandom",
        "getentropy",
        "drand48",
        "lrand48",
        "mrand48",
        "arc4random",
        "getpid",
        "gettid",
        "getenv",
        "secure_getenv",
        "_ZNSt13random_device",
        "_ZNSt6chrono",
        "llvm.x86.rdrand",
        "llvm.x86.rdtsc",
        "llvm.readcyclecounter",
    ];
    named(module, |name| asks.iter().any(|beginning| name.starts_with(beginning)))
}

/// May the program read its standard input? Reading from an unknown stream or descriptor may.
pub fn reads_stdin(module: &Module) -> bool {
    let reads = [
        "getchar",
        "getchar_unlocked",
        "scanf",
        "vscanf",
        "gets",
        "fgets",
        "fgetc",
        "getc",
        "fread",
        "fscanf",
        "getline",
        "getdelim",
        "__isoc99_scanf",
        "__isoc99_fscanf",
        "__isoc23_scanf",
        "__isoc23_fscanf",
    ];
    // Members and operators of std::istream.
    let streams = ["_ZNSi", "_ZStrsI", "_ZSt7getlineI"];
    let is_read = |id: &ir::FunctionId| ["read", "readv"].contains(&module.function(*id).name.as_str());
    let from_stdin = |instruction: &ir::Instruction| match &instruction.op {
        ir::Op::Call { callee: ir::Callee::Function(called), arguments, .. } => {
            let first = arguments.first();
            is_read(called)
                && matches!(first, Some(ir::Operand::Constant(ir::Constant::Int { value: 0, .. })))
        }
        _ => false,
    };
    let own = module.functions.iter().filter(|function| is_own(function));
    named(module, |name| reads.contains(&name) || streams.iter().any(|beginning| name.starts_with(beginning)))
        || own.flat_map(|function| &function.blocks).flat_map(|block| &block.instructions).any(from_stdin)
}

/// Does the program call such a function, or take its address? Calls made only by the models do not count.
fn named(module: &Module, is: impl Fn(&str) -> bool) -> bool {
    let called_by = |own: bool| {
        let functions = module.functions.iter().filter(move |function| is_own(function) == own);
        functions.flat_map(|function| &function.blocks).flat_map(|block| &block.instructions).filter_map(
            |instruction| match &instruction.op {
                ir::Op::Call { callee: ir::Callee::Function(called), .. } => Some(*called),
                _ => None,
            },
        )
    };
    let by_models: FxHashSet<ir::FunctionId> = called_by(false).collect();
    let others = (0..module.functions.len() as u32).map(ir::FunctionId).filter(|id| !by_models.contains(id));
    called_by(true)
        .chain(others.filter(|id| is_own(module.function(*id))))
        .any(|id| is(&module.function(id).name))
}

/// Does the program make any claim, in code that may or may not run?
pub fn claims_something(module: &Module) -> bool {
    driver::claims_something(module)
}

fn is_own(function: &ir::Function) -> bool {
    !function.place.file.starts_with(MODEL_DIRECTORY)
}

/// Unrolls a program.
///
/// # Errors
///
/// If it cannot be started.
pub fn unroll(module: &Module, options: &Options) -> Result<Program, Error> {
    driver::run(module, options)
}
