//! `crashproof check`.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use crashproof_check::{
    Budget, Error, Heap, MAX_CRASHES, Medium, Model, Options, Random, Recover, Sandbox, Shards, Strategy,
    Suppression,
};
use crashproof_findings::config::Config;
use crashproof_findings::{Report, Sources};

use crate::build::Programs;
use crate::cluster::{self, Cluster};
use crate::exit::{self, Exit};
use crate::json_lines::JsonLines;
use crate::merge;
use crate::output::Output;
use crate::progress::Watch;
use crate::saved;
use crate::settings::{Compiler, Machine, Memory, Overrides, Words, platform};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Program, however it was built, or its C, C++ or Rust source
    ///
    /// Built with `crashproof cc`, `c++` or `cargo` it is checked fastest; any other dynamic executable is followed while it
    /// runs.
    #[arg(value_name = "PROGRAM")]
    pub(crate) program: PathBuf,

    /// Further C or C++ sources of the same program
    #[arg(value_name = "SOURCE")]
    more_sources: Vec<PathBuf>,

    #[command(flatten)]
    compiler: Compiler,

    /// Arguments for the program, after `--`
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<OsString>,

    /// Directory in which the program runs [default: this one]
    #[arg(long, value_name = "DIR", help_heading = "What to check")]
    directory: Option<PathBuf>,

    /// Command to run after a crash [default: the same command again]
    ///
    /// For example --recover "./repair --all pool". It may be PROGRAM with other arguments.
    #[arg(long, value_name = "CMD", value_parser = |text: &str| command(text).map(|_| text.to_owned()))]
    #[arg(help_heading = "What to check")]
    recover: Option<String>,

    /// Command that prepares the files before the run, without any crash
    ///
    /// Its program may be PROGRAM with other arguments, another one built with crashproof, or any other.
    #[arg(long, value_name = "CMD", value_parser = |text: &str| command(text).map(|_| text.to_owned()))]
    #[arg(help_heading = "Servers and files")]
    setup: Option<String>,

    /// Command to run once the program waits for input; the run ends when the command does
    ///
    /// For servers. Their recovery has recovered when it waits for input, too, as with --until-idle.
    #[arg(long, value_name = "CMD", value_parser = |text: &str| command(text).map(|_| text.to_owned()))]
    #[arg(help_heading = "Servers and files")]
    client: Option<String>,

    /// A recovery that waits for input has recovered
    #[arg(long, help_heading = "Servers and files")]
    until_idle: bool,

    /// Command that asks a recovery that waits for input; if it fails, recovery has failed
    #[arg(long, value_name = "CMD", value_parser = |text: &str| command(text).map(|_| text.to_owned()))]
    #[arg(help_heading = "Servers and files")]
    recovered: Option<String>,

    /// What files are on [default: dax; disk if the program syncs what it maps and never flushes it]
    ///
    /// With 'disk' and without --pm-path, every file that the program writes is persistent.
    #[arg(long, value_enum, value_name = "MEDIUM", help_heading = "Servers and files")]
    medium: Option<MediumName>,

    /// Bytes of a disk's sector, which survives a crash whole
    #[arg(long, value_name = "BYTES", default_value_t = 512, value_parser = sector)]
    #[arg(help_heading = "Servers and files")]
    sector: u16,

    #[command(flatten)]
    memory: Memory,

    /// What a persistent heap's memory holds: 'FRESH,FREED' in hexadecimal, 'zero' or 'none' [default: cd,dd]
    ///
    /// One byte for fresh and one for freed memory; 'zero' for fresh memory that is zero, 'none' to leave freed memory as
    /// it was, too.
    #[arg(long, value_name = "FRESH,FREED", value_parser = fill, help_heading = "What to check")]
    fill: Option<Fill>,

    /// Number of layouts of a persistent heap to try, 16 bytes apart
    ///
    /// They differ in where blocks begin in their cache lines: a flush of the first of two lines is found wherever an
    /// object may straddle them.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4))]
    #[arg(help_heading = "What to check")]
    layouts: u32,

    #[command(flatten)]
    machine: Machine,

    /// Check the marked strands or epochs against a persistency model
    ///
    /// Regions are marked with crashproof_strand_begin and its relatives of crashproof.h.
    #[arg(long, value_enum, value_name = "MODEL", help_heading = "What to check")]
    model: Option<PersistencyModel>,

    /// Report only failed recoveries, not missing flushes that no recovery failed on
    #[arg(long, help_heading = "What to check")]
    no_robust: bool,

    /// Report plain stores that recovery may read before they are surely written back: a compiler may split them
    #[arg(long, help_heading = "What to check")]
    persistency_races: bool,

    /// Ignore missing flushes at FILE:LINE, FILE:FIRST-LAST or FILE:FUNCTION; may be repeated
    ///
    /// The place is that of the lost store or of the load that sees it.
    #[arg(long, value_name = "PLACE", help_heading = "What to check")]
    suppress: Vec<Suppression>,

    /// Name every untracked access to persistent memory, with its callers (slow)
    ///
    /// For finding out why a verdict is UNKNOWN.
    #[arg(long, help_heading = "What to check")]
    strict: bool,

    /// Maximum number of crashes per run; from 2 on, recovery is crashed too [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=MAX_CRASHES as i64))]
    #[arg(help_heading = "How far to go")]
    crashes: Option<u8>,

    /// Maximum number of recoveries per crash point; 0 for no limit [default: 1000]
    #[arg(long, value_name = "N", help_heading = "How far to go")]
    max_per_crash: Option<u64>,

    /// Maximum number of recoveries
    #[arg(long, value_name = "N", help_heading = "How far to go")]
    max_recoveries: Option<u64>,

    /// Memory that the check stays within, such as 500M or 4G [default: a quarter of the machine's]
    ///
    /// What does not fit is forgotten and found again, which takes time.
    #[arg(long = "memory", value_name = "BYTES", value_parser = bytes, help_heading = "How far to go")]
    memory_bound: Option<u64>,

    /// Address space that a run may take, such as 16G [default: no limit]
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = "How far to go")]
    address_space: Option<u64>,

    /// Output of a run that is kept, such as 1G [default: 256M]
    #[arg(long = "output-limit", alias = "output", value_name = "BYTES", value_parser = bytes)]
    #[arg(help_heading = "How far to go")]
    output_bytes: Option<u64>,

    /// Maximum number of events of persistent memory in the recorded run [default: 200000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    #[arg(help_heading = "How far to go")]
    max_events: Option<u64>,

    /// Explore crash states that fail for a known reason, too
    ///
    /// Those that lose a store without which recovery has failed before, or leave something that it has waited for for
    /// ever.
    #[arg(long, help_heading = "How far to go")]
    exhaustive: bool,

    /// Maximum time, in seconds
    #[arg(long, value_name = "SECONDS", help_heading = "How far to go")]
    time: Option<u64>,

    /// Keep what is done in DIR; the same command goes on there after it was interrupted
    ///
    /// On another machine, too, if it is the same program. What recoveries did is kept, so that none is run twice.
    #[arg(long, value_name = "DIR", help_heading = "How far to go")]
    checkpoint: Option<PathBuf>,

    /// Explore one of N parts of the crash points; `crashproof merge` joins them
    #[arg(long, value_name = "I/N", value_parser = shard, requires = "checkpoint", help_heading = "How far to go")]
    shard: Option<Shards>,

    /// Run the check as shards on a cluster, and merge them; DIR of --checkpoint must be there on all its machines
    #[arg(long, value_enum, value_name = "CLUSTER", requires = "checkpoint", conflicts_with = "shard")]
    #[arg(help_heading = "How far to go")]
    on: Option<Cluster>,

    /// Number of shards for --on [default: 8]
    #[arg(long, value_name = "N", requires = "on", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    #[arg(help_heading = "How far to go")]
    shards: Option<u32>,

    /// Checkpoints of shards to join, set by `crashproof merge`.
    #[arg(long, value_name = "DIR", hide = true, conflicts_with_all = ["shard", "checkpoint"])]
    merged: Vec<PathBuf>,

    /// Try N random crashes instead of all
    ///
    /// For programs too large to exhaust. Without findings the verdict is then UNKNOWN, unless the crashes happened to show
    /// everything that recovery can do.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    #[arg(help_heading = "How far to go")]
    random: Option<u64>,

    /// Seed for --random; the same seed gives the same crashes
    #[arg(long, value_name = "S", default_value_t = 0, requires = "random", help_heading = "How far to go")]
    seed: u64,

    /// Number of parallel workers [default: all cores]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    #[arg(help_heading = "How far to go")]
    jobs: Option<u16>,

    /// Schedules to try if the program has threads: `all` of them up to equivalence, or a number
    ///
    /// By default all are explored if 10,000 suffice; if not, the verdict is UNKNOWN and says about how many remain. Of a
    /// number of schedules the first is always the same, and the others are made from seeds.
    #[arg(long, value_name = "all|N", help_heading = "Threads")]
    schedules: Option<Schedules>,

    /// Maximum number of schedules when all are explored [default: 100000]
    ///
    /// The verdict then says about how many remain.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Threads")]
    max_schedules: Option<u64>,

    /// Explore all schedules with at most K switches from a thread that could go on
    #[arg(long, value_name = "K", help_heading = "Threads")]
    preemptions: Option<u32>,

    /// How schedules are made from seeds
    #[arg(long, value_enum, default_value_t = ScheduleStrategy::Mixed, help_heading = "Threads")]
    strategy: ScheduleStrategy,

    /// Run the program with access to the whole machine
    ///
    /// By default it has processes, network and files of its own where the kernel permits (`crashproof doctor` says so):
    /// what it writes goes to memory and is forgotten, and it cannot reach other machines.
    #[arg(long, help_heading = "How far to go")]
    no_sandbox: bool,

    #[command(flatten)]
    output: Output,
}

/// The schedules to try.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Schedules {
    All,
    Seeds(u32),
}

impl std::str::FromStr for Schedules {
    type Err = String;

    fn from_str(text: &str) -> Result<Schedules, String> {
        match text.parse() {
            Ok(0) => Err("at least one schedule".into()),
            Ok(count) => Ok(Schedules::Seeds(count)),
            Err(_) if text == "all" => Ok(Schedules::All),
            Err(_) => Err("a number, or `all`".into()),
        }
    }
}

/// Fill bytes of heap memory: fresh, and freed.
type Fill = (Option<u8>, Option<u8>);

fn fill(text: &str) -> Result<Fill, String> {
    let usual = Heap::default();
    let byte = |text: &str| {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        u8::from_str_radix(digits, 16).map_err(|_| format!("`{text}` is not a hexadecimal byte"))
    };
    match text.split_once(',') {
        _ if text == "zero" => Ok((None, usual.freed)),
        _ if text == "none" => Ok((None, None)),
        None => Ok((Some(byte(text)?), usual.freed)),
        Some((fresh, freed)) => Ok((Some(byte(fresh)?), Some(byte(freed)?))),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ScheduleStrategy {
    /// Random and PCT in turn.
    Mixed,
    /// Switch threads at random.
    Random,
    /// Random priorities with a few changes (probabilistic concurrency testing).
    Pct,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MediumName {
    /// A file system of persistent memory: write() is durable when it returns, names and sizes at fsync, lines tear.
    Dax,
    /// A disk: nothing is durable before fsync, fdatasync, msync or O_SYNC, and sectors survive whole.
    Disk,
}

/// The size of a sector: a power of two from a cache line on.
fn sector(text: &str) -> Result<u16, String> {
    let bytes: u16 = text.parse().map_err(|_| "a number of bytes, such as 512".to_owned())?;
    if bytes.is_power_of_two() && bytes >= 64 { Ok(bytes) } else { Err("a power of two from 64 on".into()) }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PersistencyModel {
    /// A barrier belongs between two epochs.
    Epoch,
    /// Strands are concurrent until they are joined, and must not depend on each other.
    Strand,
}

impl Arguments {
    /// Does the command line specify a recovery command?
    pub(crate) fn recovers(&self) -> bool {
        self.recover.is_some()
    }
}

impl Overrides for Arguments {
    fn write_over(&self, settings: &mut Config) {
        self.memory.write_over(settings);
        self.machine.write_over(settings);
        let check = &mut settings.check;
        check.recover = self.recover.clone().or(check.recover.take());
        check.crashes = self.crashes.or(check.crashes);
        match self.schedules {
            Some(Schedules::Seeds(count)) => check.schedules = Some(count),
            Some(Schedules::All) => check.schedules = None,
            None => {}
        }
        check.jobs = self.jobs.or(check.jobs);
        check.max_per_crash = self.max_per_crash.or(check.max_per_crash);
        check.max_recoveries = self.max_recoveries.or(check.max_recoveries);
        check.time = self.time.or(check.time);
    }
}

impl Arguments {
    /// The program, or all its sources.
    pub(crate) fn given(&self) -> Vec<PathBuf> {
        std::iter::once(&self.program).chain(&self.more_sources).cloned().collect()
    }

    /// Compiler arguments added by the user.
    pub(crate) fn cflags(&self) -> Vec<OsString> {
        self.compiler.arguments()
    }
}

/// Transfers settings to the options.
fn settings(options: &mut Options, config: &Config) -> Result<(), String> {
    let set = &config.check;
    let crashes = set.crashes.unwrap_or(1);
    if !(1..=MAX_CRASHES).contains(&usize::from(crashes)) {
        return Err(format!("check.crashes is {crashes} in crashproof.toml; it can be 1 to {MAX_CRASHES}"));
    }
    options.crashes = usize::from(crashes);
    options.schedules = set.schedules.unwrap_or(1).max(1);
    if let Some(jobs) = set.jobs {
        options.jobs = usize::from(jobs.max(1));
    }
    options.max_per_crash = Some(set.max_per_crash.unwrap_or(1000)).filter(|most| *most > 0);
    options.max_recoveries = set.max_recoveries;
    options.max_time = set.time.map(Duration::from_secs);
    for path in &config.pm.paths {
        // The program may create it.
        let directory = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !path.to_string_lossy().ends_with('*') && !path.exists() && !directory.is_dir() {
            return Err(format!(
                "--pm-path {}: there is no such file or directory; create it, or end the path in * to mean all that \
                 begin so",
                path.display()
            ));
        }
    }
    options.pm_path = config.pm.paths.iter().map(|path| absolute(path)).collect();
    options.pm_heap = config.pm.heap.unwrap_or(false);
    options.platform = platform(config);
    Ok(())
}

/// The recovery command; empty if it is the same command.
pub(crate) fn recovery(config: &Config) -> Result<Vec<String>, String> {
    let Some(text) = &config.check.recover else { return Ok(Vec::new()) };
    // The command line's value was validated when it was parsed.
    command(text).map_err(|message| format!("check.recover in crashproof.toml: {message}"))
}

/// The words of a command; at least one.
fn command(text: &str) -> Result<Vec<String>, String> {
    match text.parse() {
        Ok(Words(words)) if words.is_empty() => Err("no command".into()),
        Ok(Words(words)) => Ok(words),
        Err(error) => Err(error.to_string()),
    }
}

/// A shard, such as 2/8.
fn shard(text: &str) -> Result<Shards, String> {
    let numbers = text.split_once('/').and_then(|(one, of)| Some((one.parse().ok()?, of.parse().ok()?)));
    match numbers {
        Some((one, of)) if (1..=of).contains(&one) => Ok(Shards { of, taken: [one].into() }),
        _ => Err("which part of how many, such as 2/8".into()),
    }
}

/// A number of bytes with K, M, G or T.
fn bytes(text: &str) -> Result<u64, String> {
    let units = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let unit = units.iter().find(|(letter, _)| text.to_ascii_uppercase().ends_with(*letter));
    let digits = unit.map_or(text, |_| &text[..text.len() - 1]);
    let number: u64 = digits.parse().map_err(|_| "a number with K, M, G or T, such as 500M".to_owned())?;
    number.checked_shl(unit.map_or(0, |(_, bits)| *bits)).filter(|bytes| *bytes > 0).ok_or("no memory".into())
}

/// `check` with these words as arguments, and the project's settings.
pub(crate) fn parsed(words: impl Iterator<Item = OsString>) -> Result<(Arguments, Config), String> {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }
    let line = <Line as clap::Parser>::try_parse_from(words).map_err(|error| error.to_string())?;
    let here = std::env::current_dir().unwrap_or_default();
    let mut config = Config::find(&here).map_err(|error| error.to_string())?;
    // Each test specifies its own recovery.
    config.check.recover = None;
    line.arguments.write_over(&mut config);
    Ok((line.arguments, config))
}

/// What to check, and the limits.
pub(crate) fn options(
    arguments: &Arguments,
    config: &Config,
    programs: &Programs,
    recovery: &[String],
) -> Result<Options, String> {
    let program = &programs.program;
    let mut options = Options::new(program.path.clone(), arguments.arguments.clone());
    if let Some(directory) = &arguments.directory {
        options.directory = Some(absolute(directory));
        options.program = std::path::absolute(&program.path).map_err(|error| error.to_string())?;
    }
    options.built_from.clone_from(&program.source);
    options.more_sources.clone_from(&arguments.more_sources);
    options.cflags = arguments.cflags();
    options.recover = programs.recovery().map(|program| Recover {
        program: program.to_owned(),
        arguments: recovery[1..].iter().map(OsString::from).collect(),
        built_from: programs.recovery_source().map(Path::to_owned),
    });
    options.strict = arguments.strict;
    options.model = arguments.model.map(|model| match model {
        PersistencyModel::Epoch => Model::Epoch,
        PersistencyModel::Strand => Model::Strand,
    });
    options.robust = !arguments.no_robust;
    options.persistency_races = arguments.persistency_races;
    // A client must be able to reach the server, which would have its own network in a sandbox.
    let asked = arguments.client.is_some() || arguments.recovered.is_some();
    if arguments.no_sandbox || asked {
        options.sandbox = Sandbox::off();
    }
    options.exhaustive = arguments.exhaustive;
    options.memory = arguments.memory_bound.unwrap_or(options.memory);
    options.checkpoint.clone_from(&arguments.checkpoint);
    options.shards.clone_from(&arguments.shard);
    options.merged.clone_from(&arguments.merged);
    options.command = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    if options.checkpoint.is_some() && arguments.layouts > 1 {
        return Err("--checkpoint is for one layout of the heap; leave out --layouts".into());
    }
    options.suppress.clone_from(&arguments.suppress);
    options.random = arguments.random.map(|crashes| Random { crashes, seed: arguments.seed });
    options.strategy = match arguments.strategy {
        ScheduleStrategy::Mixed => Strategy::Mixed,
        ScheduleStrategy::Random => Strategy::Random,
        ScheduleStrategy::Pct => Strategy::Pct,
    };
    settings(&mut options, config)?;
    options.all_schedules = budget(arguments, config);
    let words = |text: &Option<String>| text.as_deref().map_or(Ok(Vec::new()), command);
    options.setup = words(&arguments.setup)?;
    // The program, under the name the user gave it.
    if options.setup.first().is_some_and(|program| Path::new(program) == arguments.program) {
        options.setup[0] = program.path.to_string_lossy().into_owned();
    }
    options.client = words(&arguments.client)?;
    options.recovered = words(&arguments.recovered)?;
    options.until_idle = arguments.until_idle || arguments.recovered.is_some();
    options.max_memory = arguments.address_space.unwrap_or(options.max_memory);
    options.max_output = arguments.output_bytes.unwrap_or(options.max_output);
    options.max_records = arguments.max_events.unwrap_or(options.max_records);
    match arguments.medium {
        Some(MediumName::Disk) => {
            options.set_medium(Medium::Disk(arguments.sector));
            options.all_files = options.pm_path.is_empty();
            // The place for a missing flush is not the place for an fsync.
            options.robust = false;
        }
        Some(MediumName::Dax) => options.set_medium(Medium::Dax),
        None => {}
    }
    if let Some((fresh, freed)) = arguments.fill {
        options.heap = Heap { fresh, freed, ..options.heap };
    }
    Ok(options)
}

/// The limits of systematic schedule exploration; `None` if schedules are made from seeds.
fn budget(arguments: &Arguments, config: &Config) -> Option<Budget> {
    let all = arguments.schedules == Some(Schedules::All);
    let bounded = arguments.max_schedules.is_some() || arguments.preemptions.is_some();
    if all || bounded {
        let max_schedules = arguments.max_schedules.or(Budget::all().max_schedules);
        return Some(Budget { max_schedules, max_preemptions: arguments.preemptions, ..Budget::all() });
    }
    // Random crashes are for programs too large to explore; a server's client has its own schedule.
    let serves = arguments.client.is_some() || arguments.until_idle || arguments.recovered.is_some();
    (config.check.schedules.is_none() && arguments.random.is_none() && !serves).then(Budget::usual)
}

/// Checks the program under each heap layout; findings that only a later one reveals say so.
fn check_layouts(options: &Options, layouts: u32, subject: &str) -> Result<Report, Error> {
    let mut report = crashproof_check::check(options)?.in_common_form(subject);
    // Only a heap has several layouts.
    for layout in 1..if options.pm_heap { layouts } else { 1 } {
        let heap = Heap { layout, ..options.heap };
        let other = crashproof_check::check(&Options { heap, ..options.clone() })?.in_common_form(subject);
        for mut finding in other.findings {
            let known = report.findings.iter().any(|known| {
                known.rule.id == finding.rule.id
                    && (&known.place.file, known.place.line) == (&finding.place.file, finding.place.line)
            });
            if !known {
                let first = (32 + 16 * layout) % 64;
                finding.evidence.push(format!(
                    "with blocks of the heap placed from byte {first} of a cache line on (layout {layout} of --layouts)"
                ));
                report.findings.push(finding);
            }
        }
        report.incomplete.extend(
            other.incomplete.into_iter().filter(|it| !report.incomplete.contains(it)).collect::<Vec<_>>(),
        );
    }
    Ok(report)
}

pub(crate) fn run(arguments: &Arguments, config: &Config) -> io::Result<Exit> {
    let usage = |message: String| {
        anstream::eprintln!("crashproof: {message}");
        Ok(Exit::Usage)
    };
    let output = match arguments.output.prepare(config, config.check.deny_warnings.unwrap_or(false)) {
        Ok(output) => output,
        Err(message) => return usage(message),
    };
    let prepared = || {
        let recovery = recovery(config)?;
        let recover = recovery.first().map(Path::new);
        let programs = Programs::new(&arguments.given(), recover, &arguments.cflags())?;
        let options = options(arguments, config, &programs, &recovery)?;
        Ok((programs, options))
    };
    let (programs, options) = match prepared() {
        Ok(prepared) => prepared,
        Err(message) => return usage(message),
    };
    if let (Some(cluster), Some(directory)) = (arguments.on, &options.checkpoint) {
        return cluster::run(cluster, arguments.shards.unwrap_or(8), directory, &options.command);
    }
    let watch = Watch::start(Arc::clone(&options.monitor), arguments.output.is_quiet())?;
    let stream = output.stream()?;
    let stream = stream.map(|out| JsonLines::start(&options.monitor, out, options.program.clone()));
    let stream = stream.transpose()?;
    let result = check_layouts(&options, arguments.layouts, &arguments.program.to_string_lossy());
    drop(watch);
    options.checkpoint.iter().for_each(|directory| merge::remember(directory));
    if let Some(stream) = stream {
        stream.end(&options.monitor);
    }
    let mut report = match result {
        Ok(report) => report,
        Err(error) => {
            anstream::eprintln!("crashproof: {error}");
            let incomplete = match &error {
                Error::System { .. }
                | Error::Interrupted
                | Error::TimeUp
                | Error::Limit(_)
                | Error::Unsupported { .. } => true,
                Error::Start { source, .. } => exit::machine_limit(source),
                _ => false,
            };
            return Ok(if incomplete { Exit::Incomplete } else { Exit::Usage });
        }
    };
    let built = programs.program.path.metadata().and_then(|about| about.modified()).ok();
    report.notes.extend(programs.warn_about_ndebug(&arguments.cflags()));
    report.notes.extend(programs.note_compiler_arguments(&arguments.arguments));
    report.relative_paths(&std::env::current_dir().unwrap_or_default());
    saved::keep(&mut report);
    output.finish(report, &Sources::built_at(built))
}

/// An absolute path without links, as the program's files have it, even if nothing exists there yet.
fn absolute(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (whole.parent().and_then(|parent| parent.canonicalize().ok()), whole.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => whole,
    }
}
