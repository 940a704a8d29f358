//! The results of a whole test suite: one line per test, a summary, JUnit, JSON.
//!
//! Each test was checked by itself and has its own report, as text. The lines look like those of nextest.

use std::io::{self, Write};
use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use serde::Serialize;
use serde_json::{Value, json};

use crate::style::{BAD, FAINT, GOOD, STRONG, UNSURE, paint};

/// The result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every recovery passes.
    Passed,
    /// An error was found, or the test fails without a crash.
    Failed,
    /// Not everything was covered.
    Unknown,
    /// The test touches no persistent memory.
    NoPm,
    /// The test was deliberately not checked.
    Skipped,
}

impl Outcome {
    /// The word that begins its line.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Passed => "PASS",
            Outcome::Failed => "FAIL",
            Outcome::Unknown => "UNKNOWN",
            Outcome::NoPm => "no PM",
            Outcome::Skipped => "SKIP",
        }
    }

    fn painted(self) -> String {
        let word = format!("{:>12}", self.word());
        match self {
            Outcome::Passed => paint(GOOD, word),
            Outcome::Failed => paint(BAD, word),
            Outcome::Unknown => paint(UNSURE, word),
            Outcome::NoPm | Outcome::Skipped => paint(FAINT, word),
        }
    }
}

/// A test and its result.
#[derive(Clone, Debug)]
pub struct Tested {
    /// The binary, directory or suite that it belongs to.
    pub group: String,
    /// Its name there.
    pub name: String,
    /// Its result.
    pub outcome: Outcome,
    /// Statistics, the first finding, or the reason, in a line.
    pub message: String,
    /// The report of its check, as text; empty if there is nothing more to say.
    pub report: String,
    /// Its findings, as `check --format json` gives them.
    pub findings: Vec<Value>,
    /// How long it took.
    pub seconds: f64,
}

impl Tested {
    /// One line.
    pub fn line(&self) -> String {
        let name = if self.group.is_empty() {
            paint(STRONG, &self.name)
        } else {
            format!("{} {}", self.group, paint(STRONG, &self.name))
        };
        let time = match self.outcome {
            Outcome::Skipped => "[         ]".to_owned(),
            _ => format!("[{:>8.3}s]", self.seconds),
        };
        let message = if self.message.is_empty() {
            String::new()
        } else {
            format!("  {}", paint(FAINT, &self.message))
        };
        format!("{} {time} {name}{message}", self.outcome.painted())
    }
}

/// All tests of a run.
#[derive(Clone, Debug, Default)]
pub struct Suite {
    /// What was checked, in the order of the suite.
    pub tested: Vec<Tested>,
    /// Tests that were not started: another one had failed, or the user ended the run.
    pub not_run: usize,
    /// Further notes for the reader.
    pub notes: Vec<String>,
    /// How long it took.
    pub seconds: f64,
}

impl Suite {
    /// The number of tests with this result.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.tested.iter().filter(|test| test.outcome == outcome).count()
    }

    /// The verdict of the whole: `findings`, `unknown` or `clean`.
    pub fn verdict(&self) -> &'static str {
        let unfinished = self.count(Outcome::Unknown) + self.not_run > 0;
        match () {
            () if self.count(Outcome::Failed) > 0 => "findings",
            () if unfinished || self.count(Outcome::Passed) == 0 => "unknown",
            () => "clean",
        }
    }

    /// The last lines.
    pub fn summary(&self) -> String {
        let run = self.tested.len() - self.count(Outcome::Skipped);
        let count = |outcome, word: &str| format!("{} {word}", self.count(outcome));
        let mut parts = vec![
            paint(GOOD, count(Outcome::Passed, "passed")),
            paint(BAD, count(Outcome::Failed, "failed")),
            paint(UNSURE, count(Outcome::Unknown, "unknown")),
            count(Outcome::NoPm, "no PM"),
        ];
        if self.count(Outcome::Skipped) > 0 {
            parts.push(count(Outcome::Skipped, "skipped"));
        }
        let tests = if run == 1 { "test" } else { "tests" };
        let mut text = format!(
            "{}\n{} [{:>8.3}s] {run} {tests} checked: {}\n",
            "-".repeat(12),
            paint(STRONG, format!("{:>12}", "Summary")),
            self.seconds,
            parts.join(", ")
        );
        let bad = |outcome: Outcome| matches!(outcome, Outcome::Failed | Outcome::Unknown);
        for test in self.tested.iter().filter(|test| bad(test.outcome)) {
            text += &format!("{}\n", test.line());
        }
        if self.not_run > 0 {
            text += &format!("  ! {} tests were not run (--no-fail-fast runs all)\n", self.not_run);
        }
        if run > 0 && run == self.count(Outcome::NoPm) {
            text += "  ! no test touches persistent memory: name its files with --pm-path, or in crashproof.toml\n";
        }
        if self.tested.is_empty() && self.not_run == 0 {
            text += "  ! there are no tests to check\n";
        }
        for note in &self.notes {
            text += &format!("  ! {note}\n");
        }
        text
    }

    /// JUnit: a suite per group, a case per test.
    pub fn write_junit(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut report = Report::new("crashproof");
        let mut groups: Vec<&str> = self.tested.iter().map(|test| test.group.as_str()).collect();
        groups.dedup();
        groups.sort_unstable();
        groups.dedup();
        for group in groups {
            let mut suite = TestSuite::new(if group.is_empty() { "tests" } else { group });
            for test in self.tested.iter().filter(|test| test.group == group) {
                suite.add_test_case(case(test));
            }
            report.add_test_suite(suite);
        }
        let text = report.to_string().map_err(io::Error::other)?;
        out.write_all(text.as_bytes())
    }

    /// One JSON object.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let tests: Vec<Value> = self
            .tested
            .iter()
            .map(|test| {
                json!({
                    "suite": test.group, "name": test.name, "outcome": test.outcome, "message": test.message,
                    "seconds": test.seconds, "findings": test.findings,
                })
            })
            .collect();
        let all = json!({
            "tool": "crashproof", "version": env!("CARGO_PKG_VERSION"), "command": "test", "verdict": self.verdict(),
            "stats": {
                "passed": self.count(Outcome::Passed), "failed": self.count(Outcome::Failed),
                "unknown": self.count(Outcome::Unknown), "no_pm": self.count(Outcome::NoPm),
                "skipped": self.count(Outcome::Skipped), "not_run": self.not_run, "seconds": self.seconds,
            },
            "notes": self.notes, "tests": tests,
        });
        serde_json::to_writer(&mut *out, &all)?;
        writeln!(out)
    }
}

fn case(test: &Tested) -> TestCase {
    let text = |text: &str| crate::printable::escape(text);
    let mut status = match test.outcome {
        Outcome::Passed => TestCaseStatus::success(),
        Outcome::Failed => TestCaseStatus::non_success(NonSuccessKind::Failure),
        // It must not be mistaken for a pass.
        Outcome::Unknown => TestCaseStatus::non_success(NonSuccessKind::Error),
        Outcome::NoPm | Outcome::Skipped => TestCaseStatus::skipped(),
    };
    if test.outcome != Outcome::Passed {
        let message = if test.message.is_empty() { test.outcome.word() } else { &test.message };
        status.set_message(text(message));
    }
    if matches!(test.outcome, Outcome::Failed | Outcome::Unknown) {
        let rule = test.findings.first().and_then(|finding| finding["rule"].as_str());
        status.set_type(rule.unwrap_or(test.outcome.word()));
        status.set_description(text(&test.report));
    }
    let mut case = TestCase::new(text(&test.name), status);
    case.set_classname(text(&test.group));
    case.set_time(Duration::try_from_secs_f64(test.seconds).unwrap_or_default());
    case
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tested(name: &str, outcome: Outcome) -> Tested {
        let (group, message) = ("log".to_owned(), "src/lib.rs:3: lost".to_owned());
        let report = "the report".to_owned();
        Tested { group, name: name.into(), outcome, message, report, findings: Vec::new(), seconds: 0.5 }
    }

    #[test]
    fn what_is_not_known_is_no_pass() {
        let suite = |outcomes: &[Outcome]| Suite {
            tested: outcomes.iter().map(|outcome| tested("a", *outcome)).collect(),
            ..Suite::default()
        };
        assert_eq!(suite(&[Outcome::Passed, Outcome::NoPm]).verdict(), "clean");
        assert_eq!(suite(&[Outcome::NoPm]).verdict(), "unknown");
        assert_eq!(suite(&[Outcome::Passed, Outcome::Unknown]).verdict(), "unknown");
        assert_eq!(suite(&[Outcome::Unknown, Outcome::Failed]).verdict(), "findings");
        assert_eq!(Suite { not_run: 1, ..suite(&[Outcome::Passed]) }.verdict(), "unknown");
        assert!(suite(&[Outcome::NoPm]).summary().contains("no test touches persistent memory"));
    }

    #[test]
    fn junit_has_a_case_per_test() {
        let all = [Outcome::Passed, Outcome::Failed, Outcome::Unknown, Outcome::NoPm];
        let tested = all.iter().map(|outcome| tested(outcome.word(), *outcome)).collect();
        let mut out = Vec::new();
        Suite { tested, ..Suite::default() }.write_junit(&mut out).expect("written");
        let text = String::from_utf8(out).expect("text");
        assert!(text.contains(r#"tests="4""#) && text.contains(r#"failures="1""#), "{text}");
        assert!(text.contains(r#"errors="1""#) && text.contains("the report"), "{text}");
    }
}
