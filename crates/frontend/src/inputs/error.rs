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
    /// The type of the file cannot be determined from its name.
    #[error(
        "{path}: what is this? Give C, C++ or Rust sources, a Cargo.toml, .bc or .ll files, or a \
         compile_commands.json"
    )]
    Ending {
        /// The file.
        path: PathBuf,
    },
    /// LLVM rejects a file.
    #[error("{path} cannot be read as bitcode of LLVM 22: {reason}")]
    Bitcode {
        /// The file.
        path: PathBuf,
        /// What LLVM says.
        reason: String,
    },
    /// A file is not a compilation database.
    #[error("{path}: {reason}")]
    Database {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// There is no compiler, or it failed.
    #[error(transparent)]
    Toolchain(#[from] crashproof_toolchain::Error),
    /// A library description is invalid.
    #[error(transparent)]
    Api(#[from] crate::frameworks::Error),
}
