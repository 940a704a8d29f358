//! Walks the paths of each function, callees first, and passes their effects on persistent memory to the machine.
//!
//! Section 4.3 of the DeepMC paper enumerates traces by depth-first search. Here, paths with the same effects on
//! persistent memory are joined where they meet, so only branches that affect a store, a flush or a transaction
//! multiply paths; the outcome of a branch is kept as a fact against which later branches are tested. A caller sees a
//! callee's paths as a summary in terms of parameters.
//!
//! # What is not followed
//!
//! 1. A loop is left once another iteration changes nothing relevant to the rules, and in any case after `loops`
//!    iterations. It is assumed to run at least once if it accesses persistent memory.
//! 2. `setjmp` returns once; abort paths of transactions are not followed.
//! 3. If a function has more paths than the budget allows, only some are walked, and the report names it (`budget`).

mod access;
mod arrays;
mod bases;
mod branch;
mod budget;
mod call;
mod compute;
mod counted;
mod described;
mod emit;
mod flushes;
mod guarded;
mod limits;
mod masked;
mod meet;
mod naming;
mod reach;
mod redone;
mod replay;
mod slice;
mod step;
mod summary;
mod translate;
mod used;
mod value;
mod walk;
mod way;

pub use limits::Bounds;
pub(crate) use limits::Cut;
pub(crate) use walk::Explorer;
