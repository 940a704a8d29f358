//! The drivers, called the way people and build systems call compilers.
//!
//! The runtime is the one the instrumenter's tests use: it writes one line for each event, so a program
//! built right shows it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Everything a test needs: drivers under both names, plugin and runtime.
struct Tools {
    cc: PathBuf,
    cxx: PathBuf,
    plugin: PathBuf,
    runtime: PathBuf,
}

fn tools() -> &'static Tools {
    static TOOLS: OnceLock<Tools> = OnceLock::new();
    TOOLS.get_or_init(|| {
        let directory = scratch("tools");
        let link = |name: &str| {
            let path = directory.join(name);
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_crashproof-cc"), &path).unwrap();
            path
        };
        let test = std::env::current_exe().unwrap();
        let instrument = Path::new(env!("CARGO_MANIFEST_DIR")).join("../instrument");
        let runtime = directory.join("libtest_runtime.so");
        succeed(
            Command::new("clang-22")
                .args(["-O1", "-fPIC", "-shared", "-I"])
                .arg(instrument.join("abi"))
                .arg(instrument.join("tests/runtime/runtime.c"))
                .arg("-o")
                .arg(&runtime),
        );
        Tools {
            cc: link("crashproof-cc"),
            cxx: link("crashproof-c++"),
            plugin: test.with_file_name("libcrashproof_instrument.so"),
            runtime,
        }
    })
}

/// A fresh directory.
fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("drivers").join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// A fresh copy of a project.
fn project(name: &str) -> PathBuf {
    let directory = scratch(name);
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/projects").join(name), &directory);
    directory
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// With the variables that point to plugin and runtime.
fn equipped(program: impl AsRef<std::ffi::OsStr>, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory);
    command.env("CRASHPROOF_PLUGIN", &tools().plugin).env("CRASHPROOF_RUNTIME", &tools().runtime);
    command
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}\n{}{}", text(&output.stderr), text(&output.stdout));
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn cc(directory: &Path, arguments: &[&str]) -> Output {
    succeed(equipped(&tools().cc, directory).args(arguments))
}

/// What a program says when run.
fn events(program: &Path) -> String {
    text(&succeed(&mut Command::new(program)).stdout)
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

const PROGRAM: &str = "char *test_pm(void); int main(void) { *(long *)test_pm() = 5; return 0; }\n";

#[test]
fn one_file() {
    let directory = scratch("one_file");
    fs::write(directory.join("a.c"), PROGRAM).unwrap();
    cc(&directory, &["a.c"]);
    assert_eq!(events(&directory.join("a.out")), format!("{:<40} a.c:1 main\n", "store8 pm+0 = 0x5"));
}

#[test]
fn separate_steps_and_dependencies() {
    let directory = scratch("steps");
    fs::write(directory.join("a.c"), format!("#include \"a.h\"\n{PROGRAM}")).unwrap();
    fs::write(directory.join("a.h"), "").unwrap();
    let output = cc(&directory, &["-Wall", "-Werror", "-O2", "-MD", "-MF", "a.d", "-c", "a.c", "-o", "a.o"]);
    assert_eq!(text(&output.stderr), "", "nothing we add may cause a warning");
    assert!(fs::read_to_string(directory.join("a.d")).unwrap().contains("a.h"));
    let output = cc(&directory, &["-Werror", "a.o", "-o", "prog"]);
    assert_eq!(text(&output.stderr), "");
    assert!(events(&directory.join("prog")).contains("a.c:2 main"));
}

#[test]
fn preprocessing_assembly_and_standard_input() {
    let directory = scratch("modes");
    fs::write(directory.join("a.c"), PROGRAM).unwrap();
    let output = cc(&directory, &["-E", "-P", "a.c"]);
    assert!(text(&output.stdout).contains("test_pm") && output.stderr.is_empty());
    cc(&directory, &["-S", "a.c", "-o", "a.s"]);
    assert!(fs::read_to_string(directory.join("a.s")).unwrap().contains("__crashproof_store8"));
    let output = cc(&directory, &["-c", "a.s", "-o", "a.o"]);
    assert!(text(&output.stderr).contains("assembly file is not instrumented"));
    let mut child = equipped(&tools().cc, &directory)
        .args(["-x", "c", "-", "-o", "prog"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), PROGRAM.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(events(&directory.join("prog")).contains("<stdin>:1 main"));
}

#[test]
fn response_files() {
    let directory = scratch("response");
    fs::write(directory.join("a b.c"), PROGRAM).unwrap();
    fs::write(directory.join("args"), "-c \"a b.c\"\n-o ab.o").unwrap();
    cc(&directory, &["@args"]);
    cc(&directory, &["ab.o", "-o", "prog"]);
    assert!(events(&directory.join("prog")).contains("store8"));
}

#[test]
fn precompiled_headers() {
    let directory = scratch("pch");
    fs::write(directory.join("all.h"), "char *test_pm(void);\nstatic inline void set(long *p) { *p = 1; }\n")
        .unwrap();
    fs::write(directory.join("a.c"), "int main(void) { set((long *)test_pm()); return 0; }\n").unwrap();
    cc(&directory, &["-x", "c-header", "all.h", "-o", "all.h.pch"]);
    cc(&directory, &["-include-pch", "all.h.pch", "a.c", "-o", "prog"]);
    assert!(events(&directory.join("prog")).contains("all.h:2 set"));
}

#[test]
fn link_time_optimization_is_off() {
    let directory = scratch("lto");
    fs::write(directory.join("a.c"), PROGRAM).unwrap();
    let output = cc(&directory, &["-flto", "-O2", "a.c", "-o", "prog"]);
    assert!(text(&output.stderr).contains("link-time optimization (-flto) is switched off"));
    assert!(events(&directory.join("prog")).contains("store8"));
}

#[test]
fn cxx() {
    let directory = scratch("cxx");
    fs::write(
        directory.join("a.cpp"),
        "#include <vector>\nextern \"C\" char *test_pm(void);\n\
         int main() { std::vector<int> v(3); *(int *)test_pm() = (int)v.size(); }\n",
    )
    .unwrap();
    succeed(equipped(&tools().cxx, &directory).args(["-O1", "a.cpp", "-o", "prog"]));
    assert!(events(&directory.join("prog")).contains("store4 pm+0 = 0x3"));
}

#[test]
fn questions_are_answered_as_by_clang() {
    let directory = scratch("questions");
    for question in ["--version", "-dumpmachine", "-print-search-dirs"] {
        let ours = cc(&directory, &[question]);
        let theirs = succeed(Command::new("clang-22").arg(question));
        assert_eq!(text(&ours.stdout), text(&theirs.stdout));
    }
    fs::write(directory.join("a.c"), PROGRAM).unwrap();
    assert!(text(&cc(&directory, &["-###", "a.c"]).stderr).contains("-fpass-plugin="));
}

#[test]
fn errors_are_clangs_own() {
    let directory = scratch("errors");
    fs::write(directory.join("a.c"), "int main(void) { return x; }\n").unwrap();
    let output = equipped(&tools().cc, &directory).args(["-c", "a.c"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("a.c:1:25: error: use of undeclared identifier 'x'"));
}

#[test]
fn what_is_missing_is_named() {
    let directory = scratch("missing");
    fs::write(directory.join("a.c"), PROGRAM).unwrap();
    let fails = |command: &mut Command| {
        let output = command.current_dir(&directory).arg("a.c").output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        text(&output.stderr)
    };
    let without_clang = fails(Command::new(&tools().cc).env("PATH", "").env("CRASHPROOF_CLANG", ""));
    assert!(without_clang.contains("install clang-22"), "{without_clang}");
    let wrong = fails(Command::new(&tools().cc).env("CRASHPROOF_PLUGIN", "nowhere.so"));
    assert!(wrong.contains("CRASHPROOF_PLUGIN is set to nowhere.so, which does not exist"), "{wrong}");
    let lone = directory.join("crashproof-cc");
    fs::copy(env!("CARGO_BIN_EXE_crashproof-cc"), &lone).unwrap();
    let without_plugin = fails(&mut Command::new(&lone));
    assert!(without_plugin.contains("CRASHPROOF_PLUGIN"), "{without_plugin}");
    let without_runtime = fails(Command::new(&lone).env("CRASHPROOF_PLUGIN", &tools().plugin));
    assert!(without_runtime.contains("CRASHPROOF_RUNTIME"), "{without_runtime}");
    let fixed = fails(equipped(&tools().cc, &directory).arg("-static"));
    assert!(fixed.contains("leave out -static"), "{fixed}");
}

#[test]
fn make_with_archive_and_shared_library() {
    let directory = project("several");
    succeed(equipped("make", &directory).arg(format!("CC={}", tools().cc.display())));
    let expected = [
        ("store8 pm+0x8028 = 0x1", "archive.c:6 push"),
        ("load8 pm+0x8000 = 0x100100008010", "archive.c:7 push"),
        ("store8 pm+0x8020 = 0x100100008010", "archive.c:7 push"),
        ("store8 pm+0x8000 = 0x100100008020", "archive.c:8 push"),
        ("store8 pm+0x8038 = 0x2", "archive.c:6 push"),
        ("load8 pm+0x8000 = 0x100100008020", "archive.c:7 push"),
        ("store8 pm+0x8030 = 0x100100008020", "archive.c:7 push"),
        ("store8 pm+0x8000 = 0x100100008030", "archive.c:8 push"),
        ("load8 pm+0x8000 = 0x100100008030", "shared.c:8 total"),
        ("load8 pm+0x8038 = 0x2", "shared.c:8 total"),
        ("load8 pm+0x8030 = 0x100100008020", "shared.c:8 total"),
        ("load8 pm+0x8028 = 0x1", "shared.c:8 total"),
        ("load8 pm+0x8020 = 0x100100008010", "shared.c:8 total"),
        ("load8 pm+0x8018 = 0", "shared.c:8 total"),
        ("load8 pm+0x8010 = 0", "shared.c:8 total"),
        ("load8 pm+0x8050 = 0xa", "main.c:11 main"),
        ("store8 pm+0x8050 = 0xd", "main.c:11 main"),
    ];
    let expected: String = expected.iter().map(|(event, place)| format!("{event:<40} {place}\n")).collect();
    assert_eq!(events(&directory.join("prog")), expected);
}

#[test]
fn cmake() {
    if !has("cmake") {
        return;
    }
    let directory = project("cmake");
    let compilers = [("C", &tools().cc), ("CXX", &tools().cxx)]
        .map(|(language, path)| format!("-DCMAKE_{language}_COMPILER={}", path.display()));
    succeed(
        equipped("cmake", &directory).args(["-B", "build", "-DCMAKE_BUILD_TYPE=Release"]).args(compilers),
    );
    succeed(equipped("cmake", &directory).args(["--build", "build"]));
    let log = events(&directory.join("build/prog"));
    let kinds: Vec<&str> = log.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(kinds, ["store8", "load8", "store8"], "{log}");
}

#[test]
fn autotools() {
    if !has("autoreconf") || !has("automake") {
        return;
    }
    let directory = project("autotools");
    succeed(equipped("autoreconf", &directory).args(["-i"]));
    succeed(equipped("sh", &directory).arg("./configure").env("CC", &tools().cc));
    succeed(&mut equipped("make", &directory));
    assert!(events(&directory.join("prog")).contains("store8 pm+0 = 0x1"));
}

fn cargo(directory: &Path, arguments: &[&str]) -> Output {
    let compilers = crashproof_toolchain::Compilers {
        clang: "clang-22".into(),
        clang_cxx: "clang++-22".into(),
        include: None,
    };
    let (plugin, runtime) = (tools().plugin.clone(), Ok(tools().runtime.clone()));
    let toolchain = crashproof_toolchain::Toolchain { compilers, plugin, runtime };
    let environment = crashproof_toolchain::cargo::environment(
        &toolchain,
        &tools().cc,
        Some((&tools().cc, &tools().cxx)),
        &directory.join("target/crashproof"),
    )
    .unwrap();
    let clang = std::env::split_paths(&std::env::var_os("PATH").unwrap())
        .map(|directory| directory.join("clang-22"))
        .find(|path| path.exists())
        .expect("clang-22 is installed");
    let mut command = Command::new(env!("CARGO"));
    // This test may itself run under a cargo that set these.
    for variable in
        ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_MANIFEST_DIR", "RUSTC", "RUSTC_WORKSPACE_WRAPPER"]
    {
        command.env_remove(variable);
    }
    command.current_dir(directory).args(arguments).arg("--offline").envs(environment);
    command.env("CRASHPROOF_CLANG", &clang).env("CRASHPROOF_CLANGXX", clang.with_file_name("clang++-22"));
    succeed(&mut command)
}

#[test]
fn rust_crate() {
    let directory = project("rust");
    let expected = [
        "store8 pm+0 = 0x5",
        "clflush pm+0",
        "sfence",
        "asm_before pm+0 = 0500000000000000 wn",
        "asm_after pm+0 = 0600000000000000 wn",
        "mfence",
        "add8 pm+0x8: 0, 0x1",
        "memset pm+0x10 = 0x7, 32",
        "clwb pm+0",
        "asm_before pm+0 = 0600000000000000 rwl",
        "asm_after pm+0 = 0700000000000000 rwl",
        "asm_before pm+0x8 = 0100000000000000 wn",
        "asm_after pm+0x8 = 0900000000000000 wn",
        "sfence",
        "asm_before pm+0 = 0700000000000000 r",
        "asm_after pm+0 = 0700000000000000 r",
    ];
    for profile in [&["run"][..], &["run", "--release"]] {
        let output = cargo(&directory, profile);
        let log = text(&output.stdout);
        // The start of every Rust program reads something volatile.
        let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with("sync")).collect();
        let found: Vec<&str> = lines.iter().map(|line| line[..40].trim_end()).collect();
        assert_eq!(found, expected, "{profile:?}\n{log}");
        assert!(lines.iter().all(|line| line[40..].starts_with(" src/lib.rs:")), "{log}");
    }
    let output = cargo(&directory, &["test"]);
    assert!(text(&output.stdout).contains("1 passed"), "{}", text(&output.stdout));
}
