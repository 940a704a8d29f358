//! What comes before the recorded run: files that another program prepares, and finding out which files the program maps.

use std::path::PathBuf;
use std::process::Command;

use crashproof_protocol::{DEFAULT_PM_PATH, PM_PATH, exit, flag};
use object::{Object, ObjectSymbol};
use px86::Kind;

use crate::driver::options::Options;
use crate::driver::recording::record_run;
use crate::subject::{Durable, Ending, Error, Launch, Mode, Process, Run, Schedule, Subject};

/// Starts a program, with the files that `--setup` prepares.
pub(crate) fn start(options: &Options, launch: Launch) -> Result<Process, Error> {
    let mut process = Process::start(launch)?;
    if let [program, arguments @ ..] = &options.setup[..] {
        let program = PathBuf::from(program);
        let launch = Launch {
            program: program.clone(),
            arguments: arguments.iter().map(Into::into).collect(),
            client: Vec::new(),
            ..options.launch()
        };
        match Process::start(launch) {
            Ok(setup) => process.adopt_files(&prepared(options, setup)?),
            // It need not be ours: then what it does it does to the files themselves.
            Err(Error::NotInstrumented { .. }) => run_plainly(&program, arguments)?,
            Err(error) => return Err(error),
        }
    }
    Ok(process)
}

/// Runs the program that prepares the files, and makes all it did durable.
fn prepared(options: &Options, mut setup: Process) -> Result<Process, Error> {
    let recorded = record_run(&mut setup, false, Schedule::default(), options.run_limits())?;
    for record in recorded.records.iter().filter(|record| record.event_kind().is_some_and(Kind::stores)) {
        setup.set_image(record.address(), record.width(), record.value);
    }
    Ok(setup)
}

fn run_plainly(program: &std::path::Path, arguments: &[String]) -> Result<(), Error> {
    let failed = |how: String| Error::Setup { program: program.to_owned(), how };
    let status = Command::new(program).args(arguments).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(format!("failed ({status})"))),
        Err(error) => Err(failed(format!("cannot be run: {error}"))),
    }
}

/// Does the program itself map anything? Most do not, and need not be run to find that out.
fn maps(program: &std::path::Path) -> bool {
    let Ok(bytes) = std::fs::read(program) else { return false };
    let Ok(file) = object::File::parse(&*bytes) else { return false };
    let mut symbols = file.dynamic_symbols();
    symbols.any(|symbol| {
        symbol.is_undefined()
            && symbol.name().is_ok_and(|name| matches!(name.split('@').next(), Some("mmap" | "mmap64")))
    })
}

/// Files that are found to be mapped, at most: one run finds one.
const MOST_FILES: usize = 64;

/// Without a PM path, whatever files the program maps to share what it writes are persistent memory. Runs it until it
/// maps one, with everything it writes kept from the disk, and again, until it maps no other.
pub(crate) fn discover(options: &Options) -> Result<(Options, Vec<PathBuf>), Error> {
    let mut options = options.clone();
    let mut found: Vec<PathBuf> = Vec::new();
    let asked = options.pm_path.is_empty() && std::env::var_os(PM_PATH).is_none_or(|paths| paths.is_empty());
    if !asked || options.pm_heap || options.all_files || !maps(&options.program) {
        return Ok((options, found));
    }
    while found.len() < MOST_FILES {
        let mut launch = options.launch();
        launch.switches |= flag::DISCOVER;
        let mut process = start(&options, launch)?;
        let run = Run {
            mode: Mode::Record { regions: false },
            schedule: Schedule::default(),
            crashes: 0,
            durable: Durable::nothing(),
            limits: options.run_limits().recording(),
        };
        // However else it ends: the recorded run will show it.
        let ending = process.run(&run, &[])?.ending;
        let Some(path) = process.mapped_outside().filter(|_| ending == Ending::Exit(exit::DISCOVERED)) else {
            break;
        };
        if found.is_empty() {
            options.pm_path = DEFAULT_PM_PATH.split(':').map(PathBuf::from).collect();
        }
        options.pm_path.push(path.clone());
        found.push(path);
    }
    Ok((options, found))
}
