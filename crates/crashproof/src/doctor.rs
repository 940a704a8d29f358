//! `crashproof doctor`: which parts of the toolchain are present, and how to install the missing ones.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

use crashproof_check::{Level, Options, permitted_level};
use crashproof_findings::config::Config;
use crashproof_findings::rules::check::RECOVERY_FAILS;
use crashproof_toolchain::{Toolchain, output};

use crate::build::Programs;
use crate::exit::Exit;

/// The result of looking for one part.
enum Found {
    /// Present: its location or version.
    Well(String),
    /// Missing but optional: what is impossible without it, and what to do.
    Without(String),
    /// Missing but required: what to do.
    Missing(String),
}

pub(crate) fn run(config: Result<&Config, String>) -> io::Result<Exit> {
    let mut out = anstream::stdout().lock();
    let mut exit = Exit::Clean;
    let mut say = |what: &str, found: Found| {
        let (mark, text) = match &found {
            Found::Well(text) => ("ok", text),
            Found::Without(text) => ("--", text),
            Found::Missing(text) => {
                exit = Exit::Usage;
                ("!!", text)
            }
        };
        let mut lines = text.lines();
        writeln!(out, "{mark}  {what:10} {}", lines.next().unwrap_or(""))?;
        lines.try_for_each(|line| writeln!(out, "{:15}{}", "", line.trim_start()))
    };
    let toolchain = Toolchain::find();
    match &toolchain {
        Ok(toolchain) => {
            say("clang", version(&toolchain.compilers.clang))?;
            say("clang++", version(&toolchain.compilers.clang_cxx))?;
            say("plugin", Found::Well(toolchain.plugin.display().to_string()))?;
            let runtime = toolchain.runtime().map(|path| path.display().to_string());
            say("runtime", runtime.map_or_else(|error| Found::Missing(error.to_string()), Found::Well))?;
            let header = match &toolchain.compilers.include {
                Some(directory) => Found::Well(directory.join("crashproof.h").display().to_string()),
                None => Found::Without(
                    "crashproof.h was not found: programs that include it do not build\nset CRASHPROOF_INCLUDE to its \
                     directory"
                        .into(),
                ),
            };
            say("header", header)?;
        }
        Err(error) => say("toolchain", Found::Missing(error.to_string()))?,
    }
    let lld = ["ld.lld-22", "ld.lld"].into_iter().find_map(|name| first_line(Path::new(name)));
    say(
        "lld",
        lld.map_or_else(|| Found::Without("needed for Rust programs: install lld-22".into()), Found::Well),
    )?;
    say("rustc", rustc())?;
    let gdb = first_line(Path::new("gdb"));
    say(
        "gdb",
        gdb.map_or_else(
            || Found::Without("needed for `crashproof replay --debug`: install gdb".into()),
            Found::Well,
        ),
    )?;
    say(
        "settings",
        match config {
            Ok(Config { file: Some(file), .. }) => Found::Well(file.display().to_string()),
            Ok(_) => Found::Without(
                "no crashproof.toml here or in a parent directory; `crashproof init` writes one".into(),
            ),
            Err(message) => Found::Missing(message),
        },
    )?;
    say("sandbox", sandbox())?;
    if toolchain.is_ok() {
        say("trial", trial())?;
    }
    out.flush()?;
    Ok(exit)
}

/// The isolation of programs under test from the rest of the machine.
fn sandbox() -> Found {
    let limits = "memory and processor time of each run are limited";
    match permitted_level() {
        Level::Full => Found::Well(format!(
            "programs have processes, network (loopback only) and /proc of their own\n\
             what they write goes to memory and is forgotten\n{limits}"
        )),
        Level::Processes => Found::Without(format!(
            "the kernel does not permit private files: programs can change the user's files\n\
             processes and network are their own, {limits}"
        )),
        Level::Off => Found::Without(format!(
            "the kernel or this container does not permit user namespaces: programs run with the user's rights\n{limits}"
        )),
    }
}

/// The first line of a program's version output.
fn first_line(program: &Path) -> Option<String> {
    let output = output(Command::new(program).arg("--version")).ok().filter(|it| it.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned())
}

fn version(program: &Path) -> Found {
    match first_line(program) {
        Some(line) => Found::Well(format!("{}: {line}", program.display())),
        None => Found::Missing(format!("{} does not say its version", program.display())),
    }
}

/// Rust programs need a compiler with the LLVM of the plugin.
fn rustc() -> Found {
    let command = std::env::var_os("RUSTC").unwrap_or_else(|| OsStr::new("rustc").into());
    let Ok(output) = output(Command::new(command).arg("-vV")) else {
        return Found::Without("needed for Rust programs: install the Rust toolchain".into());
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let of =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("?").trim().to_owned();
    let (release, llvm) = (of("release:"), of("LLVM version:"));
    if llvm.starts_with("22.") {
        Found::Well(format!("{release}, with LLVM {llvm}"))
    } else {
        Found::Without(format!("{release} has LLVM {llvm}; Rust programs need one with LLVM 22"))
    }
}

/// Builds a small buggy program and finds the bug: proof that everything works together.
fn trial() -> Found {
    let found = || -> Result<usize, String> {
        let directory = std::env::temp_dir().join(format!("crashproof-doctor-{}", std::process::id()));
        std::fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let source = directory.join(RECOVERY_FAILS.bad.file);
        let result = std::fs::write(&source, RECOVERY_FAILS.bad.source)
            .map_err(|error| format!("{}: {error}", source.display()))
            .and_then(|()| Programs::new(std::slice::from_ref(&source), None, &[]))
            .and_then(|programs| {
                let options = Options::new(programs.program.path.clone(), Vec::new());
                crashproof_check::check(&options).map_err(|error| error.to_string())
            });
        let _ = std::fs::remove_dir_all(&directory);
        Ok(result?.findings.len())
    };
    match found() {
        Ok(0) => Found::Missing("a program with a bug was built and checked, and nothing was found".into()),
        Ok(_) => Found::Well("built a program with a bug, and found it".into()),
        Err(message) => Found::Missing(format!("a program could not be built and checked\n{message}")),
    }
}
