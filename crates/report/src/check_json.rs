//! Check reports as JSON, in the form all checking commands share.

use crashproof_check::{Finding, Least, Report, Role, Waste, WasteKind};
use serde::Serialize;

#[derive(Serialize)]
struct Object<'a> {
    tool: &'static str,
    version: &'static str,
    command: &'static str,
    verdict: &'static str,
    bounds: Bounds<'a>,
    stats: Statistics,
    findings: Vec<FindingObject<'a>>,
}

#[derive(Serialize)]
struct Bounds<'a> {
    /// Why the verdict does not cover everything; empty if it does, for this run of the program.
    incomplete: &'a [String],
    /// What else the verdict rests on.
    remarks: &'a [String],
    crashes: usize,
    schedules: u32,
}

#[derive(Serialize)]
struct Statistics {
    events: u64,
    failure_points: u64,
    recoveries: u64,
    recoveries_saved: u64,
    behaviours: u64,
    eager_states: String,
    checksummed_states: String,
    seconds: f64,
    recording_seconds: f64,
}

#[derive(Serialize)]
struct FindingObject<'a> {
    rule: &'static str,
    level: &'static str,
    message: String,
    file: &'a str,
    line: u32,
    column: u32,
    function: &'a str,
    /// Stores that must be lost for it, and whether fewer might do.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    least: Option<Least>,
    related: Vec<RelatedObject<'a>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    output: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    replay: &'a str,
    count: u64,
}

#[derive(Serialize)]
struct RelatedObject<'a> {
    role: Role,
    file: &'a str,
    line: u32,
    column: u32,
    message: &'a str,
}

/// The report as one JSON object.
pub fn object(report: &Report) -> String {
    let statistics = &report.statistics;
    let seconds = statistics.recording + statistics.exploring;
    let verdict = match (report.findings.is_empty(), report.unknown.is_empty()) {
        (false, _) => "findings",
        (true, true) => "clean",
        (true, false) => "unknown",
    };
    let object = Object {
        tool: "crashproof",
        version: env!("CARGO_PKG_VERSION"),
        command: "check",
        verdict,
        bounds: Bounds {
            incomplete: &report.unknown,
            remarks: &report.remarks,
            crashes: report.crashes,
            schedules: statistics.schedules,
        },
        stats: Statistics {
            events: statistics.events,
            failure_points: statistics.failure_points,
            recoveries: statistics.recoveries,
            recoveries_saved: statistics.recoveries_saved,
            behaviours: statistics.behaviours,
            eager_states: statistics.eager_states.to_string(),
            checksummed_states: statistics.checksummed.to_string(),
            seconds: seconds.as_secs_f64(),
            recording_seconds: statistics.recording.as_secs_f64(),
        },
        findings: report.findings.iter().map(finding).chain(report.waste.iter().map(waste)).collect(),
    };
    serde_json::to_string(&object).expect("plain data always serialises")
}

fn finding(finding: &Finding) -> FindingObject<'_> {
    FindingObject {
        rule: finding_rule(finding),
        level: "error",
        message: finding_message(finding),
        file: &finding.place.file,
        line: finding.place.line,
        column: finding.place.column,
        function: &finding.place.function,
        lost: Some(finding.lost),
        least: Some(finding.least),
        related: finding
            .related
            .iter()
            .map(|related| RelatedObject {
                role: related.role,
                file: &related.place.file,
                line: related.place.line,
                column: related.place.column,
                message: &related.message,
            })
            .collect(),
        output: &finding.output,
        replay: &finding.replay,
        count: finding.count,
    }
}

fn waste(waste: &Waste) -> FindingObject<'_> {
    FindingObject {
        rule: waste_rule(waste.kind),
        level: "warning",
        message: waste_message(waste),
        file: &waste.place.file,
        line: waste.place.line,
        column: waste.place.column,
        function: &waste.place.function,
        lost: None,
        least: None,
        related: Vec::new(),
        output: "",
        replay: "",
        count: waste.wasted,
    }
}

pub(crate) fn finding_rule(finding: &Finding) -> &'static str {
    match finding.lost {
        _ if finding.crashes == 0 => "fails-under-schedule",
        0 => "recovery-fails-nothing-lost",
        _ => "recovery-fails",
    }
}

pub(crate) fn finding_message(finding: &Finding) -> String {
    let how = finding.failure.describe();
    match finding.lost {
        _ if finding.crashes == 0 => {
            format!("the program {how} without any crash if its threads run in another order")
        }
        0 => format!("recovery {how} after a crash here, although nothing stored so far is lost"),
        1 => format!("recovery {how} if this store is lost"),
        more => format!("recovery {how} if this store and {} more are lost", more - 1),
    }
}

pub(crate) fn waste_rule(kind: WasteKind) -> &'static str {
    match kind {
        WasteKind::CleanFlush => "flush-clean-line",
        WasteKind::RepeatedFlush => "flush-repeated",
        WasteKind::EmptyFence => "fence-nothing-pending",
    }
}

pub(crate) fn waste_message(waste: &Waste) -> String {
    let what = match waste.kind {
        WasteKind::CleanFlush => "flushes a line that was not stored to since it was last written back",
        WasteKind::RepeatedFlush => "flushes a line again before anything new was stored to it",
        WasteKind::EmptyFence => "fences with nothing to wait for",
    };
    format!("{what}, {} of {} times", waste.wasted, waste.total)
}
