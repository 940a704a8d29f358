//! Reads inline assembly the way persistent-memory code writes it.
//!
//! Input is what LLVM keeps of an `asm` statement: template, constraints, dialect. Output is either what
//! the statement does to memory, or why that cannot be said. Pure text in, plain data out; nothing here
//! knows LLVM.
//!
//! # What is understood
//!
//! * flushes and fences, spelled out (`clwb $0`, `clflush ($0)`) or with the prefix bytes that old
//!   assemblers need (`.byte 0x66; clflush $0` is `clflushopt`, `.byte 0x66; xsaveopt $0` is `clwb`);
//! * accesses through memory operands (`"m"`), whatever the instruction;
//! * accesses through a register operand (`movnti %0,(%1)`, `[{0} + 8]`), if the instruction tells how
//!   many bytes it touches;
//! * instructions without memory operands.
//!
//! # What is not, and is said to be so
//!
//! String instructions, calls and system calls, transactions, raw bytes, gathers, saved processor state,
//! addresses computed inside the assembly, fences between two accesses of one statement.
//!
//! An access whose address is in `rsp` or `rbp`, in a segment register or a symbol is not to PM: symbols
//! of persistent globals do not survive instrumentation (see `globals.rs`).

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
