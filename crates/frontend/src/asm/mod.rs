//! Parses inline assembly as persistent-memory code uses it.
//!
//! The input is what LLVM keeps of an `asm` statement: template, constraints, dialect. The output is either what the
//! statement does to memory, or why that is unknown. Plain text in, plain data out; nothing here depends on LLVM.
//!
//! # What is understood
//!
//! * flushes and fences, spelled out (`clwb $0`, `clflush ($0)`) or with the prefix bytes that old
//!   assemblers need (`.byte 0x66; clflush $0` is `clflushopt`, `.byte 0x66; xsaveopt $0` is `clwb`);
//! * accesses through memory operands (`"m"`), with any instruction;
//! * accesses through a register operand (`movnti %0,(%1)`, `[{0} + 8]`), if the instruction determines the number of
//!   bytes;
//! * instructions without memory operands.
//!
//! # What is rejected with a reason
//!
//! String instructions, calls and system calls, transactions, raw bytes, gathers, saved processor state,
//! addresses computed inside the assembly, fences between two accesses of one statement.
//!
//! An access through `rsp` or `rbp`, a segment register or a symbol is assumed not to be to PM: instrumentation removes
//! the symbols of persistent globals (see `globals.rs`).

mod nondeterminism;
mod parts;
mod reader;
mod registers;
mod statement;
mod text;

pub use crate::meaning::Flush;
pub use nondeterminism::{Given, nondeterminism};
pub use reader::{has_instructions, read};
pub use statement::{Access, Address, Effect, Operand, Summary, input_argument, operands};

#[cfg(test)]
mod tests;
