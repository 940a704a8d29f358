//! Variadic functions in the x86-64 calling convention.
//!
//! By the time `va_arg` gets here it is ordinary code: it takes arguments from the saved registers while there are any,
//! and then from memory. Here all registers count as used up from the start, so every argument is in memory, in
//! consecutive words of eight bytes.

use crashproof_prove::term::Term;

use crate::frame::{At, Frame};
use crate::machine::{Flow, Machine};
use crate::state::State;
use crate::value::Value;

/// The ends of the saved registers: for integers, and for floating-point numbers.
const USED_UP: [u64; 2] = [48, 176];
const WORD: u64 = 8;

impl Machine<'_> {
    /// `va_start`: initializes the list that `va_arg` traverses.
    pub(crate) fn start_arguments(
        &mut self,
        frame: &Frame,
        state: &mut State,
        list: Term,
        at: At<'_>,
    ) -> Flow<()> {
        let mut words = Vec::new();
        for argument in &frame.more {
            match argument {
                Some(Value::Scalar(term)) => words.push(self.terms.zero_extend(*term, 64)),
                _ => {
                    return Err(self.refuse(
                        state,
                        "takes a variable argument that is no number or address",
                        at,
                    ));
                }
            }
        }
        let bytes = (words.len() as u64 * WORD).max(WORD);
        let area = self.allocate(state, frame.point, bytes, 16, "arguments", at)?;
        for (index, word) in words.into_iter().enumerate() {
            let address = self.terms.number(area + index as u64 * WORD, 64);
            self.store_scalar(state, address, word, false, at)?;
        }
        for (index, offset) in USED_UP.into_iter().enumerate() {
            let address = self.offset(list, index as u64 * 4);
            let offset = self.terms.number(offset, 32);
            self.store_scalar(state, address, offset, false, at)?;
        }
        for (offset, pointer) in [(8, area), (16, 0)] {
            let address = self.offset(list, offset);
            let pointer = self.terms.number(pointer, 64);
            self.store_scalar(state, address, pointer, false, at)?;
        }
        Ok(())
    }

    /// `va_copy`.
    pub(crate) fn copy_arguments(&mut self, state: &mut State, to: Term, from: Term, at: At<'_>) -> Flow<()> {
        self.copy_bytes(state, to, from, 24, at)
    }
}
