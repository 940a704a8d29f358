//! The command line. Two programs share it: `crashproof`, and `crashproof-llvm` for what needs LLVM (see `llvm`).

mod build;
mod cargo_command;
mod cc_lint;
mod check;
mod cluster;
mod doctor;
mod exit;
mod explain;
mod explore_runs;
mod fix;
mod init;
mod json_lines;
mod limits;
mod lint;
mod litmus;
mod llvm;
mod merge;
mod output;
mod progress;
mod prove;
mod replay;
mod replay_counterexample;
mod saved;
mod settings;
mod shell;
mod signals;
mod suite;
mod trust;

use std::ffi::OsString;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ColorChoice, Parser, Subcommand};
use crashproof_findings::config::Config;

use crate::exit::Exit;
use crate::llvm::Engines;
use crate::settings::Overrides;

/// Find, explain and rule out crash-consistency bugs in programs on persistent memory
#[derive(Parser)]
#[command(name = "crashproof", version, max_term_width = 100, after_help = exit::HELP)]
struct CommandLine {
    /// Read settings from FILE instead of the nearest crashproof.toml
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Run commands and load code that a replay token, a compilation database or a crashproof.toml of a parent directory
    /// names.
    #[arg(long, global = true)]
    trust: bool,

    /// Color the output
    #[arg(long, global = true, value_name = "WHEN", default_value_t = ColorChoice::Auto, value_enum)]
    color: ColorChoice,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Crash a program everywhere it matters and recover it from every state that may survive
    Check(check::Arguments),
    /// Add the flushes that `check` finds missing, and prove that they suffice
    Fix(fix::Arguments),
    /// Compile C for `check`; arguments are clang's
    #[command(disable_help_flag = true)]
    Cc {
        /// What clang is given.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Compile C++ for `check`; arguments are clang++'s
    #[command(name = "c++", disable_help_flag = true)]
    Cxx {
        /// What clang++ is given.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Check the tests of Rust crates (`cargo test`), or a program (`cargo run`); otherwise build them: arguments are cargo's
    #[command(disable_help_flag = true)]
    Cargo {
        /// What cargo is given.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Check a whole test suite: of ctest, of automake, or a list of commands
    Test(suite::Arguments),
    /// Check sources against a persistency model without running them
    Lint(lint::Arguments),
    /// List every state a crash may leave of a small program
    ///
    /// Every engine answers the same questions: which contents of persistent memory a crash can leave, which
    /// queries and assertions hold of them, and whether the program is robust, that is, whether a crash leaves
    /// only what a machine without volatile caches could leave.
    Litmus(litmus::Arguments),
    /// Prove a program's assertions over all schedules and crashes, or refute them
    Prove(prove::Arguments),
    /// Replay a failure that `check` found, under gdb with --debug
    Replay(replay::Arguments),
    /// Join the shards of a check into one report
    Merge(merge::Arguments),
    /// Explain a rule with examples, or list all rules
    Explain(explain::Arguments),
    /// Trust a directory: commands that files below it name may run without `--trust`
    Trust(trust::Arguments),
    /// Write a commented crashproof.toml
    Init,
    /// Check that the toolchain is complete
    Doctor,
    /// Print shell completions
    Completions {
        /// Which one.
        shell: clap_complete::Shell,
    },
    /// Print the manual page (`crashproof man | man -l -`)
    Man {
        /// Write one page for each command into DIRECTORY instead
        #[arg(long, value_name = "DIRECTORY")]
        out: Option<PathBuf>,
    },
}

/// Runs a command in a program linked with LLVM.
#[must_use]
pub fn with_llvm() -> ExitCode {
    run_or_apologize(&Engines::HERE)
}

/// Runs a command; commands that need LLVM run in the other program.
#[must_use]
pub fn without_llvm() -> ExitCode {
    run_or_apologize(&Engines::ELSEWHERE)
}

/// A panic is a bug of crashproof and has the corresponding exit code: scripts must not mistake it for a verdict.
fn run_or_apologize(engines: &Engines) -> ExitCode {
    std::panic::catch_unwind(AssertUnwindSafe(|| run(engines))).unwrap_or_else(|_| {
        anstream::eprintln!(
            "crashproof: this is a bug in crashproof, please report it with the message above"
        );
        Exit::Internal.into()
    })
}

/// Is this running under valgrind? It lacks address space for the memory shared with the program.
fn under_valgrind() -> bool {
    std::env::var_os("LD_PRELOAD").is_some_and(|all| all.to_string_lossy().contains("vgpreload"))
}

/// Advice for an argument meant for the compiler.
fn compiler_argument(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_compilers = |start: &str| argument.starts_with(start) && !argument.starts_with("--");
    // clap reports only the letter of a short option.
    let compilers = ["-I", "-D", "-U", "-L", "-l", "-m", "-O", "-W", "-f", "-g", "-s"];
    (error.kind() == ErrorKind::UnknownArgument && compilers.iter().any(|start| is_compilers(start))).then(|| {
        format!("{argument} is the compiler's: give it such arguments with --cflags, as in --cflags \"-Iinclude -O2\"")
    })
}

fn run(engines: &Engines) -> ExitCode {
    signals::reset();
    if under_valgrind() {
        anstream::eprintln!(
            "crashproof: valgrind has no room for the memory that crashproof shares with programs; run crashproof without it"
        );
        return Exit::Usage.into();
    }
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(code) = cargo_command::requested(&arguments) {
        return code;
    }
    if let Some(code) = fix::undo_requested(&arguments) {
        return code;
    }
    if let Some(code) = build::pass_through(&arguments, engines) {
        return code;
    }
    let command_line = match CommandLine::try_parse() {
        Ok(command_line) => command_line,
        Err(error) => {
            if let Some(hint) = compiler_argument(&error) {
                anstream::eprintln!("crashproof: {hint}");
                return Exit::Usage.into();
            }
            // Help and version go to standard output and are not errors.
            let _ = error.print();
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Clean };
            return exit.into();
        }
    };
    match command_line.color {
        ColorChoice::Auto => {}
        ColorChoice::Always => anstream::ColorChoice::Always.write_global(),
        ColorChoice::Never => anstream::ColorChoice::Never.write_global(),
    }
    if let Some(runtime) = crashproof_toolchain::toolchain::find_runtime() {
        crashproof_check::use_runtime(runtime);
    }
    let result = match &command_line.command {
        Command::Check(arguments) => with_settings(&command_line, |config| check::run(arguments, config)),
        Command::Fix(arguments) => with_settings(&command_line, |config| fix::run(arguments, config)),
        Command::Cc { .. } | Command::Cxx { .. } | Command::Cargo { .. } => {
            unreachable!("passed through before the command line was read")
        }
        Command::Lint(arguments) => {
            with_settings(&command_line, |config| (engines.lint)(arguments, config, command_line.trust))
        }
        Command::Test(arguments) => with_settings(&command_line, |config| {
            suite::run(arguments, config, command_line.config.as_deref())
        }),
        Command::Litmus(arguments) => with_settings(&command_line, |config| litmus::run(arguments, config)),
        Command::Prove(arguments) => {
            with_settings(&command_line, |config| (engines.prove)(arguments, config))
        }
        Command::Replay(arguments) => replay::run(arguments, command_line.trust),
        Command::Merge(arguments) => merge::run(arguments, command_line.trust),
        Command::Explain(arguments) => explain::run(arguments),
        Command::Trust(arguments) => trust::run(arguments),
        Command::Init => init::run(),
        Command::Doctor => doctor::run(merged(&command_line).as_ref().map_err(Clone::clone)),
        Command::Completions { shell } => shell::completions(*shell),
        Command::Man { out } => shell::manual(out.as_deref()),
    };
    match result {
        Ok(exit) => exit.into(),
        // The reader of our output has seen enough; that is not an error.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Exit::Clean.into(),
        Err(error) if exit::machine_limit(&error) => {
            anstream::eprintln!("crashproof: the machine is at a limit: {error}");
            Exit::Incomplete.into()
        }
        Err(error) => {
            anstream::eprintln!("crashproof: cannot write the report: {error}");
            Exit::Usage.into()
        }
    }
}

/// The settings for a command: the command line overrides the environment, which overrides the project's file.
fn merged(command_line: &CommandLine) -> Result<Config, String> {
    let file = match &command_line.config {
        Some(file) => Config::read(file),
        None => Config::find(&std::env::current_dir().unwrap_or_default()),
    };
    let mut settings = file.map_err(|error| error.to_string())?;
    let given = command_line.trust || command_line.config.is_some();
    if !given
        && let Command::Check(check) | Command::Fix(fix::Arguments { check, .. }) = &command_line.command
    {
        trust::allow_commands(&settings, check.recovers())?;
    }
    if !given && matches!(command_line.command, Command::Test(_)) {
        trust::allow_suite(&settings)?;
    }
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
