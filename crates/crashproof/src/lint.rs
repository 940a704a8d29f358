//! `crashproof lint`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use crashproof_cc::{Language, Toolchain, driver};
use crashproof_findings::config::Config;
use crashproof_findings::{Sources, Verdict};
use crashproof_lint::{Bounds, Model, Options};
use crashproof_report::text::{self, Detail, Look};

use crate::exit::Exit;
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Arguments {
    /// C, C++ or Rust sources, bitcode (.bc, .ll) of LLVM 22, or a compile_commands.json. Several are one program.
    #[arg(value_name = "FILE", required_unless_present = "explain_api")]
    inputs: Vec<PathBuf>,

    /// For the compiler: -I, -D and the like.
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<OsString>,

    /// The persistency model the program is meant for.
    #[arg(long, value_enum, default_value_t = PersistencyModel::Epoch)]
    model: PersistencyModel,

    /// Report by the letter: fields instead of cache lines, also where a protocol explains the order.
    #[arg(long)]
    pedantic: bool,

    /// What functions of a library mean, beside the libraries that are known; may be given more than once.
    #[arg(long, value_name = "FILE")]
    api: Vec<PathBuf>,

    /// Print what is known of libraries, and nothing else.
    #[arg(long)]
    explain_api: bool,

    /// Walk so many rounds of a loop.
    #[arg(long, value_name = "N", default_value_t = Bounds::default().loops, value_parser = clap::value_parser!(u32).range(1..))]
    loops: u32,

    /// Walk so many rounds of recursion.
    #[arg(long, value_name = "N", default_value_t = Bounds::default().recursion, value_parser = clap::value_parser!(u32).range(1..))]
    recursion: u32,

    /// Walk so many of the paths that are open at one place of a function; with more, the function is UNKNOWN.
    #[arg(long, value_name = "N", default_value_t = Bounds::default().paths)]
    paths: usize,

    /// Take so many steps in a function, over all paths; with more, the function is UNKNOWN.
    #[arg(long, value_name = "N", default_value_t = Bounds::default().steps)]
    steps: usize,

    /// Run so many compilers at the same time; all cores if not given.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    #[command(flatten)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PersistencyModel {
    /// Every store is made durable before the next.
    Strict,
    /// What is stored between two barriers is durable in any order. What x86 does.
    Epoch,
    /// Like epochs, in strands that run at the same time.
    Strand,
}

pub(crate) fn run(arguments: &Arguments, config: &Config) -> io::Result<Exit> {
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
        arguments: arguments.arguments.clone(),
        apis: arguments.api.clone(),
        model: match arguments.model {
            PersistencyModel::Strict => Model::Strict,
            PersistencyModel::Epoch => Model::Epoch,
            PersistencyModel::Strand => Model::Strand,
        },
        pedantic: arguments.pedantic,
        ..Options::default()
    };
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
    match crashproof_lint::lint(&options) {
        // Sources are read now, as they are.
        Ok(report) => output.finish(report, &Sources::default()),
        Err(error) => Ok(usage(&error)),
    }
}

/// `crashproof cc --lint`: the modules that clang compiles are kept as they are before its optimiser, and
/// analysed as one program when it is done. Findings go to standard error and do not fail the build, unless
/// `--lint-deny` is given.
pub(crate) struct WhileCompiling {
    arguments: Vec<OsString>,
    model: Model,
    deny: bool,
}

impl WhileCompiling {
    /// Takes `--lint`, `--lint=MODEL` and `--lint-deny` out of a compiler's arguments, if any is there.
    pub(crate) fn asked_for(arguments: &[OsString]) -> Option<WhileCompiling> {
        let mut lint = WhileCompiling { arguments: Vec::new(), model: Model::default(), deny: false };
        let mut asked = false;
        for argument in arguments {
            match argument.to_str() {
                Some("--lint" | "--lint=epoch") => asked = true,
                Some("--lint=strict") => (asked, lint.model) = (true, Model::Strict),
                Some("--lint=strand") => (asked, lint.model) = (true, Model::Strand),
                Some("--lint-deny") => (asked, lint.deny) = (true, true),
                _ => lint.arguments.push(argument.clone()),
            }
        }
        asked.then_some(lint)
    }

    /// Compiles, then analyses.
    pub(crate) fn run(self, language: Language) -> ExitCode {
        match self.compile(language) {
            Ok(code) => code,
            Err(message) => {
                anstream::eprintln!("crashproof: error: {message}");
                Exit::Usage.into()
            }
        }
    }

    fn compile(self, language: Language) -> Result<ExitCode, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let toolchain = Toolchain::find().map_err(|error| error.to_string())?;
        let plan = driver::plan(language, &self.arguments, &toolchain).map_err(|error| error.to_string())?;
        plan.warnings.iter().for_each(|warning| anstream::eprintln!("crashproof: warning: {warning}"));
        let mut command = plan.command;
        let status = command
            .env("CRASHPROOF_LINT_BITCODE", directory.path())
            .status()
            .map_err(|error| format!("cannot run {}: {error}", command.get_program().to_string_lossy()))?;
        if !status.success() {
            return Ok(ExitCode::from(status.code().unwrap_or(1) as u8));
        }
        let mut inputs: Vec<PathBuf> = std::fs::read_dir(directory.path())
            .map_err(|error| error.to_string())?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .collect();
        inputs.sort();
        if inputs.is_empty() {
            // Linking, or nothing to compile.
            return Ok(ExitCode::SUCCESS);
        }
        let options = Options { inputs, model: self.model, jobs: 1, ..Options::default() };
        let mut report = crashproof_lint::lint(&options).map_err(|error| error.to_string())?;
        let sources = Sources::default();
        report.finish(&sources);
        // A single module seldom is the whole program: only what was found is worth a line.
        if !report.findings.is_empty() {
            let look = Look { detail: Detail::Usual, width: crate::output::width() };
            text::write(&mut anstream::stderr().lock(), &report, &sources, look)
                .map_err(|error| error.to_string())?;
        }
        let errors = report.verdict() == Verdict::Findings;
        Ok(if self.deny && errors { Exit::Findings.into() } else { ExitCode::SUCCESS })
    }
}

fn usage(error: &dyn std::error::Error) -> Exit {
    anstream::eprintln!("crashproof: {error}");
    Exit::Usage
}
