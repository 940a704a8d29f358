//! Flushes and fences.

use crashproof_prove::program::Action;
use crashproof_prove::term::{Binary, Term};

use crate::frame::At;
use crate::machine::{Flow, Machine};
use crate::options::Flushes;
use crate::state::State;

impl Machine<'_> {
    /// Flushes the line of an address. Lines of memory that no other thread sees need no event.
    pub(crate) fn flush(
        &mut self,
        state: &mut State,
        address: Term,
        optimized: bool,
        at: At<'_>,
    ) -> Flow<()> {
        if self.options.flushes == Flushes::None {
            return Ok(());
        }
        let mut events = self.terms.truth(false);
        match self.cases(state, address) {
            Some(cases) => {
                for (condition, number) in cases {
                    let volatile = self.objects.at(number).is_some_and(|id| !self.objects.get(id).persistent);
                    if !volatile {
                        events = self.terms.or(events, condition);
                    }
                }
            }
            None => events = self.terms.truth(true),
        }
        let action = if optimized { Action::FlushOpt { address } } else { Action::Flush { address } };
        self.emit_under(state, events, action, at)?;
        if !self.terms.is_false(events) {
            let no = self.terms.truth(false);
            self.mark_fenced(state, no);
        }
        Ok(())
    }

    /// Flushes all lines of a range. If the address is unknown, the range may begin anywhere in a line.
    pub(crate) fn flush_range(&mut self, state: &mut State, start: Term, bytes: u64, at: At<'_>) -> Flow<()> {
        self.flush_lines(state, start, bytes, true, at)
    }

    pub(crate) fn flush_lines(
        &mut self,
        state: &mut State,
        start: Term,
        bytes: u64,
        optimized: bool,
        at: At<'_>,
    ) -> Flow<()> {
        let line = px86::LINE_BYTES;
        if let Some(number) = self.terms.constant(start) {
            let first = number / line * line;
            for address in (first..number + bytes).step_by(line as usize) {
                let address = self.terms.number(address.max(number), 64);
                self.flush(state, address, optimized, at)?;
            }
            return Ok(());
        }
        for offset in (0..bytes).step_by(line as usize) {
            let address = self.offset(start, offset);
            self.flush(state, address, optimized, at)?;
        }
        // The end may lie in one more line.
        let whole = (bytes.max(1) - 1) / line * line;
        let within = self.terms.number(line - 1, 64);
        let within = self.terms.and(start, within);
        let room = self.terms.number(line - (bytes.max(1) - whole), 64);
        let spills = self.terms.binary(Binary::LessUnsigned, room, within);
        if !self.terms.is_false(spills) && bytes > 1 {
            let last = self.offset(start, bytes - 1);
            let mut there = State { path: state.path.clone(), ..State::default() };
            if there.assume(&mut self.terms, spills) {
                self.flush(&mut there, last, optimized, at)?;
            }
        }
        Ok(())
    }

    /// A full fence.
    pub(crate) fn fence(&mut self, state: &mut State, at: At<'_>) -> Flow<()> {
        self.emit(state, Action::Fence, at.place, at.function)?;
        let no = self.terms.truth(false);
        self.mark_fenced(state, no);
        Ok(())
    }

    /// A fence or flush has an effect in the first iteration of a loop. If an entire iteration only flushes, fences and
    /// reads, others cannot tell how often it ran, and further iterations only reduce what a crash can leave.
    pub(crate) fn mark_fenced(&mut self, state: &mut State, stores: Term) {
        let yes = self.terms.truth(true);
        for (flag, round) in state.dirty.iter_mut().zip(&self.loops) {
            let condition = if *round == 0 { yes } else { stores };
            *flag = self.terms.or(*flag, condition);
        }
    }

    /// `sfence`.
    pub(crate) fn store_fence(&mut self, state: &mut State, at: At<'_>) -> Flow<()> {
        self.emit(state, Action::StoreFence, at.place, at.function)?;
        let no = self.terms.truth(false);
        self.mark_fenced(state, no);
        Ok(())
    }

    pub(crate) fn offset(&mut self, address: Term, by: u64) -> Term {
        let by = self.terms.number(by, 64);
        self.terms.binary(Binary::Add, address, by)
    }
}
