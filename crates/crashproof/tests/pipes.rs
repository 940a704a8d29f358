//! Output that cannot be written: a reader that stops early, a full disk, a missing directory.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn crashproof(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crashproof"));
    command
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env("CRASHPROOF_PLUGIN", crashproof_toolchain::testing::plugin())
        .env("CRASHPROOF_RUNTIME", crashproof_toolchain::testing::runtime())
        .env("CRASHPROOF_INCLUDE", crashproof_toolchain::testing::include());
    command
}

const BAD: &str = "examples/c/add_child_missing_flush.c";

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The reader takes one line and exits; the exit code is that of the verdict, without any message.
#[test]
fn a_broken_pipe_is_no_error() {
    for (arguments, code) in [(&["check", BAD][..], 1), (&["explain"], 0), (&["litmus", "litmus"], 0)] {
        let mut child =
            crashproof(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
        let mut line = String::new();
        let mut out = BufReader::with_capacity(16, child.stdout.take().expect("a pipe"));
        out.read_line(&mut line).expect("a line");
        drop(out);
        let output = child.wait_with_output().expect("ends");
        assert!(!line.is_empty());
        assert_eq!((output.status.code(), told(&output).as_str()), (Some(code), ""), "{arguments:?}");
    }
}

#[test]
fn a_full_disk_is_said() {
    for format in ["text", "json", "sarif", "junit", "html"] {
        let full = format!("{format}=/dev/full");
        let output = crashproof(&["check", BAD, "--format", &full]).output().expect("runs");
        assert_eq!(output.status.code(), Some(2), "{format}: {}", told(&output));
        assert!(told(&output).contains("cannot write /dev/full: No space left"), "{}", told(&output));
    }
    let full = std::fs::File::options().write(true).open("/dev/full").expect("opens");
    let output = crashproof(&["check", BAD]).stdout(full).output().expect("runs");
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("No space left"), "{}", told(&output));
}

/// Reported before the work begins.
#[test]
fn what_cannot_be_written_is_said_at_once() {
    for option in [
        &["--html", "/no/such/dir/x.html"][..],
        &["--format", "junit=/no/such/dir/x"],
        &["--write-baseline", "/"],
    ] {
        let arguments = [&["check", "/bin/true"][..], option].concat();
        let output = crashproof(&arguments).output().expect("runs");
        assert_eq!(output.status.code(), Some(2));
        assert!(told(&output).starts_with("crashproof: cannot write /"), "{}", told(&output));
    }
}
