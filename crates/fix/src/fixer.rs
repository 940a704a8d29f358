//! The loop: check, edit, check again, until no flush is missing or none can be added.

use std::collections::BTreeMap;
use std::path::Path;

use crashproof_check::{Redundant, Report, Violation};

use crate::style::Macros;
use crate::{edit, plan};

/// What can go wrong when an edited program is tried.
#[derive(Debug)]
pub enum Failed {
    /// It does not build.
    Build(String),
    /// It cannot be checked.
    Check(String),
}

/// Where programs are built and checked.
pub trait Workshop {
    /// The content of a source as it was built; why not, if it cannot be had.
    fn read(&mut self, file: &str) -> Result<String, String>;

    /// Builds the program with these sources in place of those of the same name, and checks it.
    fn check(&mut self, sources: &BTreeMap<String, String>) -> Result<Report, Failed>;
}

/// How to fix.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The project's own flush and fence; as the file does it if not given.
    pub macros: Option<Macros>,
    /// Remove flushes and fences that did nothing, too.
    pub remove_redundant: bool,
}

/// A source that was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The file.
    pub file: String,
    /// What it was.
    pub before: String,
    /// What it is to be.
    pub after: String,
}

impl Changed {
    /// The change as a unified diff.
    pub fn diff(&self) -> String {
        // Build systems compile with absolute paths; a diff is applied from where one is.
        let here = std::env::current_dir().unwrap_or_default();
        let path = Path::new(&self.file);
        let file = path.strip_prefix(&here).unwrap_or(path).to_string_lossy();
        let file = file.trim_start_matches('/');
        let (old, new) = (format!("a/{file}"), format!("b/{file}"));
        similar::TextDiff::from_lines(&self.before, &self.after).unified_diff().header(&old, &new).to_string()
    }
}

/// A missing flush that is still missing.
#[derive(Clone, Debug)]
pub struct Remaining {
    /// The violation.
    pub violation: Violation,
    /// Why there is no patch for it.
    pub reason: String,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// The sources that were changed.
    pub changed: Vec<Changed>,
    /// How many missing flushes there were at first, and how many errors in all.
    pub missing: usize,
    /// How often edits were made and checked.
    pub rounds: usize,
    /// Missing flushes that remain, and why.
    pub remaining: Vec<Remaining>,
    /// Flushes and fences that were removed: the places and the statements.
    pub removed: Vec<(String, String)>,
    /// What the check of the fixed program said.
    pub report: Report,
}

/// A violation by what its source says there: line numbers move.
type Key = (String, String, u32);

/// The most rounds: each fixes what the one before brought to light.
const ROUNDS: usize = 32;

/// The missing flushes of a report that something can come of.
pub fn missing(report: &Report) -> Vec<&Violation> {
    let causes = report.findings.iter().filter_map(|finding| finding.cause.as_deref());
    let others = report.violations.iter().filter(|violation| !violation.same_value);
    let mut all: Vec<&Violation> = Vec::new();
    for violation in causes.chain(others) {
        if !all.iter().any(|known| known.last == violation.last) {
            all.push(violation);
        }
    }
    all
}

struct Fixer<'a, W> {
    workshop: &'a mut W,
    options: &'a Options,
    /// Sources as they were.
    originals: BTreeMap<String, String>,
    /// Sources as they are to be, those that were looked at.
    sources: BTreeMap<String, String>,
    /// Violations that cannot be fixed, and why.
    refused: BTreeMap<Key, String>,
}

impl<W: Workshop> Fixer<'_, W> {
    fn source(&mut self, file: &str) -> Result<String, String> {
        if let Some(source) = self.sources.get(file) {
            return Ok(source.clone());
        }
        let source = self.workshop.read(file)?;
        self.originals.insert(file.to_owned(), source.clone());
        self.sources.insert(file.to_owned(), source.clone());
        Ok(source)
    }

    fn key(&self, violation: &Violation) -> Key {
        let place = plan::file_of(violation).unwrap_or(&violation.last);
        let line =
            self.sources.get(&place.file).and_then(|source| source.lines().nth(place.line as usize - 1));
        (place.file.clone(), line.unwrap_or_default().trim().to_owned(), place.column)
    }

    /// The edits for what is missing, as far as they can be made.
    fn edits(&mut self, missing: &[&Violation]) -> Vec<plan::Edit> {
        let mut edits = Vec::new();
        for (number, violation) in missing.iter().enumerate() {
            let file = plan::file_of(violation).map(|place| place.file.clone());
            let made = match file {
                None => Err("no thread can flush it in time".to_owned()),
                Some(file) => {
                    self.source(&file).and_then(|source| plan::edit(number, violation, &source, &file))
                }
            };
            let key = self.key(violation);
            if self.refused.contains_key(&key) {
                continue;
            }
            match made {
                Ok(edit) => edits.push(edit),
                Err(reason) => {
                    self.refused.insert(key, reason);
                }
            }
        }
        edits
    }

    fn with(&self, edits: &[plan::Edit]) -> BTreeMap<String, String> {
        let mut sources = self.sources.clone();
        sources.extend(plan::made(&self.sources, edits, self.options.macros.as_ref()));
        sources
    }

    /// Only what differs from the files.
    fn changed(&self, sources: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let differs = |(file, source): &(&String, &String)| self.originals.get(*file) != Some(*source);
        sources.iter().filter(differs).map(|(file, source)| (file.clone(), source.clone())).collect()
    }

    fn check(&mut self, sources: &BTreeMap<String, String>) -> Result<Report, Failed> {
        let changed = self.changed(sources);
        self.workshop.check(&changed)
    }

    /// Makes edits and checks. If the program does not build with all of them, those are dropped that it does not
    /// build with alone.
    fn attempt(&mut self, missing: &[&Violation], edits: Vec<plan::Edit>) -> Result<Option<Report>, String> {
        let sources = self.with(&edits);
        match self.check(&sources) {
            Ok(report) => {
                self.sources = sources;
                return Ok(Some(report));
            }
            Err(Failed::Check(message)) => return Err(message),
            Err(Failed::Build(_)) => {}
        }
        let mut good = Vec::new();
        for edit in edits {
            let alone = self.with(std::slice::from_ref(&edit));
            match self.check(&alone) {
                Ok(_) => good.push(edit),
                Err(Failed::Check(message)) => return Err(message),
                Err(Failed::Build(_)) => {
                    let key = self.key(missing[edit.violation]);
                    self.refused.insert(key, "the program does not build with a flush after it".into());
                }
            }
        }
        if good.is_empty() {
            return Ok(None);
        }
        let sources = self.with(&good);
        match self.check(&sources) {
            Ok(report) => {
                self.sources = sources;
                Ok(Some(report))
            }
            Err(Failed::Build(message) | Failed::Check(message)) => Err(message),
        }
    }

    /// Removes what did nothing, one by one, as long as nothing gets worse.
    fn remove(&mut self, report: &mut Report) -> Result<Vec<(String, String)>, String> {
        let mut removed = Vec::new();
        // From the end of each file, so that places stay right.
        let always = report.redundant.iter().filter(|found| found.redundant == found.total);
        let mut redundant: Vec<Redundant> = always.cloned().collect();
        redundant.sort_by_key(|found| std::cmp::Reverse((found.place.file.clone(), found.place.line)));
        redundant.dedup_by(|a, b| a.place == b.place);
        for Redundant { place, .. } in &redundant {
            let Ok(source) = self.source(&place.file) else { continue };
            let Some((without, statement)) = edit::without(&source, place.line, place.column) else {
                continue;
            };
            let mut sources = self.sources.clone();
            sources.insert(place.file.clone(), without);
            if let Ok(now) = self.check(&sources)
                && now.errors() <= report.errors()
                && now.unknown.len() <= report.unknown.len()
                && now.violations.len() <= report.violations.len()
                && now.redundant.len() < report.redundant.len()
            {
                self.sources = sources;
                removed.push((format!("{}:{}", place.file, place.line), statement));
                *report = now;
            }
        }
        Ok(removed)
    }
}

/// Fixes a program.
pub fn fix<W: Workshop>(workshop: &mut W, options: &Options) -> Result<Outcome, String> {
    let say = |failed: Failed| match failed {
        Failed::Build(message) | Failed::Check(message) => message,
    };
    let mut report = workshop.check(&BTreeMap::new()).map_err(say)?;
    let first = missing(&report).len();
    let mut fixer = Fixer {
        workshop,
        options,
        originals: BTreeMap::new(),
        sources: BTreeMap::new(),
        refused: BTreeMap::new(),
    };
    let mut rounds = 0;
    let mut tried: Vec<(Key, usize)> = Vec::new();
    while rounds < ROUNDS {
        let now = report.clone();
        let missing = missing(&now);
        let mut edits = fixer.edits(&missing);
        // What is still missing after its flush was written will not be found by writing it again.
        edits.retain(|edit| {
            let key = fixer.key(missing[edit.violation]);
            let times = tried.iter_mut().find(|(known, _)| *known == key);
            match times {
                Some((_, times)) if *times >= 2 => {
                    fixer.refused.insert(key, "a flush right after it was not enough".into());
                    false
                }
                Some((_, times)) => {
                    *times += 1;
                    true
                }
                None => {
                    tried.push((key, 1));
                    true
                }
            }
        });
        if edits.is_empty() {
            break;
        }
        if let Some(next) = fixer.attempt(&missing, edits)? {
            report = next;
            rounds += 1;
        }
    }
    let removed = if options.remove_redundant { fixer.remove(&mut report)? } else { Vec::new() };
    let remaining = missing(&report)
        .into_iter()
        .map(|violation| {
            let reason = fixer.refused.get(&fixer.key(violation)).cloned();
            let reason = reason.unwrap_or_else(|| format!("not reached within {ROUNDS} rounds"));
            Remaining { violation: violation.clone(), reason }
        })
        .collect();
    let changed = fixer.changed(&fixer.sources);
    let changed = changed
        .into_iter()
        .map(|(file, after)| Changed { before: fixer.originals[&file].clone(), file, after })
        .collect();
    Ok(Outcome { changed, missing: first, rounds, remaining, removed, report })
}
