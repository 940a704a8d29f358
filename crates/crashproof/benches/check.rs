//! The performance promises of `crashproof check`, measured in one run:
//!
//! - the overhead of instrumentation on code that never touches persistent memory (the bench of
//!   `crashproof-instrument`);
//! - a store or a load of persistent memory in a recorded run;
//! - recoveries per second on one core; recoveries per crash point, for programs that commit with one store;
//! - bytes of trace per event, and the memory of a check of ten million events;
//! - the cost of looking for missing flushes;
//! - how time grows with the length of the run.
//!
//! A missed promise is reported, and fails the bench.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crashproof_check::{Model, Options, Report, check, record};

/// Makes a process of this bench do only the long run.
const LONG_RUN: &str = "CRASHPROOF_BENCH_LONG_RUN";
/// Operations of the long run, six events each.
const LONG_OPERATIONS: u64 = 10_000_000 / 6 + 1;

struct Bench {
    directory: PathBuf,
    missed: Vec<String>,
}

impl Bench {
    /// Options for a program with one number as its argument, one core.
    fn options(&self, source: &Path, words: &[&str]) -> Options {
        let program = self.directory.join(source.file_stem().expect("a name"));
        if !program.exists() {
            crashproof_toolchain::testing::compile(source, &program, &["-O2"]);
        }
        let mut options = Options::new(program, words.iter().map(OsString::from).collect());
        options.jobs = 1;
        options
    }

    fn promise(&mut self, what: &str, figure: f64, most: f64, unit: &str) {
        let kept = figure <= most;
        println!(
            "{what:<58} {figure:>10.2} {unit:<6} {} {most}",
            if kept { "<=" } else { "MISSED, promised" }
        );
        if !kept {
            self.missed.push(what.to_owned());
        }
    }
}

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/programs")
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/c").join(name)
}

fn checked(options: &Options) -> Report {
    let report = check(options).expect("a program that can be checked");
    assert!(report.findings.is_empty() && report.unknown.is_empty(), "{report:?}");
    report
}

/// The shortest of several times.
fn best(mut what: impl FnMut()) -> Duration {
    let one = |_| {
        let started = Instant::now();
        what();
        started.elapsed()
    };
    (0..5).map(one).min().expect("several")
}

/// How much longer one thing takes than another: the shortest time of each, measured alternately, so that temporary
/// load affects both.
fn ratio(mut one: impl FnMut(), mut other: impl FnMut()) -> f64 {
    let timed = |what: &mut dyn FnMut()| {
        let started = Instant::now();
        what();
        started.elapsed()
    };
    let turns: Vec<(Duration, Duration)> = (0..9).map(|_| (timed(&mut one), timed(&mut other))).collect();
    let shortest = |times: &mut dyn Iterator<Item = Duration>| times.min().expect("several").as_secs_f64();
    shortest(&mut turns.iter().map(|turn| turn.0)) / shortest(&mut turns.iter().map(|turn| turn.1))
}

/// Nanoseconds per access in a recorded run, beyond the run's other costs.
fn access(bench: &Bench, kind: &str) -> f64 {
    const COUNT: u64 = 4_000_000;
    let source = programs().join("accesses.c");
    let time = |count: u64| {
        let options = bench.options(&source, &[kind, &count.to_string()]);
        best(|| drop(record(&options, 0).expect("a run")))
    };
    let (some, none) = (time(COUNT), time(0));
    some.saturating_sub(none).as_nanos() as f64 / COUNT as f64
}

/// The peak of this process's memory, in bytes.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") * 1024.0
}

/// A complete check of a run of ten million events, in a separate process so that the peak is its own.
fn long_run(bench: &Bench) {
    let started = Instant::now();
    let report = checked(&bench.options(&programs().join("ring.c"), &[&LONG_OPERATIONS.to_string()]));
    println!("{} {} {}", report.statistics.events, peak(), started.elapsed().as_secs_f64());
}

fn main() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("check-bench");
    let mut bench = Bench { directory, missed: Vec::new() };
    if std::env::var_os(LONG_RUN).is_some() {
        return long_run(&bench);
    }
    let _ = std::fs::remove_dir_all(&bench.directory);
    std::fs::create_dir_all(&bench.directory).expect("a directory under target/");

    println!("code that never touches persistent memory, against clang -O2");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let volatile =
        Command::new(cargo).args(["bench", "--quiet", "--package", "crashproof-instrument"]).status();
    if !volatile.expect("cargo runs").success() {
        bench.missed.push("code that never touches persistent memory".into());
    }

    println!("\naccesses in a recorded run");
    for kind in ["store", "load"] {
        let nanoseconds = access(&bench, kind);
        bench.promise(&format!("a {kind} of persistent memory"), nanoseconds, 25.0, "ns");
    }

    println!("\nrecovery on one core");
    let report = checked(&bench.options(&programs().join("table.c"), &["300"]));
    let figures = &report.statistics;
    let rate = figures.recoveries as f64 / figures.exploring.as_secs_f64();
    bench.promise("a program of 100 lines: time for a recovery", 1e6 / rate, 500.0, "us");
    println!("  that is {rate:.0} recoveries a second");

    println!("\nrecoveries for each place to crash");
    let (mut recoveries, mut places) = (0, 0);
    for (name, source, count) in [
        ("hash table", programs().join("table.c"), "300"),
        ("journal", programs().join("journal.c"), "1000"),
        ("log", programs().join("log.c"), "1000"),
        ("ring", programs().join("ring.c"), "1000"),
        ("undo log", example("undo_log.c"), ""),
        ("list append", example("list_append.c"), "1000"),
    ] {
        let words: Vec<&str> = [count].into_iter().filter(|word| !word.is_empty()).collect();
        let figures = checked(&bench.options(&source, &words)).statistics;
        let ratio = figures.recoveries as f64 / figures.failure_points as f64;
        println!(
            "  {name:<20} {:>6} / {:<6} = {ratio:.4}, {} behaviors",
            figures.recoveries, figures.failure_points, figures.behaviors
        );
        recoveries += figures.recoveries;
        places += figures.failure_points;
    }
    println!(
        "  (as many recoveries as there are behaviors: each append makes a list that was not there before, and has two\n  \
         places, so 0.5 is all it can be)"
    );
    bench.promise("all of them", recoveries as f64 / places as f64, 0.5, "");

    println!("\nrobustness, against a check without it");
    for (name, source, count) in [
        ("hash table", programs().join("table.c"), "300"),
        ("journal", programs().join("journal.c"), "3000"),
        ("ring", programs().join("ring.c"), "30000"),
        ("list append", example("list_append.c"), "300"),
    ] {
        let with = bench.options(&source, &[count]);
        let without = Options { robust: false, ..with.clone() };
        let more = ratio(|| drop(checked(&with)), || drop(checked(&without)));
        bench.promise(name, more, 1.10, "x");
    }

    println!("\nstrands of a key-value store, against the same without looking at them");
    let without = bench.options(&programs().join("kv.c"), &["100000"]);
    let with = Options { model: Some(Model::Strand), ..without.clone() };
    let run = |options: &Options| drop(record(options, 0).expect("a run"));
    bench.promise("running it", ratio(|| run(&with), || run(&without)), 1.20, "x");
    let more = ratio(|| drop(checked(&with)), || drop(checked(&without)));
    println!("  the check as a whole: {more:.2} x");

    println!("\nmemory");
    let bytes = size_of::<crashproof_protocol::Record>() as f64;
    bench.promise("bytes of trace an event, values included", bytes, 64.0, "");
    let long =
        Command::new(std::env::current_exe().expect("a path")).env(LONG_RUN, "1").output().expect("it runs");
    let told = String::from_utf8_lossy(&long.stdout).into_owned();
    let numbers: Vec<f64> = told.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [events, peak, seconds] = numbers[..] else {
        panic!("the long run failed: {}", String::from_utf8_lossy(&long.stderr))
    };
    bench.promise(&format!("peak of a check of {events} events ({seconds:.0} s)"), peak / 1e9, 4.0, "GB");

    println!("\ntime against the length of the run");
    let mut per_operation = Vec::new();
    for count in [100, 1000, 10_000] {
        let options = bench.options(&programs().join("journal.c"), &[&count.to_string()]);
        let started = Instant::now();
        let figures = checked(&options).statistics;
        let each = started.elapsed().as_secs_f64() / f64::from(count);
        println!(
            "  {count:>6} operations: {:>8.1} ms, {:>6} recoveries, {:>6.0} us an operation",
            each * f64::from(count) * 1e3,
            figures.recoveries,
            each * 1e6
        );
        per_operation.push(each);
    }
    bench.promise(
        "an operation among 10000 against one among 1000",
        per_operation[2] / per_operation[1],
        1.5,
        "x",
    );

    assert!(bench.missed.is_empty(), "missed: {}", bench.missed.join(", "));
}
