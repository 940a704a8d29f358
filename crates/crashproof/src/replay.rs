//! `crashproof replay`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use crashproof_check::Token;

use crate::build::Programs;
use crate::exit::Exit;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The token that `crashproof check` printed.
    #[arg(value_name = "TOKEN")]
    token: String,

    /// Run the failing recovery under gdb.
    #[arg(long)]
    debug: bool,
}

/// gdb follows the recovery, which is a child of the parked program.
const DEBUGGER: [&str; 11] = [
    "gdb",
    "-q",
    "-ex",
    "set follow-fork-mode child",
    "-ex",
    "set breakpoint pending on",
    "-ex",
    "break __crashproof_assert_failed",
    "-ex",
    "run",
    "--args",
];

pub(crate) fn run(arguments: &Arguments) -> io::Result<Exit> {
    let Some(token) = Token::decode(&arguments.token) else {
        anstream::eprintln!(
            "crashproof: this is not a replay token; copy it whole from the report of `crashproof check`"
        );
        return Ok(Exit::Usage);
    };
    let debugger: Vec<OsString> = DEBUGGER.iter().map(OsString::from).collect();
    let recover = token.recover.first().map(PathBuf::from);
    let given: Vec<PathBuf> =
        std::iter::once(&token.program).chain(&token.more_sources).map(PathBuf::from).collect();
    let cflags: Vec<OsString> = token.cflags.iter().map(OsString::from).collect();
    let programs = match Programs::new(&given, recover.as_deref(), &cflags) {
        Ok(programs) => programs,
        Err(message) => {
            anstream::eprintln!("crashproof: {message}");
            return Ok(Exit::Usage);
        }
    };
    let (program, recover) = (programs.program.path.clone(), programs.recovery().map(Path::to_owned));
    let debugger = arguments.debug.then_some(&debugger[..]);
    let replay = match crashproof_check::replay(&token, program, recover, debugger) {
        Ok(replay) => replay,
        Err(error) => {
            anstream::eprintln!("crashproof: {error}");
            return Ok(Exit::Usage);
        }
    };
    let mut out = anstream::stdout().lock();
    if !replay.output.is_empty() {
        writeln!(out, "{}", replay.output)?;
    }
    match replay.failure {
        Some(failure) => {
            writeln!(out, "recovery {}", failure.describe())?;
            Ok(Exit::Findings)
        }
        None => {
            writeln!(out, "recovery ends well: the failure does not show any more")?;
            Ok(Exit::Clean)
        }
    }
}
