//! Inline assembly whose memory operands the plugin announces: what differs afterwards is what it stored.

use std::ptr::null_mut;

use crashproof_protocol::abi::{Site, asm};
use crashproof_protocol::record;
use px86::Kind;
use px86::line::words;

use crate::access;
use crate::cell::RunningThreadCell;
use crate::raw;
use crate::recorder::note;
use crate::session::recording;

const SNAPSHOT_BYTES: usize = 4096;

/// What ranges held before the assembly that is running; assembly does not nest within a thread.
struct Snapshots {
    bytes: [u8; SNAPSHOT_BYTES],
    used: usize,
    /// Address, size, and where in `bytes` the content is.
    ranges: [(u64, u64, usize); 8],
    count: usize,
    /// Ranges of the assembly that is running: from the first to the last no other thread runs.
    announced: u32,
}

static SNAPSHOTS: RunningThreadCell<Snapshots> = RunningThreadCell::new(Snapshots {
    bytes: [0; SNAPSHOT_BYTES],
    used: 0,
    ranges: [(0, 0, 0); 8],
    count: 0,
    announced: 0,
});

impl Snapshots {
    /// Makes room for the content of a range; null if there is none.
    fn add(&mut self, address: u64, bytes: u64) -> *mut u8 {
        if self.count == self.ranges.len() || self.used as u64 + bytes > SNAPSHOT_BYTES as u64 {
            return null_mut();
        }
        self.ranges[self.count] = (address, bytes, self.used);
        self.count += 1;
        let room = &mut self.bytes[self.used..][..bytes as usize];
        self.used += bytes as usize;
        room.as_mut_ptr()
    }

    /// What a range held; the last one ends the statement.
    fn take(&mut self, address: u64, bytes: u64) -> Option<Vec<u8>> {
        let ranges = &self.ranges[..self.count];
        let known = ranges.iter().find(|known| (known.0, known.1) == (address, bytes));
        let content = known.map(|known| self.bytes[known.2..][..bytes as usize].to_vec());
        if ranges.last().is_some_and(|last| last.0 == address) {
            (self.count, self.used) = (0, 0);
        }
        content
    }
}

/// Does assembly run that was announced?
pub(crate) fn is_running() -> bool {
    SNAPSHOTS.with(|snapshots| snapshots.announced > 0)
}

/// Assembly is about to access a range of PM: memory must hold what the thread sees.
///
/// # Safety
///
/// The range is the program's.
pub(crate) unsafe fn before(address: u64, bytes: u64, flags: u32, site: *const Site) {
    if !recording() {
        return;
    }
    if !is_running() {
        access::begin_exchange();
    }
    SNAPSHOTS.with(|snapshots| snapshots.announced += 1);
    if flags & asm::READ != 0 {
        // SAFETY: the program is about to read it.
        unsafe { access::before_read_range(address, bytes, site) };
    }
    if flags & asm::WRITE == 0 {
        return;
    }
    let room = SNAPSHOTS.with(|snapshots| snapshots.add(address, bytes));
    if room.is_null() {
        note(record::UNKNOWN, address, 0, site);
        return;
    }
    // SAFETY: there is room for so many bytes. Not inside of `with`: strict mode faults at the first.
    unsafe { raw::copy(room, address as *const u8, bytes as usize) };
}

/// It ran.
///
/// # Safety
///
/// The range is the program's.
pub(crate) unsafe fn after(address: u64, bytes: u64, flags: u32, site: *const Site) {
    if !recording() {
        return;
    }
    if flags & asm::WRITE != 0
        && let Some(before) = SNAPSHOTS.with(|snapshots| snapshots.take(address, bytes))
    {
        // SAFETY: the range that was announced.
        unsafe { record_changes(address, &before, flags, site) };
    }
    SNAPSHOTS.with(|snapshots| snapshots.announced = snapshots.announced.saturating_sub(1));
    if !is_running() {
        access::end_exchange(false);
    }
}

unsafe fn record_changes(address: u64, before: &[u8], flags: u32, site: *const Site) {
    let kind = match flags {
        flags if flags & asm::LOCKED != 0 => Kind::Rmw,
        flags if flags & asm::NONTEMPORAL != 0 => Kind::NonTemporalStore,
        _ => Kind::Store,
    };
    let mut stored = false;
    for word in words(address, before.len() as u64) {
        let (at, width) = (word.offset as usize, usize::from(word.width));
        // SAFETY: words of the range.
        unsafe {
            let now = std::slice::from_raw_parts(raw::reachable(word.address) as *const u8, width);
            if now != &before[at..at + width] || kind == Kind::Rmw && !stored {
                // One locked instruction is one exchange.
                let kind = if stored && kind == Kind::Rmw { Kind::Store } else { kind };
                access::store_range(kind, word.address, now.as_ptr(), width as u64, site);
                stored = true;
            } else if flags & asm::READ == 0 {
                // It stored what was there already, or nothing: that depends on what was there, so it counts as read.
                access::before_read_range(word.address, width as u64, site);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_last_for_a_statement() {
        let mut snapshots =
            Snapshots { bytes: [7; SNAPSHOT_BYTES], used: 0, ranges: [(0, 0, 0); 8], count: 0, announced: 0 };
        assert!(!snapshots.add(64, 8).is_null());
        assert!(!snapshots.add(128, 16).is_null());
        assert!(snapshots.add(256, SNAPSHOT_BYTES as u64).is_null(), "no room");
        assert_eq!(snapshots.take(64, 8), Some(vec![7; 8]));
        assert_eq!(snapshots.take(64, 4), None);
        assert_eq!(snapshots.take(128, 16), Some(vec![7; 16]));
        assert_eq!((snapshots.used, snapshots.take(64, 8)), (0, None), "the last range ends it");
    }
}
