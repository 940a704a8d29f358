//! Check reports for people.

use std::fmt::Write as _;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use crashproof_check::{Finding, Related, Report, Role, Source, Violation, Waste};

use crate::check_json::{finding_message, finding_rule, waste_message, waste_rule};
use crate::missing_flush;
use crate::style::{BAD, FAINT, GOOD, UNSURE, paint};

/// The whole report.
pub fn report(report: &Report) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        self::finding(&mut text, finding);
    }
    for violation in &report.violations {
        self::violation(&mut text, violation);
    }
    for waste in &report.waste {
        self::waste(&mut text, waste);
    }
    verdict(&mut text, report);
    text
}

/// What the source says at a line, if it can be read.
fn source_text(place: &Source) -> Option<String> {
    std::fs::read(&place.file).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The bytes of a place's line in its source: from its column, or the first visible character, to the end.
fn span(source: &str, place: &Source) -> Option<std::ops::Range<usize>> {
    let mut start = 0;
    for (index, line) in source.split_inclusive('\n').enumerate() {
        if index + 1 == place.line as usize {
            let visible = line.trim_end();
            let indent = visible.len() - visible.trim_start().len();
            let column = (place.column as usize).saturating_sub(1).max(indent);
            let column =
                if visible.is_char_boundary(column) && column < visible.len() { column } else { indent };
            return Some(start + column..start + visible.len());
        }
        start += line.len();
    }
    None
}

fn finding(text: &mut String, finding: &Finding) {
    let label = match finding.lost {
        _ if finding.crashes == 0 => "the last access to persistent memory",
        0 => "crash here",
        _ => "lost",
    };
    let title = finding_message(finding);
    let head = Head { level: Level::ERROR, word: "error", rule: finding_rule(finding), title: &title, label };
    shown(text, &head, &finding.place, &finding.related);
    story(text, &finding.related);
    for line in finding.output.lines().rev().take(5).collect::<Vec<_>>().into_iter().rev() {
        let _ = writeln!(text, "   {}   {line}", paint(FAINT, "said  "));
    }
    if let Some(cause) = &finding.cause {
        let _ = writeln!(text, "   {} {}", paint(BAD, "cause   "), missing_flush::message(cause));
        remedies(text, cause);
    }
    let times = if finding.count == 1 { String::new() } else { format!(" (met {} times)", finding.count) };
    let _ = writeln!(text, "   {} crashproof replay {}{times}\n", paint(FAINT, "again   "), finding.replay);
}

fn violation(text: &mut String, violation: &Violation) {
    let title = missing_flush::message(violation);
    let (level, word) = match violation.same_value {
        false => (Level::ERROR, "error"),
        true => (Level::NOTE, "note"),
    };
    let head = Head { level, word, rule: missing_flush::RULE, title: &title, label: "lost" };
    shown(text, &head, &violation.place, &violation.related);
    story(text, &violation.related);
    remedies(text, violation);
    let _ = writeln!(text);
}

fn remedies(text: &mut String, violation: &Violation) {
    for (word, what) in missing_flush::remedies(violation) {
        let _ = writeln!(text, "   {} {what}", paint(GOOD, word));
    }
}

/// What stands above a finding's source.
struct Head<'a> {
    level: Level<'static>,
    word: &'static str,
    rule: &'static str,
    title: &'a str,
    /// What the finding's own place is.
    label: &'static str,
}

/// Title and source, with all places of the same file marked.
fn shown(text: &mut String, head: &Head, place: &Source, related: &[Related]) {
    let source = source_text(place);
    let span_of_place = source.as_deref().and_then(|source| span(source, place));
    let (Some(source), Some(primary)) = (source.as_deref(), span_of_place) else {
        let word = paint(if head.word == "error" { BAD } else { FAINT }, head.word);
        let _ = writeln!(text, "{word}[{}]: {}", head.rule, head.title);
        let _ = writeln!(text, "  --> {}:{}:{} in {}", place.file, place.line, place.column, place.function);
        return;
    };
    let mut snippet = Snippet::source(source)
        .path(&place.file)
        .annotation(AnnotationKind::Primary.span(primary.clone()).label(head.label));
    let mut marked = vec![primary];
    for related in related {
        let label = match related.role {
            Role::Lost => "lost too",
            Role::Survived => "survives",
            Role::Crash => "the power fails before this",
            Role::Read => "recovery reads it here",
            Role::Fix => "flush and fence after this",
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
    let group =
        Group::with_title(head.level.clone().primary_title(head.title).id(head.rule)).element(snippet);
    let _ = writeln!(text, "{}", Renderer::styled().render(&[group]));
}

/// What happened, in order.
fn story(text: &mut String, related: &[Related]) {
    for related in related.iter().filter(|related| related.role != Role::Fix) {
        let place = format!("{}:{}", related.place.file, related.place.line);
        let role = match related.role {
            Role::Lost => paint(BAD, "lost    "),
            Role::Survived => paint(GOOD, "survived"),
            Role::Crash => paint(BAD, "crash   "),
            Role::Read => "read    ".into(),
            Role::Fix => paint(GOOD, "fix     "),
        };
        let _ = writeln!(text, "   {role} {place}  {}", paint(FAINT, &related.message));
    }
}

fn waste(text: &mut String, waste: &Waste) {
    let place = &waste.place;
    let _ = writeln!(
        text,
        "{}[{}]: {}:{}:{} {}\n",
        paint(UNSURE, "warning"),
        waste_rule(waste.kind),
        place.file,
        place.line,
        place.column,
        waste_message(waste)
    );
}

fn verdict(text: &mut String, report: &Report) {
    let figures = &report.statistics;
    let verdict = match (report.errors(), report.unknown.is_empty()) {
        (0, true) => paint(GOOD, "clean"),
        (0, false) => paint(UNSURE, "unknown"),
        (1, _) => paint(BAD, "1 error"),
        (many, _) => paint(BAD, format!("{many} errors")),
    };
    let row = match report.crashes {
        1 => "one crash a run".to_owned(),
        more => format!("up to {more} crashes in a row"),
    };
    let _ = writeln!(
        text,
        "{verdict}: {} of {} PM events, crashed at {}, {row}",
        match figures.schedules {
            0 | 1 => "one run".into(),
            many => format!("{many} schedules"),
        },
        figures.events,
        counted(figures.failure_points, "place")
    );
    for reason in &report.unknown {
        let _ = writeln!(text, "  {} not covered: {reason}", paint(UNSURE, "!"));
    }
    for suppression in &report.unused_suppressions {
        let _ = writeln!(text, "  {} suppresses nothing: {suppression}", paint(UNSURE, "!"));
    }
    let mut line = format!(
        "{} recoveries run, {} saved, {} behaviours; an eager checker: {}",
        figures.recoveries,
        figures.recoveries_saved,
        figures.behaviours,
        readable(&figures.eager_states.to_string()),
    );
    let seconds = (figures.recording + figures.exploring).as_secs_f64();
    // Nobody wonders about less than a second.
    if seconds >= 1.0 {
        let _ = write!(line, "; {seconds:.1} s");
    }
    let _ = writeln!(text, "  {}", paint(FAINT, line));
}

fn counted(number: u64, what: &str) -> String {
    if number == 1 { format!("one {what}") } else { format!("{number} {what}s") }
}

/// A number that may be too long to read: exactly in JSON, its size here.
fn readable(digits: &str) -> String {
    match digits.len() {
        0..=15 => digits.to_owned(),
        length => format!("{}.{}e{}", &digits[..1], &digits[1..3], length - 1),
    }
}
