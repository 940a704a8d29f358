//! Programs with threads, and what must come of checking them.
//!
//! Every program in `tests/threads` says in lines `// run: FLAGS schedules=N verdict=V [says=TEXT]` how it is
//! to be built and checked, and what must come of it: `clean`, `findings`, `unknown`, or `fails` if the
//! program fails without any crash under some schedule. `says` must be part of some output or reason.

use std::path::{Path, PathBuf};

use crashproof_check::{Options, Report, Strategy, check, record};

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
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => crashproof_toolchain::testing::compile(file, program, &flags),
        _ => crashproof_toolchain::testing::compile(
            file,
            program,
            &[&["-Wall", "-Werror"], &flags[..]].concat(),
        ),
    }
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
                assert_eq!(&first[..], &second[..], "{name}: seed {seed}, {strategy:?}");
                distinct
                    .insert(first.iter().map(|record| (record.thread(), record.kind())).collect::<Vec<_>>());
            }
            assert!(distinct.len() > 1, "{name}: seeds make no difference, {strategy:?}");
        }
    }
}
