//! `crashproof-cc`, and `crashproof-c++` when called under that name.
//!
//! Also the wrapper around rustc that `crashproof cargo` uses, told apart by an environment variable.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use crashproof_toolchain::{Language, cargo, driver};

fn main() -> ExitCode {
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_default();
    let arguments: Vec<OsString> = arguments.collect();
    let is_rustc = |path: &OsString| {
        Path::new(path).file_stem().is_some_and(|stem| stem.to_string_lossy().starts_with("rustc"))
    };
    if env::var_os(cargo::WRAPPER_VARIABLE).is_some() && arguments.first().is_some_and(is_rustc) {
        return cargo::wrap_rustc(&arguments);
    }
    driver::main(Language::of_program(&name), &arguments)
}
