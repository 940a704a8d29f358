//! Programs under test that attack the checker, each other and the user's files. The sandbox contains them, and nothing
//! outlives the checker, however it ends.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crashproof_check::{Level, permitted_level};
use crashproof_toolchain::testing;

use crate::processes::running;

mod processes;

/// A directory with a program in it.
struct Bench(tempfile::TempDir);

impl Bench {
    /// A program whose recovery begins with `attack`, and then fails if `data` was lost.
    fn new(attack: &str) -> Bench {
        let bench = Bench(tempfile::tempdir().expect("a directory"));
        fs::create_dir(bench.path("work")).expect("a directory");
        let source = bench.path("attack.c");
        let text = format!(
            r#"#define _GNU_SOURCE
#include <arpa/inet.h>
#include <crashproof.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
struct pair {{ _Alignas(64) long data; _Alignas(64) long flag; }};
static int raw_parent(void) {{
  char text[512] = "";
  int file = open("/proc/self/stat", O_RDONLY);
  if (read(file, text, sizeof text - 1) < 0) return 0;
  close(file);
  return atoi(strrchr(text, ')') + 4);
}}
int main(int argc, char **argv) {{
  (void)argc; (void)argv; (void)raw_parent;
  struct pair *pair = crashproof_root(sizeof *pair);
  if (crashproof_crashes()) {{
    {attack}
    crashproof_assert(!pair->flag || pair->data == 1);
    return 0;
  }}
  pair->data = 1;
  pair->flag = 1;
  crashproof_persist(&pair->flag, sizeof pair->flag);
  return 0;
}}
"#
        );
        fs::write(&source, text).expect("a source");
        testing::compile(&source, &bench.path("attack"), &["-g"]);
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crashproof"));
        command.arg("check").args(options).arg(self.path("attack")).arg("--").arg(self.0.path());
        command
            .current_dir(self.path("work"))
            .env("CRASHPROOF_PLUGIN", testing::plugin())
            .env("CRASHPROOF_RUNTIME", testing::runtime())
            .env("TMPDIR", self.0.path())
            .stdin(Stdio::null());
        command
    }

    fn check(&self, options: &[&str]) -> (Option<i32>, String) {
        let output = self.command(options).output().expect("crashproof runs");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (output.status.code(), text.concat())
    }

    /// The attack changes nothing: the program's own bug is found, and recoveries run as they should.
    #[track_caller]
    fn finds_the_bug(&self) {
        let (code, text) = self.check(&[]);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("`pair->data` is never flushed"), "{text}");
        assert!(text.contains("said     ") && text.contains("assertion failed"), "{text}");
        assert_eq!(running(&self.path("attack")), Vec::<String>::new());
    }
}

fn is_confined(least: Level) -> bool {
    let level = permitted_level();
    if level < least {
        println!("the kernel does not permit it here: {level:?}");
    }
    level >= least
}

#[test]
fn a_recovery_cannot_end_the_process_that_it_comes_from() {
    if is_confined(Level::Processes) {
        Bench::new("kill(raw_parent(), SIGKILL); kill(raw_parent(), SIGSTOP); kill(1, SIGKILL);")
            .finds_the_bug();
        Bench::new("signal(SIGTERM, SIG_IGN); kill(-1, SIGTERM); kill(-1, SIGSTOP);").finds_the_bug();
    }
}

#[test]
fn a_recovery_cannot_reach_into_the_process_that_it_comes_from() {
    if is_confined(Level::Full) {
        Bench::new(
            "if (open(\"/proc/1/mem\", O_RDWR) >= 0) return 7; \
             if (ptrace(PTRACE_ATTACH, 1, 0, 0) == 0) return 8; \
             char byte = 0; struct iovec mine = { &byte, 1 }, other = { (void *)&main, 1 }; \
             if (syscall(SYS_process_vm_readv, 1, &mine, 1, &other, 1, 0) >= 0) return 9; \
             if (open(\"/proc/self/mem\", O_RDWR) < 0) return 10;",
        )
        .finds_the_bug();
    }
}

/// The key of a segment of System V shared memory that exists.
fn key_of(segment: &str) -> Option<String> {
    let all = fs::read_to_string("/proc/sysvipc/shm").expect("a table of segments");
    let mut rows = all.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.find(|row| row.get(1) == Some(&segment)).map(|row| row[0].to_owned())
}

#[test]
fn shared_memory_of_others_stays_without_a_sandbox() {
    let made = Command::new("ipcmk").args(["--shmem", "4096"]).output().expect("ipcmk runs");
    let text = String::from_utf8_lossy(&made.stdout).into_owned();
    let segment = text.trim().rsplit(' ').next().expect("an identifier");
    let key = key_of(segment).expect("the segment exists");
    let bench = Bench::new(&format!("if (shmget({key}, 4096, IPC_CREAT | 0600) < 0) return 7;"));
    let (code, text) = bench.check(&["--no-sandbox"]);
    let after = key_of(segment);
    Command::new("ipcrm").args(["--shmem-id", segment]).output().expect("ipcrm runs");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("shared memory that another program has made"), "{text}");
    assert_eq!(after.as_deref(), Some(&*key));
}

#[test]
fn a_recovery_that_kills_itself_is_no_endless_one() {
    let bench = Bench::new("kill(0, SIGKILL);");
    let (code, text) = bench.check(&[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("killed by signal 9"), "{text}");
}

#[test]
fn what_a_recovery_leaves_running_ends() {
    let daemon = "if (fork() == 0) { setsid(); if (fork() == 0) for (;;) pause(); _exit(0); } wait(0);";
    let bench = Bench::new(daemon);
    let (code, text) = bench.check(&[]);
    assert_eq!(code, Some(1), "{text}");
    assert_eq!(running(&bench.path("attack")), Vec::<String>::new());
}

#[test]
fn files_of_the_user_stay_as_they_are() {
    if !is_confined(Level::Full) {
        return;
    }
    let bench = Bench::new(
        "char path[4096]; snprintf(path, sizeof path, \"%s/precious\", argv[1]); unlink(path); unlink(\"near\"); \
         int file = open(\"new\", O_CREAT | O_WRONLY, 0600); if (write(file, \"x\", 1) != 1) return 7; close(file); \
         file = open(\"near\", O_CREAT | O_WRONLY, 0600); if (write(file, \"x\", 1) != 1) return 8; close(file);",
    );
    fs::write(bench.path("precious"), "precious").expect("a file");
    fs::write(bench.path("work/near"), "near").expect("a file");
    bench.finds_the_bug();
    assert_eq!(fs::read_to_string(bench.path("precious")).expect("it is there"), "precious");
    assert_eq!(fs::read_to_string(bench.path("work/near")).expect("it is there"), "near");
    assert!(!bench.path("work/new").exists());
    // Without the sandbox the runtime restores the changes that it sees the recovery make.
    let (_, text) = bench.check(&["--no-sandbox"]);
    assert!(bench.path("precious").exists() && !bench.path("work/new").exists(), "{text}");
}

#[test]
fn files_of_the_user_stay_whatever_way_they_are_removed() {
    if !is_confined(Level::Full) {
        return;
    }
    let bench = Bench::new(
        "char path[4096]; snprintf(path, sizeof path, \"%s/precious\", argv[1]); \
         long gone; __asm__ volatile(\"syscall\" : \"=a\"(gone) : \"a\"(SYS_unlink), \"D\"(path) : \"rcx\", \"r11\", \"memory\");",
    );
    fs::write(bench.path("precious"), "precious").expect("a file");
    bench.finds_the_bug();
    assert_eq!(fs::read_to_string(bench.path("precious")).expect("it is there"), "precious");
    // The runtime does not see raw system calls: without the sandbox the file is lost.
    let (_, text) = bench.check(&["--no-sandbox"]);
    assert!(!bench.path("precious").exists(), "{text}");
}

#[test]
fn a_recovery_cannot_undo_the_sandbox() {
    if is_confined(Level::Full) {
        Bench::new(
            "if (mount(\"x\", \"/tmp\", \"tmpfs\", 0, 0) == 0) return 7; \
             if (mount(0, \"/\", 0, MS_REMOUNT | MS_BIND, 0) == 0) return 8; \
             if (umount2(\"/tmp\", MNT_DETACH) == 0 || umount2(\"/proc\", MNT_DETACH) == 0) return 9;",
        )
        .finds_the_bug();
    }
}

#[test]
fn servers_and_clients_have_the_loopback_device() {
    Bench::new(
        "struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } }; \
         socklen_t size = sizeof at; int server = socket(AF_INET, SOCK_STREAM, 0); \
         if (bind(server, (void *)&at, size) || listen(server, 1) || getsockname(server, (void *)&at, &size)) return 7; \
         if (connect(socket(AF_INET, SOCK_STREAM, 0), (void *)&at, size)) return 8;",
    )
    .finds_the_bug();
}

/// Waits for a condition, with a safety net against hangs.
fn wait_until(child: &mut Child, what: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if what() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    panic!("it does not come");
}

#[test]
fn nothing_outlives_a_checker_that_is_killed() {
    if !is_confined(Level::Full) {
        return;
    }
    // Each recovery leaves a lingering process behind, and then runs for long.
    let bench = Bench::new(
        "fclose(fopen(\"left\", \"w\")); if (fork() == 0) { setsid(); for (;;) pause(); } \
         for (volatile long i = 0; i < 1L << 40; i++) { }",
    );
    let mut command = bench.command(&["-j", "2"]);
    let mut checker = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("crashproof runs");
    // The two parked processes, a recovery, and its lingering process.
    wait_until(&mut checker, || running(&bench.path("attack")).len() >= 4);
    checker.kill().expect("it can be killed");
    checker.wait().expect("it ends");
    wait_until(&mut checker, || running(&bench.path("attack")).is_empty());
    assert_eq!(fs::read_dir(bench.path("work")).expect("a directory").count(), 0);
}
