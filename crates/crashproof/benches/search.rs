//! How the search scales, each number next to the bound measured in the same run: distinct behaviors times a fork and
//! the recovery itself, run natively (`benches/programs/search`).
//!
//! - structures whose recovery reads the tail, or everything: time over the bound, memory, growth;
//! - one behavior at thousands of crash points;
//! - buggy programs against their corrected versions, to exhaustion;
//! - corner bugs where the limit cuts; two workers; four shards.
//!
//! `CRASHPROOF_BENCH_SVG=FILE` draws the growth. A missed promise is reported, and fails the bench.

#![allow(unsafe_code, reason = "asks the system for figures of child processes")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

struct Bench {
    directory: PathBuf,
    missed: Vec<String>,
}

/// The results of a check.
struct Figures {
    cpu: f64,
    wall: f64,
    /// Peak of the largest process, in megabytes.
    peak: f64,
    report: Value,
}

impl Figures {
    fn number(&self, name: &str) -> f64 {
        self.report["stats"][name].as_f64().unwrap_or(0.0)
    }

    /// Failing recoveries that were found.
    fn failures(&self) -> usize {
        let fails = |it: &&Value| it["rule"].as_str().is_some_and(|rule| rule.starts_with("recovery-fails"));
        self.report["findings"].as_array().map_or(0, |all| all.iter().filter(fails).count())
    }

    fn findings(&self) -> usize {
        self.report["findings"]
            .as_array()
            .map_or(0, |all| all.iter().filter(|it| it["level"] == "error").count())
    }
}

/// Processor time of all children that have ended, in seconds, and the peak memory of the largest, in megabytes.
fn children() -> (f64, f64) {
    // SAFETY: plain data, which the kernel fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    (seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_maxrss as f64 / 1024.0)
}

impl Bench {
    fn source(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/programs/search").join(name)
    }

    /// A program, built for the check.
    fn program(&self, name: &str, flags: &[&str]) -> PathBuf {
        let program = self.directory.join(format!("{name}{}", flags.concat()));
        if !program.exists() {
            let all: Vec<&str> = ["-O2"].iter().chain(flags).copied().collect();
            crashproof_toolchain::testing::compile(&Bench::source(&format!("{name}.c")), &program, &all);
        }
        program
    }

    /// Seconds of processor time for one fork and one native recovery: the minimum of several.
    fn bound(&self, name: &str, words: &[&str]) -> f64 {
        let program = self.directory.join(format!("{name}-bound"));
        if !program.exists() {
            let built = Command::new("cc")
                .args(["-O2", "-DBOUND"])
                .arg(Bench::source(&format!("{name}.c")))
                .arg("-o")
                .arg(&program)
                .status();
            assert!(built.expect("a C compiler").success());
        }
        let one = |_| {
            let output = Command::new(&program).args(words).output().expect("it runs");
            String::from_utf8_lossy(&output.stdout).trim().parse::<f64>().expect("a number")
        };
        (0..3).map(one).fold(f64::MAX, f64::min)
    }

    /// Checks a program in a separate process, to measure it alone.
    fn check(&self, program: &Path, options: &[&str], words: &[&str]) -> Figures {
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        command.env("CRASHPROOF_BENCH_MEASURE", env!("CARGO_BIN_EXE_crashproof"));
        command.arg("check").arg(program).args(["--format", "json"]).args(options).arg("--").args(words);
        let output = command.stderr(Stdio::inherit()).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (figures, report) = text.split_once('\n').expect("figures, then the report");
        let numbers: Vec<f64> = figures.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [cpu, wall, peak] = numbers[..] else { panic!("{text}") };
        Figures { cpu, wall, peak, report: serde_json::from_str(report).unwrap_or(Value::Null) }
    }

    fn promise(&mut self, what: &str, figure: f64, most: f64, unit: &str) {
        let kept = figure <= most;
        println!(
            "  {what:<60} {figure:>9.2} {unit:<4} {} {most}",
            if kept { "<=" } else { "MISSED, promised" }
        );
        if !kept {
            self.missed.push(what.to_owned());
        }
    }

    /// A structure: prints its row, returns its processor time and that of the bound.
    fn structure(&self, words: &[&str]) -> (Figures, f64) {
        let figures = self.check(&self.program("structures", &[]), &["-j", "1"], words);
        let bound = self.bound("structures", words) * figures.number("behaviours");
        println!(
            "  {:<24} {:>8.2} s, bound {bound:>7.2} s, {:>6.2} times, {:>6.0} MB, {} behaviors",
            words.join(" "),
            figures.cpu,
            figures.cpu / bound,
            figures.peak,
            figures.number("behaviours")
        );
        (figures, bound)
    }
}

/// Runs a command; prints its measurements and then its output.
fn measure(tool: &Path) {
    let started = Instant::now();
    let output = Command::new(tool).args(std::env::args_os().skip(1)).output().expect("it runs");
    let (cpu, peak) = children();
    println!("{cpu} {} {peak}", started.elapsed().as_secs_f64());
    println!("{}", String::from_utf8_lossy(&output.stdout));
}

/// Draws processor time against the number of operations, both logarithmic, one line per structure.
fn svg(lines: &[(String, Vec<(f64, f64)>)]) -> String {
    let (width, height, left, bottom) = (720.0, 420.0, 60.0, 50.0);
    let x = |n: f64| left + (n.log10() - 2.0) / 3.0 * (width - left - 150.0);
    let y =
        |seconds: f64| height - bottom - (seconds.max(0.01).log10() + 2.0) / 5.0 * (height - bottom - 20.0);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\"><rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for power in 2..=5 {
        let at = x(10_f64.powi(power));
        text += &format!(
            "<line x1=\"{at:.1}\" y1=\"20\" x2=\"{at:.1}\" y2=\"{:.1}\" stroke=\"#ddd\"/><text x=\"{at:.1}\" y=\"{:.1}\" \
             text-anchor=\"middle\">{}</text>\n",
            height - bottom,
            height - bottom + 18.0,
            10_u64.pow(power as u32)
        );
    }
    for power in -2..=3 {
        let at = y(10_f64.powi(power));
        text += &format!(
            "<line x1=\"{left}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/><text x=\"{:.1}\" \
             y=\"{:.1}\" text-anchor=\"end\">{} s</text>\n",
            width - 150.0,
            left - 6.0,
            at + 4.0,
            10_f64.powi(power)
        );
    }
    text += &format!("<text x=\"{:.0}\" y=\"{:.0}\">operations</text>\n", width / 2.0 - 80.0, height - 12.0);
    let colors = ["#1b6ca8", "#c1440e", "#2e7d32", "#6a1b9a", "#8d6e63", "#00838f"];
    for ((name, points), color) in lines.iter().zip(colors.iter().cycle()) {
        let path: Vec<String> = points.iter().map(|(n, s)| format!("{:.1},{:.1}", x(*n), y(*s))).collect();
        text += &format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>\n",
            path.join(" ")
        );
        if let Some((n, s)) = points.last() {
            text += &format!(
                "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{color}\">{name}</text>\n",
                x(*n) + 6.0,
                y(*s) + 4.0
            );
        }
    }
    text + "</svg>\n"
}

fn main() {
    if let Some(tool) = std::env::var_os("CRASHPROOF_BENCH_MEASURE") {
        return measure(Path::new(&tool));
    }
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("search-bench");
    let mut bench = Bench { directory, missed: Vec::new() };
    let _ = std::fs::remove_dir_all(&bench.directory);
    std::fs::create_dir_all(&bench.directory).expect("a directory under target/");

    println!("structures, one worker");
    let (short, bound) = bench.structure(&["log", "10000", "tail"]);
    bench.promise("short recoveries, times the bound", short.cpu / bound, 1.6, "x");
    let (long, _) = bench.structure(&["log", "100000", "tail"]);
    bench.promise("100,000 operations, recovery reads the tail: peak", long.peak, 100.0, "MB");
    for count in ["10000", "30000"] {
        let (list, bound) = bench.structure(&["list", count, "all"]);
        bench.promise(&format!("list, {count} operations, times the bound"), list.cpu / bound, 3.0, "x");
    }
    let (still, bound) = bench.structure(&["still", "2001", "all"]);
    // Starting and recording the program once is not part of the bound.
    let (start, _) = bench.structure(&["still", "1", "all"]);
    let times = (still.cpu - start.cpu).max(0.0) / bound;
    bench.promise("one behavior, 2,001 crash points, times the bound", times, 10.0, "x");
    let mut lines = Vec::new();
    for kind in ["log", "list", "table", "tree", "undo"] {
        let mut points = Vec::new();
        let mut all = Vec::new();
        for count in ["100", "1000", "10000"] {
            let (figures, bound) = bench.structure(&[kind, count, "all"]);
            points.push((count.parse::<f64>().expect("a number"), figures.cpu));
            all.push((figures.cpu, bound, figures.peak));
        }
        let [_, (before, bound_before, _), (cpu, bound, peak)] = all[..] else {
            unreachable!("three counts")
        };
        bench.promise(
            &format!("{kind}, 10,000 operations, recovery reads everything: peak"),
            peak,
            1024.0,
            "MB",
        );
        let beyond = ((cpu / before) / (bound / bound_before).max(10.0)).log10() + 1.0;
        bench.promise(&format!("{kind}: exponent of growth beyond recovery's own work"), beyond, 1.3, "");
        lines.push((format!("{kind}, everything"), points));
    }
    let tail = ["100", "1000", "10000", "100000"].map(|count| {
        (count.parse::<f64>().expect("a number"), bench.structure(&["log", count, "tail"]).0.cpu)
    });
    lines.push(("log, the tail".into(), tail.to_vec()));
    if let Some(file) = std::env::var_os("CRASHPROOF_BENCH_SVG") {
        std::fs::write(file, svg(&lines)).expect("the picture is written");
    }

    println!("\nbuggy programs, to exhaustion, against the corrected ones");
    for kind in ["constructor", "lock", "wait", "volatile", "two"] {
        let buggy = bench.check(&bench.program("buggy", &[]), &["-j", "1"], &[kind, "2000"]);
        let correct = bench.check(&bench.program("buggy", &["-DCORRECT"]), &["-j", "1"], &[kind, "2000"]);
        assert!(buggy.findings() > 0 && correct.findings() == 0, "{kind}: found, and not found");
        println!(
            "  {kind:<24} {:>8.2} s, corrected {:>6.2} s, {} errors",
            buggy.cpu,
            correct.cpu,
            buggy.findings()
        );
        bench.promise(&format!("{kind}, times the corrected one"), buggy.cpu / correct.cpu, 3.0, "x");
    }

    println!("\ncorners, 2^20 crash states per crash point");
    for corner in ["kept", "lost", "alone-lost", "alone-kept", "middle"] {
        let options = ["-j", "1", "--max-per-crash", "150"];
        let found = bench.check(&bench.program("corners", &[]), &options, &[corner, "20"]);
        bench.promise(&format!("{corner}: missed"), f64::from(u8::from(found.failures() == 0)), 0.0, "");
    }
    // Breadth before depth: three recoveries per epoch are enough.
    for corner in ["kept", "lost"] {
        let options = ["-j", "1", "--max-recoveries", "120"];
        let found = bench.check(&bench.program("corners", &[]), &options, &[corner, "40"]);
        let what = format!("{corner}, three recoveries per epoch: missed");
        bench.promise(&what, f64::from(u8::from(found.failures() == 0)), 0.0, "");
    }

    println!("\nworkers and shards");
    let list = bench.program("structures", &[]);
    let words = ["list", "10000", "all"];
    let one = bench.check(&list, &["-j", "1"], &words);
    let two = bench.check(&list, &["-j", "2"], &words);
    bench.promise(
        "two workers: time of one over theirs, less than 1.8",
        1.8 / (one.wall / two.wall),
        1.0,
        "",
    );
    let in_file = bench.program("structures", &["-DIN_FILE"]);
    let file = bench.directory.join("pool").to_string_lossy().into_owned();
    let words_of_file = ["list", "3000", "all", &file];
    let [slow, fast] = ["1", "2"].map(|jobs| bench.check(&in_file, &["-j", jobs], &words_of_file));
    bench.promise(
        "two workers, with a file: time of one over theirs, less than 1.8",
        1.8 / (slow.wall / fast.wall),
        1.0,
        "",
    );
    let mut cpu = 0.0;
    for shard in 1..=4 {
        let kept = bench.directory.join(format!("shard-{shard}"));
        let (shard, kept) = (format!("{shard}/4"), kept.to_string_lossy().into_owned());
        cpu += bench.check(&list, &["-j", "1", "--shard", &shard, "--checkpoint", &kept], &words).cpu;
    }
    bench.promise("four shards, times one check", cpu / one.cpu, 1.15, "x");

    assert!(bench.missed.is_empty(), "missed: {}", bench.missed.join(", "));
}
