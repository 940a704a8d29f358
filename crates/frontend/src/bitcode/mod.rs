//! Compiles C to LLVM bitcode and reads it into plain data.
//!
//! The compiler's optimiser is kept away from memory: `clang -O1 -Xclang -disable-llvm-passes`, then only
//! passes that turn local variables into values and tidy loops ([`llvm`]'s `PASSES`). Every load and store
//! of the source that could be of shared or persistent memory is still there, in order. [`ir`] is what comes
//! out; all unsafe code is in [`llvm`], and nothing of LLVM is left once a module has been read.

mod compile;
pub mod ir;
mod llvm;

pub use compile::{Compiler, MODEL_DIRECTORY, is_bitcode};
pub use llvm::read;

use std::path::PathBuf;

/// Why there is no module.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// clang or the header was not found, or a source does not compile.
    #[error(transparent)]
    Toolchain(#[from] crashproof_toolchain::Error),
    /// Neither C nor bitcode, going by its name.
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
    #[error("{path} is no LLVM 22 bitcode: {why}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// LLVM's words.
        why: String,
    },
    /// Nothing wrong with it, but it cannot be read.
    #[error("function {function} {what}, which is not supported")]
    Unsupported {
        /// The function.
        function: String,
        /// What it does.
        what: &'static str,
    },
    /// Files that do not fit together.
    #[error("{path} cannot be linked: {why}")]
    Link {
        /// The file that made it fail.
        path: PathBuf,
        /// LLVM's words.
        why: String,
    },
}
