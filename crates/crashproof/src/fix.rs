//! `crashproof fix`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
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
use crate::suite::case::Case;
use crate::suite::options::Checking;

mod text;

#[derive(Args)]
// `check` has an argument group of this name.
#[group(skip)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) check: check::Arguments,

    /// Change the sources instead of printing a diff
    #[arg(long)]
    apply: bool,

    /// With --apply: change them even if errors are left
    #[arg(long, requires = "apply")]
    keep_partial: bool,

    /// Restore the sources that the last --apply in this directory changed
    #[arg(long, exclusive = true)]
    undo: bool,

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

/// `crashproof fix --undo`, which takes no program.
pub(crate) fn undo_requested(arguments: &[OsString]) -> Option<ExitCode> {
    let [command, undo] = arguments else { return None };
    if command != "fix" || undo != "--undo" {
        return None;
    }
    let exit = match crashproof_fix::undo(Path::new(".")) {
        Ok(files) => {
            files.iter().for_each(|file| anstream::println!("restored {file}"));
            Exit::Clean
        }
        Err(message) => {
            anstream::eprintln!("crashproof: {message}");
            Exit::Usage
        }
    };
    Some(exit.into())
}

pub(crate) fn run(arguments: &Arguments, config: &Config) -> io::Result<Exit> {
    if arguments.undo {
        anstream::eprintln!("crashproof: --undo stands alone: `crashproof fix --undo`");
        return Ok(Exit::Usage);
    }
    let options = crashproof_fix::Options {
        macros: macros(arguments, config),
        remove_redundant: arguments.remove_redundant,
    };
    // Changes to sources are reverted before the process ends.
    let _orderly = Orderly::new()?;
    let project = Project {
        program: arguments.check.program.clone(),
        is_source: build::is_source(&arguments.check.program),
        build: arguments.build.clone(),
        apply: arguments.apply,
        keep_partial: arguments.keep_partial,
    };
    fixed(project, &options, |root, extra| checked(&arguments.check, config, root, extra))
}

/// Fixes a project and reports the result.
fn fixed(
    project: Project,
    options: &crashproof_fix::Options,
    checker: impl FnMut(&Path, &[OsString]) -> Result<Report, Failed>,
) -> io::Result<Exit> {
    let apply = project.apply;
    let fixed = Bench::new(project, checker, Scratch::new).and_then(|mut bench| {
        let fixed = crashproof_fix::fix(&mut bench, options);
        bench.finish(fixed)
    });
    match fixed {
        Ok(outcome) => {
            let mut out = anstream::stdout().lock();
            write!(out, "{}", text::outcome(&outcome, apply))?;
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

/// Options for fixing a whole suite.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Fixing")]
pub(crate) struct Fixing {
    /// Fix what the tests show: print a diff after which they are clean
    #[arg(long)]
    pub(crate) fix: bool,
    /// With --fix: change the sources instead of printing a diff
    #[arg(long, requires = "fix")]
    apply: bool,
    /// With --fix --apply: change them even if errors are left
    #[arg(long, requires = "apply")]
    keep_partial: bool,
}

/// Fixes what a suite of the project in the current directory reveals. `cases` builds it below a directory.
pub(crate) fn suite(
    fixing: &Fixing,
    checking: &Checking,
    mut cases: impl FnMut(&Path) -> Result<Vec<Case>, Failed>,
) -> io::Result<Exit> {
    // Changes to sources are reverted before the process ends.
    let _orderly = Orderly::new()?;
    let project = Project {
        program: PathBuf::new(),
        is_source: false,
        build: Some("true".into()),
        apply: fixing.apply,
        keep_partial: fixing.keep_partial,
    };
    let words = checking.words();
    fixed(project, &crashproof_fix::Options::default(), |root, _| {
        let mut whole: Option<Report> = None;
        for case in cases(root)?.iter().filter(|case| case.unchecked.is_none()) {
            let Some(report) = check_case(case, &words)? else { continue };
            match &mut whole {
                None => whole = Some(report),
                Some(whole) => whole.merge(report),
            }
        }
        whole.ok_or_else(|| Failed::Check("no test touches persistent memory".into()))
    })
}

/// Checks one test; `None` if it touches no persistent memory.
fn check_case(case: &Case, words: &[OsString]) -> Result<Option<Report>, Failed> {
    let failed = |message: String| Failed::Check(format!("{}: {message}", case.name));
    let program: Vec<OsString> = vec!["check".into(), case.program.clone().into()];
    let after = std::iter::once(OsString::from("--")).chain(case.arguments.iter().cloned());
    let (arguments, config) =
        check::parsed(program.into_iter().chain(words.iter().cloned()).chain(after)).map_err(failed)?;
    let programs = Programs::new(&arguments.given(), None, &[]).map_err(failed)?;
    let mut options = check::options(&arguments, &config, &programs, &[]).map_err(failed)?;
    options.directory = Some(case.directory.clone());
    let text = |text: &OsString| text.to_string_lossy().into_owned();
    let environment = case.environment.iter().map(|(name, value)| (text(name), text(value))).collect();
    let _ = options.environment.set(environment);
    match crashproof_check::check(&options) {
        Ok(_) if options.monitor.cancelled() => Err(failed("interrupted; nothing was changed".into())),
        Ok(report) => {
            let nothing =
                matches!(&report.unknown[..], [only] if only.starts_with("no persistent memory found"));
            Ok((!nothing || report.errors() > 0).then_some(report))
        }
        Err(error) => Err(failed(error.to_string())),
    }
}

/// The project's own flush macros, from the command line or the settings.
fn macros(arguments: &Arguments, config: &Config) -> Option<Macros> {
    match &arguments.flush_macro {
        Some(flush) => Some(Macros { flush: flush.clone(), fence: arguments.fence_macro.clone() }),
        None => Some(Macros { flush: config.fix.flush.clone()?, fence: config.fix.fence.clone() }),
    }
}

/// Checks the program as `crashproof check` would, located or built below a directory.
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
    if options.checkpoint.is_some() {
        return Err(Failed::Check(
            "a checkpoint is of one program, and fix changes it; leave out --checkpoint".into(),
        ));
    }
    let watch = Watch::start(Arc::clone(&options.monitor), false);
    let _watch = watch.map_err(|error| Failed::Check(error.to_string()))?;
    let report = crashproof_check::check(&options).map_err(|error| Failed::Check(error.to_string()))?;
    if options.monitor.cancelled() {
        return Err(Failed::Check("interrupted; nothing was changed".into()));
    }
    Ok(report)
}
