//! Exit codes, the same for all commands.

use std::process::ExitCode;

/// The result of a command; for several, the worst counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// No finding of level error.
    Clean,
    /// No error was found, but a limit was hit, something was not understood, or there was nothing to judge.
    Incomplete,
    /// At least one error was found.
    Findings,
    /// The command line or its input is wrong.
    Usage,
    /// An internal error of crashproof.
    Internal,
}

/// For `--help`.
pub(crate) const HELP: &str = "Exit codes: 0 nothing wrong, 1 an error was found, 2 usage or bad input, 3 unknown \
(no error found, but a limit was hit or something is not covered), 4 internal error.";

impl Exit {
    /// The exit code of the process.
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Clean => 0,
            Exit::Findings => 1,
            Exit::Usage => 2,
            Exit::Incomplete => 3,
            Exit::Internal => 4,
        }
    }
}

/// Is this error a limit of the machine (processes, threads, descriptors, memory), rather than invalid input?
pub(crate) fn machine_limit(error: &std::io::Error) -> bool {
    let limits = [libc::EAGAIN, libc::EMFILE, libc::ENFILE, libc::ENOMEM];
    error.raw_os_error().is_some_and(|code| limits.contains(&code))
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}
