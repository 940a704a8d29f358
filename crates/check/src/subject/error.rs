//! Why a program cannot be checked.

use std::path::PathBuf;

use crate::subject::ending::{Failure, Limit};

/// What can keep a program from being checked.
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
    /// It is linked statically, so nothing of the runtime can be in it.
    #[error(
        "{program} is linked statically and was not run: nothing of what it does to persistent memory could be seen\n\
         link it dynamically, without -static, or build it with `crashproof cc`"
    )]
    Static {
        /// The program.
        program: PathBuf,
    },
    /// It is no program for this machine.
    #[error("{program} is not an x86-64 Linux program, so it was not run")]
    NoProgram {
        /// The file.
        program: PathBuf,
    },
    /// It was built in a way that the runtime cannot live with.
    #[error("{program} {what}")]
    Unsuitable {
        /// The program.
        program: PathBuf,
        /// In which way, and what to do.
        what: &'static str,
    },
    /// It takes longer than the user gave it.
    #[error(
        "the recorded run did not finish within --time, so nothing was checked\n\
         give it more time"
    )]
    TimeUp,
    /// It fails without any crash.
    #[error("the program fails without any crash ({how}); fix that first\n{output}")]
    FailsAlone {
        /// How it ended, in words.
        how: String,
        /// How it ended.
        failure: Failure,
        /// What it printed last.
        output: String,
    },
    /// It ran into a limit of the checker's.
    #[error("UNKNOWN: the program {}", .0.describe())]
    Limit(Limit),
    /// It did something that cannot be followed.
    #[error("UNKNOWN: the program did something that cannot be followed\n{output}")]
    Unsupported {
        /// What, as the runtime said it.
        output: String,
    },
    /// What was to prepare the files failed.
    #[error("--setup: {program} {how}")]
    Setup {
        /// The program.
        program: PathBuf,
        /// How it failed.
        how: String,
    },
    /// Another program is to recover, which cannot know where the first one has its globals.
    #[error(
        "{file}:{line} stores to a persistent global, which the program given with --recover does not have\n\
         keep what both use in files on the PM path, in the root object, or in memory from crashproof_alloc"
    )]
    OtherGlobals {
        /// Where it is stored to.
        file: String,
        /// The line.
        line: u32,
    },
    /// A replay token is for another build of the program.
    #[error(
        "the replay token does not fit the program: it was built anew, or its inputs changed\nrun the check again"
    )]
    Stale,
    /// A replay token is for another build of the program, by its code.
    #[error(
        "the token is for another build of {program}: the program was changed or rebuilt with other options since\n\
         run the check again, or replay it --anyway: the crash may then come elsewhere"
    )]
    OtherBuild {
        /// The program.
        program: PathBuf,
    },
    /// A checkpoint cannot be gone on with, or not be written.
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
    /// The machine is at its limits.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
}

/// An error of the operating system, while trying `what`.
pub(crate) fn system(what: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::System { what, source }
}
