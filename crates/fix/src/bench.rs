//! Where a program is built and checked while it is being fixed: sources remain unchanged until a fix is accepted.
//!
//! A single source is compiled with its edited text in place of the file's; a project is edited in a copy, or in place
//! if the edits are to be kept. The [`Checker`] knows how to compile and check a program.
//!
//! A copy is an independent project: files that refer to the original by path, like those of CMake and the compiler's
//! dependency lists, are changed to refer to the copy.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crashproof_check::Report;

use crate::edit::write;
use crate::fixer::{Failed, Outcome, Workshop};
use crate::syntax::Language;
use crate::undo;
use crashproof_toolchain::output;

/// Builds and checks the program below a directory. `extra` are additional compiler arguments, if there is something to
/// compile.
pub trait Checker {
    /// Builds and checks.
    fn check(&mut self, root: &Path, extra: &[OsString]) -> Result<Report, Failed>;
}

impl<F: FnMut(&Path, &[OsString]) -> Result<Report, Failed>> Checker for F {
    fn check(&mut self, root: &Path, extra: &[OsString]) -> Result<Report, Failed> {
        self(root, extra)
    }
}

/// What is to be fixed.
#[derive(Clone, Debug)]
pub struct Project {
    /// The program, or its source.
    pub program: PathBuf,
    /// Is it a source that the checker compiles?
    pub is_source: bool,
    /// The shell command that builds the program otherwise; `None` if it cannot be built.
    pub build: Option<String>,
    /// Are the changes to sources to be kept?
    pub apply: bool,
    /// Even if errors remain?
    pub keep_partial: bool,
}

/// A project on the bench. `D` is a temporary directory, removed when dropped.
pub struct Bench<C, D> {
    project: Project,
    checker: C,
    kind: Kind<D>,
}

enum Kind<D> {
    /// One source of C or C++, which the compiler finds elsewhere: in a directory that is removed.
    Source(D),
    /// A project, or a copy of it, and the sources that were changed there, as they were.
    Project { root: PathBuf, copy: Option<D>, touched: BTreeMap<String, String> },
    /// A program that cannot be built.
    Program,
}

/// Directories that no build reads.
const NO_SOURCES: [&str; 4] = [".git", ".hg", ".svn", ".crashproof"];

/// Copies a directory, except the data of version control. Timestamps are preserved: builds depend on them.
fn copy_tree(from: &Path, to: &Path, takes: &dyn Fn(&Path) -> bool) -> io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            // Directories tagged as caches, such as cargo's target directory, can be regenerated.
            let left_out = NO_SOURCES.iter().any(|name| entry.file_name() == *name)
                || entry.path().join("CACHEDIR.TAG").exists();
            if !left_out {
                std::fs::create_dir(&target)?;
                copy_tree(&entry.path(), &target, takes)?;
            }
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(entry.path())?, &target)?;
        } else if kind.is_file() && takes(&entry.path()) {
            std::fs::copy(entry.path(), &target)?;
            let time = entry.metadata()?.modified()?;
            File::options().append(true).open(&target).and_then(|file| file.set_modified(time))?;
        }
    }
    Ok(())
}

/// Files of a build that name the project by its path name the copy instead. What is not text is left alone, but for ninja's
/// memory of dependencies, without which it builds everything anew.
fn rename_paths(directory: &Path, from: &str, to: &str) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let (kind, path) = (entry.file_type()?, entry.path());
        if kind.is_dir() {
            rename_paths(&path, from, to)?;
        } else if kind.is_file() && entry.metadata()?.len() <= LARGEST_TEXT {
            if entry.file_name() == ".ninja_deps" {
                std::fs::remove_file(&path)?;
                continue;
            }
            let Ok(text) = String::from_utf8(std::fs::read(&path)?) else { continue };
            if text.contains(from) {
                let time = entry.metadata()?.modified()?;
                std::fs::write(&path, text.replace(from, to))?;
                File::options().append(true).open(&path).and_then(|file| file.set_modified(time))?;
            }
        }
    }
    Ok(())
}

/// Crates that a copied crate depends on by a path out of the project are found where they are.
fn keep_dependencies(copy: &Path, original: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(copy)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            keep_dependencies(&path, &original.join(entry.file_name()))?;
        } else if entry.file_name() == "Cargo.toml" {
            let text = std::fs::read_to_string(&path)?;
            let mut parts = text.split("path = \"");
            let mut made = parts.next().unwrap_or_default().to_owned();
            for part in parts {
                let (named, rest) = part.split_once('"').unwrap_or((part, ""));
                let outside = named.starts_with("..") && !copy.join(named).exists();
                let found = original.join(named).canonicalize().ok().filter(|_| outside);
                let named = found.map_or_else(|| named.to_owned(), |found| found.display().to_string());
                made.push_str(&format!("path = \"{named}\"{rest}"));
            }
            if made != text {
                std::fs::write(&path, made)?;
            }
        }
    }
    Ok(())
}

/// The largest file in which a build may describe itself.
const LARGEST_TEXT: u64 = 16 << 20;

/// The sources below a directory.
fn sources_below(directory: &Path, below: &Path, found: &mut Vec<String>) {
    let entries = std::fs::read_dir(directory.join(below)).into_iter().flatten().flatten();
    for entry in entries {
        if found.len() >= MOST_SOURCES {
            return;
        }
        let (name, path) = (entry.file_name(), below.join(entry.file_name()));
        let Ok(kind) = entry.file_type() else { continue };
        let hidden = name.to_string_lossy().starts_with('.');
        if kind.is_dir() && !hidden && name != "target" && name != "node_modules" {
            sources_below(directory, &path, found);
        } else if kind.is_file() && Language::of(&path.to_string_lossy()).is_some() {
            found.push(path.to_string_lossy().into_owned());
        }
    }
}

/// Sources that are looked at for functions that flush.
const MOST_SOURCES: usize = 2000;

impl<C: Checker, D: AsRef<Path>> Bench<C, D> {
    /// Prepares to fix a project, with a temporary directory if one is needed.
    pub fn new(
        project: Project,
        checker: C,
        temporary: impl FnOnce() -> io::Result<D>,
    ) -> Result<Bench<C, D>, String> {
        let temporary = || temporary().map_err(|error| format!("no temporary directory: {error}"));
        let here = std::env::current_dir().map_err(|error| format!("no current directory: {error}"))?;
        let unable = |error: io::Error| format!("cannot copy the project: {error}");
        let is_rust =
            project.is_source && Language::of(&project.program.to_string_lossy()) == Some(Language::Rust);
        let kind = if is_rust {
            if project.program.is_absolute() {
                return Err("name the source relative to this directory: it is built in a copy of it".into());
            }
            // rustc has no overlay: the source and the modules beside it are built where they can be changed.
            let copy = temporary()?;
            let beside = project.program.parent().unwrap_or(Path::new(""));
            let root = copy.as_ref().join(beside);
            std::fs::create_dir_all(&root).map_err(unable)?;
            let is_rust = |path: &Path| path.extension().is_some_and(|it| it == "rs");
            let from = if beside.as_os_str().is_empty() { Path::new(".") } else { beside };
            copy_tree(from, &root, &is_rust).map_err(unable)?;
            Kind::Project { root: copy.as_ref().to_owned(), copy: Some(copy), touched: BTreeMap::new() }
        } else if project.is_source {
            Kind::Source(temporary()?)
        } else if project.build.is_none() {
            Kind::Program
        } else if project.apply {
            Kind::Project { root: PathBuf::from("."), copy: None, touched: BTreeMap::new() }
        } else {
            if project.program.is_absolute() {
                return Err("name the program relative to this directory: it is built in a copy of it".into());
            }
            let copy = temporary()?;
            copy_tree(Path::new("."), copy.as_ref(), &|_| true).map_err(unable)?;
            let (from, to) = (here.to_string_lossy(), copy.as_ref().to_string_lossy());
            rename_paths(copy.as_ref(), &from, &to).map_err(unable)?;
            keep_dependencies(copy.as_ref(), &here).map_err(unable)?;
            Kind::Project { root: copy.as_ref().to_owned(), copy: Some(copy), touched: BTreeMap::new() }
        };
        Ok(Bench { project, checker, kind })
    }

    /// In any case, sources are restored, or left as they were checked and accepted: a fix with remaining errors is
    /// written only if partial fixes are allowed.
    pub fn finish(&mut self, fixed: Result<Outcome, String>) -> Result<Outcome, String> {
        if let Kind::Project { root, touched, .. } = &self.kind {
            let failed: Vec<String> = touched
                .iter()
                .filter_map(|(file, before)| {
                    let error = write(&root.join(file), before).err()?;
                    Some(format!("cannot write {file}: {error}"))
                })
                .collect();
            if !failed.is_empty() {
                return Err(failed.join("\n"));
            }
        }
        let mut outcome = fixed?;
        let clean = outcome.report.errors() == 0 && outcome.report.unknown.is_empty();
        if self.project.apply && (clean || self.project.keep_partial) && !outcome.changed.is_empty() {
            keep(&outcome)?;
            outcome.written = true;
        }
        Ok(outcome)
    }
}

/// Only sources of the project are changed: the names of others come from the program's debug information (`#line`), or
/// lead out of the project through a link.
fn is_below(path: &Path, directories: &[&Path]) -> Result<(), String> {
    let unreadable = |error| format!("the source cannot be read: {error}");
    let found = path.canonicalize().map_err(unreadable)?;
    for directory in directories {
        if found.starts_with(directory.canonicalize().map_err(unreadable)?) {
            return Ok(());
        }
    }
    Err("the source is outside the project directory, where nothing is changed".into())
}

/// Keeps the changes to the sources, in a way that can be undone.
fn keep(outcome: &Outcome) -> Result<(), String> {
    for changed in &outcome.changed {
        let now = std::fs::read_to_string(&changed.file);
        if now.ok().as_ref() != Some(&changed.before) {
            return Err(format!("{} changed in the meantime; it was left untouched", changed.file));
        }
    }
    undo::remember(Path::new("."), &outcome.changed)?;
    for changed in &outcome.changed {
        write(Path::new(&changed.file), &changed.after)
            .map_err(|error| format!("cannot write {}: {error}", changed.file))?;
    }
    Ok(())
}

/// Tells clang to find sources elsewhere.
fn overlay(directory: &Path, sources: &BTreeMap<String, String>) -> io::Result<Vec<OsString>> {
    if sources.is_empty() {
        return Ok(Vec::new());
    }
    let quoted = |path: &Path| format!("{:?}", path.display().to_string());
    let mut roots = Vec::new();
    for (number, (file, content)) in sources.iter().enumerate() {
        let there = directory.join(format!("{number}.source"));
        std::fs::write(&there, content)?;
        let here = std::path::absolute(file)?;
        roots.push(format!(
            "{{\"name\": {}, \"type\": \"file\", \"external-contents\": {}}}",
            quoted(&here),
            quoted(&there)
        ));
    }
    let text =
        format!("{{\"version\": 0, \"use-external-names\": false, \"roots\": [{}]}}\n", roots.join(", "));
    let path = directory.join("overlay.yaml");
    std::fs::write(&path, text)?;
    Ok(vec!["-ivfsoverlay".into(), path.into()])
}

impl<C: Checker, D: AsRef<Path>> Workshop for Bench<C, D> {
    /// As it is called from here: compilers may have seen files by where the copy is.
    fn name(&self, file: &str) -> String {
        let path = Path::new(file);
        let here = std::env::current_dir().unwrap_or_default();
        let copy = match &self.kind {
            Kind::Project { copy: Some(copy), .. } => path.strip_prefix(copy.as_ref()).ok(),
            _ => None,
        };
        let relative = copy.or_else(|| path.strip_prefix(&here).ok()).unwrap_or(path);
        // `./a.c`, `src/../a.c` and `a.c` are one file.
        let mut parts: Vec<&std::ffi::OsStr> = Vec::new();
        for part in relative.components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir if parts.last().is_some_and(|it| *it != ".." && *it != "/") => {
                    parts.pop();
                }
                other => parts.push(other.as_os_str()),
            }
        }
        parts.iter().collect::<PathBuf>().to_string_lossy().into_owned()
    }

    fn files(&mut self) -> Vec<String> {
        let mut found = Vec::new();
        match &self.kind {
            Kind::Source(_) => {
                let beside = self.project.program.parent().unwrap_or(Path::new(""));
                let entries = std::fs::read_dir(Path::new(".").join(beside)).into_iter().flatten().flatten();
                let names =
                    entries.map(|entry| beside.join(entry.file_name()).to_string_lossy().into_owned());
                found.extend(names.filter(|name| Language::of(name).is_some()));
            }
            Kind::Project { root, .. } => sources_below(root, Path::new(""), &mut found),
            Kind::Program => {}
        }
        found.sort();
        found
    }

    fn read(&mut self, file: &str) -> Result<String, String> {
        let path = match &self.kind {
            Kind::Source(_) => {
                let beside = self.project.program.parent().filter(|parent| !parent.as_os_str().is_empty());
                let path = PathBuf::from(file);
                is_below(&path, &[Path::new("."), beside.unwrap_or(Path::new("."))])?;
                path
            }
            Kind::Project { root, .. } => {
                let path = root.join(file);
                is_below(&path, &[root])?;
                path
            }
            Kind::Program => {
                let source = std::fs::metadata(file).and_then(|data| data.modified());
                let program = std::fs::metadata(&self.project.program).and_then(|data| data.modified());
                return Err(match (source, program) {
                    (Err(error), _) => format!("the source cannot be read: {error}"),
                    (Ok(source), Ok(program)) if source > program => {
                        "the source was changed since the program was built".into()
                    }
                    _ => "a fix is written only if it can be checked: say how to build with --build".into(),
                });
            }
        };
        std::fs::read_to_string(path).map_err(|error| format!("the source cannot be read: {error}"))
    }

    fn check(&mut self, sources: &BTreeMap<String, String>) -> Result<Report, Failed> {
        match &mut self.kind {
            Kind::Source(directory) => {
                let extra = overlay(directory.as_ref(), sources).map_err(broken)?;
                self.checker.check(Path::new(""), &extra)
            }
            Kind::Project { root, touched, .. } => {
                put_in_place(root, touched, sources)?;
                if let Some(command) = &self.project.build {
                    build(root, command)?;
                }
                self.checker.check(root, &[])
            }
            Kind::Program if sources.is_empty() => self.checker.check(Path::new(""), &[]),
            Kind::Program => Err(Failed::Build("it cannot be built".into())),
        }
    }
}

fn broken(error: io::Error) -> Failed {
    Failed::Check(error.to_string())
}

/// Writes these sources below a directory, and restores the ones changed before.
fn put_in_place(
    root: &Path,
    touched: &mut BTreeMap<String, String>,
    sources: &BTreeMap<String, String>,
) -> Result<(), Failed> {
    let write = |file: &String, content: &String| {
        write(&root.join(file), content)
            .map_err(|error| Failed::Check(format!("cannot write {file}: {error}")))
    };
    for (file, content) in touched.iter().filter(|(file, _)| !sources.contains_key(*file)) {
        write(file, content)?;
    }
    for (file, content) in sources {
        if !touched.contains_key(file) {
            let before = std::fs::read_to_string(root.join(file)).map_err(broken)?;
            touched.insert(file.clone(), before);
        }
        write(file, content)?;
    }
    Ok(())
}

/// Builds a project with a shell command.
fn build(root: &Path, command: &str) -> Result<(), Failed> {
    let mut shell = Command::new("sh");
    let output = output(shell.arg("-c").arg(command).current_dir(root)).map_err(broken)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failed::Build(format!("`{command}` fails\n{said}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_edited_and_put_back_and_the_project_is_not_touched() {
        let mut seen = Vec::new();
        let checker = |root: &Path, _: &[OsString]| {
            seen.push(std::fs::read_to_string(root.join("Cargo.toml")).expect("a copy"));
            Err(Failed::Check("not a program".into()))
        };
        let build = Some("test -f Cargo.toml".into());
        let project =
            Project { program: "program".into(), is_source: false, build, apply: false, keep_partial: false };
        let mut bench = Bench::new(project, checker, tempfile::tempdir).expect("a bench");
        let before = bench.read("Cargo.toml").expect("a source");
        let edited = BTreeMap::from([("Cargo.toml".to_owned(), "edited".to_owned())]);
        for sources in [&edited, &BTreeMap::new()] {
            assert!(matches!(bench.check(sources), Err(Failed::Check(_))));
        }
        drop(bench);
        assert_eq!(seen, ["edited", before.as_str()]);
        assert_eq!(std::fs::read_to_string("Cargo.toml").expect("still there"), before);
    }
}
