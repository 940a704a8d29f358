//! What is asked of a check, and what it answers.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use num_bigint::BigUint;
use px86::Platform;

use crate::failure::Finding;
use crate::monitor::Monitor;
use crate::regions::{Dependence, Model};
use crate::schedule::Strategy;
use crate::suppress::Suppression;
use crate::violation::Violation;
use crate::wasted::Waste;

/// What to check, and how far to go.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program, built with crashproof.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// What to call the program in replay tokens, if not by its path: the source it was built from.
    pub built_from: Option<PathBuf>,
    /// What to run after a crash, if not the same command again.
    pub recover: Option<Recover>,
    /// Whether caches survive.
    pub platform: Platform,
    /// How many crashes in a row, 1 to [`crate::MAX_CRASHES`]: from 2 on recovery is crashed too.
    pub crashes: usize,
    /// Schedules to try if the program has threads; at least one.
    pub schedules: u32,
    /// How they are made.
    pub strategy: Strategy,
    /// Files below these count as persistent memory when they are mapped; if empty, the runtime's own idea
    /// of where such files are.
    pub pm_path: Vec<PathBuf>,
    /// Whether the heap is persistent memory too.
    pub pm_heap: bool,
    /// Whether whatever touches persistent memory unseen is to be named.
    pub strict: bool,
    /// Whether to hold the strands or epochs that the program marks against their model.
    pub model: Option<Model>,
    /// Whether to look for missing flushes that recovery did not fail on (robustness).
    pub robust: bool,
    /// Where missing flushes are known to be harmless: at the lost store, or at a load that sees it.
    pub suppress: Vec<Suppression>,
    /// Processes that recover at the same time.
    pub jobs: usize,
    /// Recoveries to run at most for one crash of the recorded run. Far more than a program needs that flushes
    /// what it relies on; one that forgets many flushes would need more than there is time for.
    pub max_per_crash: Option<u64>,
    /// Instead of everything, try so many crashes at random.
    pub random: Option<Random>,
    /// Recoveries to run at most.
    pub max_recoveries: Option<u64>,
    /// Time to spend at most.
    pub max_time: Option<Duration>,
    /// PM events a single run may have.
    pub max_records: u64,
    /// Seconds of processor time a recovery may take.
    pub max_cpu_seconds: u32,
    /// Seconds of processor time the recorded run may take.
    pub max_run_seconds: u32,
    /// Bytes of memory a run may take beyond what the program has before `main`.
    pub max_memory: u64,
    /// Tells how the check is coming along, and can end it.
    pub monitor: Arc<Monitor>,
}

impl Options {
    /// The usual limits for a program.
    pub fn new(program: PathBuf, arguments: Vec<OsString>) -> Options {
        Options {
            program,
            arguments,
            built_from: None,
            recover: None,
            platform: Platform::ADR,
            crashes: 1,
            schedules: 1,
            strategy: Strategy::default(),
            pm_path: Vec::new(),
            pm_heap: false,
            strict: false,
            model: None,
            robust: true,
            suppress: Vec::new(),
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            max_per_crash: Some(1000),
            random: None,
            max_recoveries: None,
            max_time: None,
            max_records: 50_000_000,
            max_cpu_seconds: 10,
            max_run_seconds: 600,
            max_memory: 4 << 30,
            monitor: Arc::default(),
        }
    }
}

/// A command that recovers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recover {
    /// The program, built with crashproof.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// As [`Options::built_from`].
    pub built_from: Option<PathBuf>,
}

/// Which of the two commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The one that is recorded.
    Recorded,
    /// The one that runs after a crash.
    Recovery,
}

impl Options {
    /// Program and arguments of a command.
    pub(crate) fn command(&self, part: Part) -> (&Path, &[OsString]) {
        match &self.recover {
            Some(recover) if part == Part::Recovery => (&recover.program, &recover.arguments),
            _ => (&self.program, &self.arguments),
        }
    }

    /// Are both commands the same program, whatever its arguments?
    pub(crate) fn one_program(&self) -> bool {
        let real = |path: &Path| path.canonicalize().ok();
        self.recover.as_ref().is_none_or(|recover| {
            recover.program == self.program
                || real(&recover.program).is_some_and(|it| Some(it) == real(&self.program))
        })
    }
}

/// Random crashes instead of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random {
    /// How many, for each schedule.
    pub crashes: u64,
    /// What they follow from.
    pub seed: u64,
}

/// Figures about a check.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// PM events of the recorded runs.
    pub events: u64,
    /// Schedules tried; one if the program has no threads.
    pub schedules: u32,
    /// Places where the program was crashed.
    pub failure_points: u64,
    /// Recoveries run.
    pub recoveries: u64,
    /// Recoveries that need not run, because their behaviour was known.
    pub recoveries_saved: u64,
    /// Different things recovery was seen to do.
    pub behaviours: u64,
    /// Contents that were not tried because a checksum is trusted to refuse them.
    pub checksummed: BigUint,
    /// Recoveries an eager checker would run.
    pub eager_states: BigUint,
    /// Time for recording.
    pub recording: Duration,
    /// Time for everything else.
    pub exploring: Duration,
}

/// What came of a check.
#[derive(Clone, Debug)]
pub struct Report {
    /// What is wrong, the least that must be lost first.
    pub findings: Vec<Finding>,
    /// Strands or epochs that depend on each other.
    pub dependences: Vec<Dependence>,
    /// Missing flushes that no recovery failed on; those of which nothing can come last.
    pub violations: Vec<Violation>,
    /// The suppressions that suppressed nothing.
    pub unused_suppressions: Vec<Suppression>,
    /// Flushes and fences that did nothing.
    pub waste: Vec<Waste>,
    /// Why the check is not complete; empty if it is.
    pub unknown: Vec<String>,
    /// What else the verdict rests on.
    pub remarks: Vec<String>,
    /// How many crashes in a row were tried.
    pub crashes: usize,
    /// Figures.
    pub statistics: Statistics,
}

/// A number that may be too long to read: its size, if it is.
pub fn readable(number: &BigUint) -> String {
    let digits = number.to_string();
    match digits.len() {
        0..=15 => digits,
        length => format!("{}.{}e{}", &digits[..1], &digits[1..3], length - 1),
    }
}

impl Report {
    /// How many findings are errors: failures, regions that depend on each other, and every missing flush that
    /// something can come of.
    pub fn errors(&self) -> usize {
        let missing = self.violations.iter().filter(|violation| !violation.same_value).count();
        self.findings.len() + self.dependences.len() + missing
    }
}
