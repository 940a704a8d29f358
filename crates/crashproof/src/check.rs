//! `crashproof check`.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use crashproof_check::{Error, MAX_CRASHES, Model, Options, Random, Recover, Strategy, Suppression};
use crashproof_findings::Sources;
use crashproof_findings::config::Config;

use crate::build::Programs;
use crate::exit::Exit;
use crate::json_lines::JsonLines;
use crate::output::Output;
use crate::progress::Watch;
use crate::settings::{Compiler, Machine, Memory, Overrides, Words, platform};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The program, built with `crashproof cc`, `c++` or `cargo`; or its C, C++ or Rust source.
    #[arg(value_name = "PROGRAM")]
    pub(crate) program: PathBuf,

    /// More C or C++ sources of the same program.
    #[arg(value_name = "SOURCE")]
    more_sources: Vec<PathBuf>,

    #[command(flatten)]
    compiler: Compiler,

    /// The program's arguments.
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<OsString>,

    /// Run this command after a crash instead of the same one again, such as '--recover "./repair --all pool"'. Its
    /// program must be built with crashproof, too; it may be PROGRAM with other arguments.
    #[arg(long, value_name = "CMD", value_parser = |text: &str| command(text).map(|_| text.to_owned()))]
    recover: Option<String>,

    /// How many crashes in a row: from 2 on, recovery itself is crashed too. One if not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=MAX_CRASHES as i64))]
    crashes: Option<u8>,

    /// Recover in so many processes at the same time; all cores if not given.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    /// Try at most so many recoveries from one crash; 0 for all there are. 1000 if not given.
    #[arg(long, value_name = "N")]
    max_per_crash: Option<u64>,

    /// Instead of everything, try so many crashes at random: for programs too large to exhaust. Without findings the
    /// verdict is then unknown, unless they happened to show all that recovery can do.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    random: Option<u64>,

    /// What random crashes follow from: the same seed gives the same crashes.
    #[arg(long, value_name = "S", default_value_t = 0, requires = "random")]
    seed: u64,

    /// Stop after so many recoveries.
    #[arg(long, value_name = "N")]
    max_recoveries: Option<u64>,

    /// Stop after so many seconds.
    #[arg(long, value_name = "SECONDS")]
    time: Option<u64>,

    /// Try so many schedules if the program has threads. The first is always the same; the others are made
    /// from seeds and can be had again. One if not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    schedules: Option<u32>,

    /// How to make schedules from seeds.
    #[arg(long, value_enum, default_value_t = ScheduleStrategy::Mixed)]
    strategy: ScheduleStrategy,

    #[command(flatten)]
    memory: Memory,

    /// Name whatever touches persistent memory unseen: the address, the place in the source and the calls that
    /// led there. Slow; for finding out why a verdict is UNKNOWN.
    #[arg(long)]
    strict: bool,

    /// Hold the strands or epochs that the program marks (crashproof_strand_begin and its kin in crashproof.h)
    /// against their persistency model.
    #[arg(long, value_enum, value_name = "MODEL")]
    model: Option<PersistencyModel>,

    #[command(flatten)]
    machine: Machine,

    /// Do not look for missing flushes that recovery does not fail on.
    #[arg(long)]
    no_robust: bool,

    /// Missing flushes are known to be harmless here, as the store that is lost or the load that sees it: FILE:LINE,
    /// FILE:FIRST-LAST or FILE:FUNCTION; may be given more than once.
    #[arg(long, value_name = "PLACE")]
    suppress: Vec<Suppression>,

    #[command(flatten)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ScheduleStrategy {
    /// Random and PCT in turn.
    Mixed,
    /// Switch threads at random.
    Random,
    /// Random priorities with a few changes (probabilistic concurrency testing).
    Pct,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PersistencyModel {
    /// A barrier belongs between two epochs.
    Epoch,
    /// Strands are concurrent until they are joined, and must not depend on each other.
    Strand,
}

impl Overrides for Arguments {
    fn write_over(&self, settings: &mut Config) {
        self.memory.write_over(settings);
        self.machine.write_over(settings);
        let check = &mut settings.check;
        check.recover = self.recover.clone().or(check.recover.take());
        check.crashes = self.crashes.or(check.crashes);
        check.schedules = self.schedules.or(check.schedules);
        check.jobs = self.jobs.or(check.jobs);
        check.max_per_crash = self.max_per_crash.or(check.max_per_crash);
        check.max_recoveries = self.max_recoveries.or(check.max_recoveries);
        check.time = self.time.or(check.time);
    }
}

impl Arguments {
    /// The program, or all its sources.
    pub(crate) fn given(&self) -> Vec<PathBuf> {
        std::iter::once(&self.program).chain(&self.more_sources).cloned().collect()
    }

    /// What the user adds to the compiler's arguments.
    pub(crate) fn cflags(&self) -> Vec<OsString> {
        self.compiler.arguments()
    }
}

/// Hands over what is a setting.
fn settings(options: &mut Options, config: &Config) -> Result<(), String> {
    let set = &config.check;
    let crashes = set.crashes.unwrap_or(1);
    if !(1..=MAX_CRASHES).contains(&usize::from(crashes)) {
        return Err(format!("check.crashes is {crashes} in crashproof.toml; it can be 1 to {MAX_CRASHES}"));
    }
    options.crashes = usize::from(crashes);
    options.schedules = set.schedules.unwrap_or(1).max(1);
    if let Some(jobs) = set.jobs {
        options.jobs = usize::from(jobs.max(1));
    }
    options.max_per_crash = Some(set.max_per_crash.unwrap_or(1000)).filter(|most| *most > 0);
    options.max_recoveries = set.max_recoveries;
    options.max_time = set.time.map(Duration::from_secs);
    options.pm_path.clone_from(&config.pm.paths);
    options.pm_heap = config.pm.heap.unwrap_or(false);
    options.platform = platform(config);
    Ok(())
}

/// The command that recovers; empty if it is the same one.
pub(crate) fn recovery(config: &Config) -> Result<Vec<String>, String> {
    let Some(text) = &config.check.recover else { return Ok(Vec::new()) };
    // What the command line says was looked at when it was read.
    command(text).map_err(|message| format!("check.recover in crashproof.toml: {message}"))
}

/// The words of a command; at least one.
fn command(text: &str) -> Result<Vec<String>, String> {
    match text.parse() {
        Ok(Words(words)) if words.is_empty() => Err("no command".into()),
        Ok(Words(words)) => Ok(words),
        Err(error) => Err(error.to_string()),
    }
}

/// What to check, and how far to go.
pub(crate) fn options(
    arguments: &Arguments,
    config: &Config,
    programs: &Programs,
    recovery: &[String],
) -> Result<Options, String> {
    let program = &programs.program;
    let mut options = Options::new(program.path.clone(), arguments.arguments.clone());
    options.built_from.clone_from(&program.source);
    options.more_sources.clone_from(&arguments.more_sources);
    options.cflags = arguments.cflags();
    options.recover = programs.recovery().map(|program| Recover {
        program: program.to_owned(),
        arguments: recovery[1..].iter().map(OsString::from).collect(),
        built_from: programs.recovery_source().map(Path::to_owned),
    });
    options.strict = arguments.strict;
    options.model = arguments.model.map(|model| match model {
        PersistencyModel::Epoch => Model::Epoch,
        PersistencyModel::Strand => Model::Strand,
    });
    options.robust = !arguments.no_robust;
    options.suppress.clone_from(&arguments.suppress);
    options.random = arguments.random.map(|crashes| Random { crashes, seed: arguments.seed });
    options.strategy = match arguments.strategy {
        ScheduleStrategy::Mixed => Strategy::Mixed,
        ScheduleStrategy::Random => Strategy::Random,
        ScheduleStrategy::Pct => Strategy::Pct,
    };
    settings(&mut options, config)?;
    Ok(options)
}

pub(crate) fn run(arguments: &Arguments, config: &Config) -> io::Result<Exit> {
    let usage = |message: String| {
        anstream::eprintln!("crashproof: {message}");
        Ok(Exit::Usage)
    };
    let output = match arguments.output.prepare(config, config.check.deny_warnings.unwrap_or(false)) {
        Ok(output) => output,
        Err(message) => return usage(message),
    };
    let prepared = || {
        let recovery = recovery(config)?;
        let recover = recovery.first().map(Path::new);
        let programs = Programs::new(&arguments.given(), recover, &arguments.cflags())?;
        let options = options(arguments, config, &programs, &recovery)?;
        Ok((programs, options))
    };
    let (programs, options) = match prepared() {
        Ok(prepared) => prepared,
        Err(message) => return usage(message),
    };
    let watch = Watch::start(Arc::clone(&options.monitor))?;
    let stream = output.stream()?.map(|out| JsonLines::start(&options.monitor, out, options.program.clone()));
    let result = crashproof_check::check(&options);
    drop(watch);
    if let Some(stream) = stream {
        stream.end(&options.monitor);
    }
    let report = match result {
        Ok(report) => report,
        Err(error) => {
            anstream::eprintln!("crashproof: {error}");
            let incomplete = matches!(error, Error::System { .. } | Error::Interrupted);
            return Ok(if incomplete { Exit::Incomplete } else { Exit::Usage });
        }
    };
    let built = programs.program.path.metadata().and_then(|about| about.modified()).ok();
    let report = report.in_common_form(&arguments.program.to_string_lossy());
    output.finish(report, &Sources::built_at(built))
}
