//! Compiles C to LLVM bitcode and reads it into plain data.
//!
//! The optimizer must not touch memory accesses: `clang -O1 -Xclang -disable-llvm-passes`, then only passes that turn
//! local variables into values and simplify loops (`read`'s `PASSES`). Every load and store of the source that may
//! access shared or persistent memory remains, in order. The result is [`ir`], which contains nothing of LLVM.
//! out; nothing of LLVM is left once a module has been read.

mod compile;
mod error;
pub mod ir;
mod read;

pub use compile::{Compiler, MODEL_DIRECTORY, is_bitcode};
pub use error::Error;
pub use read::read;
