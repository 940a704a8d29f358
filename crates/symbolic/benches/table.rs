//! Table 1 of the SMT paper (*SMT-based Verification of Persistency Invariants of Px86 Programs*): every client proved,
//! and refuted with each of its flushes left out.
//!
//! The clients are in `bench/prove`, one file each. Their `//!` lines say:
//!
//! * `unwind LOOP=N ...`: the bound of each loop, or one number for all;
//! * `refuted 1 2 ...`: the flushes without which the claim is false. Flushes not listed are not needed by this client,
//!   because it does not depend on them or cannot observe them. That is checked, too, unless the last word is `only`.
//!   `none`: the client needs no flush.
//!
//! An argument selects clients whose name contains it; `--safe` leaves out the unsafe variants, `--cadical` uses the
//! other solver, if built in, and `--jobs=N` sets the number of parallel workers (all cores).
//!
//! If `z3` is installed (`pip install z3-solver`), it gets the same formula as SMT-LIB, with the order as integers, and
//! per client 25 times our time, at least 10 seconds and at most `--z3-timeout=SECONDS` (60).

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crashproof_ordersat::SolverKind;
use crashproof_ordersat::smt::Script;
use crashproof_prove::encode::{Encoder, Settings};
use crashproof_prove::program::Program;
use crashproof_prove::prove::{self, Report, Verdict};
use crashproof_prove::values::Analysis;
use crashproof_symbolic::Options;

/// Clients, with the paper's seconds and events.
type Rows = &'static [(&'static str, f64, u32)];

/// The paper's numbers: time in seconds with DPTSOsyn, and events.
const PAPER: [(&str, Rows); 3] = [
    (
        "flit",
        &[
            ("ldld", 0.28, 29),
            ("ww", 0.28, 24),
            ("u+u-w", 0.29, 33),
            ("w+w-w", 0.29, 30),
            ("w+rw-w", 0.30, 33),
            ("u+u+u+u-w", 0.39, 47),
            ("2uu+uu-w", 0.46, 60),
            ("3uu", 0.50, 53),
            ("uu+uu", 0.50, 39),
            ("2uu+2uu-w2", 0.87, 75),
            ("4uu", 2.08, 67),
            ("2uu+2uu-w", 2.39, 74),
        ],
    ),
    (
        "queue",
        &[
            ("dw", 0.35, 70),
            ("e+d", 1.46, 145),
            ("ee+dw", 1.65, 205),
            ("e+e", 3.07, 157),
            ("ee+d", 3.98, 213),
            ("e+de", 6.63, 222),
            ("ee+ddw", 8.54, 272),
            ("ee+dd", 10.99, 269),
            ("e+e+d", 18.16, 213),
            ("e2+2dw", 34.38, 332),
            ("e+e+d+d", 36.70, 269),
            ("e+e+e", 48.88, 225),
            ("ee+ddw+d", 59.62, 328),
            ("e+de+e", 60.94, 281),
            ("e+de+e+d", 227.13, 337),
            ("e3+3dw", 427.54, 459),
        ],
    ),
    (
        "set",
        &[
            ("iw", 10.78, 287),
            ("i", 11.87, 286),
            ("irw", 34.13, 471),
            ("ir", 37.42, 469),
            ("iw+rw", 64.70, 472),
            ("i+crw", 89.31, 488),
            ("i+i-w", 260.89, 524),
            ("i+i", 416.12, 505),
            ("ii+r", 1151.50, 688),
        ],
    ),
];

/// How many flushes each structure has.
const FLUSHES: [(&str, u32); 3] = [("flit", 3), ("queue", 11), ("set", 6)];

/// The directives in a client's file.
struct Client {
    file: PathBuf,
    options: Options,
    refuted: Vec<u32>,
    /// Are only those tested?
    only: bool,
}

impl Client {
    fn read(file: PathBuf) -> Client {
        let text = std::fs::read_to_string(&file).expect("the client is there");
        let mut client = Client { file, options: Options::default(), refuted: Vec::new(), only: false };
        for line in text.lines().filter_map(|line| line.strip_prefix("//! ")) {
            let (word, rest) = line.split_once(' ').expect("a word and what it is about");
            let words = rest.split_whitespace();
            match word {
                "unwind" => {
                    for word in words {
                        match word.parse() {
                            Ok(number) => client.options.unwind = number,
                            Err(_) => client.options.loops.push(word.parse().expect("a loop's bound")),
                        }
                    }
                }
                "refuted" if rest == "none" => {}
                "refuted" => {
                    client.only = rest.ends_with(" only");
                    let flushes = words.filter(|word| *word != "only");
                    client.refuted = flushes.map(|word| word.parse().expect("a flush")).collect();
                }
                other => panic!("{}: `{other}` is not known", client.file.display()),
            }
        }
        client
    }

    /// Proves the client with a flush left out, or with all of them (0). The time excludes compilation.
    fn prove(&self, without: u32, solver: SolverKind, helpers: usize) -> (Report, Duration, Program) {
        let define = OsString::from(format!("-DNO_FLUSH={without}"));
        let module = crashproof_symbolic::compile(std::slice::from_ref(&self.file), vec![define])
            .expect("it compiles");
        let start = Instant::now();
        let program = crashproof_symbolic::unroll(&module, &self.options).expect("it unrolls");
        let settings = Settings { solver, ..Settings::default() };
        let options = prove::Options { settings, helpers, ..prove::Options::default() };
        let report = prove::prove(&program, &options).expect("an answer");
        (report, start.elapsed(), program)
    }
}

/// z3 is stopped at this multiple of our time for a client.
const PATIENCE: u32 = 25;

/// But it always gets at least this many seconds.
const LEAST_SECONDS: u64 = 10;

/// z3, if installed, and its maximum number of seconds per client.
struct Z3 {
    seconds: u64,
}

impl Z3 {
    fn find(seconds: u64) -> Option<Z3> {
        let version = Command::new("z3").arg("--version").stdout(Stdio::null()).status();
        version.is_ok_and(|status| status.success()).then_some(Z3 { seconds })
    }

    /// Asks whether a program can fail or exceed its bounds, which took us `ours`. `None` if time ran out.
    fn refutes(&self, program: &Program, ours: Duration) -> (Option<bool>, Duration) {
        let start = Instant::now();
        let seconds = (ours * PATIENCE).as_secs().max(LEAST_SECONDS).min(self.seconds);
        let script = Script::default();
        let analysis = Analysis::new(program);
        let mut encoder =
            Encoder::for_solver(program, &analysis, Settings::default(), Box::new(script.clone()));
        let violations = encoder.violations.iter().map(|violation| violation.lit);
        let bad: Vec<_> = violations.chain(encoder.limits.iter().map(|limit| limit.lit)).collect();
        let bad = encoder.gates.any(&bad);
        encoder.finish();
        let mut z3 = Command::new("z3")
            .args(["-in".to_owned(), format!("-T:{seconds}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("z3 was there a moment ago");
        z3.stdin.take().expect("piped").write_all(script.text(&[bad]).as_bytes()).expect("z3 reads");
        let output = z3.wait_with_output().expect("z3 ends");
        let answer = match String::from_utf8_lossy(&output.stdout).trim() {
            "unsat" => Some(false),
            "sat" => Some(true),
            _ => None,
        };
        (answer, start.elapsed())
    }
}

fn word(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Holds => "holds".into(),
        Verdict::Violated(_) => "refuted".into(),
        Verdict::Unknown(reasons) => {
            let why: Vec<&str> = reasons.iter().map(|reason| reason.text.as_str()).collect();
            format!("unknown ({})", why.join("; "))
        }
    }
}

/// Totals of the rows.
#[derive(Default)]
struct Totals {
    rows: u32,
    wrong: u32,
    variants: u32,
    time: Duration,
    unsafe_time: Duration,
    paper: f64,
    z3: Duration,
    z3_late: u32,
}

struct Bench {
    solver: SolverKind,
    helpers: usize,
    only_safe: bool,
    z3: Option<Z3>,
    totals: Totals,
}

impl Bench {
    /// Proves a client, refutes its variants, and prints its row.
    fn row(&mut self, shown: &str, client: &Client, flushes: u32, paper: (f64, u32)) {
        let (report, time, program) = client.prove(0, self.solver, self.helpers);
        self.totals.rows += 1;
        self.totals.time += time;
        self.totals.paper += paper.0;
        let mut notes = Vec::new();
        if !matches!(report.verdict, Verdict::Holds) {
            self.totals.wrong += 1;
            notes.push(format!("WRONG: {}", word(&report.verdict)));
        }
        if !self.only_safe {
            let names: Vec<String> = client.refuted.iter().map(ToString::to_string).collect();
            notes.push(match names.as_slice() {
                [] => "no flush is needed".into(),
                _ => format!("refuted without {}", names.join(", ")),
            });
            self.variants(client, flushes, &mut notes);
        }
        let mut beside = "-".to_owned();
        if let Some(z3) = &self.z3 {
            let (answer, time) = z3.refutes(&program, time);
            self.totals.z3 += time;
            beside = format!("{:.2}s", time.as_secs_f64());
            match answer {
                Some(true) => {
                    self.totals.wrong += 1;
                    notes.push("WRONG: z3 does not agree".into());
                }
                Some(false) => {}
                None => {
                    self.totals.z3_late += 1;
                    beside.insert(0, '>');
                }
            }
        }
        println!(
            "{shown:<18} {:>7.2}s {:>7} {:>8.2}s {:>7} {:>7.0}x {beside:>9}  {}",
            time.as_secs_f64(),
            report.statistics.events,
            paper.0,
            paper.1,
            paper.0 / time.as_secs_f64(),
            notes.join("; "),
        );
    }

    fn variants(&mut self, client: &Client, flushes: u32, notes: &mut Vec<String>) {
        for flush in 1..=flushes {
            let expected = client.refuted.contains(&flush);
            if client.only && !expected {
                continue;
            }
            let (report, time, _) = client.prove(flush, self.solver, self.helpers);
            self.totals.unsafe_time += time;
            self.totals.variants += u32::from(expected);
            let right = match report.verdict {
                Verdict::Violated(_) => expected,
                Verdict::Holds => !expected,
                Verdict::Unknown(_) => false,
            };
            if !right {
                self.totals.wrong += 1;
                notes.push(format!("WRONG: {} without flush {flush}", word(&report.verdict)));
            }
        }
    }

    fn finish(&self) -> ExitCode {
        let totals = &self.totals;
        let seconds = totals.time.as_secs_f64();
        println!(
            "\n{} clients in {seconds:.1} s (the paper: {:.0} s, {:.0} times as long); \
             {} unsafe variants refuted among those tried in {:.1} s",
            totals.rows,
            totals.paper,
            totals.paper / seconds,
            totals.variants,
            totals.unsafe_time.as_secs_f64(),
        );
        match &self.z3 {
            Some(z3) => {
                let (all, late) = (totals.z3.as_secs_f64(), totals.z3_late);
                let ratio = all / seconds;
                // Stopped runs would have taken longer, so a sum that includes them is a lower bound.
                let (least, stopped) = match late {
                    0 => ("", String::new()),
                    _ => (
                        "at least ",
                        format!(
                            "; it was stopped at {late} clients, each after {PATIENCE} times our time, but not before \
                             {} s nor after {} s",
                            z3.seconds.min(LEAST_SECONDS),
                            z3.seconds
                        ),
                    ),
                };
                println!(
                    "z3 took {least}{all:.1} s on one thread, {least}{ratio:.1} times as long as ours on {}{stopped}",
                    self.helpers + 1
                );
            }
            None => println!("There is no z3 to compare with (pip install z3-solver)."),
        }
        if totals.wrong == 0 {
            ExitCode::SUCCESS
        } else {
            println!("{} answers are not what they should be", totals.wrong);
            ExitCode::FAILURE
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let has = |option: &str| arguments.iter().any(|word| word == option);
    let names: Vec<&String> = arguments.iter().filter(|word| !word.starts_with("--")).collect();
    let seconds = arguments.iter().find_map(|word| word.strip_prefix("--z3-timeout="));
    let seconds = seconds.map_or(60, |number| number.parse().expect("a number of seconds"));
    let jobs = arguments.iter().find_map(|word| word.strip_prefix("--jobs="));
    let jobs = jobs.map_or_else(
        || std::thread::available_parallelism().map_or(1, usize::from),
        |number| number.parse::<usize>().expect("a number of threads").max(1),
    );
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/prove");
    let mut bench = Bench {
        solver: if has("--cadical") { SolverKind::Cadical } else { SolverKind::default() },
        helpers: jobs - 1,
        only_safe: has("--safe"),
        z3: Z3::find(seconds),
        totals: Totals::default(),
    };
    println!(
        "{:<18} {:>8} {:>7} {:>9} {:>7} {:>8} {:>9}  unsafe variants",
        "client", "time", "events", "paper", "", "times", "z3"
    );
    for (structure, clients) in PAPER {
        let (_, flushes) = FLUSHES.into_iter().find(|(name, _)| *name == structure).expect("counted");
        for (name, seconds, events) in clients {
            let shown = format!("{structure} {name}");
            if names.is_empty() || names.iter().any(|wanted| shown.contains(wanted.as_str())) {
                let client = Client::read(directory.join(structure).join(format!("{name}.c")));
                bench.row(&shown, &client, flushes, (*seconds, *events));
            }
        }
    }
    bench.finish()
}
