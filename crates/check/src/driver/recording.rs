//! The recorded run: what a check crashes, and what a replay repeats.

use crashproof_protocol::{Record, exit, record};
use px86::Kind;

use crate::subject::{Durable, Ending, Error, Failure, Mode, Run, RunLimits, Schedule, Subject, Trace};

/// A recorded run.
pub(crate) struct Recorded {
    pub(crate) records: Trace,
    /// Number of threads.
    pub(crate) threads: u32,
    /// Number of points at which they could be switched.
    pub(crate) switch_points: u64,
}

impl Recorded {
    /// Did it do anything to persistent memory that a crash could undo, as far as this can be told?
    pub(crate) fn touches_persistent_memory(&self) -> bool {
        let touches = |record: &Record| {
            record.kind() == record::UNKNOWN || record.event_kind().is_some_and(Kind::stores)
        };
        self.records.iter().any(touches)
    }
}

/// Runs the program once, undisturbed, and records it; with `regions`, also for the analysis of strands and epochs.
pub(crate) fn record_run<S: Subject>(
    subject: &mut S,
    regions: bool,
    schedule: Schedule,
    limits: RunLimits,
) -> Result<Recorded, Error> {
    subject.forget_trace();
    let run = Run {
        mode: Mode::Record { regions },
        schedule,
        crashes: 0,
        durable: Durable::nothing(),
        limits: limits.recording(),
    };
    let ended = subject.run(&run, &[])?;
    match ended.ending {
        Ending::Limit(limit) => return Err(Error::Limit(limit)),
        Ending::Exit(exit::UNSUPPORTED) => {
            return Err(Error::Unsupported { output: subject.output(ended.ending) });
        }
        _ => {}
    }
    if let Some(failure) = Failure::of(ended.ending) {
        let how = format!("it {}", failure.describe());
        return Err(Error::FailsAlone { how, failure, output: subject.output(ended.ending) });
    }
    let records = subject.keep_trace()?;
    Ok(Recorded { records, threads: ended.threads, switch_points: ended.switch_points })
}
