//! Why inputs cannot be read.

use std::path::PathBuf;

/// What keeps inputs from being read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such file, or it cannot be read.
    #[error("cannot read {path}: {cause}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: std::io::Error,
    },
    /// The name of the file does not say what it is.
    #[error(
        "{path}: what is this? Give C, C++ or Rust sources, a Cargo.toml, .bc or .ll files, or a \
         compile_commands.json"
    )]
    Ending {
        /// The file.
        path: PathBuf,
    },
    /// LLVM does not like a file.
    #[error("{path} cannot be read as bitcode of LLVM 22: {reason}")]
    Bitcode {
        /// The file.
        path: PathBuf,
        /// What LLVM says.
        reason: String,
    },
    /// A compilation database is not one.
    #[error("{path}: {reason}")]
    Database {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// There is no compiler, or it complained.
    #[error(transparent)]
    Toolchain(#[from] crashproof_toolchain::Error),
    /// A description of a library.
    #[error(transparent)]
    Api(#[from] crate::frameworks::Error),
}
