//! Findings for the logs and reviews of continuous integration: GitHub's workflow commands and GitLab's code quality report.

use std::io::{self, Write};

use crashproof_findings::{Finding, Level, Report};
use serde_json::json;

/// Writes GitHub's workflow commands, a line per finding: they become annotations of the changed lines.
/// <https://docs.github.com/actions/reference/workflow-commands-for-github-actions>
pub fn write_github(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let command = |level: Level| match level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Note => "notice",
    };
    for finding in &report.findings {
        let place = &finding.place;
        let mut words = vec![finding.message.clone()];
        words.extend(finding.cause.iter().map(|cause| format!("Cause: {}", cause.message)));
        words.extend(finding.fix.iter().map(|fix| format!("Fix: {}", fix.message)));
        writeln!(
            out,
            "::{} file={},line={},col={},title={}::{}",
            command(finding.level),
            property(&place.file),
            place.line.max(1),
            place.column.max(1),
            property(finding.rule.id),
            data(&words.join("\n"))
        )?;
    }
    for reason in &report.incomplete {
        writeln!(out, "::warning title=crashproof::{}", data(&format!("not covered: {reason}")))?;
    }
    Ok(())
}

/// The text of a command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property of a command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// Writes GitLab's code quality report, a JSON array.
/// <https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format>
pub fn write_gitlab(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let entry = |finding: &Finding| {
        let severity = match finding.level {
            Level::Error => "critical",
            Level::Warning => "minor",
            Level::Note => "info",
        };
        json!({
            "description": finding.message,
            "check_name": finding.rule.id,
            "fingerprint": finding.fingerprint,
            "severity": severity,
            "location": {
                "path": finding.place.file.strip_prefix("./").unwrap_or(&finding.place.file),
                "lines": {"begin": finding.place.line.max(1)},
            },
        })
    };
    let entries: Vec<serde_json::Value> = report.findings.iter().map(entry).collect();
    serde_json::to_writer_pretty(&mut *out, &entries)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crashproof_findings::{Place, rules};

    fn report() -> Report {
        let mut report = Report::new("check", "a.c");
        let place = Place::new("src/a,b.c", 3, 5);
        report.findings.push(Finding::new(&rules::check::RECOVERY_FAILS, place, "100% lost\nagain"));
        report
    }

    #[test]
    fn commands_are_escaped() {
        let mut out = Vec::new();
        write_github(&mut out, &report()).expect("memory can be written");
        let text = String::from_utf8(out).expect("UTF-8");
        assert_eq!(text, "::error file=src/a%2Cb.c,line=3,col=5,title=recovery-fails::100%25 lost%0Aagain\n");
    }

    #[test]
    fn the_quality_report_is_an_array() {
        let mut out = Vec::new();
        write_gitlab(&mut out, &report()).expect("memory can be written");
        let parsed: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(parsed[0]["location"]["lines"]["begin"], 3);
        assert_eq!(parsed[0]["severity"], "critical");
    }
}
