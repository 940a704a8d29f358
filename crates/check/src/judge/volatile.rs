//! Pointers to volatile memory that were kept in persistent memory.
//!
//! Recovery runs in another placement than the recorded run (see `subject::placement`), so that what it finds behind
//! such a pointer is nothing, or something else. Where it crashed says which of the values that it read was the pointer.

use crashproof_findings::Place;
use crashproof_protocol::Record;
use crashproof_protocol::abi::is_pm;
use px86::Kind;

use crate::judge::access::Access;
use crate::search::Recovered;
use crate::subject::Failure;

/// How far from what a pointer points to a program may look: members of an object, entries of a table.
const REACH: u64 = 1 << 16;
/// No pointer: small numbers, and what no process can map.
const ADDRESSES: std::ops::Range<u64> = 1 << 20..1 << 47;

/// A pointer to volatile memory that recovery followed.
#[derive(Clone, Debug)]
pub struct VolatilePointer {
    /// What it is.
    pub value: u64,
    /// Where it is kept.
    pub address: u64,
    /// Where recovery read it.
    pub read: Place,
    /// Which of recovery's first reads that was.
    pub(crate) number: usize,
}

/// No pointer of a process in its usual placement is smaller.
const LOWEST: u64 = 1 << 32;

/// A pointer that led recovery to where it crashed: its place in the reads, and the store that put it there.
pub(crate) fn followed(recovered: &Recovered, failure: &Failure, crashed_at: u64) -> Option<(usize, Access)> {
    let is_pointer = |value: u64| ADDRESSES.contains(&value) && !is_pm(value);
    let leads_there =
        |value: u64| is_pointer(value) && crashed_at.wrapping_sub(value).wrapping_add(REACH) < 2 * REACH;
    // The last one read: what it found behind an earlier one may have led here, too.
    let mut reads = recovered.reads.iter().enumerate().rev();
    let direct = reads.find(|(_, read)| read.width == 8 && leads_there(read.value));
    // Where there is something else now, such as behind a pointer to a table of functions, that led on.
    let wild = matches!(failure, Failure::Signal(libc::SIGSEGV | libc::SIGBUS | libc::SIGILL));
    let last = recovered.reads.iter().enumerate().next_back().filter(|_| wild);
    let indirect = last.filter(|(_, read)| {
        read.width == 8 && is_pointer(read.value) && read.value > LOWEST && read.value % 2 == 0
    });
    let (index, read) = direct.or(indirect)?;
    let state = recovered.state;
    (0..state.crashes()).rev().find_map(|level| {
        let puts = |record: &&Record| {
            record.address() == read.address
                && record.value == read.value
                && record.width() == 8
                && record.event_kind().is_some_and(Kind::stores)
        };
        let at = state.records(level).iter().rposition(|record| puts(&record))?;
        Some((index, Access::of_record(level, at, &state.records(level)[at])))
    })
}
