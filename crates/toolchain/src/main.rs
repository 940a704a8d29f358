//! `crashproof-cc`, and `crashproof-c++` when called under that name.
//!
//! Also the wrapper around rustc that `crashproof cargo` uses, told apart by an environment variable.

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use crashproof_toolchain::{Language, cargo, driver};

fn main() -> ExitCode {
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_default();
    let arguments: Vec<OsString> = arguments.collect();
    if cargo::is_wrapper_call(&arguments) {
        return cargo::wrap_rustc(&arguments);
    }
    driver::main(Language::of_program(&name), &arguments)
}
