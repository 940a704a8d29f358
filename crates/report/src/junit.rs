//! Findings as JUnit XML, for continuous integration that shows test results.
//!
//! One test case per finding, with the rule as its class. A report without findings has one case that passed; what was
//! not covered is a case that was in error, so that it is not mistaken for a pass.

use std::io::{self, Write};
use std::time::Duration;

use crashproof_findings::{Finding, Level, Report as Findings, SetAside, Why};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

/// Writes the report.
pub fn write(out: &mut dyn Write, report: &Findings) -> io::Result<()> {
    let mut suite = TestSuite::new(format!("crashproof {} {}", report.command, report.subject));
    if let Some(seconds) = report.stats.get("seconds").and_then(serde_json::Value::as_f64) {
        suite.set_time(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    }
    suite.add_property(("verdict", report.verdict().word()));
    suite.add_test_cases(report.findings.iter().map(case));
    suite.add_test_cases(report.set_aside.iter().map(skipped));
    for reason in &report.incomplete {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_type("incomplete").set_message(printable(reason));
        suite.add_test_case(TestCase::new(format!("not covered: {}", printable(reason)), status));
    }
    if suite.test_cases.is_empty() {
        suite.add_test_case(TestCase::new(report.summary.as_str(), TestCaseStatus::success()));
    }
    if !report.notes.is_empty() {
        suite.set_system_err(printable(&report.notes.join("\n")));
    }
    let mut all = Report::new("crashproof");
    all.add_test_suite(suite);
    let text = all.to_string().map_err(io::Error::other)?;
    out.write_all(text.as_bytes())
}

fn case(finding: &Finding) -> TestCase {
    let mut status = match finding.level {
        Level::Error => TestCaseStatus::non_success(NonSuccessKind::Failure),
        // Most viewers know nothing between passed and failed.
        Level::Warning | Level::Note => TestCaseStatus::success(),
    };
    if finding.level == Level::Error {
        status.set_type(finding.rule.id).set_message(printable(&finding.message));
        status.set_description(printable(&story(finding)));
    }
    let mut case = TestCase::new(printable(&name(finding)), status);
    case.set_classname(finding.rule.id);
    case.add_property(("fingerprint", finding.fingerprint.as_str()));
    if finding.level != Level::Error {
        case.set_system_out(printable(&format!("{}: {}", finding.level.word(), story(finding))));
    }
    case
}

fn skipped(aside: &SetAside) -> TestCase {
    let mut status = TestCaseStatus::skipped();
    status.set_message(match &aside.why {
        Why::Suppressed(reason) => printable(&format!("suppressed: {reason}")),
        Why::Known => "known, in the baseline".into(),
    });
    let mut case = TestCase::new(printable(&name(&aside.finding)), status);
    case.set_classname(aside.finding.rule.id);
    case
}

fn name(finding: &Finding) -> String {
    // Stable while lines move: dashboards follow a test by its name.
    format!("{} {} {}", finding.place.file, finding.place.function, finding.fingerprint)
}

/// Everything there is to say, in order.
fn story(finding: &Finding) -> String {
    let mut lines = vec![format!("{}: {}", finding.place, finding.message)];
    lines.extend(
        finding.related.iter().map(|it| format!("{:8} {}  {}", it.role.word(), it.place, it.message)),
    );
    lines.extend(finding.cause.iter().map(|cause| format!("cause    {}", cause.message)));
    lines.extend(finding.evidence.iter().chain(&finding.trace).cloned());
    lines.extend(finding.output.lines().map(|line| format!("said     {line}")));
    lines.extend(finding.fix.iter().map(|fix| format!("fix      {}", fix.message)));
    if !finding.replay.is_empty() {
        lines.push(format!("replay   crashproof replay {}", finding.replay));
    }
    lines.join("\n")
}

/// Without what XML cannot hold.
fn printable(text: &str) -> String {
    crate::printable::escape(text)
}
