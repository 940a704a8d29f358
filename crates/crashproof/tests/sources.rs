//! Commands that take sources: which files count as sources, how they are compiled, and with which arguments.

use std::path::Path;
use std::process::Command;

/// Loses `data` in a crash, unless compiled to flush it.
const PROGRAM: &str = "#include <crashproof.h>
#include <immintrin.h>
PERSISTENT struct { long data, padding[7], flag; } p;
static void flush(void *line) {
#ifdef OPT
  _mm_clflushopt(line);
#else
  _mm_clwb(line);
#endif
  _mm_sfence();
}
void recover(void) {
  if (p.flag) crashproof_assert(p.data == 42);
}
int main(void) {
  if (crashproof_crashes()) { recover(); return 0; }
  p.data = 42;
#ifdef FLUSH
  flush(&p.data);
#endif
  p.flag = 1;
  flush(&p.flag);
  return 0;
}
";

fn crashproof(directory: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_crashproof"))
        .args(arguments)
        .current_dir(directory)
        .env("NO_COLOR", "1")
        .env("CRASHPROOF_PLUGIN", crashproof_toolchain::testing::plugin())
        .env("CRASHPROOF_RUNTIME", crashproof_toolchain::testing::runtime())
        .env("CRASHPROOF_INCLUDE", crashproof_toolchain::testing::include())
        .output()
        .expect("crashproof runs");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.code(), text.concat())
}

#[track_caller]
fn run(directory: &Path, arguments: &[&str], code: i32) -> String {
    let (ended, text) = crashproof(directory, arguments);
    assert_eq!(ended, Some(code), "{arguments:?}:\n{text}");
    text
}

fn project(name: &str, text: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join(name), text).expect("written");
    directory
}

/// `_mm_clwb` and `_mm_clflushopt` compile without flags, and `--cflags` reaches the compiler, for every engine.
#[test]
fn every_engine_compiles_alike() {
    let project = project("m.c", PROGRAM);
    let at = project.path();
    for command in ["check", "lint", "prove"] {
        for more in ["", "-DOPT"] {
            let lost = format!("--cflags={more}");
            run(at, &[command, "m.c", &lost], 1);
            let flushed = format!("{more} -DFLUSH");
            run(at, &[command, "m.c", "--cflags", flushed.trim_start()], 0);
        }
    }
    // Where nothing runs, arguments after `--` go to the compiler, as before, in addition to `--cflags`.
    run(at, &["lint", "m.c", "--cflags=-DOPT", "--", "-DFLUSH"], 0);
    run(at, &["prove", "m.c", "--cflags=-DOPT", "--", "-DFLUSH"], 0);
    // ... and to the program where it runs.
    run(at, &["check", "m.c", "--", "-DFLUSH"], 1);
    let text = run(at, &["check", "m.c", "--cflags=-include absent.h"], 2);
    assert!(text.contains("m.c does not compile; --cflags passes arguments to the compiler"), "{text}");
}

/// Files that clang compiles as C++ are compiled, not run.
#[test]
fn every_ending_of_a_source_is_known_to_every_engine() {
    for name in ["m.c++", "m.cc", "m.cp", "m.C", "m.cxx"] {
        let text = PROGRAM.replace("void recover", "extern \"C\" void recover");
        let project = project(name, &text);
        for command in ["check", "lint", "prove"] {
            let text = run(project.path(), &[command, name], 1);
            assert!(text.contains(name), "{text}");
        }
    }
}

#[test]
fn several_sources_are_one_program() {
    let project =
        project("m.c", "#include \"p.h\"\nint main(void) { if (look()) return 1; return change(); }\n");
    let at = project.path();
    let header = "#ifdef __cplusplus\nextern \"C\" {\n#endif\nint look(void);\nint change(void);\n\
                  #ifdef __cplusplus\n}\n#endif\n";
    std::fs::write(at.join("p.h"), header).expect("written");
    let library = "#include \"p.h\"\n#include <crashproof.h>\nPERSISTENT struct { long a, padding[7], b; } p;\n\
                   int look(void) { return p.b && !p.a; }\n\
                   int change(void) { p.a = 1; p.b = 1; crashproof_persist(&p.b, 8); return 0; }\n";
    for name in ["library.c", "library.cpp"] {
        std::fs::write(at.join(name), library).expect("written");
        let text = run(at, &["check", "m.c", name], 1);
        assert!(text.contains(&format!("{name}:5")), "{text}");
        run(at, &["lint", "m.c", name], 1);
    }
    let text = run(at, &["check", "m.c", "./nothing"], 2);
    assert!(text.contains("./nothing is not a source"), "{text}");
}

/// A replay builds the program as the check did.
#[test]
fn a_replay_compiles_with_the_same_arguments() {
    let project = project("m.c", &format!("#ifndef OPT\n#error give -DOPT\n#endif\n{PROGRAM}"));
    let at = project.path();
    let text = run(at, &["check", "m.c", "--cflags", "-DOPT -DUNUSED", "--format", "json"], 1);
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let findings = report["findings"].as_array().expect("findings");
    let token = findings.iter().find_map(|finding| finding["replay"].as_str().filter(|it| !it.is_empty()));
    let text = run(at, &["replay", token.expect("a token")], 1);
    assert!(text.contains("recovery"), "{text}");
}

#[test]
fn a_rust_source_is_checked() {
    let project = project(
        "m.rs",
        "unsafe extern \"C\" { fn crashproof_root(bytes: usize) -> *mut u64; }\n\
         fn main() {\n    unsafe {\n        let root = crashproof_root(128);\n        \
         if root.add(8).read_volatile() == 1 { assert_eq!(root.read_volatile(), 1); return; }\n        \
         root.write_volatile(1);\n        root.add(8).write_volatile(1);\n    }\n}\n",
    );
    let text = run(project.path(), &["check", "m.rs"], 1);
    assert!(text.contains("m.rs:6"), "{text}");
}
