//! Copies and fills of memory.

use crashproof_prove::term::{Binary, Term};

use crate::frame::At;
use crate::machine::{Flow, Machine, Stop};
use crate::state::{self, State};

/// Longer ranges are not supported.
const LONGEST: u64 = 1 << 16;

/// Loops of models, such as that of `strlen`, end with the object they traverse. The user does not bound them, and they
/// run for more iterations.
const MOST_MODEL_ROUNDS: u32 = 64;

/// A length with more possible values than this counts as unknown.
const MOST_LENGTHS: usize = 16;

impl Machine<'_> {
    /// The number of bytes of a bulk operation; it must be known.
    pub(crate) fn length(&mut self, state: &mut State, length: Term, what: &str, at: At<'_>) -> Flow<u64> {
        let cases = self.cases(state, length);
        match cases.as_deref() {
            Some([(_, bytes)]) if *bytes <= LONGEST => Ok(*bytes),
            Some([(_, bytes)]) => Err(self.refuse(state, &format!("{what} of {bytes} bytes"), at)),
            _ => Err(self.refuse(state, &format!("{what} of a length that is not known"), at)),
        }
    }

    /// Performs an action for every possible length.
    pub(crate) fn for_lengths(
        &mut self,
        state: &mut State,
        length: Term,
        what: &str,
        at: At<'_>,
        mut does: impl FnMut(&mut Self, &mut State, u64) -> Flow<()>,
    ) -> Flow<()> {
        let few = self.cases(state, length).is_some_and(|cases| (2..=MOST_LENGTHS).contains(&cases.len()));
        if !few {
            let bytes = self.length(state, length, what, at)?;
            return does(self, state, bytes);
        }
        self.for_each(state, length, what, at, |machine, state, bytes| {
            if bytes > LONGEST {
                return Err(machine.refuse(state, &format!("{what} of {bytes} bytes"), at));
            }
            does(machine, state, bytes)
        })
    }

    /// Performs an action byte by byte, for a length about which little is known.
    pub(crate) fn one_by_one(
        &mut self,
        state: &mut State,
        what: &str,
        at: At<'_>,
        mut goes_on: impl FnMut(&mut Self, u64) -> Term,
        mut does: impl FnMut(&mut Self, &mut State, u64) -> Flow<()>,
    ) -> Flow<()> {
        let most = u64::from(self.usual_bound_of_models());
        let mut arrivals = Vec::new();
        let mut going = state.clone();
        for index in 0..=most {
            let more = goes_on(self, index);
            let done = self.terms.not(more);
            let mut there = going.clone();
            if there.assume(&mut self.terms, done) {
                arrivals.push((there, Vec::new()));
            }
            if !going.assume(&mut self.terms, more) {
                break;
            }
            if index == most {
                self.cut = true;
                let reason = format!("{what} in more than {most} steps (--unwind)");
                self.unknown(&mut going, &reason, at.place, at.function);
                break;
            }
            match does(self, &mut going, index) {
                Ok(()) => {}
                Err(Stop::Dead) => break,
                Err(Stop::Restart) => return Err(Stop::Restart),
            }
        }
        let (after, _) = state::merge(&mut self.terms, arrivals).ok_or(Stop::Dead)?;
        *state = after;
        Ok(())
    }

    /// Copies or fills byte by byte; `byte` returns the value to store.
    pub(crate) fn bytes_one_by_one(
        &mut self,
        state: &mut State,
        to: Term,
        length: Term,
        what: &str,
        at: At<'_>,
        mut byte: impl FnMut(&mut Self, &mut State, u64) -> Flow<Term>,
    ) -> Flow<()> {
        let goes_on = |machine: &mut Self, index: u64| {
            let count = machine.terms.number(index, machine.terms.width(length));
            machine.terms.binary(Binary::LessUnsigned, count, length)
        };
        self.one_by_one(state, what, at, goes_on, |machine, state, index| {
            let value = byte(machine, state, index)?;
            let place = machine.offset(to, index);
            machine.store_scalar(state, place, value, false, at)
        })
    }

    /// The bound on iterations of models' loops.
    pub(crate) fn usual_bound_of_models(&self) -> u32 {
        let unwind = self.options.unwind;
        unwind.max(MOST_MODEL_ROUNDS.min(2 << unwind.min(8)))
    }

    /// Whether a length is one of a few that are known.
    pub(crate) fn is_length_known(&mut self, state: &State, length: Term) -> bool {
        self.cases(state, length).is_some_and(|cases| cases.len() <= MOST_LENGTHS)
    }

    /// Reads everything, then writes everything, so that the ranges may overlap.
    pub(crate) fn copy_bytes(
        &mut self,
        state: &mut State,
        to: Term,
        from: Term,
        bytes: u64,
        at: At<'_>,
    ) -> Flow<()> {
        let chunks = self.chunks(to, bytes);
        let mut values = Vec::new();
        for (offset, size) in &chunks {
            let address = self.offset(from, *offset);
            values.push(self.load_scalar(state, address, *size as u8 * 8, at)?);
        }
        for ((offset, _), value) in chunks.iter().zip(values) {
            let address = self.offset(to, *offset);
            self.store_scalar(state, address, value, false, at)?;
        }
        Ok(())
    }

    pub(crate) fn fill_bytes(
        &mut self,
        state: &mut State,
        to: Term,
        byte: Term,
        bytes: u64,
        at: At<'_>,
    ) -> Flow<()> {
        let byte = self.terms.extract(byte, 0, 8);
        let chunks = self.chunks(to, bytes);
        for (offset, size) in chunks {
            let mut value = byte;
            for _ in 1..size {
                value = self.terms.concat(byte, value);
            }
            let address = self.offset(to, offset);
            self.store_scalar(state, address, value, false, at)?;
        }
        Ok(())
    }

    /// Aligned words as far as possible, as compilers and libraries use the widest moves. If the address is unknown,
    /// words as wide as its known alignment.
    pub(crate) fn chunks(&self, to: Term, bytes: u64) -> Vec<(u64, u64)> {
        let known = self.terms.constant(to);
        let start = known.unwrap_or(0);
        let widest = if known.is_some() { 8 } else { 1 << self.terms.trailing_zeros(to).min(3) };
        let mut all = Vec::new();
        let mut offset: u64 = 0;
        while offset < bytes {
            let at = start + offset;
            let size = [8, 4, 2, 1]
                .into_iter()
                .find(|size| *size <= widest && at.is_multiple_of(*size) && offset + size <= bytes)
                .expect("one byte always fits");
            all.push((offset, size));
            offset += size;
        }
        all
    }
}
