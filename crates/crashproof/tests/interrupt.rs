//! A long check: findings are reported as lines of JSON, and after Ctrl-C the findings so far are reported, and nothing
//! is left behind.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::processes::running;

mod processes;

/// A check that would practically never end, with its own temporary directory.
fn check(directory: &Path, flags: &[&str], format: &str) -> Child {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/search/many_lines.c");
    let program = directory.join("program");
    crashproof_toolchain::testing::compile(&source, &program, flags);
    let temporary = directory.join("tmp");
    std::fs::create_dir(&temporary).expect("a directory");
    Command::new(env!("CARGO_BIN_EXE_crashproof"))
        .arg("check")
        .arg(program)
        .args(["--max-per-crash", "0", "--exhaustive", "--format", format, "-j", "1", "--no-robust"])
        .env("TMPDIR", temporary)
        .env_remove("CRASHPROOF_PROGRESS")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("crashproof runs")
}

fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(status.expect("kill runs").success());
}

#[test]
fn an_interrupted_check_reports_what_it_found_and_leaves_nothing_behind() {
    for (flags, code, verdict) in [(&[][..], 1, "findings"), (&["-DSILENT"], 3, "unknown")] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut child = check(directory.path(), flags, "json");
        // It shows progress after a while.
        let mut told = String::new();
        let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
        errors.read_line(&mut told).expect("a line");
        assert!(told.contains("% of the run") && told.contains("crash point"), "{told}");
        interrupt(&child);
        let mut report = String::new();
        child.stdout.take().expect("a pipe").read_to_string(&mut report).expect("a report");
        assert_eq!(child.wait().expect("an end").code(), Some(code), "{report}");
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        assert_eq!(report["verdict"], verdict);
        let reasons = report["bounds"]["incomplete"].to_string();
        assert!(reasons.contains("interrupted"), "{reasons}");
        assert_eq!(running(directory.path()), Vec::<String>::new());
        let left = std::fs::read_dir(directory.path().join("tmp")).expect("a directory").count();
        assert_eq!(left, 0, "files left behind");
    }
}

#[test]
fn the_second_interruption_ends_everything_at_once_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut child = check(directory.path(), &["-DSILENT"], "json");
    let mut told = String::new();
    BufReader::new(child.stderr.take().expect("a pipe")).read_line(&mut told).expect("a line");
    // Two signals in quick succession may be merged.
    while child.try_wait().expect("a child").is_none() {
        interrupt(&child);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // Either its orderly end or the second signal came first.
    assert!(matches!(child.wait().expect("an end").code(), Some(3 | 130)));
    let left = std::fs::read_dir(directory.path().join("tmp")).expect("a directory").count();
    assert_eq!(left, 0, "files left behind");
    let mut left = running(directory.path());
    while !left.is_empty() {
        // They were killed, and take a moment to disappear.
        left = running(directory.path());
    }
}

#[test]
fn lines_of_json_come_while_the_check_goes_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut child = check(directory.path(), &[], "jsonl");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut line = || -> Option<serde_json::Value> {
        Some(serde_json::from_str(&lines.next()?.expect("text")).expect("JSON"))
    };
    let first = line().expect("a finding");
    assert_eq!((&first["rule"], &first["preliminary"]), (&"recovery-fails".into(), &true.into()));
    assert!(child.try_wait().expect("a child").is_none(), "it would not end in a lifetime");
    interrupt(&child);
    let rest: Vec<serde_json::Value> = std::iter::from_fn(line).collect();
    let (last, findings) = rest.split_last().expect("a last line");
    assert_eq!(last["verdict"], "findings");
    let same = |finding: &serde_json::Value| {
        finding["fingerprint"] == first["fingerprint"] && finding["preliminary"].is_null()
    };
    assert!(findings.iter().any(same), "told again in the end: {rest:?}");
    assert_eq!(child.wait().expect("an end").code(), Some(1));
}
