//! The command line.

mod build;
mod cc_lint;
mod check;
mod doctor;
mod exit;
mod explain;
mod fix;
mod init;
mod json_lines;
mod lint;
mod litmus;
mod output;
mod progress;
mod prove;
mod replay;
mod replay_counterexample;
mod settings;
mod shell;
mod signals;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use crashproof_findings::config::Config;

use crate::exit::Exit;
use crate::settings::Overrides;

/// Finds, explains and rules out crash-consistency bugs in programs that keep their data in persistent memory.
#[derive(Parser)]
#[command(name = "crashproof", version, max_term_width = 100, after_help = exit::HELP)]
struct CommandLine {
    /// Read this instead of the nearest crashproof.toml.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Crash a program everywhere it matters and recover it from every state that may survive.
    Check(check::Arguments),
    /// Write the flushes that `check` finds missing, and check again until none is.
    Fix(fix::Arguments),
    /// Compile C as clang does, for `check`; all arguments go to clang.
    #[command(disable_help_flag = true)]
    Cc {
        /// What clang is given.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Compile C++ as clang++ does, for `check`; all arguments go to clang++.
    #[command(name = "c++", disable_help_flag = true)]
    Cxx {
        /// What clang++ is given.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Run cargo so that it builds Rust crates for `check`; all arguments go to cargo.
    #[command(disable_help_flag = true)]
    Cargo {
        /// What cargo is given.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Hold sources against a persistency model without running them; find wasted flushes.
    Lint(lint::Arguments),
    /// Show everything that may be left of a small program after a crash.
    ///
    /// Every engine answers the same questions: which contents of persistent memory a crash can leave, which
    /// queries and assertions hold of them, and whether the program is robust, that is, whether a crash leaves
    /// only what a machine without volatile caches could leave.
    Litmus(litmus::Arguments),
    /// Prove that what a program claims holds in every schedule and from every crash, or show where it does not.
    Prove(prove::Arguments),
    /// Show one failure that `check` found again, exactly as it was.
    Replay(replay::Arguments),
    /// Explain a rule, with an example that breaks it and one that does not; or list all rules.
    Explain(explain::Arguments),
    /// Write a commented crashproof.toml, which all commands read.
    Init,
    /// Say what of the toolchain is there, and what to do about the rest.
    Doctor,
    /// Print completions for a shell.
    Completions {
        /// Which one.
        shell: clap_complete::Shell,
    },
    /// Print the manual page; `crashproof man | man -l -` shows it.
    Man,
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(code) = build::pass_through(&arguments) {
        return code;
    }
    let command_line = match CommandLine::try_parse() {
        Ok(command_line) => command_line,
        Err(error) => {
            // Help and version go to standard output and are no error.
            let _ = error.print();
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Clean };
            return exit.into();
        }
    };
    let result = match &command_line.command {
        Command::Check(arguments) => with_settings(&command_line, |config| check::run(arguments, config)),
        Command::Fix(arguments) => with_settings(&command_line, |config| fix::run(arguments, config)),
        Command::Cc { .. } | Command::Cxx { .. } | Command::Cargo { .. } => {
            unreachable!("passed through before the command line was read")
        }
        Command::Lint(arguments) => with_settings(&command_line, |config| lint::run(arguments, config)),
        Command::Litmus(arguments) => with_settings(&command_line, |config| litmus::run(arguments, config)),
        Command::Prove(arguments) => with_settings(&command_line, |config| prove::run(arguments, config)),
        Command::Replay(arguments) => replay::run(arguments),
        Command::Explain(arguments) => explain::run(arguments),
        Command::Init => init::run(),
        Command::Doctor => doctor::run(merged(&command_line).as_ref().map_err(Clone::clone)),
        Command::Completions { shell } => shell::completions(*shell),
        Command::Man => shell::manual(),
    };
    match result {
        Ok(exit) => exit.into(),
        // Whoever reads our output has seen enough; that is no error.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Exit::Clean.into(),
        Err(error) => {
            anstream::eprintln!("crashproof: cannot write the report: {error}");
            Exit::Usage.into()
        }
    }
}

/// The settings for a command: the command line over the environment over the project's file.
fn merged(command_line: &CommandLine) -> Result<Config, String> {
    let file = match &command_line.config {
        Some(file) => Config::read(file),
        None => Config::find(&std::env::current_dir().unwrap_or_default()),
    };
    let mut settings = file.map_err(|error| error.to_string())?;
    settings::environment(&mut settings);
    let options: &dyn Overrides = match &command_line.command {
        Command::Check(arguments) => arguments,
        Command::Fix(arguments) => &arguments.check,
        Command::Prove(arguments) => &arguments.machine,
        Command::Litmus(arguments) => &arguments.machine,
        _ => return Ok(settings),
    };
    options.write_over(&mut settings);
    Ok(settings)
}

fn with_settings(
    command_line: &CommandLine,
    run: impl FnOnce(&Config) -> std::io::Result<Exit>,
) -> std::io::Result<Exit> {
    match merged(command_line) {
        Ok(settings) => run(&settings),
        Err(message) => {
            anstream::eprintln!("crashproof: {message}");
            Ok(Exit::Usage)
        }
    }
}
