//! `crashproof prove`.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use crashproof_findings::Sources;
use crashproof_findings::config::Config;
use crashproof_ordersat::{Limits, SolverKind};
use crashproof_prove::encode::{CrashEncoding, Settings};
use crashproof_prove::findings::Question;
use crashproof_prove::program::{Program, Site};
use crashproof_prove::prove::{self, Options, Reason, Report, Verdict};
use crashproof_report::litmus_error;
use crashproof_symbolic::{Flushes, LoopBound, Pool};
use px86::Domain;

use crate::again::{self, Again};
use crate::exit::Exit;
use crate::output::Output;
use crate::progress::Doing;

#[derive(Args)]
pub(crate) struct Arguments {
    /// A litmus file, or the C sources (or LLVM bitcode) of one program.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Arguments for clang.
    #[arg(last = true, value_name = "CLANG-ARGS")]
    compiler: Vec<OsString>,

    /// Ask whether the program is robust: whether a crash leaves only what some moment of a run without one leaves.
    #[arg(long)]
    robust: bool,

    /// How often each loop goes round at most. Fewer rounds are tried first, and are enough if no loop needs more. If not
    /// given: 6, or up to 64 as long as that makes a small program.
    #[arg(long, value_name = "N")]
    unwind: Option<u32>,

    /// Another bound for one loop: file.c:LINE=N or function.INDEX=N; may be given more than once.
    #[arg(long, value_name = "LOOP=N")]
    unwindset: Vec<LoopBound>,

    /// How often a function may call itself.
    #[arg(long, value_name = "N", default_value_t = crashproof_symbolic::Options::default().recursion)]
    recursion: u32,

    /// An argument for the program's main; may be given more than once.
    #[arg(long = "run-arg", value_name = "ARG", allow_hyphen_values = true)]
    run_arguments: Vec<String>,

    /// What the program's standard input holds; without, reading it makes the answer UNKNOWN.
    #[arg(long, value_name = "FILE")]
    stdin: Option<PathBuf>,

    /// What there is of the program's libpmemobj pool before it starts.
    #[arg(long, value_enum, default_value_t = PoolContent::New)]
    pool: PoolContent,

    /// Put a clflush behind every access to persistent memory, as an experiment: the program is then robust.
    #[arg(long)]
    flush_every_access: bool,

    /// Leave out every flush, those of libraries too, as an experiment: are they needed?
    #[arg(long, conflicts_with = "flush_every_access")]
    no_flushes: bool,

    /// Give up programs of more events than this.
    #[arg(long, value_name = "N", default_value_t = crashproof_symbolic::Options::default().events)]
    max_events: usize,

    /// Assume that caches survive a power failure (eADR).
    #[arg(long)]
    eadr: bool,

    /// How a crash is encoded.
    #[arg(long, value_enum, default_value_t = Encoding::Full)]
    crash_encoding: Encoding,

    /// Who solves.
    #[arg(long, value_enum, default_value_t = SolverName::Batsat)]
    solver: SolverName,

    /// Solve in so many threads at the same time, where one would take long; all cores if not given.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    /// Give up after so many seconds.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,

    /// Give up when this many MiB of memory are held.
    #[arg(long, value_name = "MIB")]
    memory: Option<u64>,

    /// Write the event graph of a counterexample, in Graphviz's language, to this file.
    #[arg(long, value_name = "FILE")]
    dot: Option<PathBuf>,

    /// If a claim turns out false: build the sources with instrumentation as this program, and look for the same failure
    /// in its runs, as `crashproof check` does.
    #[arg(long, value_name = "PROGRAM")]
    replay: Option<PathBuf>,

    #[command(flatten)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PoolContent {
    /// Nothing: the program creates it.
    New,
    /// It was created, and its root object is zero.
    Created,
    /// It was created, and its root object may hold anything.
    Any,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Encoding {
    /// Partial executions: every event is executed or not.
    Partial,
    /// Full executions: only what survivors need is known to be executed.
    Full,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SolverName {
    /// In Rust.
    Batsat,
    /// In C++, if built in.
    Cadical,
}

pub(crate) fn run(arguments: &Arguments, config: &Config) -> io::Result<Exit> {
    let output = match arguments.output.prepare(config, false) {
        Ok(output) => output,
        Err(message) => {
            anstream::eprintln!("crashproof: {message}");
            return Ok(Exit::Usage);
        }
    };
    // The clock runs from here: unrolling is part of the work.
    let mut limits =
        Limits { memory: arguments.memory.map(|mib| mib.saturating_mul(1 << 20)), ..Limits::default() };
    if let Some(seconds) = arguments.timeout {
        limits = limits.with_timeout(Duration::from_secs(seconds));
    }
    let name = arguments.files[0].to_string_lossy();
    let settings = Settings {
        crash: match arguments.crash_encoding {
            Encoding::Partial => CrashEncoding::Partial,
            Encoding::Full => CrashEncoding::Full,
        },
        domain: if arguments.eadr { Domain::Eadr } else { Domain::Adr },
        solver: match arguments.solver {
            SolverName::Batsat => SolverKind::Batsat,
            SolverName::Cadical => SolverKind::Cadical,
        },
        ..Settings::default()
    };
    let jobs = arguments
        .jobs
        .map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let options = Options { settings, limits, helpers: jobs - 1, ..Options::default() };
    let question = if arguments.robust { Question::Robustness } else { Question::Invariants };
    let doing = Doing::start("compiling");
    let report = deepen(arguments, question, &options, &doing);
    drop(doing);
    let report = match report {
        Ok(report) => report,
        Err(Failure::TooMuch(reason)) => prove::Report::unknown(reason),
        Err(Failure::Input(message)) => {
            anstream::eprintln!("{message}");
            return Ok(Exit::Usage);
        }
        Err(Failure::Prover(error @ prove::Error::NoSolver(_))) => {
            anstream::eprintln!("crashproof: {error}");
            return Ok(Exit::Usage);
        }
        Err(Failure::Prover(error)) => {
            anstream::eprintln!(
                "crashproof: {name}: {error}\nThis is a bug in crashproof. Please report it."
            );
            return Ok(Exit::Internal);
        }
    };
    let answer = report;
    let mut report = crashproof_prove::findings::report(&name, question, &answer);
    if let (Some(program), Verdict::Violated(counterexample)) = (&arguments.replay, &answer.verdict)
        && let Some(finding) = report.findings.first_mut()
    {
        let again = if question == Question::Robustness {
            let sentence = "not replayed: only claims are, not robustness".to_owned();
            Again { sentence, token: String::new() }
        } else {
            let doing = Doing::start("replaying");
            let again = again::meet(
                &arguments.files,
                &arguments.compiler,
                &arguments.run_arguments,
                program,
                counterexample,
            );
            drop(doing);
            again
        };
        finding.evidence.push(again.sentence);
        finding.replay = again.token;
    }
    if let Some(file) = &arguments.dot
        && let Some(graph) = report.findings.iter().find_map(|finding| finding.graph.as_ref())
        && let Err(error) = std::fs::write(file, crashproof_report::dot::digraph(graph))
    {
        anstream::eprintln!("crashproof: cannot write {}: {error}", file.display());
        return Ok(Exit::Usage);
    }
    // Sources are read now, as they are.
    output.finish(report, &Sources::default())
}

enum Failure {
    Input(String),
    /// Nothing wrong with the input, but it cannot be reasoned about.
    TooMuch(Reason),
    Prover(prove::Error),
}

/// Proves with loops unrolled a little, and more only if that leaves the answer open.
///
/// A counterexample is one however little was unrolled; and if nothing that was cut off can be reached, a proof with few
/// rounds is a proof with many. So small bounds come first: they are usually enough, and much cheaper.
fn deepen(
    arguments: &Arguments,
    question: Question,
    options: &Options,
    doing: &Doing,
) -> Result<Report, Failure> {
    let file = &arguments.files[0];
    let ask = |program: &Program, tentative: bool| {
        doing.now(format!("proving {} events", program.events()));
        let options = Options { tentative, ..*options };
        match question {
            Question::Robustness => crashproof_prove::robust::prove(program, &options),
            Question::Invariants => prove::prove(program, &options),
        }
        .map_err(Failure::Prover)
    };
    if file.extension().is_some_and(|extension| extension == "litmus") {
        if arguments.files.len() > 1 {
            let message = "crashproof: a litmus file is a program of its own: give one at a time";
            return Err(Failure::Input(message.to_owned()));
        }
        return ask(&litmus_program(file).map_err(Failure::Input)?, false);
    }
    let wrong = |error: crashproof_symbolic::Error| match error {
        crashproof_symbolic::Error::Global { file, line, what } => {
            let site = Site { file, line, ..Site::default() };
            Failure::TooMuch(Reason { text: what, site: Some(site) })
        }
        crashproof_symbolic::Error::Bitcode(
            error @ crashproof_symbolic::BitcodeError::Unsupported { .. },
        ) => {
            let site = Site { file: file.to_string_lossy().into_owned(), ..Site::default() };
            Failure::TooMuch(Reason { text: error.to_string(), site: Some(site) })
        }
        error => Failure::Input(format!("crashproof: {}: {error}", file.display())),
    };
    let module = crashproof_symbolic::compile(&arguments.files, arguments.compiler.clone()).map_err(wrong)?;
    let stdin = match &arguments.stdin {
        Some(path) => Some(std::fs::read(path).map_err(|error| {
            Failure::Input(format!("crashproof: cannot read {}: {error}", path.display()))
        })?),
        None => None,
    };
    let bounds = |unwind: u32, approximate: bool| crashproof_symbolic::Options {
        unwind,
        loops: arguments.unwindset.clone(),
        recursion: arguments.recursion,
        events: arguments.max_events,
        arguments: arguments.run_arguments.clone(),
        stdin: stdin.clone(),
        pool: match arguments.pool {
            PoolContent::New => Pool::New,
            PoolContent::Created => Pool::Created,
            PoolContent::Any => Pool::Any,
        },
        flushes: match (arguments.flush_every_access, arguments.no_flushes) {
            (true, _) => Flushes::EveryAccess,
            (false, true) => Flushes::None,
            (false, false) => Flushes::AsWritten,
        },
        no_recovery: question == Question::Robustness,
        approximate,
        limits: options.limits,
    };
    let unroll = |unwind: u32, approximate: bool| {
        doing.now(format!("unrolling loops {unwind} times"));
        crashproof_symbolic::unroll(&module, &bounds(unwind, approximate)).map_err(wrong)
    };
    let is_open =
        |report: &Report| matches!(report.verdict, Verdict::Unknown(_)) && options.limits.hit().is_none();
    let mut unwind = FIRST_UNWIND.min(arguments.unwind.unwrap_or(FIRST_UNWIND));
    let report = loop {
        let program = unroll(unwind, false)?;
        let more = match arguments.unwind {
            Some(most) => (unwind < most).then_some(unwind + 1),
            None => more_rounds(unwind, program.events()),
        };
        // If no bound cut anything off, more rounds change nothing.
        let more = more.filter(|_| program.cut);
        let report = ask(&program, more.is_some())?;
        match more {
            Some(more) if is_open(&report) => unwind = more,
            _ => break report,
        }
    };
    if !is_open(&report) {
        return Ok(report);
    }
    // What holds whatever a value that is not modelled may be does hold.
    let program = unroll(unwind, true)?;
    let second = ask(&program, false)?;
    Ok(if matches!(second.verdict, Verdict::Holds) { second } else { report })
}

/// With so many rounds of each loop the prover begins.
const FIRST_UNWIND: u32 = 2;

/// How many rounds to try next, if nobody said how many there may be: some in any case, and more where they cost little.
fn more_rounds(unwind: u32, events: u64) -> Option<u32> {
    const SMALL: u64 = 300;
    let most = crashproof_symbolic::Options::default().unwind;
    match unwind {
        _ if unwind < most => Some(unwind + 1),
        ..64 if events <= SMALL => Some((unwind + unwind / 2).min(64)),
        _ => None,
    }
}

fn litmus_program(file: &Path) -> Result<Program, String> {
    let shown = file.to_string_lossy();
    let source =
        std::fs::read_to_string(file).map_err(|error| format!("crashproof: cannot read {shown}: {error}"))?;
    let test = crashproof_litmus::parse(&source).map_err(|error| litmus_error(&shown, &source, &error))?;
    Ok(crashproof_prove::litmus::program(&test))
}
