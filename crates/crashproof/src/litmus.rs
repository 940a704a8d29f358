//! `crashproof litmus`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use crashproof_findings::config::Config;
use crashproof_litmus::Test;
use crashproof_litmus::answer::{Answer, Assertions, Interrupt, Limits, Options, Robust};
use crashproof_ordersat::solver::Stop;
use crashproof_report::SourceError;
use px86::Domain;

use crate::exit::Exit;
use crate::progress::Doing;
use crate::settings::{self, Machine};
use crate::signals::Orderly;

mod json;
mod text;

use text::Detail;

/// An error in a litmus file, shown with its line.
pub(crate) fn error_text(file: &str, source: &str, error: &crashproof_litmus::Error) -> String {
    let crashproof_litmus::Error { message, label, help, span } = error;
    SourceError { message, label, help: help.as_deref(), span: span.start..span.end }.render(file, source)
}

#[derive(Args)]
pub(crate) struct Arguments {
    /// Litmus files, directories with .litmus files in them, or - for standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Who answers; `all` asks every engine and fails loudly if they disagree.
    #[arg(long, value_enum, default_value_t = Engine::Exhaustive)]
    engine: Engine,

    /// How many crashes in a row: from 2 on, recovery itself crashes too.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    crashes: u32,

    #[command(flatten)]
    pub(crate) machine: Machine,

    /// Give up a search after this many machine states; an engine makes several.
    #[arg(long, value_name = "N", default_value_t = Limits::default().states)]
    max_states: usize,

    /// Give up after this many different outcomes.
    #[arg(long, value_name = "N", default_value_t = Limits::default().outcomes)]
    max_outcomes: usize,

    /// Stop after this many seconds, and show what is known by then.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,

    /// Stop when this many MiB of memory are held, and show what is known by then.
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    memory: u64,

    /// How to show the answers.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Show only the tests that fail.
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,

    /// Show long tables in full, and how robustness violations come about.
    #[arg(short, long)]
    verbose: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// Visits every state of the machine: the ground truth.
    Exhaustive,
    /// Chooses what survives only when recovery reads it.
    Lazy,
    /// Asks a formula over events and their order for one outcome after another.
    Axiomatic,
    /// All of them, compared.
    All,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// One object a line a test.
    Json,
}

type Run = fn(&Test, &Options) -> Answer;

impl Engine {
    /// The engines to ask; the first one's answer is shown.
    fn runs(self) -> &'static [Run] {
        match self {
            Engine::Exhaustive => &[crashproof_litmus::exhaustive::run],
            Engine::Lazy => &[crashproof_litmus::lazy::engine::run],
            Engine::Axiomatic => &[crashproof_prove::axiomatic::run],
            Engine::All => &[
                crashproof_litmus::exhaustive::run,
                crashproof_litmus::lazy::engine::run,
                crashproof_prove::axiomatic::run,
            ],
        }
    }
}

#[derive(Default)]
struct Counts {
    passed: usize,
    failed: usize,
    unknown: usize,
    invalid: usize,
}

/// Set by the user, or by the watcher of time and memory.
static INTERRUPT: Interrupt = Interrupt::new();

/// Watches for reasons to stop.
fn watch(arguments: &Arguments) -> io::Result<()> {
    const TICK: Duration = Duration::from_millis(20);
    let mut limits = crashproof_ordersat::Limits {
        memory: Some(arguments.memory.saturating_mul(1 << 20)),
        ..crashproof_ordersat::Limits::default()
    };
    if let Some(seconds) = arguments.timeout {
        limits = limits.with_timeout(Duration::from_secs(seconds));
    }
    let orderly = Orderly::new()?;
    std::thread::Builder::new().spawn(move || {
        loop {
            if orderly.asked() {
                return INTERRUPT.ask("interrupted");
            }
            match limits.hit() {
                Some(Stop::Time) => return INTERRUPT.ask("out of time (--timeout)"),
                Some(_) => return INTERRUPT.ask("out of memory (--memory)"),
                None => std::thread::sleep(TICK),
            }
        }
    })?;
    Ok(())
}

pub(crate) fn run(arguments: &Arguments, config: &Config) -> io::Result<Exit> {
    watch(arguments)?;
    let domain = settings::domain(config);
    let mut out = anstream::stdout().lock();
    let mut exit = Exit::Clean;
    let mut counts = Counts::default();
    let mut files = Vec::new();
    for path in &arguments.files {
        if let Err(message) = collect(path, &mut files) {
            anstream::eprintln!("crashproof: {message}");
            counts.invalid += 1;
            exit = exit.max(Exit::Usage);
        }
    }
    for file in &files {
        exit = exit.max(one(arguments, domain, file, &mut counts, &mut out)?);
    }
    if arguments.format == Format::Text && files.len().max(arguments.files.len()) > 1 {
        let Counts { passed, failed, unknown, invalid } = counts;
        writeln!(out, "{}", text::summary(passed, failed, unknown, invalid))?;
    }
    out.flush()?;
    Ok(exit)
}

/// Adds the files that a path denotes: itself, or the litmus files below it in order.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let cannot = |error: io::Error| format!("cannot read {}: {error}", path.display());
    if path == Path::new("-") || !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let before = files.len();
    let mut directories = vec![path.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let (path, kind) = (entry.path(), entry.file_type().map_err(cannot)?);
            if kind.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "litmus") {
                files.push(path);
            }
        }
    }
    files[before..].sort();
    if files.len() == before {
        return Err(format!("no .litmus files in {}", path.display()));
    }
    Ok(())
}

fn read(file: &Path) -> io::Result<String> {
    if file == Path::new("-") {
        return crashproof_findings::text_file::read_from(io::stdin().lock());
    }
    crashproof_findings::text_file::read(file)
}

fn one(
    arguments: &Arguments,
    domain: Domain,
    file: &Path,
    counts: &mut Counts,
    out: &mut impl Write,
) -> io::Result<Exit> {
    let shown = if file == Path::new("-") { "<stdin>".into() } else { file.to_string_lossy() };
    let source = match read(file) {
        Ok(source) => source,
        Err(error) => {
            let why = match error.kind() {
                io::ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
                _ => error.to_string(),
            };
            anstream::eprintln!("crashproof: cannot read {shown}: {why}");
            counts.invalid += 1;
            return Ok(Exit::Usage);
        }
    };
    let test = match crashproof_litmus::parse(&source) {
        Ok(test) => test,
        Err(error) => {
            anstream::eprintln!("{}", error_text(&shown, &source, &error));
            counts.invalid += 1;
            return Ok(Exit::Usage);
        }
    };
    let options = Options {
        crashes: arguments.crashes,
        domain,
        limits: Limits {
            states: arguments.max_states,
            outcomes: arguments.max_outcomes,
            interrupt: Some(&INTERRUPT),
            ..Limits::default()
        },
    };
    let doing = Doing::start(format!("exploring {shown}"));
    let answers: Vec<Answer> = arguments.engine.runs().iter().map(|run| run(&test, &options)).collect();
    drop(doing);
    let mut answer = answers[0].clone();
    if answers.len() > 1 {
        if let Some(difference) = disagreement(&answers) {
            anstream::eprintln!(
                "crashproof: {shown}: the engines disagree: {difference}\n\
                 This is a bug in crashproof. Please report it with this file."
            );
            for answer in &answers {
                writeln!(out, "{}", json::object(&shown, &test, answer))?;
            }
            counts.failed += 1;
            return Ok(Exit::Internal);
        }
        answer = merge(answers);
    }
    let exit = match answer.satisfied() {
        Some(false) => Exit::Findings,
        Some(true) if answer.complete() => Exit::Clean,
        _ => Exit::Incomplete,
    };
    match exit {
        Exit::Clean => counts.passed += 1,
        Exit::Incomplete => counts.unknown += 1,
        _ => counts.failed += 1,
    }
    match arguments.format {
        Format::Json => writeln!(out, "{}", json::object(&shown, &test, &answer))?,
        Format::Text => {
            let detail = match (arguments.quiet, arguments.verbose) {
                (true, _) => Detail::Quiet,
                (_, true) => Detail::Verbose,
                _ => Detail::Normal,
            };
            if detail > Detail::Quiet || exit != Exit::Clean {
                writeln!(out, "{}", text::test(&shown, &test, &answer, detail))?;
            }
        }
    }
    Ok(exit)
}

/// Combines several consistent answers: for each question, what some engine knows.
fn merge(answers: Vec<Answer>) -> Answer {
    let mut answers = answers.into_iter();
    let mut all = answers.next().expect("at least one engine");
    for other in answers {
        if other.complete() && !all.complete() {
            all.states.clone_from(&other.states);
            all.incomplete.clear();
        }
        let Robust { strict, event, state } = other.robust;
        for (mine, theirs) in
            [(&mut all.robust.strict, strict), (&mut all.robust.event, event), (&mut all.robust.state, state)]
        {
            if mine.known().is_none() {
                *mine = theirs;
            }
        }
        if matches!(all.assertions, Assertions::Unknown) {
            all.assertions = other.assertions;
        }
        for (mine, theirs) in all.queries.iter_mut().zip(other.queries) {
            if mine.holds.is_none() {
                *mine = theirs;
            }
        }
        let figures = &mut all.statistics;
        figures.explored += other.statistics.explored;
        figures.failure_points += other.statistics.failure_points;
        figures.recoveries += other.statistics.recoveries;
        figures.eager_states = figures.eager_states.take().or(other.statistics.eager_states);
    }
    all.engine = "all";
    all
}

/// The first difference between complete answers, as a sentence. An engine cannot disagree on what it does not know.
fn disagreement(answers: &[Answer]) -> Option<String> {
    let first = &answers[0];
    answers[1..].iter().find_map(|other| {
        let names = format!("{} and {}", first.engine, other.engine);
        let differ = |what: &str| Some(format!("{names} on {what}"));
        let both = first.complete() && other.complete();
        let missing = |few: &Answer, many: &Answer| {
            many.complete() && few.states.iter().any(|state| !many.states.contains(state))
        };
        if both && first.states != other.states || missing(first, other) || missing(other, first) {
            return differ("the outcomes");
        }
        let senses = [
            ("strict robustness", first.robust.strict.known(), other.robust.strict.known()),
            ("robustness by event", first.robust.event.known(), other.robust.event.known()),
            ("robustness by state", first.robust.state.known(), other.robust.state.known()),
            ("recovery's assertions", holds(&first.assertions), holds(&other.assertions)),
        ];
        let queries = first.queries.iter().zip(&other.queries).map(|(a, b)| ("a query", a.holds, b.holds));
        senses
            .into_iter()
            .chain(queries)
            .find(|(_, a, b)| a.is_some() && b.is_some() && a != b)
            .and_then(|(what, ..)| differ(what))
    })
}

fn holds(assertions: &Assertions) -> Option<bool> {
    match assertions {
        Assertions::None | Assertions::Hold => Some(true),
        Assertions::Fail(_) => Some(false),
        Assertions::Unknown => None,
    }
}
