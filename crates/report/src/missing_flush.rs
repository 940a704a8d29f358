//! Missing flushes (robustness violations), in words and as JSON.

use crashproof_check::{Flushed, Role, Saw, Violation, Window};
use serde::Serialize;

/// The rule's name.
pub(crate) const RULE: &str = "missing-flush";

/// An error, unless no value that recovery read depends on it.
pub(crate) fn level(violation: &Violation) -> &'static str {
    if violation.same_value { "note" } else { "error" }
}

pub(crate) fn message(violation: &Violation) -> String {
    let survivor = &violation.survived;
    let what = match violation.flushed {
        Flushed::Never => "missing flush: this store",
        Flushed::Late(_) => "flushed too late: this store",
        Flushed::Unfenced(_) => "flushed but not fenced: this store",
    };
    let harmless = if violation.same_value { ", which stores what was there before," } else { "" };
    let seen = match violation.saw {
        Saw::TooOld => "recovery then reads it too old",
        Saw::TooNew => "recovery then reads what is too new for it",
    };
    format!(
        "{what}{harmless} can be lost while a later one survives ({}:{}); {seen}",
        survivor.file, survivor.line
    )
}

#[derive(Serialize)]
pub(crate) struct FixObject<'a> {
    kind: &'static str,
    file: &'a str,
    /// After the statement in this line.
    line: u32,
    column: u32,
    thread: u16,
    /// Is it the thread of the lost store?
    primary: bool,
    /// The lines between which the flush and the fence may stand.
    window: Lines<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    same_line: Option<&'a str>,
    /// Other threads that could do it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    alternatives: Vec<FixObject<'a>>,
}

#[derive(Serialize)]
struct Lines<'a> {
    from: u32,
    to: u32,
    to_file: &'a str,
}

/// What is to be done; none if no thread could.
pub(crate) fn fix(violation: &Violation) -> Option<FixObject<'_>> {
    let (first, others) = violation.windows.split_first()?;
    let mut fix = in_window(violation, first);
    fix.same_line = violation.layout.as_deref();
    fix.alternatives = others.iter().map(|window| in_window(violation, window)).collect();
    Some(fix)
}

fn in_window<'a>(violation: &'a Violation, window: &'a Window) -> FixObject<'a> {
    let (kind, after) = match &violation.flushed {
        Flushed::Unfenced(flush) if window.primary => ("insert-fence", flush),
        _ => ("insert-flush-fence", &window.after),
    };
    FixObject {
        kind,
        file: &after.file,
        line: after.line,
        column: after.column,
        thread: window.thread,
        primary: window.primary,
        window: Lines { from: window.after.line, to: window.before.line, to_file: &window.before.file },
        same_line: None,
        alternatives: Vec::new(),
    }
}

/// What can be done about it, line by line: where, and what.
pub(crate) fn remedies(violation: &Violation) -> Vec<(&'static str, String)> {
    let fixes = violation.related.iter().filter(|related| related.role == Role::Fix);
    let mut lines: Vec<(&'static str, String)> = fixes
        .map(|fix| ("fix     ", format!("{}:{}  {}", fix.place.file, fix.place.line, fix.message)))
        .collect();
    lines.extend(violation.layout.iter().map(|layout| ("or      ", layout.clone())));
    lines
}
