//! Compiles C to LLVM bitcode and reads it into plain data.
//!
//! The compiler's optimizer is kept away from memory: `clang -O1 -Xclang -disable-llvm-passes`, then only
//! passes that turn local variables into values and tidy loops (`read`'s `PASSES`). Every load and store
//! of the source that could be of shared or persistent memory is still there, in order. [`ir`] is what comes
//! out; nothing of LLVM is left once a module has been read.

mod compile;
mod error;
pub mod ir;
mod read;

pub use compile::{Compiler, MODEL_DIRECTORY, is_bitcode};
pub use error::Error;
pub use read::read;
