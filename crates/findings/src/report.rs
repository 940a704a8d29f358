//! The result of a command.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use serde_json::{Map, Value};

use crate::finding::{Also, Finding, Role};
use crate::fingerprint;
use crate::place::Place;
use crate::rules::Level;
use crate::sources::{Sources, is_of_others};

/// The verdict of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing at level error, and everything within the bounds was looked at.
    Clean,
    /// At least one error.
    Findings,
    /// No error was found, and something was not looked at.
    Unknown,
}

impl Verdict {
    /// The word for it, as in the JSON.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Clean => "clean",
            Verdict::Findings => "findings",
            Verdict::Unknown => "unknown",
        }
    }
}

/// A finding that does not count.
#[derive(Clone, Debug)]
pub struct SetAside {
    /// The finding.
    pub finding: Finding,
    /// Why it does not count.
    pub why: Why,
}

/// Why a finding does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// It was accepted, for this reason.
    Suppressed(String),
    /// It was there before, according to the baseline.
    Known,
}

/// Why the verdict about a program without persistent memory is unknown: nothing was judged. Every engine puts this into
/// [`Report::incomplete`]. `what_counts` says what the engine takes for persistent memory, `mapped` which files the
/// program maps that are none, as far as the engine knows.
pub fn no_persistent_memory(what_counts: &str, mapped: &[String]) -> String {
    let about = match mapped {
        [] => "the program stores to none".to_owned(),
        files => format!("the program maps {}, outside the persistent-memory paths", files.join(", ")),
    };
    format!("no persistent memory found: {about}; what counts: {what_counts}")
}

/// The result of a command.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The command: `check`, `lint`, `prove`.
    pub command: &'static str,
    /// The subject: the program.
    pub subject: String,
    /// The findings.
    pub findings: Vec<Finding>,
    /// Findings that are suppressed or known.
    pub set_aside: Vec<SetAside>,
    /// Why the verdict does not cover everything; empty if it does, within the bounds.
    pub incomplete: Vec<String>,
    /// Further notes for the reader: unused suppressions, sources that changed.
    pub notes: Vec<String>,
    /// The bounds of the verdict.
    pub bounds: Map<String, Value>,
    /// Statistics.
    pub stats: Map<String, Value>,
    /// The evidence for the first line: what was treated as persistent memory, and why.
    pub premise: String,
    /// Bounds in words, for the line that begins with the verdict.
    pub summary: String,
    /// Statistics as text.
    pub figures: String,
}

impl Report {
    /// A report of a command without any findings.
    pub fn new(command: &'static str, subject: impl Into<String>) -> Report {
        Report { command, subject: subject.into(), ..Report::default() }
    }

    /// The overall verdict.
    pub fn verdict(&self) -> Verdict {
        if self.count(Level::Error) > 0 {
            Verdict::Findings
        } else if self.incomplete.is_empty() {
            Verdict::Clean
        } else {
            Verdict::Unknown
        }
    }

    /// Findings of a level.
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }

    /// Lets warnings count as errors.
    pub fn deny_warnings(&mut self) {
        for finding in self.findings.iter_mut().filter(|finding| finding.level == Level::Warning) {
            finding.level = Level::Error;
        }
    }

    /// Makes one finding of those that have one cause, gives each its fingerprint, and notes which sources are
    /// not what was built.
    pub fn finish(&mut self, sources: &Sources) {
        self.relative_paths(&std::env::current_dir().unwrap_or_default());
        self.merge_duplicates();
        self.distinguish();
        fingerprint::set(&mut self.findings, sources);
        let places = self.findings.iter().flat_map(|finding| {
            std::iter::once(&finding.place).chain(finding.related.iter().map(|related| &related.place))
        });
        let mut stale: Vec<&str> =
            places.map(|place| place.file.as_str()).filter(|file| sources.is_stale(file)).collect();
        stale.sort_unstable();
        stale.dedup();
        self.notes.extend(stale.into_iter().map(|file| {
            format!(
                "{file} changed after the program was built; the lines shown may differ from those that ran"
            )
        }));
    }

    /// Build systems compile with absolute paths; users and suppressions name files relative to the current directory.
    pub fn relative_paths(&mut self, here: &Path) {
        let below = |file: &mut String| {
            let path = Path::new(file.as_str());
            if let Some(rest) = path.strip_prefix(here).ok().filter(|rest| !rest.as_os_str().is_empty()) {
                *file = rest.to_string_lossy().into_owned();
            }
        };
        let place = |place: &mut Place| {
            below(&mut place.file);
            place.frames.iter_mut().for_each(|frame| below(&mut frame.file));
        };
        for finding in &mut self.findings {
            place(&mut finding.place);
            finding.related.iter_mut().for_each(|related| place(&mut related.place));
            finding.failed_at.iter_mut().for_each(place);
            if let Some(insertion) = finding.fix.as_mut().and_then(|fix| fix.insertion.as_mut()) {
                below(&mut insertion.file);
                below(&mut insertion.window.to_file);
            }
        }
    }

    /// The same rule broken at the same place, for the same reason and against the same store, has one cause,
    /// regardless of the consequence. The first one is reported, the others are listed in it.
    fn merge_duplicates(&mut self) {
        type Key = (&'static str, Place, &'static str, Option<(String, u32)>);
        let mut known: HashMap<Key, Vec<usize>> = HashMap::new();
        let mut merged: Vec<Finding> = Vec::new();
        for finding in std::mem::take(&mut self.findings) {
            let place = &finding.place;
            // The caller matters only if the place is not the program's own.
            let frames = if is_of_others(&place.file) { place.frames.clone() } else { Vec::new() };
            let here = Place { frames, function: String::new(), ..place.clone() };
            let reason = finding.cause.as_ref().map_or("", |cause| cause.kind);
            let against = finding.related.iter().find(|it| it.main && it.role == Role::Survived);
            let against =
                against.map(|it| (it.place.file.clone(), it.place.line)).filter(|_| !reason.is_empty());
            let key = (finding.rule.id, here, reason, against);
            // Without a place, nothing shows that two are the same.
            let same = known
                .get(&key)
                .filter(|_| place.is_known())
                .and_then(|all| all.iter().copied().find(|at| one_cause(&merged[*at], &finding)));
            let Some(at) = same else {
                known.entry(key).or_default().push(merged.len());
                merged.push(finding);
                continue;
            };
            let first = &mut merged[at];
            first.count += finding.count;
            if finding.message != first.message {
                let Finding { message, replay, count, .. } = finding;
                first.also.push(Also { message, replay, count });
            }
        }
        self.findings = merged;
    }

    /// Two different errors never have the same title.
    fn distinguish(&mut self) {
        let mut titles: HashMap<String, usize> = HashMap::new();
        let errors = |finding: &&Finding| finding.cause.is_some();
        for finding in self.findings.iter().filter(errors) {
            *titles.entry(finding.message.clone()).or_default() += 1;
        }
        for finding in self.findings.iter_mut().filter(|finding| finding.cause.is_some()) {
            if titles[&finding.message] > 1 {
                let file = finding.place.file.rsplit('/').next().unwrap_or_default();
                finding.message += &format!(" ({file}:{})", finding.place.line);
            }
        }
    }
}

/// Do two findings at one place have one cause? Not if each needs a store to be lost that the other does not: a store of
/// a helper that two functions call is lost first in both, and each forgets another flush.
fn one_cause(one: &Finding, other: &Finding) -> bool {
    let lost = |finding: &Finding| -> BTreeSet<(String, u32, u32)> {
        let lost = finding.related.iter().filter(|related| related.role == Role::Lost);
        lost.map(|related| (related.place.file.clone(), related.place.line, related.place.column)).collect()
    };
    let (one, other) = (lost(one), lost(other));
    one.is_subset(&other) || other.is_subset(&one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Place;
    use crate::rules::check::{FLUSH_CLEAN_LINE, RECOVERY_FAILS};

    #[test]
    fn one_cause_is_one_finding() {
        let mut report = Report::new("check", "program");
        for (line, message) in [(3, "aborts"), (4, "aborts"), (3, "aborts"), (3, "crashes")] {
            report.findings.push(Finding::new(&RECOVERY_FAILS, Place::new("a.c", line, 1), message));
        }
        report.findings.push(Finding::new(&FLUSH_CLEAN_LINE, Place::new("a.c", 3, 1), "aborts"));
        report.finish(&Sources::default());
        let shown: Vec<_> =
            report.findings.iter().map(|it| (it.place.line, it.count, it.also.len())).collect();
        assert_eq!(shown, [(3, 3, 1), (4, 1, 0), (3, 1, 0)]);
    }

    #[test]
    fn a_verdict_about_nothing_is_unknown() {
        let mut report = Report::new("check", "program");
        report.incomplete.push(no_persistent_memory("what libpmem maps", &["`pool`".into()]));
        assert_eq!(report.verdict(), Verdict::Unknown);
        let reason = "no persistent memory found: the program maps `pool`, outside the persistent-memory paths; \
                      what counts: what libpmem maps";
        assert_eq!(report.incomplete, [reason]);
    }

    #[test]
    fn the_verdict_is_the_worst_there_is() {
        let mut report = Report::new("check", "program");
        assert_eq!(report.verdict(), Verdict::Clean);
        report.incomplete.push("a limit".into());
        assert_eq!(report.verdict(), Verdict::Unknown);
        report.findings.push(Finding::new(&FLUSH_CLEAN_LINE, Place::default(), "wasted"));
        assert_eq!(report.verdict(), Verdict::Unknown);
        report.deny_warnings();
        assert_eq!(report.verdict(), Verdict::Findings);
    }
}
