//! `crashproof check`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use crashproof_check::{Error, MAX_CRASHES, Options, Strategy};
use crashproof_findings::{Report, Sources, Verdict};
use crashproof_report::{json, text};
use px86::Platform;

use crate::exit::Exit;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The program, built with `crashproof cc`, `c++` or `cargo`; or one C or C++ source file.
    #[arg(value_name = "PROGRAM")]
    program: PathBuf,

    /// Its arguments.
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<OsString>,

    /// How many crashes in a row: from 2 on, recovery itself is crashed too.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=MAX_CRASHES as i64))]
    crashes: u8,

    /// Recover in so many processes at the same time; all cores if not given.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    /// Try at most so many recoveries from one crash; 0 for all there are.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max_per_crash: u64,

    /// Stop after so many recoveries.
    #[arg(long, value_name = "N")]
    max_recoveries: Option<u64>,

    /// Stop after so many seconds.
    #[arg(long, value_name = "SECONDS")]
    time: Option<u64>,

    /// Try so many schedules if the program has threads. The first is always the same; the others are made
    /// from seeds and can be had again.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    schedules: u32,

    /// How to make schedules from seeds.
    #[arg(long, value_enum, default_value_t = ScheduleStrategy::Mixed)]
    strategy: ScheduleStrategy,

    /// Files below this count as persistent memory when they are mapped; may be given more than once. A path
    /// ending in * stands for all that begin so. If not given: /mnt/pmem*, /pmem* and /dev/dax*.
    #[arg(long, value_name = "PATH")]
    pm_path: Vec<PathBuf>,

    /// Treat the heap as persistent memory, as libvmmalloc does.
    #[arg(long)]
    pm_heap: bool,

    /// Assume that caches survive a power failure (eADR).
    #[arg(long)]
    eadr: bool,

    /// Let warnings (wasted flushes and fences) count as errors.
    #[arg(long, value_name = "LEVEL", value_parser = ["warnings"])]
    deny: Option<String>,

    /// How to show the result.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
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
enum Format {
    /// For people.
    Text,
    /// One object.
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> io::Result<Exit> {
    let built = match crate::build::if_source(&arguments.program) {
        Ok(built) => built,
        Err(message) => {
            anstream::eprintln!("crashproof: {message}");
            return Ok(Exit::Usage);
        }
    };
    let program = built.as_ref().map_or(&arguments.program, |built| &built.program);
    let mut options = Options::new(program.clone(), arguments.arguments.clone());
    options.built_from = built.as_ref().map(|_| arguments.program.clone());
    options.pm_path.clone_from(&arguments.pm_path);
    options.pm_heap = arguments.pm_heap;
    options.crashes = usize::from(arguments.crashes);
    if let Some(jobs) = arguments.jobs {
        options.jobs = usize::from(jobs);
    }
    options.max_per_crash = Some(arguments.max_per_crash).filter(|most| *most > 0);
    options.max_recoveries = arguments.max_recoveries;
    options.max_time = arguments.time.map(Duration::from_secs);
    options.schedules = arguments.schedules;
    options.strategy = match arguments.strategy {
        ScheduleStrategy::Mixed => Strategy::Mixed,
        ScheduleStrategy::Random => Strategy::Random,
        ScheduleStrategy::Pct => Strategy::Pct,
    };
    options.platform = if arguments.eadr { Platform::Eadr } else { Platform::Adr };
    let report = match crashproof_check::check(&options) {
        Ok(report) => report,
        Err(error) => {
            anstream::eprintln!("crashproof: {error}");
            let incomplete = matches!(error, Error::System { .. });
            return Ok(if incomplete { Exit::Incomplete } else { Exit::Usage });
        }
    };
    let mut report = report.common(&arguments.program.to_string_lossy());
    let built = program.metadata().and_then(|about| about.modified()).ok();
    let sources = Sources::built_at(built);
    report.finish(&sources);
    if arguments.deny.is_some() {
        report.deny_warnings();
    }
    let mut out = anstream::stdout().lock();
    match arguments.format {
        Format::Text => write!(out, "{}", text::report(&report, &sources))?,
        Format::Json => json::write(&mut out, &report)?,
    }
    out.flush()?;
    Ok(exit(&report))
}

fn exit(report: &Report) -> Exit {
    match report.verdict() {
        Verdict::Clean => Exit::Clean,
        Verdict::Findings => Exit::Findings,
        Verdict::Unknown => Exit::Incomplete,
    }
}
