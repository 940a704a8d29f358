//! Why there is no module.

use std::path::PathBuf;

/// Why there is no module.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// clang or the header was not found, or a source does not compile.
    #[error(transparent)]
    Toolchain(#[from] crashproof_toolchain::Error),
    /// Neither C nor bitcode, judging by its name.
    #[error(
        "{path} is neither C or C++ (.c, .cc, .cpp, .cxx) nor LLVM 22 bitcode (.bc, .ll); of other languages give \
         bitcode that their compilers made"
    )]
    NoSource {
        /// The file.
        path: PathBuf,
    },
    /// A file could not be read or written.
    #[error("{path}: {cause}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: std::io::Error,
    },
    /// Not bitcode, of another version, or damaged.
    #[error("{path} is not LLVM 22 bitcode: {why}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// LLVM's words.
        why: String,
    },
    /// Valid, but not supported.
    #[error("function {function} {what}, which is not supported")]
    Unsupported {
        /// The function.
        function: String,
        /// What it does.
        what: &'static str,
    },
    /// Files that do not link.
    #[error("{path} cannot be linked: {why}")]
    Link {
        /// The file that made linking fail.
        path: PathBuf,
        /// LLVM's words.
        why: String,
    },
}
