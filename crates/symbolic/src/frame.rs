//! Functions that have been called and have not returned: their values, and where in them execution stands.

use crashproof_frontend::bitcode::ir::{BlockId, FunctionId, Place};
use crashproof_prove::term::Term;
use rustc_hash::FxHashMap;

use crate::memory::Memory;
use crate::state::{Held, State};
use crate::value::Value;

/// Where an instruction stands: source and function.
#[derive(Clone, Copy)]
pub(crate) struct At<'p> {
    pub(crate) place: &'p Place,
    pub(crate) function: FunctionId,
}

/// A function that has not returned yet.
pub(crate) struct Call {
    pub(crate) function: FunctionId,
    /// The conditions under which it was called. If it calls itself under the same ones, that must be.
    pub(crate) path: Vec<Term>,
    /// How often it has called itself and need not have.
    pub(crate) uncertain: u32,
}

/// A function call in progress.
pub(crate) struct Frame {
    pub(crate) function: FunctionId,
    pub(crate) values: Vec<Option<Value>>,
    /// Names this call, among all calls.
    pub(crate) context: u64,
    /// Names the instruction being executed, among all executions of instructions.
    pub(crate) point: u64,
    /// How many loops there are around the call.
    pub(crate) depth: usize,
    /// For each loop being executed: what was there when its round began.
    pub(crate) rounds: FxHashMap<usize, Round>,
    /// The instruction being executed: its block, the rounds of the loops around it, and its place in the block.
    pub(crate) here: Here,
    /// Arguments beyond the parameters; none where one is not supported.
    pub(crate) more: Vec<Option<Value>>,
    /// Where `longjmp` may come back to.
    pub(crate) landings: Vec<Landing>,
}

/// An instruction of a function, in a round of each loop around it.
#[derive(Clone, Debug)]
pub(crate) struct Here {
    pub(crate) block: BlockId,
    pub(crate) rounds: Vec<u32>,
    pub(crate) index: usize,
}

/// What was there when a round of a loop began.
#[derive(Clone)]
pub(crate) struct Round {
    pub(crate) memory: Memory,
    pub(crate) phis: Vec<Value>,
    pub(crate) held: Held,
    /// Can the loop be left in this round? Then the next need not be taken.
    pub(crate) left: bool,
    /// Rounds that need not have been taken.
    pub(crate) uncertain: u32,
}

/// Where a `setjmp` was called.
#[derive(Clone)]
pub(crate) struct Landing {
    pub(crate) number: u64,
    pub(crate) here: Here,
    pub(crate) values: Vec<Option<Value>>,
    pub(crate) rounds: FxHashMap<usize, Round>,
    pub(crate) context: u64,
    /// How often something has landed.
    pub(crate) times: u32,
}

/// An instruction being executed: its call, the path it is on, and its place in the source.
pub(crate) struct Step<'s> {
    pub(crate) frame: &'s mut Frame,
    pub(crate) state: &'s mut State,
    pub(crate) at: At<'s>,
}
