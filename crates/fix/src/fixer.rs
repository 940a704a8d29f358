//! The loop: check, edit and check again, until no flush is missing or none can be added.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crashproof_check::{Place, Redundant, Report, Violation};

use crate::object::Reader;
use crate::plan::Manner;
use crate::project::Project;
use crate::style::Macros;
use crate::syntax::{Language, Source};
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

    /// The name by which the project knows a file that the program names in its own way.
    fn name(&self, file: &str) -> String {
        file.to_owned()
    }

    /// The sources of the project, as far as they are known.
    fn files(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// How to fix.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The project's own flush and fence; as the file does it if not given.
    pub macros: Option<Macros>,
    /// Also remove flushes and fences that did nothing.
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

    /// The line of the unchanged source that a line of the changed one was, or comes after.
    pub fn line_before(&self, line: u32) -> u32 {
        let index = line.saturating_sub(1) as usize;
        let diff = similar::TextDiff::from_lines(&self.before, &self.after);
        let part = diff.ops().iter().find(|part| part.new_range().contains(&index));
        let before = part.map_or(index, |part| match part.tag() {
            similar::DiffTag::Equal => part.old_range().start + (index - part.new_range().start),
            _ => part.old_range().start.saturating_sub(usize::from(part.old_range().is_empty())),
        });
        u32::try_from(before).map_or(line, |before| before + 1)
    }
}

/// A missing flush that is still missing.
#[derive(Clone, Debug)]
pub struct Remaining {
    /// The violation.
    pub violation: Violation,
    /// Its consequence.
    pub message: String,
    /// Why there is no patch for it.
    pub reason: String,
}

/// The result.
#[derive(Debug)]
pub struct Outcome {
    /// The sources that were changed.
    pub changed: Vec<Changed>,
    /// How many errors there were at first.
    pub errors: usize,
    /// How often edits were made and checked.
    pub rounds: usize,
    /// The missing flushes that remain, and why.
    pub remaining: Vec<Remaining>,
    /// Flushes and fences that were removed: their places and statements.
    pub removed: Vec<(String, String)>,
    /// The report on the fixed program.
    pub report: Report,
    /// Were the sources changed?
    pub written: bool,
}

/// Identifies a violation by its file, the text of the line, its index among equal lines, and the column: line numbers
/// change.
type Key = (String, String, usize, u32);

/// The maximum number of rounds: each fixes what the previous one revealed.
const ROUNDS: usize = 32;

/// The missing flushes of a report that have consequences.
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
    /// Original sources.
    originals: BTreeMap<String, String>,
    /// Current sources, as far as examined.
    sources: BTreeMap<String, String>,
    /// What is known about the project around each of them.
    projects: BTreeMap<String, Project>,
    /// All sources of the project.
    files: Vec<String>,
    /// Violations that cannot be fixed, and why.
    refused: BTreeMap<Key, String>,
    /// How to handle violations that a first attempt did not fix.
    manners: BTreeMap<Key, Manner>,
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

    /// What the sources around a file define: the headers of the project that it includes, or the modules of its crate.
    fn learn(&mut self, file: &str) {
        if self.projects.contains_key(file) {
            return;
        }
        let mut project = Project::default();
        let mut open = vec![file.to_owned()];
        let mut seen: BTreeSet<String> = BTreeSet::new();
        while let Some(next) = open.pop() {
            if !seen.insert(next.clone()) {
                continue;
            }
            let known = self.sources.get(&next).cloned();
            let Some(text) = known.or_else(|| self.workshop.read(&next).ok()) else { continue };
            project.learn(&next, &text);
            if Language::of(&next) == Some(Language::Rust) {
                open.extend(self.files.iter().filter(|it| it.ends_with(".rs")).cloned());
                continue;
            }
            if is_header(&next) {
                self.learn_companions(&mut project, &next, &text);
            }
            let files = self.files.iter();
            let included: Vec<&str> = text.lines().filter_map(included).collect();
            let directory = Path::new(&next).parent().unwrap_or(Path::new(""));
            open.extend(included.iter().map(|name| directory.join(name).to_string_lossy().into_owned()));
            open.extend(
                files.filter(|it| included.iter().any(|name| it.ends_with(&format!("/{name}")))).cloned(),
            );
        }
        self.projects.insert(file.to_owned(), project);
    }

    /// Learns what the sources of a header's name define of what it declares.
    fn learn_companions(&mut self, project: &mut Project, header: &str, declarations: &str) {
        let stem = |file: &str| Path::new(file).file_stem().map(ToOwned::to_owned);
        let companion = |file: &&String| {
            stem(file) == stem(header) && !is_header(file) && Language::of(file) != Some(Language::Rust)
        };
        let companions: Vec<String> = self.files.iter().filter(companion).cloned().collect();
        for file in companions {
            if let Ok(text) = self.workshop.read(&file) {
                project.learn_declared(&file, &text, declarations);
            }
        }
    }

    fn key(&self, violation: &Violation) -> Key {
        let place = plan::fence_only(violation).unwrap_or(&violation.last);
        let name = self.workshop.name(&place.file);
        let source = self.sources.get(&name).map_or("", String::as_str);
        let number = (place.line as usize).saturating_sub(1);
        let line = source.lines().nth(number).unwrap_or_default().trim();
        let same = source.lines().take(number).filter(|other| other.trim() == line).count();
        (name, line.to_owned(), same, place.column)
    }

    /// Where a violation is to be fixed: its own place if that is in the project, else the call from there that leads to it.
    fn place(&mut self, violation: &Violation) -> Result<Place, String> {
        let window = violation.windows.first().ok_or("no thread can flush it in time")?;
        let flush = plan::fence_only(violation);
        let place = flush.unwrap_or(&window.after);
        let outward = place.frames.iter().map(|frame| Place {
            file: frame.file.clone(),
            line: frame.line,
            column: frame.column,
            function: frame.function.clone(),
            frames: Vec::new(),
        });
        let mut trouble = None;
        for mut candidate in std::iter::once(place.clone()).chain(outward) {
            candidate.file = self.workshop.name(&candidate.file);
            match self.source(&candidate.file) {
                Err(reason) => {
                    trouble.get_or_insert(reason);
                    continue;
                }
                Ok(source) => {
                    if let Some(reason) = plan::off_limits(&candidate.file, &source) {
                        trouble.get_or_insert(reason);
                        continue;
                    }
                }
            }
            self.learn(&candidate.file);
            let name = candidate.function.split("::<").next().unwrap_or_default();
            let name = name.split('(').next().unwrap_or_default().rsplit("::").next().unwrap_or_default();
            // A fence belongs behind the call of what flushes, not into it.
            if flush.is_some() && self.projects[&candidate.file].is_helper(name) {
                if let Some(found) = self.behind_the_helper(window) {
                    return Ok(found);
                }
                continue;
            }
            return Ok(candidate);
        }
        Err(trouble.unwrap_or_else(|| "the function that flushes is not called from the project".into()))
    }

    /// The call of a helper between the lost store and the survivor.
    fn behind_the_helper(&mut self, window: &crashproof_check::Window) -> Option<Place> {
        let mut store = window.after.clone();
        store.file = self.workshop.name(&store.file);
        let text = self.source(&store.file).ok()?;
        self.learn(&store.file);
        let source = Source::new(&text, Language::of(&store.file)?)?;
        let reader = Reader { source: &source, project: self.projects.get(&store.file)? };
        let (line, column) = plan::flush_between(&reader, &store, &window.before)?;
        Some(Place { line, column, ..store })
    }

    /// The edits for what is missing, as far as they can be made.
    fn edits(&mut self, missing: &[&Violation]) -> Vec<plan::Edit> {
        let mut edits = Vec::new();
        self.projects.clear();
        for (number, violation) in missing.iter().enumerate() {
            let place = self.place(violation);
            let key = self.key(violation);
            if self.refused.contains_key(&key) {
                continue;
            }
            let manner = self.manners.get(&key).copied().unwrap_or_default();
            let made = place.and_then(|place| {
                let text = &self.sources[&place.file];
                let language = Language::of(&place.file).ok_or("the language is not known")?;
                let source = Source::new(text, language).ok_or("the source cannot be parsed")?;
                let reader = Reader { source: &source, project: &self.projects[&place.file] };
                plan::edit(&plan::Request { number, violation, place, manner }, &reader)
            });
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
        sources.extend(plan::made(&self.sources, &self.projects, edits, self.options.macros.as_ref()));
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

    /// Applies edits and checks. If the program does not build with all of them, drops those with which it does not
    /// build alone.
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
                    if edit.manner == Manner::Plain {
                        let reason = "the program does not build with a flush after it";
                        self.refused.insert(key, reason.into());
                    } else {
                        self.manners.insert(key, edit.next_manner());
                    }
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
        // From the end of each file, so that earlier positions stay valid.
        let always = report.redundant.iter().filter(|found| found.redundant == found.total);
        let mut redundant: Vec<Redundant> = always.cloned().collect();
        redundant.sort_by_key(|found| std::cmp::Reverse((found.place.file.clone(), found.place.line)));
        redundant.dedup_by(|a, b| a.place == b.place);
        for Redundant { place, .. } in &redundant {
            let file = self.workshop.name(&place.file);
            let Ok(source) = self.source(&file) else { continue };
            let Some(language) = Language::of(&file) else { continue };
            let Some((without, statement)) = edit::without(&source, language, place.line, place.column)
            else {
                continue;
            };
            let mut sources = self.sources.clone();
            sources.insert(file.clone(), without);
            if let Ok(now) = self.check(&sources)
                && now.errors() <= report.errors()
                && now.unknown.len() <= report.unknown.len()
                && now.violations.len() <= report.violations.len()
                && now.redundant.len() < report.redundant.len()
            {
                self.sources = sources;
                removed.push((format!("{file}:{}", place.line), statement));
                *report = now;
            }
        }
        Ok(removed)
    }
}

fn is_header(file: &str) -> bool {
    [".h", ".hh", ".hpp", ".hxx"].iter().any(|end| file.ends_with(end))
}

/// `#include "name"`.
fn included(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
    rest.trim_start().strip_prefix('"')?.split('"').next()
}

/// Fixes a program.
pub fn fix<W: Workshop>(workshop: &mut W, options: &Options) -> Result<Outcome, String> {
    let say = |failed: Failed| match failed {
        Failed::Build(message) | Failed::Check(message) => message,
    };
    let mut report = workshop.check(&BTreeMap::new()).map_err(say)?;
    let errors = report.errors();
    let files = workshop.files();
    let mut fixer = Fixer {
        workshop,
        options,
        originals: BTreeMap::new(),
        sources: BTreeMap::new(),
        projects: BTreeMap::new(),
        files,
        refused: BTreeMap::new(),
        manners: BTreeMap::new(),
    };
    let mut rounds = 0;
    let mut tried: Vec<(Key, usize)> = Vec::new();
    while rounds < ROUNDS {
        let now = report.clone();
        let missing = missing(&now);
        let mut edits = fixer.edits(&missing);
        // What is still missing after its flush was added will not be fixed by adding it again.
        edits.retain(|edit| {
            let key = fixer.key(missing[edit.violation]);
            let times = tried.iter_mut().find(|(known, _)| *known == key);
            match times {
                Some((_, times)) if *times >= 4 => {
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
        let keys: BTreeMap<Key, Manner> =
            edits.iter().map(|edit| (fixer.key(missing[edit.violation]), edit.next_manner())).collect();
        let before = fixer.sources.clone();
        if let Some(next) = fixer.attempt(&missing, edits)? {
            rounds += 1;
            let left: Vec<Key> =
                self::missing(&next).into_iter().map(|violation| fixer.key(violation)).collect();
            let mut again = false;
            // Insufficient edits are reverted, and tried in another way if there is one.
            for (key, manner) in keys.into_iter().filter(|(key, _)| left.contains(key)) {
                if fixer.manners.get(&key) == Some(&manner) {
                    fixer.refused.insert(key, "a flush right after it was not enough".into());
                } else {
                    fixer.manners.insert(key, manner);
                }
                again = true;
            }
            if again {
                fixer.sources = before;
            } else {
                report = next;
            }
        }
    }
    let removed = if options.remove_redundant { fixer.remove(&mut report)? } else { Vec::new() };
    let remaining = missing(&report)
        .into_iter()
        .map(|violation| {
            let reason = fixer.refused.get(&fixer.key(violation)).cloned();
            let reason = reason.unwrap_or_else(|| format!("not reached within {ROUNDS} rounds"));
            let told = report
                .findings
                .iter()
                .find(|it| it.cause.as_ref().is_some_and(|it| it.last == violation.last));
            let message = told.map_or_else(|| violation.message(), |it| it.in_common_form().message);
            Remaining { violation: violation.clone(), message, reason }
        })
        .collect();
    // What one finding reports about several stores is skipped only once.
    let mut remaining: Vec<Remaining> = remaining;
    remaining.dedup_by(|one, other| (&one.message, &one.reason) == (&other.message, &other.reason));
    let changed = fixer.changed(&fixer.sources);
    let changed = changed
        .into_iter()
        .map(|(file, after)| Changed { before: fixer.originals[&file].clone(), file, after })
        .collect();
    Ok(Outcome { changed, errors, rounds, remaining, removed, report, written: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_changed_source_are_found_in_the_unchanged_one() {
        let changed = Changed {
            file: "a.c".into(),
            before: "one\ntwo\nthree\n".into(),
            after: "one\nadded\ntwo\nTHREE\n".into(),
        };
        let before: Vec<u32> = (1..=4).map(|line| changed.line_before(line)).collect();
        assert_eq!(before, [1, 1, 2, 3], "an added line counts as the one before it");
    }
}
