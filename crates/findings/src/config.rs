//! `crashproof.toml`, the settings of a project.
//!
//! The nearest file applies, searching from the working directory upwards. Options of the command line and the
//! environment override a [`Config`], which every command then obeys. Unknown keys are errors: a misspelled setting
//! would otherwise silently have no effect.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use crate::suppress::{Suppressions, Written};
pub use crate::toml_file::Error;

/// The name of the file.
pub const NAME: &str = "crashproof.toml";

/// The settings of a project. An absent field was not set.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The file it was read from; `None` if there was none.
    pub file: Option<PathBuf>,
    /// What persistent memory is.
    pub pm: Pm,
    /// What the hardware is.
    pub model: Model,
    /// How far `check` goes.
    pub check: Check,
    /// How `lint` judges.
    pub lint: Lint,
    /// How `fix` writes flushes.
    pub fix: FixSettings,
    /// What `test` checks.
    pub suite: Suite,
    /// Accepted findings.
    pub suppressions: Suppressions,
}

/// What persistent memory is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Pm {
    /// Files below these count as persistent memory when they are mapped.
    #[serde(default)]
    pub paths: Vec<PathBuf>,
    /// Is the whole heap persistent memory?
    pub heap: Option<bool>,
}

/// What the hardware is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Model {
    /// Are caches persistent?
    pub eadr: Option<bool>,
}

/// How far `check` goes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Check {
    /// The recovery command, if it is not the same command.
    pub recover: Option<String>,
    /// Number of consecutive crashes.
    pub crashes: Option<u8>,
    /// Schedules to try if there are threads.
    pub schedules: Option<u32>,
    /// Number of parallel workers.
    pub jobs: Option<u16>,
    /// Maximum number of recoveries per crash; 0 for no limit.
    pub max_per_crash: Option<u64>,
    /// Maximum number of recoveries.
    pub max_recoveries: Option<u64>,
    /// Maximum time in seconds.
    pub time: Option<u64>,
    /// Do warnings count as errors?
    pub deny_warnings: Option<bool>,
}

/// How `lint` judges.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Lint {
    /// Do warnings count as errors?
    pub deny_warnings: Option<bool>,
}

/// How `fix` writes flushes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FixSettings {
    /// The project's own way to flush a range, with `{addr}` and `{len}` to be filled in.
    pub flush: Option<String>,
    /// ... and to fence, if the flush does not do it.
    pub fence: Option<String>,
}

/// The test suite of the project; everything named is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Suite {
    /// A command that builds the tests, run first.
    pub build: Option<String>,
    /// The tests of Rust crates, with these arguments for cargo.
    pub cargo: Option<Vec<String>>,
    /// The build directory of a CMake project: its tests by ctest.
    pub ctest: Option<PathBuf>,
    /// The build directory of an automake project: its TESTS.
    pub automake: Option<PathBuf>,
    /// Commands, each a test.
    #[serde(default)]
    pub commands: Vec<String>,
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    #[serde(default)]
    pm: Pm,
    #[serde(default)]
    model: Model,
    #[serde(default)]
    check: Check,
    #[serde(default)]
    lint: Lint,
    #[serde(default)]
    fix: FixSettings,
    #[serde(default)]
    suite: Suite,
    /// Files with more suppressions.
    #[serde(default)]
    suppressions: Vec<PathBuf>,
    #[serde(default)]
    suppress: Vec<Spanned<Written>>,
}

impl Config {
    /// The nearest configuration from `directory` upward; an empty one if there is none.
    pub fn find(directory: &Path) -> Result<Config, Error> {
        match directory.ancestors().map(|above| above.join(NAME)).find(|file| file.is_file()) {
            // Shown as one would write it, if it is in the directory itself.
            Some(file) if file.parent() == Some(directory) => Config::read_as(&file, Path::new(NAME)),
            Some(file) => Config::read(&file),
            None => Ok(Config::default()),
        }
    }

    /// Reads a configuration.
    pub fn read(file: &Path) -> Result<Config, Error> {
        Config::read_as(file, file)
    }

    /// Reads a configuration that messages refer to as `shown`.
    fn read_as(file: &Path, shown: &Path) -> Result<Config, Error> {
        let text =
            crate::text_file::read(file).map_err(|source| Error::Read { file: shown.to_owned(), source })?;
        let parsed: File = toml::from_str(&text).map_err(|error| Error::syntax(shown, &text, &error))?;
        let directory = file.parent().unwrap_or(Path::new(""));
        let mut suppressions = Suppressions::default();
        suppressions.add(shown, &text, parsed.suppress)?;
        for more in &parsed.suppressions {
            suppressions.read(&directory.join(more))?;
        }
        let mut pm = parsed.pm;
        // Paths are relative to the file.
        pm.paths = pm.paths.into_iter().map(|path| directory.join(path)).collect();
        Ok(Config {
            file: Some(file.to_owned()),
            pm,
            model: parsed.model,
            check: parsed.check,
            lint: parsed.lint,
            fix: parsed.fix,
            suite: parsed.suite,
            suppressions,
        })
    }
}

/// What `crashproof init` writes: every setting, explained, and commented out where it has a usual value.
pub const TEMPLATE: &str = include_str!("../crashproof.toml");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_one_counts() {
        let directory = tempfile::tempdir().expect("a directory");
        let deep = directory.path().join("a/b");
        std::fs::create_dir_all(&deep).expect("directories");
        assert!(Config::find(&deep).expect("none").file.is_none());
        std::fs::write(directory.path().join(NAME), "[pm]\npaths = ['pool', '/mnt/x']\n").expect("written");
        let config = Config::find(&deep).expect("one");
        assert_eq!(config.pm.paths, [directory.path().join("pool"), "/mnt/x".into()]);
        std::fs::write(directory.path().join("a").join(NAME), "model.eadr = true\n").expect("written");
        assert_eq!(Config::find(&deep).expect("the nearer").model.eadr, Some(true));
    }

    #[test]
    fn unknown_keys_are_errors_with_their_line() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join(NAME);
        for (text, expected) in [
            ("[check]\ncrashes = 1\ncrash = 2\n", ":3: unknown field `crash`, expected one of"),
            ("[chek]\n", ":1: unknown field `chek`"),
            ("[check]\ncrashes = 'two'\n", ":2: invalid type"),
            ("[check\n", ":1: "),
            ("suppressions = ['absent.toml']\n", "cannot read "),
        ] {
            std::fs::write(&file, text).expect("written");
            let message = Config::find(directory.path()).expect_err(text).to_string();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn the_template_is_what_is_usual_with_and_without_its_comments() {
        let plain: File = toml::from_str(TEMPLATE).expect("the template");
        assert!(plain.check.crashes.is_none() && plain.suppress.is_empty());
        let settings = |line: &str| {
            let setting =
                line.strip_prefix("# ").filter(|rest| rest.contains(" = ") || rest.starts_with('['));
            setting.unwrap_or(line).to_owned()
        };
        let uncommented: Vec<String> = TEMPLATE.lines().map(settings).collect();
        let all: File = toml::from_str(&uncommented.join("\n")).expect("every setting is right");
        assert!(all.check.crashes.is_some() && !all.suppress.is_empty() && !all.suppressions.is_empty());
    }
}
