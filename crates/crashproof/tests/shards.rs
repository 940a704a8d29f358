//! Checks resumed after being killed, and checks divided into shards: the report equals that of a single check.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

/// A subject in a separate directory.
struct Checked {
    directory: tempfile::TempDir,
    program: PathBuf,
    arguments: Vec<&'static str>,
}

impl Checked {
    fn new(source: &str, flags: &[&str], arguments: &[&'static str]) -> Checked {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory.path().join("program");
        crashproof_toolchain::testing::compile(&source, &program, flags);
        Checked { directory, program, arguments: arguments.to_vec() }
    }

    /// `crashproof` with its own home directory, which contains what it trusts.
    fn crashproof(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crashproof"));
        command.current_dir(self.directory.path()).env("HOME", self.directory.path());
        command.env_remove("XDG_STATE_HOME").env_remove("XDG_CONFIG_HOME");
        command
    }

    fn check(&self, options: &[&str]) -> Command {
        let mut command = self.crashproof();
        command.arg("check").arg(&self.program).args(["-j", "1", "--format", "json"]).args(options);
        command.arg("--").args(&self.arguments);
        command
    }

    /// The report of the complete check.
    fn whole(&self) -> Value {
        report(&self.check(&[]).output().expect("it runs"))
    }
}

/// The report that a command printed, without the parts that differ between runs.
fn report(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let mut report: Value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    for time in ["seconds", "recording_seconds"] {
        report["stats"].as_object_mut().expect("figures").remove(time);
    }
    report
}

/// What must be the same however the check was made.
fn essence(report: &Value) -> Value {
    let findings: Vec<Value> = report["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .map(|it| {
            serde_json::json!([it["rule"], it["message"], it["line"], it["count"], it["replay"], it["fix"]])
        })
        .collect();
    // Where states are set aside after a few failures, each shard has its own failures.
    let names = ["failure_points", "eager_states", "recoveries", "behaviours"];
    let count = if findings.is_empty() { names.len() } else { 2 };
    let stats: Vec<&Value> = names[..count].iter().map(|name| &report["stats"][*name]).collect();
    serde_json::json!([report["verdict"], findings, report["bounds"], stats])
}

const LIST: &str = "benches/programs/search/structures.c";
const BUGGY: &str = "benches/programs/search/buggy.c";

/// Programs that are clean, that fail in two ways, and whose recovery waits forever.
fn programs() -> Vec<Checked> {
    vec![
        Checked::new(LIST, &["-O1"], &["list", "150", "all"]),
        Checked::new(BUGGY, &["-O1"], &["two", "200"]),
        Checked::new(BUGGY, &["-O1"], &["lock", "200"]),
    ]
}

fn path(directory: &Path, shard: u32) -> String {
    directory.join(format!("shard-{shard}")).to_string_lossy().into_owned()
}

#[test]
fn shards_merged_are_one_check() {
    for checked in programs() {
        let whole = checked.whole();
        // Every shard number once.
        let numbers = if whole["verdict"] == "clean" { 1..=7 } else { 3..=4 };
        for of in numbers {
            let directory = tempfile::tempdir().expect("a directory");
            let mut points = 0;
            for shard in 1..=of {
                let (one, kept) = (format!("{shard}/{of}"), path(directory.path(), shard));
                let output =
                    checked.check(&["--shard", &one, "--checkpoint", &kept]).output().expect("it runs");
                let part = report(&output);
                points += part["stats"]["failure_points"].as_u64().expect("a number");
                if of > 1 {
                    assert_ne!(part["verdict"], "clean", "the rest is not known");
                }
            }
            assert_eq!(points, whole["stats"]["failure_points"], "each crash point once");
            let directories = (1..=of).map(|shard| path(directory.path(), shard));
            let merged = checked.crashproof().arg("merge").args(directories).output().expect("it runs");
            assert_eq!(essence(&report(&merged)), essence(&whole), "{of} shards of {:?}", checked.arguments);
        }
    }
}

#[test]
fn shards_that_do_not_fit_are_named() {
    let checked = Checked::new(LIST, &["-O1"], &["list", "150", "all"]);
    let directory = tempfile::tempdir().expect("a directory");
    let kept = |shard| path(directory.path(), shard);
    for shard in 1..=3 {
        let one = format!("{shard}/3");
        checked.check(&["--shard", &one, "--checkpoint", &kept(shard)]).output().expect("it runs");
    }
    // The first shard once more with other options, as if it were another.
    checked.check(&["--shard", "1/3", "--checkpoint", &kept(4), "--crashes", "2"]).output().expect("it runs");
    let merge = |shards: &[u32]| {
        let output = checked.crashproof().arg("merge").args(shards.iter().map(|it| kept(*it))).output();
        let output = output.expect("it runs");
        (output.status.code(), report(&output)["bounds"]["incomplete"].to_string())
    };
    assert_eq!(merge(&[1, 2, 3]), (Some(0), "[]".into()));
    for (shards, reason) in [
        (&[1, 3][..], "of 3 shards, these are missing: 2"),
        (&[1, 2, 2, 3], "shard 2 is there twice"),
        (&[1, 2, 3, 4], "is of another check: --crashes differs"),
        (&[1, 2, 3, 9], "shard-9 is no checkpoint"),
    ] {
        let (code, reasons) = merge(shards);
        assert_eq!(code, Some(3), "{reasons}");
        assert!(reasons.contains(reason), "{reasons}");
    }
}

#[test]
fn a_check_that_was_killed_goes_on() {
    for checked in programs() {
        let whole = checked.whole();
        let directory = tempfile::tempdir().expect("a directory");
        let kept = path(directory.path(), 1);
        // Killed later and later, so that it eventually completes.
        for attempt in 1.. {
            let mut command = checked.check(&["--checkpoint", &kept]);
            let out = std::fs::File::create(directory.path().join("out")).expect("a file");
            let mut child = command.stdout(out).spawn().expect("it runs");
            std::thread::sleep(Duration::from_millis(20 * attempt * attempt));
            child.kill().expect("a child");
            if child.wait().expect("an end").code().is_some() {
                break;
            }
        }
        let stdout = std::fs::read(directory.path().join("out")).expect("a report");
        let resumed = Output { status: Default::default(), stdout, stderr: Vec::new() };
        assert_eq!(essence(&report(&resumed)), essence(&whole), "{:?}", checked.arguments);
        // Once more, when nothing is left to do.
        let again = checked.check(&["--checkpoint", &kept]).output().expect("it runs");
        assert_eq!(essence(&report(&again)), essence(&whole), "{:?}", checked.arguments);
    }
}

#[test]
fn another_program_does_not_go_on_with_a_checkpoint() {
    let checked = Checked::new(LIST, &["-O1"], &["list", "20", "all"]);
    let kept = path(checked.directory.path(), 1);
    let run = |checked: &Checked, options: &[&str]| {
        let output = checked.check(options).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(run(&checked, &["--checkpoint", &kept]).0, Some(0));
    let (code, told) = run(&checked, &["--checkpoint", &kept, "--crashes", "2"]);
    assert!(code == Some(2) && told.contains("changed since it began: --crashes"), "{told}");
    let other = Checked::new(LIST, &["-O1", "-DCHANGED"], &["list", "30", "all"]);
    let (code, told) = run(&other, &["--checkpoint", &kept]);
    assert!(code == Some(2) && told.contains("changed since it began: its arguments"), "{told}");
    let changed = Checked::new(BUGGY, &["-O1"], &["list", "20", "all"]);
    let (code, told) = run(&changed, &["--checkpoint", &kept]);
    assert!(code == Some(2) && told.contains("changed since it began: the program"), "{told}");
    // A checkpoint that another user wrote is not run.
    let merge = |home: &OsStr| checked.crashproof().env("HOME", home).args(["merge", &kept]).output();
    let told = merge(OsStr::new("/nonexistent")).expect("it runs");
    assert_eq!(told.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&told.stderr).contains("add --trust"), "{told:?}");
}
