//! Builds and checks a copy of one source.

#![allow(dead_code, reason = "not every test uses all of it")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crashproof_check::{Options, Report, check};
use crashproof_fix::{Failed, Workshop};

pub(crate) struct Bench {
    /// A copy of the source, which may be edited.
    pub(crate) source: PathBuf,
    pub(crate) flags: Vec<String>,
    pub(crate) schedules: u32,
    pub(crate) crashes: usize,
    /// Errors of each check.
    pub(crate) history: Vec<usize>,
}

impl Bench {
    pub(crate) fn new(source: PathBuf, flags: Vec<String>) -> Bench {
        Bench { source, flags, schedules: 1, crashes: 1, history: Vec::new() }
    }
}

impl Workshop for Bench {
    fn read(&mut self, file: &str) -> Result<String, String> {
        std::fs::read_to_string(file).map_err(|error| error.to_string())
    }

    fn check(&mut self, sources: &BTreeMap<String, String>) -> Result<Report, Failed> {
        for (file, text) in sources {
            crashproof_fix::write(Path::new(file), text).expect("written");
        }
        let program = self.source.with_extension("");
        let flags: Vec<&str> =
            ["-Wall", "-Werror"].into_iter().chain(self.flags.iter().map(String::as_str)).collect();
        crashproof_toolchain::testing::compile(&self.source, &program, &flags);
        let mut options = Options::new(program, Vec::new());
        options.schedules = self.schedules;
        options.crashes = self.crashes;
        let report = check(&options).map_err(|error| Failed::Check(error.to_string()))?;
        self.history.push(report.errors());
        Ok(report)
    }
}
