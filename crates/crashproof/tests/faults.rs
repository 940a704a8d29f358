//! The tool's own system calls fail, one at a time: descriptors, processes, threads, memory or disk run out, calls are
//! interrupted, writes are short. Every command ends with a documented exit code and a message, never with a panic; it
//! leaves nothing behind, and reports only what it also finds undisturbed.
//!
//! `CRASHPROOF_FAULTS` sets how many calls of each kind fail; `make soak` uses more.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crashproof_toolchain::testing;

/// A call, and the error it returns.
const FAULTS: [(&str, i32); 22] = [
    ("open64", libc::EMFILE),
    ("mmap64", libc::ENOMEM),
    ("memfd_create", libc::EMFILE),
    ("ftruncate64", libc::ENOSPC),
    ("pipe2", libc::EMFILE),
    ("socketpair", libc::EMFILE),
    ("fork", libc::EAGAIN),
    ("posix_spawnp", libc::EAGAIN),
    ("pthread_create", libc::EAGAIN),
    ("dup2", libc::EMFILE),
    ("mkdir", libc::ENOSPC),
    ("read", libc::EIO),
    ("read", libc::EINTR),
    ("write", libc::ENOSPC),
    ("write", libc::EINTR),
    ("write", 0),
    ("writev", libc::ENOSPC),
    ("poll", libc::EINTR),
    ("waitpid", libc::EINTR),
    ("waitid", libc::EINTR),
    ("stat64", libc::EIO),
    ("fstat64", libc::EIO),
];

struct Bench {
    directory: tempfile::TempDir,
    library: PathBuf,
}

impl Bench {
    fn new() -> Bench {
        let directory = tempfile::tempdir().expect("a directory");
        let library = directory.path().join("inject.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/inject.c");
        let built =
            Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).status();
        assert!(built.expect("cc runs").success());
        std::fs::create_dir(directory.path().join("tmp")).expect("a directory");
        Bench { directory, library }
    }

    /// Runs a command whose `nth` call fails; also returns the number of such calls.
    fn run(&self, arguments: &[&str], (call, error): (&str, i32), nth: u64) -> (Output, u64) {
        let counter = self.directory.path().join("counter");
        let _ = std::fs::remove_file(&counter);
        // A safety net against hangs, not a measurement.
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "600", env!("CARGO_BIN_EXE_crashproof")]).args(arguments);
        let output = command
            .env("CRASHPROOF_PLUGIN", testing::plugin())
            .env("CRASHPROOF_RUNTIME", testing::runtime())
            .env("CRASHPROOF_INCLUDE", testing::include())
            .current_dir(self.directory.path())
            .env("TMPDIR", self.directory.path().join("tmp"))
            .env("LD_PRELOAD", &self.library)
            .env("FAULT_COUNTER", &counter)
            .env("FAULT_CALL", call)
            .env("FAULT_ERRNO", error.to_string())
            .env("FAULT_NTH", nth.to_string())
            .output()
            .expect("timeout runs");
        let calls = std::fs::read(&counter).expect("calls were counted");
        (output, u64::from_ne_bytes(calls[..8].try_into().expect("eight bytes")))
    }

    /// What is wrong about the end of a command.
    fn complaint(&self, output: &Output, undisturbed: i32) -> Option<String> {
        let errors = String::from_utf8_lossy(&output.stderr);
        // The standard library aborts if a thread's guard page cannot be allocated.
        if errors.contains("failed to allocate an alternative stack") {
            self.sweep();
            return None;
        }
        let left = self.sweep();
        match output.status.code() {
            _ if !left.is_empty() => Some(format!("leaves {left:?}\n{errors}")),
            // "Nothing found" only if nothing is found undisturbed.
            Some(0) if undisturbed != 0 => Some(format!("ends well\n{errors}")),
            Some(2..=4) if errors.trim().is_empty() && output.stdout.is_empty() => {
                Some("says nothing".into())
            }
            Some(0..=3) => None,
            Some(code) => Some(format!("exit code {code}\n{errors}")),
            None => Some(format!("signal {:?}\n{errors}", output.status.signal())),
        }
    }

    /// Empties the temporary directory, and returns its content.
    fn sweep(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.directory.path().join("tmp")).expect("a directory");
        let left: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        for path in &left {
            let _ = std::fs::remove_dir_all(path);
        }
        left
    }

    fn every_fault(&self, arguments: &[&str], most: u64) {
        if most == 0 {
            return;
        }
        let mut complaints = Vec::new();
        let mut tried = 0;
        for fault in FAULTS {
            let (output, calls) = self.run(arguments, fault, 0);
            let undisturbed = output.status.code().expect("an exit code");
            // The first ones, and others spread over the rest.
            let step = (calls / most.max(1)).max(1);
            for nth in (1..=calls).step_by(step as usize).take(most as usize) {
                let (output, _) = self.run(arguments, fault, nth);
                tried += 1;
                if let Some(complaint) = self.complaint(&output, undisturbed) {
                    complaints.push(format!("{fault:?}, call {nth} of {calls}: {complaint}"));
                }
            }
        }
        assert!(complaints.is_empty(), "{arguments:?}:\n{}", complaints.join("\n"));
        println!(
            "tried | failing system calls of `{}` | {tried} | documented exit codes, nothing left behind |",
            arguments[0]
        );
    }
}

fn most(default: u64) -> u64 {
    std::env::var("CRASHPROOF_FAULTS").ok().and_then(|most| most.parse().ok()).unwrap_or(default)
}

fn repository(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join(path).to_str().expect("a path in UTF-8").to_owned()
}

#[test]
fn check_survives_every_failing_call() {
    let bench = Bench::new();
    let program = bench.directory.path().join("program");
    let source = repository("examples/c/add_child_missing_flush.c");
    testing::compile(Path::new(&source), &program, &["-g"]);
    bench.every_fault(&["check", "-j", "2", "./program"], most(3));
}

/// Commands that continue from earlier results, and commands that edit sources.
#[test]
fn later_commands_survive_every_failing_call() {
    let bench = Bench::new();
    let source = repository("examples/c/add_child_missing_flush.c");
    std::fs::copy(source, bench.directory.path().join("list.c")).expect("a copy");
    testing::compile(
        &bench.directory.path().join("list.c"),
        &bench.directory.path().join("program"),
        &["-g"],
    );
    let no_fault = |arguments: &[&str]| bench.run(arguments, ("open64", libc::EMFILE), 0).0;
    let found = no_fault(&["check", "-j", "1", "--checkpoint", "kept", "./program"]);
    assert_eq!(found.status.code(), Some(1), "{found:?}");
    bench.every_fault(&["check", "-j", "1", "--checkpoint", "kept", "./program"], most(1));
    bench.every_fault(&["merge", "--trust", "kept"], most(1));
    let kept = std::fs::read_dir(bench.directory.path().join(".crashproof/replay")).expect("tokens");
    let kept = kept.map(|entry| entry.expect("a file").path()).next().expect("a token");
    let id = kept.file_stem().expect("a name").to_string_lossy().into_owned();
    bench.every_fault(&["replay", "--trust", &id], most(1));
    // It compiles repeatedly, so it is for `make soak`.
    bench.every_fault(&["fix", "list.c"], most(0));
}

#[test]
fn litmus_survives_every_failing_call() {
    let test = repository("litmus/patterns/append.litmus");
    Bench::new().every_fault(&["litmus", "--engine", "all", &test], most(2));
}

#[test]
fn lint_and_prove_survive_every_failing_call() {
    let bench = Bench::new();
    bench.every_fault(&["lint", &repository("examples/c/add_child_missing_flush.c")], most(1));
    bench.every_fault(&["prove", &repository("crates/crashproof/tests/cmd/prove.in/follow.c")], most(1));
}
