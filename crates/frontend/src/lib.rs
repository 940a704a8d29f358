//! The common front end of the engines that read code: LLVM, inline assembly, bitcode.
//!
//! * [`asm`] parses inline assembly as text and determines its effects on memory. It does not depend on LLVM.
//! * [`llvm`] is the binding to LLVM. All unsafe code that touches it is there and in [`bitcode`].
//! * [`meaning`] describes the effects of intrinsics, atomics, library functions and instructions, as data.
//! * [`bitcode`] compiles C and C++ and copies the module into plain data for the prover.

pub mod asm;
pub mod bitcode;
pub mod frameworks;
pub mod inputs;
mod isolation;
pub mod llvm;
pub mod meaning;
pub mod program;
