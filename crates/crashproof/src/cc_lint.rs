//! `crashproof cc --lint`: compiles, and lints the result.
//!
//! The plugin writes each module before clang's optimizer changes it, so the front end runs once; the modules are then
//! analyzed as one program. Findings are printed like compiler warnings, for people and editors. They fail the build
//! only with `--lint-deny`. With `--lint-only` the objects are those of plain clang, without instrumentation.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use crashproof_findings::config::Config;
use crashproof_findings::{Finding, Report, Sources, Verdict};
use crashproof_lint::{Bounds, Model, Options};
use crashproof_toolchain::{Language, Toolchain, driver};

use crate::exit::Exit;
use crate::signals::Scratch;

/// A compilation whose result is linted.
pub(crate) struct CompileAndLint {
    arguments: Vec<OsString>,
    model: Model,
    deny: bool,
    /// Nothing is instrumented.
    only: bool,
}

impl CompileAndLint {
    /// Removes `--lint`, `--lint=MODEL`, `--lint-only` and `--lint-deny` from a compiler's arguments; `None` if there
    /// is no such option.
    pub(crate) fn requested(arguments: &[OsString]) -> Option<CompileAndLint> {
        let mut lint =
            CompileAndLint { arguments: Vec::new(), model: Model::default(), deny: false, only: false };
        let mut asked = false;
        for argument in arguments {
            match argument.to_str() {
                Some("--lint" | "--lint=epoch") => asked = true,
                Some("--lint=strict") => (asked, lint.model) = (true, Model::Strict),
                Some("--lint=strand") => (asked, lint.model) = (true, Model::Strand),
                Some("--lint-deny") => (asked, lint.deny) = (true, true),
                Some("--lint-only") => (asked, lint.only) = (true, true),
                _ => lint.arguments.push(argument.clone()),
            }
        }
        asked.then_some(lint)
    }

    /// Compiles, then analyzes.
    pub(crate) fn run(self, language: Language) -> ExitCode {
        match self.compile(language) {
            Ok(code) => code,
            Err(message) => {
                anstream::eprintln!("crashproof: error: {message}");
                Exit::Usage.into()
            }
        }
    }

    /// Uses a smaller budget than `crashproof lint`: this runs in every build.
    fn analyze(&self, inputs: Vec<PathBuf>) -> Result<Report, String> {
        let bounds = Bounds { paths: 32, steps: 5_000, ..Bounds::default() };
        let options =
            Options { inputs, model: self.model, jobs: 1, bounds, is_part: true, ..Options::default() };
        crashproof_lint::lint(&options).map_err(|error| error.to_string())
    }

    fn compile(self, language: Language) -> Result<ExitCode, String> {
        let here = std::env::current_dir().unwrap_or_default();
        let config = Config::find(&here).map_err(|error| error.to_string())?;
        let directory = Scratch::for_process().map_err(|error| error.to_string())?;
        let toolchain = Toolchain::find().map_err(|error| error.to_string())?;
        let plan = match self.only {
            true => driver::plan_lint(language, &self.arguments, &toolchain),
            false => driver::plan(language, &self.arguments, &toolchain),
        };
        let plan = plan.map_err(|error| error.to_string())?;
        plan.warnings.iter().for_each(|warning| anstream::eprintln!("crashproof: warning: {warning}"));
        let mut command = plan.command;
        if self.only {
            command.env("CRASHPROOF_LINT_ONLY", "1");
        }
        let mut clang = command
            .env("CRASHPROOF_LINT_BITCODE", directory.path())
            .spawn()
            .map_err(|error| format!("cannot run {}: {error}", command.get_program().to_string_lossy()))?;
        // Most compilations have one module. It is complete before clang's optimizer starts, so both can run in parallel.
        let early = loop {
            let kept = modules(directory.path())?;
            if !kept.is_empty() {
                break kept;
            }
            if clang.try_wait().map_err(|error| error.to_string())?.is_some() {
                break Vec::new();
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let begun = (!early.is_empty()).then(|| self.analyze(early.clone()));
        let status = clang.wait().map_err(|error| error.to_string())?;
        if !status.success() {
            return Ok(ExitCode::from(status.code().unwrap_or(1) as u8));
        }
        let all = modules(directory.path())?;
        let mut report = match begun {
            Some(report) if all == early => report?,
            // Only linking, or nothing to compile.
            _ if all.is_empty() => return Ok(ExitCode::SUCCESS),
            _ => self.analyze(all)?,
        };
        report.finish(&Sources::default());
        // One module cannot show that a suppression is unused, so that is not reported.
        config.suppressions.apply(&mut report);
        if config.lint.deny_warnings.unwrap_or(false) {
            report.deny_warnings();
        }
        let mut text = Vec::new();
        write(&mut text, &report, self.deny).map_err(|error| error.to_string())?;
        // In one write: parallel compilers share the terminal.
        io::stderr().lock().write_all(&text).map_err(|error| error.to_string())?;
        let errors = report.verdict() == Verdict::Findings;
        Ok(if self.deny && errors { Exit::Findings.into() } else { ExitCode::SUCCESS })
    }
}

/// The modules that the plugin has written so far.
fn modules(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(directory)
        .map_err(|error| error.to_string())?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "bc"))
        .collect();
    all.sort();
    Ok(all)
}

/// Prints findings as compilers print warnings, and what the analysis did not cover.
fn write(out: &mut dyn Write, report: &Report, deny: bool) -> io::Result<()> {
    for finding in &report.findings {
        let level =
            if deny && finding.level == crashproof_findings::Level::Error { "error" } else { "warning" };
        let Finding { place, message, rule, .. } = finding;
        writeln!(out, "{}:{}:{}: {level}: {message} [{}]", place.file, place.line, place.column, rule.id)?;
        for other in &finding.related {
            let at = &other.place;
            writeln!(out, "{}:{}:{}: note: {}", at.file, at.line, at.column, other.message)?;
        }
        for frame in &place.frames {
            let how = if frame.inlined { "inlined here" } else { "reached through this call" };
            writeln!(out, "{}:{}:{}: note: {how}", frame.file, frame.line, frame.column)?;
        }
    }
    if !report.incomplete.is_empty() {
        writeln!(out, "crashproof: note: not covered by --lint: {}", report.incomplete.join(", "))?;
    }
    Ok(())
}
