//! Copies and fills of memory.

use crashproof_prove::term::Term;

use crate::frame::At;
use crate::machine::{Flow, Machine, Stop};
use crate::state::State;

/// Longer ranges than this are refused.
const LONGEST: u64 = 1 << 16;

/// Of more different lengths than these none is taken to be known.
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

    /// Does something for every length that there may be.
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

    /// Reads all, then writes all, so that the ranges may overlap.
    pub(crate) fn copy_bytes(
        &mut self,
        state: &mut State,
        to: Term,
        from: Term,
        bytes: u64,
        at: At<'_>,
    ) -> Flow<()> {
        let chunks = self.chunks(to, bytes);
        self.must_be_aligned(state, to, &chunks, "a copy", at)?;
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
        self.must_be_aligned(state, to, &chunks, "a fill", at)?;
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

    /// Where the address is not known it was taken to be aligned; where it may not be, what is done is not known.
    pub(crate) fn must_be_aligned(
        &mut self,
        state: &mut State,
        to: Term,
        chunks: &[(u64, u64)],
        what: &str,
        at: At<'_>,
    ) -> Flow<()> {
        let widest = chunks.iter().map(|&(_, size)| size).max().unwrap_or(1);
        if self.terms.constant(to).is_some() || widest == 1 {
            return Ok(());
        }
        let within = self.terms.number(widest - 1, 64);
        let within = self.terms.and(to, within);
        let misaligned = match self.cases(state, within) {
            Some(cases) if cases.iter().all(|&(_, offset)| offset == 0) => return Ok(()),
            _ => self.terms.nonzero(within),
        };
        let mut there = State { path: state.path.clone(), ..State::default() };
        if there.assume(&mut self.terms, misaligned) {
            let reason = format!("{what} to an address that may not be a multiple of {widest}");
            self.unknown(&mut there, &reason, at.place, at.function);
        }
        let aligned = self.terms.not(misaligned);
        if state.assume(&mut self.terms, aligned) { Ok(()) } else { Err(Stop::Dead) }
    }

    /// Aligned words as far as possible, as compilers and libraries use the widest moves they can. Where the address is
    /// not known it is taken to be aligned.
    pub(crate) fn chunks(&self, to: Term, bytes: u64) -> Vec<(u64, u64)> {
        let start = self.terms.constant(to).unwrap_or(0);
        let mut all = Vec::new();
        let mut offset: u64 = 0;
        while offset < bytes {
            let at = start + offset;
            let size = [8, 4, 2, 1]
                .into_iter()
                .find(|size| at.is_multiple_of(*size) && offset + size <= bytes)
                .expect("one byte always fits");
            all.push((offset, size));
            offset += size;
        }
        all
    }
}
