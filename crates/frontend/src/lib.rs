//! The front half of every engine that reads code: LLVM, inline assembly, bitcode.
//!
//! * [`asm`] reads inline assembly as text and says what it does to memory. It knows nothing of LLVM.
//! * [`llvm`] is the binding to LLVM. All unsafe code that touches it is there and in [`bitcode`].
//! * [`meaning`] says what intrinsics, atomics, library functions and instructions do, as data.
//! * [`bitcode`] compiles C and C++ and copies the module into plain data for the prover.

pub mod asm;
pub mod bitcode;
pub mod frameworks;
pub mod inputs;
mod isolation;
pub mod llvm;
pub mod meaning;
pub mod program;
