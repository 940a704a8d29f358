//! `crashproof fix`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use crashproof_check::Report;
use crashproof_findings::config::Config;
use crashproof_fix::{Bench, Failed, Macros, Project};

use crate::build::{self, Programs};
use crate::check;
use crate::exit::Exit;
use crate::progress::Watch;
use crate::signals::{Orderly, Scratch};

mod text;

#[derive(Args)]
// `check` has a group of this name.
#[group(skip)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) check: check::Arguments,

    /// Change the sources instead of printing a diff
    #[arg(long)]
    apply: bool,

    /// Shell command that rebuilds the program, if it is not a single source
    ///
    /// Without --apply it runs in a copy of this directory.
    #[arg(long, value_name = "COMMAND")]
    build: Option<String>,

    /// Code that flushes, such as `FLUSH({addr}, {len})` [default: as the file does it]
    #[arg(long, value_name = "CODE")]
    flush_macro: Option<String>,

    /// Code that fences, if the flush does not
    #[arg(long, value_name = "CODE", requires = "flush_macro")]
    fence_macro: Option<String>,

    /// Remove flushes and fences that never did anything, too.
    #[arg(long)]
    remove_redundant: bool,
}

pub(crate) fn run(arguments: &Arguments, config: &Config) -> io::Result<Exit> {
    let options = crashproof_fix::Options {
        macros: macros(arguments, config),
        remove_redundant: arguments.remove_redundant,
    };
    // What was changed in sources is changed back before anything ends.
    let _orderly = Orderly::new()?;
    let project = Project {
        program: arguments.check.program.clone(),
        is_source: build::language(&arguments.check.program).is_some(),
        build: arguments.build.clone(),
        apply: arguments.apply,
    };
    let checker = |root: &Path, extra: &[OsString]| checked(&arguments.check, config, root, extra);
    let fixed = Bench::new(project, checker, Scratch::new).and_then(|mut bench| {
        let fixed = crashproof_fix::fix(&mut bench, &options);
        bench.finish(fixed)
    });
    match fixed {
        Ok(outcome) => {
            let mut out = anstream::stdout().lock();
            write!(out, "{}", text::outcome(&outcome, arguments.apply))?;
            out.flush()?;
            Ok(match (outcome.report.errors(), outcome.report.unknown.is_empty()) {
                (0, true) => Exit::Clean,
                (0, false) => Exit::Incomplete,
                _ => Exit::Findings,
            })
        }
        Err(message) => {
            anstream::eprintln!("crashproof: {message}");
            Ok(Exit::Usage)
        }
    }
}

/// The project's own way to flush, from the command line or the settings.
fn macros(arguments: &Arguments, config: &Config) -> Option<Macros> {
    match &arguments.flush_macro {
        Some(flush) => Some(Macros { flush: flush.clone(), fence: arguments.fence_macro.clone() }),
        None => Some(Macros { flush: config.fix.flush.clone()?, fence: config.fix.fence.clone() }),
    }
}

/// Checks the program as `crashproof check` would, found or built below a directory.
fn checked(
    arguments: &check::Arguments,
    config: &Config,
    root: &Path,
    extra: &[OsString],
) -> Result<Report, Failed> {
    let recovery = check::recovery(config).map_err(Failed::Check)?;
    let (given, cflags) = (arguments.given(), [&arguments.cflags(), extra].concat());
    let programs =
        Programs::below(root, &given, recovery.first().map(Path::new), &cflags).map_err(Failed::Build)?;
    let options = check::options(arguments, config, &programs, &recovery).map_err(Failed::Check)?;
    let watch = Watch::start(Arc::clone(&options.monitor), false);
    let _watch = watch.map_err(|error| Failed::Check(error.to_string()))?;
    let report = crashproof_check::check(&options).map_err(|error| Failed::Check(error.to_string()))?;
    if options.monitor.cancelled() {
        return Err(Failed::Check("interrupted; nothing was changed".into()));
    }
    Ok(report)
}
