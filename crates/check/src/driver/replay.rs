//! Reproduces one failure: the same crashes, the same losses, the same recovery.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use crashproof_protocol::Patch;
use px86::{Line, Platform};

use crate::crash::{Persisted, Timeline, survive};
use crate::driver::check::record_run;
use crate::driver::options::{Options, Recover};
use crate::driver::token::Token;
use crate::subject::{Ending, Error, Failure, Launch, Mode, Process, Run, Subject};

/// What came of a replay.
#[derive(Clone, Debug)]
pub struct Replay {
    /// How recovery failed; none if it did not.
    pub failure: Option<Failure>,
    /// The end of what it printed.
    pub output: String,
}

/// Replays the failure that a token names, under a debugger if one is given. `program` is the token's, built
/// again if the token names a source; so is `recover`, if the token has another program for that.
pub fn replay(
    token: &Token,
    program: PathBuf,
    recover: Option<PathBuf>,
    debugger: Option<&[OsString]>,
) -> Result<Replay, Error> {
    let options = options(token, program, recover);
    let mut process = Process::start(options.launch())?;
    let recorded = record_run(&mut process, token.regions, token.schedule(), options.run_limits());
    let mut records = match recorded {
        Ok(recorded) => recorded.records.to_vec(),
        // The schedule alone makes it fail.
        Err(Error::FailsAlone { failure, output, .. }) if token.crashes.is_empty() => {
            return Ok(Replay { failure: Some(failure), output });
        }
        Err(error) => return Err(error),
    };
    if token.crashes.is_empty() {
        return Ok(Replay { failure: None, output: process.output(Ending::Exit(0)) });
    }
    let files_created = process.files_created();
    if options.recover.is_some() {
        process = with_files_of(&process, options.launch_recovery())?;
    }
    let mut limits = options.run_limits().recovery(records.len());
    if debugger.is_some() {
        limits.cpu_seconds = 0;
    }
    let mut crashed: Vec<(Timeline, Persisted)> = Vec::new();
    for (level, crash) in token.crashes.iter().enumerate() {
        if crash.at > records.len() {
            return Err(Error::Stale);
        }
        let mut timeline = match crashed.last() {
            Some((before, _)) => Timeline::after(&options.platform, before),
            None => Timeline::first(&options.platform, files_created),
        };
        let mut persisted = Persisted::default();
        for record in &records[..crash.at] {
            timeline.advance_into(record, &mut persisted);
        }
        timeline.is_crash_point(&records);
        let durable = timeline.durable;
        crashed.push((timeline, persisted));
        let last = level + 1 == token.crashes.len();
        if let Some(debugger) = debugger.filter(|_| last) {
            // A process of its own: the debugger follows it into this recovery, not into the runs before.
            let launch = Launch { wrapper: debugger.to_vec(), ..options.launch_recovery() };
            process = with_files_of(&process, launch)?;
        }
        let run =
            Run { mode: Mode::Recover, schedule: token.schedule(), crashes: level + 1, durable, limits };
        let patches = patches(&process, token, &crashed);
        let ending = process.run(&run, &patches)?.ending;
        if last {
            return Ok(Replay { failure: Failure::of(ending), output: process.output(ending) });
        }
        records = process.records().to_vec();
    }
    Err(Error::Stale)
}

/// The options that the check had.
fn options(token: &Token, program: PathBuf, recover: Option<PathBuf>) -> Options {
    let words = |words: &[String]| words.iter().map(OsString::from).collect();
    let mut options = Options::new(program, words(&token.arguments));
    options.pm_path = token.pm_path.iter().map(PathBuf::from).collect();
    options.pm_heap = token.pm_heap;
    options.strict = token.strict;
    options.platform = if token.eadr { Platform::EADR } else { Platform::ADR };
    options.recover = recover.zip(token.recover.get(1..)).map(|(program, arguments)| Recover {
        program,
        arguments: words(arguments),
        built_from: None,
    });
    options
}

/// Another process, with the files of the one before.
fn with_files_of(before: &Process, launch: Launch) -> Result<Process, Error> {
    let mut process = Process::start(launch)?;
    process.adopt_files(before);
    Ok(process)
}

/// The lines as the crashes left them, according to the token.
fn patches(subject: &impl Subject, token: &Token, crashed: &[(Timeline, Persisted)]) -> Vec<Patch> {
    let mut lines: BTreeSet<Line> = BTreeSet::new();
    for (timeline, persisted) in crashed {
        lines.extend(timeline.open_lines());
        lines.extend(persisted.keys());
    }
    let content = |line: Line| {
        let mut bytes = subject.image_line(line);
        for ((timeline, persisted), crash) in crashed.iter().zip(&token.crashes) {
            survive(&mut bytes, line, Some(persisted), timeline, crash);
        }
        bytes
    };
    lines.into_iter().map(|line| Patch { address: line.start(), bytes: content(line) }).collect()
}
