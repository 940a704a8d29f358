//! Performs accesses to persistent memory and records them if the checker wants to know. This is the hot path.
//!
//! An access is split into the pieces that px86 models: words for blocks, otherwise whatever fits into a cache line.
//!
//! # Safety
//!
//! All addresses lie in the PM window and are accessible: the program itself would access them.

use crashproof_protocol::abi::{Site, is_pm};
use crashproof_protocol::mode;
use px86::Kind;
use px86::line::{Piece, crosses, on_first_line, pieces, words};

use crate::fixed;
use crate::mapped::{self, Access};
use crate::parallel;
use crate::raw::{self, peek, peek_pm, poke_pm};
use crate::recorder::{read_in_region, record};
use crate::session::{self, count_read, current_mode, recording, recovering};
use crate::shadow::{self, bits, touch};
use crate::threads::buffers::took_effect;
use crate::threads::{memory, running};

/// Must reads be recorded?
#[inline(always)]
fn notes_reads() -> bool {
    current_mode() >= mode::RECOVER
}

/// Called before reading a piece: records the first touch since the crash.
unsafe fn before_read(address: u64, width: u64, site: *const Site) {
    if notes_reads() {
        // SAFETY: a piece is within a line.
        unsafe {
            if recovering() {
                shadow::before_read(address, bits(address, width), site);
            } else {
                read_in_region(address, width, peek_pm(address, width), site);
            }
        }
    }
}

/// Loads up to eight bytes.
#[inline(always)]
pub(crate) unsafe fn load(address: u64, width: u64, site: *const Site) -> u64 {
    // SAFETY: the access.
    unsafe {
        match load_quickly(address, width, site) {
            Some(value) => value,
            None => load_slowly(address, width, site),
        }
    }
}

/// The common cases, which call nothing, because there may be very many.
#[inline(always)]
unsafe fn load_quickly(address: u64, width: u64, site: *const Site) -> Option<u64> {
    if !mapped::is_good(address) || running::concurrent() || crosses(address, width) {
        return None;
    }
    // SAFETY: the access.
    unsafe {
        match current_mode() {
            mode::RECORD => session::count_read_quickly().then(|| peek_pm(address, width)),
            mode::RECOVER => shadow::read_quickly(address, width, site),
            _ => None,
        }
    }
}

#[inline(never)]
unsafe fn load_slowly(address: u64, width: u64, site: *const Site) -> u64 {
    // SAFETY: the access.
    unsafe {
        mapped::check(address, Access::Read, site);
        let mode = current_mode();
        if !matches!(mode, mode::RECORD | mode::RECOVER) || running::concurrent() || crosses(address, width) {
            return load_otherwise(address, width, site);
        }
        count_read(address);
        if mode == mode::RECOVER {
            shadow::before_read_of(address, width, site);
        }
        peek_pm(address, width)
    }
}

#[inline(never)]
unsafe fn load_otherwise(address: u64, width: u64, site: *const Site) -> u64 {
    // SAFETY: the access, or its pieces.
    unsafe {
        if running::concurrent() {
            return memory::load(address, width, site);
        }
        if recording() {
            count_read(address);
            pieces(address, width).for_each(|piece| before_read(piece.address, piece.width.into(), site));
        } else {
            session::note_unrecorded();
        }
        peek_pm(address, width)
    }
}

/// Stores up to eight bytes.
#[inline(always)]
pub(crate) unsafe fn store(kind: Kind, address: u64, width: u64, value: u64, site: *const Site) {
    // SAFETY: the access.
    unsafe {
        mapped::check(address, Access::Write, site);
        // The common case in a recorded run, kept fast because the run may be long.
        if kind == Kind::Store
            && current_mode() == mode::RECORD
            && !running::concurrent()
            && !crosses(address, width)
        {
            poke_pm(address, width, value);
            return record(kind, address, width as u8, value, site);
        }
        store_otherwise(kind, address, width, value, site);
    }
}

#[inline(never)]
unsafe fn store_otherwise(kind: Kind, address: u64, width: u64, value: u64, site: *const Site) {
    // SAFETY: the access, or its pieces.
    unsafe {
        if !recording() {
            session::note_unrecorded();
            return poke_pm(address, width, value);
        }
        if running::concurrent() {
            return memory::store(kind, address, width, value, site);
        }
        for Piece { address, width, offset } in pieces(address, width) {
            let value = value >> (8 * offset) & (u64::MAX >> (64 - 8 * width));
            poke_pm(address, width.into(), value);
            touch(address, width.into());
            record(kind, address, width, value, site);
            took_effect(kind);
        }
    }
}

/// A range with a hole in it is not noticed.
fn check_range(address: u64, bytes: u64, site: *const Site) {
    if let Some(last) = bytes.checked_sub(1) {
        mapped::check(address, Access::Read, site);
        mapped::check(address + last, Access::Read, site);
    }
}

/// Loads a range into volatile memory, which must have room for it.
pub(crate) unsafe fn load_range(to: *mut u8, address: u64, bytes: u64, site: *const Site) {
    // SAFETY: the ranges.
    unsafe {
        check_range(address, bytes, site);
        if running::concurrent() {
            return memory::load_range(to, address, bytes, site);
        }
        before_read_range(address, bytes, site);
        std::ptr::copy(raw::reachable(address) as *const u8, to, bytes as usize);
    }
}

/// Called before reading a range of any size; afterwards memory holds what this thread sees there.
pub(crate) unsafe fn before_read_range(address: u64, bytes: u64, site: *const Site) {
    // SAFETY: the range, or its pieces.
    unsafe {
        check_range(address, bytes, site);
        if running::concurrent() {
            return memory::before_read_range(address, bytes, site);
        }
        if !notes_reads() {
            return;
        }
        if !recovering() {
            return words(address, bytes).for_each(|word| before_read(word.address, word.width.into(), site));
        }
        // Recovery records its first touch per line.
        let mut at = address;
        while at < address + bytes {
            let width = on_first_line(at, address + bytes - at);
            shadow::before_read(at, bits(at, width), site);
            at += width;
        }
    }
}

/// Stores a range of any size from volatile memory, or from PM already prepared for reading.
pub(crate) unsafe fn store_range(kind: Kind, address: u64, source: *const u8, bytes: u64, site: *const Site) {
    // SAFETY: the ranges, or pieces of them.
    unsafe {
        if !recording() {
            session::note_unrecorded();
            return raw::copy(address as *mut u8, source, bytes as usize);
        }
        let store_word = |word: Piece| {
            let value = peek(source as u64 + word.offset, word.width.into());
            store(kind, word.address, word.width.into(), value, site);
        };
        let overlaps_from_below = (source as u64) < address && address < source as u64 + bytes;
        if overlaps_from_below {
            // Backwards, so that an overlapping copy does not overwrite its source.
            words(address, bytes).rev().for_each(store_word);
        } else {
            words(address, bytes).for_each(store_word);
        }
    }
}

/// Fills a range.
pub(crate) unsafe fn fill(address: u64, byte: u8, bytes: u64, site: *const Site) {
    // SAFETY: the range, or pieces of it.
    unsafe {
        if !recording() {
            session::note_unrecorded();
            return raw::fill(address as *mut u8, byte, bytes as usize);
        }
        let value = u64::from_le_bytes([byte; 8]);
        for word in words(address, bytes) {
            let value = value & (u64::MAX >> (64 - 8 * word.width));
            store(Kind::Store, word.address, word.width.into(), value, site);
        }
    }
}

/// A locked instruction on up to eight bytes. `change` returns the new value, or `None` to store nothing.
#[inline(always)]
pub(crate) unsafe fn exchange(
    address: u64,
    width: u64,
    site: *const Site,
    change: impl Fn(u64) -> Option<u64>,
) -> u64 {
    // SAFETY: the access.
    unsafe {
        if !recording() {
            session::note_unrecorded();
            return parallel::exchange(address, width, change);
        }
        begin_exchange_of(address, width, site);
        let old = load(address, width, site);
        let new = change(old).map(|new| new & (u64::MAX >> (64 - 8 * width)));
        match new {
            Some(new) => store(Kind::Rmw, address, width, new, site),
            None => failed_exchange(address, width, old, site),
        }
        end_exchange(new.is_none_or(|new| new == old));
        old
    }
}

/// A locked instruction whose old value is unused, such as a sequentially consistent store: it fences like any other,
/// but reads nothing.
pub(crate) unsafe fn overwrite(address: u64, width: u64, value: u64, site: *const Site) {
    // SAFETY: the access.
    unsafe {
        if !recording() {
            parallel::exchange(address, width, |_| Some(value));
            return;
        }
        begin_exchange();
        store(Kind::Rmw, address, width, value & (u64::MAX >> (64 - 8 * width)), site);
    }
    // Never idle: no one read the old value, so schedules must not depend on whether it changed.
    end_exchange(false);
}

/// Begins a locked instruction: until it ends, no other thread runs.
#[inline(always)]
pub(crate) fn begin_exchange() {
    if running::concurrent() {
        memory::begin_exchange(None);
    }
}

/// Like [`begin_exchange`], for one that first reads this range.
#[inline(always)]
pub(crate) fn begin_exchange_of(address: u64, bytes: u64, site: *const Site) {
    if running::concurrent() {
        memory::begin_exchange(Some((address, bytes, site)));
    }
}

/// Ends a locked instruction; `idle` if memory is unchanged.
#[inline(always)]
pub(crate) fn end_exchange(idle: bool) {
    if running::concurrent() {
        memory::end_exchange(idle);
    }
}

/// A locked instruction that stores nothing but still fences.
#[inline(always)]
pub(crate) fn failed_exchange(address: u64, width: u64, old: u64, site: *const Site) {
    if recording() {
        record(Kind::FailedRmw, address, width as u8, old, site);
        took_effect(Kind::FailedRmw);
    }
}

/// Flushes the line of `address`.
#[inline(always)]
pub(crate) fn flush(kind: Kind, address: u64, site: *const Site) {
    if recording() {
        mapped::check(fixed::in_pool(address), Access::Read, site);
    }
    flush_as(kind, address, 0, site);
}

/// A flush the program did not request line by line: part of an `msync`.
pub(crate) fn flush_implied(address: u64, site: *const Site) {
    flush_as(Kind::FlushOpt, address, 1, site);
}

/// The record's width distinguishes requested flushes from implied ones.
#[inline(always)]
fn flush_as(kind: Kind, address: u64, width: u8, site: *const Site) {
    let address = fixed::in_pool(address);
    if recording() && is_pm(address) {
        if running::concurrent() {
            return memory::flush_or_fence(kind, address, width, site);
        }
        let issued = session::control(|control| control.records);
        record(kind, address, width, issued, site);
        took_effect(kind);
    }
}

#[inline(always)]
pub(crate) fn fence(kind: Kind, site: *const Site) {
    if recording() {
        if running::concurrent() {
            return memory::flush_or_fence(kind, 0, 0, site);
        }
        record(kind, 0, 0, 0, site);
        took_effect(kind);
    } else if kind == Kind::Fence {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }
}
