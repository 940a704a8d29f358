//! Shows one failure again: the same crash, the same losses, the same recovery.

use std::ffi::OsString;
use std::path::PathBuf;

use crashproof_protocol::{ARENA, Patch, mode};
use px86::{Line, Platform};

use crate::crash::apply;
use crate::explore::{Options, record_run};
use crate::failure::{Failure, Token};
use crate::session::{Error, Session};
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
/// again if the token names a source.
pub fn replay(token: &Token, program: PathBuf, debugger: Option<&[OsString]>) -> Result<Replay, Error> {
    let arguments: Vec<OsString> = token.arguments.iter().map(OsString::from).collect();
    let options = Options::new(program.clone(), arguments.clone());
    let mut session = Session::start(&program, &arguments)?;
    let records = record_run(&mut session, &options)?;
    if token.at > records.len() {
        return Err(Error::Stale);
    }
    if let Some(debugger) = debugger {
        // A process of its own: the debugger follows it into the recovery, not into the recorded run.
        session = Session::start_under(debugger, &program, &arguments)?;
    }
    let mut timeline = Timeline::new(Platform::Adr, ARENA.base);
    for record in &records[..token.at] {
        for store in timeline.advance(record) {
            session.set_image(store.event.address, store.event.width, store.event.value);
        }
    }
    let kept = |line: Line, all: usize| {
        token.kept.iter().find(|(number, _)| *number == line.0).map_or(all, |(_, kept)| (*kept).min(all))
    };
    let patches: Vec<Patch> = timeline
        .open_lines()
        .iter()
        .filter_map(|&line| {
            let stores = timeline.execution().line(line)?.stores();
            let mut bytes = session.image_line(line);
            stores[..kept(line, stores.len())].iter().for_each(|store| apply(&mut bytes, store));
            Some(Patch { address: line.start(), bytes })
        })
        .collect();
    let control = session.control();
    control.mode = mode::RECOVER;
    control.crashes = 1;
    control.arena_end = timeline.arena_end;
    control.max_records = options.max_records;
    control.max_cpu_seconds = if debugger.is_some() { 0 } else { options.max_cpu_seconds };
    let ending = session.run(&patches)?;
    Ok(Replay { failure: Failure::of(ending), output: session.output_tail() })
}
