//! Compiler drivers that build C, C++ and Rust programs with the crashproof instrumentation.
//!
//! `crashproof cc` and `crashproof c++` stand in for clang: they pass on what they are given and add the
//! plugin, debug information, the directory of `crashproof.h` and, when linking, the runtime. `crashproof
//! cargo` sets an environment in which cargo does the same for Rust crates. This crate holds the logic; the
//! binary beside it lets build systems and tests call it under the names `crashproof-cc` and
//! `crashproof-c++`.
//!
//! * [`toolchain`] finds clang, the plugin, the runtime and the header.
//! * [`arguments`] reads a compiler command line as far as it must.
//! * [`driver`] makes the command that is run instead.
//! * [`cargo`] does the same for Rust.
//! * [`testing`] builds the tool and programs for tests.

pub mod arguments;
pub mod cargo;
pub mod driver;
pub mod testing;
pub mod toolchain;

pub use driver::Language;
pub use toolchain::Toolchain;

use std::path::PathBuf;

/// What keeps a driver from doing its work. Messages say what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No usable clang.
    #[error(
        "clang 22 was not found\n  install clang-22 and lld-22 (packages of Debian, Ubuntu and apt.llvm.org), \
         or set CRASHPROOF_CLANG to the path of clang"
    )]
    NoClang,
    /// The plugin is not beside the driver.
    #[error(
        "the instrumenting plugin {name} was not found near {near}\n  reinstall crashproof, or set \
         CRASHPROOF_PLUGIN to its path; it needs the package libllvm22"
    )]
    NoPlugin {
        /// File name looked for.
        name: &'static str,
        /// Directory of the driver.
        near: PathBuf,
    },
    /// The runtime is not beside the driver.
    #[error(
        "the runtime library {name} was not found near {near}\n  reinstall crashproof, or set \
         CRASHPROOF_RUNTIME to its path"
    )]
    NoRuntime {
        /// File name looked for.
        name: &'static str,
        /// Directory of the driver.
        near: PathBuf,
    },
    /// A variable names a file that does not exist.
    #[error("{variable} is set to {path}, which does not exist")]
    BadVariable {
        /// The environment variable.
        variable: &'static str,
        /// Its value.
        path: PathBuf,
    },
    /// The runtime is a shared library.
    #[error("a program to be checked cannot be linked statically\n  leave out {option}")]
    Static {
        /// The option that asked for it.
        option: String,
    },
    /// A response file could not be read.
    #[error("cannot read the response file {path}: {cause}")]
    ResponseFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: std::io::Error,
    },
    /// A program could not be started.
    #[error("cannot run {program}: {cause}")]
    Run {
        /// The program.
        program: PathBuf,
        /// Why not.
        cause: std::io::Error,
    },
}
