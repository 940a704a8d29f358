//! Checks the tests of a suite, several in parallel, each in a separate `crashproof check`: in its directory, with its
//! environment and its own limit, so that the other tests are reported whatever happens to one.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use crashproof_report::suite::{Outcome, Suite, Tested};
use serde_json::Value;

use crate::exit::Exit;
use crate::output::width;
use crate::signals::{Orderly, Scratch};
use crate::suite::case::{Case, Cases};
use crate::suite::options::{Checking, Format, Running, Sink, StatusLevel};

/// Time for a check to report its findings when its time is up.
const GRACE: Duration = Duration::from_secs(10);
/// How often a check is polled.
const TICK: Duration = Duration::from_millis(5);

/// State shared by all workers.
struct Shared<'a> {
    waiting: Mutex<VecDeque<(usize, Case)>>,
    stop: AtomicBool,
    asked: Orderly,
    scratch: Scratch,
    running: &'a Running,
    checking: Vec<std::ffi::OsString>,
    /// Number of workers per check.
    jobs: usize,
    color: bool,
}

impl Shared<'_> {
    fn stopped(&self) -> bool {
        self.stop.load(Relaxed) || self.asked.asked()
    }
}

/// Checks the tests and writes the results.
pub(crate) fn run(cases: Cases, running: &Running, checking: &Checking) -> io::Result<Exit> {
    let sinks = match running.sinks() {
        Ok(sinks) => sinks,
        Err(message) => {
            anstream::eprintln!("crashproof: {message}");
            return Ok(Exit::Usage);
        }
    };
    for file in sinks.iter().filter_map(|sink| sink.1.as_ref()) {
        if let Err(error) = File::create(file) {
            anstream::eprintln!("crashproof: cannot write {}: {error}", file.display());
            return Ok(Exit::Usage);
        }
    }
    let text = sinks.contains(&(Format::Text, None));
    let started = Instant::now();
    let mut suite = check_all(cases, running, checking, text)?;
    suite.seconds = started.elapsed().as_secs_f64();
    for sink in &sinks {
        write(&suite, sink)?;
    }
    Ok(match suite.verdict() {
        "clean" => Exit::Clean,
        "findings" => Exit::Findings,
        _ => Exit::Incomplete,
    })
}

fn write(suite: &Suite, (format, file): &Sink) -> io::Result<()> {
    let mut out: Box<dyn Write> = match file {
        None => Box::new(anstream::stdout()),
        Some(file) => Box::new(anstream::StripStream::new(File::create(file)?)),
    };
    match format {
        Format::Json => suite.write_json(&mut out)?,
        Format::Junit => suite.write_junit(&mut out)?,
        Format::Text => {
            if file.is_some() {
                for test in &suite.tested {
                    writeln!(out, "{}", test.line())?;
                    out.write_all(test.report.as_bytes())?;
                }
            }
            write!(out, "{}", suite.summary())?;
        }
    }
    out.flush()
}

fn check_all(cases: Cases, running: &Running, checking: &Checking, text: bool) -> io::Result<Suite> {
    let (unchecked, wanted): (Vec<_>, Vec<_>) =
        cases.all.into_iter().enumerate().partition(|(_, case)| case.unchecked.is_some());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = running.test_threads.map_or(cores, usize::from).min(wanted.len()).max(1);
    if text {
        let tests = if wanted.len() == 1 { "test" } else { "tests" };
        anstream::println!("{:>12} {} {tests}, {threads} at a time", "Checking", wanted.len());
    }
    let total = wanted.len();
    let shared = Shared {
        waiting: Mutex::new(wanted.into()),
        stop: AtomicBool::new(false),
        asked: Orderly::new()?,
        scratch: Scratch::new()?,
        running,
        checking: checking.words(),
        jobs: (cores / threads).max(1),
        color: text && !matches!(anstream::AutoStream::choice(&io::stdout()), anstream::ColorChoice::Never),
    };
    let mut results: Vec<(usize, Tested)> = unchecked
        .into_iter()
        .filter_map(|(number, case)| {
            let (outcome, why) = case.unchecked.clone()?;
            Some((number, tested(&case, outcome, why)))
        })
        .collect();
    let given = results.len();
    if text {
        results.iter().for_each(|(_, test)| show(test, running.status_level));
    }
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let sender = sender.clone();
            scope.spawn(|| work(&shared, sender));
        }
        drop(sender);
        for (number, test) in receiver {
            if test.outcome == Outcome::Failed && !running.no_fail_fast {
                shared.stop.store(true, Relaxed);
            }
            if text {
                show(&test, running.status_level);
            }
            results.push((number, test));
        }
    });
    results.sort_by_key(|result| result.0);
    let done = results.len() - given;
    let mut notes = cases.notes;
    if shared.asked.asked() {
        notes.push("interrupted".into());
    }
    let tested = results.into_iter().map(|(_, test)| test).collect();
    Ok(Suite { tested, not_run: total - done, notes, seconds: 0.0 })
}

/// Prints a test's line, and its report unless it passed.
fn show(test: &Tested, level: StatusLevel) {
    let bad = matches!(test.outcome, Outcome::Failed | Outcome::Unknown);
    let skipped = test.outcome == Outcome::Skipped;
    if level == StatusLevel::All
        || !skipped && level >= StatusLevel::Pass
        || level == StatusLevel::Fail && bad
    {
        anstream::println!("{}", test.line());
        if bad && !test.report.is_empty() {
            anstream::println!("\n{}\n", test.report.trim_end());
        }
    }
}

fn work(shared: &Shared, results: Sender<(usize, Tested)>) {
    while !shared.stopped() {
        let next = shared.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop_front();
        let Some((number, case)) = next else { return };
        let started = Instant::now();
        let mut test = check(shared, number, &case).unwrap_or_else(|error| {
            tested(&case, Outcome::Unknown, format!("it could not be checked: {error}"))
        });
        test.seconds = started.elapsed().as_secs_f64();
        if results.send((number, test)).is_err() {
            return;
        }
    }
}

fn tested(case: &Case, outcome: Outcome, message: String) -> Tested {
    Tested {
        group: case.group.clone(),
        name: case.name.clone(),
        outcome,
        message,
        report: String::new(),
        findings: Vec::new(),
        seconds: 0.0,
    }
}

/// Checks one test.
fn check(shared: &Shared, number: usize, case: &Case) -> io::Result<Tested> {
    let file = |end: &str| shared.scratch.path().join(format!("{number}.{end}"));
    let (json, text, errors) = (file("json"), file("out"), file("err"));
    let mut command = Command::new(std::env::current_exe()?);
    // Only the program runs there: reports name sources from here, and what a replay needs is kept here.
    command.arg("check").arg(&case.program).arg("--directory").arg(&case.directory).args(&shared.checking);
    let mut to_file = std::ffi::OsString::from("--format=json=");
    to_file.push(&json);
    command.arg(to_file).arg(format!("--jobs={}", shared.jobs)).arg("--").args(&case.arguments);
    command.envs(case.environment.iter().map(|(name, value)| (name, value)));
    command.env("CRASHPROOF_PROGRESS", "never").env("COLUMNS", width().to_string());
    if shared.color {
        command.env("CLICOLOR_FORCE", "1");
    }
    command.stdin(Stdio::null()).stdout(File::create(&text)?).stderr(File::create(&errors)?);
    let limit = case.timeout.unwrap_or(u64::MAX).min(shared.running.timeout);
    let (status, late) = wait(command.spawn()?, Duration::from_secs(limit), &|| shared.asked.asked())?;
    let read = |path: &Path| std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let report: Value =
        read(&json).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null);
    let errors = read(&errors).unwrap_or_default();
    let mut test = judge(case, status, &report, &errors);
    if late && test.outcome != Outcome::Failed {
        test.outcome = Outcome::Unknown;
        test.message = format!("not done after {limit} seconds (--timeout)");
    }
    test.report = match test.outcome {
        Outcome::Failed | Outcome::Unknown => read(&text).unwrap_or_default(),
        _ => String::new(),
    };
    for path in [json, text, file("err")] {
        // The directory will be removed anyway.
        let _ = std::fs::remove_file(path);
    }
    if test.report.is_empty() && matches!(test.outcome, Outcome::Failed | Outcome::Unknown) {
        test.report = errors;
    }
    Ok(test)
}

/// Waits for a check, which is asked to end when its time is up or the user interrupts. Returns whether its time was
/// up.
pub(crate) fn wait(
    mut child: Child,
    limit: Duration,
    asked: &dyn Fn() -> bool,
) -> io::Result<(ExitStatus, bool)> {
    let started = Instant::now();
    let mut ending: Option<Instant> = None;
    let mut late = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, late));
        }
        match ending {
            None if started.elapsed() >= limit || asked() => {
                late = started.elapsed() >= limit;
                interrupt(&child);
                ending = Some(Instant::now());
            }
            Some(since) if since.elapsed() >= GRACE => child.kill()?,
            _ => {}
        }
        std::thread::sleep(TICK);
    }
}

/// Asks a check to report its findings and end.
#[allow(unsafe_code, reason = "sending a signal")]
fn interrupt(child: &Child) {
    if let Ok(id) = i32::try_from(child.id()) {
        // SAFETY: the child has not been waited for, so the id is its own.
        unsafe { libc::kill(id, libc::SIGTERM) };
    }
}

/// The result of a check as a line.
fn judge(case: &Case, status: ExitStatus, report: &Value, errors: &str) -> Tested {
    let findings: Vec<Value> = report["findings"].as_array().cloned().unwrap_or_default();
    let (outcome, message) = match status.code() {
        Some(0) => (Outcome::Passed, figures(report)),
        Some(1) => (Outcome::Failed, first_error(&findings)),
        Some(3) if report["not_covered"].is_array() => not_covered(report),
        _ => broken(errors),
    };
    Tested { findings, ..tested(case, outcome, message) }
}

fn figures(report: &Value) -> String {
    let count = |name: &str, one: &str| {
        let number = report["stats"][name].as_u64().unwrap_or(0);
        format!("{number} {one}{}", if number == 1 { "" } else { "s" })
    };
    let recoveries = count("recoveries", "recovery").replace("recoverys", "recoveries");
    format!("{}, {recoveries}", count("failure_points", "crash point"))
}

fn first_error(findings: &[Value]) -> String {
    let errors: Vec<&Value> = findings.iter().filter(|it| it["level"] == "error").collect();
    let Some(first) = errors.first() else { return String::new() };
    let more = if errors.len() > 1 { format!(" (and {} more)", errors.len() - 1) } else { String::new() };
    let text = |name: &str| first[name].as_str().unwrap_or_default().to_owned();
    format!("{}:{}: {}{more}", text("file"), first["line"], text("rule"))
}

fn not_covered(report: &Value) -> (Outcome, String) {
    let reasons: Vec<&str> =
        report["not_covered"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let nothing = "no persistent memory found: ";
    match reasons[..] {
        [only] if only.starts_with(nothing) => {
            let why = only[nothing.len()..].split(';').next().unwrap_or_default();
            let hint = if why.starts_with("the program maps") { why } else { "" };
            (Outcome::NoPm, hint.to_owned())
        }
        _ => (Outcome::Unknown, reasons.first().copied().unwrap_or("not everything was covered").to_owned()),
    }
}

/// A check that failed to run.
fn broken(errors: &str) -> (Outcome, String) {
    let line = errors.lines().find_map(|line| line.strip_prefix("crashproof: ")).unwrap_or_default();
    if line.contains("fails without any crash") {
        return (Outcome::Failed, line.trim_end_matches("; fix that first").to_owned());
    }
    let line = if line.is_empty() { "its check ended without a report" } else { line };
    (Outcome::Unknown, line.to_owned())
}

/// A path relative to the working directory, if it is below.
pub(crate) fn shown(path: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(&here).map_or_else(|_| path.to_owned(), Path::to_owned)
}
