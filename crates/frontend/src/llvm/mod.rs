//! The binding to LLVM: its C interface and a C++ shim, for everything here that reads or changes LLVM IR.
//!
//! inkwell is not used on purpose: its typed enums panic on values they do not know, and what reads IR
//! must accept whatever module a compiler hands it.
//!
//! # Why the unsafe code here is sound
//!
//! * Handles ([`Value`], [`Type`], [`Block`], [`Meta`]) carry the lifetime of the [`Module`] they come from, which is the one that
//!   was vouched for in [`Module::new`], or a borrow of the [`File`] that owns it. They are neither `Send` nor `Sync`.
//! * What makes a handle dangle while its module lives is `unsafe` ([`Value::erase`], [`Value::delete_global`],
//!   [`Value::expand_rmw`]) or needs the file for itself ([`File::run_passes`], [`File::link`]).
//! * Modules are verified before they are walked, so that operands have the classes that LLVM's interface expects of
//!   each opcode. Callers ask [`Value::opcode`] or an `is_` method before anything that only some classes have; what
//!   each method expects is said on it.

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
