//! A separate project: settings, accepted findings, a baseline, sources that changed or cannot be read.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = include_str!("../../findings/rules/recovery-fails/bad.c");

fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crashproof"));
    command
        .args(arguments)
        .current_dir(directory)
        .env("NO_COLOR", "1")
        .env("COLUMNS", "100")
        .env("CRASHPROOF_PLUGIN", crashproof_toolchain::testing::plugin())
        .env("CRASHPROOF_RUNTIME", crashproof_toolchain::testing::runtime())
        .env("CRASHPROOF_INCLUDE", crashproof_toolchain::testing::include());
    command
}

fn run(directory: &Path, arguments: &[&str], code: i32) -> String {
    let output = command(directory, arguments).output().expect("crashproof runs");
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
    // A finding whose line moved is still known; a new one is not.
    write(at, "bad.c", &format!("/* a\n * comment\n */\n\n{SOURCE}"));
    run(at, &["check", "bad.c", "--baseline", "known.json"], 0);
    write(at, "bad.c", &SOURCE.replace("data = 42;", "data = 40 + 2;"));
    let text = run(at, &["check", "bad.c", "--baseline", "known.json"], 1);
    assert!(text.contains("one finding of the baseline no longer occurs"), "{text}");
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
    // A suppression without a match is reported with its place.
    write(at, "crashproof.toml", &format!("{suppress}\n[[suppress]]\nfunction = 'gone'\nreason = 'old'\n"));
    let text = run(at, &["check", "bad.c"], 0);
    assert!(text.contains("crashproof.toml:6: unused suppression (reason: old)"), "{text}");
}

#[test]
fn settings_are_read_from_above_and_mistakes_are_shown() {
    let project = project();
    let at = project.path();
    write(at, "crashproof.toml", "[check]\ncrashes = 2\n");
    let below = at.join("below");
    std::fs::create_dir(&below).expect("a directory");
    let text = run(&below, &["check", "../bad.c"], 1);
    assert!(text.contains("up to 2 crashes per run"), "{text}");
    let text = run(&below, &["check", "../bad.c", "--crashes", "1"], 1);
    assert!(text.contains("1 crash per run"), "the command line goes first: {text}");
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

/// With persistent caches a missing flush does not matter, for every engine and every source of the setting.
#[test]
fn every_engine_obeys_the_machine_of_the_settings() {
    let project = project();
    let at = project.path();
    write(
        at,
        "claim.c",
        "#include <crashproof.h>\nPERSISTENT struct { long data, padding[7], flag; } p;\n\
         void recover(void) { if (p.flag) crashproof_assert(p.data == 42); }\n\
         int main(void) { if (crashproof_crashes()) { recover(); return 0; }\n\
         p.data = 42; p.flag = 1; crashproof_persist(&p.flag, 8); return 0; }\n",
    );
    write(
        at,
        "lost.litmus",
        "litmus lost\nline { x }\nline { y }\nthread { x = 1; y = 1; }\nforbidden (y == 1 && x == 0)\n",
    );
    let commands: [&[&str]; 3] = [&["check", "claim.c"], &["prove", "claim.c"], &["litmus", "lost.litmus"]];
    for command in commands {
        let with = |settings: &str, more: &[&str], code| {
            write(at, "crashproof.toml", settings);
            run(at, &[command, more].concat(), code)
        };
        with("", &[], 1);
        with("", &["--eadr"], 0);
        with("[model]\neadr = true\n", &[], 0);
        // The command line takes precedence.
        with("[model]\neadr = true\n", &["--eadr=false"], 1);
    }
    let fixes = |settings: &str, more: &[&str]| {
        write(at, "crashproof.toml", settings);
        run(at, &[&["fix", "claim.c"], more].concat(), 0).contains("1 of 1 error fixed")
    };
    assert!(fixes("", &[]) && !fixes("", &["--eadr"]) && !fixes("[model]\neadr = true\n", &[]));
    assert!(fixes("[model]\neadr = true\n", &["--eadr=false"]));
    write(at, "crashproof.toml", "");
    // A replay repeats the checked run, regardless of the current settings.
    let report = run(at, &["check", "bad.c", "--format", "json"], 1);
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let token = report["findings"][0]["replay"].as_str().expect("a token");
    write(at, "crashproof.toml", "[model]\neadr = true\n");
    run(at, &["replay", token], 1);
    // lint cannot judge for another machine, and says so.
    let text = run(at, &["lint", "bad.c"], 1);
    assert!(text.contains("lint assumes that caches are lost"), "{text}");
    // Every command that reads the settings reports mistakes in them.
    write(at, "crashproof.toml", "[model]\nedar = true\n");
    for command in commands.into_iter().chain([&["fix", "claim.c"][..]]) {
        assert!(run(at, command, 2).contains("crashproof.toml:2: unknown field `edar`"));
    }
}

/// Locations of persistent memory: the command line overrides the environment, which overrides the file.
#[test]
fn the_environment_goes_before_the_file() {
    let project = project();
    let at = project.path();
    let maps = "#include <fcntl.h>\n#include <sys/mman.h>\n#include <unistd.h>\nint main(void) {\n\
                int file = open(\"pools/pool\", O_CREAT | O_RDWR, 0600);\n\
                if (ftruncate(file, 4096)) return 1;\n\
                long *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);\n\
                if (p[8] && !p[0]) return 1;\np[0] = 1; p[8] = 1; return 0; }\n";
    write(at, "maps.c", maps);
    // A path must exist.
    for directory in ["pools", "nowhere"] {
        std::fs::create_dir(at.join(directory)).expect("a directory");
    }
    let check = |settings: &str, environment: Option<&str>, option: &[&str], code: i32| {
        write(at, "crashproof.toml", settings);
        // Files outside persistent memory are really written.
        let _ = std::fs::remove_file(at.join("pools/pool"));
        let mut command = command(at, &[&["check", "maps.c"], option].concat());
        if let Some(paths) = environment {
            command.env("CRASHPROOF_PM_PATH", paths);
        }
        let output = command.output().expect("crashproof runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{settings:?} {environment:?} {option:?}: {text}");
    };
    let file = "[pm]\npaths = ['pools']\n";
    // By default, shared mappings count.
    check("", None, &[], 1);
    check(file, None, &[], 1);
    check("", Some("nowhere:pools"), &[], 1);
    check(file, Some("nowhere"), &[], 3);
    check(file, Some("nowhere"), &["--pm-path", "pools"], 1);
    check("[pm]\nheap = true\n", None, &["--pm-path", "nowhere", "--pm-heap=false"], 3);
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

/// Sources are changed, missing, not in UTF-8 or full of control characters, or have such a name.
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
    assert!(text.contains("bad.c changed after the program was built"), "{text}");
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
