//! Check reports for people.

use std::fmt::Write as _;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use crashproof_check::{Finding, Least, Report, Role, Source, Waste, readable};

use crate::check_json::{finding_message, finding_rule, waste_message, waste_rule};
use crate::style::{BAD, FAINT, GOOD, UNSURE, paint};

/// The whole report.
pub fn report(report: &Report) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        self::finding(&mut text, finding);
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
    let title = finding_message(finding);
    let place = &finding.place;
    let source = source_text(place);
    let span_of_place = source.as_deref().and_then(|source| span(source, place));
    let (Some(source), Some(primary)) = (source.as_deref(), span_of_place) else {
        let _ = writeln!(text, "{}[{}]: {title}", paint(BAD, "error"), finding_rule(finding));
        let _ = writeln!(text, "  --> {}:{}:{} in {}", place.file, place.line, place.column, place.function);
        story(text, finding);
        return;
    };
    let label = match finding.lost {
        _ if finding.crashes == 0 => "the last access to persistent memory",
        0 => "crash here",
        _ => "lost",
    };
    let mut snippet = Snippet::source(source)
        .path(&place.file)
        .annotation(AnnotationKind::Primary.span(primary.clone()).label(label));
    let mut marked = vec![primary];
    for related in &finding.related {
        let label = match related.role {
            Role::Lost => "lost too",
            Role::Survived => "survives",
            Role::Crash => "the power fails before this",
            Role::Read => "recovery reads it here",
            Role::Candidate => "recovery may read this",
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
        Group::with_title(Level::ERROR.primary_title(&title).id(finding_rule(finding))).element(snippet);
    let _ = writeln!(text, "{}", Renderer::styled().render(&[group]));
    story(text, finding);
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
        let role = match related.role {
            Role::Lost => paint(BAD, "lost    "),
            Role::Survived => paint(GOOD, "survived"),
            Role::Crash => paint(BAD, "crash   "),
            Role::Read => "read    ".into(),
            Role::Candidate => "may read".into(),
        };
        let _ = writeln!(text, "   {role} {place}  {}", paint(FAINT, &related.message));
    }
    for line in finding.output.lines().rev().take(5).collect::<Vec<_>>().into_iter().rev() {
        let _ = writeln!(text, "   {}   {line}", paint(FAINT, "said  "));
    }
    let least = match finding.least {
        Least::Proven => "",
        Least::Local => "not everything was explored: elsewhere fewer stores lost may do",
        Least::Unfinished => "fewer stores lost may do: looking for them ended early",
    };
    if !least.is_empty() {
        let _ = writeln!(text, "   {} {least}", paint(FAINT, "least   "));
    }
    let times = if finding.count == 1 { String::new() } else { format!(" (met {} times)", finding.count) };
    let _ = writeln!(text, "   {} crashproof replay {}{times}\n", paint(FAINT, "again   "), finding.replay);
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
    let verdict = match (report.findings.len(), report.unknown.is_empty()) {
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
    for remark in &report.remarks {
        let _ = writeln!(text, "  {remark}");
    }
    let mut line = format!(
        "{} recoveries run, {} saved, {} behaviours; an eager checker: {}",
        figures.recoveries,
        figures.recoveries_saved,
        figures.behaviours,
        readable(&figures.eager_states),
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
