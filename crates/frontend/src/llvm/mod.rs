//! The binding to LLVM: its C interface and a C++ shim, for everything here that reads or changes LLVM IR.
//!
//! inkwell is deliberately not used: its typed enums panic on unknown values, but a reader of IR must accept every
//! module a compiler produces.
//!
//! # Why the unsafe code here is sound
//!
//! * Handles ([`Value`], [`Type`], [`Block`], [`Meta`]) carry the lifetime of their [`Module`], which is the one
//!   vouched for in [`Module::new`], or a borrow of the [`File`] that owns it. They are neither `Send` nor `Sync`.
//! * Operations that make a handle dangle while its module lives are `unsafe` ([`Value::erase`],
//!   [`Value::delete_global`], [`Value::expand_rmw`]) or require exclusive access to the file ([`File::run_passes`],
//!   [`File::link`]).
//! * Modules are verified before they are walked, so operands have the classes that LLVM's interface expects for each
//!   opcode. Callers check [`Value::opcode`] or an `is_` method before using anything that only some classes have; each
//!   method documents what it expects.

#![allow(unsafe_code, reason = "the only door to LLVM; see the module documentation")]
#![allow(missing_docs, reason = "most names are LLVM's own; what they do is in its documentation")]

mod builder;
mod debug;
mod file;
mod handles;
mod module;
mod parts;
mod types;
mod value;

pub use builder::Builder;
pub use debug::{DebugKind, DebugType, Member, Variable};
pub use file::{File, LinkError};
pub use handles::{
    AsmText, Block, CallClass, Linkage, Location, Meta, Opcode, Predicate, RmwOp, Type, TypeKind, Value,
    demangle,
};
pub use module::Module;
pub use parts::Part;
