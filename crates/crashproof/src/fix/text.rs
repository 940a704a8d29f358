//! Fixes as text: the change as a diff, and its effect.

use std::fmt::Write as _;
use std::path::Path;

use crashproof_findings::{Place, rules};
use crashproof_fix::Outcome;
use crashproof_report::style::{BAD, FAINT, GOOD, UNSURE, paint};

/// The result of a fix. `applied` says whether the sources were changed.
pub(crate) fn outcome(outcome: &Outcome, applied: bool) -> String {
    let mut text = String::new();
    for changed in &outcome.changed {
        for line in changed.diff().split_inclusive('\n') {
            let painted = match line.as_bytes().first() {
                Some(b'+') => paint(GOOD, line.trim_end_matches('\n')),
                Some(b'-') => paint(BAD, line.trim_end_matches('\n')),
                Some(b'@') => paint(FAINT, line.trim_end_matches('\n')),
                _ => line.trim_end_matches('\n').to_owned(),
            };
            let _ = writeln!(text, "{painted}");
        }
    }
    for remaining in &outcome.remaining {
        let place = &remaining.violation.place;
        let _ = writeln!(
            text,
            "{}[{}]: {}:{}:{} {}",
            paint(BAD, "error"),
            rules::check::MISSING_FLUSH.id,
            relative(&place.file),
            line_on_disk(outcome, place),
            place.column,
            remaining.message
        );
        let _ = writeln!(text, "   {} {}", paint(UNSURE, "no patch:"), remaining.reason);
    }
    for (place, statement) in &outcome.removed {
        let _ = writeln!(text, "removed {place}: {statement}");
    }
    let left = outcome.report.errors();
    let fixed = outcome.errors.saturating_sub(left);
    let done = match (outcome.written, applied) {
        (true, _) => "written; `crashproof fix --undo` restores",
        (false, true) => "not written, because the result is not clean; --keep-partial does",
        (false, false) => "not written; --apply does",
    };
    let change = if outcome.changed.is_empty() { String::new() } else { format!(" ({done})") };
    let found = match outcome.errors {
        0 if outcome.changed.is_empty() && !outcome.report.unknown.is_empty() => {
            "no flush is known to be missing, but not everything was checked".to_owned()
        }
        0 if outcome.changed.is_empty() => "nothing to fix: no flush is missing".to_owned(),
        errors => {
            format!("{fixed} of {errors} {} fixed{change}", if errors == 1 { "error" } else { "errors" })
        }
    };
    let times = if outcome.rounds == 0 { "once".to_owned() } else { format!("{} times", outcome.rounds + 1) };
    let _ = writeln!(
        text,
        "{}: {found}; checked {times}",
        match left {
            0 if outcome.report.unknown.is_empty() => paint(GOOD, "clean"),
            0 => paint(UNSURE, "unknown"),
            1 => paint(BAD, "1 error left"),
            more => paint(BAD, format!("{more} errors left")),
        },
    );
    for reason in &outcome.report.unknown {
        let _ = writeln!(text, "  {} not covered: {reason}", paint(UNSURE, "!"));
    }
    let others = outcome.report.findings.iter().filter(|finding| finding.cause.is_none());
    let mut places: Vec<String> = others
        .map(|it| format!("{}:{}", relative(&it.place.file), line_on_disk(outcome, &it.place)))
        .collect();
    places.dedup();
    if !places.is_empty() {
        let need = if places.len() == 1 { "needs" } else { "need" };
        let _ = writeln!(
            text,
            "  {} {need} a code change: {} (crashproof check explains)",
            places.len(),
            places.join(", ")
        );
    }
    text
}

/// The line of a place in the file on disk, which differs from the checked copy as long as nothing is written.
fn line_on_disk(outcome: &Outcome, place: &Place) -> u32 {
    let changed = outcome.changed.iter().filter(|_| !outcome.written);
    let file = relative(&place.file);
    let mut of_file = changed.filter(|changed| relative(&changed.file) == file);
    of_file.next().map_or(place.line, |changed| changed.line_before(place.line))
}

/// A path relative to the current directory, if it is below.
fn relative(file: &str) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let path = Path::new(file);
    path.strip_prefix(&here).unwrap_or(path).to_string_lossy().into_owned()
}
