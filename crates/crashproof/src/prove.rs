//! `crashproof prove`.

use std::ffi::OsString;
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use crashproof_check::Monitor;
use crashproof_findings::config::Config;
use crashproof_findings::{Finding, Sources};
use crashproof_ordersat::solver::Stop;
use crashproof_ordersat::{Limits, SolverKind};
use crashproof_prove::encode::{CrashEncoding, Settings};
use crashproof_prove::program::Program;
use crashproof_prove::prove::{self, Options, Report, Verdict};
use crashproof_prove::question::Question;
use crashproof_prove::story::Counterexample;
use crashproof_symbolic::deepen::{self, Progress, Request};
use crashproof_symbolic::{Flushes, LoopBound, Module, Pool};

use crate::exit::Exit;
use crate::explore_runs::{Explored, Holds};
use crate::limits;
use crate::litmus::error_text;
use crate::output::Output;
use crate::progress::Doing;
use crate::replay_counterexample::{Met, Replay, Replayed};
use crate::settings::{Compiler, Machine, domain, platform};
use crate::signals::Scratch;

#[derive(Args)]
pub(crate) struct Arguments {
    /// A litmus file, or the C or C++ sources (or LLVM bitcode) of one program
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Arguments for clang, after `--`
    #[arg(last = true, value_name = "CLANG-ARGS")]
    clang_arguments: Vec<OsString>,

    #[command(flatten)]
    compiler: Compiler,

    /// Prove that the program is robust instead of its assertions
    ///
    /// That is: a crash leaves only what some moment of a run without one leaves.
    #[arg(long, help_heading = "What to prove")]
    robust: bool,

    /// Maximum rounds of each loop [default: 6, up to 64 in a small program]
    ///
    /// Fewer rounds are tried first, and are enough if no loop needs more.
    #[arg(long, value_name = "N", help_heading = "How far to go")]
    unwind: Option<u32>,

    /// Maximum rounds of one loop, as file.c:LINE=N or function.INDEX=N; may be repeated
    #[arg(long, value_name = "LOOP=N", help_heading = "How far to go")]
    unwindset: Vec<LoopBound>,

    /// Maximum depth of recursion
    #[arg(long, value_name = "N", help_heading = "How far to go", default_value_t = crashproof_symbolic::Options::default().recursion)]
    recursion: u32,

    /// Argument for the program's main; may be repeated
    #[arg(long = "run-arg", help_heading = "What to prove", value_name = "ARG", allow_hyphen_values = true)]
    run_arguments: Vec<String>,

    /// Give the program FILE as standard input; without it, reading makes the verdict UNKNOWN
    #[arg(long, value_name = "FILE", help_heading = "What to prove")]
    stdin: Option<PathBuf>,

    /// What there is of a libpmemobj pool before the program starts
    #[arg(long, value_enum, help_heading = "What to prove", default_value_t = PoolContent::New)]
    pool: PoolContent,

    /// Flush after every access to persistent memory, as an experiment
    #[arg(long, help_heading = "Experiments")]
    flush_every_access: bool,

    /// Leave out every flush, as an experiment: are they needed?
    #[arg(long, help_heading = "Experiments", conflicts_with = "flush_every_access")]
    no_flushes: bool,

    /// Maximum number of events of the unrolled program
    #[arg(long, value_name = "N", help_heading = "How far to go", default_value_t = crashproof_symbolic::Options::default().events)]
    max_events: usize,

    #[command(flatten)]
    pub(crate) machine: Machine,

    /// How the formula describes a crash; for comparing solvers
    #[arg(long, value_enum, help_heading = "Experiments", default_value_t = Encoding::Full)]
    crash_encoding: Encoding,

    /// Solver to use
    #[arg(long, value_enum, help_heading = "Experiments", default_value_t = SolverName::Batsat)]
    solver: SolverName,

    /// Number of solvers that run in parallel [default: all cores]
    #[arg(short, long, value_name = "N", help_heading = "How far to go", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    /// Maximum time, in seconds
    #[arg(long, value_name = "SECONDS", help_heading = "How far to go")]
    timeout: Option<u64>,

    /// Maximum memory, in MiB
    #[arg(long, value_name = "MIB", help_heading = "How far to go")]
    memory: Option<u64>,

    /// Write the event graph of a counterexample to FILE, for Graphviz
    #[arg(long, value_name = "FILE", help_heading = "Report")]
    dot: Option<PathBuf>,

    /// Keep the program that replays a counterexample as PROGRAM
    #[arg(long, value_name = "PROGRAM", help_heading = "Report")]
    replay: Option<PathBuf>,

    /// Report counterexamples without replaying them in runs of the program
    #[arg(long, conflicts_with = "replay", help_heading = "How far to go")]
    no_replay: bool,

    /// Do not explore runs of the program where the prover has no answer
    #[arg(long, help_heading = "How far to go")]
    no_runs: bool,

    /// Accept a proof about nothing: no persistent store, or no claim that is ever reached
    #[arg(long, help_heading = "What to prove")]
    allow_vacuous: bool,

    /// Maximum number of crashes per run; from 2 on, recovery is crashed too
    #[arg(long, value_name = "N", help_heading = "How far to go", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=4))]
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
    /// The prover's options. The clock starts here: unrolling is part of the work.
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

    /// The options for unrolling, and the program's inputs.
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
    // What to report if time runs out.
    let last_word = |stop| {
        let answer = Report::unknown(prove::stopped(stop));
        let report = crashproof_prove::findings::report(&name, question, &answer);
        output.finish(report, &Sources::default())
    };
    let answer = limits::within(&limits, last_word, || settle(arguments, config, question, prover, &doing))?;
    drop(doing);
    let (answer, replayed) = match answer {
        Ok(Settled::ByProof(answer, replayed)) => (*answer, replayed),
        Ok(Settled::ByRuns(explored)) => {
            return output.finish(report_of_runs(&name, explored), &Sources::default());
        }
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
        Err(Failure::Panicked) => {
            anstream::eprintln!(
                "crashproof: {name}: the prover ended without an answer\nThis is a bug in crashproof. Please report it."
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
        // That a claim's was replayed is taken for granted; how is for those who ask.
        let asked = arguments.replay.is_some();
        if asked || !arguments.robust && met.sentence.starts_with(NOT_REPLAYED) {
            finding.evidence.push(met.sentence);
        }
        // Without the program there is nothing to replay.
        if asked {
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
    // Sources are read now, in their current state.
    output.finish(report, &Sources::default())
}

/// The report if runs of the program gave the answer.
fn report_of_runs(name: &str, explored: Explored) -> crashproof_findings::Report {
    let mut report = crashproof_findings::Report::new("prove", name);
    match explored {
        Explored::Fails(finding) => {
            report.summary = "its claims in every schedule and crash, by running the program".to_owned();
            report.findings.push(*finding);
        }
        Explored::Holds(Holds { explored, assumptions }) => {
            report.summary = match assumptions.as_slice() {
                [] => explored,
                _ => format!("{explored}; assuming {}", assumptions.join(", and ")),
            };
            report.bounds.insert("assumptions".to_owned(), assumptions.into());
        }
        Explored::Open(_) => {}
    }
    report.bounds.insert("incomplete".to_owned(), report.incomplete.clone().into());
    report.bounds.insert("by_runs".to_owned(), true.into());
    report
}

/// Rewrites a counterexample like `check`'s report of the same failure in a run: in the program's own names, with cause
/// and advice. The place, the failed claim and the event graph remain the prover's.
fn retell(finding: &mut Finding, told: Finding) {
    let claim = std::mem::replace(&mut finding.message, told.message);
    finding.evidence.insert(0, claim);
    finding.related = told.related;
    finding.cause = told.cause;
    finding.fix = told.fix;
    finding.failed_at = told.failed_at;
    finding.output = told.output;
    finding.story = told.story;
    finding.evidence.extend(told.evidence);
}

/// The source of the answer.
enum Settled {
    /// The prover, with the result of replaying its counterexample.
    ByProof(Box<Report>, Option<Met>),
    /// Runs of the program.
    ByRuns(Explored),
}

impl Settled {
    fn by_proof(answer: Report, replayed: Option<Met>) -> Settled {
        Settled::ByProof(Box::new(answer), replayed)
    }

    /// Adds to an unknown answer why runs do not give one either.
    fn with_note(self, why: Option<String>) -> Settled {
        match (self, why) {
            (Settled::ByProof(mut answer, met), Some(why)) => {
                if let Verdict::Unknown(reasons) = &mut answer.verdict {
                    let text = format!("running the program does not settle it either: {why}");
                    reasons.push(prove::Reason { text, site: None });
                }
                Settled::ByProof(answer, met)
            }
            (settled, _) => settled,
        }
    }
}

/// How what is said of a counterexample begins that was reported without a run that met it.
const NOT_REPLAYED: &str = "not replayed";

/// The prover has so long for itself; then runs are explored beside it.
const HEAD_START: Duration = Duration::from_secs(20);

/// Set when the prover need not continue.
static ENOUGH: AtomicBool = AtomicBool::new(false);

/// What must be known about a program to run it as the prover follows it.
struct About {
    recovery: Option<String>,
    has_inputs: bool,
    claims: bool,
}

/// Answers the question about the program given by the arguments: the prover's answer, or that of runs if it has none
/// or takes long.
fn settle(
    arguments: &Arguments,
    config: &Config,
    question: Question,
    mut prover: Options,
    doing: &Doing,
) -> Result<Settled, Failure> {
    let file = &arguments.files[0];
    if file.extension().is_some_and(|extension| extension == "litmus") {
        return litmus(arguments, question, &prover, doing).map(|answer| Settled::by_proof(answer, None));
    }
    let limits = prover.limits;
    prover.limits.interrupt = Some(&ENOUGH);
    let task = Task {
        files: arguments.files.clone(),
        compiler: arguments.compiler_arguments(),
        unrolling: arguments.unrolling()?,
        request: Request { question, prover, unwind: arguments.unwind },
    };
    let monitor = Arc::<Monitor>::default();
    let (tell, about) = channel();
    let (done, answers) = channel();
    let (say, ends) = (doing.teller(), Arc::clone(&monitor));
    // Detached, because once runs have the answer, it may be stuck in something that cannot be interrupted.
    let thread = std::thread::Builder::new().stack_size(limits::STACK).spawn(move || {
        let answer = task.run(&tell, &say);
        if answer.as_ref().is_ok_and(|report| !matches!(report.verdict, Verdict::Unknown(_))) {
            ends.cancel();
        }
        // The receiver is gone if runs have given the answer.
        let _ = done.send(answer);
    });
    let no_thread = |error| Failure::Input(format!("crashproof: cannot start the prover: {error}"));
    let thread = thread.map_err(no_thread)?;
    let start = Instant::now();
    let wait = |answers: &Receiver<_>| match limits.deadline {
        None => answers.recv().unwrap_or(Err(Failure::Panicked)),
        // Stopping takes a moment.
        Some(deadline) => match answers.recv_timeout(
            deadline.saturating_duration_since(Instant::now())
                + deadline.saturating_duration_since(start) / 50,
        ) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => Ok(Report::unknown(prove::stopped(Stop::Time))),
            Err(RecvTimeoutError::Disconnected) => Err(Failure::Panicked),
        },
    };
    // Without a module there is nothing to run either.
    let Ok(about) = about.recv() else {
        return match thread.join() {
            Err(panic) => resume_unwind(panic),
            Ok(()) => Ok(Settled::by_proof(wait(&answers)?, None)),
        };
    };
    let head_start = limits.deadline.map_or(HEAD_START, |deadline| {
        (deadline.saturating_duration_since(Instant::now()) / 6).min(HEAD_START)
    });
    let early = match answers.recv_timeout(head_start) {
        Err(RecvTimeoutError::Timeout) => None,
        Ok(answer) => Some(answer?),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => resume_unwind(panic),
            Ok(()) => return Err(Failure::Panicked),
        },
    };
    let runs = Runs { arguments, config, about: &about, limits: &limits, doing };
    if let Some(answer) = early {
        return Ok(runs.confirmed(answer, &monitor));
    }
    match runs.explore(&monitor) {
        Explored::Open(why) => Ok(runs.confirmed(wait(&answers)?, &monitor).with_note(why)),
        explored => {
            // The prover may have finished first in the meantime.
            let definite = |report: &Report| !matches!(report.verdict, Verdict::Unknown(_));
            match answers.try_recv() {
                Ok(Ok(answer)) if definite(&answer) => Ok(runs.confirmed(answer, &monitor)),
                _ => {
                    ENOUGH.store(true, Ordering::Relaxed);
                    Ok(Settled::ByRuns(explored))
                }
            }
        }
    }
}

/// The prover's work, for a separate thread.
struct Task {
    files: Vec<PathBuf>,
    compiler: Vec<OsString>,
    unrolling: crashproof_symbolic::Options,
    request: Request,
}

impl Task {
    fn run(&self, about: &Sender<About>, say: &dyn Fn(String)) -> Result<Report, Failure> {
        let file = &self.files[0];
        // Some valid inputs cannot be reasoned about.
        let no_program = |error: crashproof_symbolic::Error| match error.reason(file) {
            Some(reason) => Ok(Report::unknown(reason)),
            None => Err(Failure::Input(format!("crashproof: {}: {error}", file.display()))),
        };
        let module = match compile(&self.files, self.compiler.clone()) {
            Ok(module) => module,
            Err(error) => return no_program(error),
        };
        // The receiver is gone if a limit was hit in the meantime.
        let _ = about.send(About {
            recovery: crashproof_symbolic::recovery(&module).map(str::to_owned),
            has_inputs: crashproof_symbolic::has_inputs(&module)
                || self.unrolling.stdin.is_none() && crashproof_symbolic::reads_stdin(&module),
            claims: crashproof_symbolic::claims_something(&module),
        });
        let progress = &mut |progress| match progress {
            Progress::Unrolling(rounds) => say(format!("unrolling loops {rounds} times")),
            Progress::Proving(events) => say(format!("proving {events} events")),
        };
        match deepen::prove(&module, &self.unrolling, &self.request, progress) {
            Ok(report) => Ok(report),
            Err(deepen::Failure::Program(error)) => no_program(error),
            Err(deepen::Failure::Prover(error)) => Err(Failure::Prover(error)),
        }
    }
}

/// Runs of the program, under the same conditions as the proof.
struct Runs<'a> {
    arguments: &'a Arguments,
    config: &'a Config,
    about: &'a About,
    limits: &'a Limits,
    doing: &'a Doing,
}

impl Runs<'_> {
    /// The prover's answer, with its counterexample replayed in runs of the program: if no run fails, it is not
    /// reported as a counterexample; one that depends on values that are not modeled is reported if a run fails. Runs
    /// may also answer what the prover cannot.
    fn confirmed(&self, answer: Report, monitor: &Arc<Monitor>) -> Settled {
        let arguments = self.arguments;
        if arguments.robust {
            let sentence = format!("{NOT_REPLAYED}: only claims are, not robustness");
            let met = Met { sentence, token: String::new(), exact: false, told: None };
            return Settled::by_proof(answer, Some(met));
        }
        match (&answer.verdict, &answer.candidate) {
            (Verdict::Violated(_), _) if arguments.no_replay => Settled::by_proof(answer, None),
            (Verdict::Violated(counterexample), _) => match self.replay(counterexample) {
                Replayed::Met(met) => Settled::by_proof(answer, Some(met)),
                Replayed::NotTried(why) => {
                    let sentence = format!("{NOT_REPLAYED}: {why}");
                    let met = Met { sentence, token: String::new(), exact: false, told: None };
                    Settled::by_proof(answer, Some(met))
                }
                Replayed::NotMet(runs) => {
                    let text = format!(
                        "the prover finds a counterexample ({}) that no run of the program reproduces: {runs}",
                        counterexample.message
                    );
                    let reason = prove::Reason { text, site: Some(counterexample.site.clone()) };
                    Settled::by_proof(Report { verdict: Verdict::Unknown(vec![reason]), ..answer }, None)
                }
            },
            (_, Some(candidate)) if !arguments.no_replay => match self.replay(candidate) {
                Replayed::Met(met) if met.exact => {
                    let verdict = Verdict::Violated(candidate.clone());
                    Settled::by_proof(Report { verdict, candidate: None, ..answer }, Some(met))
                }
                _ => self.explored(answer, monitor),
            },
            (Verdict::Unknown(_), _) => self.explored(answer, monitor),
            (Verdict::Holds, _) => Settled::by_proof(answer, None),
        }
    }

    /// The answer of runs if the prover has none.
    fn explored(&self, answer: Report, monitor: &Arc<Monitor>) -> Settled {
        match self.explore(monitor) {
            Explored::Open(why) => Settled::by_proof(answer, None).with_note(why),
            explored => Settled::ByRuns(explored),
        }
    }

    fn explore(&self, monitor: &Arc<Monitor>) -> Explored {
        let arguments = self.arguments;
        // Bounds requested by the user must be respected.
        let bounded = arguments.unwind.is_some() || !arguments.unwindset.is_empty();
        let left_out = arguments.no_runs || arguments.no_replay || arguments.robust || bounded;
        if left_out || !self.about.claims || self.limits.hit().is_some() || monitor.cancelled() {
            return Explored::Open(None);
        }
        match self.runs() {
            Ok(runs) => {
                self.doing.now("exploring runs of the program");
                runs.explore(monitor)
            }
            Err(why) => Explored::Open(Some(why.to_owned())),
        }
    }

    /// Searches runs for the failure of a counterexample.
    fn replay(&self, counterexample: &Counterexample) -> Replayed {
        self.doing.now("replaying the counterexample");
        match self.runs() {
            Ok(runs) => runs.run(counterexample),
            Err(why) => Replayed::NotTried(why.to_owned()),
        }
    }

    /// How to run the program as the prover follows it, or why that is impossible.
    fn runs(&self) -> Result<Replay<'_>, &'static str> {
        let arguments = self.arguments;
        match arguments {
            Arguments { no_flushes: true, .. } => {
                return Err("a run cannot leave out the program's flushes (--no-flushes)");
            }
            Arguments { flush_every_access: true, .. } => {
                return Err("a run cannot flush after every access (--flush-every-access)");
            }
            Arguments { pool: PoolContent::Created | PoolContent::Any, .. } => {
                return Err("a run cannot be given a pool that exists before the program starts (--pool)");
            }
            _ => {}
        }
        Ok(Replay {
            sources: &arguments.files,
            compiler: arguments.compiler_arguments(),
            arguments: &arguments.run_arguments,
            stdin: arguments.stdin.as_deref(),
            platform: platform(self.config),
            crashes: usize::from(arguments.crashes),
            recovery: self.about.recovery.as_deref(),
            has_inputs: self.about.has_inputs,
            deadline: self.limits.deadline,
            program: arguments.replay.as_deref(),
        })
    }
}

enum Failure {
    Input(String),
    Prover(prove::Error),
    /// The prover's thread ended without an answer.
    Panicked,
}

/// The prover's answer about a litmus test.
fn litmus(
    arguments: &Arguments,
    question: Question,
    prover: &Options,
    doing: &Doing,
) -> Result<Report, Failure> {
    if arguments.files.len() > 1 {
        let message = "crashproof: a litmus file is a program of its own: give one at a time";
        return Err(Failure::Input(message.to_owned()));
    }
    let program = litmus_program(&arguments.files[0]).map_err(Failure::Input)?;
    doing.now(format!("proving {} events", program.events()));
    question.ask(&program, prover).map_err(Failure::Prover)
}

/// Compiles the sources in a directory that is removed with the process.
fn compile(files: &[PathBuf], arguments: Vec<OsString>) -> Result<Module, crashproof_symbolic::Error> {
    let scratch = Scratch::new().map_err(|cause| crashproof_symbolic::BitcodeError::Io {
        path: PathBuf::from("temporary directory"),
        cause,
    })?;
    crashproof_symbolic::compile_in(scratch.path(), files, arguments)
}

fn litmus_program(file: &Path) -> Result<Program, String> {
    let shown = file.to_string_lossy();
    let source = crashproof_findings::text_file::read(file)
        .map_err(|error| format!("crashproof: cannot read {shown}: {error}"))?;
    let test = crashproof_litmus::parse(&source).map_err(|error| error_text(&shown, &source, &error))?;
    Ok(crashproof_prove::litmus::program(&test))
}
