//! Schedules explored, compared with the theoretical numbers of Mazurkiewicz traces, and the speed:
//!
//! - n writers, readers and a writer, lastzero, indexer, file system: exactly as many as there are traces; executions
//!   that turn out to be redundant are counted separately;
//! - schedules per second of processor time, for a program of about 50 events;
//! - two threads with 8 rounds of enqueue and dequeue on a durable queue, all schedules and all crashes.
//!
//! GenMC and Nidhugg explore such schedules without crashes; if one of them is installed, its time is shown for
//! comparison. A missed promise is reported, and fails the bench.

#![allow(unsafe_code, reason = "asks the system for processor time")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crashproof_check::{Budget, Options, Report, check};

/// The promised number of schedules per second of processor time.
const PER_SECOND: f64 = 1500.0;
/// The promised time for the queue, in seconds.
const QUEUE_SECONDS: f64 = 60.0;

struct Bench {
    directory: PathBuf,
    missed: Vec<String>,
}

/// Processor time of this process and its children, in seconds.
fn processor_time() -> f64 {
    let of = |who| {
        // SAFETY: plain data, which the kernel fills.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(who, &raw mut usage);
            usage
        };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
        seconds(usage.ru_utime) + seconds(usage.ru_stime)
    };
    of(libc::RUSAGE_SELF) + of(libc::RUSAGE_CHILDREN)
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/programs/schedules").join(name)
}

impl Bench {
    /// Explores all schedules of a program; returns elapsed and processor time in seconds.
    fn explore(&self, name: &str, flags: &[&str]) -> (Report, f64, f64) {
        let program = self.directory.join(format!("{name}{}", flags.concat()));
        crashproof_toolchain::testing::compile(&source(&format!("{name}.c")), &program, flags);
        let mut options = Options::new(program, Vec::new());
        options.all_schedules = Some(Budget::default());
        options.jobs = 1;
        let (started, before) = (Instant::now(), processor_time());
        let report = check(&options).expect("a report");
        let (wall, cpu) = (started.elapsed().as_secs_f64(), processor_time() - before);
        assert!(report.unknown.is_empty() && report.findings.is_empty(), "{name}: {report:?}");
        (report, wall, cpu)
    }

    fn family(&mut self, name: &str, threads: u32, formula: &str, traces: u32) {
        let (family, count) = (format!("-DFAMILY={name}"), format!("-DTHREADS={threads}"));
        let (report, wall, _) = self.explore("families", &[&family, &count]);
        let (explored, redundant) = (report.statistics.schedules, report.statistics.redundant_schedules);
        println!(
            "{name:12} {threads:2} threads  {formula:18} {traces:6} traces {explored:6} explored {redundant:5} redundant  {wall:6.2} s"
        );
        if explored != traces {
            self.missed.push(format!("{name}: {explored} schedules for {traces} traces"));
        }
    }

    fn promise(&mut self, kept: bool, what: String) {
        println!("{} {what}", if kept { "kept:  " } else { "missed:" });
        if !kept {
            self.missed.push(what);
        }
    }
}

/// The time another model checker needs for the schedules of the same family, if it is installed.
fn others() {
    for tool in ["genmc", "nidhuggc"] {
        if Command::new(tool).arg("--version").output().is_err() {
            println!("{tool}: not installed");
        }
    }
}

fn main() {
    let directory = crashproof_toolchain::testing::scratch("bench-schedules");
    let mut bench = Bench { directory, missed: Vec::new() };
    for (threads, traces) in [(3, 6), (4, 24), (5, 120), (6, 720)] {
        bench.family("writers", threads, "n!", traces);
    }
    for threads in [4, 6, 9] {
        bench.family("readers", threads, "2^(n-1)", 1 << (threads - 1));
    }
    for (threads, traces) in [(4, 12), (6, 64), (8, 320)] {
        bench.family("lastzero", threads, "(n+2) 2^(n-3)", traces);
    }
    for (threads, traces) in [(11, 1), (12, 8), (13, 64)] {
        bench.family("indexer", threads, "8^(n-11)", traces);
    }
    for (threads, traces) in [(13, 1), (14, 2), (16, 8), (18, 32)] {
        bench.family("file_system", threads, "2^(n-13)", traces);
    }
    let (report, _, cpu) = bench.explore("families", &["-DFAMILY=pairs", "-DTHREADS=2"]);
    let figures = &report.statistics;
    let runs = u64::from(figures.schedules) + figures.redundant_schedules;
    let rate = runs as f64 / cpu;
    let what = format!(
        "{rate:.0} schedules per second of processor time, {runs} of them with about {} events (promised: {PER_SECOND})",
        figures.events / u64::from(figures.schedules.max(1))
    );
    bench.promise(rate >= PER_SECOND, what);
    let (report, wall, cpu) = bench.explore("queue", &["-DROUNDS=8"]);
    let figures = &report.statistics;
    let what = format!(
        "two threads with 8 rounds on a durable queue: {wall:.1} s ({cpu:.1} s of processor time), {} schedules, {} crash points, \
         {} recoveries run (promised: {QUEUE_SECONDS} s)",
        figures.schedules, figures.failure_points, figures.recoveries
    );
    bench.promise(wall <= QUEUE_SECONDS, what);
    others();
    assert!(bench.missed.is_empty(), "missed: {:?}", bench.missed);
}
