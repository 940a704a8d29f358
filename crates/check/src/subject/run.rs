//! One run of a subject: mode, starting point and limits.
//!
//! [`Run::fill`] is the only place that fills the control block, and [`RunLimits`] the only one that determines limits.
//! A check and the replay of its findings therefore stop at the same point.

use crashproof_protocol::{
    ARENA, Control, HEAP_CLASSES, IDLE_READS_OF_RECORDING, IDLE_READS_OF_RECOVERY, mode, schedule,
};

/// What a run records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Everything it does to persistent memory; with `regions`, also reads within strands and epochs.
    Record { regions: bool },
    /// Its stores, and the first read of every pre-crash byte.
    Recover,
}

/// One interleaving of the threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Schedule {
    pub(crate) seed: u32,
    /// How it is made from the seed; see [`crashproof_protocol::schedule`].
    pub(crate) strategy: u32,
    /// Number of points at which threads can be switched in the run of seed 0; 0 if unknown.
    pub(crate) expected_points: u64,
}

impl Schedule {
    /// A schedule that follows decisions; its number is irrelevant.
    pub(crate) const DECIDED: Schedule =
        Schedule { seed: 1, strategy: schedule::DECISIONS, expected_points: 0 };
}

/// State that survives every crash because it is durable at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Durable {
    /// End of the arena.
    pub(crate) arena_end: u64,
    /// Ends of the heap's size classes.
    pub(crate) heap_ends: [u64; HEAP_CLASSES],
}

impl Durable {
    /// The state before the first run.
    pub(crate) fn nothing() -> Durable {
        Durable { arena_end: ARENA.base, heap_ends: [0; HEAP_CLASSES] }
    }
}

/// The limits of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// PM events.
    pub(crate) records: u64,
    /// Seconds of processor time; 0 for no limit.
    pub(crate) cpu_seconds: u32,
    /// Consecutive reads of persistent memory that bring nothing new.
    pub(crate) idle_reads: u64,
}

/// The limits of the runs of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunLimits {
    /// PM events of any run.
    pub(crate) max_records: u64,
    /// Seconds of processor time for the recorded run.
    pub(crate) max_run_seconds: u32,
    /// Seconds of processor time for a recovery.
    pub(crate) max_cpu_seconds: u32,
}

impl RunLimits {
    /// For the recorded run.
    pub(crate) fn recording(self) -> Limits {
        Limits {
            records: self.max_records,
            cpu_seconds: self.max_run_seconds,
            idle_reads: IDLE_READS_OF_RECORDING,
        }
    }

    /// For a recovery of a run with this many records: one that does far more work than the run itself is endless.
    pub(crate) fn recovery(self, recorded: usize) -> Limits {
        let records = (recorded as u64 * 20 + 1_000_000).min(self.max_records);
        Limits { records, cpu_seconds: self.max_cpu_seconds, idle_reads: IDLE_READS_OF_RECOVERY }
    }
}

/// One run of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) mode: Mode,
    pub(crate) schedule: Schedule,
    /// The number of crashes before it.
    pub(crate) crashes: usize,
    /// State left by those, in addition to the image and the patches.
    pub(crate) durable: Durable,
    pub(crate) limits: Limits,
}

impl Run {
    /// Fills the control block.
    pub(crate) fn fill(&self, control: &mut Control) {
        control.mode = match self.mode {
            Mode::Record { regions: true } => mode::RECORD_REGIONS,
            Mode::Record { regions: false } => mode::RECORD,
            Mode::Recover => mode::RECOVER,
        };
        control.seed = self.schedule.seed;
        control.strategy = self.schedule.strategy;
        control.expected_points = self.schedule.expected_points;
        control.crashes = self.crashes as u32;
        control.arena_end = self.durable.arena_end;
        control.heap_ends = self.durable.heap_ends;
        control.max_records = self.limits.records;
        control.max_cpu_seconds = self.limits.cpu_seconds;
        control.max_idle_reads = self.limits.idle_reads;
    }
}
