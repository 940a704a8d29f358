//! Options of commands that check whole suites, named as in nextest and `crashproof check`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

/// How the suite is run.
#[derive(Args)]
#[command(next_help_heading = "Suite")]
pub(crate) struct Running {
    /// Check all tests, even if one fails
    #[arg(long)]
    pub(crate) no_fail_fast: bool,

    /// Number of tests to check at the same time [default: all cores]
    #[arg(short = 'j', long = "test-threads", visible_alias = "jobs", value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) test_threads: Option<u16>,

    /// Tests that are marked as ignored or disabled
    #[arg(long, value_enum, value_name = "WHICH", default_value_t = RunIgnored::Default)]
    pub(crate) run_ignored: RunIgnored,

    /// Which tests get a line
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = StatusLevel::Pass)]
    pub(crate) status_level: StatusLevel,

    /// Maximum time for the check of one test, in seconds; what was not covered by then is unknown
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: u64,

    /// Write the results of all tests as JUnit XML; short for --format junit=FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,

    /// Output format: text, json or junit, with `=FILE` to write it to a file; may be repeated
    #[arg(long, value_name = "FORMAT[=FILE]", value_parser = sink)]
    pub(crate) format: Vec<Sink>,
}

/// Which of the ignored tests are checked.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunIgnored {
    /// None of them
    Default,
    /// Only them
    Only,
    /// All tests
    All,
}

/// Which tests get a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum StatusLevel {
    None,
    /// Failed and unknown ones
    Fail,
    /// All that were checked
    Pass,
    /// Skipped ones, too
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
    Junit,
}

/// A format, and its file if not standard output.
pub(crate) type Sink = (Format, Option<PathBuf>);

fn sink(text: &str) -> Result<Sink, String> {
    let (name, file) = match text.split_once('=') {
        Some((_, "")) => return Err("the name of a file after `=`".into()),
        Some((name, file)) => (name, Some(PathBuf::from(file))),
        None => (text, None),
    };
    match name {
        "text" => Ok((Format::Text, file)),
        "json" => Ok((Format::Json, file)),
        "junit" => Ok((Format::Junit, file)),
        _ => Err("text, json or junit; `crashproof check` on one test writes the other formats".into()),
    }
}

impl Running {
    /// The destinations of the results; text goes to standard output unless another format does.
    pub(crate) fn sinks(&self) -> Result<Vec<Sink>, String> {
        let mut sinks = self.format.clone();
        sinks.extend(self.junit.iter().map(|file| (Format::Junit, Some(file.clone()))));
        match sinks.iter().filter(|sink| sink.1.is_none()).count() {
            0 => sinks.insert(0, (Format::Text, None)),
            1 => {}
            _ => return Err("only one format can go to standard output; give the others a file".into()),
        }
        Ok(sinks)
    }
}

/// Options passed to each check; see `crashproof check --help`.
#[derive(Args, Clone)]
#[command(next_help_heading = "Check")]
pub(crate) struct Checking {
    /// Treat mapped files below PATH as persistent memory; may be repeated
    #[arg(long, value_name = "PATH")]
    pm_path: Vec<PathBuf>,
    /// Treat the heap as persistent memory
    #[arg(long)]
    pm_heap: bool,
    /// Assume persistent caches (eADR)
    #[arg(long)]
    eadr: bool,
    /// Maximum number of crashes per run
    #[arg(long, value_name = "N")]
    crashes: Option<u8>,
    /// Schedules to try if a test has threads
    #[arg(long, value_name = "all|N")]
    schedules: Option<String>,
    /// Maximum number of recoveries per crash point; 0 for no limit
    #[arg(long, value_name = "N")]
    max_per_crash: Option<u64>,
    /// Maximum number of recoveries per test
    #[arg(long, value_name = "N")]
    max_recoveries: Option<u64>,
    /// Maximum time per test, in seconds
    #[arg(long, value_name = "SECONDS")]
    time: Option<u64>,
    /// Explore crash states that fail for a known reason, too
    #[arg(long)]
    exhaustive: bool,
    /// Report only failed recoveries, not missing flushes that no recovery failed on
    #[arg(long)]
    no_robust: bool,
    /// Name every untracked access to persistent memory (slow)
    #[arg(long)]
    strict: bool,
    /// Run tests with access to the whole machine
    #[arg(long)]
    no_sandbox: bool,
    /// Treat warnings as errors
    #[arg(long, value_name = "LEVEL", value_parser = ["warnings"])]
    deny: Option<String>,
    /// Ignore the findings recorded in FILE
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Read suppressions from FILE; may be repeated
    #[arg(long, value_name = "FILE")]
    suppressions: Vec<PathBuf>,
    /// The settings to use instead of the nearest crashproof.toml.
    #[arg(skip)]
    pub(crate) settings: Option<PathBuf>,
}

impl Checking {
    /// The same as arguments for `crashproof check`, which may run in another directory.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut words: Vec<OsString> = Vec::new();
        let mut pair = |name: &str, value: OsString| words.extend([name.into(), value]);
        self.pm_path.iter().for_each(|path| pair("--pm-path", absolute(path).into()));
        self.baseline.iter().for_each(|path| pair("--baseline", absolute(path).into()));
        self.suppressions.iter().for_each(|path| pair("--suppressions", absolute(path).into()));
        self.settings.iter().for_each(|path| pair("--config", absolute(path).into()));
        let numbers = [
            ("--crashes", self.crashes.map(u64::from)),
            ("--max-per-crash", self.max_per_crash),
            ("--max-recoveries", self.max_recoveries),
            ("--time", self.time),
        ];
        for (name, number) in numbers {
            number.iter().for_each(|number| pair(name, number.to_string().into()));
        }
        self.schedules.iter().for_each(|schedules| pair("--schedules", schedules.into()));
        self.deny.iter().for_each(|level| pair("--deny", level.into()));
        let flags = [
            ("--pm-heap", self.pm_heap),
            ("--eadr", self.eadr),
            ("--exhaustive", self.exhaustive),
            ("--no-robust", self.no_robust),
            ("--strict", self.strict),
            ("--no-sandbox", self.no_sandbox),
        ];
        words.extend(flags.iter().filter(|flag| flag.1).map(|flag| flag.0.into()));
        words
    }
}
