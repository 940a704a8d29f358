//! Compiles sources: to bitcode for the engines that read code, to an instrumented program for the one that runs it.
//!
//! Every engine compiles with the same target features and the same header, so that what one accepts all accept. What
//! the user adds (`--cflags`, or what follows `--`) comes last, and so wins.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::toolchain::Compilers;
use crate::{Error, FileKind, Language, Toolchain, cargo, driver};

/// Instructions of persistent memory that clang does not offer unasked. They change no other code.
const FEATURES: [&str; 2] = ["-mclwb", "-mclflushopt"];

impl Compilers {
    /// The command that compiles a source to bitcode, but for source and output. The optimizer is kept away: every
    /// access of the source to memory is in the bitcode, in order, with types and variables as the source has them. -O1 is
    /// for the front end: no `optnone`, no memory for every temporary.
    #[must_use]
    pub fn to_bitcode(&self, language: Language) -> Command {
        let mut command = self.to_bitcode_as(language, &[]);
        command.args(FEATURES);
        command
    }

    /// The same for a source of a build that says itself how it compiles; target features are as the build has them.
    #[must_use]
    pub fn to_bitcode_as(&self, language: Language, options: &[String]) -> Command {
        let mut command = Command::new(self.driver(language));
        command.args(options);
        command.args(["-c", "-emit-llvm", "-O1", "-Xclang", "-disable-llvm-passes", "-g", "-w"]);
        command.args(["-Qunused-arguments", "-U_FORTIFY_SOURCE", "-fno-stack-protector"]);
        if let Some(include) = &self.include {
            command.arg("-isystem").arg(include);
        }
        command
    }
}

/// Runs a compiler on a source; its messages are the error if it fails.
///
/// # Errors
///
/// If it cannot be started, or the source does not compile.
pub fn run(command: &mut Command, source: &Path) -> Result<(), Error> {
    let output = crate::output(command)
        .map_err(|cause| Error::Run { program: command.get_program().into(), cause })?;
    if output.status.success() {
        return Ok(());
    }
    let messages = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    Err(Error::Compile { source_file: source.to_owned(), messages })
}

impl Toolchain {
    /// The command that builds one instrumented program from sources: C and C++ in any mixture, or one Rust source.
    ///
    /// # Errors
    ///
    /// If there is no runtime, or the sources cannot be built together.
    pub fn to_program(
        &self,
        sources: &[PathBuf],
        arguments: &[OsString],
        program: &Path,
    ) -> Result<driver::Plan, Error> {
        let kinds: Vec<Option<FileKind>> = sources.iter().map(|source| FileKind::of(source)).collect();
        if kinds.contains(&Some(FileKind::Rust)) {
            return match sources {
                [source] => self.rust_program(source, arguments, program),
                _ => Err(Error::SeveralRust),
            };
        }
        let is_cxx = |kind: &Option<FileKind>| *kind == Some(FileKind::Source(Language::Cxx));
        // clang++ would compile C as C++; clang decides by file name, and only needs to link like clang++.
        let language = if kinds.iter().all(is_cxx) { Language::Cxx } else { Language::C };
        let mut all: Vec<OsString> =
            ["-O1", "-g", "-pthread"].iter().chain(&FEATURES).map(OsString::from).collect();
        all.extend(sources.iter().map(OsString::from));
        all.extend(arguments.iter().cloned());
        if language == Language::C && kinds.iter().any(is_cxx) {
            all.extend(["-lstdc++".into(), "-lm".into()]);
        }
        all.extend(["-o".into(), program.into()]);
        driver::plan(language, &all, self)
    }

    fn rust_program(
        &self,
        source: &Path,
        arguments: &[OsString],
        program: &Path,
    ) -> Result<driver::Plan, Error> {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut all = vec![rustc, "--edition=2024".into(), "-g".into(), "-O".into()];
        all.push(format!("--target={}", cargo::TARGET).into());
        // A file may be called what a crate may not.
        all.push("--crate-name=program".into());
        all.extend([source.into(), "-o".into(), program.into()]);
        all.extend(arguments.iter().cloned());
        let mut words = cargo::wrapped(&all, self)?.into_iter();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        Ok(driver::Plan { command, warnings: Vec::new() })
    }
}
