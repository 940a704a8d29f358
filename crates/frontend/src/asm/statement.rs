//! The parts of an `asm` statement and its effects, as data.

use crate::asm::registers::full_register;
use crate::meaning::Flush;

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

/// An effect other than an access.
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
    /// `None`: the size of the memory operand.
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
    /// The statement does nothing but `before`, so it need not run on PM at all.
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
    pub(super) tied: Option<usize>,
    /// Must be in this register, named in full width.
    pub(super) register: Option<String>,
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
            // A jump label: counted, but not an argument.
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
