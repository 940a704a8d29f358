//! Settings, merged once for every command: the command line overrides the environment, which overrides
//! `crashproof.toml`.
//!
//! The result has the form of the file. Commands pass it to their engines, regardless of the origin of each setting.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use crashproof_findings::config::Config;
use crashproof_protocol::PM_PATH;
use px86::{Domain, Platform};

/// Command options that are also settings.
pub(crate) trait Overrides {
    /// Overrides settings with those given on the command line.
    fn write_over(&self, settings: &mut Config);
}

/// Overrides the file's settings with those from the environment.
pub(crate) fn environment(settings: &mut Config) {
    if let Some(paths) = std::env::var_os(PM_PATH).filter(|paths| !paths.is_empty()) {
        settings.pm.paths = std::env::split_paths(&paths).collect();
    }
}

/// The machine that programs are judged for.
pub(crate) fn platform(settings: &Config) -> Platform {
    Platform::all(domain(settings))
}

/// The persistence domain of every line without its own.
pub(crate) fn domain(settings: &Config) -> Domain {
    if settings.model.eadr.unwrap_or(false) { Domain::Eadr } else { Domain::Adr }
}

/// Machine options, for every command that judges a program.
#[derive(Args)]
pub(crate) struct Machine {
    /// Assume persistent caches (eADR)
    #[arg(
        long,
        help_heading = "What to check",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true
    )]
    eadr: Option<bool>,
}

impl Overrides for Machine {
    fn write_over(&self, settings: &mut Config) {
        settings.model.eadr = self.eadr.or(settings.model.eadr);
    }
}

/// Options that define persistent memory, for commands that run programs.
#[derive(Args)]
pub(crate) struct Memory {
    /// Treat files below PATH, and no others, as persistent memory; may be repeated
    ///
    /// A path ending in * stands for all that begin so. [default: /mnt/pmem*, /pmem*, /dev/dax*, and whatever file the
    /// program maps shared]
    #[arg(long, value_name = "PATH", help_heading = "What to check")]
    pm_path: Vec<PathBuf>,

    /// Treat the heap as persistent memory, as libvmmalloc does
    #[arg(
        long,
        help_heading = "What to check",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true
    )]
    pm_heap: Option<bool>,
}

impl Overrides for Memory {
    fn write_over(&self, settings: &mut Config) {
        if !self.pm_path.is_empty() {
            settings.pm.paths.clone_from(&self.pm_path);
        }
        settings.pm.heap = self.pm_heap.or(settings.pm.heap);
    }
}

/// Compiler arguments, for commands that take sources.
#[derive(Args)]
pub(crate) struct Compiler {
    /// Arguments for the compiler if sources are given, such as '--cflags "-Iinclude -mavx2"'; may be given more than
    /// once.
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    cflags: Vec<Words>,
}

impl Compiler {
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        self.cflags.iter().flat_map(|words| &words.0).map(OsString::from).collect()
    }
}

/// The words of one argument, split like in a shell.
#[derive(Clone)]
pub(crate) struct Words(pub(crate) Vec<String>);

impl FromStr for Words {
    type Err = shell_words::ParseError;

    fn from_str(text: &str) -> Result<Words, Self::Err> {
        shell_words::split(text).map(Words)
    }
}
