//! `crashproof cc` and `crashproof c++`: the clang command that instruments what a build system compiles and links.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::arguments::{self, Request};
use crate::{Error, Language, Toolchain, libpmem};

/// A compiler command, and the warnings to print before it runs.
#[derive(Debug)]
pub struct Plan {
    /// clang with everything added.
    pub command: Command,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// The clang command for a compiler command line, with everything added that instrumentation needs.
///
/// # Errors
///
/// If the runtime is needed and missing, or the command line asks for what cannot work.
pub fn plan(language: Language, arguments: &[OsString], toolchain: &Toolchain) -> Result<Plan, Error> {
    plan_for(language, arguments, toolchain, true)
}

/// The same for a build that is only linted: the plugin hands each module on and changes nothing, and no runtime is linked.
///
/// # Errors
///
/// If the command line asks for what cannot work.
pub fn plan_lint(language: Language, arguments: &[OsString], toolchain: &Toolchain) -> Result<Plan, Error> {
    plan_for(language, arguments, toolchain, false)
}

fn plan_for(
    language: Language,
    arguments: &[OsString],
    toolchain: &Toolchain,
    instrumented: bool,
) -> Result<Plan, Error> {
    let request = Request::read(arguments)?;
    let mut command = Command::new(toolchain.compilers.driver(language));
    let mut warnings = Vec::new();
    if !request.has_inputs {
        command.args(arguments);
        return Ok(Plan { command, warnings });
    }
    for file in request.assembly.iter().filter(|_| instrumented) {
        warnings
            .push(format!("{file}: an assembly file is not instrumented; what it does to PM is not seen"));
    }
    // Not every option added is used in every mode; what the user gives unused is still reported.
    command.arg("--start-no-unused-arguments");
    command.arg(joined("-fpass-plugin=", &toolchain.plugin));
    if let Some(include) = &toolchain.compilers.include {
        command.arg("-isystem").arg(include);
    }
    let ours =
        if instrumented { libpmem::without(&arguments::expanded(arguments, Path::new(""))?) } else { None };
    command.arg("--end-no-unused-arguments").args(ours.as_deref().unwrap_or(arguments));
    command.arg("--start-no-unused-arguments");
    if !request.debug_info {
        // The site table is made from it.
        command.arg("-g");
    }
    if let Some(option) = request.link_time_optimization.as_ref().filter(|_| instrumented) {
        warnings.push(format!("link-time optimization ({option}) is switched off"));
        command.args(["-fno-lto", "-fno-whole-program-vtables"]);
    }
    if instrumented && request.links && !request.relocatable {
        link_runtime(&mut command, &request, toolchain.runtime()?)?;
    }
    command.arg("--end-no-unused-arguments");
    Ok(Plan { command, warnings })
}

fn link_runtime(command: &mut Command, request: &Request, runtime: &Path) -> Result<(), Error> {
    let is_archive = runtime.extension() == Some(OsStr::new("a"));
    if let Some(option) = request.static_program.as_ref().filter(|_| !is_archive) {
        return Err(Error::Static { option: option.clone() });
    }
    // A language given by -x is meant for sources.
    command.args(["-x", "none"]).arg(runtime);
    if let Some(directory) = runtime.parent().filter(|_| !is_archive) {
        // Not -Wl, which splits at commas. The old kind of tag goes before LD_LIBRARY_PATH: no other build
        // of the runtime may come in between.
        command.args(["-Xlinker", "--disable-new-dtags", "-Xlinker"]).arg(joined("-rpath=", directory));
    }
    Ok(())
}

pub(crate) fn joined(prefix: &str, path: &Path) -> OsString {
    let mut joined = OsString::from(prefix);
    joined.push(path);
    joined
}

/// Runs a driver; returns the exit code of the process.
#[must_use]
pub fn main(language: Language, arguments: &[OsString]) -> ExitCode {
    if arguments.iter().any(|argument| argument.as_encoded_bytes().starts_with(b"--lint")) {
        // The analysis is part of the large program beside this one.
        let command = if language == Language::C { "cc" } else { "c++" };
        let program = env::current_exe().unwrap_or_default().with_file_name("crashproof");
        let mut whole = Command::new(program);
        whole.arg(command).args(arguments);
        return fail(&replace_by(whole));
    }
    let planned = Toolchain::find().and_then(|toolchain| plan(language, arguments, &toolchain));
    let error = match planned {
        Ok(Plan { command, warnings }) => {
            for warning in warnings {
                eprintln!("crashproof: warning: {warning}");
            }
            replace_by(command)
        }
        Err(error) => error,
    };
    fail(&error)
}

/// Becomes the command. Returns only if that fails.
pub(crate) fn replace_by(mut command: Command) -> Error {
    let cause = command.exec();
    Error::Run { program: command.get_program().into(), cause }
}

pub(crate) fn fail(error: &Error) -> ExitCode {
    eprintln!("crashproof: error: {error}");
    ExitCode::FAILURE
}
