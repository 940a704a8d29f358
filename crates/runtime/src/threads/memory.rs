//! Accesses to PM while several threads are alive.
//!
//! With a seed other than 0 each thread has a store buffer, px86's: what a thread stores, flushes and
//! fences waits there, is seen by its own loads, and takes effect later, in an order that px86's table
//! permits and the seed chooses. The trace holds what took effect, in that order.

use crashproof_protocol::abi::{FLAG_ATOMIC, FLAG_VOLATILE, Site};
use crashproof_protocol::{Record, mode, record};
use px86::buffer::Entry;
use px86::{Class, Event, Kind, Thread, line};

use super::scheduler::{CONCURRENT, CURRENT, begin_atomic, current, end_atomic, point, scheduler};
use super::strategy::Point;
use crate::access::{self, bits, peek, poke, recovering, shadow, touch};
use crate::session::{self, append, append_once};
use crate::sites;

/// What a store buffer holds at most; real ones hold some dozens.
const CAPACITY: usize = 32;

/// May a loop wait for what this access reads?
unsafe fn may_spin(site: *const Site) -> bool {
    // What stands for a place without a site is not an address.
    let is_address = !site.is_null() && (site as u64) >> 47 == 0;
    is_address && (*site).tag & (FLAG_ATOMIC | FLAG_VOLATILE) != 0
}

/// Where a thread may be switched before it accesses PM; `reads` is the address if it does nothing else.
unsafe fn before(site: *const Site, reads: Option<u64>) {
    let Some(address) = reads.filter(|_| may_spin(site)) else { return point(Point::Memory) };
    let thread = current();
    if thread.last_read != address {
        // Whoever reads one place after another is not waiting.
        thread.last_read = address;
        scheduler().progress();
    }
    point(Point::Spin);
}

/// Loads up to eight bytes.
#[inline(never)]
pub(crate) unsafe fn load(address: u64, width: u64, site: *const Site) -> u64 {
    before(site, Some(address));
    let first = line::on_first_line(address, width);
    let mut value = load_piece(address, first, site);
    if first < width {
        value |= load_piece(address + first, width - first, site) << (8 * first);
    }
    value
}

unsafe fn load_piece(address: u64, width: u64, site: *const Site) -> u64 {
    let buffer = &current().buffer;
    let mut value = peek(address, width);
    let mut wanted = bits(address, width);
    if !buffer.is_empty() {
        let forwarded = buffer.forward(address, width as u8);
        value = value & !forwarded.mask | forwarded.value;
        for byte in (0..width).filter(|byte| forwarded.mask >> (8 * byte) & 1 != 0) {
            wanted &= !bits(address + byte, 1);
        }
    }
    if recovering() {
        let missing = wanted & !*shadow(address);
        if missing != 0 {
            access::first_touch(address, missing, site);
        }
    } else {
        let site = sites::number(site);
        let kind = Kind::Load as u8;
        append_once(Record::new(kind, address, width as u8, value, CURRENT, site));
    }
    value
}

/// Before a range is read as it lies in memory: memory then holds what this thread sees there.
#[inline(never)]
pub(crate) unsafe fn before_read_range(address: u64, bytes: u64, site: *const Site) {
    before(site, Some(address));
    drain(CURRENT);
    begin_atomic();
    let mut done = 0;
    while done < bytes {
        let width = line::in_first_word(address + done, bytes - done);
        load_piece(address + done, width, site);
        done += width;
    }
    end_atomic();
}

/// Loads a range into volatile memory, piece by piece; the atomic ones in one go.
#[inline(never)]
pub(crate) unsafe fn load_range(to: *mut u8, address: u64, bytes: u64, site: *const Site) {
    let in_one_go = bytes <= 16 && may_spin(site);
    if in_one_go {
        before(site, Some(address));
        begin_atomic();
    }
    let mut done = 0;
    while done < bytes {
        let width = line::in_first_word(address + done, bytes - done);
        let value = load(address + done, width, site);
        poke(to as u64 + done, width, value);
        done += width;
    }
    if in_one_go {
        end_atomic();
    }
}

/// Stores up to eight bytes.
#[inline(never)]
pub(crate) unsafe fn store(kind: Kind, address: u64, width: u64, value: u64, site: *const Site) {
    before(site, None);
    let site = sites::number(site);
    let first = line::on_first_line(address, width);
    let rest = width - first;
    issue(kind, address, first as u8, value & (u64::MAX >> (64 - 8 * first)), site);
    if rest > 0 {
        issue(kind, address + first, rest as u8, value >> (8 * first), site);
    }
}

/// A locked instruction begins: what waits takes effect, and nobody comes in between.
#[inline(never)]
pub(crate) unsafe fn begin_exchange(site: *const Site) {
    before(site, None);
    drain(CURRENT);
    begin_atomic();
}

/// It ends; `idle` if it changed nothing, as in a loop that tries again.
pub(crate) unsafe fn end_exchange(idle: bool) {
    end_atomic();
    if idle {
        point(Point::Spin);
    }
}

/// A flush or a fence. A flush that is part of something larger has a width.
#[inline(never)]
pub(crate) unsafe fn flush_or_fence(kind: Kind, address: u64, width: u8, site: *const Site) {
    before(site, None);
    issue(kind, address, width, 0, sites::number(site));
}

/// The running thread gives an instruction out: to its buffer, or to take effect now.
unsafe fn issue(kind: Kind, address: u64, width: u8, value: u64, site: u32) {
    let issued = (*session::CONTROL).records;
    let event = Event { address, value, site: px86::Site(site), thread: Thread(CURRENT), kind, width };
    let entry = Entry { event, issued, tag: 0 };
    let scheduler = scheduler();
    if !kind.may_wait() || scheduler.strategy.leaving.is_none() || scheduler.is_atomic() {
        drain(CURRENT);
        take_effect(&entry);
        return;
    }
    if kind.stores() {
        // What happens before a store is what its thread knew when it issued it, not when it took effect.
        append(Record::new(record::ISSUE, address, width, value, CURRENT, site));
    }
    let buffer = &mut current().buffer;
    buffer.push(entry);
    if buffer.len() > CAPACITY {
        one_leaves(CURRENT);
    }
}

unsafe fn take_effect(entry: &Entry) {
    let event = &entry.event;
    let thread = event.thread.0;
    let value = if event.kind == Kind::FlushOpt { entry.issued } else { event.value };
    if event.kind.stores() {
        poke(event.address, u64::from(event.width), event.value);
        touch(event.address, u64::from(event.width));
        scheduler().progress();
    }
    if event.kind.needs_fence() || event.kind.fences() {
        scheduler().thread(thread).unfenced = event.kind.needs_fence();
    }
    record_event(event.kind, thread, event.address, event.width, value, event.site.0);
}

#[inline(always)]
unsafe fn record_event(kind: Kind, thread: u16, address: u64, width: u8, value: u64, site: u32) {
    append(Record::new(kind as u8, address, width, value, thread, site));
}

/// One of the instructions that may take effect next does.
unsafe fn one_leaves(number: u16) {
    let scheduler = scheduler();
    let waiting = scheduler.thread(number).buffer.len();
    let wanted = scheduler.strategy.random.below(waiting);
    let buffer = &mut scheduler.thread(number).buffer;
    let entry = buffer.remove(buffer.ready_before(wanted));
    take_effect(&entry);
}

/// Perhaps something leaves somebody's buffer: the hardware decides, that is the seed.
#[inline(always)]
pub(super) unsafe fn some_take_effect() {
    if let Some(leaving) = scheduler().strategy.leaving {
        while scheduler().strategy.random.chance(leaving) {
            // Somebody whose buffer is not empty, from a random one on.
            let scheduler = scheduler();
            let count = scheduler.alive().len();
            let start = scheduler.strategy.random.below(count);
            let numbers = (start..start + count).map(|index| index % count);
            let full = numbers
                .map(|index| scheduler.alive()[index])
                .find(|&number| !scheduler.thread_ref(number).buffer.is_empty());
            match full {
                Some(number) => one_leaves(number),
                None => return,
            }
        }
    }
}

/// Everything in a thread's buffer takes effect.
pub(crate) unsafe fn drain(number: u16) {
    while !scheduler().thread(number).buffer.is_empty() {
        one_leaves(number);
    }
}

/// Everything takes effect: the process ends, but what was stored does get out.
pub(super) unsafe fn drain_all() {
    if CONCURRENT {
        for number in scheduler().alive().to_vec() {
            drain(number);
        }
    }
}

/// Volatile memory was stored to, at once. What such a store may not overtake takes effect before anybody sees it.
pub(super) unsafe fn volatile_store() {
    while let Some(index) = current().buffer.ready_before_other((Class::Write, None)) {
        let entry = current().buffer.remove(index);
        take_effect(&entry);
    }
}

/// A locked instruction on volatile memory, or a function that contains one: a full fence, recorded if it
/// completes anything.
#[inline(always)]
pub(super) unsafe fn volatile_fence(site: *const Site) {
    if session::MODE != mode::PASS {
        if CONCURRENT {
            drain(CURRENT);
        }
        if current().unfenced {
            issue_fence(site);
        }
    }
}

#[cold]
unsafe fn issue_fence(site: *const Site) {
    let event = Event {
        address: 0,
        value: 0,
        site: px86::Site(sites::number(site)),
        thread: Thread(CURRENT),
        kind: Kind::Fence,
        width: 0,
    };
    take_effect(&Entry { event, issued: 0, tag: 0 });
}

/// A thread that is alone issued something that a fence completes, or such a fence.
#[inline(always)]
pub(crate) unsafe fn set_unfenced(unfenced: bool) {
    current().unfenced = unfenced;
}
