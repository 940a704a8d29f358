//! Where a program is built and checked while it is being fixed: sources stay as they were until a fix is wanted.
//!
//! A single source is compiled with its edited text in place of the file's, a project is edited in a copy, or in place if
//! the edits are wanted for good. How a program is compiled and checked is the [`Checker`]'s to know.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crashproof_check::Report;

use crate::edit::write;
use crate::fixer::{Failed, Outcome, Workshop};

/// Builds and checks the program below a directory. `extra` are more arguments for the compiler, if there is something to
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
    /// The shell command that builds the program otherwise; none if nobody can.
    pub build: Option<String>,
    /// Are the sources to be changed for good?
    pub apply: bool,
}

/// A project on the bench. `D` is a temporary directory that is gone when dropped.
pub struct Bench<C, D> {
    project: Project,
    checker: C,
    kind: Kind<D>,
}

enum Kind<D> {
    /// One source, which the compiler finds elsewhere: in a directory that is removed.
    Source(D),
    /// A project, or a copy of it, and the sources that were changed there, as they were.
    Project { root: PathBuf, copy: Option<D>, touched: BTreeMap<String, String> },
    /// A program that nobody can build.
    Program,
}

/// Copies a directory, without what version control keeps.
fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            if entry.file_name() != ".git" {
                std::fs::create_dir(&target)?;
                copy_tree(&entry.path(), &target)?;
            }
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(entry.path())?, &target)?;
        } else if kind.is_file() {
            std::fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

impl<C: Checker, D: AsRef<Path>> Bench<C, D> {
    /// Prepares to fix a project, with a temporary directory if one is needed.
    pub fn new(
        project: Project,
        checker: C,
        temporary: impl FnOnce() -> io::Result<D>,
    ) -> Result<Bench<C, D>, String> {
        let temporary = || temporary().map_err(|error| format!("no temporary directory: {error}"));
        let kind = if project.is_source {
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
            copy_tree(Path::new("."), copy.as_ref())
                .map_err(|error| format!("cannot copy the project: {error}"))?;
            Kind::Project { root: copy.as_ref().to_owned(), copy: Some(copy), touched: BTreeMap::new() }
        };
        Ok(Bench { project, checker, kind })
    }

    /// Whatever came of it, sources are left as they were, or as they were checked and are wanted.
    pub fn finish(&mut self, fixed: Result<Outcome, String>) -> Result<Outcome, String> {
        let wanted: BTreeMap<&str, &str> = match &fixed {
            Ok(outcome) => outcome
                .changed
                .iter()
                .map(|changed| (changed.file.as_str(), changed.after.as_str()))
                .collect(),
            Err(_) => BTreeMap::new(),
        };
        if let Kind::Project { root, touched, .. } = &self.kind {
            let mut failed = Vec::new();
            for (file, before) in touched {
                let content = wanted.get(file.as_str()).copied().unwrap_or(before);
                if let Err(error) = write(&root.join(file), content) {
                    failed.push(format!("cannot write {file}: {error}"));
                }
            }
            if !failed.is_empty() {
                return Err(failed.join("\n"));
            }
        }
        let mut outcome = fixed?;
        if self.project.apply && matches!(self.kind, Kind::Source(_)) {
            keep(&outcome)?;
        }
        // Compilers may have seen files by where the copy is; people know them by where they come from.
        if let Kind::Project { copy: Some(copy), .. } = &self.kind {
            for changed in &mut outcome.changed {
                if let Ok(file) = Path::new(&changed.file).strip_prefix(copy.as_ref()) {
                    changed.file = file.display().to_string();
                }
            }
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
    Err("the source is outside of the project directory, where nothing is changed".into())
}

/// Changes the sources for good.
fn keep(outcome: &Outcome) -> Result<(), String> {
    for changed in &outcome.changed {
        let now = std::fs::read_to_string(&changed.file);
        if now.ok().as_ref() != Some(&changed.before) {
            return Err(format!("{} was changed meanwhile; nothing was written to it", changed.file));
        }
    }
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
    fn read(&mut self, file: &str) -> Result<String, String> {
        let path = match &self.kind {
            Kind::Source(_) => {
                let beside = self.project.program.parent().filter(|parent| !parent.as_os_str().is_empty());
                let path = PathBuf::from(file);
                is_below(&path, &[Path::new("."), beside.unwrap_or(Path::new("."))])?;
                path
            }
            Kind::Project { root, copy, .. } => {
                let path = root.join(file);
                // As CMake does it, which remembers where it was set up.
                let elsewhere = copy.is_some() && !path.starts_with(root);
                if elsewhere && std::env::current_dir().is_ok_and(|here| path.starts_with(here)) {
                    return Err("the build uses the project's own directory, not the copy it runs in: \
                                use --apply, or build into a new directory"
                        .into());
                }
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
                build(root, self.project.build.as_deref().unwrap_or("true"))?;
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

/// Writes these sources below a directory, and the ones that were changed before back as they were.
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
    let output = Command::new("sh").arg("-c").arg(command).current_dir(root).output().map_err(broken)?;
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
        let project = Project { program: "program".into(), is_source: false, build, apply: false };
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
