//! Shows one failure again: the same crash, the same losses, the same recovery.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use crashproof_protocol::{Patch, mode};
use px86::storage::CachedStore;
use px86::{Line, Platform};
use rustc_hash::FxHashMap;

use crate::crash::apply;
use crate::explore::record_run;
use crate::failure::{Failure, Token};
use crate::options::{Options, Part, Recover};
use crate::schedule::Schedule;
use crate::session::{Ending, Error, Session};
use crate::timeline::Timeline;

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
    let arguments: Vec<OsString> = token.arguments.iter().map(OsString::from).collect();
    let mut options = Options::new(program, arguments);
    options.pm_path = token.pm_path.iter().map(PathBuf::from).collect();
    options.pm_heap = token.pm_heap;
    options.platform = if token.eadr { Platform::EADR } else { Platform::ADR };
    if let Some((program, arguments)) = recover.zip(token.recover.get(1..)) {
        let arguments = arguments.iter().map(OsString::from).collect();
        options.recover = Some(Recover { program, arguments, built_from: None });
    }
    let mut session = Session::start(&options, Part::Recorded)?;
    let schedule =
        Schedule { seed: token.seed, strategy: token.strategy, expected_points: token.expected_points };
    let mut records = match record_run(&mut session, &options, schedule) {
        Ok(recorded) => recorded.records.to_vec(),
        // The schedule alone makes it fail.
        Err(Error::FailsAlone { failure, output, .. }) if token.crashes.is_empty() => {
            return Ok(Replay { failure: Some(failure), output });
        }
        Err(error) => return Err(error),
    };
    if token.crashes.is_empty() {
        return Ok(Replay { failure: None, output: session.output_about(Ending::Exit(0)) });
    }
    let files_created = session.files_created();
    if options.recover.is_some() {
        let recorded = session;
        session = Session::start(&options, Part::Recovery)?;
        session.adopt_files(&recorded);
    }
    let mut timelines: Vec<(Timeline, FxHashMap<Line, Vec<CachedStore>>)> = Vec::new();
    for (level, crash) in token.crashes.iter().enumerate() {
        if crash.at > records.len() {
            return Err(Error::Stale);
        }
        let mut timeline = match timelines.last() {
            Some((before, _)) => Timeline::after(&options.platform, before),
            None => Timeline::first(&options.platform, files_created),
        };
        let mut persisted: FxHashMap<Line, Vec<CachedStore>> = FxHashMap::default();
        for record in &records[..crash.at] {
            timeline.advance_into(record, &mut persisted);
        }
        timeline.is_crash_point(&records);
        timelines.push((timeline, persisted));
        let last = level + 1 == token.crashes.len();
        if let Some(debugger) = debugger.filter(|_| last) {
            // A process of its own: the debugger follows it into this recovery, not into the runs before.
            let before = session;
            session = Session::start_under(debugger, &options, Part::Recovery)?;
            session.adopt_files(&before);
        }
        let control = session.control();
        control.mode = mode::RECOVER;
        schedule.apply(control);
        control.crashes = level as u32 + 1;
        control.arena_end = timelines[level].0.arena_end;
        control.files_absent = timelines[level].0.files_absent;
        control.heap_ends = timelines[level].0.heap_ends;
        control.max_records = options.max_records;
        control.max_cpu_seconds = if debugger.is_some() { 0 } else { options.max_cpu_seconds };
        let ending = session.run(&patches(&session, token, &timelines))?;
        if last {
            return Ok(Replay { failure: Failure::of(ending), output: session.output_about(ending) });
        }
        records = session.records().to_vec();
    }
    Err(Error::Stale)
}

/// The lines as the crashes left them, according to the token.
fn patches(
    session: &Session,
    token: &Token,
    timelines: &[(Timeline, FxHashMap<Line, Vec<CachedStore>>)],
) -> Vec<Patch> {
    let mut lines: BTreeSet<Line> = BTreeSet::new();
    for (timeline, persisted) in timelines {
        lines.extend(timeline.open_lines());
        lines.extend(persisted.keys());
    }
    let content = |line: Line| {
        let mut bytes = session.image_line(line);
        for ((timeline, persisted), crash) in timelines.iter().zip(&token.crashes) {
            persisted.get(&line).into_iter().flatten().for_each(|store| apply(&mut bytes, store));
            let open = timeline.stores(line);
            let kept = crash.kept.iter().find(|(number, _)| *number == line.0);
            let kept = kept.map_or(open.len(), |(_, kept)| (*kept).min(open.len()));
            open[..kept].iter().for_each(|store| apply(&mut bytes, store));
        }
        bytes
    };
    lines.into_iter().map(|line| Patch { address: line.start(), bytes: content(line) }).collect()
}
