//! `crashproof fix` as people call it: on a source, on a project with a build of its own, with the change shown or made.

use std::path::Path;
use std::process::Command;

/// A commit without the flush before it; the flush after it is there twice.
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
        // By hand, and the check says what it sees only if it is told how to look.
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

    /// Runs crashproof, which must end with this code; what it says.
    fn run(&self, arguments: &[&str], code: i32) -> String {
        let output = self.command(arguments).output().expect("crashproof runs");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = text.concat();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}:\n{text}");
        text
    }
}

/// How the project is built.
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
    // Whoever flushes the value is not let through.
    let build = format!("! grep -q 'sizeof(store->value)' store.c && {}", build());
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
    // The program is older than its source.
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
