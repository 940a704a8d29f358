//! `crashproof` with the engines that read LLVM's bitcode; `crashproof` runs it where they are needed.

use std::process::ExitCode;

fn main() -> ExitCode {
    crashproof_commands::with_llvm()
}
