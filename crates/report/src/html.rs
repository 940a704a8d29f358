//! Findings as an HTML page: one file that needs no network.
//!
//! The page is a template with the report as JSON in it; its script draws everything from that, and sets text only as
//! text, so that nothing in a source or a program's output is taken for markup. The page stays below 5 MB whatever
//! the report: every finding gets a line, as many as fit get their details, in order, and the page says what it
//! left out.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use crashproof_findings::{Finding, Level, Report, Sources, Why, plain_function};
use serde::Serialize;
use serde_json::{Value, json};

use crate::printable::escape;

/// Bytes for lines of the list.
const LIST_BYTES: usize = 2_200_000;
/// Bytes for details and source lines.
const DETAIL_BYTES: usize = 2_200_000;
/// Longest text of any kind.
const MOST_TEXT: usize = 2000;
/// Longest list of remarks.
const MOST_REMARKS: usize = 200;
/// Source lines shown before and after a place.
const CONTEXT: u32 = 2;

const TEMPLATE: &str = include_str!("html/page.html");
const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/script.js");

/// Writes the page.
pub fn write(out: &mut dyn Write, report: &Report, sources: &Sources) -> io::Result<()> {
    let data = serde_json::to_string(&page(report, sources))?;
    let title = format!("{} {}", report.command, escape(&report.subject));
    // The template is split once rather than searched repeatedly: inserted text may look like a marker.
    let mut rest = TEMPLATE;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        out.write_all(before.as_bytes())?;
        match name {
            "version" => out.write_all(env!("CARGO_PKG_VERSION").as_bytes())?,
            "title" => out.write_all(as_html(&title).as_bytes())?,
            "style" => out.write_all(STYLE.as_bytes())?,
            "script" => out.write_all(SCRIPT.as_bytes())?,
            // No text can end the element it stands in.
            _ => out.write_all(data.replace('<', "\\u003c").as_bytes())?,
        }
        rest = after;
    }
    out.write_all(rest.as_bytes())
}

fn as_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Text as it is shown: printable, and not endless.
fn shown(text: &str) -> String {
    let safe = escape(text);
    match safe.char_indices().nth(MOST_TEXT) {
        Some((at, _)) => format!("{}…", &safe[..at]),
        None => safe,
    }
}

#[derive(Serialize)]
struct Row<'a> {
    rule: &'static str,
    level: Level,
    message: String,
    file: String,
    line: u32,
    function: String,
    count: u64,
    fingerprint: &'a str,
    detail: Option<Value>,
}

fn row(finding: &Finding) -> Row<'_> {
    Row {
        rule: finding.rule.id,
        level: finding.level,
        message: shown(&finding.message),
        file: shown(&finding.place.file),
        line: finding.place.line,
        function: shown(&plain_function(&finding.place.function)),
        count: finding.count,
        fingerprint: &finding.fingerprint,
        detail: None,
    }
}

/// Text lines by file, of those that are shown.
type Lines = BTreeMap<String, BTreeMap<u32, String>>;

fn page(report: &Report, sources: &Sources) -> Value {
    let mut left_out = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    let mut bytes = 0;
    for finding in &report.findings {
        let row = row(finding);
        bytes += row.message.len() + row.file.len() + row.function.len() + 160;
        if bytes > LIST_BYTES {
            break;
        }
        rows.push(row);
    }
    if rows.len() < report.findings.len() {
        left_out.push(format!(
            "{} of {} findings, to keep the page small; --format json has all of them",
            report.findings.len() - rows.len(),
            report.findings.len()
        ));
    }
    let mut lines = Lines::new();
    let mut bytes = 0;
    let mut without = 0;
    for (row, finding) in rows.iter_mut().zip(&report.findings) {
        let detail = detail(finding);
        let new = around(finding, sources, &lines);
        let size = detail.to_string().len() + new.iter().map(|it| it.2.len() + 12).sum::<usize>();
        if bytes + size > DETAIL_BYTES {
            without += 1;
            continue;
        }
        bytes += size;
        for (file, line, text) in new {
            lines.entry(file).or_default().insert(line, text);
        }
        row.detail = Some(detail);
    }
    if without > 0 {
        left_out.push(format!(
            "the details of {without} findings, to keep the page small; --format json has them"
        ));
    }
    let used: BTreeSet<&str> = report.findings.iter().map(|finding| finding.rule.id).collect();
    let rules: BTreeMap<&str, Value> = crashproof_findings::rules::all()
        .filter(|rule| used.contains(rule.id))
        .map(|rule| (rule.id, json!({ "title": rule.title, "explanation": rule.explanation })))
        .collect();
    json!({
        "command": report.command,
        "subject": shown(&report.subject),
        "verdict": report.verdict().word(),
        "summary": shown(&report.summary),
        "stats": report.stats,
        "bounds": report.bounds.iter().filter(|(_, value)| !value.is_array()).collect::<BTreeMap<_, _>>(),
        "incomplete": remarks(report.incomplete.iter().cloned()),
        "notes": remarks(report.notes.iter().cloned()),
        "left_out": left_out,
        "set_aside": remarks(report.set_aside.iter().map(|aside| {
            let why = match &aside.why {
                Why::Suppressed(reason) => format!("suppressed: {reason}"),
                Why::Known => "known".into(),
            };
            format!("{}: {} ({why})", aside.finding.place, aside.finding.message)
        })),
        "rules": rules,
        "sources": lines,
        "findings": rows,
    })
}

fn remarks(all: impl ExactSizeIterator<Item = String>) -> Vec<String> {
    let more = all.len().saturating_sub(MOST_REMARKS);
    let mut list: Vec<String> = all.take(MOST_REMARKS).map(|text| shown(&text)).collect();
    if more > 0 {
        list.push(format!("and {more} more"));
    }
    list
}

fn detail(finding: &Finding) -> Value {
    let steps: Vec<Value> = finding
        .related
        .iter()
        .take(MOST_REMARKS)
        .map(|it| {
            json!({
                "role": it.role, "file": shown(&it.place.file), "line": it.place.line,
                "function": shown(&plain_function(&it.place.function)), "message": shown(&it.message), "detail": shown(&it.detail),
                "main": it.main,
            })
        })
        .collect();
    let frames: Vec<String> = finding
        .place
        .frames
        .iter()
        .map(|frame| {
            let how = if frame.inlined { "inlined into" } else { "called by" };
            shown(&format!("{how} {} at {}:{}", plain_function(&frame.function), frame.file, frame.line))
        })
        .collect();
    let failed = finding.failed_at.as_ref().map(|at| {
        let calls: Vec<String> = at
            .frames
            .iter()
            .map(|it| format!("  called from {} ({}:{})", plain_function(&it.function), it.file, it.line))
            .collect();
        shown(&format!(
            "failed in {} ({}:{})\n{}",
            plain_function(&at.function),
            at.file,
            at.line,
            calls.join("\n")
        ))
    });
    json!({
        "cause": finding.cause,
        "failed": failed,
        "replay_id": finding.extra.get("replay_id"),
        "steps": steps,
        "evidence": remarks(finding.evidence.iter().cloned()),
        "trace": remarks(finding.trace.iter().cloned()),
        "output": shown(&finding.output),
        "fix": finding.fix,
        "frames": frames,
        "replay": finding.replay,
        "also": finding.also,
        "story": finding.story,
        "graph": finding.graph,
    })
}

/// The source lines around all places of a finding that are not known yet.
fn around(finding: &Finding, sources: &Sources, known: &Lines) -> Vec<(String, u32, String)> {
    let mut places: Vec<(&str, u32)> = vec![(&finding.place.file, finding.place.line)];
    places.extend(finding.related.iter().map(|it| (it.place.file.as_str(), it.place.line)));
    if let Some(story) = &finding.story {
        places.extend(story.places.iter().map(|it| (it.file.as_str(), it.line)));
    }
    if let Some(graph) = &finding.graph {
        places.extend(graph.events.iter().map(|it| (it.place.file.as_str(), it.place.line)));
    }
    let near = |line: u32| line.saturating_sub(CONTEXT).max(1)..=line.saturating_add(CONTEXT);
    let known_lines = places.into_iter().filter(|(_, line)| *line > 0);
    let wanted: BTreeSet<(&str, u32)> =
        known_lines.flat_map(|(file, line)| near(line).map(move |line| (file, line))).collect();
    let text = |(file, line): (&str, u32)| {
        let name = shown(file);
        if known.get(&name).is_some_and(|lines| lines.contains_key(&line)) {
            return None;
        }
        Some((name, line, shown(&sources.get(file)?.line(line)?.replace('\t', "    "))))
    };
    wanted.into_iter().filter_map(text).collect()
}
