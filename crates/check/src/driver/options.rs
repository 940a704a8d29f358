//! The options of a check.

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
    /// The working directory; the current one if not given.
    pub directory: Option<PathBuf>,
    /// The source the program was built from, which replay tokens then name instead of its path.
    pub built_from: Option<PathBuf>,
    /// The other sources it was built from.
    pub more_sources: Vec<PathBuf>,
    /// Compiler arguments added by the user.
    pub cflags: Vec<OsString>,
    /// The command to run after a crash, if not the same one.
    pub recover: Option<Recover>,
    /// Which caches are persistent.
    pub platform: Platform,
    /// How many crashes in a row, 1 to [`crate::MAX_CRASHES`]: from 2 on, recovery is crashed, too.
    pub crashes: usize,
    /// Schedules to try if the program has threads; at least 1.
    pub schedules: u32,
    /// Explore all schedules up to equivalence within this budget, instead of a fixed number.
    pub all_schedules: Option<Budget>,
    /// How schedules are made from seeds.
    pub strategy: Strategy,
    /// Directories whose files count as persistent memory when mapped; the runtime's default paths if empty.
    pub pm_path: Vec<PathBuf>,
    /// The medium that files are on, if specified: see [`Options::set_medium`].
    pub medium: Option<Medium>,
    /// Whether all files the program writes are persistent, regardless of location.
    pub all_files: bool,
    /// The command that prepares the files: a program and its arguments.
    pub setup: Vec<String>,
    /// The command that acts as a client once the program waits for input; the run ends when the client does.
    pub client: Vec<String>,
    /// Whether a recovery counts as successful once it waits for input.
    pub until_idle: bool,
    /// The command that verifies such a recovery.
    pub recovered: Vec<String>,
    /// Whether the heap is persistent memory, too.
    pub pm_heap: bool,
    /// Layout and fill patterns of the heap.
    pub heap: Heap,
    /// The environment variables that the program reads, once known: for replay tokens.
    pub environment: Arc<OnceLock<Vec<(String, String)>>>,
    /// Whether to report code that accesses persistent memory without having been rebuilt.
    pub strict: bool,
    /// Check the strands or epochs marked by the program against this model.
    pub model: Option<Model>,
    /// Whether to look for missing flushes on which no recovery failed (robustness).
    pub robust: bool,
    /// Whether to look for plain stores that recovery may read before they are certainly written back.
    pub persistency_races: bool,
    /// Where missing flushes are known to be harmless: at the lost store, or at a load that sees it.
    pub suppress: Vec<Suppression>,
    /// Parallel workers.
    pub jobs: usize,
    /// Maximum number of recoveries per crash of the recorded run: far more than a program needs that flushes what it
    /// relies on. A program that forgets many flushes would need more than there is time for.
    pub max_per_crash: Option<u64>,
    /// Try random crashes instead of all of them.
    pub random: Option<Random>,
    /// Maximum number of recoveries.
    pub max_recoveries: Option<u64>,
    /// Maximum time.
    pub max_time: Option<Duration>,
    /// Maximum number of PM events per run.
    pub max_records: u64,
    /// Maximum processor time of a recovery, in seconds.
    pub max_cpu_seconds: u32,
    /// Maximum processor time of the recorded run, in seconds.
    pub max_run_seconds: u32,
    /// Maximum address space of a run beyond the program's size before `main`, in bytes; 0 for no limit.
    pub max_memory: u64,
    /// Maximum output of a run, in bytes.
    pub max_output: u64,
    /// Memory limit of the check, in bytes.
    pub memory: u64,
    /// Whether to explore crash states whose failure is already known.
    pub exhaustive: bool,
    /// Directory in which to save progress, so that the check can be resumed.
    pub checkpoint: Option<PathBuf>,
    /// The crash points to explore; all if not given.
    pub shards: Option<Shards>,
    /// Checkpoints of shards whose recoveries are reused.
    pub merged: Vec<PathBuf>,
    /// The arguments of the command, for checkpoints.
    pub command: Vec<String>,
    /// Monitors the check, and can end it.
    pub monitor: Arc<Monitor>,
    /// The build id of the program, computed on first use.
    pub build: OnceLock<String>,
    /// The runtime for programs that were not built with it; required to check them.
    pub runtime: Option<PathBuf>,
    /// Isolates the program from the rest of the machine.
    pub sandbox: Sandbox,
}

/// A quarter of the machine's memory, in bytes; 2 GiB if unknown.
fn quarter_of_memory() -> u64 {
    let about = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = about.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = total.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.map_or(2 << 30, |kilobytes| kilobytes / 4 * 1024)
}

impl Options {
    /// Options with the default limits.
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

/// The medium that files are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Medium {
    /// A file system on persistent memory: `write` is durable when it returns, and lines survive individually.
    #[default]
    Dax,
    /// A disk: nothing is durable before `fsync` and its relatives, and sectors of this many bytes survive as a whole.
    Disk(u16),
}

impl Medium {
    /// A disk with the usual sector size.
    pub const DISK: Medium = Medium::Disk(512);
}

/// See [`use_runtime`].
static RUNTIME: OnceLock<PathBuf> = OnceLock::new();

/// Sets the runtime for programs that were not built with crashproof ([`Options::runtime`]).
pub fn use_runtime(path: PathBuf) {
    let _ = RUNTIME.set(path);
}

/// Limits on exploring schedules. Counts, never time: a verdict must not depend on the speed of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Maximum number of schedules, including those that turn out to be redundant.
    pub max_schedules: Option<u64>,
    /// Maximum number of events of all schedules together: steps of threads, and events up to each crash.
    pub max_events: Option<u64>,
    /// Maximum number of preemptions per schedule: switches away from a thread that could continue.
    pub max_preemptions: Option<u32>,
    /// Number of PCT schedules to sample if the budget does not suffice; fewer if they are long.
    pub samples: u32,
}

impl Budget {
    /// The default budget for a program with threads.
    pub fn usual() -> Budget {
        Budget {
            max_schedules: Some(10_000),
            max_events: Some(2_000_000),
            max_preemptions: None,
            samples: 16,
        }
    }

    /// No limits, except that a loop with undetected waiting has infinitely many schedules.
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
    /// As for [`Options::built_from`].
    pub built_from: Option<PathBuf>,
}

impl Options {
    /// Identifies the build of the program: its code and constants, not where or when it was built. Empty if
    /// unreadable.
    pub(crate) fn build_id(&self) -> &str {
        self.build.get_or_init(|| build_id(&self.program).unwrap_or_default())
    }

    /// How to start the recorded program.
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
        // A recovery that is crashed in turn is a recorded run: its changes to other files persist.
        let undo = if self.crashes == 1 { flag::UNDO_FILES } else { 0 };
        disk | all | undo
    }

    /// Sets the medium that files are on.
    pub fn set_medium(&mut self, medium: Medium) {
        self.medium = Some(medium);
        if let Medium::Disk(sector) = medium {
            let files = Line::containing(FILES.base)..Line::containing(FILES.end());
            self.platform = self.platform.clone().with(files, Domain::disk(sector));
        }
    }

    /// How to start the recovering program.
    pub(crate) fn launch_recovery(&self) -> Launch {
        match &self.recover {
            None => self.launch(),
            Some(Recover { program, arguments, .. }) => {
                Launch { program: program.clone(), arguments: arguments.clone(), ..self.launch() }
            }
        }
    }

    /// The limits of each run.
    pub(crate) fn run_limits(&self) -> RunLimits {
        RunLimits {
            max_records: self.max_records,
            max_run_seconds: self.max_run_seconds,
            max_cpu_seconds: self.max_cpu_seconds,
        }
    }

    /// The limits of the search.
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

    /// Are both commands the same program, possibly with different arguments?
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
