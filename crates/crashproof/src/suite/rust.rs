//! The tests of Rust crates: built by cargo with the instrumenting compiler, listed by each test binary.
//!
//! Build scripts and procedural macros are built for the host and never instrumented (`toolchain::cargo`).

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::signals::Scratch;
use crate::suite::case::{Case, Cases, Filter};
use crate::suite::options::RunIgnored;
use crate::suite::runner;
use crashproof_report::suite::Outcome;

/// Time for a test binary to list its tests.
const LISTING: Duration = Duration::from_secs(60);

/// A program built by cargo.
#[derive(Clone, Debug, Default)]
pub(crate) struct Artifact {
    package: String,
    /// Its `Cargo.toml`.
    manifest: PathBuf,
    /// `lib`, `bin`, `test`, `example` or `bench`.
    kind: String,
    name: String,
    source: PathBuf,
    doctest: bool,
    /// `None` for libraries.
    pub(crate) program: Option<PathBuf>,
    /// Built with a test harness, or a test without one?
    test: bool,
}

impl Artifact {
    fn read(message: &Value) -> Option<Artifact> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (message["reason"] == "compiler-artifact").then(|| {
            let target = &message["target"];
            Artifact {
                package: package_name(&text(&message["package_id"])),
                manifest: text(&message["manifest_path"]).into(),
                kind: text(&target["kind"][0]),
                name: text(&target["name"]),
                source: text(&target["src_path"]).into(),
                doctest: target["doctest"] == true,
                program: message["executable"].as_str().map(PathBuf::from),
                test: message["profile"]["test"] == true,
            }
        })
    }

    /// The name used by nextest.
    fn label(&self) -> String {
        match self.kind.as_str() {
            "test" => format!("{}::{}", self.package, self.name),
            "bin" | "example" | "bench" => format!("{}::{}/{}", self.package, self.kind, self.name),
            _ => self.package.clone(),
        }
    }

    pub(crate) fn is_program(&self) -> bool {
        matches!(self.kind.as_str(), "bin" | "example") && !self.test && self.program.is_some()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// The name in `path+file:///a/log#0.1.0` or `path+file:///a/log#other@0.1.0`.
fn package_name(id: &str) -> String {
    let (path, rest) = id.split_once('#').unwrap_or((id, ""));
    match rest.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => path.rsplit('/').next().unwrap_or_default().to_owned(),
    }
}

/// Runs a build that prints JSON messages; returns the programs built. `None` if it failed, which cargo has reported.
pub(crate) fn build(mut cargo: Command, arguments: &[OsString]) -> io::Result<Option<Vec<Artifact>>> {
    cargo.args(arguments).arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    let mut child = cargo.spawn()?;
    let mut artifacts = Vec::new();
    if let Some(out) = child.stdout.take() {
        for line in BufReader::new(out).lines() {
            let message: Value = serde_json::from_str(&line?).unwrap_or(Value::Null);
            artifacts.extend(Artifact::read(&message));
        }
    }
    Ok(child.wait()?.success().then_some(artifacts))
}

/// The selected tests of binaries, and their arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    pub(crate) filter: Filter,
    pub(crate) arguments: Vec<OsString>,
}

impl Selection {
    /// Parses what follows `--`, as for `cargo test`: names, and options of the test harness.
    pub(crate) fn read(names: &[String], rest: &[OsString], ignored: &mut RunIgnored) -> Selection {
        let mut selection = Selection {
            filter: Filter { names: names.to_vec(), ..Filter::default() },
            arguments: Vec::new(),
        };
        let mut rest = rest.iter();
        while let Some(word) = rest.next() {
            match word.to_string_lossy().as_ref() {
                "--exact" => selection.filter.exact = true,
                "--ignored" => *ignored = RunIgnored::Only,
                "--include-ignored" => *ignored = RunIgnored::All,
                // Each check runs one test at a time anyway.
                "--test-threads" => {
                    rest.next();
                }
                text if text.starts_with("--test-threads=") => {}
                "--skip" => {
                    selection.filter.skip.extend(rest.next().map(|name| name.to_string_lossy().into_owned()));
                }
                text if !text.starts_with('-') => selection.filter.names.push(text.to_owned()),
                _ => selection.arguments.push(word.clone()),
            }
        }
        selection
    }
}

/// The tests of what cargo built.
pub(crate) fn cases(artifacts: &[Artifact], selection: &Selection, ignored: RunIgnored) -> io::Result<Cases> {
    let scratch = Scratch::new()?;
    let mut cases = Cases::default();
    for artifact in artifacts.iter().filter(|artifact| artifact.test || artifact.kind == "bench") {
        let Some(program) = &artifact.program else { continue };
        if artifact.kind == "proc-macro" {
            cases.notes.push(format!(
                "{} is a procedural macro, which runs in the compiler: its tests are not checked; `cargo test` runs them",
                artifact.package
            ));
            continue;
        }
        let whole = whole_program(artifact, program);
        let all = if has_harness(program) { list(&whole, &scratch, &[])? } else { None };
        let Some(all) = all else {
            let name = artifact.name.clone();
            if selection.filter.takes(&name) && ignored != RunIgnored::Only {
                cases.notes.push(format!(
                    "{} does not list its tests (harness = false): it was checked as one program",
                    artifact.label()
                ));
                cases.all.push(Case { name, ..whole });
            }
            continue;
        };
        let marked = list(&whole, &scratch, &["--ignored"])?.unwrap_or_default();
        for (name, kind) in all {
            if !selection.filter.takes(&name) {
                continue;
            }
            let is_ignored = marked.iter().any(|other| other.0 == name);
            let skipped = |why: &str| Some((Outcome::Skipped, why.to_owned()));
            let unchecked = match ignored {
                _ if kind == "benchmark" => skipped("a benchmark; check what it calls in a test"),
                RunIgnored::Default if is_ignored => skipped("ignored (--run-ignored all)"),
                RunIgnored::Only if !is_ignored => continue,
                _ => None,
            };
            let mut arguments: Vec<OsString> = vec![name.clone().into(), "--exact".into()];
            arguments.push("--test-threads=1".into());
            if is_ignored {
                arguments.push("--ignored".into());
            }
            arguments.extend(selection.arguments.iter().cloned());
            cases.all.push(Case { name, arguments, unchecked, ..whole.clone() });
        }
    }
    // Dependencies are not tested either.
    let tested = |package: &str| artifacts.iter().any(|other| other.test && other.package == package);
    let documented = artifacts.iter().filter(|artifact| {
        !artifact.test && artifact.doctest && tested(&artifact.package) && has_doctests(artifact)
    });
    let mut documented: Vec<&str> = documented.map(|artifact| artifact.package.as_str()).collect();
    documented.dedup();
    if !documented.is_empty() {
        cases.notes.push(format!(
            "documentation tests are not checked ({}); `cargo test --doc` runs them",
            documented.join(", ")
        ));
    }
    Ok(cases)
}

/// A test binary as one test, with the environment that cargo provides.
fn whole_program(artifact: &Artifact, program: &Path) -> Case {
    let directory = artifact.manifest.parent().unwrap_or(Path::new("/")).to_owned();
    let mut libraries: Vec<PathBuf> = program.parent().map(Path::to_owned).into_iter().collect();
    libraries.extend(program.parent().and_then(Path::parent).map(Path::to_owned));
    libraries.extend(std::env::var_os("LD_LIBRARY_PATH").iter().flat_map(std::env::split_paths));
    let libraries = std::env::join_paths(libraries).unwrap_or_default();
    let variable = |name: &str, value: &OsStr| (OsString::from(name), value.to_owned());
    let environment = vec![
        variable("CARGO_MANIFEST_DIR", directory.as_os_str()),
        variable("CARGO_MANIFEST_PATH", artifact.manifest.as_os_str()),
        variable("CARGO_PKG_NAME", OsStr::new(&artifact.package)),
        variable("LD_LIBRARY_PATH", &libraries),
    ];
    let (group, program) = (artifact.label(), program.to_owned());
    Case { group, program, directory, environment, ..Case::default() }
}

/// Does the program contain a test harness that can list its tests, judging by its text? Without one it would run
/// instead, and leave its pools as they are after the test.
fn has_harness(program: &Path) -> bool {
    let option = b"test-threads";
    std::fs::read(program).is_ok_and(|bytes| bytes.windows(option.len()).any(|window| window == option))
}

/// The tests that a binary lists, with their kinds; `None` if it cannot.
fn list(whole: &Case, scratch: &Scratch, more: &[&str]) -> io::Result<Option<Vec<(String, String)>>> {
    let file = scratch.path().join("list");
    let mut command = Command::new(&whole.program);
    command.args(["--list", "--format", "terse"]).args(more).current_dir(&whole.directory);
    command.envs(whole.environment.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(File::create(&file)?).stderr(Stdio::null());
    let (status, late) = runner::wait(command.spawn()?, LISTING, &|| false)?;
    let text = String::from_utf8_lossy(&std::fs::read(&file)?).into_owned();
    Ok(if status.success() && !late { parse_list(&text) } else { None })
}

/// `name: test` and `name: benchmark`, one per line.
fn parse_list(text: &str) -> Option<Vec<(String, String)>> {
    let line = |line: &str| {
        let (name, kind) = line.rsplit_once(": ")?;
        matches!(kind, "test" | "benchmark").then(|| (name.to_owned(), kind.to_owned()))
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(line).collect()
}

/// Does the library's documentation contain examples, judging by its own directory?
fn has_doctests(artifact: &Artifact) -> bool {
    let mut open: Vec<PathBuf> = artifact.source.parent().map(Path::to_owned).into_iter().collect();
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                let example =
                    |line: &str| ["/// ```", "//! ```"].iter().any(|it| line.trim_start().starts_with(it));
                if text.lines().any(example) {
                    return true;
                }
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libtest_lists() {
        let listed = parse_list("a::b: test\nfast: benchmark\n\n").expect("a list");
        assert_eq!(listed[0], ("a::b".into(), "test".into()));
        assert_eq!(listed[1].1, "benchmark");
        assert_eq!(parse_list("running everything\nok\n"), None);
        assert_eq!(parse_list(""), Some(Vec::new()));
    }

    #[test]
    fn packages_by_their_ids() {
        assert_eq!(package_name("path+file:///a/log#0.1.0"), "log");
        assert_eq!(package_name("path+file:///a/log#other@0.1.0"), "other");
    }

    #[test]
    fn words_for_the_harness() {
        let words: Vec<OsString> =
            ["--exact", "a", "--skip", "b", "--ignored", "--show-output"].map(Into::into).into();
        let mut ignored = RunIgnored::Default;
        let selection = Selection::read(&["c".into()], &words, &mut ignored);
        assert_eq!(selection.filter.names, ["c", "a"]);
        assert_eq!(selection.filter.skip, ["b"]);
        assert!(selection.filter.exact && ignored == RunIgnored::Only);
        assert_eq!(selection.arguments, ["--show-output"]);
    }
}
