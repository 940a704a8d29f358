//! `crashproof prove`.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use crashproof_findings::config::Config;
use crashproof_findings::{Finding, Sources};
use crashproof_ordersat::{Limits, SolverKind};
use crashproof_prove::encode::{CrashEncoding, Settings};
use crashproof_prove::program::Program;
use crashproof_prove::prove::{self, Options, Report, Verdict};
use crashproof_prove::question::Question;
use crashproof_prove::story::Counterexample;
use crashproof_symbolic::deepen::{self, Progress, Request};
use crashproof_symbolic::{Flushes, LoopBound, Module, Pool};

use crate::exit::Exit;
use crate::limits;
use crate::litmus::error_text;
use crate::output::Output;
use crate::progress::Doing;
use crate::replay_counterexample::{Met, Replay, Replayed};
use crate::settings::{Compiler, Machine, domain, platform};
use crate::signals::Scratch;

#[derive(Args)]
pub(crate) struct Arguments {
    /// A litmus file, or the C sources (or LLVM bitcode) of one program.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Arguments for clang.
    #[arg(last = true, value_name = "CLANG-ARGS")]
    clang_arguments: Vec<OsString>,

    #[command(flatten)]
    compiler: Compiler,

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

    #[command(flatten)]
    pub(crate) machine: Machine,

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

    /// Leave the program that a counterexample is replayed with here.
    #[arg(long, value_name = "PROGRAM")]
    replay: Option<PathBuf>,

    /// Report a counterexample without replaying it in runs of the program.
    #[arg(long, conflicts_with = "replay")]
    no_replay: bool,

    /// Accept a proof about nothing: no persistent memory, nothing stored there, no claim that is ever reached.
    #[arg(long)]
    allow_vacuous: bool,

    /// How many crashes in a row: from 2 on, recovery itself is crashed too.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=4))]
    crashes: u8,

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

impl Arguments {
    /// How the prover goes about it. The clock runs from here: unrolling is part of the work.
    fn prover(&self, config: &Config) -> Options {
        let mut limits =
            Limits { memory: self.memory.map(|mib| mib.saturating_mul(1 << 20)), ..Limits::default() };
        if let Some(seconds) = self.timeout {
            limits = limits.with_timeout(Duration::from_secs(seconds));
        }
        let settings = Settings {
            crash: match self.crash_encoding {
                Encoding::Partial => CrashEncoding::Partial,
                Encoding::Full => CrashEncoding::Full,
            },
            domain: domain(config),
            solver: match self.solver {
                SolverName::Batsat => SolverKind::Batsat,
                SolverName::Cadical => SolverKind::Cadical,
            },
            crashes: usize::from(self.crashes),
            ..Settings::default()
        };
        let jobs = self
            .jobs
            .map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
        Options { settings, limits, helpers: jobs - 1, ..Options::default() }
    }

    /// How a program is unrolled, and what it is given.
    fn unrolling(&self) -> Result<crashproof_symbolic::Options, Failure> {
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|error| {
                Failure::Input(format!("crashproof: cannot read {}: {error}", path.display()))
            })
        };
        Ok(crashproof_symbolic::Options {
            loops: self.unwindset.clone(),
            recursion: self.recursion,
            events: self.max_events,
            arguments: self.run_arguments.clone(),
            stdin: self.stdin.as_ref().map(read).transpose()?,
            pool: match self.pool {
                PoolContent::New => Pool::New,
                PoolContent::Created => Pool::Created,
                PoolContent::Any => Pool::Any,
            },
            flushes: match (self.flush_every_access, self.no_flushes) {
                (true, _) => Flushes::EveryAccess,
                (false, true) => Flushes::None,
                (false, false) => Flushes::AsWritten,
            },
            ..crashproof_symbolic::Options::default()
        })
    }

    fn compiler_arguments(&self) -> Vec<OsString> {
        [self.compiler.arguments(), self.clang_arguments.clone()].concat()
    }
}

pub(crate) fn run(arguments: &Arguments, config: &Config) -> io::Result<Exit> {
    let output = match arguments.output.prepare(config, false) {
        Ok(output) => output,
        Err(message) => {
            anstream::eprintln!("crashproof: {message}");
            return Ok(Exit::Usage);
        }
    };
    let name = arguments.files[0].to_string_lossy();
    let prover = arguments.prover(config);
    let limits = prover.limits;
    let question = if arguments.robust { Question::Robustness } else { Question::Invariants };
    let _scratch = Scratch::for_process()?;
    let doing = Doing::start("compiling");
    // What to say if nobody comes back in time.
    let last_word = |stop| {
        let answer = Report::unknown(prove::stopped(stop));
        let report = crashproof_prove::findings::report(&name, question, &answer);
        output.finish(report, &Sources::default())
    };
    let answer = limits::within(&limits, last_word, || {
        answer(arguments, question, prover, &doing)
            .map(|(answer, module)| confirmed(arguments, config, answer, module.as_ref(), &limits, &doing))
    })?;
    drop(doing);
    let (answer, replayed) = match answer {
        Ok(answer) => answer,
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
    let mut report = crashproof_prove::findings::report(&name, question, &answer);
    if arguments.allow_vacuous && matches!(answer.verdict, Verdict::Holds) {
        report.incomplete.clear();
    }
    if let (Some(met), Some(finding)) = (replayed, report.findings.first_mut()) {
        if let Some(told) = met.told {
            retell(finding, *told);
        }
        // That it was replayed is taken for granted; how is for those who ask.
        if arguments.replay.is_some() {
            finding.evidence.push(met.sentence);
            // Without the program there is nothing to replay.
            finding.replay = met.token;
        }
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

/// Tells a counterexample as `check` does, which met the same failure in a run of the program: in the program's own names,
/// with the cause and what to do. Where and what is false is the prover's word, and so is the event graph.
fn retell(finding: &mut Finding, told: Finding) {
    finding.message = format!("{}: {}", finding.message, told.message);
    finding.related = told.related;
    finding.cause = told.cause;
    finding.fix = told.fix;
    finding.failed_at = told.failed_at;
    finding.output = told.output;
    finding.story = told.story;
    finding.evidence.extend(told.evidence);
}

/// The answer, with its counterexample replayed in runs of the program: one that no run meets is not reported as one, and
/// one that rests on values that are not modelled is, if a run meets it.
fn confirmed(
    arguments: &Arguments,
    config: &Config,
    answer: Report,
    module: Option<&Module>,
    limits: &Limits,
    doing: &Doing,
) -> (Report, Option<Met>) {
    let Some(module) = module.filter(|_| !arguments.no_replay && !arguments.robust) else {
        let why = "not replayed: only claims are, not robustness".to_owned();
        return (
            answer,
            arguments.robust.then_some(Met { sentence: why, token: String::new(), exact: false, told: None }),
        );
    };
    let replay = |counterexample: &Counterexample| {
        doing.now("replaying the counterexample");
        replay(arguments, config, module, limits, counterexample)
    };
    match (&answer.verdict, &answer.candidate) {
        (Verdict::Violated(counterexample), _) => match replay(counterexample) {
            Replayed::Met(met) => (answer, Some(met)),
            Replayed::NotTried(why) => {
                let sentence = format!("not replayed: {why}");
                (answer, Some(Met { sentence, token: String::new(), exact: false, told: None }))
            }
            Replayed::NotMet(runs) => {
                let text = format!(
                    "the prover finds a counterexample ({}) that no run of the program meets: {runs}",
                    counterexample.message
                );
                let reason = prove::Reason { text, site: Some(counterexample.site.clone()) };
                (Report { verdict: Verdict::Unknown(vec![reason]), ..answer }, None)
            }
        },
        (_, Some(candidate)) => match replay(candidate) {
            Replayed::Met(met) if met.exact => {
                let verdict = Verdict::Violated(candidate.clone());
                (Report { verdict, candidate: None, ..answer }, Some(met))
            }
            _ => (answer, None),
        },
        _ => (answer, None),
    }
}

/// Looks for the failure of a counterexample in runs of the program.
fn replay(
    arguments: &Arguments,
    config: &Config,
    module: &Module,
    limits: &Limits,
    counterexample: &Counterexample,
) -> Replayed {
    // What a run cannot be made to do.
    let not_carried_over = match arguments {
        Arguments { no_flushes: true, .. } => {
            Some("a run cannot leave out the program's flushes (--no-flushes)")
        }
        Arguments { flush_every_access: true, .. } => {
            Some("a run cannot flush after every access (--flush-every-access)")
        }
        Arguments { pool: PoolContent::Created | PoolContent::Any, .. } => {
            Some("a run cannot be given a pool that exists before the program starts (--pool)")
        }
        _ => None,
    };
    match not_carried_over {
        Some(why) => Replayed::NotTried(why.to_owned()),
        None => Replay {
            sources: &arguments.files,
            compiler: &arguments.compiler_arguments(),
            arguments: &arguments.run_arguments,
            stdin: arguments.stdin.as_deref(),
            platform: platform(config),
            crashes: usize::from(arguments.crashes),
            recovery: crashproof_symbolic::recovery(module),
            has_inputs: crashproof_symbolic::has_inputs(module),
            deadline: limits.deadline,
            program: arguments.replay.as_deref(),
        }
        .run(counterexample),
    }
}

enum Failure {
    Input(String),
    Prover(prove::Error),
}

/// The answer about the program that the arguments name.
fn answer(
    arguments: &Arguments,
    question: Question,
    prover: Options,
    doing: &Doing,
) -> Result<(Report, Option<Module>), Failure> {
    let file = &arguments.files[0];
    if file.extension().is_some_and(|extension| extension == "litmus") {
        if arguments.files.len() > 1 {
            let message = "crashproof: a litmus file is a program of its own: give one at a time";
            return Err(Failure::Input(message.to_owned()));
        }
        let program = litmus_program(file).map_err(Failure::Input)?;
        doing.now(format!("proving {} events", program.events()));
        let answer = question.ask(&program, &prover).map_err(Failure::Prover)?;
        return Ok((answer, None));
    }
    // Nothing is wrong with some inputs, but they cannot be reasoned about.
    let no_program = |error: crashproof_symbolic::Error| match error.reason(file) {
        Some(reason) => Ok((Report::unknown(reason), None)),
        None => Err(Failure::Input(format!("crashproof: {}: {error}", file.display()))),
    };
    let module = match compile(arguments) {
        Ok(module) => module,
        Err(error) => return no_program(error),
    };
    let request = Request { question, prover, unwind: arguments.unwind };
    let progress = &mut |progress| match progress {
        Progress::Unrolling(rounds) => doing.now(format!("unrolling loops {rounds} times")),
        Progress::Proving(events) => doing.now(format!("proving {events} events")),
    };
    match deepen::prove(&module, &arguments.unrolling()?, &request, progress) {
        Ok(report) => Ok((report, Some(module))),
        Err(deepen::Failure::Program(error)) => no_program(error),
        Err(deepen::Failure::Prover(error)) => Err(Failure::Prover(error)),
    }
}

/// Compiles the sources, in a directory that does not outlive the process.
fn compile(arguments: &Arguments) -> Result<Module, crashproof_symbolic::Error> {
    let scratch = Scratch::new().map_err(|cause| crashproof_symbolic::BitcodeError::Io {
        path: PathBuf::from("temporary directory"),
        cause,
    })?;
    crashproof_symbolic::compile_in(scratch.path(), &arguments.files, arguments.compiler_arguments())
}

fn litmus_program(file: &Path) -> Result<Program, String> {
    let shown = file.to_string_lossy();
    let source =
        std::fs::read_to_string(file).map_err(|error| format!("crashproof: cannot read {shown}: {error}"))?;
    let test = crashproof_litmus::parse(&source).map_err(|error| error_text(&shown, &source, &error))?;
    Ok(crashproof_prove::litmus::program(&test))
}
