//! The events that front ends create from a program.

use crate::order::Class;
use crate::{Line, line};

/// A thread of the program, numbered from 0 in the order of creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Thread(pub u16);

/// A time: the position in the single order in which stores, flushes and fences take effect.
pub type Seq = u64;

/// A place in the source, by number; the front end that made it knows file, line and column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site(pub u32);

/// What an event does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Load; `value` is what it read.
    Load,
    /// Store of `value`.
    Store,
    /// Non-temporal store of `value`.
    NonTemporalStore,
    /// Locked read-modify-write that stored `value`.
    Rmw,
    /// Locked read-modify-write that stored nothing, such as a failed compare-and-swap; it still fences.
    FailedRmw,
    /// `clflush` of the line containing `address`.
    Flush,
    /// `clflushopt` or `clwb` of the line containing `address`.
    FlushOpt,
    /// `sfence`.
    StoreFence,
    /// `mfence`.
    Fence,
}

impl Kind {
    /// The row and column of the ordering table this event belongs to.
    pub const fn class(self) -> Class {
        match self {
            Kind::Load => Class::Read,
            Kind::Store => Class::Write,
            Kind::NonTemporalStore => Class::NonTemporal,
            Kind::Rmw | Kind::FailedRmw | Kind::Fence => Class::Fence,
            Kind::Flush => Class::Flush,
            Kind::FlushOpt => Class::FlushOpt,
            Kind::StoreFence => Class::StoreFence,
        }
    }

    /// Does the event put a value into memory?
    pub const fn stores(self) -> bool {
        matches!(self, Kind::Store | Kind::NonTemporalStore | Kind::Rmw)
    }

    /// The write-back of its own line that the instruction begins as it takes effect, and that the thread's next
    /// fence completes: a non-temporal store acts as a store followed by a `clflushopt` (deviation 3).
    pub const fn write_back(self) -> Option<Kind> {
        match self {
            Kind::NonTemporalStore => Some(Kind::FlushOpt),
            _ => None,
        }
    }

    /// Does the thread's next fence have something to complete after this?
    pub const fn needs_fence(self) -> bool {
        matches!(self, Kind::FlushOpt) || self.write_back().is_some()
    }

    /// Does the thread's earlier work, write-backs included, have to be done before its later stores?
    pub const fn fences(self) -> bool {
        matches!(self.class(), Class::Fence | Class::StoreFence)
    }

    /// May the event wait in the store buffer while its thread goes on?
    pub const fn may_wait(self) -> bool {
        !matches!(self.class(), Class::Read | Class::Fence)
    }
}

/// One step of a program, as a front end reports it.
///
/// Within one line and at most eight bytes wide: front ends split what is larger with [`line::pieces`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// Address of the first byte; of the line for flushes, ignored for fences.
    pub address: u64,
    /// Value stored or read, in the low `width` bytes.
    pub value: u64,
    /// Where in the source.
    pub site: Site,
    /// Who did it.
    pub thread: Thread,
    /// What was done.
    pub kind: Kind,
    /// Bytes accessed, 1 to 8; 0 for flushes and fences.
    pub width: u8,
}

impl Event {
    /// Is a flush part of what the kernel was asked to write back, by `fsync`, `msync` and their like? An instruction of
    /// the program flushes a line, whatever the width.
    pub const fn is_of_kernel(&self) -> bool {
        self.width != 0
    }

    /// The cache line concerned; `None` for fences.
    pub fn line(&self) -> Option<Line> {
        match self.kind {
            Kind::Fence | Kind::StoreFence => None,
            _ => Some(Line::containing(self.address)),
        }
    }

    /// What the ordering table needs to know of it.
    pub fn order_key(&self) -> (Class, Option<Line>) {
        (self.kind.class(), self.line())
    }

    /// Does it access the byte at `address`?
    pub fn covers(&self, address: u64) -> bool {
        (self.address..self.address + u64::from(self.width)).contains(&address)
    }

    /// Calls `put` with each byte of this store that falls into the `width` bytes at `address`, as index and value.
    pub(crate) fn overlay(&self, address: u64, width: u8, mut put: impl FnMut(usize, u8)) {
        let (start, end) = (self.address, self.address + u64::from(self.width));
        for at in start.max(address)..end.min(address + u64::from(width)) {
            put((at - address) as usize, (self.value >> (8 * (at - start))) as u8);
        }
    }

    /// Is the event as its documentation says: one line, at most a word?
    pub fn is_well_formed(&self) -> bool {
        match self.kind {
            Kind::Fence | Kind::StoreFence | Kind::Flush | Kind::FlushOpt => self.width == 0,
            _ => {
                let mut pieces = line::pieces(self.address, u64::from(self.width));
                (1..=line::WORD_BYTES).contains(&self.width)
                    && pieces.next().is_some_and(|piece| piece.width == self.width)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_small() {
        // A recorded run holds millions of them.
        assert_eq!(size_of::<Event>(), 24);
    }

    #[test]
    fn well_formed_means_one_line_and_one_word() {
        let store =
            Event { address: 60, value: 7, site: Site(0), thread: Thread(0), kind: Kind::Store, width: 4 };
        assert!(store.is_well_formed());
        assert!(!Event { width: 8, ..store }.is_well_formed());
        assert!(!Event { width: 0, ..store }.is_well_formed());
        assert!(Event { kind: Kind::Flush, width: 0, ..store }.is_well_formed());
    }
}
