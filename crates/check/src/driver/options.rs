//! What a check is asked to do.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use px86::Platform;

use crate::driver::monitor::Monitor;
use crate::judge::{Model, Suppression};
use crate::search::{Random, Settings, Strategy};
use crate::subject::{Launch, RunLimits};

/// What to check, and how far to go.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program, built with crashproof.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// What to call the program in replay tokens, if not by its path: the source it was built from.
    pub built_from: Option<PathBuf>,
    /// The other sources it was built from.
    pub more_sources: Vec<PathBuf>,
    /// What the user added to the arguments of the compiler that built it.
    pub cflags: Vec<OsString>,
    /// What to run after a crash, if not the same command again.
    pub recover: Option<Recover>,
    /// Whether caches survive.
    pub platform: Platform,
    /// How many crashes in a row, 1 to [`crate::MAX_CRASHES`]: from 2 on recovery is crashed too.
    pub crashes: usize,
    /// Schedules to try if the program has threads; at least 1.
    pub schedules: u32,
    /// How they are made.
    pub strategy: Strategy,
    /// Files below these count as persistent memory when they are mapped; if empty, those below the runtime's default
    /// paths.
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
    /// Parallel workers.
    pub jobs: usize,
    /// Maximum number of recoveries for one crash of the recorded run: far more than a program needs that flushes what
    /// it relies on. One that forgets many flushes would need more than there is time for.
    pub max_per_crash: Option<u64>,
    /// Try random crashes instead of all.
    pub random: Option<Random>,
    /// Maximum number of recoveries.
    pub max_recoveries: Option<u64>,
    /// Maximum time.
    pub max_time: Option<Duration>,
    /// PM events a single run may have.
    pub max_records: u64,
    /// Seconds of processor time a recovery may take.
    pub max_cpu_seconds: u32,
    /// Seconds of processor time the recorded run may take.
    pub max_run_seconds: u32,
    /// Bytes of memory a run may take beyond what the program has before `main`.
    pub max_memory: u64,
    /// Watches the check, and can end it.
    pub monitor: Arc<Monitor>,
}

impl Options {
    /// The usual limits for a program.
    pub fn new(program: PathBuf, arguments: Vec<OsString>) -> Options {
        Options {
            program,
            arguments,
            built_from: None,
            more_sources: Vec::new(),
            cflags: Vec::new(),
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

impl Options {
    /// How to start the program that is recorded.
    pub(crate) fn launch(&self) -> Launch {
        Launch {
            program: self.program.clone(),
            arguments: self.arguments.clone(),
            wrapper: Vec::new(),
            pm_path: self.pm_path.clone(),
            pm_heap: self.pm_heap,
            strict: self.strict,
            platform: self.platform.clone(),
            max_memory: self.max_memory,
            interrupt: self.monitor.interrupt(),
        }
    }

    /// How to start the program that recovers.
    pub(crate) fn launch_recovery(&self) -> Launch {
        match &self.recover {
            None => self.launch(),
            Some(Recover { program, arguments, .. }) => {
                Launch { program: program.clone(), arguments: arguments.clone(), ..self.launch() }
            }
        }
    }

    /// How long each run may go on.
    pub(crate) fn run_limits(&self) -> RunLimits {
        RunLimits {
            max_records: self.max_records,
            max_run_seconds: self.max_run_seconds,
            max_cpu_seconds: self.max_cpu_seconds,
        }
    }

    /// How far to search.
    pub(crate) fn search(&self) -> Settings {
        Settings {
            platform: self.platform.clone(),
            crashes: self.crashes,
            max_per_crash: self.max_per_crash,
            max_recoveries: self.max_recoveries,
            max_time: self.max_time,
            limits: self.run_limits(),
            history: self.robust,
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
