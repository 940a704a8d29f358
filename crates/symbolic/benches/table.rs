//! Table 1 of the SMT paper (*SMT-based Verification of Persistency Invariants of Px86 Programs*): every client proved,
//! and refuted with each of its flushes left out.
//!
//! The clients are in `bench/prove`, one file each. Their `//!` lines say:
//!
//! * `unwind LOOP=N ...`: the bound of each loop, or one number for all;
//! * `refuted 1 2 ...`: the flushes without which the claim is false. Those that are not named are not needed by
//!   this client: it does not do that, or cannot see it. That is checked too. `none`: it needs no flush. Without this
//!   line the variants of a client are not tried.
//!
//! A name as argument runs clients whose name contains it; `--safe` leaves the unsafe variants out.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crashproof_orders::Limits;
use crashproof_prove::encode::Settings;
use crashproof_prove::prove::{self, Report, Verdict};
use crashproof_symbolic::Options;

/// Clients, with the paper's seconds and events.
type Rows = &'static [(&'static str, f64, u32)];

/// The paper's figures: time in seconds with DPTSOsyn, and events.
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

/// What a client's file says about itself.
struct Client {
    file: PathBuf,
    options: Options,
    refuted: Option<Vec<u32>>,
}

impl Client {
    fn read(file: PathBuf) -> Client {
        let text = std::fs::read_to_string(&file).expect("the client is there");
        let mut client = Client { file, options: Options::default(), refuted: None };
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
                "refuted" if rest == "none" => client.refuted = Some(Vec::new()),
                "refuted" => {
                    client.refuted = Some(words.map(|word| word.parse().expect("a flush")).collect());
                }
                other => panic!("{}: `{other}` is not known", client.file.display()),
            }
        }
        client
    }

    /// With a flush left out, or none (0). The time is without the compiler's.
    fn prove(&self, without: u32) -> (Report, Duration) {
        let define = OsString::from(format!("-DNO_FLUSH={without}"));
        let module = crashproof_symbolic::compile(std::slice::from_ref(&self.file), vec![define])
            .expect("it compiles");
        let start = Instant::now();
        let program = crashproof_symbolic::unroll(&module, &self.options).expect("it unrolls");
        let options =
            prove::Options { settings: Settings::default(), limits: Limits::default(), tentative: false };
        let report = prove::prove(&program, &options).expect("an answer");
        (report, start.elapsed())
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

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let only_safe = arguments.iter().any(|word| word == "--safe");
    let names: Vec<&String> = arguments.iter().filter(|word| !word.starts_with("--")).collect();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/prove");
    let (mut wrong, mut rows, mut variants) = (0, 0, 0);
    let (mut total, mut unsafe_total, mut paper_total) = (Duration::ZERO, Duration::ZERO, 0.0);
    println!(
        "{:<18} {:>8} {:>7} {:>9} {:>7} {:>8}  unsafe variants",
        "client", "time", "events", "paper", "", "times"
    );
    for (structure, clients) in PAPER {
        let (_, flushes) = FLUSHES.into_iter().find(|(name, _)| *name == structure).expect("counted");
        for (name, paper_seconds, paper_events) in clients {
            let shown = format!("{structure} {name}");
            if !names.is_empty() && !names.iter().any(|wanted| shown.contains(wanted.as_str())) {
                continue;
            }
            let client = Client::read(directory.join(structure).join(format!("{name}.c")));
            let (report, time) = client.prove(0);
            rows += 1;
            total += time;
            paper_total += paper_seconds;
            let mut notes = Vec::new();
            if !matches!(report.verdict, Verdict::Holds) {
                wrong += 1;
                notes.push(format!("WRONG: {}", word(&report.verdict)));
            }
            let refuted = client.refuted.clone().filter(|_| !only_safe);
            for flush in (1..=flushes).filter(|_| refuted.is_some()) {
                let (report, time) = client.prove(flush);
                unsafe_total += time;
                let expected = refuted.as_ref().is_some_and(|all| all.contains(&flush));
                variants += u32::from(expected);
                let right = match report.verdict {
                    Verdict::Violated(_) => expected,
                    Verdict::Holds => !expected,
                    Verdict::Unknown(_) => false,
                };
                if !right {
                    wrong += 1;
                    notes.push(format!("WRONG: {} without flush {flush}", word(&report.verdict)));
                }
            }
            if let Some(refuted) = refuted {
                let names: Vec<String> = refuted.iter().map(ToString::to_string).collect();
                let names = names.join(", ");
                notes.insert(
                    0,
                    if refuted.is_empty() {
                        "no flush is needed".into()
                    } else {
                        format!("refuted without {names}")
                    },
                );
            }
            println!(
                "{shown:<18} {:>7.2}s {:>7} {paper_seconds:>8.2}s {paper_events:>7} {:>7.0}x  {}",
                time.as_secs_f64(),
                report.statistics.events,
                paper_seconds / time.as_secs_f64(),
                notes.join("; "),
            );
        }
    }
    println!(
        "\n{rows} clients in {:.1} s (the paper: {paper_total:.0} s, {:.0} times as long); \
         {variants} unsafe variants refuted among those tried in {:.1} s",
        total.as_secs_f64(),
        paper_total / total.as_secs_f64(),
        unsafe_total.as_secs_f64(),
    );
    if wrong == 0 {
        ExitCode::SUCCESS
    } else {
        println!("{wrong} answers are not what they should be");
        ExitCode::FAILURE
    }
}
