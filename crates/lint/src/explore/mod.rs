//! Walks the paths of each function, callees first, and hands what they do to persistent memory to the machine.
//!
//! Section 4.3 of the DeepMC paper enumerates traces by depth-first search. Here, paths that did the same to
//! persistent memory are joined where they meet, so only branches that decide over a store, a flush or a
//! transaction multiply; what a branch decided is kept as a fact that later branches are asked against. A
//! caller sees a callee's paths as a summary in terms of parameters.
//!
//! # What is not followed
//!
//! 1. A loop is left once another round changes nothing that rules look at, and after `loops` rounds anyway.
//!    It is assumed to run at least once if it touches persistent memory.
//! 2. `setjmp` returns once; abort paths of transactions are not followed.
//! 3. Of a function with more paths than the budget allows only some are walked; it is named (`budget`).

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
