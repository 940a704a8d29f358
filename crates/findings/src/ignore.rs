//! Comments in the source that excuse a finding: `// crashproof: ignore(missing-flush): statistics, rebuilt at start`.
//!
//! The comment stands on the line of the finding or alone on the line above it. It needs a reason; without one it has no
//! effect, and the report says so.

use crate::report::{Report, SetAside, Why};
use crate::sources::Sources;

const MARK: &str = "crashproof: ignore(";

/// Sets aside the findings that a comment excuses.
pub fn apply(report: &mut Report, sources: &Sources) {
    for finding in std::mem::take(&mut report.findings) {
        let place = &finding.place;
        let source = sources.get(&place.file);
        let line = |number: u32| source.as_ref().and_then(|source| source.line(number));
        let own = line(place.line).and_then(|text| comment(text, finding.rule.id));
        let above = || {
            let text = line(place.line.checked_sub(1)?)?;
            let alone = ["//", "/*", "*", "#"].iter().any(|start| text.trim_start().starts_with(start));
            alone.then(|| comment(text, finding.rule.id)).flatten()
        };
        match own.or_else(above) {
            Some(reason) if !reason.is_empty() => {
                let why = Why::Suppressed(reason.to_owned());
                report.set_aside.push(SetAside { finding, why });
            }
            Some(_) => {
                let note =
                    format!("{}:{}: ignore comment without a reason has no effect", place.file, place.line);
                report.notes.push(note);
                report.findings.push(finding);
            }
            None => report.findings.push(finding),
        }
    }
}

/// The reason that a comment gives for ignoring a rule, if it is about that rule.
fn comment<'t>(line: &'t str, rule: &str) -> Option<&'t str> {
    let rest = &line[line.find(MARK)? + MARK.len()..];
    let (rules, rest) = rest.split_once(')')?;
    let about = rules.split(',').any(|it| it.trim() == rule);
    let reason = rest.trim_start().strip_prefix(':').unwrap_or_default();
    about.then(|| reason.trim().trim_end_matches("*/").trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Finding;
    use crate::place::Place;
    use crate::rules::check::MISSING_FLUSH;

    #[test]
    fn comments_excuse_what_they_name() {
        let sources = Sources::default();
        let text = "x = 1; // crashproof: ignore(missing-flush): a hint\n// crashproof: ignore(missing-flush, recovery-fails): rebuilt\n\
                    y = 1;\nz = 1; // crashproof: ignore(recovery-fails): other\nw = 1; // crashproof: ignore(missing-flush)\n";
        sources.insert("a.c", text);
        let mut report = Report::new("check", "a.c");
        for line in [1, 3, 4, 5] {
            report.findings.push(Finding::new(&MISSING_FLUSH, Place::new("a.c", line, 1), "lost"));
        }
        apply(&mut report, &sources);
        let left: Vec<u32> = report.findings.iter().map(|it| it.place.line).collect();
        assert_eq!(left, [4, 5]);
        let reasons: Vec<_> = report.set_aside.iter().map(|it| it.why.clone()).collect();
        assert_eq!(reasons, [Why::Suppressed("a hint".into()), Why::Suppressed("rebuilt".into())]);
        assert_eq!(report.notes.len(), 1);
    }
}
