//! Programs with threads, and what must come of checking them.
//!
//! Every program in `tests/threads` says in lines `// run: FLAGS schedules=N verdict=V [says=TEXT]` how it is
//! to be built and checked, and what must come of it: `clean`, `findings`, `unknown`, or `fails` if the
//! program fails without any crash under some schedule. `says` must be part of some output or reason.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crashproof_check::{Options, Report, Strategy, check, record};

/// The directory with the runtime and the plugin, which are built if need be.
fn tools() -> &'static Path {
    static TOOLS: OnceLock<PathBuf> = OnceLock::new();
    TOOLS.get_or_init(|| {
        let test = std::env::current_exe().expect("this test has a path");
        let directory = test.ancestors().nth(2).expect("target/PROFILE/deps/test").to_owned();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "-p", "crashproof-runtime", "-p", "crashproof-instrument"]);
        cargo.arg("--target-dir").arg(directory.parent().expect("target/PROFILE"));
        if directory.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().expect("cargo runs").success(), "cannot build the runtime and the plugin");
        directory
    })
}

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/threads")
}

/// One `// run:` line.
#[derive(Clone, Debug, Default)]
struct Run {
    flags: Vec<String>,
    schedules: u32,
    verdict: String,
    says: Option<String>,
}

fn runs(source: &str) -> Vec<Run> {
    let lines = source.lines().filter_map(|line| line.strip_prefix("// run: "));
    lines
        .map(|line| {
            let mut run = Run::default();
            for word in line.split(' ') {
                match word.split_once('=') {
                    Some(("schedules", count)) => run.schedules = count.parse().expect("a number"),
                    Some(("verdict", verdict)) => run.verdict = verdict.into(),
                    Some(("says", text)) => run.says = Some(text.into()),
                    _ => run.flags.push(word.into()),
                }
            }
            run
        })
        .collect()
}

fn build(file: &Path, flags: &[String], program: &Path) {
    let tools = tools();
    let plugin = tools.join("libcrashproof_instrument.so");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let mut compiler = match file.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => {
            let mut rustc = Command::new("rustc");
            rustc.args(["--edition=2024", "-g", "-O", "--target=x86_64-unknown-linux-gnu"]);
            rustc.args(["-Clinker-plugin-lto", "-Clinker=clang-22", "-Clink-arg=-fuse-ld=lld-22"]);
            rustc.arg(format!("-Clink-arg=-Wl,--load-pass-plugin={}", plugin.display()));
            rustc.arg(format!("-Clink-arg=-Wl,-rpath,{}", tools.display()));
            rustc
        }
        extension => {
            let mut clang = Command::new(if extension == Some("cpp") { "clang++-22" } else { "clang-22" });
            clang.args(["-O1", "-g", "-Wall", "-Werror", "-I"]).arg(include);
            clang.arg(format!("-fpass-plugin={}", plugin.display()));
            clang.arg(format!("-Wl,-rpath,{}", tools.display()));
            clang
        }
    };
    compiler.args(flags).arg(file).arg("-o").arg(program).arg("-L").arg(tools);
    if file.extension().is_some_and(|extension| extension != "rs") {
        compiler.arg("-lcrashproof_runtime");
    }
    let output = compiler.output().expect("the compiler is installed");
    assert!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
}

fn verdict(report: &Report) -> &'static str {
    match report {
        _ if report.findings.iter().any(|finding| finding.crashes == 0) => "fails",
        _ if !report.findings.is_empty() => "findings",
        _ if !report.unknown.is_empty() => "unknown",
        _ => "clean",
    }
}

/// A directory of its own for a test.
fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("threads").join(name);
    std::fs::create_dir_all(&directory).expect("a directory for programs");
    directory
}

#[test]
fn programs_get_the_verdicts_they_ask_for() {
    let directory = scratch("verdicts");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(programs()).expect("programs").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    let mut wrong = Vec::new();
    for file in files {
        let source = std::fs::read_to_string(&file).expect("a program");
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        let runs = runs(&source);
        assert!(!runs.is_empty(), "{name} does not say what is expected of it");
        for (index, run) in runs.iter().enumerate() {
            let program = directory.join(format!("{name}-{index}"));
            build(&file, &run.flags, &program);
            let mut options = Options::new(program, Vec::new());
            options.schedules = run.schedules;
            let report = match check(&options) {
                Ok(report) => report,
                Err(error) => {
                    wrong.push(format!("{name}: {run:?}: {error}"));
                    continue;
                }
            };
            let got = verdict(&report);
            if got != run.verdict {
                wrong.push(format!("{name}: {run:?}: {got}: {:?} {:?}", report.findings, report.unknown));
            }
            let outputs = report.findings.iter().map(|finding| &finding.output);
            let said = |text| outputs.chain(&report.unknown).any(|output| output.contains(text));
            if run.says.as_deref().is_some_and(|text| !said(text)) {
                wrong.push(format!("{name}: {run:?}: does not say so: {report:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let directory = scratch("repeat");
    for name in ["pthreads.c", "spin.c", "queue.c", "cpp_threads.cpp"] {
        let file = programs().join(name);
        let program = directory.join(name);
        let flags = if name.ends_with("cpp") { vec!["-std=c++20".to_owned()] } else { Vec::new() };
        build(&file, &flags, &program);
        for strategy in [Strategy::Random, Strategy::Pct] {
            let mut options = Options::new(program.clone(), Vec::new());
            options.strategy = strategy;
            let mut distinct = std::collections::HashSet::new();
            for seed in 0..6 {
                let first = record(&options, seed).expect("a run");
                let second = record(&options, seed).expect("a run");
                assert_eq!(first, second, "{name}: seed {seed}, {strategy:?}");
                distinct.insert(first.iter().map(|record| (record.thread, record.kind)).collect::<Vec<_>>());
            }
            assert!(distinct.len() > 1, "{name}: seeds make no difference, {strategy:?}");
        }
    }
}
