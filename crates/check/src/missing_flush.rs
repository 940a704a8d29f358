//! Missing flushes (robustness violations) in the form that all engines share.

use crashproof_findings::rules::check as rules;
use crashproof_findings::{Finding, Fix, Level};
use serde_json::{Map, Value, json};

use crate::common::{place, related};
use crate::violation::{Flushed, Violation, Window};

/// A violation as a finding of its own: an error, unless no value that recovery read depends on it.
pub(crate) fn finding(violation: &Violation) -> Finding {
    let mut finding = Finding::new(&rules::MISSING_FLUSH, place(&violation.place), violation.message());
    if violation.same_value {
        finding.level = Level::Note;
    }
    finding.label = "lost".into();
    finding.related = violation.related.iter().map(related).collect();
    finding.evidence.extend(violation.layout.iter().map(|layout| format!("or: {layout}")));
    finding.fix = fix(violation);
    finding.count = violation.count;
    finding
}

/// What is to be done; none if no thread could.
pub(crate) fn fix(violation: &Violation) -> Option<Fix> {
    let (first, others) = violation.windows.split_first()?;
    let mut details = in_window(violation, first);
    if let Some(layout) = &violation.layout {
        details.insert("same_line".into(), json!(layout));
    }
    if !others.is_empty() {
        let others: Vec<Value> =
            others.iter().map(|window| Value::Object(in_window(violation, window))).collect();
        details.insert("alternatives".into(), Value::Array(others));
    }
    Some(Fix { message: violation.advice(first), edits: Vec::new(), details })
}

/// The lines between which the flush and the fence may stand, and after which statement they should.
fn in_window(violation: &Violation, window: &Window) -> Map<String, Value> {
    let (kind, after) = match &violation.flushed {
        Flushed::Unfenced(flush) if window.primary => ("insert-fence", flush),
        _ => ("insert-flush-fence", &window.after),
    };
    let Value::Object(details) = json!({
        "kind": kind,
        "file": after.file,
        "line": after.line,
        "column": after.column,
        "thread": window.thread,
        "primary": window.primary,
        "window": {"from": window.after.line, "to": window.before.line, "to_file": window.before.file},
    }) else {
        unreachable!("it is an object")
    };
    details
}
