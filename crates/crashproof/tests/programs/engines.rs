//! Runs an engine of the release build on a program, and parses its report.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use crashproof_toolchain::testing;
use serde_json::Value;

use crate::header::{Engine, Program, Variant};

/// Seconds after which an engine is stopped; `prove` gives up earlier by itself. A safety net against hangs on a busy
/// machine: no expectation depends on either.
const PATIENCE: &str = "1200";
const PROVE_SECONDS: &str = "600";

/// One finding of a report.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) rule: String,
    pub(crate) level: String,
    pub(crate) file: String,
    pub(crate) line: u32,
    /// Message, evidence and output of the failing run.
    pub(crate) text: String,
    /// Role, file and line.
    pub(crate) related: Vec<(String, String, u32)>,
    /// The lines between which the missing flush belongs.
    pub(crate) window: Option<(u32, u32)>,
    pub(crate) primary: Option<bool>,
    /// The name of its cause.
    pub(crate) cause: String,
}

impl Finding {
    pub(crate) fn describe(&self) -> String {
        let file = Path::new(&self.file).file_name().unwrap_or_default().to_string_lossy();
        let related =
            self.related.iter().filter(|(role, ..)| !["read", "candidate"].contains(&role.as_str()));
        let related: Vec<String> = related.map(|(role, _, line)| format!("{role} {line}")).collect();
        format!(
            "{}[{}] {file}:{} ({}) {} {:?} {:?}",
            self.level,
            self.rule,
            self.line,
            self.text.lines().next().unwrap_or_default(),
            related.join(", "),
            self.window,
            self.primary
        )
    }
}

/// An engine's answer for a program.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) findings: Vec<Finding>,
    /// Reasons why the answer is incomplete.
    pub(crate) unknown: Vec<String>,
    /// The program could not be judged: why.
    pub(crate) refused: Option<String>,
    /// There was no persistent memory to judge, or no claim about it.
    pub(crate) vacuous: bool,
    pub(crate) figures: String,
    /// Recorded accesses, crash points, recoveries that ran, and states that brute force would try.
    pub(crate) events: u64,
    pub(crate) crash_points: u64,
    pub(crate) recoveries: u64,
    pub(crate) eager: String,
}

impl Answer {
    fn refused(text: impl Into<String>) -> Answer {
        Answer { refused: Some(text.into()), ..Answer::default() }
    }

    pub(crate) fn describe(&self) -> String {
        if let Some(refused) = &self.refused {
            return format!("refused: {refused}");
        }
        let mut text = if self.vacuous { "vacuous".to_owned() } else { String::new() };
        for finding in &self.findings {
            let _ = writeln!(text, "{}", finding.describe());
        }
        for reason in &self.unknown {
            let _ = writeln!(text, "unknown: {reason}");
        }
        if text.is_empty() {
            text.push_str("clean");
        }
        if !self.figures.is_empty() {
            let _ = write!(text, " ({})", self.figures);
        }
        text
    }
}

/// The value of `{dir}` for the prover, which never opens anything.
const PROVED_DIRECTORY: &str = "/mnt/pmem";

/// Has an engine judge a program.
pub(crate) fn ask(engine: Engine, program: &Program, variant: &Variant) -> Answer {
    let scratch = tempfile::tempdir().expect("a directory");
    let pool = scratch.path().join("pm");
    std::fs::create_dir(&pool).expect("a directory");
    for (name, content) in &variant.files {
        std::fs::write(pool.join(name), content).expect("a file");
    }
    let directory = match engine {
        Engine::Check => pool.display().to_string(),
        _ => PROVED_DIRECTORY.to_owned(),
    };
    let fill = |texts: &[String]| -> Vec<String> {
        texts.iter().map(|text| text.replace("{dir}", &directory)).collect()
    };
    let mut compiler = fill(&variant.compiler);
    let include = program.path.ancestors().nth(2).expect("tests/programs").join("include");
    if !is_rust(program) {
        compiler.extend(["-D_GNU_SOURCE".into(), "-I".into(), include.display().to_string()]);
    }
    let arguments = fill(&variant.arguments);
    let text = scratch.path().join("report.txt");
    let stdin = scratch.path().join("stdin");
    std::fs::write(&stdin, variant.stdin.as_deref().unwrap_or_default()).expect("a file");
    let mut command = Command::new("timeout");
    command.arg(PATIENCE).arg(testing::tools().join("crashproof")).current_dir(scratch.path());
    command.arg(if engine == Engine::Robust { "prove" } else { engine.name() });
    command.args(["-j", "1", "--format", "json", "--format"]);
    command.arg(concat(&["text=".into(), text.clone().into()]));
    let flags = fill(variant.flags.get(&engine).map_or(&[], Vec::as_slice));
    let executable = scratch.path().join("program");
    let flag = |flag: &String| program.with_lines(flag).replace("{program}", &executable.to_string_lossy());
    command.args(flags.iter().map(flag));
    match engine {
        Engine::Check => {
            if let Err(message) = compile(program, &compiler, scratch.path(), &executable) {
                return Answer::refused(format!("does not compile: {message}"));
            }
            command.arg("--pm-path").arg(&pool).arg(&executable).arg("--").args(arguments);
        }
        Engine::Lint => {
            command.arg(&program.path).arg("--").args(compiler);
        }
        Engine::Prove | Engine::Robust => {
            if engine == Engine::Robust {
                command.arg("--robust");
            }
            command.args(["--timeout", PROVE_SECONDS]);
            if variant.expected.get(&engine).is_some_and(|expected| expected.kind() == "unknown") {
                // The expectation is about the prover's own reason, which runs would hide.
                command.arg("--no-runs");
            }
            if variant.stdin.is_some() {
                command.arg("--stdin").arg(&stdin);
            }
            command.args(arguments.iter().map(|argument| format!("--run-arg={argument}")));
            command.arg(&program.path).arg("--").args(compiler);
        }
    }
    let input = std::fs::File::open(&stdin).expect("it was written");
    let output = command.stdin(input).output().expect("timeout runs");
    let answer = read(engine, &output, &std::fs::read_to_string(text).unwrap_or_default());
    match left_behind(variant, &pool) {
        Some(complaint) => Answer::refused(complaint),
        None => answer,
    }
}

fn concat(parts: &[OsString]) -> OsString {
    parts.iter().fold(OsString::new(), |mut all, part| {
        all.push(part);
        all
    })
}

fn is_rust(program: &Program) -> bool {
    program.path.extension().is_some_and(|ending| ending == "rs")
}

/// Calls `recover` after a crash, as `prove` does, instead of running the program again.
const RECOVERY: &str = r#"
#include <stdint.h>
uint32_t crashproof_crashes(void);
int __real_main(int, char **, char **);
void recover(void) __asm__(RECOVER);
int __wrap_main(int argc, char **argv, char **environment) {
  if (!crashproof_crashes())
    return __real_main(argc, argv, environment);
  recover();
  return 0;
}
"#;

/// Builds the program with instrumentation; returns the compiler's message if it cannot.
fn compile(program: &Program, compiler: &[String], scratch: &Path, executable: &Path) -> Result<(), String> {
    if is_rust(program) {
        let options: Vec<&str> = compiler.iter().map(String::as_str).collect();
        testing::compile(&program.path, executable, &options);
        return Ok(());
    }
    let cpp = program.path.extension().is_some_and(|ending| ending == "cpp");
    let mut command = Command::new(testing::tools().join("crashproof"));
    command
        .current_dir(scratch)
        .arg(if cpp { "c++" } else { "cc" })
        .args(["-O1", "-g", "-pthread", "-mclwb", "-mclflushopt"])
        .args(compiler);
    if program.recovers() {
        let source = scratch.join("recovery.c");
        let object = scratch.join("recovery.o");
        std::fs::write(&source, RECOVERY).expect("a file");
        let symbol = if cpp { "_Z7recoverv" } else { "recover" };
        let status = Command::new("clang-22")
            .arg("-c")
            .arg(format!("-DRECOVER=\"{symbol}\""))
            .arg(source)
            .arg("-o")
            .arg(&object)
            .status();
        assert!(status.expect("clang runs").success(), "the call of `recover` compiles");
        command.arg("-Wl,--wrap=main").arg(object);
    }
    let output = command.arg(&program.path).arg("-o").arg(executable).output().expect("the compiler runs");
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn read(engine: Engine, output: &Output, text: &str) -> Answer {
    if output.status.code() == Some(124) {
        return Answer { unknown: vec![format!("stopped after {PATIENCE} s")], ..Answer::default() };
    }
    const NOTHING: &str = "no persistent memory";
    let Ok(report) = serde_json::from_slice::<Value>(&output.stdout) else {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return match message.contains(NOTHING) {
            true => Answer { vacuous: true, ..Answer::default() },
            false => Answer::refused(message),
        };
    };
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|text| Some(text.as_str()?.to_owned())).collect()
    };
    let mut unknown = texts(&report["bounds"]["incomplete"]);
    if unknown.is_empty() {
        // lint reports its reasons only in the text format.
        let reasons = text.lines().filter_map(|line| Some(line.split_once("not covered: ")?.1.to_owned()));
        unknown = reasons.collect();
    }
    if unknown.is_empty() && report["verdict"] == "unknown" {
        unknown.push(text.to_owned());
    }
    let findings: Vec<Finding> = report["findings"].as_array().into_iter().flatten().map(finding).collect();
    let stats = &report["stats"];
    let nothing = |reason: &String| reason.contains(NOTHING) || reason.starts_with("vacuous:");
    let vacuous = findings.is_empty() && unknown.iter().any(nothing);
    if vacuous {
        unknown.clear();
    }
    let figures = match engine {
        Engine::Check => {
            format!("{} crash points, {} recoveries", stats["failure_points"], stats["recoveries"])
        }
        _ => String::new(),
    };
    let count = |value: &Value| value.as_u64().unwrap_or_default();
    let eager = stats["eager_states"].as_str().unwrap_or_default().to_owned();
    Answer {
        findings,
        unknown,
        refused: None,
        vacuous,
        figures,
        events: count(&stats["events"]),
        crash_points: count(&stats["failure_points"]),
        recoveries: count(&stats["recoveries"]),
        eager,
    }
}

fn finding(found: &Value) -> Finding {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let line = |value: &Value| value.as_u64().unwrap_or_default() as u32;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut all = text(&found["message"]);
    for evidence in list(&found["evidence"]) {
        all += "\n";
        all += &text(&evidence);
    }
    all += "\n";
    all += &text(&found["output"]);
    all += &text(&found["fix"]["same_line"]);
    let related = list(&found["related"]);
    let related = related.iter().map(|it| (text(&it["role"]), text(&it["file"]), line(&it["line"])));
    let window = &found["fix"]["window"];
    Finding {
        rule: text(&found["rule"]),
        level: text(&found["level"]),
        file: text(&found["file"]),
        line: line(&found["line"]),
        text: all,
        related: related.collect(),
        window: window.is_object().then(|| (line(&window["from"]), line(&window["to"]))),
        primary: found["fix"]["primary"].as_bool(),
        cause: text(&found["cause"]["kind"]),
    }
}

/// Files that a check created or changed, although it must not leave any changes.
fn left_behind(variant: &Variant, pool: &Path) -> Option<String> {
    let left: Vec<_> = std::fs::read_dir(pool).expect("a directory").filter_map(Result::ok).collect();
    if left.len() != variant.files.len() {
        return Some(format!("left behind: {left:?}"));
    }
    let changed = variant.files.iter().find(|(name, content)| {
        !std::fs::read(pool.join(name)).is_ok_and(|now| now.starts_with(content.as_bytes()))
    });
    changed.map(|(name, _)| format!("{name} was changed"))
}
