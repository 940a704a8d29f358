//! The undo log behind the model of libpmemobj's transactions.
//!
//! A log in persistent memory with entries of any length would cost many events, most of them for things that are
//! known when the program is unrolled: where a range is and, mostly, what it held. So an entry is a word that holds the
//! number of its transaction once the entry is durable, and only what is not known is written next to it. Recovery
//! goes through all entries that could have been made, the last first.

use crashproof_prove::term::{Binary, Term};

use crate::access::At;
use crate::machine::{Flow, Machine, Stop, Who};
use crate::objects::Object;
use crate::state::{self, State};

/// An entry that the program may have made.
pub(crate) struct Entry {
    /// Where the number of its transaction is.
    flag: u64,
    number: u64,
    /// Pieces of the range: address, and what was there.
    pieces: Vec<(u64, Saved)>,
}

enum Saved {
    Known(Term),
    /// In the log: address and bits.
    Written(u64, u8),
}

impl Machine<'_> {
    /// Writes down what a range holds, durably.
    pub(crate) fn undo_add(
        &mut self,
        state: &mut State,
        point: u64,
        number: Term,
        start: Term,
        bytes: u64,
        at: At<'_>,
    ) -> Flow<()> {
        if self.several {
            return Err(self.refuse(state, "transactions of several threads are not modelled", at));
        }
        let (Some(number), Some(first)) = (self.terms.constant(number), self.terms.constant(start)) else {
            return Err(self.refuse(state, "a transaction adds a range that is not known", at));
        };
        let log = Object {
            name: format!("undo log of {}:{}", at.place.file, at.place.line),
            address: 0,
            size: px86::LINE_BYTES + bytes.next_multiple_of(8),
            persistent: true,
            initial: Vec::new(),
            defined: true,
            written: Vec::new(),
            fields: Vec::new(),
        };
        let flag = self.make_object(state, point, px86::LINE_BYTES, log);
        let mut pieces = Vec::new();
        let mut written = false;
        for (offset, size) in self.chunks(start, bytes) {
            let from = self.offset(start, offset);
            let value = self.load_scalar(state, from, size as u8 * 8, at)?;
            let saved = if self.terms.constant(value).is_some() {
                Saved::Known(value)
            } else {
                let slot = flag + px86::LINE_BYTES + offset;
                let address = self.terms.number(slot, 64);
                self.store_scalar(state, address, value, false, at)?;
                written = true;
                Saved::Written(slot, size as u8 * 8)
            };
            pieces.push((first + offset, saved));
        }
        if written {
            let data = self.terms.number(flag + px86::LINE_BYTES, 64);
            self.flush_range(state, data, bytes, at)?;
            self.store_fence(state, at)?;
        }
        let place = self.terms.number(flag, 64);
        let value = self.terms.number(number, 64);
        self.store_scalar(state, place, value, false, at)?;
        self.flush(state, place, true, at)?;
        self.store_fence(state, at)?;
        if self.who != Who::Recovery {
            self.undo.push(Entry { flag, number, pieces });
        }
        Ok(())
    }

    /// Undoes, in recovery, what was not committed.
    pub(crate) fn undo_apply(&mut self, state: &mut State, committed: Term, at: At<'_>) -> Flow<()> {
        if self.who != Who::Recovery {
            return Ok(());
        }
        let committed = self.load_scalar(state, committed, 64, at)?;
        let entries = std::mem::take(&mut self.undo);
        for entry in entries.iter().rev() {
            let place = self.terms.number(entry.flag, 64);
            let flag = self.load_scalar(state, place, 64, at)?;
            let number = self.terms.number(entry.number, 64);
            let made = self.terms.equal(flag, number);
            let open = self.terms.binary(Binary::LessUnsigned, committed, number);
            let applies = self.terms.and(made, open);
            let not = self.terms.not(applies);
            let mut undone = state.clone();
            let mut arrivals = Vec::new();
            if undone.assume(&mut self.terms, applies) {
                for (address, saved) in &entry.pieces {
                    let to = self.terms.number(*address, 64);
                    let value = match saved {
                        Saved::Known(value) => *value,
                        Saved::Written(slot, bits) => {
                            let slot = self.terms.number(*slot, 64);
                            self.load_scalar(&mut undone, slot, *bits, at)?
                        }
                    };
                    self.store_scalar(&mut undone, to, value, false, at)?;
                }
                arrivals.push((undone, Vec::new()));
            }
            let mut kept = std::mem::take(state);
            if kept.assume(&mut self.terms, not) {
                arrivals.push((kept, Vec::new()));
            }
            let (merged, _) = state::merge(&mut self.terms, arrivals).ok_or(Stop::Dead)?;
            *state = merged;
        }
        self.undo = entries;
        Ok(())
    }
}
