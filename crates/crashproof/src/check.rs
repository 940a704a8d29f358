//! `crashproof check`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use crashproof_check::{Error, Options, Report};
use crashproof_report::{check_json, check_text};
use px86::Platform;

use crate::exit::Exit;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The program, built with crashproof.
    #[arg(value_name = "PROGRAM")]
    program: PathBuf,

    /// Its arguments.
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<OsString>,

    /// Stop after so many recoveries.
    #[arg(long, value_name = "N")]
    max_recoveries: Option<u64>,

    /// Stop after so many seconds.
    #[arg(long, value_name = "SECONDS")]
    time: Option<u64>,

    /// Assume that caches survive a power failure (eADR).
    #[arg(long)]
    eadr: bool,

    /// Treat files below this path as persistent memory when they are mapped; may be given several times.
    /// Otherwise: /mnt/pmem*, /pmem*, /dev/dax*.
    #[arg(long, value_name = "PATH")]
    pm_path: Vec<PathBuf>,

    /// Treat the whole heap as persistent memory.
    #[arg(long)]
    pm_heap: bool,

    /// Let warnings (wasted flushes and fences) count as errors.
    #[arg(long, value_name = "LEVEL", value_parser = ["warnings"])]
    deny: Option<String>,

    /// How to show the result.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// One object.
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> io::Result<Exit> {
    let mut options = Options::new(arguments.program.clone(), arguments.arguments.clone());
    options.max_recoveries = arguments.max_recoveries;
    options.max_time = arguments.time.map(Duration::from_secs);
    options.platform = if arguments.eadr { Platform::Eadr } else { Platform::Adr };
    options.pm_path.clone_from(&arguments.pm_path);
    options.pm_heap = arguments.pm_heap;
    let report = match crashproof_check::check(&options) {
        Ok(report) => report,
        Err(error) => {
            anstream::eprintln!("crashproof: {error}");
            let incomplete = matches!(error, Error::System { .. });
            return Ok(if incomplete { Exit::Incomplete } else { Exit::Usage });
        }
    };
    let mut out = anstream::stdout().lock();
    match arguments.format {
        Format::Text => write!(out, "{}", check_text::report(&report))?,
        Format::Json => writeln!(out, "{}", check_json::object(&report))?,
    }
    out.flush()?;
    Ok(exit(&report, arguments.deny.is_some()))
}

fn exit(report: &Report, deny_warnings: bool) -> Exit {
    if !report.findings.is_empty() || deny_warnings && !report.waste.is_empty() {
        Exit::Findings
    } else if !report.unknown.is_empty() {
        Exit::Incomplete
    } else {
        Exit::Clean
    }
}
