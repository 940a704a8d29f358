//! Limits of the machine and of the user, and programs that cannot be checked: one clear sentence, and the documented
//! exit code.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crashproof_toolchain::testing;

const LOST: &str = "\
#include <crashproof.h>
struct pair { _Alignas(64) long data; _Alignas(64) long flag; };
int main(void) {
  struct pair *pair = crashproof_root(sizeof *pair);
  if (crashproof_crashes()) return pair->flag && pair->data != 1;
#ifdef SPIN
  for (volatile long i = 0; i < 1L << 60; i++) { }
#endif
  pair->data = 1;
  pair->flag = 1;
  crashproof_persist(&pair->flag, sizeof pair->flag);
  return 0;
}
";

struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Bench {
        let bench = Bench(tempfile::tempdir().expect("a directory"));
        fs::write(bench.path("lost.c"), LOST).expect("a source");
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn build(&self, flags: &[&str]) -> PathBuf {
        let program = self.path("program");
        testing::compile(&self.path("lost.c"), &program, flags);
        program
    }

    /// Runs a shell command in which `crashproof` is the tool.
    #[track_caller]
    fn shell(&self, line: &str, code: i32, part: &str) {
        let tool = Path::new(env!("CARGO_BIN_EXE_crashproof")).parent().expect("a directory");
        let path = std::env::join_paths([tool, Path::new("/usr/bin"), Path::new("/bin")]).expect("a path");
        let output = Command::new("bash")
            .args(["-c", line])
            .current_dir(self.0.path())
            .env("PATH", path)
            .env("CRASHPROOF_PLUGIN", testing::plugin())
            .env("CRASHPROOF_RUNTIME", testing::runtime())
            .env("CRASHPROOF_INCLUDE", testing::include())
            .stdin(Stdio::null())
            .output()
            .expect("a shell runs");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = text.concat();
        assert_eq!(output.status.code(), Some(code), "{line}\n{text}");
        assert!(text.contains(part), "{line}: no {part:?} in\n{text}");
    }
}

#[test]
fn limits_of_the_shell() {
    let bench = Bench::new();
    bench.build(&["-g"]);
    bench.shell("ulimit -f 10; crashproof check ./program", 3, "ulimit -f unlimited");
    bench.shell("ulimit -S -f 10; crashproof check ./program", 1, "is never flushed");
    bench.shell("ulimit -n 100; crashproof check ./program", 3, "ulimit -n");
    bench.shell("ulimit -n 900; crashproof check -j 200 ./program", 1, "is never flushed");
    bench.shell("ulimit -v 1000000; crashproof check ./program", 3, "Cannot allocate memory");
}

#[test]
fn a_parent_that_ignores_its_children() {
    let bench = Bench::new();
    bench.build(&["-g"]);
    bench.shell(
        "python3 -c 'import os, signal, sys\n\
         signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n\
         os.execvp(\"crashproof\", [\"crashproof\", \"check\", \"./program\"])'",
        1,
        "is never flushed",
    );
}

#[test]
fn sanitizers_that_need_the_same_addresses() {
    let bench = Bench::new();
    bench.build(&["-g", "-fsanitize=thread"]);
    bench.shell("crashproof check ./program", 2, "ThreadSanitizer");
    bench.build(&["-g", "-fsanitize=memory"]);
    bench.shell("crashproof check ./program", 2, "MemorySanitizer");
}

#[test]
fn the_time_allowed_bounds_the_recorded_run() {
    let bench = Bench::new();
    bench.build(&["-g", "-DSPIN"]);
    bench.shell("crashproof check --time 1 ./program", 3, "--time");
}

#[test]
fn what_never_ends_is_not_read_to_its_end() {
    let bench = Bench::new();
    fs::create_dir(bench.path("database")).expect("a directory");
    let database = bench.path("database/compile_commands.json");
    std::os::unix::fs::symlink("/dev/zero", database).expect("a link");
    let larger = "it is larger than";
    bench.shell("crashproof --config /dev/zero check lost.c", 2, larger);
    bench.shell("crashproof litmus /dev/zero", 2, larger);
    bench.shell("crashproof litmus - < /dev/zero", 2, larger);
    bench.shell("crashproof lint database/compile_commands.json", 2, larger);
    bench.shell("crashproof lint --baseline /dev/zero lost.c", 2, larger);
    bench.shell("crashproof lint --suppressions /dev/zero lost.c", 2, larger);
    bench.shell("crashproof lint --api /dev/zero lost.c", 2, larger);
}

#[test]
fn temporary_directories_of_killed_processes_go_with_the_next_run() {
    let bench = Bench::new();
    let left = bench.path("crashproof-left");
    let held = bench.path("crashproof-held");
    for directory in [&left, &held] {
        fs::create_dir(directory).expect("a directory");
        let lock = fs::File::create(directory.join(".lock")).expect("a file");
        let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(1000);
        lock.set_modified(long_ago).expect("a time");
    }
    let lock = fs::File::open(held.join(".lock")).expect("a file");
    lock.lock().expect("a lock");
    fs::create_dir(bench.path("crashproof-other")).expect("a directory");
    bench.shell("TMPDIR=$PWD crashproof check lost.c", 1, "is never flushed");
    assert!(!left.exists() && held.exists() && bench.path("crashproof-other").exists());
}
