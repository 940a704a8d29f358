//! The performance promises of the litmus engines: time and peak memory of the exhaustive machine on programs with
//! three threads, the whole corpus through every engine, and the savings of laziness.
//!
//! `make bench` prints a table of single runs, each in a separate process so that its peak memory is its own, and then
//! divan's timings of the same programs.

#[path = "../tests/support/array.rs"]
mod array;

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use array::Array;
use crashproof_litmus::Test;
use crashproof_litmus::answer::{Answer, Options};
use divan::Bencher;

/// Names the program that a child process is to measure.
const MEASURE: &str = "CRASHPROOF_BENCH_MEASURE";

/// Three threads of six instructions each on four locations in two lines, each hard in its own way.
const PROGRAMS: [(&str, [&str; 3]); 8] = [
    (
        "stores",
        [
            "x = 1; y = 2; z = 3; w = 4; x = 5; y = 6;",
            "z = 11; w = 12; x = 13; y = 14; z = 15; w = 16;",
            "w = 21; x = 22; y = 23; z = 24; w = 25; x = 26;",
        ],
    ),
    (
        "values from loads",
        [
            "a = x; y = a + 1; b = z; w = b + 2; c = y; z = c + 3;",
            "a = y; z = a + 10; b = w; x = b + 20; c = z; w = c + 30;",
            "a = z; w = a + 100; b = x; y = b + 200; c = w; x = c + 300;",
        ],
    ),
    (
        "sums of loads",
        [
            "x = 1; a = y; b = z; w = a + b; c = w; y = c + a;",
            "y = 2; a = z; b = w; x = a + b; c = x; z = c + a;",
            "z = 4; a = w; b = x; y = a + b; c = y; w = c + a;",
        ],
    ),
    (
        "store buffering",
        [
            "x = 1; a = y; y = 2; b = z; z = a + 3; c = w;",
            "y = 11; a = z; z = 12; b = w; w = a + 13; c = x;",
            "z = 21; a = w; w = 22; b = x; x = a + 23; c = y;",
        ],
    ),
    (
        "non-temporal",
        [
            "movnt x, 1; movnt y, 2; movnt z, 3; movnt w, 4; movnt x, 5; movnt z, 6;",
            "movnt z, 11; movnt w, 12; movnt x, 13; movnt y, 14; movnt w, 15; movnt y, 16;",
            "movnt w, 21; movnt x, 22; movnt y, 23; movnt z, 24; movnt y, 25; movnt x, 26;",
        ],
    ),
    (
        "non-temporal mix",
        [
            "movnt x, 1; a = z; movnt y, a + 2; z = 3; movnt w, 4; b = x;",
            "movnt z, 11; a = x; movnt w, a + 12; x = 13; movnt y, 14; b = z;",
            "movnt w, 21; a = y; movnt x, a + 22; y = 23; movnt z, 24; b = w;",
        ],
    ),
    (
        "flushes",
        [
            "x = 1; clwb x; z = 2; clwb z; sfence; y = 3;",
            "z = 11; clwb z; x = 12; clflushopt x; sfence; w = 13;",
            "w = 21; clflush w; y = 22; clwb y; mfence; x = 23;",
        ],
    ),
    (
        "locked",
        [
            "a = faa(x, 1); y = a; b = xchg(z, 2); w = b; c = cas(y, 0, 3); clwb x;",
            "a = faa(z, 10); w = a; b = xchg(x, 20); y = b; c = cas(w, 0, 30); clwb z;",
            "a = faa(y, 100); x = a; b = xchg(w, 200); z = b; c = cas(x, 0, 300); clwb y;",
        ],
    ),
];

fn source(name: &str) -> String {
    let (_, threads) = PROGRAMS.iter().find(|(program, _)| *program == name).expect("a known program");
    let threads: Vec<String> = threads.iter().map(|body| format!("thread {{ {body} }}\n")).collect();
    format!("litmus bench\nline {{ x, y }}\nline {{ z, w }}\n{}", threads.concat())
}

fn parse(source: &str) -> Test {
    crashproof_litmus::parse(source).unwrap_or_else(|error| panic!("{error}\n{source}"))
}

fn corpus() -> Vec<Test> {
    let mut directories = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../litmus"))];
    let mut tests = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).expect("the corpus") {
            let path = entry.expect("a file of the corpus").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension() == Some("litmus".as_ref()) {
                tests.push(parse(&std::fs::read_to_string(path).expect("a litmus file")));
            }
        }
    }
    tests
}

type Engine = fn(&Test, &Options) -> Answer;
const EXHAUSTIVE: Engine = crashproof_litmus::exhaustive::run;
const LAZY: Engine = crashproof_litmus::lazy::engine::run;

fn run_all(tests: &[Test], engine: Engine) -> u64 {
    tests.iter().map(|test| engine(test, &Options::default()).statistics.explored).sum()
}

/// A child process's report of its run: time, peak memory, and what it explored.
struct Measured {
    seconds: f64,
    mebibytes: f64,
    states: u64,
    outcomes: usize,
    complete: bool,
}

/// In the child: runs what [`MEASURE`] names once, and reports the result.
fn measure(what: &str) {
    let started = Instant::now();
    let (states, outcomes, complete) = match what.split_once(' ') {
        Some(("corpus", engine)) => {
            (run_all(&corpus(), if engine == "lazy" { LAZY } else { EXHAUSTIVE }), 0, true)
        }
        Some(("lazy", name)) => {
            // Laziness does not help programs without recovery; some would take minutes.
            let mut options = Options::default();
            options.limits.states = 200_000;
            figures(&LAZY(&parse(&source(name)), &options))
        }
        Some((_, name)) => figures(&EXHAUSTIVE(&parse(&source(name)), &Options::default())),
        None => panic!("{what} names nothing to measure"),
    };
    let seconds = started.elapsed().as_secs_f64();
    println!("{seconds} {} {states} {outcomes} {complete}", peak_memory());
}

fn figures(answer: &Answer) -> (u64, usize, bool) {
    (answer.statistics.explored, answer.states.len(), answer.complete())
}

/// The peak memory of this process in MiB; 0 if the system does not provide it.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()).and_then(|value| value.parse().ok());
    kibibytes.unwrap_or(0.0) / 1024.0
}

fn in_child(what: &str) -> Measured {
    let program = std::env::current_exe().expect("the benchmark's own path");
    let output = Command::new(program).env(MEASURE, what).output().expect("the benchmark runs itself");
    assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [seconds, mebibytes, states, outcomes, complete] = fields[..] else { panic!("{what}: {text}") };
    Measured {
        seconds: seconds.parse().expect("seconds"),
        mebibytes: mebibytes.parse().expect("memory"),
        states: states.parse().expect("states"),
        outcomes: outcomes.parse().expect("outcomes"),
        complete: complete == "true",
    }
}

fn tables() {
    println!("3 threads of 6 instructions, 4 locations on 2 lines (promised: 1 s, 500 MB, exhaustive)\n");
    println!("  {:18} {:>10} {:>9} {:>10} {:>9}", "", "time", "memory", "states", "outcomes");
    for engine in ["exhaustive", "lazy"] {
        for (name, _) in PROGRAMS {
            let it = in_child(&format!("{engine} {name}"));
            let complete = if it.complete { "" } else { "  incomplete" };
            println!(
                "  {name:18} {:>8.3} s {:>5.0} MiB {:>10} {:>9}  {engine}{complete}",
                it.seconds, it.mebibytes, it.states, it.outcomes
            );
        }
    }
    println!("\nThe litmus corpus, {} tests (promised: 5 s in all)\n", corpus().len());
    for engine in ["exhaustive", "lazy"] {
        let it = in_child(&format!("corpus {engine}"));
        println!("  {engine:18} {:>8.3} s {:>5.0} MiB {:>10} states", it.seconds, it.mebibytes, it.states);
    }
    println!("\nJaaru's array of n integers, a failure point a row (promised: at most 2 recoveries)\n");
    println!("  {:>3} {:>16} {:>12}", "n", "eager recoveries", "lazy");
    for length in (8..=64).step_by(8) {
        let explored = Array { length }.explore();
        for point in explored.failure_points {
            println!("  {length:>3} {:>16} {:>12}", point.eager, point.recoveries);
        }
    }
    println!();
}

#[divan::bench(args = PROGRAMS.map(|(name, _)| name), sample_count = 10, sample_size = 1)]
fn exhaustive(bencher: Bencher, name: &str) {
    let test = parse(&source(name));
    bencher.bench(|| EXHAUSTIVE(&test, &Options::default()));
}

#[divan::bench(args = ["exhaustive", "lazy"], sample_count = 10, sample_size = 1)]
fn whole_corpus(bencher: Bencher, engine: &str) {
    let tests = corpus();
    let engine = if engine == "lazy" { LAZY } else { EXHAUSTIVE };
    bencher.bench(|| run_all(&tests, engine));
}

#[divan::bench(args = [8, 16, 32, 64])]
fn array(length: u64) -> u64 {
    Array { length }.explore().figures.recoveries
}

fn main() {
    if let Ok(what) = std::env::var(MEASURE) {
        return measure(&what);
    }
    // Not if tests only check that it runs.
    if std::env::args().any(|argument| argument == "--bench") {
        tables();
    }
    divan::main();
}
