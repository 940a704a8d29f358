//! Accepted findings: `--baseline FILE` fails only on new ones.
//!
//! A baseline is a JSON file written by `--write-baseline FILE`: fingerprints, and enough text for a reviewer to see
//! what was accepted.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::report::{Report, SetAside, Why};

/// Version of the format.
const VERSION: u32 = 1;

/// What is wrong with a baseline.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read or written.
    #[error("cannot {doing} the baseline {file}: {source}")]
    File {
        /// `read` or `write`.
        doing: &'static str,
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not a baseline.
    #[error("{file} is not a baseline: {why}\nmake one with --write-baseline {file}")]
    Format {
        /// The file.
        file: PathBuf,
        /// Why.
        why: String,
    },
}

#[derive(Serialize, Deserialize)]
struct File {
    tool: String,
    version: u32,
    findings: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    fingerprint: String,
    rule: String,
    file: String,
    function: String,
    message: String,
}

/// Fingerprints that are known.
#[derive(Debug)]
pub struct Baseline {
    known: HashSet<String>,
}

impl Baseline {
    /// Reads a file written by [`write()`].
    pub fn read(file: &Path) -> Result<Baseline, Error> {
        let text = crate::text_file::read(file).map_err(|source| Error::File {
            doing: "read",
            file: file.to_owned(),
            source,
        })?;
        let wrong = |why: String| Error::Format { file: file.to_owned(), why };
        let parsed: File = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if (parsed.tool.as_str(), parsed.version) != ("crashproof-baseline", VERSION) {
            return Err(wrong(format!("it says {} {}", parsed.tool, parsed.version)));
        }
        Ok(Baseline { known: parsed.findings.into_iter().map(|entry| entry.fingerprint).collect() })
    }

    /// Sets aside known findings, and notes how many of the baseline's no longer occur.
    pub fn apply(&self, report: &mut Report) {
        let mut met = HashSet::new();
        for finding in std::mem::take(&mut report.findings) {
            if self.known.contains(&finding.fingerprint) {
                met.insert(finding.fingerprint.clone());
                report.set_aside.push(SetAside { finding, why: Why::Known });
            } else {
                report.findings.push(finding);
            }
        }
        match self.known.len() - met.len() {
            0 => {}
            1 => report.notes.push("one finding of the baseline no longer occurs; rewrite it".into()),
            gone => report.notes.push(format!("{gone} findings of the baseline no longer occur; rewrite it")),
        }
    }
}

/// Writes the findings of a report, including those already known.
pub fn write(file: &Path, report: &Report) -> Result<(), Error> {
    let known = report.set_aside.iter().filter(|aside| aside.why == Why::Known).map(|aside| &aside.finding);
    let mut findings: Vec<Entry> = report
        .findings
        .iter()
        .chain(known)
        .map(|finding| Entry {
            fingerprint: finding.fingerprint.clone(),
            rule: finding.rule.id.into(),
            file: finding.place.file.clone(),
            function: finding.place.function.clone(),
            message: finding.message.clone(),
        })
        .collect();
    // The same findings give the same file, in whichever order they were found.
    findings.sort_by(|a, b| (&a.file, &a.rule, &a.fingerprint).cmp(&(&b.file, &b.rule, &b.fingerprint)));
    let contents = File { tool: "crashproof-baseline".into(), version: VERSION, findings };
    let text = serde_json::to_string_pretty(&contents).expect("plain data always serializes");
    std::fs::write(file, text + "\n").map_err(|source| Error::File {
        doing: "write",
        file: file.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Finding;
    use crate::place::Place;
    use crate::rules::check::RECOVERY_FAILS;
    use crate::sources::Sources;

    fn report(functions: &[&str]) -> Report {
        let mut report = Report::new("check", "program");
        for (line, function) in functions.iter().enumerate() {
            let place = Place { function: (*function).into(), ..Place::new("a.c", line as u32 + 1, 1) };
            report.findings.push(Finding::new(&RECOVERY_FAILS, place, "wrong"));
        }
        report.finish(&Sources::default());
        report
    }

    #[test]
    fn only_what_is_new_is_left() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("baseline.json");
        write(&file, &report(&["insert", "remove"])).expect("written");
        let mut now = report(&["lookup", "insert"]);
        Baseline::read(&file).expect("read").apply(&mut now);
        assert_eq!(now.findings.len(), 1);
        assert_eq!(now.findings[0].place.function, "lookup");
        assert_eq!(now.notes, ["one finding of the baseline no longer occurs; rewrite it"]);
        // Written again, it contains both, but not what no longer occurs.
        write(&file, &now).expect("written");
        assert_eq!(Baseline::read(&file).expect("read").known.len(), 2);
    }

    #[test]
    fn what_is_no_baseline_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("baseline.json");
        for text in ["", "{}", r#"{"tool":"x","version":1,"findings":[]}"#] {
            std::fs::write(&file, text).expect("written");
            assert!(matches!(Baseline::read(&file), Err(Error::Format { .. })), "{text}");
        }
        assert!(matches!(Baseline::read(directory.path()), Err(Error::File { .. })));
    }
}
