//! Small programs and the events they must produce, at every optimization level.
//!
//! `programs/NAME.c` (or `.cpp`) is built with the plugin and run with the runtime of `runtime/`. What the
//! runtime writes must be `programs/NAME.log`, or `NAME.O2.log` where a level differs from `-O0` for good
//! reason; what the plugin says while compiling must be `NAME.warnings`, or nothing. Comments in a program
//! steer its test: `// flags: -mavx2` adds compiler flags, `// needs: avx2` skips it on machines without,
//! `// environment: NAME=value` sets a variable for the run.
//!
//! `BLESS=1 cargo test -p crashproof-instrument` writes the expected files. Read the difference before you
//! commit it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const LEVELS: [&str; 4] = ["O0", "O1", "O2", "O3"];

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn work() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
    fs::create_dir_all(&directory).expect("a directory under target/");
    directory
}

fn plugin() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    test.with_file_name("libcrashproof_instrument.so")
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; is clang-22 installed?"))
}

fn succeed(command: &mut Command) -> Output {
    let output = run(command);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{errors}\n{}", String::from_utf8_lossy(&output.stdout));
    output
}

/// The runtime, built once for each test binary.
fn runtime() -> PathBuf {
    static BUILT: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    BUILT
        .get_or_init(|| {
            let library = work().join("libtest_runtime.so");
            let abi = Path::new(env!("CARGO_MANIFEST_DIR")).join("abi");
            succeed(
                Command::new("clang-22")
                    .args(["-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-I"])
                    .arg(abi)
                    .arg(here().join("runtime/runtime.c"))
                    .arg("-o")
                    .arg(&library),
            );
            library
        })
        .clone()
}

/// What the comments of a program ask for.
#[derive(Default)]
struct Wishes {
    flags: Vec<String>,
    needs: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Wishes {
    fn read(source: &Path) -> Self {
        let mut wishes = Wishes::default();
        for line in fs::read_to_string(source).expect("a program").lines() {
            let words = |rest: &str| rest.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            if let Some(rest) = line.strip_prefix("// flags:") {
                wishes.flags = words(rest);
            } else if let Some(rest) = line.strip_prefix("// needs:") {
                wishes.needs = words(rest);
            } else if let Some(rest) = line.strip_prefix("// environment:") {
                let (name, value) = rest.trim().split_once('=').expect("NAME=value");
                wishes.environment.push((name.into(), value.into()));
            }
        }
        wishes
    }

    fn can_run(&self) -> bool {
        let machine = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        self.needs.iter().all(|feature| machine.split_whitespace().any(|word| word == feature))
    }
}

/// Compares with an expected file, or writes it.
fn expect(actual: &str, file: &Path, what: &str) {
    if std::env::var_os("BLESS").is_some() {
        if actual.is_empty() {
            let _ = fs::remove_file(file);
        } else {
            fs::write(file, actual).expect("expected files are writable");
        }
        return;
    }
    let expected = fs::read_to_string(file).unwrap_or_default();
    assert!(
        actual == expected,
        "{what}: {} differs\n--- expected\n{expected}--- actual\n{actual}",
        file.display()
    );
}

/// Builds and runs a program at one level: what was said while building, and what the run wrote.
fn events(source: &Path, level: &str, wishes: &Wishes) -> (String, String) {
    let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let binary = work().join(format!("{name}.{level}"));
    let compiler = if name.ends_with(".cpp") { "clang++-22" } else { "clang-22" };
    let library = runtime();
    let built = succeed(
        Command::new(compiler)
            .current_dir(here().join("programs"))
            .arg(format!("-{level}"))
            .args(["-g", "-Wall", "-Wno-unused-value", &format!("-fpass-plugin={}", plugin().display())])
            .args(&wishes.flags)
            .arg(&name)
            .arg(&library)
            .arg(format!("-Wl,-rpath,{}", work().display()))
            .arg("-o")
            .arg(&binary),
    );
    let ran = succeed(Command::new(&binary).envs(wishes.environment.iter().cloned()));
    (String::from_utf8_lossy(&built.stderr).into_owned(), String::from_utf8_lossy(&ran.stdout).into_owned())
}

fn check(name: &str) {
    let source = here().join("programs").join(name);
    let wishes = Wishes::read(&source);
    if !wishes.can_run() {
        eprintln!("{name}: skipped, the processor lacks one of {:?}", wishes.needs);
        return;
    }
    let beside = |suffix: &str| source.with_extension(suffix);
    let mut base = String::new();
    for level in LEVELS {
        let (warnings, log) = events(&source, level, &wishes);
        let what = format!("{name} at -{level}");
        expect(&warnings, &beside("warnings"), &what);
        let own = beside(&format!("{level}.log"));
        if level == LEVELS[0] {
            expect(&log, &beside("log"), &what);
            base = log;
        } else if std::env::var_os("BLESS").is_some() {
            expect(if log == base { "" } else { &log }, &own, &what);
        } else {
            expect(&log, &if own.exists() { own } else { beside("log") }, &what);
        }
    }
}

macro_rules! programs {
    ($($test:ident: $file:literal,)*) => {
        $(#[test] fn $test() { check($file); })*

        #[test]
        fn every_program_has_a_test() {
            let tested = [$($file),*];
            for entry in fs::read_dir(here().join("programs")).expect("programs") {
                let name = entry.expect("a file").file_name().to_string_lossy().into_owned();
                let is_program = name.ends_with(".c") || name.ends_with(".cpp");
                assert!(!is_program || tested.contains(&name.as_str()), "{name} is not tested");
            }
        }
    };
}

programs! {
    scalars: "scalars.c",
    vectors: "vectors.c",
    atomics: "atomics.c",
    atomics_16: "atomics16.c",
    cpp_atomics: "cpp_atomics.cpp",
    non_temporal: "nontemporal.c",
    blocks: "blocks.c",
    flushes_and_fences: "flushes.c",
    masked: "masked.c",
    masked_512: "masked512.c",
    vectorised: "vectorised.c",
    by_value: "byvalue.c",
    variadic: "variadic.c",
    volatile_memory: "volatile.c",
    asm_flushes: "asm_flushes.c",
    asm_accesses: "asm_accesses.c",
    asm_unknown: "asm_unknown.c",
    intrinsics_unknown: "intrinsics_unknown.c",
    persistent_globals: "globals.c",
    persistent_globals_cpp: "globals_cpp.cpp",
    inlined_frames: "inlined.c",
    cpp_classes: "classes.cpp",
    exceptions: "exceptions.cpp",
    grouped: "grouped.c",
    list_append: "list.c",
    offsets: "offsets.c",
    walk: "walk.c",
    sanitized: "sanitized.c",
}
