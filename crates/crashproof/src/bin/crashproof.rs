//! `crashproof`, linked without LLVM.

use std::process::ExitCode;

fn main() -> ExitCode {
    crashproof_commands::without_llvm()
}
