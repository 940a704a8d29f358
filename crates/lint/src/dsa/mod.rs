//! Data-structure analysis: which memory is persistent, which pointers may alias, and what function pointers point to.
//!
//! Three phases, as in Lattner, Lenharth and Adve (PLDI 2007) and section 4.2 of the DeepMC paper: a separate graph per
//! function (`local`); callees' graphs copied into their callers, bottom up over the strongly connected components of
//! the call graph; and callers' knowledge pushed down into callees. Copying preserves context, byte offsets distinguish
//! fields, and each allocation site has a node.
//!
//! Persistence starts at what the descriptions of libraries say (`crashproof_frontend::frameworks`), at persistent sections, and at
//! whatever is flushed or logged: volatile memory never is. It spreads along pointers.
//! Deliberately coarse: array elements share the fields of the first one, and copies stop at a depth of eight pointers.
//! Both can only lose a reason to consider memory persistent.
//! eight pointers. Both can only lose a reason to call memory persistent.

mod analysis;
mod calls;
mod function;
mod graph;
mod local;

pub(crate) use analysis::Analysis;
pub(crate) use function::FunctionGraph;
pub(crate) use graph::Cell;
