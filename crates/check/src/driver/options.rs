//! What a check is asked to do.

use std::ffi::OsString;
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crashproof_protocol::{FILES, flag};
use object::{Object, ObjectSection};
use px86::{Domain, Line, Platform};
use rustc_hash::FxHasher;

use crate::driver::monitor::Monitor;
use crate::judge::{Model, Suppression};
use crate::search::{Random, Settings, Shards, Strategy};
use crate::subject::{Heap, Launch, Placement, RunLimits, Sandbox};

/// What to check, and how far to go.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program, built with crashproof.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Where it runs, if not here.
    pub directory: Option<PathBuf>,
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
    /// Instead of that many, explore all schedules, up to equivalence, as far as this goes.
    pub all_schedules: Option<Budget>,
    /// How schedules are made from seeds.
    pub strategy: Strategy,
    /// Files below these count as persistent memory when they are mapped; if empty, those below the runtime's default
    /// paths.
    pub pm_path: Vec<PathBuf>,
    /// What files are on, if anybody said so: see [`Options::set_medium`].
    pub medium: Option<Medium>,
    /// Whether every file that the program writes is persistent, wherever it is.
    pub all_files: bool,
    /// What prepares the files: a program and its arguments.
    pub setup: Vec<String>,
    /// What talks to the program once it waits for input; the run ends when it does.
    pub client: Vec<String>,
    /// Whether a recovery that waits for input has recovered.
    pub until_idle: bool,
    /// What asks such a recovery whether it has.
    pub recovered: Vec<String>,
    /// Whether the heap is persistent memory too.
    pub pm_heap: bool,
    /// How it lies, and what it holds.
    pub heap: Heap,
    /// The variables of the environment that the program asks for, once that is known: for replay tokens.
    pub environment: Arc<OnceLock<Vec<(String, String)>>>,
    /// Whether whatever touches persistent memory unseen is to be named.
    pub strict: bool,
    /// Whether to hold the strands or epochs that the program marks against their model.
    pub model: Option<Model>,
    /// Whether to look for missing flushes that recovery did not fail on (robustness).
    pub robust: bool,
    /// Whether to look for plain stores that recovery may read before they are surely written back.
    pub persistency_races: bool,
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
    /// Bytes of address space a run may take beyond what the program has before `main`; 0 for any.
    pub max_memory: u64,
    /// Bytes a run may print.
    pub max_output: u64,
    /// Bytes of memory that the check is to stay within.
    pub memory: u64,
    /// Whether crash states are explored, too, whose failure is known.
    pub exhaustive: bool,
    /// Where to keep what is done, so that the same check can go on there.
    pub checkpoint: Option<PathBuf>,
    /// The crash points to take; all if not given.
    pub shards: Option<Shards>,
    /// Checkpoints of shards whose recoveries are known already.
    pub merged: Vec<PathBuf>,
    /// The arguments of the command, for checkpoints.
    pub command: Vec<String>,
    /// Watches the check, and can end it.
    pub monitor: Arc<Monitor>,
    /// The build id of the program, computed on first use.
    pub build: OnceLock<String>,
    /// The runtime, for programs that were not built with it; without it they cannot be checked.
    pub runtime: Option<PathBuf>,
    /// What keeps the program from the rest of the machine.
    pub sandbox: Sandbox,
}

/// A quarter of the machine's memory, in bytes; 2 GiB if that is not known.
fn quarter_of_memory() -> u64 {
    let about = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = about.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = total.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.map_or(2 << 30, |kilobytes| kilobytes / 4 * 1024)
}

impl Options {
    /// The usual limits for a program.
    pub fn new(program: PathBuf, arguments: Vec<OsString>) -> Options {
        Options {
            program,
            arguments,
            directory: None,
            built_from: None,
            more_sources: Vec::new(),
            cflags: Vec::new(),
            recover: None,
            platform: Platform::ADR,
            crashes: 1,
            schedules: 1,
            all_schedules: None,
            strategy: Strategy::default(),
            pm_path: Vec::new(),
            medium: None,
            all_files: false,
            setup: Vec::new(),
            client: Vec::new(),
            until_idle: false,
            recovered: Vec::new(),
            pm_heap: false,
            heap: Heap::default(),
            environment: Arc::default(),
            strict: false,
            model: None,
            robust: true,
            persistency_races: false,
            suppress: Vec::new(),
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            max_per_crash: Some(1000),
            random: None,
            max_recoveries: None,
            max_time: None,
            max_records: 200_000_000,
            max_cpu_seconds: 10,
            max_run_seconds: 600,
            max_memory: 0,
            max_output: 256 << 20,
            memory: quarter_of_memory(),
            exhaustive: false,
            checkpoint: None,
            shards: None,
            merged: Vec::new(),
            command: Vec::new(),
            monitor: Arc::default(),
            build: OnceLock::new(),
            runtime: RUNTIME.get().cloned(),
            sandbox: Sandbox::default(),
        }
    }
}

/// What files are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Medium {
    /// A file system of persistent memory: `write` is durable when it returns, lines survive one by one.
    #[default]
    Dax,
    /// A disk: nothing is durable before `fsync` and its relatives, and sectors of so many bytes survive whole.
    Disk(u16),
}

impl Medium {
    /// A disk as disks are.
    pub const DISK: Medium = Medium::Disk(512);
}

/// See [`use_runtime`].
static RUNTIME: OnceLock<PathBuf> = OnceLock::new();

/// From here on programs that were not built with crashproof get this runtime ([`Options::runtime`]).
pub fn use_runtime(path: PathBuf) {
    let _ = RUNTIME.set(path);
}

/// How many schedules to explore. Numbers of things, never time: a verdict must not depend on how fast the machine is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Most schedules to explore; those that turned out to be redundant count.
    pub max_schedules: Option<u64>,
    /// Most events of all of them together: steps of threads, and events up to which a schedule is crashed.
    pub max_events: Option<u64>,
    /// Most preemptions of a schedule: switches away from a thread that could go on.
    pub max_preemptions: Option<u32>,
    /// Schedules of PCT to try if the budget does not reach; fewer if they are long.
    pub samples: u32,
}

impl Budget {
    /// The default budget of a program with threads.
    pub fn usual() -> Budget {
        Budget {
            max_schedules: Some(10_000),
            max_events: Some(2_000_000),
            max_preemptions: None,
            samples: 16,
        }
    }

    /// Whatever there is; but a loop that waits in a way that is not seen has infinitely many schedules.
    pub fn all() -> Budget {
        Budget { max_schedules: Some(100_000), max_events: None, ..Budget::usual() }
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
    /// Identifies the build of the program: its code and constants, not where or when it was built. Empty if it cannot be
    /// read.
    pub(crate) fn build_id(&self) -> &str {
        self.build.get_or_init(|| build_id(&self.program).unwrap_or_default())
    }

    /// How to start the program that is recorded.
    pub(crate) fn launch(&self) -> Launch {
        Launch {
            program: self.program.clone(),
            arguments: self.arguments.clone(),
            directory: self.directory.clone(),
            wrapper: Vec::new(),
            pm_path: self.pm_path.clone(),
            pm_heap: self.pm_heap,
            strict: self.strict,
            platform: self.platform.clone(),
            max_memory: self.max_memory,
            most_memory: self.memory.saturating_mul(2),
            max_output: self.max_output,
            switches: self.switches(),
            client: self.client.clone(),
            until_idle: self.until_idle,
            recovered: self.recovered.clone(),
            placement: Placement::Usual,
            heap: self.heap,
            environment: self.environment.get().cloned().unwrap_or_default(),
            interrupt: self.monitor.interrupt(),
            runtime: self.runtime.clone(),
            sandbox: self.sandbox.clone(),
        }
    }

    fn switches(&self) -> u32 {
        let disk = if matches!(self.medium, Some(Medium::Disk(_))) { flag::DISK } else { 0 };
        let all = if self.all_files { flag::ALL_FILES } else { 0 };
        // A recovery that is crashed again is a recorded run: what it does to other files stays.
        let undo = if self.crashes == 1 { flag::UNDO_FILES } else { 0 };
        disk | all | undo
    }

    /// Puts files on a medium.
    pub fn set_medium(&mut self, medium: Medium) {
        self.medium = Some(medium);
        if let Medium::Disk(sector) = medium {
            let files = Line::containing(FILES.base)..Line::containing(FILES.end());
            self.platform = self.platform.clone().with(files, Domain::disk(sector));
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
            memory: self.memory,
            exhaustive: self.exhaustive,
            shards: self.shards.clone(),
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

fn build_id(program: &Path) -> Option<String> {
    let bytes = std::fs::read(program).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let mut hasher = FxHasher::default();
    for name in [".text", ".rodata", ".data"] {
        let section = file.section_by_name(name).and_then(|section| section.data().ok());
        hasher.write(section.unwrap_or_default());
    }
    Some(format!("{:016x}", hasher.finish()))
}
