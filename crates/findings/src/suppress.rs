//! Accepted findings.
//!
//! A suppression stands in `crashproof.toml` or in a file of its own, in the same form:
//!
//! ```toml
//! [[suppress]]
//! rule = "flush-clean-line"      # at least one of rule, path, function and fingerprint
//! path = "src/queue/**"          # as in the report; * within a directory, ** across
//! function = "consume*"
//! reason = "the producer may have been stopped before its flush"
//! ```
//!
//! What is given must all fit. A suppression that fits nothing is reported: it hides the next bug.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet};
use serde::Deserialize;
use toml::Spanned;

use crate::finding::Finding;
use crate::report::{Report, SetAside, Why};
use crate::rules;
use crate::toml_file::Error;

/// A suppression as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Written {
    rule: Option<Spanned<String>>,
    path: Option<Spanned<String>>,
    function: Option<Spanned<String>>,
    fingerprint: Option<String>,
    reason: String,
}

/// A file with nothing but suppressions.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    suppress: Vec<Spanned<Written>>,
}

/// One suppression.
#[derive(Clone, Debug)]
struct Suppression {
    file: PathBuf,
    line: usize,
    rule: Option<String>,
    path: Option<GlobSet>,
    function: Option<GlobSet>,
    fingerprint: Option<String>,
    reason: String,
    /// Is its rule looked for by the command that is running? Otherwise it cannot be used.
    command: Option<&'static str>,
}

/// Suppressions from any number of files.
#[derive(Clone, Debug, Default)]
pub struct Suppressions {
    all: Vec<Suppression>,
}

impl Suppressions {
    /// Adds those of a file.
    pub fn read(&mut self, file: &Path) -> Result<(), Error> {
        let text = crate::toml_file::read(file)?;
        let parsed: File = toml::from_str(&text).map_err(|error| Error::syntax(file, &text, &error))?;
        self.add(file, &text, parsed.suppress)
    }

    pub(crate) fn add(
        &mut self,
        file: &Path,
        text: &str,
        written: Vec<Spanned<Written>>,
    ) -> Result<(), Error> {
        for one in written {
            let span = one.span();
            let written = one.into_inner();
            let wrong = |at: usize, message: String| Error::at(file, text, at, message);
            if written.reason.trim().is_empty() {
                return Err(wrong(span.start, "a suppression needs a reason".into()));
            }
            if written.rule.is_none()
                && written.path.is_none()
                && written.function.is_none()
                && written.fingerprint.is_none()
            {
                let message = "a suppression needs a rule, a path, a function or a fingerprint".into();
                return Err(wrong(span.start, message));
            }
            let mut command = None;
            if let Some(rule) = &written.rule {
                let name = rule.get_ref();
                let Some(known) = rules::find(name) else {
                    let message = format!("there is no rule called {name}; `crashproof explain` lists them");
                    return Err(wrong(rule.span().start, message));
                };
                command = Some(known.engine.command());
            }
            let pattern = |glob: &Spanned<String>, literal: bool| {
                let built = GlobBuilder::new(glob.get_ref()).literal_separator(literal).build();
                // A single matcher would panic on what nests too deep; a set says so.
                let set = built.and_then(|glob| GlobSet::builder().add(glob).build());
                set.map_err(|error| wrong(glob.span().start, error.to_string()))
            };
            // Brackets and braces are part of names in C++ and Rust; only * is special.
            let function = written.function.as_ref().map(|name| {
                let escaped = globset::escape(name.get_ref()).replace("[*]", "*");
                pattern(&Spanned::new(name.span(), escaped), false)
            });
            self.all.push(Suppression {
                file: file.to_owned(),
                line: crate::toml_file::line_of(text, span.start),
                path: written.path.as_ref().map(|path| pattern(path, true)).transpose()?,
                function: function.transpose()?,
                rule: written.rule.map(Spanned::into_inner),
                fingerprint: written.fingerprint,
                reason: written.reason.trim().to_owned(),
                command,
            });
        }
        Ok(())
    }

    /// Sets aside suppressed findings, and notes unused suppressions.
    pub fn apply(&self, report: &mut Report) {
        let mut used = vec![false; self.all.len()];
        for finding in std::mem::take(&mut report.findings) {
            match self.all.iter().position(|one| one.fits(&finding)) {
                Some(first) => {
                    // All matching suppressions count as used, not only the first.
                    for (used, _) in used.iter_mut().zip(&self.all).filter(|(_, one)| one.fits(&finding)) {
                        *used = true;
                    }
                    let why = Why::Suppressed(self.all[first].reason.clone());
                    report.set_aside.push(SetAside { finding, why });
                }
                None => report.findings.push(finding),
            }
        }
        for (one, used) in self.all.iter().zip(used) {
            if !used && one.command.is_none_or(|command| command == report.command) {
                report.notes.push(format!(
                    "{}:{}: unused suppression (reason: {})",
                    one.file.display(),
                    one.line,
                    one.reason
                ));
            }
        }
    }
}

impl Suppression {
    fn fits(&self, finding: &Finding) -> bool {
        let place = &finding.place;
        let file = Path::new(&place.file);
        // Findings name files as the compiler was given them; what is written may be relative to the file
        // it stands in.
        let fits_path = |glob: &GlobSet| {
            let from_here = file.strip_prefix("./").unwrap_or(file);
            let directory = self.file.parent().unwrap_or(Path::new(""));
            let from_there = from_here.strip_prefix(directory).unwrap_or(from_here);
            let absolute = std::path::absolute(file).unwrap_or_default();
            let root = std::path::absolute(directory).unwrap_or_default();
            let below = absolute.strip_prefix(&root).unwrap_or(&absolute);
            [file, from_here, from_there, &absolute, below].into_iter().any(|path| glob.is_match(path))
        };
        self.rule.as_ref().is_none_or(|rule| rule == finding.rule.id)
            && self.fingerprint.as_ref().is_none_or(|it| *it == finding.fingerprint)
            && self.path.as_ref().is_none_or(fits_path)
            && self.function.as_ref().is_none_or(|it| it.is_match(&place.function))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Place;
    use crate::rules::check::{FLUSH_CLEAN_LINE, RECOVERY_FAILS};

    fn read(text: &str) -> Result<Suppressions, String> {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("s.toml");
        std::fs::write(&file, text).expect("written");
        let mut suppressions = Suppressions::default();
        suppressions
            .read(&file)
            .map_err(|error| error.to_string().replace(&*file.to_string_lossy(), "s.toml"))?;
        Ok(suppressions)
    }

    fn report() -> Report {
        let mut report = Report::new("check", "program");
        for (rule, file, function) in [
            (&RECOVERY_FAILS, "src/list.c", "insert"),
            (&FLUSH_CLEAN_LINE, "./src/deep/queue.c", "<Queue<T> as Take>::take[0]"),
        ] {
            let place = Place { function: function.into(), ..Place::new(file, 3, 1) };
            report.findings.push(Finding::new(rule, place, "wrong"));
        }
        report
    }

    fn left(text: &str) -> (Vec<&'static str>, usize) {
        let mut report = report();
        read(text).expect("suppressions").apply(&mut report);
        (report.findings.iter().map(|finding| finding.rule.id).collect(), report.notes.len())
    }

    #[test]
    fn what_is_given_must_all_fit() {
        let both = ["recovery-fails", "flush-clean-line"].to_vec();
        let first = ["recovery-fails"].to_vec();
        for (selectors, expected) in [
            ("rule = 'flush-clean-line'", (first.clone(), 0)),
            ("path = 'src/*.c'", (vec!["flush-clean-line"], 0)),
            ("path = 'src/**/*.c'", (vec![], 0)),
            ("path = 'src/deep/**'", (first.clone(), 0)),
            ("function = '<Queue<T> as Take>::take[0]'", (first.clone(), 0)),
            ("function = '<Queue*>::take*'", (first, 0)),
            ("function = 'take'", (both.clone(), 1)),
            ("rule = 'flush-clean-line'\nfunction = 'insert'", (both.clone(), 1)),
            ("fingerprint = '17'", (both, 1)),
        ] {
            assert_eq!(
                left(&format!("[[suppress]]\n{selectors}\nreason = 'why not'")),
                expected,
                "{selectors}"
            );
        }
    }

    #[test]
    fn mistakes_are_shown_where_they_are() {
        let nested =
            format!("[[suppress]]\npath = '{}{}'\nreason = 'y'\n", "{a,".repeat(200), "}".repeat(200));
        for (text, expected) in [
            ("[[suppress]]\nrule = 'recovery-fails'\n", "missing field `reason`"),
            ("\n[[suppress]]\nreason = 'x'\n", "s.toml:2: a suppression needs a rule"),
            ("[[suppress]]\nrule='recovery-fails'\nreason = ' '\n", "s.toml:1: a suppression needs a reason"),
            ("[[suppress]]\nrule = 'x'\nreason = 'y'\n", "s.toml:2: there is no rule called x"),
            ("[[suppress]]\npath = '[a'\nreason = 'y'\n", "s.toml:2: error parsing glob"),
            ("[[suppress]]\nrul = 'x'\nreason = 'y'\n", "s.toml:2: unknown field `rul`"),
            (&nested, "s.toml:2: "),
        ] {
            let message = read(text).expect_err(text);
            assert!(message.contains(expected), "{message}");
        }
    }
}
