//! The commands that read LLVM bitcode, and the program that contains them.
//!
//! libLLVM takes a hundred megabytes, and machines that only replay or explain do not need it. So `crashproof` is
//! linked without it and runs `crashproof-llvm`, the same program linked with it, for `lint`, `prove` and `cc --lint`.
//! The linker drops functions that are never called here, and with the last of them libLLVM.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use crashproof_findings::config::Config;
use crashproof_toolchain::{Language, toolchain};

use crate::cc_lint::CompileAndLint;
use crate::exit::Exit;
use crate::{lint, prove};

/// The commands, in this program or the other one.
pub(crate) struct Engines {
    pub(crate) lint: fn(&lint::Arguments, &Config, bool) -> io::Result<Exit>,
    pub(crate) prove: fn(&prove::Arguments, &Config) -> io::Result<Exit>,
    pub(crate) compile_and_lint: fn(CompileAndLint, Language) -> ExitCode,
}

impl Engines {
    pub(crate) const HERE: Engines =
        Engines { lint: lint::run, prove: prove::run, compile_and_lint: CompileAndLint::run };

    pub(crate) const ELSEWHERE: Engines = Engines {
        lint: |_, _, _| Ok(run_other()),
        prove: |_, _| Ok(run_other()),
        compile_and_lint: |_, _| run_other().into(),
    };
}

/// Executes the other program with the same arguments; returns only on failure.
fn run_other() -> Exit {
    let program = match toolchain::find_llvm_program() {
        Some(program) => program,
        None => {
            anstream::eprintln!(
                "crashproof: cannot find {}, which this command needs",
                toolchain::LLVM_PROGRAM
            );
            return Exit::Usage;
        }
    };
    let error = Command::new(&program).arg0("crashproof").args(std::env::args_os().skip(1)).exec();
    anstream::eprintln!("crashproof: cannot run {}: {error}", program.display());
    Exit::Usage
}
