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

mod chance;
mod instructions;
mod parts;
mod reader;
mod text;

pub use crate::asm::chance::{Given, chance};
use crate::asm::instructions::full_register;
use crate::asm::reader::Reader;
use crate::asm::text::{expand, statements, strip_labels};

/// Which flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flush {
    /// `clflush`.
    Clflush,
    /// `clflushopt`.
    Clflushopt,
    /// `clwb`.
    Clwb,
}

/// An address in terms of the operands of the statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A memory operand, and a distance from it.
    Memory {
        /// Which operand.
        operand: usize,
        /// How far from it.
        displacement: i64,
    },
    /// Register operands and a constant.
    Computed {
        /// The operand it starts from.
        base: Option<usize>,
        /// The operand that is scaled.
        index: Option<usize>,
        /// By this.
        scale: u8,
        /// The constant part.
        displacement: i64,
    },
}

/// Something done that is no access.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// A flush of the line of an address.
    Flush(Flush, Address),
    /// `sfence`.
    Sfence,
    /// `mfence`, or a locked instruction on the stack.
    Mfence,
    /// `pause`.
    Pause,
}

/// An access to memory that may be PM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// Where.
    pub address: Address,
    /// `None`: as many as the memory operand has.
    pub bytes: Option<u32>,
    /// Of `crashproof_protocol::abi::asm`.
    pub flags: u32,
}

/// What a statement does.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Before the first access.
    pub before: Vec<Effect>,
    /// In order.
    pub accesses: Vec<Access>,
    /// After the last access.
    pub after: Vec<Effect>,
    /// The statement does nothing but `before`, so it need not run at all on PM.
    pub only_effects: bool,
}

/// An operand as the constraint string describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operand {
    /// The operand is memory; the call passes its address.
    pub memory: bool,
    /// The statement writes it.
    pub output: bool,
    /// Shares its place with an output.
    tied: Option<usize>,
    /// Must be in this register, named in full width.
    register: Option<String>,
    /// Position among the arguments of the call; outputs in registers have none.
    pub argument: Option<usize>,
}

/// Reads a constraint string. Clobbers are dropped.
pub fn operands(constraints: &str) -> Vec<Operand> {
    let mut all = Vec::new();
    let mut arguments = 0;
    for constraint in constraints.split(',') {
        if constraint.starts_with('~') || constraint.is_empty() {
            continue;
        }
        if constraint.starts_with('!') {
            // A label to jump to: counted, but no argument.
            all.push(Operand { memory: false, output: true, tied: None, register: None, argument: None });
            continue;
        }
        let output = constraint.starts_with('=');
        let rest = constraint.trim_start_matches(['=', '&', '%']);
        let memory = rest.starts_with('*');
        let rest = rest.trim_start_matches('*');
        let register =
            rest.strip_prefix('{').and_then(|r| r.strip_suffix('}')).map(|r| full_register(r).to_owned());
        let argument = (!output || memory).then(|| {
            arguments += 1;
            arguments - 1
        });
        all.push(Operand { memory, output, tied: rest.parse().ok(), register, argument });
    }
    all
}

/// The argument that holds the value of an operand before the statement runs.
pub fn input_argument(operands: &[Operand], operand: usize) -> Option<usize> {
    let own = operands.get(operand)?.argument;
    own.or_else(|| operands.iter().find(|o| o.tied == Some(operand)).and_then(|o| o.argument))
}

/// Reads a statement. `sizes` holds the bytes of each operand's value, where known.
///
/// # Errors
///
/// Says what is not understood.
pub fn read(
    template: &str,
    intel: bool,
    operands: &[Operand],
    sizes: &[Option<u32>],
) -> Result<Summary, String> {
    let mut reader = Reader::new(intel, operands, sizes);
    for statement in statements(&expand(template, intel)?) {
        reader.statement(&statement)?;
    }
    reader.finish()
}

/// Whether assembly at file scope holds instructions, rather than symbols and data.
pub fn has_instructions(text: &str) -> bool {
    statements(text).iter().any(|statement| {
        let word = strip_labels(statement).split_whitespace().next().unwrap_or("");
        !word.is_empty() && !word.starts_with('.') && !statement.contains('=')
    })
}

#[cfg(test)]
mod tests;
