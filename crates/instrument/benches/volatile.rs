//! The overhead of instrumentation on code that never touches PM, compared with plain `clang -O2`, and the cost of a PM
//! access with a runtime that only performs it. Plain and instrumented programs run alternately; the best of several
//! runs counts.
//!
//! `cargo bench -p crashproof-instrument`

use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs, and how much slower they may be.
const LIMITS: [(&str, f64); 10] = [
    ("chase", 2.0),
    ("tree", 2.0),
    ("sort", 2.0),
    ("hash", 2.0),
    ("words", 2.0),
    ("structs", 2.0),
    ("saxpy", 3.0),
    ("sum", 3.0),
    ("stencil", 3.0),
    ("matrix", 3.0),
];

/// Operations in `pm.c`.
const PM_OPERATIONS: f64 = 1e6;

fn plugin() -> PathBuf {
    let deps = std::env::current_exe().expect("a running program has a path");
    deps.with_file_name("libcrashproof_instrument.so")
}

fn clang(arguments: &[&str]) {
    let status = Command::new("clang-22").args(arguments).status().expect("clang-22 must be installed");
    assert!(status.success(), "clang-22 {arguments:?} failed");
}

/// Best time of a run, and the result, which must not depend on instrumentation.
fn run(program: &Path) -> (f64, String) {
    let output = Command::new(program).output().expect("benchmark program runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (seconds, result) = text.trim().split_once(' ').expect("seconds and a result");
    (seconds.parse().expect("seconds"), result.to_owned())
}

fn main() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("volatile");
    std::fs::create_dir_all(&work).expect("a directory under target/");
    let at = |path: &str| work.join(path).display().to_string();
    let source = |name: &str| here.join("benches/programs").join(name).display().to_string();
    let load_plugin = format!("-fpass-plugin={}", plugin().display());
    let runtime = at("libquiet.so");
    let (abi, runtime_source) = (here.join("abi"), here.join("tests/runtime/runtime.c"));
    let include = format!("-I{}", abi.display());
    clang(&[
        "-O2",
        "-DQUIET",
        "-fPIC",
        "-shared",
        &include,
        &runtime_source.display().to_string(),
        "-o",
        &runtime,
    ]);
    let search = format!("-Wl,-rpath,{}", work.display());

    println!("{:10} {:>10} {:>14} {:>7} {:>7}", "program", "plain", "instrumented", "ratio", "limit");
    let mut missed = 0;
    for (name, limit) in LIMITS {
        let (plain, built) = (at(&format!("{name}.plain")), at(&format!("{name}.built")));
        let file = source(&format!("{name}.c"));
        clang(&["-O2", &file, "-o", &plain]);
        clang(&["-O2", "-g", &load_plugin, &file, &runtime, &search, "-o", &built]);
        let (mut best_plain, mut best_built) = (f64::MAX, f64::MAX);
        for _ in 0..5 {
            let (plain_time, plain_result) = run(Path::new(&plain));
            let (built_time, built_result) = run(Path::new(&built));
            assert_eq!(plain_result, built_result, "{name} computes something else when instrumented");
            best_plain = best_plain.min(plain_time);
            best_built = best_built.min(built_time);
        }
        let ratio = best_built / best_plain;
        missed += usize::from(ratio > limit);
        let (plain, built) = (best_plain * 1e3, best_built * 1e3);
        println!("{name:10} {plain:>7.2} ms {built:>11.2} ms {ratio:>6.2}x {limit:>6.1}x");
    }
    let pm = at("pm.built");
    clang(&["-O2", "-g", &load_plugin, &source("pm.c"), &runtime, &search, "-o", &pm]);
    let (seconds, _) = run(Path::new(&pm));
    println!("a PM access through an empty runtime: {:.2} ns", seconds * 1e9 / PM_OPERATIONS);
    assert_eq!(missed, 0, "{missed} programs are slower than allowed");
}
