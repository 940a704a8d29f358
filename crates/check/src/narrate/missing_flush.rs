//! The text of missing flushes (robustness violations), and the findings for them.

use crashproof_findings::rules::check as rules;
use crashproof_findings::{Finding, Fix, Inserted, Insertion, Level, Window as Lines};

use crate::judge::{Flushed, Violation, Window};
use crate::narrate::words::{main_place, short};

/// A violation as a separate finding: an error, unless it has no consequences.
pub(crate) fn finding(violation: &Violation) -> Finding {
    let words = &violation.words;
    let mut finding =
        Finding::new(&rules::MISSING_FLUSH, main_place(words, &violation.place), words.title.clone());
    if violation.is_harmless() {
        finding.level = Level::Note;
    }
    finding.label = "lost".into();
    finding.related.clone_from(&words.related);
    finding.cause.clone_from(&words.cause);
    finding.evidence.extend(violation.layout.iter().map(|layout| format!("or: {layout}")));
    // If recovery copes, no change is needed.
    if violation.same_value || !violation.is_harmless() {
        finding.fix = fix(violation, &words.advice);
    }
    finding.count = violation.count;
    finding.story.clone_from(&violation.story);
    finding
}

/// What to change; `None` if no thread could fix it.
pub(crate) fn fix(violation: &Violation, advice: &[String]) -> Option<Fix> {
    let Some((first, others)) = violation.windows.split_first() else {
        return advice.first().map(Fix::advice);
    };
    let insertion = Insertion {
        same_line: violation.layout.clone(),
        alternatives: others.iter().map(|window| in_window(violation, window)).collect(),
        ..in_window(violation, first)
    };
    let message = advice.first().cloned().unwrap_or_else(|| violation.advice_for(first, "the stored line"));
    Some(Fix { message, edits: Vec::new(), insertion: Some(insertion) })
}

/// The lines between which the flush and the fence may be inserted, and the statement they should follow.
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

impl Violation {
    /// The problem as a sentence.
    pub fn message(&self) -> String {
        self.words.title.clone()
    }

    /// What to do in a window, as a sentence; `object` is what was lost.
    pub(crate) fn advice_for(&self, window: &Window, object: &str) -> String {
        let object = if object.starts_with('`') { object } else { "the stored line" };
        let until = format!("before {}", short(&window.before));
        match &self.flushed {
            Flushed::Unfenced(flush) if window.primary => format!("fence after {}, {until}", short(flush)),
            _ if window.primary => {
                format!("flush {object} and fence after {}, {until}", short(&window.after))
            }
            _ if window.after == window.before => {
                format!("flush {object} and fence {until}, in thread {}", window.thread)
            }
            _ => format!(
                "in thread {}, flush {object} and fence after {}, where it is read, {until}",
                window.thread,
                short(&window.after)
            ),
        }
    }
}
