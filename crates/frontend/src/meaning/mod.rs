//! What code means: for each intrinsic of LLVM, each atomic operation and ordering, each function of the C library that
//! touches memory it is given and each assembly instruction, what it does to memory and ordering in px86's terms.
//!
//! This is the single source of truth for instrument, lint and prove. It is plain data and knows nothing of LLVM: a
//! caller asks by name ([`intrinsic`], [`library()`], [`instruction`]) or by shape ([`store`], [`fence`]) and translates
//! the answer into its own terms. Whatever is not listed is *not understood*, and an engine that meets it must not
//! give a verdict as if nothing had happened.
//!
//! To add an intrinsic, function or instruction: one line in the file of its family, and one test program.

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
