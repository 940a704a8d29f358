//! Missing flushes (robustness violations) in words, and as findings.

use crashproof_findings::rules::check as rules;
use crashproof_findings::{Finding, Fix, Inserted, Insertion, Level, Related, Role, Window as Lines};

use crate::crash::CrashState;
use crate::judge::{Flushed, Saw, TraceViolation, Violation, Window};
use crate::narrate::narrative::{crash_text, read_text, record_text};
use crate::subject::AllSites;

/// A violation with everything that is to be said about it.
pub(crate) fn describe(
    violation: &TraceViolation,
    sites: &AllSites,
    state: &CrashState,
    seed: u32,
) -> Violation {
    let mut described = violation.locate(sites, state, seed);
    let records = state.history(violation.level).records;
    let mut add = |role, level: usize, site, message| {
        described.related.push(Related { role, place: sites.of(level).get(site).clone(), message });
    };
    let stores = violation.lost.iter().map(|store| (Role::Lost, store));
    for (role, &store) in stores.chain([(Role::Survived, &violation.survived)]) {
        let record = &records[store as usize];
        add(role, violation.level, record.site, record_text(record));
    }
    for (level, timeline) in state.timelines().enumerate() {
        add(Role::Crash, level, timeline.next_site().0, crash_text(level, timeline));
    }
    for read in &violation.reads {
        add(Role::Read, 1, read.site, read_text(read));
    }
    for window in &described.windows {
        let (place, message) = (window.after.clone(), described.advice(window));
        described.related.push(Related { role: Role::Fix, place, message });
    }
    described
}

/// A violation as a finding of its own: an error, unless no value that recovery read depends on it.
pub(crate) fn finding(violation: &Violation) -> Finding {
    let mut finding = Finding::new(&rules::MISSING_FLUSH, violation.place.clone(), violation.message());
    if violation.same_value {
        finding.level = Level::Note;
    }
    finding.label = "lost".into();
    finding.related.clone_from(&violation.related);
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

impl Violation {
    /// What is wrong, as a sentence.
    pub fn message(&self) -> String {
        let survivor = &self.survived;
        let what = match self.flushed {
            Flushed::Never => "missing flush: this store",
            Flushed::Late(_) => "flushed too late: this store",
            Flushed::Unfenced(_) => "flushed but not fenced: this store",
        };
        let harmless = if self.same_value { ", which stores what was there before," } else { "" };
        let seen = match self.saw {
            Saw::TooOld => "recovery then reads it too old",
            Saw::TooNew => "recovery then reads what is too new for it",
        };
        format!(
            "{what}{harmless} can be lost while a later one survives ({}:{}); {seen}",
            survivor.file, survivor.line
        )
    }

    /// What to do in a window, as a sentence.
    pub fn advice(&self, window: &Window) -> String {
        let what = match &self.flushed {
            Flushed::Unfenced(flush) if window.primary => {
                format!("fence after the flush in line {}", flush.line)
            }
            _ if window.primary => "flush the stored line and fence after this".to_owned(),
            _ if window.after == window.before => {
                return format!(
                    "flush the line of {}:{} and fence before this, in thread {}",
                    self.last.file, self.last.line, window.thread
                );
            }
            _ => format!(
                "thread {} knows of the store in line {} here: flush its line and fence after this",
                window.thread, self.last.line
            ),
        };
        format!("{what}, before {}:{}", window.before.file, window.before.line)
    }
}
