//! `crashproof fix`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use clap::Args;
use crashproof_check::Report;
use crashproof_findings::config::Config;
use crashproof_fix::{Failed, Macros, Outcome, Workshop};
use crashproof_report::fix_text;

use crate::build::{self, Programs};
use crate::check;
use crate::exit::Exit;
use crate::progress::Watch;
use crate::signals::{Orderly, Scratch};

#[derive(Args)]
// `check` has a group of this name.
#[group(skip)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) check: check::Arguments,

    /// Change the sources; otherwise the change is only shown, as a unified diff.
    #[arg(long)]
    apply: bool,

    /// How to build the program anew, if it is not a single source: a command for the shell. Without `--apply` it
    /// runs in a copy of this directory.
    #[arg(long, value_name = "COMMAND")]
    build: Option<String>,

    /// The project's own way to flush, such as `FLUSH({addr}, {len})`; otherwise as each file does it: crashproof.h,
    /// libpmem or intrinsics.
    #[arg(long, value_name = "CODE")]
    flush_macro: Option<String>,

    /// The project's own way to fence, if the flush does not do it.
    #[arg(long, value_name = "CODE", requires = "flush_macro")]
    fence_macro: Option<String>,

    /// Remove flushes and fences that never did anything, too.
    #[arg(long)]
    remove_redundant: bool,
}

pub(crate) fn run(arguments: &Arguments, config: &Config) -> io::Result<Exit> {
    let options = crashproof_fix::Options {
        macros: macros(arguments, config),
        remove_redundant: arguments.remove_redundant,
    };
    // What was changed in sources is changed back before anything ends.
    let _orderly = Orderly::new()?;
    let fixed = match bench(arguments, config) {
        Ok(mut bench) => {
            let fixed = crashproof_fix::fix(&mut bench, &options);
            bench.finish(fixed)
        }
        Err(message) => Err(message),
    };
    match fixed {
        Ok(outcome) => {
            let mut out = anstream::stdout().lock();
            write!(out, "{}", fix_text::outcome(&outcome, arguments.apply))?;
            out.flush()?;
            Ok(match (outcome.report.errors(), outcome.report.unknown.is_empty()) {
                (0, true) => Exit::Clean,
                (0, false) => Exit::Incomplete,
                _ => Exit::Findings,
            })
        }
        Err(message) => {
            anstream::eprintln!("crashproof: {message}");
            Ok(Exit::Usage)
        }
    }
}

/// The project's own way to flush, from the command line or the settings.
fn macros(arguments: &Arguments, config: &Config) -> Option<Macros> {
    match &arguments.flush_macro {
        Some(flush) => Some(Macros { flush: flush.clone(), fence: arguments.fence_macro.clone() }),
        None => Some(Macros { flush: config.fix.flush.clone()?, fence: config.fix.fence.clone() }),
    }
}

/// Where the program is built and checked.
struct Bench<'a> {
    arguments: &'a Arguments,
    config: &'a Config,
    kind: Kind,
}

enum Kind {
    /// One source, which the compiler is told to find elsewhere; sources and program in a directory that goes away.
    Source(Scratch),
    /// A project, or a copy of it, and the sources that were changed there, as they were.
    Project { root: PathBuf, copy: Option<Scratch>, touched: BTreeMap<String, String> },
    /// A program that nobody can build.
    Program,
}

fn bench<'a>(arguments: &'a Arguments, config: &'a Config) -> Result<Bench<'a>, String> {
    let temporary = || Scratch::new().map_err(|error| format!("no temporary directory: {error}"));
    let kind = if build::language(&arguments.check.program).is_some() {
        Kind::Source(temporary()?)
    } else if arguments.build.is_none() {
        Kind::Program
    } else if arguments.apply {
        Kind::Project { root: PathBuf::from("."), copy: None, touched: BTreeMap::new() }
    } else {
        if arguments.check.program.is_absolute() {
            return Err("name the program relative to this directory: it is built in a copy of it".into());
        }
        let copy = temporary()?;
        copy_tree(Path::new("."), copy.path())
            .map_err(|error| format!("cannot copy the project: {error}"))?;
        Kind::Project { root: copy.path().to_owned(), copy: Some(copy), touched: BTreeMap::new() }
    };
    Ok(Bench { arguments, config, kind })
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

impl Bench<'_> {
    /// Whatever came of it, sources are left as they were, or as they were checked and are wanted.
    fn finish(&mut self, fixed: Result<Outcome, String>) -> Result<Outcome, String> {
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
                if let Err(error) = crashproof_fix::write(&root.join(file), content) {
                    failed.push(format!("cannot write {file}: {error}"));
                }
            }
            if !failed.is_empty() {
                return Err(failed.join("\n"));
            }
        }
        let mut outcome = fixed?;
        if self.arguments.apply && matches!(self.kind, Kind::Source(_)) {
            keep(&outcome)?;
        }
        // Compilers may have seen files by where the copy is; people know them by where they come from.
        if let Kind::Project { copy: Some(copy), .. } = &self.kind {
            for changed in &mut outcome.changed {
                if let Ok(file) = Path::new(&changed.file).strip_prefix(copy.path()) {
                    changed.file = file.display().to_string();
                }
            }
        }
        Ok(outcome)
    }

    /// Checks the program as `crashproof check` would, found or built below a directory.
    fn checked(&self, root: &Path, extra: &[OsString]) -> Result<Report, Failed> {
        let arguments = &self.arguments.check;
        let recovery = check::recovery(self.config).map_err(Failed::Check)?;
        let (given, cflags) = (arguments.given(), [&arguments.cflags(), extra].concat());
        let programs =
            Programs::below(root, &given, recovery.first().map(Path::new), &cflags).map_err(Failed::Build)?;
        let options = check::options(arguments, self.config, &programs, &recovery).map_err(Failed::Check)?;
        let watch = Watch::start(Arc::clone(&options.monitor));
        let _watch = watch.map_err(|error| Failed::Check(error.to_string()))?;
        let report = crashproof_check::check(&options).map_err(|error| Failed::Check(error.to_string()))?;
        if options.monitor.cancelled() {
            return Err(Failed::Check("interrupted; nothing was changed".into()));
        }
        Ok(report)
    }
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
        crashproof_fix::write(Path::new(&changed.file), &changed.after)
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

impl Workshop for Bench<'_> {
    fn read(&mut self, file: &str) -> Result<String, String> {
        let path = match &self.kind {
            Kind::Source(_) => PathBuf::from(file),
            Kind::Project { root, copy, .. } => {
                let path = root.join(file);
                // As CMake does it, which remembers where it was set up.
                let elsewhere = copy.is_some() && !path.starts_with(root);
                if elsewhere && std::env::current_dir().is_ok_and(|here| path.starts_with(here)) {
                    return Err("the build uses the project's own directory, not the copy it runs in: \
                                use --apply, or build into a new directory"
                        .into());
                }
                path
            }
            Kind::Program => {
                let source = std::fs::metadata(file).and_then(|data| data.modified());
                let program =
                    std::fs::metadata(&self.arguments.check.program).and_then(|data| data.modified());
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
        let broken = |error: io::Error| Failed::Check(error.to_string());
        match &mut self.kind {
            Kind::Source(directory) => {
                let extra = overlay(directory.path(), sources).map_err(broken)?;
                self.checked(Path::new(""), &extra)
            }
            Kind::Project { root, touched, .. } => {
                let write = |file: &String, content: &String| {
                    crashproof_fix::write(&root.join(file), content)
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
                let command = self.arguments.build.as_deref().unwrap_or("true");
                let output =
                    Command::new("sh").arg("-c").arg(command).current_dir(&*root).output().map_err(broken)?;
                if !output.status.success() {
                    let said = String::from_utf8_lossy(&output.stderr).into_owned();
                    return Err(Failed::Build(format!("`{command}` fails\n{said}")));
                }
                let root = root.clone();
                self.checked(&root, &[])
            }
            Kind::Program if sources.is_empty() => self.checked(Path::new(""), &[]),
            Kind::Program => Err(Failed::Build("it cannot be built".into())),
        }
    }
}
