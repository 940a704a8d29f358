//! Functions that have been called and have not returned: their values, and the current position of execution.

use crashproof_frontend::bitcode::ir::{BlockId, FunctionId, Place};
use crashproof_prove::term::Term;
use rustc_hash::FxHashMap;

use crate::memory::Memory;
use crate::state::{Held, State};
use crate::value::Value;

/// The place of an instruction: source and function.
#[derive(Clone, Copy)]
pub(crate) struct At<'p> {
    pub(crate) place: &'p Place,
    pub(crate) function: FunctionId,
}

/// A function that has not returned yet.
pub(crate) struct Call {
    pub(crate) function: FunctionId,
    /// The conditions under which it was called. If it calls itself under the same ones, that recursion is unavoidable.
    pub(crate) path: Vec<Term>,
    /// The number of avoidable recursive calls.
    pub(crate) uncertain: u32,
}

/// A function call in progress.
pub(crate) struct Frame {
    pub(crate) function: FunctionId,
    pub(crate) values: Vec<Option<Value>>,
    /// Identifies this call among all calls.
    pub(crate) context: u64,
    /// Identifies the current instruction among all executions of instructions.
    pub(crate) point: u64,
    /// The number of loops around the call.
    pub(crate) depth: usize,
    /// For each active loop, the state at the start of its current iteration.
    pub(crate) rounds: FxHashMap<usize, Round>,
    /// The current instruction: its block, the iterations of the enclosing loops, and its index in the block.
    pub(crate) here: Here,
    /// Arguments beyond the parameters; `None` for an unsupported one.
    pub(crate) more: Vec<Option<Value>>,
    /// The targets of `longjmp`.
    pub(crate) landings: Vec<Landing>,
}

/// An instruction of a function, in an iteration of each enclosing loop.
#[derive(Clone, Debug)]
pub(crate) struct Here {
    pub(crate) block: BlockId,
    pub(crate) rounds: Vec<u32>,
    pub(crate) index: usize,
}

/// The state at the start of a loop iteration.
#[derive(Clone)]
pub(crate) struct Round {
    pub(crate) memory: Memory,
    pub(crate) phis: Vec<Value>,
    pub(crate) held: Held,
    /// Can the loop be left in this iteration? Then the next one is not unavoidable.
    pub(crate) left: bool,
    /// The number of avoidable iterations.
    pub(crate) uncertain: u32,
}

/// A call of `setjmp`.
#[derive(Clone)]
pub(crate) struct Landing {
    pub(crate) number: u64,
    pub(crate) here: Here,
    pub(crate) values: Vec<Option<Value>>,
    pub(crate) rounds: FxHashMap<usize, Round>,
    pub(crate) context: u64,
    /// How often control has returned to it.
    pub(crate) times: u32,
}

/// The current instruction: its call, its path, and its place in the source.
pub(crate) struct Step<'s> {
    pub(crate) frame: &'s mut Frame,
    pub(crate) state: &'s mut State,
    pub(crate) at: At<'s>,
}
