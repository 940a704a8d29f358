//! Pointers to volatile memory that were stored in persistent memory.
//!
//! Recovery runs in another placement than the recorded run (see `subject::placement`), so such a pointer leads it to
//! unmapped or unrelated memory. The address of the crash reveals which value it read was the pointer.

use std::path::Path;

use crashproof_findings::Place;
use crashproof_protocol::Record;
use crashproof_protocol::abi::is_pm;
use px86::Kind;

use crate::judge::access::Access;
use crate::search::Recovered;
use crate::subject::{Failure, is_low};

/// How far from the target of a pointer a program may access: members of an object, entries of a table.
const REACH: u64 = 1 << 16;
/// No process can map what is above.
const END: u64 = 1 << 47;

/// Where a program's volatile memory begins. What is smaller is a number, such as an offset, that recovery takes for a
/// pointer because what belongs to it is lost.
#[must_use]
pub(crate) fn volatile_from(program: &Path) -> u64 {
    if is_low(program) { 1 << 20 } else { 1 << 32 }
}

/// A pointer to volatile memory that recovery followed.
#[derive(Clone, Debug)]
pub struct VolatilePointer {
    /// Its value.
    pub value: u64,
    /// Where it is stored.
    pub address: u64,
    /// Where recovery read it.
    pub read: Place,
    /// The number of that read among recovery's reads.
    pub(crate) number: usize,
}

/// Does a value point where Linux puts programs and heaps, or libraries, mappings and stacks?
fn is_usual(value: u64) -> bool {
    matches!(value >> 40, 0x55 | 0x56 | 0x7e | 0x7f) && value.is_multiple_of(2)
}

/// The pointer that led recovery to where it crashed: its place in the reads, and the store that wrote it.
/// `from` is where volatile memory begins.
pub(crate) fn followed(
    recovered: &Recovered,
    failure: &Failure,
    crashed_at: u64,
    from: u64,
) -> Option<(usize, Access)> {
    let is_pointer = |value: u64| (from..END).contains(&value) && !is_pm(value);
    let leads_there =
        |value: u64| is_pointer(value) && crashed_at.wrapping_sub(value).wrapping_add(REACH) < 2 * REACH;
    // The last candidate: memory reached through an earlier one may have led here, too.
    let mut reads = recovered.reads.iter().enumerate().rev();
    let direct = reads.find(|(_, read)| read.width == 8 && leads_there(read.value));
    // Behind a stale pointer, such as one to a table of functions, there may be another one that led here.
    let wild = matches!(failure, Failure::Signal(libc::SIGSEGV | libc::SIGBUS | libc::SIGILL));
    let last = recovered.reads.iter().enumerate().next_back().filter(|_| wild);
    let indirect = last.filter(|(_, read)| read.width == 8 && is_usual(read.value));
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
