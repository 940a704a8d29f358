//! The question about a program, and which prover answers it.

use crate::program::Program;
use crate::prove::{self, Error, Options, Report};
use crate::robust;

/// A question about a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Do its assertions hold?
    Invariants,
    /// Is it robust (PMVerify)?
    Robustness,
}

impl Question {
    /// Answers the question about a program.
    ///
    /// # Errors
    ///
    /// If the solver asked for is not built in, or something is wrong with crashproof.
    pub fn ask(self, program: &Program, options: &Options) -> Result<Report, Error> {
        match self {
            Question::Invariants => prove::prove(program, options),
            Question::Robustness => robust::prove(program, options),
        }
    }
}
