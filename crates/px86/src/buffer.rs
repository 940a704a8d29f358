//! A thread's store buffer: what was issued and has not taken effect yet (Jaaru, Figure 7).
//!
//! Entries leave in any order that the ordering table permits. For ordinary stores, `clflush` and
//! `sfence` that is first in, first out; non-temporal stores and `clflushopt` may overtake.

use std::collections::VecDeque;

use crate::event::Seq;
use crate::order::{blocked, preserved};
use crate::{Class, Event, Line};

/// An instruction waiting to take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The instruction.
    pub event: Event,
    /// When it was issued; a `clflushopt` may take effect as early as this.
    pub issued: Seq,
    /// Chosen by the engine and passed through unchanged; engines use it to distinguish stores.
    pub tag: u32,
}

/// Bytes of a load that the own buffer supplies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// The bytes, at their places within the load; bytes not supplied are zero.
    pub value: u64,
    /// 0xff at each byte that was supplied.
    pub mask: u64,
    /// For each byte supplied, the tag of the store it came from.
    pub tags: [Option<u32>; 8],
}

/// A thread's store buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct StoreBuffer {
    entries: VecDeque<Entry>,
}

impl StoreBuffer {
    /// Adds an instruction at the young end.
    pub fn push(&mut self, entry: Entry) {
        self.entries.push_back(entry);
    }

    /// Has everything taken effect?
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many instructions wait.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The waiting instructions, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// The entry at `index`, counted from the oldest.
    pub fn get(&self, index: usize) -> Option<&Entry> {
        self.entries.get(index)
    }

    /// Indices of the entries that may take effect now: those that nothing older still waiting must
    /// precede.
    pub fn ready(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.entries.len()).filter(|&index| {
            let earlier = self.entries.range(..index).map(|earlier| earlier.event.order_key());
            !blocked(earlier, self.entries[index].event.order_key())
        })
    }

    /// An entry that may take effect now and must do so before the one at `index`: that one itself if nothing holds it
    /// back. Cheaper than [`Self::ready`] if only one entry is needed.
    pub fn ready_before(&self, mut index: usize) -> usize {
        loop {
            let later = self.entries[index].event.order_key();
            let mut earlier = self.entries.range(..index);
            match earlier.position(|earlier| preserved(earlier.event.order_key(), later)) {
                Some(blocker) => index = blocker,
                None => return index,
            }
        }
    }

    /// An entry that may take effect now and must do so before an instruction outside the buffer, of this class and on
    /// this line; `None` if there is none.
    pub fn ready_before_other(&self, later: (Class, Option<Line>)) -> Option<usize> {
        let index = self.entries.iter().position(|earlier| preserved(earlier.event.order_key(), later))?;
        Some(self.ready_before(index))
    }

    /// Takes an entry out, because it takes effect.
    ///
    /// # Panics
    ///
    /// If there is no entry at `index`.
    pub fn remove(&mut self, index: usize) -> Entry {
        self.entries.remove(index).expect("an index from `ready`")
    }

    /// What a load of `width` bytes at `address` sees of this buffer: for each byte the youngest store.
    pub fn forward(&self, address: u64, width: u8) -> Forwarded {
        let mut forwarded = Forwarded::default();
        for entry in self.entries.iter().filter(|entry| entry.event.kind.stores()) {
            entry.event.overlay(address, width, |byte, value| {
                forwarded.value = forwarded.value & !(0xff << (8 * byte)) | u64::from(value) << (8 * byte);
                forwarded.mask |= 0xff << (8 * byte);
                forwarded.tags[byte] = Some(entry.tag);
            });
        }
        forwarded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Site, Thread};

    fn entry(kind: Kind, address: u64, width: u8, value: u64) -> Entry {
        let event = Event { address, value, site: Site(0), thread: Thread(0), kind, width };
        Entry { event, issued: 0, tag: address as u32 }
    }

    fn ready(entries: &[Entry]) -> Vec<usize> {
        let mut buffer = StoreBuffer::default();
        entries.iter().for_each(|&entry| buffer.push(entry));
        buffer.ready().collect()
    }

    #[test]
    fn stores_leave_in_order() {
        assert_eq!(ready(&[entry(Kind::Store, 0, 8, 1), entry(Kind::Store, 64, 8, 1)]), [0]);
        assert_eq!(ready(&[entry(Kind::Store, 0, 8, 1), entry(Kind::Flush, 64, 0, 0)]), [0]);
    }

    #[test]
    fn clflushopt_overtakes_other_lines_but_not_its_own_nor_a_store_fence() {
        let store = entry(Kind::Store, 0, 8, 1);
        assert_eq!(ready(&[store, entry(Kind::FlushOpt, 64, 0, 0)]), [0, 1]);
        assert_eq!(ready(&[store, entry(Kind::FlushOpt, 8, 0, 0)]), [0]);
        let fence = entry(Kind::StoreFence, 0, 0, 0);
        assert_eq!(ready(&[store, fence, entry(Kind::FlushOpt, 64, 0, 0)]), [0]);
    }

    #[test]
    fn non_temporal_stores_are_weakly_ordered() {
        let far = entry(Kind::NonTemporalStore, 0, 8, 1);
        assert_eq!(ready(&[far, entry(Kind::Store, 64, 8, 1)]), [0, 1]);
        assert_eq!(ready(&[far, entry(Kind::Store, 8, 8, 1)]), [0]);
    }

    #[test]
    fn what_holds_an_entry_back_is_ready() {
        let mut buffer = StoreBuffer::default();
        for (kind, address) in [
            (Kind::Store, 0),
            (Kind::FlushOpt, 64),
            (Kind::StoreFence, 0),
            (Kind::NonTemporalStore, 128),
            (Kind::FlushOpt, 128),
        ] {
            buffer.push(entry(kind, address, if kind.stores() { 8 } else { 0 }, 1));
        }
        let ready: Vec<usize> = buffer.ready().collect();
        for index in 0..5 {
            let first = buffer.ready_before(index);
            assert!(ready.contains(&first) && (first == index) == ready.contains(&index));
        }
    }

    #[test]
    fn forwarding_is_byte_by_byte_and_youngest_first() {
        let mut buffer = StoreBuffer::default();
        buffer.push(entry(Kind::Store, 0, 8, 0x1111_1111_1111_1111));
        buffer.push(entry(Kind::Store, 2, 2, 0x2233));
        let seen = buffer.forward(0, 4);
        assert_eq!(seen.value, 0x2233_1111);
        assert_eq!(seen.mask, 0xffff_ffff);
        assert_eq!(seen.tags[..4], [Some(0), Some(0), Some(2), Some(2)]);
        let partly = buffer.forward(6, 4);
        assert_eq!((partly.value, partly.mask), (0x1111, 0xffff));
    }
}
