//! Programs that cannot be checked, or misbehave during a check: a clear message, the right exit code, and nothing left
//! behind.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::processes::running;

mod processes;

struct Place {
    directory: tempfile::TempDir,
}

/// The result of a check.
struct Outcome {
    code: i32,
    text: String,
}

impl Outcome {
    #[track_caller]
    fn is(&self, code: i32, part: &str) {
        assert_eq!(self.code, code, "{}", self.text);
        assert!(self.text.contains(part), "no {part:?} in:\n{}", self.text);
    }
}

impl Place {
    fn new() -> Place {
        Place { directory: tempfile::tempdir().expect("a directory") }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Builds a program with crashproof.
    fn build(&self, text: &str) -> PathBuf {
        let (source, program) = (self.file("program.c"), self.file("program"));
        fs::write(&source, text).expect("a file");
        crashproof_toolchain::testing::compile(&source, &program, &["-D_GNU_SOURCE"]);
        program
    }

    /// Checks a program, then verifies that nothing of it is left.
    fn check(&self, program: &Path, options: &[&str], arguments: &[&Path], input: Option<&Path>) -> Outcome {
        let before = shared_memory();
        let input = input.map_or(Stdio::null(), |path| File::open(path).expect("a file").into());
        let output = Command::new(env!("CARGO_BIN_EXE_crashproof"))
            .arg("check")
            .args(options)
            .arg(program)
            .arg("--")
            .args(arguments)
            .env("TMPDIR", self.directory.path())
            .stdin(input)
            .output()
            .expect("crashproof runs");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let left = running(program);
        assert!(left.is_empty(), "processes are left: {left:?}");
        let new: Vec<_> = shared_memory().into_iter().filter(|name| !before.contains(name)).collect();
        assert!(!new.iter().any(|name| name.contains("crashproof")), "shared memory is left: {new:?}");
        Outcome { code: output.status.code().expect("it ends on its own"), text: text.concat() }
    }
}

fn shared_memory() -> Vec<String> {
    let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_program_that_crashproof_did_not_build() {
    let place = Place::new();
    let (source, program) = (place.file("program.c"), place.file("program"));
    fs::write(&source, "int main(void) { return 0; }").expect("a file");
    let built = Command::new("clang-22").arg(&source).arg("-o").arg(&program).status();
    assert!(built.expect("clang runs").success());
    place.check(&program, &[], &[], None).is(2, "was not built with crashproof");
    place.check(&place.file("nothing"), &[], &[], None).is(2, "cannot start");
}

/// For a file that is not a program, the message names the command to use instead.
#[test]
fn scripts_and_packages_say_what_to_type() {
    let place = Place::new();
    let (script, package) = (place.file("load.py"), place.file("Cargo.toml"));
    fs::write(&script, "#!/usr/bin/env python3\nprint(1)\n").expect("a file");
    fs::write(&package, "[package]\n").expect("a file");
    place
        .check(&script, &[], &[], None)
        .is(2, &format!("`crashproof check python3 -- {}`", script.display()));
    place.check(&package, &[], &[], None).is(2, "`crashproof cargo build`");
}

#[test]
fn a_pm_path_that_does_not_exist() {
    let place = Place::new();
    let program = place.build("int main(void) { return 0; }");
    let outcome = place.check(&program, &["--pm-path", "/no/such/path"], &[], None);
    outcome.is(2, "--pm-path /no/such/path: there is no such file or directory");
    place.check(&program, &["--pm-path", "/no/such/path*"], &[], None).is(3, "no persistent memory found");
}

/// What was to prepare the pool fails: that is not the program's fault.
#[test]
fn a_setup_that_fails() {
    let place = Place::new();
    let program = place.build("int main(int count, char **words) { return count > 1 ? 7 : 0; }");
    let setup = format!("{} prepare", program.display());
    let outcome = place.check(&program, &["--setup", &setup], &[], None);
    outcome.is(2, "--setup: ");
    assert!(outcome.text.contains("fails (it exits with code 7)"), "{}", outcome.text);
}

#[test]
fn a_program_without_persistent_memory() {
    let place = Place::new();
    let program = place.build("int main(void) { return 0; }");
    let outcome = place.check(&program, &[], &[], None);
    outcome.is(3, "no persistent memory found: the program stores to none; what counts: files mapped below");
    place.check(&program, &["--format", "json"], &[], None).is(3, "\"verdict\":\"unknown\"");
}

/// Without options for persistent memory, a file that is mapped shared counts as persistent.
#[test]
fn a_program_that_maps_a_file_elsewhere() {
    let place = Place::new();
    let program = place.build(
        r#"#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
  int file = open(argv[argc - 1], O_CREAT | O_RDWR, 0600);
  if (ftruncate(file, 4096)) return 1;
  int *word = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  *word = 1;
  return 0;
}"#,
    );
    let (directory, pool) = (place.file("pools"), place.file("pools/pool"));
    fs::create_dir(&directory).expect("a directory");
    let (directory, shown) = (directory.to_str().expect("UTF-8"), pool.display());
    let outcome = place.check(&program, &[], &[&pool], None);
    outcome.is(0, &format!("{shown}: taken as persistent"));
    assert!(!pool.exists(), "the check keeps it in memory");
    let outcome = place.check(&program, &["--pm-path", directory], &[&pool], None);
    assert!(!outcome.text.contains("no persistent memory"), "{}", outcome.text);
}

/// Files that are neither programs nor sources of one are not run.
#[test]
fn files_that_are_no_programs() {
    let place = Place::new();
    let program = place.build("int main(void) { return 0; }");
    for (name, complaint) in [
        ("m.bc", "bitcode is not run: check its source"),
        ("m.S", "assembly is not instrumented"),
        ("m.hpp", "give the source that includes it"),
    ] {
        fs::write(place.file(name), "#!/bin/sh\n").expect("a file");
        place.check(&place.file(name), &[], &[], None).is(2, complaint);
    }
    // Arguments of the program follow `--`.
    let options = [program.to_str().expect("UTF-8")];
    place.check(&program, &options, &[], None).is(2, "a program's arguments go after `--`");
}

#[test]
fn a_program_that_fails_without_any_crash() {
    let place = Place::new();
    let program = place.build(
        "#include <crashproof.h>\n#include <stdio.h>\n\
         int main(void) { long *r = crashproof_root(8); *r = 1; fputs(\"out of luck\", stderr); return 3; }",
    );
    let outcome = place.check(&program, &[], &[], None);
    outcome.is(2, "fails without any crash (it exits with code 3)");
    outcome.is(2, "out of luck");
}

#[test]
fn a_recovery_that_is_not_repeatable() {
    let place = Place::new();
    let program = place.build(
        r#"#include <crashproof.h>
#include <fcntl.h>
#include <unistd.h>
int main(void) {
  long *r = crashproof_root(256);
  if (crashproof_crashes()) {
    // The kernel's counters are never the same twice.
    static unsigned char text[4096];
    long sum = 0, bytes = read(open("/proc/stat", O_RDONLY), text, sizeof text);
    for (long i = 0; i < bytes; i++)
      sum = sum * 31 + text[i];
    return r[(unsigned long)sum % 32] > 1000;
  }
  for (long i = 1; i < 4; i++) {
    for (int j = 0; j < 32; j++)
      r[j] = i;
    crashproof_persist(r, 256);
  }
  return 0;
}"#,
    );
    let outcome = place.check(&program, &[], &[], None);
    outcome.is(3, "recovery is not repeatable: after reading the same it once");
    outcome.is(3, "program.c:");
}

#[test]
fn programs_read_a_file_as_standard_input() {
    let place = Place::new();
    let program = place.build(
        r#"#include <crashproof.h>
#include <stdio.h>
#include <string.h>
int main(void) {
  char line[32] = "";
  long *r = crashproof_root(8);
  crashproof_assert(fgets(line, sizeof line, stdin) == line);
  crashproof_assert(strcmp(line, "hello\n") == 0);
  *r = 1;
  crashproof_persist(r, 8);
  return 0;
}"#,
    );
    let input = place.file("input");
    fs::write(&input, "hello\nworld\n").expect("a file");
    place.check(&program, &[], &[], Some(&input)).is(0, "clean");
    // Without one, standard input is empty rather than the terminal's.
    place.check(&program, &[], &[], None).is(2, "fails without any crash");
}

#[test]
fn recoveries_that_hurt_the_machine_hurt_only_themselves() {
    let place = Place::new();
    let text = |recovery: &str| {
        format!(
            "#include <crashproof.h>\n#include <fcntl.h>\n#include <stdlib.h>\n\
             #include <signal.h>\n#include <sys/wait.h>\n#include <unistd.h>\n\
             int main(int argc, char **argv) {{ long *r = crashproof_root(8); (void)argc; (void)argv;\n\
             if (crashproof_crashes()) {{ {recovery} return *r > 1; }}\n\
             *r = 1; crashproof_persist(r, 8); return 0; }}"
        )
    };
    // A file as large as the pool, and a full disk.
    let disk = place.build(&text(
        "int f = open(argv[1], O_CREAT | O_WRONLY, 0600); if (pwrite(f, r, 1, 1L << 40) > 0) abort(); \
         unlink(argv[1]); int full = open(\"/dev/full\", O_WRONLY); if (write(full, \"x\", 1) > 0) abort();",
    ));
    place.check(&disk, &[], &[&place.file("big")], None).is(0, "clean");
    let processes =
        place.build(&text("for (int i = 0; i < 20; i++) if (fork() == 0) { setsid(); for (;;) pause(); }"));
    place.check(&processes, &[], &[], None).is(0, "clean");
    let group = place.build(&text("kill(0, 9);"));
    place.check(&group, &[], &[], None).is(1, "recovery");
}
