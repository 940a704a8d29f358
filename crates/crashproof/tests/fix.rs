//! `crashproof fix` as users call it: on a source, on a project with its own build, showing or applying the change.

use std::path::Path;
use std::process::Command;

/// A commit whose preceding flush is missing; the following flush is duplicated.
const STORE: &str = "\
#include \"store.h\"

void put(struct store *store, long value) {
  store->value = value;
  store->valid = 1;
  crashproof_persist(&store->valid, sizeof store->valid);
  crashproof_persist(&store->valid, sizeof store->valid);
}
";

const HEADER: &str = "\
#include <crashproof.h>

struct store {
  _Alignas(64) long value;
  _Alignas(64) long valid;
};

void put(struct store *store, long value);
";

const MAIN: &str = "\
#include \"store.h\"
#include <string.h>

int main(int argc, char **argv) {
  struct store *store = crashproof_root(sizeof *store);
  int verify = argc > 1 && !strcmp(argv[1], \"verify\");
  if (crashproof_crashes() || verify) {
    crashproof_assert(!verify || !store->valid || store->value == 42);
    return 0;
  }
  put(store, 42);
  return 0;
}
";

const FLUSHED: &str = "  crashproof_persist(&store->value, sizeof(store->value));\n";

struct Project(tempfile::TempDir);

impl Project {
    fn new() -> Project {
        let project = Project(tempfile::tempdir().expect("a directory"));
        for (name, text) in [("store.c", STORE), ("store.h", HEADER), ("main.c", MAIN)] {
            project.write(name, text);
        }
        // Built manually, and the check finds the bug only with the right options.
        project.write("crashproof.toml", "[check]\nrecover = './kv verify'\n");
        project
    }

    fn at(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.at().join(name), text).expect("written");
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.at().join(name)).expect("readable")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crashproof"));
        command.args(arguments).current_dir(self.at()).env("NO_COLOR", "1").env("COLUMNS", "100");
        for (name, path) in [
            ("CRASHPROOF_PLUGIN", crashproof_toolchain::testing::plugin()),
            ("CRASHPROOF_RUNTIME", crashproof_toolchain::testing::runtime()),
            ("CRASHPROOF_INCLUDE", crashproof_toolchain::testing::include()),
        ] {
            command.env(name, path);
        }
        command
    }

    /// Runs crashproof, which must end with this code; returns its output.
    fn run(&self, arguments: &[&str], code: i32) -> String {
        let output = self.command(arguments).output().expect("crashproof runs");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = text.concat();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}:\n{text}");
        text
    }
}

/// The build command of the project.
fn build() -> String {
    format!("{:?} cc -O1 -g main.c store.c -o kv", env!("CARGO_BIN_EXE_crashproof"))
}

#[test]
fn a_project_is_fixed_in_a_copy_or_in_place() {
    let project = Project::new();
    let build = build();
    let shown = project.run(&["fix", "./kv", "--build", &build], 0);
    assert!(
        shown.contains(&format!("+{FLUSHED}")) && shown.contains("(not written; --apply does)"),
        "{shown}"
    );
    assert_eq!(project.read("store.c"), STORE, "only shown");
    assert!(!project.at().join("kv").exists(), "built in a copy");

    project.run(&["fix", "./kv", "--build", &build, "--apply"], 0);
    let fixed = STORE.replace("  store->valid = 1;\n", &format!("{FLUSHED}  store->valid = 1;\n"));
    assert_eq!(project.read("store.c"), fixed);
    project.run(&["check", "./kv"], 0);
    let again = project.run(&["fix", "./kv", "--build", &build, "--apply"], 0);
    assert!(again.contains("nothing to fix"), "{again}");
    assert_eq!(project.read("store.c"), fixed);

    project.run(&["fix", "./kv", "--build", &build, "--apply", "--remove-redundant"], 0);
    let twice = "  crashproof_persist(&store->valid, sizeof store->valid);\n";
    assert_eq!(project.read("store.c"), fixed.replacen(twice, "", 1), "the second flush did nothing");
}

#[test]
fn a_fix_that_does_not_build_changes_nothing() {
    let project = Project::new();
    // This build rejects every change.
    let build = format!("[ $(wc -c < store.c) = {} ] && {}", STORE.len(), build());
    let text = project.run(&["fix", "./kv", "--build", &build, "--apply"], 1);
    assert!(text.contains("store.c:4"), "{text}");
    assert_eq!(project.read("store.c"), STORE);
}

#[test]
fn what_cannot_be_built_or_read_is_told_with_the_reason() {
    let project = Project::new();
    project.run(&["cc", "-O1", "-g", "main.c", "store.c", "-o", "kv"], 0);
    let text = project.run(&["fix", "./kv"], 1);
    assert!(text.contains("say how to build with --build"), "{text}");
    // Makes the program older than its source.
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(10);
    let source = std::fs::File::options().append(true).open(project.at().join("store.c")).expect("a file");
    source.set_modified(later).expect("a time");
    let text = project.run(&["fix", "./kv"], 1);
    assert!(text.contains("changed since the program was built"), "{text}");
    std::fs::remove_file(project.at().join("store.c")).expect("removed");
    let text = project.run(&["fix", "./kv"], 1);
    assert!(text.contains("the source cannot be read"), "{text}");
}

#[test]
fn a_source_with_another_program_that_recovers() {
    let project = Project::new();
    project.write(
        "one.c",
        &format!("{HEADER}{}{MAIN}", STORE.replace("#include \"store.h\"", ""))
            .replace("#include \"store.h\"\n", ""),
    );
    project.write("crashproof.toml", "[check]\nrecover = 'one.c verify'\n");
    let text = project.run(&["fix", "one.c", "--apply"], 0);
    assert!(project.read("one.c").contains(FLUSHED), "{text}");
}

/// A second bug, in a function whose address escapes: there is no patch for it.
const SPOILED: &str = "\
void spoil(struct store *store) {
  long *last = &store->last;
  *last++ = 7;
  store->spoiled = 1;
  crashproof_persist(&store->spoiled, sizeof store->spoiled);
}
";

#[test]
fn what_leaves_errors_is_written_only_on_request_and_can_be_undone() {
    let project = Project::new();
    let fields = "  _Alignas(64) long valid;\n  _Alignas(64) long last;\n  _Alignas(64) long spoiled;\n";
    project.write(
        "store.h",
        &HEADER
            .replace("  _Alignas(64) long valid;\n", fields)
            .replace("void put", "void spoil(struct store *store);\nvoid put"),
    );
    project.write("store.c", &format!("{STORE}{SPOILED}"));
    let main = MAIN.replace("  put(store, 42);\n", "  put(store, 42);\n  spoil(store);\n");
    let main = main.replace(
        "    return 0;\n",
        "    crashproof_assert(!verify || !store->spoiled || store->last == 7);\n    return 0;\n",
    );
    project.write("main.c", &main);
    let before = project.read("store.c");
    let text = project.run(&["fix", "./kv", "--build", &build(), "--apply"], 1);
    assert!(text.contains("side effects") && text.contains("--keep-partial"), "{text}");
    assert!(text.contains("1 of 2 errors fixed"), "as `check` counts them: {text}");
    assert_eq!(project.read("store.c"), before, "errors are left, so nothing is written");
    assert!(!project.at().join(".crashproof").exists());
    let text = project.run(&["fix", "--undo"], 2);
    assert!(text.contains("nothing to undo"), "{text}");

    project.run(&["fix", "./kv", "--build", &build(), "--apply", "--keep-partial"], 1);
    assert!(project.read("store.c").contains(FLUSHED));
    let text = project.run(&["fix", "--undo"], 0);
    assert!(text.contains("restored store.c"), "{text}");
    assert_eq!(project.read("store.c"), before);
}

/// A build that records its location works in the copy, and the project remains unchanged.
#[test]
fn a_cmake_project_is_fixed_in_a_copy() {
    let project = Project::new();
    std::fs::create_dir(project.at().join("src")).expect("a directory");
    for name in ["store.c", "store.h", "main.c"] {
        std::fs::rename(project.at().join(name), project.at().join("src").join(name)).expect("moved");
    }
    project.write(
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.18)\nproject(kv C)\nset(CMAKE_C_FLAGS \"-g -O1\")\nadd_executable(kv src/main.c \
         src/store.c)\n",
    );
    project.write("crashproof.toml", "[check]\nrecover = 'build/kv verify'\n");
    let compiler = project.at().join("cc");
    let script = format!("#!/bin/sh\nexec {:?} cc \"$@\"\n", env!("CARGO_BIN_EXE_crashproof"));
    std::fs::write(&compiler, script).expect("written");
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    std::fs::set_permissions(&compiler, mode).expect("set");
    let environment = project.command(&[]);
    for words in [&["-S", ".", "-B", "build"][..], &["--build", "build"]] {
        let mut cmake = Command::new("cmake");
        cmake.args(words).current_dir(project.at()).env("CC", &compiler);
        cmake.envs(environment.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = cmake.output().expect("cmake runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let program = std::fs::read(project.at().join("build/kv")).expect("built");
    let text = project.run(&["fix", "build/kv", "--build", "cmake --build build"], 0);
    assert!(text.contains("--- a/src/store.c\n+++ b/src/store.c\n"), "paths are relative: {text}");
    assert!(text.contains(&format!("+{FLUSHED}")), "{text}");
    assert_eq!(project.read("src/store.c"), STORE);
    assert_eq!(std::fs::read(project.at().join("build/kv")).expect("there"), program, "built in the copy");
    project.run(&["fix", "build/kv", "--build", "cmake --build build", "--apply"], 0);
    assert!(project.read("src/store.c").contains(FLUSHED));
}

/// The storage engine of the book: fixing its first draft, which has four bugs, gives `examples/engine`.
#[test]
fn the_engine_of_the_book_is_what_the_draft_becomes() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/engine");
    let crate_of_users = Path::new(env!("CARGO_MANIFEST_DIR")).join("../user").canonicalize().expect("there");
    let project = Project(tempfile::tempdir().expect("a directory"));
    for directory in ["src", "tests"] {
        std::fs::create_dir(project.at().join(directory)).expect("a directory");
    }
    let read = |name: &str| std::fs::read_to_string(example.join(name)).expect("the example");
    let manifest = read("Cargo.toml").replace("../../crates/user", crate_of_users.to_str().expect("a name"));
    project.write("Cargo.toml", &manifest);
    for name in ["src/lib.rs", "tests/crash.rs"] {
        project.write(name, &read(name));
    }
    let without = |text: &str, line: &str| {
        let at = text.find(line).unwrap_or_else(|| panic!("no {line}"));
        format!("{}{}", &text[..at], &text[at + line.len()..])
    };
    let log =
        read("src/log.rs").replace("            persist(entry);\n", "            persist(&entry.number);\n");
    let log = without(&log, "        persist(&pool.log.committed);\n");
    let log = without(&log, "            persist(page);\n");
    project.write("src/log.rs", &log);
    project.write(
        "src/tree.rs",
        &without(&read("src/tree.rs"), "            persist(&pool.pages[1].words[LEAF]);\n"),
    );
    let run = |arguments: &[&str], code: i32| {
        let mut command = project.command(arguments);
        // This test may itself run under a cargo that sets these.
        for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_TARGET_DIR", "RUSTC_WRAPPER"] {
            command.env_remove(name);
        }
        let output = command.output().expect("crashproof runs");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}:\n{}", text.concat());
        text.concat()
    };
    let text = run(&["cargo", "test", "--fix", "--apply", "--test", "crash"], 0);
    for name in ["src/log.rs", "src/tree.rs"] {
        assert_eq!(project.read(name), read(name), "{text}");
    }
    run(&["cargo", "test", "--test", "crash"], 0);
}
