//! Findings for people.

use std::fmt::Write as _;

use annotate_snippets::{AnnotationKind, Group, Level as Title, Renderer, Snippet};
use crashproof_findings::{Finding, Level, Place, Report, Role, Source, Sources, Verdict};

use crate::style::{BAD, FAINT, GOOD, UNSURE, paint};

/// The whole report.
pub fn report(report: &Report, sources: &Sources) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        self::finding(&mut text, finding, sources);
    }
    verdict(&mut text, report);
    text
}

/// The bytes of a place's line in its source: from its column, or the first visible character, to the end.
fn span(source: &Source, place: &Place) -> Option<std::ops::Range<usize>> {
    let range = source.line_range(place.line)?;
    let visible = source.text[range.clone()].trim_end();
    let indent = visible.len() - visible.trim_start().len();
    let column = (place.column as usize).saturating_sub(1).max(indent);
    let column = if visible.is_char_boundary(column) && column < visible.len() { column } else { indent };
    Some(range.start + column..range.start + visible.len())
}

fn finding(text: &mut String, finding: &Finding, sources: &Sources) {
    let place = &finding.place;
    let source = sources.get(&place.file);
    let span_of_place = source.as_deref().and_then(|source| span(source, place));
    let (Some(source), Some(primary)) = (source.as_deref(), span_of_place) else {
        let word = paint(colour(finding.level), finding.level.word());
        let _ = writeln!(text, "{word}[{}]: {}", finding.rule.id, finding.message);
        let _ = writeln!(text, "  --> {place} in {}", place.function);
        story(text, finding);
        return;
    };
    let mut snippet = Snippet::source(source.text.as_str())
        .path(&place.file)
        .annotation(AnnotationKind::Primary.span(primary.clone()).label(&finding.label));
    let mut marked = vec![primary];
    for related in &finding.related {
        let label = match related.role {
            Role::Lost => "lost too",
            Role::Survived => "survives",
            Role::Crash => "the power fails before this",
            Role::Read => "recovery reads it here",
            Role::Candidate => "recovery may read this",
            Role::Fix => "to be changed",
            Role::Note => &related.message,
        };
        if related.place.file != place.file {
            continue;
        }
        if let Some(span) = span(source, &related.place)
            && !marked.contains(&span)
        {
            snippet = snippet.annotation(AnnotationKind::Context.span(span.clone()).label(label));
            marked.push(span);
        }
    }
    let level = match finding.level {
        Level::Error => Title::ERROR,
        Level::Warning => Title::WARNING,
        Level::Note => Title::NOTE,
    };
    let group = Group::with_title(level.primary_title(&finding.message).id(finding.rule.id)).element(snippet);
    let _ = writeln!(text, "{}", Renderer::styled().render(&[group]));
    story(text, finding);
}

fn colour(level: Level) -> anstyle::Style {
    match level {
        Level::Error => BAD,
        Level::Warning => UNSURE,
        Level::Note => FAINT,
    }
}

/// Stores that a load might have read from, shown for each.
const MOST_CANDIDATES: usize = 8;

/// What happened, in order.
fn story(text: &mut String, finding: &Finding) {
    let mut candidates = 0;
    for related in &finding.related {
        candidates = if related.role == Role::Candidate { candidates + 1 } else { 0 };
        if candidates > MOST_CANDIDATES {
            if candidates == MOST_CANDIDATES + 1 {
                let _ = writeln!(text, "   may read {}", paint(FAINT, "more stores, all of them in JSON"));
            }
            continue;
        }
        let place = format!("{}:{}", related.place.file, related.place.line);
        let word = format!("{:8}", related.role.word());
        let role = match related.role {
            Role::Lost | Role::Crash => paint(BAD, word),
            Role::Survived => paint(GOOD, word),
            Role::Read | Role::Fix | Role::Note => word,
            Role::Candidate => "may read".into(),
        };
        let _ = writeln!(text, "   {role} {place}  {}", paint(FAINT, &related.message));
    }
    for line in finding.output.lines().rev().take(5).collect::<Vec<_>>().into_iter().rev() {
        let _ = writeln!(text, "   {}   {line}", paint(FAINT, "said  "));
    }
    for line in &finding.evidence {
        let _ = writeln!(text, "   {} {line}", paint(FAINT, "note    "));
    }
    if !finding.replay.is_empty() {
        let times =
            if finding.count == 1 { String::new() } else { format!(" (met {} times)", finding.count) };
        let _ = writeln!(text, "   {} crashproof replay {}{times}", paint(FAINT, "again   "), finding.replay);
    }
    let _ = writeln!(text);
}

fn verdict(text: &mut String, report: &Report) {
    let verdict = match (report.verdict(), report.count(Level::Error)) {
        (Verdict::Clean, _) => paint(GOOD, "clean"),
        (Verdict::Unknown, _) => paint(UNSURE, "unknown"),
        (Verdict::Findings, 1) => paint(BAD, "1 error"),
        (Verdict::Findings, many) => paint(BAD, format!("{many} errors")),
    };
    let _ = writeln!(text, "{verdict}: {}", report.summary);
    for reason in &report.incomplete {
        let _ = writeln!(text, "  {} not covered: {reason}", paint(UNSURE, "!"));
    }
    for note in &report.notes {
        let _ = writeln!(text, "  {} {note}", paint(UNSURE, "!"));
    }
    let _ = writeln!(text, "  {}", paint(FAINT, &report.figures));
}
