//! Whole test suites: `crashproof cargo test`, and `crashproof test` for ctest, automake and lists of commands. The
//! projects in `tests/suites` are copied, so that builds leave nothing behind.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn suites() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/suites")
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a project") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("copied");
        }
    }
}

fn project(name: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    copy(&suites().join(name), directory.path());
    directory
}

fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crashproof"));
    command
        .args(arguments)
        .current_dir(directory)
        .env("NO_COLOR", "1")
        .env("COLUMNS", "120")
        .env("CRASHPROOF_PLUGIN", crashproof_toolchain::testing::plugin())
        .env("CRASHPROOF_RUNTIME", crashproof_toolchain::testing::runtime())
        .env("CRASHPROOF_INCLUDE", crashproof_toolchain::testing::include());
    // This test may itself run under a cargo that sets these.
    for name in [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_TARGET_DIR",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
    ] {
        command.env_remove(name);
    }
    command
}

fn run(command: &mut Command, code: i32) -> String {
    let output = command.output().expect("crashproof runs");
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

/// The line of a test in the results.
fn line<'t>(text: &'t str, name: &str) -> &'t str {
    let ends = |line: &&str| line.contains(&format!(" {name}")) && line.contains('[');
    text.lines().find(ends).unwrap_or_else(|| panic!("no line for {name}:\n{text}"))
}

/// The marked line of a source.
fn marked(file: &Path) -> usize {
    let text = std::fs::read_to_string(file).expect("a source");
    1 + text.lines().position(|line| line.contains("MARK: lost")).expect("a mark")
}

#[test]
fn the_tests_of_a_crate() {
    let project = project("rust");
    let at = project.path();
    let pools = at.join("pools");
    std::fs::create_dir(&pools).expect("a directory");
    let paths = ["--pm-path", pools.to_str().expect("a name")];
    let checked = |more: &[&str], code| {
        let words = [&["cargo", "test", "--offline", "--no-fail-fast"][..], &paths, more].concat();
        run(command(at, &words).env("RECORDS", &pools).env("RUST_BACKTRACE", "1"), code)
    };
    let lost = format!("src/lib.rs:{}", marked(&at.join("src/lib.rs")));
    for profile in [&["--junit", "results.xml"][..], &["--release"]] {
        let text = checked(profile, 1);
        assert!(line(&text, "flushed").contains("PASS"), "{text}");
        assert!(line(&text, "panics").contains("PASS"), "{text}");
        assert!(line(&text, "own_harness").contains("PASS"), "{text}");
        assert!(line(&text, "tests::arithmetic").contains("no PM"), "{text}");
        let failed = line(&text, "unflushed");
        assert!(failed.contains("FAIL") && failed.contains(&format!("{lost}: recovery-fails")), "{failed}");
        assert!(text.contains("records::Log::append") && text.contains("copy_from_slice(record)"), "{text}");
        assert!(!text.contains("/rustc/") && !text.contains("_ZN"), "{text}");
        assert!(text.contains("3 passed, 1 failed, 0 unknown, 1 no PM, 3 skipped"), "{text}");
        assert!(text.contains("documentation tests are not checked (records)"), "{text}");
    }
    let junit = std::fs::read_to_string(at.join("results.xml")).expect("results");
    assert!(junit.contains(r#"tests="8""#) && junit.contains(r#"failures="1""#), "{junit}");
    assert!(junit.contains(&lost), "{junit}");
    let text = checked(&["--run-ignored", "only", "--", "--skip", "hangs"], 1);
    assert!(line(&text, "ignored").contains("PASS"), "{text}");
    assert!(line(&text, "broken").contains("fails without any crash"), "{text}");
    let text = checked(&["--run-ignored", "only", "--timeout", "2", "hangs"], 3);
    assert!(line(&text, "hangs").contains("UNKNOWN") && text.contains("(--timeout)"), "{text}");
    // Another way to select the test.
    let text = checked(&["--test", "log", "--", "--exact", "flushed"], 0);
    assert!(text.contains("1 test checked: 1 passed"), "{text}");
    run(&mut command(at, &["cargo", "test", "--doc"]), 2);
}

/// Source paths are relative to the workspace, tests run in the directory of their crate, and the compiler runs
/// procedural macros.
#[test]
fn the_tests_of_a_workspace() {
    let project = project("workspace");
    let at = project.path();
    let words = ["cargo", "test", "--offline", "--no-fail-fast", "--workspace", "--pm-path", "."];
    let text = run(&mut command(at, &words), 1);
    let lost = format!("pair/src/lib.rs:{}", marked(&at.join("pair/src/lib.rs")));
    let failed = line(&text, "the_pair_is_whole");
    assert!(failed.contains("FAIL") && failed.contains(&format!("{lost}: recovery-fails")), "{failed}");
    assert!(
        text.contains("pair.left = number!(); // MARK: lost") && text.contains("`pair.left` = 7"),
        "{text}"
    );
    assert!(text.contains("number is a procedural macro") && text.contains("1 test checked"), "{text}");
}

/// The crate for users, under the tool: its tests also pass in ordinary runs.
#[test]
fn the_crate_for_users() {
    let target = tempfile::tempdir().expect("a directory");
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("../user");
    let words = ["cargo", "test", "--offline", "--no-fail-fast", "--run-ignored", "all", "--test", "slot"];
    let text = run(command(&at, &words).env("CARGO_TARGET_DIR", target.path()), 1);
    assert!(line(&text, "a_full_slot_has_its_value").contains("PASS"), "{text}");
    assert!(line(&text, "a_persistent_static").contains("PASS"), "{text}");
    assert!(line(&text, "a_forgotten_flush").contains("tests/slot.rs:22: recovery-fails"), "{text}");
}

#[test]
fn a_toolchain_with_another_llvm() {
    let project = project("rust");
    let rustc = project.path().join("rustc");
    std::fs::write(
        &rustc,
        "#!/bin/sh\necho 'rustc 1.80.0 (051478957 2024-07-21)'\necho 'LLVM version: 18.1.7'\n",
    )
    .expect("written");
    std::fs::set_permissions(&rustc, std::fs::Permissions::from_mode(0o755)).expect("executable");
    for arguments in [["cargo", "test"], ["cargo", "build"]] {
        let text = run(command(project.path(), &arguments).env("RUSTC", &rustc), 2);
        assert!(text.contains("rustc 1.80.0") && text.contains("uses LLVM 18.1.7"), "{text}");
        assert!(text.contains("crashproof cargo +1.95"), "{text}");
    }
}

/// A compiler in the form that build systems expect: a single program.
fn compiler(directory: &Path) -> PathBuf {
    let script = directory.join("crashproof-cc-for-tests");
    let text = format!(
        "#!/bin/sh\nCRASHPROOF_PLUGIN='{}' CRASHPROOF_RUNTIME='{}' CRASHPROOF_INCLUDE='{}' exec '{}' cc \"$@\"\n",
        crashproof_toolchain::testing::plugin().display(),
        crashproof_toolchain::testing::runtime().display(),
        crashproof_toolchain::testing::include().display(),
        env!("CARGO_BIN_EXE_crashproof"),
    );
    std::fs::write(&script, text).expect("written");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("executable");
    script
}

fn tool(directory: &Path, words: &[&str], compiler: &Path) {
    let output = Command::new(words[0]).args(&words[1..]).current_dir(directory).env("CC", compiler).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}; run `scripts/setup test`", words[0]));
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{words:?}:\n{}", String::from_utf8_lossy(&text));
}

#[test]
fn a_cmake_project() {
    let project = project("cmake");
    let at = project.path();
    tool(at, &["cmake", "-S", ".", "-B", "build"], &compiler(at));
    // Everything in the settings: plain `crashproof test`.
    std::fs::write(at.join("crashproof.toml"), "[suite]\nbuild = 'cmake --build build'\nctest = 'build'\n")
        .expect("written");
    let text = run(&mut command(at, &["test", "--no-fail-fast"]), 1);
    assert!(line(&text, "flushed").contains("PASS"), "{text}");
    assert!(line(&text, "volatile").contains("no PM"), "{text}");
    let failed = line(&text, "unflushed");
    assert!(failed.contains(&format!("pair.c:{}", marked(&at.join("pair.c")))), "{failed}");
    assert!(text.contains("1 passed, 1 failed, 0 unknown, 1 no PM, 2 skipped"), "{text}");
    let text = run(&mut command(at, &["test", "--ctest", "build", "--format", "json", "volatile"]), 3);
    assert!(text.contains(r#""no_pm":1"#) && text.contains(r#""verdict":"unknown""#), "{text}");
    // From a subdirectory, commands of the parent's file run only if they are trusted.
    let text = run(&mut command(&at.join("build"), &["test"]), 2);
    assert!(text.contains("(suite)") && text.contains("--trust"), "{text}");
}

#[test]
fn an_automake_project() {
    let project = project("automake");
    let at = project.path();
    let compiler = compiler(at);
    for name in ["missing", "install-sh", "compile", "depcomp", "test-driver"] {
        assert!(!at.join(name).exists(), "automake adds it");
    }
    tool(at, &["autoreconf", "--install"], &compiler);
    tool(at, &["./configure", "-q"], &compiler);
    let text = run(&mut command(at, &["test", "--automake", ".", "--no-fail-fast"]), 1);
    assert!(line(&text, "tests flushed").contains("PASS"), "{text}");
    assert!(line(&text, "tests unflushed").contains("pair.h:13"), "{text}");
    assert!(text.contains("1 passed, 1 failed, 0 unknown, 0 no PM"), "{text}");
}

#[test]
fn a_list_of_commands() {
    let project = project("cmake");
    let at = project.path();
    run(&mut command(at, &["cc", "pair.c", "-o", "pair"]), 0);
    std::fs::write(at.join("list"), "# one per line\n./pair flushed\n\n./absent\n/bin/true\n")
        .expect("written");
    let text = run(&mut command(at, &["test", "--commands", "list"]), 3);
    assert!(line(&text, "./pair flushed").contains("PASS"), "{text}");
    assert!(line(&text, "./absent").contains("UNKNOWN"), "{text}");
    assert!(line(&text, "/bin/true").contains("no PM"), "{text}");
    let text = run(&mut command(at, &["test"]), 2);
    assert!(text.contains("[suite]"), "{text}");
}
