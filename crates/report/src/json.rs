//! Findings as JSON, in the form shared by all checking commands. `schemas/report.schema.json` describes it.
//!
//! Fields may be added, never renamed.

use std::io::{self, Write};

use crashproof_findings::{Also, Cause, Finding, Fix, Frame, Level, Place, Report, Role, Why};
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// Version of the form; counts up when fields are added.
pub const FORMAT: u32 = 2;

#[derive(Serialize)]
struct Object<'a> {
    tool: &'static str,
    version: &'static str,
    format: u32,
    command: &'a str,
    subject: &'a str,
    verdict: &'static str,
    bounds: &'a Map<String, Value>,
    stats: &'a Map<String, Value>,
    /// Why the verdict does not cover everything.
    #[serde(skip_serializing_if = "is_empty")]
    not_covered: &'a [String],
    #[serde(skip_serializing_if = "is_empty")]
    notes: &'a [String],
    findings: Findings<'a>,
    #[serde(skip_serializing_if = "is_empty", serialize_with = "set_aside")]
    set_aside: &'a [crashproof_findings::SetAside],
}

fn is_empty<T>(list: &&[T]) -> bool {
    list.is_empty()
}

/// Written one by one: a report may have tens of thousands.
struct Findings<'a>(&'a [Finding]);

impl Serialize for Findings<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(finding))
    }
}

fn set_aside<S: Serializer>(
    list: &&[crashproof_findings::SetAside],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut sequence = serializer.serialize_seq(Some(list.len()))?;
    for aside in *list {
        let (why, reason) = match &aside.why {
            Why::Suppressed(reason) => ("suppressed", Some(reason.as_str())),
            Why::Known => ("known", None),
        };
        sequence.serialize_element(&SetAsideObject { why, reason, finding: finding(&aside.finding) })?;
    }
    sequence.end()
}

#[derive(Serialize)]
struct SetAsideObject<'a> {
    why: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    finding: FindingObject<'a>,
}

#[derive(Serialize)]
pub(crate) struct FindingObject<'a> {
    rule: &'static str,
    level: Level,
    message: &'a str,
    file: &'a str,
    line: u32,
    column: u32,
    function: &'a str,
    #[serde(skip_serializing_if = "is_empty")]
    frames: &'a [Frame],
    related: Vec<RelatedObject<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<&'a Cause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_at: Option<&'a Place>,
    #[serde(skip_serializing_if = "is_empty")]
    evidence: &'a [String],
    #[serde(skip_serializing_if = "is_empty")]
    trace: &'a [String],
    #[serde(skip_serializing_if = "str::is_empty")]
    output: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<&'a Fix>,
    #[serde(skip_serializing_if = "str::is_empty")]
    replay: &'a str,
    fingerprint: &'a str,
    count: u64,
    #[serde(skip_serializing_if = "is_empty")]
    also: &'a [Also],
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

#[derive(Serialize)]
struct RelatedObject<'a> {
    role: Role,
    file: &'a str,
    line: u32,
    column: u32,
    function: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    detail: &'a str,
    #[serde(skip_serializing_if = "is_empty")]
    frames: &'a [Frame],
}

pub(crate) fn finding(finding: &Finding) -> FindingObject<'_> {
    FindingObject {
        rule: finding.rule.id,
        level: finding.level,
        message: &finding.message,
        file: &finding.place.file,
        line: finding.place.line,
        column: finding.place.column,
        function: &finding.place.function,
        frames: &finding.place.frames,
        related: finding
            .related
            .iter()
            .map(|related| RelatedObject {
                role: related.role,
                file: &related.place.file,
                line: related.place.line,
                column: related.place.column,
                function: &related.place.function,
                message: &related.message,
                detail: &related.detail,
                frames: &related.place.frames,
            })
            .collect(),
        cause: finding.cause.as_ref(),
        failed_at: finding.failed_at.as_ref(),
        evidence: &finding.evidence,
        trace: &finding.trace,
        output: &finding.output,
        fix: finding.fix.as_ref(),
        replay: &finding.replay,
        fingerprint: &finding.fingerprint,
        count: finding.count,
        also: &finding.also,
        extra: &finding.extra,
    }
}

fn object(report: &Report) -> Object<'_> {
    Object {
        tool: "crashproof",
        version: env!("CARGO_PKG_VERSION"),
        format: FORMAT,
        command: report.command,
        subject: &report.subject,
        verdict: report.verdict().word(),
        bounds: &report.bounds,
        stats: &report.stats,
        not_covered: &report.incomplete,
        notes: &report.notes,
        findings: Findings(&report.findings),
        set_aside: &report.set_aside,
    }
}

/// Writes the report as one JSON object on one line.
pub fn write(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &object(report))?;
    writeln!(out)
}

/// A preliminary finding, reported during the work.
#[derive(Serialize)]
struct Preliminary<'a> {
    preliminary: bool,
    #[serde(flatten)]
    finding: FindingObject<'a>,
}

/// Writes a line for each preliminary finding. The lines of [`write_lines`] at the end repeat all of them, and are
/// authoritative.
pub fn write_preliminary(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    for one in &report.findings {
        serde_json::to_writer(&mut *out, &Preliminary { preliminary: true, finding: finding(one) })?;
        writeln!(out)?;
    }
    out.flush()
}

/// Writes the report as lines: one for each finding, and a last one with everything else, `findings` empty. For reports
/// too large to hold in memory: each line is written as soon as it is made.
pub fn write_lines(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    for one in &report.findings {
        serde_json::to_writer(&mut *out, &finding(one))?;
        writeln!(out)?;
    }
    let rest = Object { findings: Findings(&[]), ..object(report) };
    serde_json::to_writer(&mut *out, &rest)?;
    writeln!(out)
}
