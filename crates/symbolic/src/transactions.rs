//! What the libpmemobj model needs for transactions: an undo log, and a list of ranges to flush.
//!
//! A persistent log with entries of variable length would cost many events, most of them for data known when the
//! program is unrolled: where a range is and, usually, what it held. So an entry is a word that holds the number of its
//! transaction once the entry is durable, and only unknown data is written next to it. A transaction commits by writing
//! its number to a word of its thread; numbers increase, so an entry is active as long as its number is larger than
//! that word. Recovery visits all entries that could have been made, last first.
//!
//! Lines of the log are written one after another, with fences in between. libpmemobj writes them together and uses a
//! checksum to detect whether all of them arrived, which is equivalent, but an observer of all memory would consider
//! that program not robust.

use crashproof_prove::term::{Binary, Term};
use rustc_hash::FxHashSet;

use crate::frame::At;
use crate::machine::{Flow, Machine, Stop, Who};
use crate::objects::Object;
use crate::records::{Entry, NewRange, Range};
use crate::state::{self, State};

/// `POBJ_XADD_NO_FLUSH` and `POBJ_XADD_NO_SNAPSHOT`.
const NO_FLUSH: u64 = 2;
const NO_SNAPSHOT: u64 = 4;

/// The offset in the log, after the flag, of the address of an unknown range.
const ADDRESS: u64 = 8;

impl Machine<'_> {
    /// The number of a new transaction, larger than all previous ones.
    pub(crate) fn transaction_number(&mut self) -> Term {
        self.transactions.numbers += 1;
        self.terms.number(self.transactions.numbers, 64)
    }

    /// Adds a range to a transaction: its content is logged durably, and it will be flushed.
    pub(crate) fn transaction_add(&mut self, state: &mut State, new: &NewRange, at: At<'_>) -> Flow<()> {
        let NewRange { number, start, bytes, flags, .. } = *new;
        if self.is_added(state, number, start, bytes) {
            return Ok(());
        }
        let who = self.who;
        let range =
            Range { who, number, path: state.path.clone(), start, bytes, flush: flags & NO_FLUSH == 0 };
        self.transactions.ranges.push(range);
        if flags & NO_SNAPSHOT == 0 { self.snapshot(state, new, at) } else { Ok(()) }
    }

    /// Whether a whole range was already added on every path that leads here.
    fn is_added(&self, state: &State, number: u64, start: Term, bytes: u64) -> bool {
        self.transactions.ranges.iter().rev().any(|range| {
            let covers = match (self.terms.constant(range.start), self.terms.constant(start)) {
                (Some(outer), Some(inner)) => outer <= inner && inner + bytes <= outer + range.bytes,
                _ => range.start == start && bytes <= range.bytes,
            };
            covers
                && (range.who, range.number) == (self.who, number)
                && range.path.iter().all(|condition| state.known(&self.terms, *condition) == Some(true))
        })
    }

    fn snapshot(&mut self, state: &mut State, new: &NewRange, at: At<'_>) -> Flow<()> {
        let NewRange { point, number, committed, start, bytes, .. } = *new;
        let chunks = self.chunks(start, bytes);
        let line = px86::LINE_BYTES;
        let name = format!("undo log of {}:{}", at.place.file, at.place.line);
        let size = line + bytes.next_multiple_of(8);
        let log = Object { internal: true, ..Object::persistent(name, size) };
        let flag = self.make_object(state, point, line, log);
        let durable = self.who != Who::Recovery;
        let mut pieces = Vec::new();
        let mut open: Option<u64> = None;
        for (offset, size) in chunks {
            let from = self.offset(start, offset);
            let value = self.load_scalar(state, from, size as u8 * 8, at)?;
            if self.terms.constant(value).is_some() || !durable {
                pieces.push((offset, value, None));
                continue;
            }
            let slot = flag + line + offset;
            if let Some(before) = open.filter(|before| before / line != slot / line) {
                self.finish_line(state, before, at)?;
            }
            let address = self.terms.number(slot, 64);
            self.store_scalar(state, address, value, false, at)?;
            open = Some(slot);
            pieces.push((offset, value, Some(slot)));
        }
        if let Some(slot) = open {
            self.finish_line(state, slot, at)?;
        }
        if durable {
            if self.terms.constant(start).is_none() {
                let place = self.terms.number(flag + ADDRESS, 64);
                self.store_scalar(state, place, start, false, at)?;
            }
            let place = self.terms.number(flag, 64);
            let value = self.terms.number(number, 64);
            self.store_scalar(state, place, value, false, at)?;
            self.finish_line(state, flag, at)?;
        }
        let path = state.path.clone();
        let entry = Entry { who: self.who, number, path, flag, committed, start, pieces };
        self.transactions.entries.push(entry);
        Ok(())
    }

    fn finish_line(&mut self, state: &mut State, address: u64, at: At<'_>) -> Flow<()> {
        let address = self.terms.number(address, 64);
        self.flush(state, address, true, at)?;
        self.store_fence(state, at)
    }

    /// Flushes what a transaction has added and allocated, each line once.
    pub(crate) fn transaction_flush(&mut self, state: &mut State, number: u64, at: At<'_>) -> Flow<()> {
        let line = px86::LINE_BYTES;
        let mut done: FxHashSet<(Vec<Term>, u64)> = FxHashSet::default();
        let who = self.who;
        let own = |range: &&Range| range.flush && (range.who, range.number) == (who, number);
        let ranges: Vec<Range> = self.transactions.ranges.iter().filter(own).cloned().collect();
        for range in ranges {
            let mut there =
                State { path: state.path.clone(), dirty: state.dirty.clone(), ..State::default() };
            if !range.path.iter().all(|condition| there.assume(&mut self.terms, *condition)) {
                continue;
            }
            match self.terms.constant(range.start) {
                Some(start) => {
                    for address in (start / line * line..start + range.bytes).step_by(line as usize) {
                        if done.insert((there.path.clone(), address)) {
                            let address = self.terms.number(address.max(start), 64);
                            self.flush(&mut there, address, true, at)?;
                        }
                    }
                }
                None => self.flush_range(&mut there, range.start, range.bytes, at)?,
            }
            state.dirty = there.dirty;
        }
        Ok(())
    }

    /// Undoes the effects of the current thread's transaction, last first.
    pub(crate) fn transaction_undo(&mut self, state: &mut State, number: u64, at: At<'_>) -> Flow<()> {
        let who = self.who;
        let own = |entry: &&Entry| (entry.who, entry.number) == (who, number);
        let entries: Vec<Entry> = self.transactions.entries.iter().rev().filter(own).cloned().collect();
        for entry in entries {
            self.either(state, &entry.path, |machine, state| {
                for (offset, value, _) in &entry.pieces {
                    let to = machine.offset(entry.start, *offset);
                    machine.store_scalar(state, to, *value, false, at)?;
                }
                let last = entry.pieces.last();
                let bytes =
                    last.map_or(0, |(offset, value, _)| offset + u64::from(machine.terms.width(*value)) / 8);
                machine.flush_range(state, entry.start, bytes, at)
            })?;
        }
        Ok(())
    }

    /// During recovery, undoes what was not committed.
    pub(crate) fn transactions_recover(&mut self, state: &mut State, at: At<'_>) -> Flow<()> {
        if self.who != Who::Recovery {
            return Ok(());
        }
        let before = |entry: &&Entry| entry.who != Who::Recovery;
        let entries: Vec<Entry> = self.transactions.entries.iter().rev().filter(before).cloned().collect();
        for entry in entries {
            let committed = self.terms.number(entry.committed, 64);
            let committed = self.load_scalar(state, committed, 64, at)?;
            let flag = self.terms.number(entry.flag, 64);
            let flag = self.load_scalar(state, flag, 64, at)?;
            let open = self.terms.binary(Binary::LessUnsigned, committed, flag);
            self.either(state, &[open], |machine, state| {
                let start = match machine.terms.constant(entry.start) {
                    Some(_) => entry.start,
                    None => {
                        let place = machine.terms.number(entry.flag + ADDRESS, 64);
                        machine.load_scalar(state, place, 64, at)?
                    }
                };
                for (offset, value, slot) in &entry.pieces {
                    let value = match slot {
                        None => *value,
                        Some(slot) => {
                            let bits = machine.terms.width(*value);
                            let slot = machine.terms.number(*slot, 64);
                            machine.load_scalar(state, slot, bits, at)?
                        }
                    };
                    let to = machine.offset(start, *offset);
                    machine.store_scalar(state, to, value, false, at)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Performs an action where all conditions hold, and nothing elsewhere.
    fn either(
        &mut self,
        state: &mut State,
        conditions: &[Term],
        does: impl FnOnce(&mut Self, &mut State) -> Flow<()>,
    ) -> Flow<()> {
        let mut there = state.clone();
        if !conditions.iter().all(|condition| there.assume(&mut self.terms, *condition)) {
            return Ok(());
        }
        if there.path == state.path {
            return does(self, state);
        }
        let start = self.terms.truth(true);
        let all = conditions.iter().fold(start, |all, condition| self.terms.and(all, *condition));
        let not = self.terms.not(all);
        let mut arrivals = Vec::new();
        match does(self, &mut there) {
            Ok(()) => arrivals.push((there, Vec::new())),
            Err(Stop::Dead) => {}
            Err(Stop::Restart) => return Err(Stop::Restart),
        }
        let mut kept = std::mem::take(state);
        if kept.assume(&mut self.terms, not) {
            arrivals.push((kept, Vec::new()));
        }
        let (merged, _) = state::merge(&mut self.terms, arrivals).ok_or(Stop::Dead)?;
        *state = merged;
        Ok(())
    }
}
