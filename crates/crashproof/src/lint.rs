//! `crashproof lint`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use crashproof_findings::Sources;
use crashproof_findings::config::Config;
use crashproof_lint::{Bounds, Model, Options};

use crate::exit::Exit;
use crate::output::Output;
use crate::progress::Doing;
use crate::settings::Compiler;
use crate::signals::Scratch;

#[derive(Args)]
pub(crate) struct Arguments {
    /// C, C++ or Rust sources, bitcode (.bc, .ll) of LLVM 22, or a compile_commands.json. Several are one program.
    #[arg(value_name = "FILE", required_unless_present = "explain_api")]
    inputs: Vec<PathBuf>,

    /// For the compiler: -I, -D and the like.
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<OsString>,

    #[command(flatten)]
    compiler: Compiler,

    /// The persistency model the program is written for
    #[arg(long, value_enum, default_value_t = PersistencyModel::Epoch)]
    model: PersistencyModel,

    /// Apply the rules to the letter: fields instead of cache lines, also where a protocol explains the order
    #[arg(long)]
    pedantic: bool,

    /// Description of a library, beside those that are built in; may be given more than once
    #[arg(long, value_name = "FILE")]
    api: Vec<PathBuf>,

    /// Function that returns persistent memory; may be given more than once
    #[arg(long, value_name = "FN")]
    pm_alloc: Vec<String>,

    /// Treat the heap as persistent memory, as libvmmalloc does
    #[arg(long)]
    pm_heap: bool,

    /// Print what is known of libraries, and nothing else
    #[arg(long)]
    explain_api: bool,

    /// Rounds of a loop that are followed
    #[arg(long, value_name = "N", default_value_t = Bounds::default().loops, value_parser = clap::value_parser!(u32).range(1..))]
    loops: u32,

    /// Rounds of recursion that are followed
    #[arg(long, value_name = "N", default_value_t = Bounds::default().recursion, value_parser = clap::value_parser!(u32).range(1..))]
    recursion: u32,

    /// Paths that may be open at one place of a function; with more, the function is UNKNOWN
    #[arg(long, value_name = "N", default_value_t = Bounds::default().paths)]
    paths: usize,

    /// Steps per function, over all paths; with more, the function is UNKNOWN
    #[arg(long, value_name = "N", default_value_t = Bounds::default().steps)]
    steps: usize,

    /// Number of compilers that run in parallel [default: all cores]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    #[command(flatten)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PersistencyModel {
    /// Every store is durable before the next
    Strict,
    /// Stores between two barriers become durable in any order, as on x86
    Epoch,
    /// Epochs, in strands that run at the same time
    Strand,
}

/// Its models describe machines without eADR. What is clean there is also clean with eADR; the rest may be.
const EADR: &str = "lint assumes that caches are lost in a crash, although model.eadr is set: flushes that it misses may \
                    not be needed";

pub(crate) fn run(arguments: &Arguments, config: &Config, trust: bool) -> io::Result<Exit> {
    if arguments.explain_api {
        return match crashproof_lint::apis(&arguments.api) {
            Ok(apis) => {
                write!(anstream::stdout().lock(), "{}", apis.explain())?;
                Ok(Exit::Clean)
            }
            Err(error) => Ok(usage(&error)),
        };
    }
    let mut options = Options {
        inputs: arguments.inputs.clone(),
        arguments: [arguments.compiler.arguments(), arguments.arguments.clone()].concat(),
        apis: arguments.api.clone(),
        trust,
        allocators: arguments.pm_alloc.clone(),
        model: match arguments.model {
            PersistencyModel::Strict => Model::Strict,
            PersistencyModel::Epoch => Model::Epoch,
            PersistencyModel::Strand => Model::Strand,
        },
        pedantic: arguments.pedantic,
        ..Options::default()
    };
    if arguments.pm_heap || config.pm.heap.unwrap_or(false) {
        options.allocators.extend(crashproof_lint::HEAP.map(str::to_owned));
    }
    options.bounds.loops = arguments.loops;
    options.bounds.recursion = arguments.recursion;
    options.bounds.paths = arguments.paths;
    options.bounds.steps = arguments.steps;
    options.jobs = arguments
        .jobs
        .map_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get), usize::from);
    let output = match arguments.output.prepare(config, config.lint.deny_warnings.unwrap_or(false)) {
        Ok(output) => output,
        Err(message) => {
            anstream::eprintln!("crashproof: {message}");
            return Ok(Exit::Usage);
        }
    };
    let _scratch = Scratch::for_process()?;
    let doing = Doing::start("compiling and analyzing");
    let report = crashproof_lint::lint(&options);
    drop(doing);
    match report {
        // Sources are read now, in their current state.
        Ok(mut report) => {
            if config.model.eadr.unwrap_or(false) {
                report.notes.push(EADR.into());
            }
            output.finish(report, &Sources::default())
        }
        Err(error) => Ok(usage(&error)),
    }
}

fn usage(error: &dyn std::error::Error) -> Exit {
    anstream::eprintln!("crashproof: {error}");
    Exit::Usage
}
