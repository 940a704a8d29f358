//! Accesses to persistent memory: performed, and recorded if somebody wants to know.
//!
//! Everything here takes addresses in the PM window. An access is split into pieces of at most eight bytes
//! within a line, as the model wants them.

use crashproof_protocol::abi::Site;
use crashproof_protocol::{POOL_BASE, Record, mode};
use px86::{Kind, LINE_BYTES, line};

use crate::session::{MODE, SHADOW, append, count_read};
use crate::threads::{CONCURRENT, CURRENT, memory};
use crate::{brackets, raw, regions, sites};

/// Is any record wanted?
#[inline(always)]
pub(crate) fn recording() -> bool {
    unsafe { MODE != mode::PASS }
}

#[inline(always)]
pub(crate) unsafe fn recovering() -> bool {
    MODE == mode::RECOVER
}

/// Does it matter what is read?
#[inline(always)]
unsafe fn notes_reads() -> bool {
    MODE >= mode::RECOVER
}

/// Does an access of at most eight bytes stay within its line?
#[inline(always)]
fn within_line(address: u64, width: u64) -> bool {
    !line::crosses(address, width)
}

#[inline(always)]
pub(crate) unsafe fn shadow(address: u64) -> *mut u64 {
    SHADOW.add((address.wrapping_sub(POOL_BASE) / LINE_BYTES) as usize)
}

#[inline(always)]
pub(crate) fn bits(address: u64, width: u64) -> u64 {
    (u64::MAX >> (64 - width)) << (address % LINE_BYTES)
}

#[inline(always)]
pub(crate) unsafe fn record(kind: Kind, address: u64, width: u8, value: u64, site: *const Site) {
    append(Record::new(kind as u8, address, width, value, CURRENT, sites::number(site)));
}

/// Reads `width` bytes, 1 to 8, as a number.
#[inline(always)]
pub(crate) unsafe fn peek(address: u64, width: u64) -> u64 {
    match width {
        8 => (address as *const u64).read_unaligned(),
        4 => u64::from((address as *const u32).read_unaligned()),
        2 => u64::from((address as *const u16).read_unaligned()),
        1 => u64::from((address as *const u8).read()),
        _ => raw::peek_odd(address as *const u8, width),
    }
}

#[inline(always)]
pub(crate) unsafe fn poke(address: u64, width: u64, value: u64) {
    match width {
        8 => (address as *mut u64).write_unaligned(value),
        4 => (address as *mut u32).write_unaligned(value as u32),
        2 => (address as *mut u16).write_unaligned(value as u16),
        1 => (address as *mut u8).write(value as u8),
        _ => raw::poke_odd(address as *mut u8, width, value),
    }
}

/// Before reading a piece: what was not touched since the crash is recorded.
#[inline(always)]
unsafe fn before_read(address: u64, width: u64, site: *const Site) {
    if notes_reads() {
        if !recovering() {
            return regions::read(address, width, site);
        }
        let known = *shadow(address);
        let wanted = bits(address, width);
        if known & wanted != wanted {
            first_touch(address, wanted & !known, site);
        }
    }
}

/// Records the bytes of a line that are read for the first time since the crash, in runs.
#[cold]
pub(crate) unsafe fn first_touch(address: u64, mut missing: u64, site: *const Site) {
    let line = address / LINE_BYTES * LINE_BYTES;
    *shadow(address) |= missing;
    if brackets::DEPTH > 0 {
        brackets::loaded(line, missing);
    }
    while missing != 0 {
        let start = missing.trailing_zeros();
        let run = (missing >> start).trailing_ones().min(8);
        let at = line + u64::from(start);
        record(Kind::Load, at, run as u8, peek(at, u64::from(run)), site);
        missing &= !(bits(at, u64::from(run)));
    }
}

/// A piece was, or is about to be, overwritten: later reads of it do not come from before the crash.
#[inline(always)]
pub(crate) unsafe fn touch(address: u64, width: u64) {
    if recovering() {
        *shadow(address) |= bits(address, width);
        if brackets::DEPTH > 0 {
            brackets::stored(address / LINE_BYTES * LINE_BYTES, bits(address, width));
        }
    }
}

/// Loads up to eight bytes.
#[inline(always)]
pub(crate) unsafe fn load(address: u64, width: u64, site: *const Site) -> u64 {
    if CONCURRENT {
        return memory::load(address, width, site);
    }
    if recording() {
        count_read();
    }
    if within_line(address, width) {
        before_read(address, width, site);
    } else {
        let first = line::on_first_line(address, width);
        before_read(address, first, site);
        before_read(address + first, width - first, site);
    }
    peek(address, width)
}

/// Stores up to eight bytes.
#[inline(always)]
pub(crate) unsafe fn store(kind: Kind, address: u64, width: u64, value: u64, site: *const Site) {
    // The usual case in a recorded run, which may be long.
    if kind == Kind::Store && MODE == mode::RECORD && !CONCURRENT && within_line(address, width) {
        poke(address, width, value);
        return record(kind, address, width as u8, value, site);
    }
    store_otherwise(kind, address, width, value, site);
}

#[inline(never)]
unsafe fn store_otherwise(kind: Kind, address: u64, width: u64, value: u64, site: *const Site) {
    if !recording() {
        return poke(address, width, value);
    }
    if CONCURRENT {
        return memory::store(kind, address, width, value, site);
    }
    if within_line(address, width) {
        store_piece(kind, address, width, value, site);
    } else {
        let first = line::on_first_line(address, width);
        store_piece(kind, address, first, value & (u64::MAX >> (64 - 8 * first)), site);
        store_piece(kind, address + first, width - first, value >> (8 * first), site);
    }
}

#[inline(always)]
unsafe fn store_piece(kind: Kind, address: u64, width: u64, value: u64, site: *const Site) {
    poke(address, width, value);
    touch(address, width);
    record(kind, address, width as u8, value, site);
    if kind.needs_fence() || kind.fences() {
        memory::set_unfenced(kind.needs_fence());
    }
}

/// How far the next piece of a range goes: to the next multiple of eight, or to the end.
#[inline(always)]
fn piece(address: u64, left: u64) -> u64 {
    line::in_first_word(address, left)
}

/// Loads a range into volatile memory.
pub(crate) unsafe fn load_range(to: *mut u8, address: u64, bytes: u64, site: *const Site) {
    if CONCURRENT {
        return memory::load_range(to, address, bytes, site);
    }
    before_read_range(address, bytes, site);
    std::ptr::copy(address as *const u8, to, bytes as usize);
}

/// Before reading a range of any size: afterwards memory holds what this thread sees there.
pub(crate) unsafe fn before_read_range(address: u64, bytes: u64, site: *const Site) {
    if CONCURRENT {
        return memory::before_read_range(address, bytes, site);
    }
    if !notes_reads() {
        return;
    }
    let mut done = 0;
    while done < bytes {
        let at = address + done;
        if !recovering() {
            let width = piece(at, bytes - done);
            regions::read(at, width, site);
            done += width;
            continue;
        }
        let width = line::on_first_line(at, bytes - done);
        let wanted = if width == LINE_BYTES { u64::MAX } else { bits(at, width) };
        let missing = wanted & !*shadow(at);
        if missing != 0 {
            first_touch(at, missing, site);
        }
        done += width;
    }
}

/// Stores a range of any size from volatile memory or from PM that was made ready for reading.
pub(crate) unsafe fn store_range(kind: Kind, address: u64, source: *const u8, bytes: u64, site: *const Site) {
    if !recording() {
        raw::copy(address as *mut u8, source, bytes as usize);
        return;
    }
    let overlaps_from_below = (source as u64) < address && address < source as u64 + bytes;
    if overlaps_from_below {
        // From the end, so that what is still to be copied is not overwritten.
        let mut left = bytes;
        while left > 0 {
            let end = address + left;
            let width = (if end.is_multiple_of(8) { 8 } else { end % 8 }).min(left);
            left -= width;
            store(kind, address + left, width, peek(source as u64 + left, width), site);
        }
        return;
    }
    let mut done = 0;
    while done < bytes {
        let width = piece(address + done, bytes - done);
        store(kind, address + done, width, peek(source as u64 + done, width), site);
        done += width;
    }
}

/// Fills a range.
pub(crate) unsafe fn fill(address: u64, byte: u8, bytes: u64, site: *const Site) {
    if !recording() {
        raw::fill(address as *mut u8, byte, bytes as usize);
        return;
    }
    let word = u64::from_le_bytes([byte; 8]);
    let mut done = 0;
    while done < bytes {
        let width = piece(address + done, bytes - done);
        store(Kind::Store, address + done, width, word & (u64::MAX >> (64 - 8 * width)), site);
        done += width;
    }
}

/// A locked instruction on up to eight bytes: `change` gives the new value, none to store nothing.
#[inline(always)]
pub(crate) unsafe fn exchange(
    address: u64,
    width: u64,
    site: *const Site,
    change: impl Fn(u64) -> Option<u64>,
) -> u64 {
    if !recording() {
        return crate::parallel::exchange(address, width, change);
    }
    begin_exchange(site);
    let old = load(address, width, site);
    let new = change(old).map(|new| new & (u64::MAX >> (64 - 8 * width)));
    match new {
        Some(new) => store(Kind::Rmw, address, width, new, site),
        None => failed_exchange(address, width, old, site),
    }
    end_exchange(new.is_none_or(|new| new == old));
    old
}

/// A locked instruction begins: until it ends no other thread comes in between.
#[inline(always)]
pub(crate) unsafe fn begin_exchange(site: *const Site) {
    if CONCURRENT {
        memory::begin_exchange(site);
    }
}

/// It ends; `idle` if memory is as it was before.
#[inline(always)]
pub(crate) unsafe fn end_exchange(idle: bool) {
    if CONCURRENT {
        memory::end_exchange(idle);
    }
}

/// A locked instruction that stores nothing; it still fences.
#[inline(always)]
pub(crate) unsafe fn failed_exchange(address: u64, width: u64, old: u64, site: *const Site) {
    if recording() {
        record(Kind::FailedRmw, address, width as u8, old, site);
        memory::set_unfenced(false);
    }
}

/// A flush of the line of `address`.
#[inline(always)]
pub(crate) unsafe fn flush(kind: Kind, address: u64, site: *const Site) {
    if recording() && crashproof_protocol::abi::is_pm(address) {
        if CONCURRENT {
            return memory::flush_or_fence(kind, address, 0, site);
        }
        let issued = (*crate::session::CONTROL).records;
        record(kind, address, 0, issued, site);
        if kind.needs_fence() {
            memory::set_unfenced(true);
        }
    }
}

/// What a range of whole lines held before the crash no longer matters: it reads as this process has it.
pub(crate) unsafe fn forget(address: u64, bytes: u64) {
    if recovering() {
        for line in (address..address + bytes).step_by(LINE_BYTES as usize) {
            *shadow(line) = u64::MAX;
        }
    }
}

/// A flush that the program did not ask for line by line: part of an `msync`.
pub(crate) unsafe fn flush_implied(address: u64, site: *const Site) {
    if recording() && crashproof_protocol::abi::is_pm(address) {
        if CONCURRENT {
            return memory::flush_or_fence(Kind::FlushOpt, address, 1, site);
        }
        let issued = (*crate::session::CONTROL).records;
        record(Kind::FlushOpt, address, 1, issued, site);
        memory::set_unfenced(true);
    }
}

/// A fence.
#[inline(always)]
pub(crate) unsafe fn fence(kind: Kind, site: *const Site) {
    if recording() {
        if CONCURRENT {
            return memory::flush_or_fence(kind, 0, 0, site);
        }
        record(kind, 0, 0, 0, site);
        memory::set_unfenced(false);
    } else if kind == Kind::Fence {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }
}

/// A record that is not an event of the model.
pub(crate) unsafe fn note(kind: u8, address: u64, value: u64, site: *const Site) {
    if recording() {
        append(Record::new(kind, address, 0, value, CURRENT, sites::number(site)));
    }
}
