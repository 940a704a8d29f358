//! What code means: the effects on memory and ordering, in px86's terms, of LLVM's intrinsics, atomic operations and
//! orderings, C library functions that access the memory they are passed, and assembly instructions.
//!
//! This is the single source of truth for instrument, lint and prove. It is plain data independent of LLVM: a caller
//! queries it by name ([`intrinsic`], [`library()`], [`instruction`]) or by shape ([`store`], [`fence`]) and translates
//! the answer into its own terms. Anything not listed is *not understood*, and an engine that encounters it must not
//! give a verdict that ignores it.
//!
//! To add an intrinsic, function or instruction, add a line to the file of its family, and a test program.

mod atomics;
mod effect;
mod instructions;
mod intrinsics;
mod library;

pub use atomics::{Ordering, Scope, Stored, fence, is_stored_non_temporally, store};
pub use effect::{Argument, Effect, Extent, Fence, Flush, Lanes, LanesAt, Length, Manner, Mask};
pub use instructions::{Compute, Instruction, Prefixes, Use, access_bytes, instruction};
pub use intrinsics::{Meaning, Operation, intrinsic};
pub use library::{Function, Returns, library};

#[cfg(test)]
mod tests;
