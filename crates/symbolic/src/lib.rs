//! Unrolls a C program into the guarded events that `crashproof prove` reasons about.
//!
//! The input is a module as [`crashproof_frontend::bitcode`] reads it; the output is a [`Program`]: threads of events over
//! terms, and recovery. Paths are merged where they meet, so the result grows with the length of the
//! program and not with the number of its paths.
//!
//! * [`order`] sorts blocks so that everything that may lead to a block has run before it.
//! * [`state`], [`memory`], [`value`], [`objects`], [`placement`]: what is known on a path, and where things lie.
//! * [`machine`] begins and ends, [`paths`] walks functions, [`instructions`] does what they say to [`operands`],
//!   [`access`] reads and writes memory, [`emit`] makes events.
//! * [`library`], [`pool`], [`intrinsics`], [`threads`], [`locks`], [`bulk`], [`assembly`], [`transactions`], [`jumps`], [`variadic`], [`ending`]: calls that are
//!   known.
//!
//! # What it takes for granted
//!
//! Ordered by what could make a proof hold where the program fails:
//!
//! 1. Objects of a pool lie as libpmemobj's default allocation classes place them ([`pool`]), persistent globals as
//!    [`placement`] says; the verdict says so where they could lie otherwise.
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
mod assembly;
mod bulk;
mod emit;
mod ending;
mod instructions;
mod intrinsics;
mod jumps;
mod library;
mod locks;
mod machine;
mod memory;
mod objects;
mod operands;
mod order;
mod paths;
mod placement;
mod pool;
mod state;
mod threads;
mod transactions;
mod value;
mod variadic;

use std::ffi::OsString;
use std::path::PathBuf;

pub use crashproof_frontend::bitcode::Error as BitcodeError;
use crashproof_frontend::bitcode::{Compiler, ir};
use crashproof_ordersat::Limits;
use crashproof_prove::program::Program;

/// Which flushes a program has. Other than its own are experiments: with the most of them it is robust, and what holds with
/// none needs none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flushes {
    /// Its own.
    #[default]
    AsWritten,
    /// Its own, and a `clflush` behind every access to persistent memory.
    EveryAccess,
    /// None, not even those of libraries. Non-temporal stores are stores.
    None,
}

/// How far a program is unrolled.
#[derive(Clone, Debug)]
pub struct Options {
    /// How often a loop goes round, not counting rounds that it must take anyway.
    pub unwind: u32,
    /// Other bounds for some loops.
    pub loops: Vec<LoopBound>,
    /// How often a function may call itself, directly or not, not counting calls that it must make anyway.
    pub recursion: u32,
    /// How many events there may be.
    pub events: usize,
    /// What `main` is given after the name of the program.
    pub arguments: Vec<String>,
    /// What the program finds on its standard input; without, reading it is not known.
    pub stdin: Option<Vec<u8>>,
    /// What becomes of the pool of libpmemobj before the program starts.
    pub pool: Pool,
    /// Which flushes there are.
    pub flushes: Flushes,
    /// Is what recovery does left out? Robustness does not ask for it.
    pub no_recovery: bool,
    /// May a value that is not modelled be taken for any value? A proof then still is one, but a counterexample may not be.
    pub approximate: bool,
    /// When to give up.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            unwind: 6,
            loops: Vec::new(),
            recursion: 6,
            events: 20_000,
            arguments: Vec::new(),
            stdin: None,
            pool: Pool::New,
            flushes: Flushes::AsWritten,
            no_recovery: false,
            approximate: false,
            limits: Limits::default(),
        }
    }
}

/// What there is of a pool of libpmemobj before the program starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Pool {
    /// Nothing.
    #[default]
    New,
    /// It exists, and its root object is zero.
    Created,
    /// It exists, and its root object holds anything.
    Any,
}

/// A bound for one loop: `list.c:12=5` or `append.0=5`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopBound {
    /// The loop.
    pub which: LoopName,
    /// How often it goes round.
    pub bound: u32,
}

/// Names a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopName {
    /// By the line its head stands on.
    Line {
        /// The file, or the end of its path.
        file: String,
        /// The line.
        line: u32,
    },
    /// By its function, and its number in there, from 0.
    Index {
        /// The function.
        function: String,
        /// The number.
        index: usize,
    },
}

impl std::str::FromStr for LoopBound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no loop bound: write file.c:LINE=N or function.INDEX=N");
        let (name, bound) = text.rsplit_once('=').ok_or_else(wrong)?;
        let bound = bound.parse().map_err(|_| wrong())?;
        let which = if let Some((file, line)) = name.rsplit_once(':') {
            LoopName::Line { file: file.to_owned(), line: line.parse().map_err(|_| wrong())? }
        } else {
            let (function, index) = name.rsplit_once('.').ok_or_else(wrong)?;
            LoopName::Index { function: function.to_owned(), index: index.parse().map_err(|_| wrong())? }
        };
        Ok(LoopBound { which, bound })
    }
}

/// Why there is no program to prove anything about.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It did not compile or could not be read.
    #[error(transparent)]
    Bitcode(#[from] crashproof_frontend::bitcode::Error),
    /// There is no `main`.
    #[error("there is no function main")]
    NoMain,
    /// A loop bound that names no loop.
    #[error("no loop is {0}")]
    NoSuchLoop(String),
    /// A global that is too large, or whose first content is not understood.
    #[error("{file}:{line}: {what}")]
    Global {
        /// Where it is declared.
        file: String,
        /// The line.
        line: u32,
        /// What is wrong with it.
        what: String,
    },
}

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
pub fn compile(files: &[PathBuf], compiler: Vec<OsString>) -> Result<ir::Module, Error> {
    Ok(Compiler::find(compiler)?.module(files, library::MODELS)?)
}

/// Unrolls a program.
///
/// # Errors
///
/// If it cannot be started.
pub fn unroll(module: &ir::Module, options: &Options) -> Result<Program, Error> {
    machine::run(module, options)
}
