//! Reproduces one failure: the same crashes, the same losses, the same recovery.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use crashproof_protocol::{Patch, Record};
use px86::{Line, Platform};

use crate::crash::{ChosenCrash, Persisted, Timeline, survive};
use crate::driver::options::{Options, Recover};
use crate::driver::prepare::start;
use crate::driver::recording::record_run;
use crate::driver::token::Token;
use crate::schedules::rearranged;
use crate::subject::{
    Ending, Error, Failure, Launch, Limits, Mode, Placement, Process, Run, Schedule, Subject,
};

/// The result of a replay.
#[derive(Clone, Debug)]
pub struct Replay {
    /// How recovery failed; `None` if it did not.
    pub failure: Option<Failure>,
    /// The end of its output.
    pub output: String,
}

/// Replays the failure that a token names, under a debugger if one is given. `program` is the token's program, rebuilt
/// if the token names a source; `recover` likewise, if the token has a separate recovery program. A build other than
/// the token's is rejected unless `anyway` is set.
pub fn replay(
    token: &Token,
    program: PathBuf,
    recover: Option<PathBuf>,
    debugger: Option<&[OsString]>,
    anyway: bool,
) -> Result<Replay, Error> {
    let options = options(token, program, recover);
    if !anyway && !token.build.is_empty() && token.build != options.build_id() {
        return Err(Error::OtherBuild { program: options.program });
    }
    let mut process = start(&options, options.launch())?;
    process.decide(&token.decisions, &[]);
    process.follow_volatile((!token.watched.is_empty()).then_some(&token.watched[..]));
    let recorded = record_run(&mut process, token.regions, token.schedule(), options.run_limits());
    let mut records = match recorded {
        Ok(recorded) if token.decisions.is_empty() => recorded.records.to_vec(),
        Ok(recorded) => rearranged(&recorded.records, &token.moved),
        // It fails without a crash, or because of its schedule.
        Err(Error::FailsAlone { failure, output, .. }) if token.crashes.is_empty() => {
            return Ok(Replay { failure: Some(failure), output });
        }
        Err(error) => return Err(error),
    };
    if token.crashes.is_empty() {
        return Ok(Replay { failure: None, output: process.output(Ending::Exit(0)) });
    }
    let launch = options.launch_recovery();
    let placed = Placement::other(&launch.program).filter(|_| debugger.is_none());
    if let Some(placement) = placed {
        process = with_files_of(&process, Launch { placement, ..launch })?;
    } else if options.recover.is_some() {
        process = with_files_of(&process, launch)?;
    }
    let mut limits = options.run_limits().recovery(records.len());
    if debugger.is_some() {
        limits.cpu_seconds = 0;
    }
    let ending = through_crashes(&mut process, &options, token, &mut records, limits, |process| {
        if let Some(debugger) = debugger {
            // A separate process: the debugger follows it into this recovery, not into the runs before.
            let launch = Launch { wrapper: debugger.to_vec(), ..options.launch_recovery() };
            *process = with_files_of(process, launch)?;
        }
        Ok(())
    })?;
    Ok(Replay { failure: Failure::of(ending), output: process.output(ending) })
}

/// Crashes a recorded run as a token says, recovers it, and crashes the recovery if the token says so; `last` is called
/// before the last recovery.
pub(crate) fn through_crashes(
    process: &mut Process,
    options: &Options,
    token: &Token,
    records: &mut Vec<Record>,
    limits: Limits,
    mut last: impl FnMut(&mut Process) -> Result<(), Error>,
) -> Result<Ending, Error> {
    let mut crashed: Vec<(Timeline, Persisted)> = Vec::new();
    process.follow_volatile((!token.watched.is_empty()).then_some(&token.watched[..]));
    for (level, crash) in token.crashes.iter().enumerate() {
        if crash.at > records.len() {
            return Err(Error::Stale);
        }
        let mut timeline = match crashed.last() {
            Some((before, _)) => Timeline::after(&options.platform, before),
            None => Timeline::first(&options.platform),
        };
        let mut persisted = Persisted::default();
        for record in &records[..crash.at] {
            timeline.advance_into(record, &mut persisted);
        }
        timeline.is_crash_point(records);
        if !fits(crash, &timeline) {
            return Err(Error::Stale);
        }
        let durable = timeline.durable;
        crashed.push((timeline, persisted));
        let is_last = level + 1 == token.crashes.len();
        if is_last {
            last(process)?;
        }
        let schedule = match &token.recovery_decisions {
            None => token.schedule(),
            Some(decisions) => {
                // Recoveries that are crashed in their turn run under their first schedule.
                process.decide(if is_last { decisions } else { &[] }, &[]);
                Schedule::DECIDED
            }
        };
        let run = Run { mode: Mode::Recover, schedule, crashes: level + 1, durable, limits };
        let patches = patches(process, token, &crashed);
        let ending = process.run(&run, &patches)?.ending;
        if is_last {
            return Ok(ending);
        }
        *records = process.records().to_vec();
    }
    Err(Error::Stale)
}

/// Is the token's description of a crash possible in this run? Lines that lose stores must have enough open ones.
fn fits(crash: &ChosenCrash, timeline: &Timeline) -> bool {
    crash.kept.iter().all(|(line, kept)| *kept < timeline.stores(Line(*line)).len())
}

/// The options of the original check.
fn options(token: &Token, program: PathBuf, recover: Option<PathBuf>) -> Options {
    let words = |words: &[String]| words.iter().map(OsString::from).collect();
    let mut options = Options::new(program, words(&token.arguments));
    options.directory = token.directory.as_ref().map(PathBuf::from);
    options.pm_path = token.pm_path.iter().map(PathBuf::from).collect();
    options.pm_heap = token.pm_heap;
    options.heap = token.heap;
    options.environment = Arc::new(token.environment.clone().into());
    options.strict = token.strict;
    options.platform = if token.eadr { Platform::EADR } else { Platform::ADR };
    options.all_files = token.all_files;
    options.setup.clone_from(&token.setup);
    options.client.clone_from(&token.client);
    options.until_idle = token.until_idle;
    options.recovered.clone_from(&token.recovered);
    if let Some(medium) = token.medium {
        options.set_medium(medium);
    }
    options.recover = recover.zip(token.recover.get(1..)).map(|(program, arguments)| Recover {
        program,
        arguments: words(arguments),
        built_from: None,
    });
    options
}

/// A new process that takes over the files of an earlier one.
fn with_files_of(before: &Process, launch: Launch) -> Result<Process, Error> {
    let mut process = Process::start(launch)?;
    process.adopt_files(before);
    Ok(process)
}

/// The lines as the token's crashes left them.
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
