//! Missing flushes (robustness violations) in the form that all engines share.

use crashproof_findings::rules::check as rules;
use crashproof_findings::{Finding, Fix, Inserted, Insertion, Level, Window as Lines};

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
    finding.story.clone_from(&violation.story);
    finding
}

/// What is to be done; none if no thread could.
pub(crate) fn fix(violation: &Violation) -> Option<Fix> {
    let (first, others) = violation.windows.split_first()?;
    let insertion = Insertion {
        same_line: violation.layout.clone(),
        alternatives: others.iter().map(|window| in_window(violation, window)).collect(),
        ..in_window(violation, first)
    };
    Some(Fix { message: violation.advice(first), edits: Vec::new(), insertion: Some(insertion) })
}

/// The lines between which the flush and the fence may stand, and after which statement they should.
fn in_window(violation: &Violation, window: &Window) -> Insertion {
    let (kind, after) = match &violation.flushed {
        Flushed::Unfenced(flush) if window.primary => (Inserted::InsertFence, flush),
        _ => (Inserted::InsertFlushFence, &window.after),
    };
    Insertion {
        kind,
        file: after.file.clone(),
        line: after.line,
        column: after.column,
        thread: window.thread,
        primary: window.primary,
        window: Lines {
            from: window.after.line,
            to: window.before.line,
            to_file: window.before.file.clone(),
        },
        same_line: None,
        alternatives: Vec::new(),
    }
}
