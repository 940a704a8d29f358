//! What the program may access of persistent files: what it has mapped, as far as the file reaches.
//!
//! The whole pool is accessible to the runtime, so an access outside of any mapping must be noticed here. It gets the
//! signal that the kernel would send: `SIGBUS` behind the end of the file, otherwise `SIGSEGV`. All mappings of a file
//! are at the same address (see [`crate::mappings`]), so a page counts as mapped as long as one mapping has it, and as
//! writable as long as one of them is.
//!
//! Not noticed: accesses outside of objects within a mapping, and outside of the allocated part of the heap or arena.

use std::cell::Cell;
use std::ffi::c_int;

use crashproof_protocol::FACTS;
use crashproof_protocol::abi::Site;

use crate::cell::RunningThreadCell;
use crate::faults;
use crate::session::recording;
use crate::system::raw_syscall;

const PAGE: u64 = 4096;

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

#[derive(Clone, Copy)]
struct Mapping {
    start: u64,
    end: u64,
    /// The descriptor whose size is the file's.
    stand_in: c_int,
    /// Where offset 0 of the file is.
    base: u64,
    readable: bool,
    writable: bool,
    /// Is it a private mapping that was made read-only?
    is_view: bool,
}

/// A range that may be read and written, and lies within the file.
#[derive(Clone, Copy)]
struct Good {
    start: u64,
    bytes: u64,
}

impl Good {
    const NONE: Good = Good { start: 0, bytes: 0 };
}

static MAPPINGS: RunningThreadCell<Vec<Mapping>> = RunningThreadCell::new(Vec::new());
/// The range of the last access that was looked up: all that the hot path checks.
static LAST: RunningThreadCell<Good> = RunningThreadCell::new(Good::NONE);
/// Ranges found lately, and whether they may be written: programs go back and forth between files, and a lookup asks the
/// kernel for a size.
static RECENT: RunningThreadCell<Recent> = RunningThreadCell::new(Recent::NONE);

#[derive(Clone, Copy)]
struct Recent {
    ranges: [(Good, bool); 8],
    next: usize,
}

impl Recent {
    const NONE: Recent = Recent { ranges: [(Good::NONE, false); 8], next: 0 };

    fn add(&mut self, range: Good, writable: bool) {
        self.ranges[self.next] = (range, writable);
        self.next = (self.next + 1) % self.ranges.len();
    }

    fn find(&self, address: u64, access: Access) -> Option<(Good, bool)> {
        let permits = |(range, writable): &&(Good, bool)| {
            address.wrapping_sub(range.start) < range.bytes && (*writable || access == Access::Read)
        };
        self.ranges.iter().find(permits).copied()
    }
}

/// Mappings or sizes have changed.
fn forget_what_was_found() {
    LAST.set(Good::NONE);
    RECENT.set(Recent::NONE);
}

thread_local! {
    /// Does the runtime itself access files: for calls by descriptor, which need no mapping, and their metadata?
    static UNCHECKED: Cell<bool> = const { Cell::new(false) };
}

fn rights(protection: c_int) -> (bool, bool) {
    let writable = protection & libc::PROT_WRITE != 0;
    (writable || protection & (libc::PROT_READ | libc::PROT_EXEC) != 0, writable)
}

/// The program mapped part of a file, whose offset 0 is at `base`.
pub(crate) fn add(stand_in: c_int, base: u64, start: u64, bytes: u64, protection: c_int) {
    let (readable, writable) = rights(protection);
    let end = start + bytes.next_multiple_of(PAGE);
    MAPPINGS.with(|all| all.push(Mapping { start, end, stand_in, base, readable, writable, is_view: false }));
    forget_what_was_found();
}

/// The newest mapping is a private one, of which the program only reads.
pub(crate) fn mark_view() {
    MAPPINGS.with(|all| all.last_mut().expect("a mapping").is_view = true);
}

/// Takes a range out of the newest mapping that has it.
pub(crate) fn remove(start: u64, bytes: u64) {
    let end = start + bytes.next_multiple_of(PAGE);
    MAPPINGS.with(|all| take_out(all, start, end));
    forget_what_was_found();
}

fn take_out(all: &mut Vec<Mapping>, start: u64, end: u64) {
    let exact = all.iter().rposition(|it| it.start == start && it.end == end);
    let Some(at) = exact.or_else(|| all.iter().rposition(|it| it.start < end && start < it.end)) else {
        return;
    };
    let whole = all.remove(at);
    let rest = [(whole.start, start.min(whole.end)), (end.max(whole.start), whole.end)];
    let rest: Vec<Mapping> = rest
        .into_iter()
        .filter(|(start, end)| start < end)
        .map(|(start, end)| Mapping { start, end, ..whole })
        .collect();
    all.splice(at..at, rest);
    // What lies outside of this mapping may be in its neighbors.
    for (start, end) in [(start, whole.start.min(end)), (whole.end.max(start), end)] {
        if start < end && all.iter().any(|it| it.start < end && start < it.end) {
            take_out(all, start, end);
        }
    }
}

/// The mapping at `start` now has another size.
pub(crate) fn resize(start: u64, old: u64, new: u64) {
    let end = start + old.next_multiple_of(PAGE);
    MAPPINGS.with(|all| {
        let Some(found) = all.iter_mut().rfind(|it| it.start <= start && end <= it.end) else { return };
        let whole = *found;
        take_out(all, start, end);
        all.push(Mapping { start, end: start + new.next_multiple_of(PAGE), ..whole });
    });
    forget_what_was_found();
}

/// The program changes the protection of a range. Where several mappings share it, which of them is meant is unknown,
/// so they keep theirs. Returns whether stores may now be to a private mapping: here they would change the file.
pub(crate) fn protect(start: u64, bytes: u64, protection: c_int) -> bool {
    let end = start + bytes.next_multiple_of(PAGE);
    let (readable, writable) = rights(protection);
    let opens_view = MAPPINGS.with(|all| {
        let mut touching = all.iter().filter(|it| it.start < end && start < it.end);
        let opens_view = writable && touching.clone().any(|it| it.is_view);
        let (Some(whole), None) = (touching.next().copied(), touching.next()) else { return opens_view };
        let (start, end) = (start.max(whole.start), end.min(whole.end));
        take_out(all, start, end);
        all.push(Mapping { start, end, readable, writable, ..whole });
        opens_view
    });
    forget_what_was_found();
    opens_view
}

/// A file has another size.
pub(crate) fn resized() {
    forget_what_was_found();
}

/// While this guard lives, the runtime may access everything.
pub(crate) struct Unchecked(bool);

impl Unchecked {
    pub(crate) fn new() -> Unchecked {
        Unchecked(UNCHECKED.replace(true))
    }
}

impl Drop for Unchecked {
    fn drop(&mut self) {
        UNCHECKED.set(self.0);
    }
}

/// Called before each access of the program: if it may not access the address, it gets the signal that it deserves.
#[inline(always)]
pub(crate) fn check(address: u64, access: Access, site: *const Site) {
    if !is_good(address) {
        check_otherwise(address, access, site);
    }
}

/// May the program access the address, as far as the last lookup says?
#[inline(always)]
pub(crate) fn is_good(address: u64) -> bool {
    let last = LAST.get();
    address < FACTS.base || address.wrapping_sub(last.start) < last.bytes
}

#[cold]
#[inline(never)]
fn check_otherwise(address: u64, access: Access, site: *const Site) {
    if let Some((range, writable)) = RECENT.with(|recent| recent.find(address, access)) {
        if writable {
            LAST.set(range);
        }
        return;
    }
    // A handler of the program may mend what is wrong, and return.
    while let Some(signal) = look_up(address, access) {
        faults::send(signal, address, site);
    }
}

/// The signal for an access that is not permitted.
pub(crate) fn look_up(address: u64, access: Access) -> Option<c_int> {
    if address < FACTS.base || !recording() || UNCHECKED.get() {
        return None;
    }
    let permitted = |it: &Mapping| match access {
        Access::Read => it.readable,
        Access::Write => it.writable,
    };
    let holds = |it: &&Mapping| it.start <= address && address < it.end && permitted(it);
    let Some(mapping) = MAPPINGS.with(|all| all.iter().rfind(holds).copied()) else {
        return Some(libc::SIGSEGV);
    };
    let end = mapping.end.min(mapping.base + size_of(mapping.stand_in).next_multiple_of(PAGE));
    if address >= end {
        return Some(libc::SIGBUS);
    }
    let range = Good { start: mapping.start, bytes: end - mapping.start };
    RECENT.with(|recent| recent.add(range, mapping.writable));
    if mapping.writable {
        LAST.set(range);
    }
    None
}

/// The size of a file, asked without the C library, whose functions are interposed.
fn size_of(descriptor: c_int) -> u64 {
    // SAFETY: all-zero bytes are valid; the kernel fills the structure in.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        let into = &raw mut status as usize;
        raw_syscall(libc::SYS_fstat, [descriptor as usize, into, 0, 0, 0, 0]);
        status.st_size as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_found_lately_are_found_again_for_what_they_permit() {
        let mut recent = Recent::NONE;
        assert!(recent.find(0, Access::Read).is_none());
        recent.add(Good { start: 100, bytes: 10 }, false);
        recent.add(Good { start: 200, bytes: 10 }, true);
        for (address, read, write) in
            [(100, true, false), (109, true, false), (110, false, false), (205, true, true)]
        {
            assert_eq!(recent.find(address, Access::Read).is_some(), read, "{address}");
            assert_eq!(recent.find(address, Access::Write).is_some(), write, "{address}");
        }
        (0..8).for_each(|number| recent.add(Good { start: 1000 * number + 1000, bytes: 1 }, true));
        assert!(recent.find(205, Access::Read).is_none(), "the oldest make room");
    }

    fn ranges(all: &[Mapping]) -> Vec<(u64, u64)> {
        let mut ranges: Vec<_> = all.iter().map(|it| (it.start, it.end)).collect();
        ranges.sort_unstable();
        ranges
    }

    fn mapping(start: u64, end: u64) -> Mapping {
        Mapping { start, end, stand_in: -1, base: 0, readable: true, writable: true, is_view: false }
    }

    #[test]
    fn a_hole_splits_a_mapping() {
        let mut all = vec![mapping(0, 10)];
        take_out(&mut all, 4, 6);
        assert_eq!(ranges(&all), [(0, 4), (6, 10)]);
        take_out(&mut all, 3, 8);
        assert_eq!(ranges(&all), [(0, 3), (8, 10)]);
    }

    #[test]
    fn of_two_mappings_of_a_file_one_stays() {
        let mut all = vec![mapping(0, 10), mapping(0, 4)];
        take_out(&mut all, 0, 10);
        assert_eq!(ranges(&all), [(0, 4)]);
        take_out(&mut all, 20, 30);
        assert_eq!(ranges(&all), [(0, 4)]);
    }
}
