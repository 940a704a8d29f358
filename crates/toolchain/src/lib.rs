//! Compilers and how they are called: the one place that knows source languages, compiler arguments and where tools are.
//!
//! * [`language`] tells sources apart by the ends of their names.
//! * [`toolchain`] finds clang, the plugin, the runtime and the header.
//! * [`compile`] compiles sources to bitcode for `lint` and `prove`, and to programs for `check`.
//! * [`arguments`] reads a compiler command line as far as it must.
//! * [`driver`] is `crashproof cc` and `crashproof c++`, which stand in for clang in build systems. The binary of this
//!   crate is the same under the names `crashproof-cc` and `crashproof-c++`.
//! * `libpmem` takes libpmem out of link lines: the runtime stands for it.
//! * [`cargo`] is `crashproof cargo`, which does the same for Rust crates.
//! * [`testing`] builds the tool and programs for tests.

pub mod arguments;
pub mod cargo;
pub mod compile;
pub mod driver;
pub mod language;
mod libpmem;
mod output;
pub mod testing;
pub mod toolchain;

pub use language::{FileKind, Language};
pub use output::{output, standard_output};
pub use toolchain::{Compilers, Toolchain};

use std::path::PathBuf;

/// The LLVM that the plugin is built for.
pub const LLVM: &str = "22";

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
    /// A compiler complained.
    #[error("{source_file} does not compile\n{messages}")]
    Compile {
        /// The source.
        source_file: PathBuf,
        /// What the compiler printed.
        messages: String,
    },
    /// More than one Rust source for one program.
    #[error(
        "a Rust program is built from one source, which names its modules; build crates with `crashproof cargo build`"
    )]
    SeveralRust,
    /// rustc has another LLVM than the plugin.
    #[error(
        "{version} uses LLVM {llvm}, but programs for crashproof are built with LLVM {LLVM}\n  use a Rust toolchain with \
         LLVM {LLVM}, such as 1.95: `rustup toolchain install 1.95`, then `crashproof cargo +1.95 ...`"
    )]
    OtherLlvm {
        /// The version of rustc, as it prints it.
        version: String,
        /// Its LLVM.
        llvm: String,
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
