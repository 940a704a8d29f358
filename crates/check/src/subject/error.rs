//! Why a program cannot be checked.

use std::path::PathBuf;

use crate::subject::ending::{Failure, Limit};

/// Why a program cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It never parked.
    #[error(
        "{program} was not built with crashproof, or ended before main\n\
         build it with `crashproof cc` (or crashproof-cc, crashproof-c++) and try again"
    )]
    NotInstrumented {
        /// The program.
        program: PathBuf,
    },
    /// It is statically linked, so the runtime cannot be part of it.
    #[error(
        "{program} is linked statically and was not run: nothing of what it does to persistent memory could be seen\n\
         link it dynamically, without -static, or build it with `crashproof cc`"
    )]
    Static {
        /// The program.
        program: PathBuf,
    },
    /// It is not a program for this machine.
    #[error("{program} is not an x86-64 Linux program, so it was not run")]
    NoProgram {
        /// The file.
        program: PathBuf,
    },
    /// It was built in a way the runtime does not support.
    #[error("{program} {what}")]
    Unsuitable {
        /// The program.
        program: PathBuf,
        /// The problem, and what to do.
        what: &'static str,
    },
    /// It takes longer than the time limit.
    #[error(
        "the recorded run did not finish within --time, so nothing was checked\n\
         give it more time"
    )]
    TimeUp,
    /// It fails without a crash.
    #[error("the program fails without any crash ({how}); fix that first\n{output}")]
    FailsAlone {
        /// How it ended, as text.
        how: String,
        /// How it ended.
        failure: Failure,
        /// The end of its output.
        output: String,
    },
    /// It hit a limit of the checker.
    #[error("UNKNOWN: the program {}", .0.describe())]
    Limit(Limit),
    /// It did something that cannot be followed.
    #[error("UNKNOWN: the program did something that cannot be followed\n{output}")]
    Unsupported {
        /// What, in the runtime's words.
        output: String,
    },
    /// The command that prepares the files failed.
    #[error("--setup: {program} {how}")]
    Setup {
        /// The program.
        program: PathBuf,
        /// How it failed.
        how: String,
    },
    /// A separate recovery program cannot know the addresses of the first program's globals.
    #[error(
        "{file}:{line} stores to a persistent global, which the program given with --recover does not have\n\
         keep what both use in files on the PM path, in the root object, or in memory from crashproof_alloc"
    )]
    OtherGlobals {
        /// The file that contains the store.
        file: String,
        /// The line.
        line: u32,
    },
    /// A replay token is for another build of the program.
    #[error(
        "the replay token does not fit the program: it was built anew, or its inputs changed\nrun the check again"
    )]
    Stale,
    /// A replay token is for another build of the program, judging by its code.
    #[error(
        "the token is for another build of {program}: the program was changed or rebuilt with other options since\n\
         run the check again, or replay it --anyway: the crash may then come elsewhere"
    )]
    OtherBuild {
        /// The program.
        program: PathBuf,
    },
    /// A checkpoint cannot be resumed or written.
    #[error(
        "cannot use the checkpoint {directory}: {why}\nname another directory, or remove it to begin anew"
    )]
    Checkpoint {
        /// Where it is.
        directory: PathBuf,
        /// Why.
        why: String,
    },
    /// The check was interrupted before the program was recorded.
    #[error("interrupted before anything was checked")]
    Interrupted,
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// The operation attempted.
        what: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
}

/// An error of the operating system, while trying `what`.
pub(crate) fn system(what: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::System { what, source }
}
