//! Accesses to PM while several threads are alive. Threads may be switched before each.
//!
//! # Safety
//!
//! All addresses are in the pool, which is accessible.

use crashproof_protocol::Record;
use crashproof_protocol::abi::{FLAG_ATOMIC, FLAG_VOLATILE, Site};
use px86::Kind;
use px86::line::{pieces, words};

use super::buffers::{current, drain, issue, scheduler};
use super::decisions::{self, Read};
use super::exploration::Need;
use super::running;
use super::step_notes::exploring;
use super::strategy::Point;
use super::turns::{point, step, step_to_read};
use crate::processes;
use crate::raw::{peek, poke};
use crate::session::{append_once, recovering};
use crate::shadow::{self, bits};
use crate::{callers, sites};

/// Could a loop wait for what this access reads?
fn may_spin(site: *const Site) -> bool {
    if callers::number(site as usize).is_some() {
        return false;
    }
    // SAFETY: anything but a caller's place is null or a site, and sites are constants.
    unsafe { site.as_ref() }.is_some_and(|site| site.tag & (FLAG_ATOMIC | FLAG_VOLATILE) != 0)
}

/// A possible switch before a read of PM.
fn before_load(address: u64, bytes: u64, site: *const Site) {
    if exploring() {
        return step_to_read(Need::NOTHING, read(address, bytes, site));
    }
    if !may_spin(site) {
        return point(Point::Memory);
    }
    scheduler(|scheduler| {
        let thread = scheduler.thread(running::number());
        if thread.last_read != address {
            // A thread that reads one place after another is not waiting.
            thread.last_read = address;
            scheduler.progress();
        }
    });
    point(Point::Spin);
}

fn read(address: u64, bytes: u64, site: *const Site) -> Read {
    Read { place: site as usize, address, bytes, may_wait: may_spin(site) }
}

/// While this guard lives, no other thread runs, and stores take effect at once.
pub(crate) struct Atomic;

impl Atomic {
    pub(crate) fn begin() -> Atomic {
        scheduler(|scheduler| scheduler.begin_atomic());
        Atomic
    }
}

impl Drop for Atomic {
    fn drop(&mut self) {
        scheduler(|scheduler| scheduler.end_atomic());
    }
}

/// Loads up to eight bytes.
#[inline(never)]
pub(crate) unsafe fn load(address: u64, width: u64, site: *const Site) -> u64 {
    before_load(address, width, site);
    let _turn = processes::hold_to_access();
    // SAFETY: pieces of the access.
    let load = |piece: px86::line::Piece| unsafe { load_piece(piece.address, piece.width.into(), site) };
    pieces(address, width).fold(0, |value, piece| value | load(piece) << (8 * piece.offset))
}

unsafe fn load_piece(address: u64, width: u64, site: *const Site) -> u64 {
    // SAFETY: guaranteed by the caller.
    let mut value = unsafe { peek(address, width) };
    let mut wanted = bits(address, width);
    let forwarded =
        current(|thread| (!thread.buffer.is_empty()).then(|| thread.buffer.forward(address, width as u8)));
    if let Some(forwarded) = forwarded {
        value = value & !forwarded.mask | forwarded.value;
        for byte in (0..width).filter(|byte| forwarded.mask >> (8 * byte) & 1 != 0) {
            wanted &= !bits(address + byte, 1);
        }
    }
    if exploring() {
        scheduler(|scheduler| decisions::reads(scheduler, address, width, sites::number(site)));
    }
    if recovering() {
        // SAFETY: a piece is within a line.
        unsafe { shadow::before_read(address, wanted, site) };
    } else {
        let (kind, site) = (Kind::Load as u8, sites::number(site));
        append_once(Record::new(kind, address, width as u8, value, running::number(), site));
    }
    value
}

/// Called before a range is read directly from memory, which then holds what this thread sees there.
#[inline(never)]
pub(crate) unsafe fn before_read_range(address: u64, bytes: u64, site: *const Site) {
    if exploring() {
        step(Need::EMPTY_BUFFER);
    } else {
        before_load(address, bytes, site);
    }
    drain(running::number());
    let _turn = processes::hold_to_access();
    let _atomic = Atomic::begin();
    for piece in words(address, bytes) {
        // SAFETY: pieces of the range.
        unsafe { load_piece(piece.address, piece.width.into(), site) };
    }
}

/// Loads a range into volatile memory piece by piece; small atomic ones at once. `to` has room for it.
#[inline(never)]
pub(crate) unsafe fn load_range(to: *mut u8, address: u64, bytes: u64, site: *const Site) {
    let _atomic = (bytes <= 16 && may_spin(site)).then(|| {
        before_load(address, bytes, site);
        Atomic::begin()
    });
    for piece in words(address, bytes) {
        // SAFETY: pieces of the ranges.
        unsafe {
            let value = load(piece.address, piece.width.into(), site);
            poke(to as u64 + piece.offset, piece.width.into(), value);
        }
    }
}

/// Stores up to eight bytes.
#[inline(never)]
pub(crate) unsafe fn store(kind: Kind, address: u64, width: u64, value: u64, site: *const Site) {
    point(Point::Memory);
    if exploring() && current(|thread| thread.buffer.len()) >= decisions::CAPACITY {
        step(Need::ROOM);
    }
    let _turn = processes::hold_to_access();
    let site = sites::number(site);
    for piece in pieces(address, width) {
        let value = value >> (8 * piece.offset) & (u64::MAX >> (64 - 8 * piece.width));
        // SAFETY: pieces of the access.
        unsafe { issue(kind, piece.address, piece.width, value, site) };
    }
}

/// Begins a locked instruction: it fences, and no other thread runs until it ends. `of` is what it reads, if anything.
#[inline(never)]
pub(crate) fn begin_exchange(of: Option<(u64, u64, *const Site)>) {
    point(Point::Memory);
    match of {
        Some((address, bytes, site)) => step_to_read(Need::EMPTY_BUFFER, read(address, bytes, site)),
        None => step(Need::EMPTY_BUFFER),
    }
    drain(running::number());
    if let Some(turn) = processes::hold_to_access() {
        // Ends with the instruction.
        std::mem::forget(turn);
    }
    scheduler(|scheduler| scheduler.begin_atomic());
}

/// Ends a locked instruction; `idle` if it changed nothing, as in a retry loop.
pub(crate) fn end_exchange(idle: bool) {
    scheduler(|scheduler| scheduler.end_atomic());
    processes::end_hold();
    if idle {
        point(Point::Spin);
    }
}

/// A flush or a fence. A flush that is part of something larger has a width.
#[inline(never)]
pub(crate) fn flush_or_fence(kind: Kind, address: u64, width: u8, site: *const Site) {
    point(Point::Memory);
    if !kind.may_wait() {
        step(Need::EMPTY_BUFFER);
    } else if exploring() && current(|thread| thread.buffer.len()) >= decisions::CAPACITY {
        step(Need::ROOM);
    }
    let _turn = processes::hold_to_access();
    // SAFETY: neither stores.
    unsafe { issue(kind, address, width, 0, sites::number(site)) };
}
