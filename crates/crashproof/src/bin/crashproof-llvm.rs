//! `crashproof` with the engines that read LLVM bitcode; `crashproof` runs it when they are needed.

use std::process::ExitCode;

fn main() -> ExitCode {
    crashproof_commands::with_llvm()
}
