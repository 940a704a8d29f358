//! A project of its own: settings, findings to live with, a baseline, sources that changed or cannot be read.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output};

const SOURCE: &str = include_str!("../../findings/rules/recovery-fails/bad.c");

fn crashproof(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_crashproof"))
        .args(arguments)
        .current_dir(directory)
        .env("NO_COLOR", "1")
        .env("COLUMNS", "100")
        .env("CRASHPROOF_PLUGIN", crashproof_toolchain::testing::plugin())
        .env("CRASHPROOF_RUNTIME", crashproof_toolchain::testing::runtime())
        .env("CRASHPROOF_INCLUDE", crashproof_toolchain::testing::include())
        .output()
        .expect("crashproof runs")
}

fn run(directory: &Path, arguments: &[&str], code: i32) -> String {
    let output = crashproof(directory, arguments);
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}:\n{text}");
    text
}

fn project() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    write(directory.path(), "bad.c", SOURCE);
    directory
}

fn write(directory: &Path, name: &str, text: &str) {
    std::fs::write(directory.join(name), text).expect("written");
}

#[test]
fn a_baseline_fails_only_on_what_is_new() {
    let project = project();
    let at = project.path();
    run(at, &["check", "bad.c", "--write-baseline", "known.json"], 0);
    let text = run(at, &["check", "bad.c", "--baseline", "known.json"], 0);
    assert!(text.contains("1 finding known from the baseline"), "{text}");
    // Lines move, and it is still known; something new is not.
    write(at, "bad.c", &format!("/* a\n * comment\n */\n\n{SOURCE}"));
    run(at, &["check", "bad.c", "--baseline", "known.json"], 0);
    write(at, "bad.c", &SOURCE.replace("data = 42;", "data = 40 + 2;"));
    let text = run(at, &["check", "bad.c", "--baseline", "known.json"], 1);
    assert!(text.contains("one finding of the baseline is gone"), "{text}");
}

#[test]
fn what_is_suppressed_does_not_count_and_says_why() {
    let project = project();
    let at = project.path();
    let suppress = "[[suppress]]\nrule = 'recovery-fails'\npath = '*.c'\nreason = 'ticket 12'\n";
    write(at, "crashproof.toml", suppress);
    let text = run(at, &["check", "bad.c"], 0);
    assert!(text.contains("1 finding suppressed"), "{text}");
    let text = run(at, &["check", "-v", "bad.c"], 0);
    assert!(text.contains("(suppressed: ticket 12) bad.c:"), "{text}");
    // One that fits nothing is reported, where it stands.
    write(at, "crashproof.toml", &format!("{suppress}\n[[suppress]]\nfunction = 'gone'\nreason = 'old'\n"));
    let text = run(at, &["check", "bad.c"], 0);
    assert!(text.contains("crashproof.toml:6: this suppression fits no finding (old)"), "{text}");
}

#[test]
fn settings_are_read_from_above_and_mistakes_are_shown() {
    let project = project();
    let at = project.path();
    write(at, "crashproof.toml", "[check]\ncrashes = 2\n");
    let below = at.join("below");
    std::fs::create_dir(&below).expect("a directory");
    let text = run(&below, &["check", "../bad.c"], 1);
    assert!(text.contains("up to 2 crashes in a row"), "{text}");
    let text = run(&below, &["check", "../bad.c", "--crashes", "1"], 1);
    assert!(text.contains("one crash a run"), "the command line goes first: {text}");
    for (settings, complaint) in [
        ("[check]\ncrash = 2\n", "crashproof.toml:2: unknown field `crash`"),
        ("[check]\ncrashes = 9\n", "check.crashes is 9 in crashproof.toml; it can be 1 to 4"),
        ("[check]\nrecover = \"'\"\n", "check.recover in crashproof.toml: "),
    ] {
        write(at, "crashproof.toml", settings);
        let text = run(at, &["check", "bad.c"], 2);
        assert!(text.contains(complaint), "{text}");
    }
}

#[test]
fn init_writes_settings_that_change_nothing() {
    let project = project();
    let at = project.path();
    let before = run(at, &["check", "bad.c"], 1);
    run(at, &["init"], 0);
    assert_eq!(run(at, &["check", "bad.c"], 1), before);
    let text = run(at, &["init"], 2);
    assert!(text.contains("it was not touched"), "{text}");
}

#[test]
fn doctor_is_well_where_the_tests_run() {
    let project = project();
    let text = run(project.path(), &["doctor"], 0);
    assert!(text.contains("ok  trial      built a program with a bug, and found it"), "{text}");
}

/// Sources are changed, gone, not in UTF-8, full of control characters, or have such a name.
#[test]
fn findings_are_shown_whatever_became_of_the_source() {
    let project = project();
    let at = project.path();
    let build = |source: &str| {
        let status = Command::new(crashproof_toolchain::testing::tools().join("crashproof"))
            .args(["cc", "-g", "-O1", source, "-o", "bad"])
            .current_dir(at)
            .env("CRASHPROOF_PLUGIN", crashproof_toolchain::testing::plugin())
            .env("CRASHPROOF_RUNTIME", crashproof_toolchain::testing::runtime())
            .env("CRASHPROOF_INCLUDE", crashproof_toolchain::testing::include())
            .status();
        assert!(status.expect("crashproof cc runs").success());
    };
    build("bad.c");
    assert!(!run(at, &["check", "./bad"], 1).contains("was changed after"));
    write(at, "bad.c", &format!("\n{SOURCE}"));
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    let file = std::fs::File::options().append(true).open(at.join("bad.c")).expect("opens");
    file.set_modified(later).expect("set");
    let text = run(at, &["check", "./bad"], 1);
    assert!(text.contains("bad.c was changed after the program was built"), "{text}");
    std::fs::remove_file(at.join("bad.c")).expect("removed");
    let text = run(at, &["check", "./bad"], 1);
    assert!(text.contains("--> bad.c:11:8 in main (source not at hand)"), "{text}");
    assert!(text.contains("lost     bad.c:11"), "{text}");

    let odd = SOURCE.replace("data = 42;", "data = 42; /* \u{1b}[2J\u{202e} */");
    std::fs::write(at.join("bad.c"), [odd.as_bytes(), b"/* \xff\xfe */\n"].concat()).expect("written");
    let text = run(at, &["check", "bad.c"], 1);
    assert!(!text.contains('\u{1b}') && text.contains("data = 42;"), "{text}");

    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.c");
    std::fs::write(at.join(name), SOURCE).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_crashproof"))
        .args(["check".as_ref(), name])
        .current_dir(at)
        .env("CRASHPROOF_PLUGIN", crashproof_toolchain::testing::plugin())
        .env("CRASHPROOF_RUNTIME", crashproof_toolchain::testing::runtime())
        .env("CRASHPROOF_INCLUDE", crashproof_toolchain::testing::include())
        .output()
        .expect("crashproof runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("data = 42;"), "its source is shown: {text}");
}
