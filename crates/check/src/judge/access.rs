//! A store of an execution, as findings refer to it.

use std::ops::Range;

use crashproof_protocol::Record;
use px86::Kind;
use px86::storage::CachedStore;

/// The most bytes of an access to keep.
const MOST_BYTES: usize = 64;

/// One store, or consecutive stores of one instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    /// The execution: the number of crashes before it.
    pub(crate) level: usize,
    /// Its place in the trace.
    pub(crate) index: usize,
    pub(crate) site: u32,
    pub(crate) thread: u16,
    pub(crate) address: u64,
    /// Its size, and its first bytes.
    pub(crate) bytes: u64,
    pub(crate) data: Vec<u8>,
    /// The number of stores it consists of.
    pub(crate) stores: usize,
}

impl Access {
    pub(crate) fn of_record(level: usize, index: usize, record: &Record) -> Access {
        let width = usize::from(record.width());
        Access {
            level,
            index,
            site: record.site,
            thread: record.thread(),
            address: record.address(),
            bytes: width as u64,
            data: record.value.to_le_bytes()[..width.min(8)].to_vec(),
            stores: 1,
        }
    }

    pub(crate) fn of_store(level: usize, store: &CachedStore) -> Access {
        let width = usize::from(store.event.width);
        Access {
            level,
            index: store.tag as usize,
            site: store.event.site.0,
            thread: store.event.thread.0,
            address: store.event.address,
            bytes: width as u64,
            data: store.event.value.to_le_bytes()[..width.min(8)].to_vec(),
            stores: 1,
        }
    }

    pub(crate) fn end(&self) -> u64 {
        self.address + self.bytes
    }

    /// Does it overlap a range?
    pub(crate) fn meets(&self, address: u64, bytes: u64) -> bool {
        self.address < address + bytes && address < self.end()
    }

    /// Does its thread overwrite this store within a part of the trace? A flush after that belongs to the later update,
    /// and says nothing about the order of this one.
    pub(crate) fn is_overwritten(&self, records: &[Record], part: Range<usize>) -> bool {
        let stores = |it: &Record| it.thread() == self.thread && it.event_kind().is_some_and(Kind::stores);
        let part = records.get(part).unwrap_or_default();
        part.iter().any(|it| stores(it) && self.meets(it.address(), u64::from(it.width())))
    }

    /// Merges a store that continues this one; returns whether it does.
    pub(crate) fn continued_by(&mut self, next: &Access) -> bool {
        let continues = (self.level, self.site, self.thread, self.end())
            == (next.level, next.site, next.thread, next.address);
        if continues {
            self.bytes += next.bytes;
            let room = MOST_BYTES.saturating_sub(self.data.len());
            self.data.extend(next.data.iter().take(room));
            self.stores += next.stores;
        }
        continues
    }
}
