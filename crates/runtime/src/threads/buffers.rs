//! Store buffers: a thread's stores, flushes and fences may be delayed, and take effect later.
//!
//! px86 defines the buffers and which reorderings they allow; the seed only chooses among those. With seed 0 nothing is
//! delayed. The trace holds instructions in the order in which they took effect.

use crashproof_protocol::abi::{Site, is_pm};
use crashproof_protocol::steps::{self, Access, AccessKind, kind};
use crashproof_protocol::{Record, flag, record};
use px86::buffer::Entry;
use px86::{Class, Event, Kind, Thread};

use super::decisions;
use super::happens_before;
use super::running;
use super::scheduler::Scheduler;
pub(crate) use super::state::{begin, current, scheduler};
use super::step_notes::{exploring, note, write};
use crate::processes;
use crate::raw::{peek, poke};
use crate::session::{self, append};
use crate::shadow::touch;
use crate::sites;

/// Capacity of a store buffer; real ones hold a few dozen entries.
const CAPACITY: usize = decisions::CAPACITY;

fn event(kind: Kind, address: u64, width: u8, value: u64, site: u32) -> Event {
    Event { address, value, site: px86::Site(site), thread: Thread(running::number()), kind, width }
}

/// The running thread issues an instruction: into its buffer, or to take effect immediately.
///
/// # Safety
///
/// The address it stores to is in the pool, which is accessible.
pub(super) unsafe fn issue(kind: Kind, address: u64, width: u8, value: u64, site: u32) {
    let me = running::number();
    let issued = session::control(|control| control.records);
    let mut entry = Entry { event: event(kind, address, width, value, site), issued, tag: 0 };
    if exploring() {
        let tag = current(|thread| {
            thread.progress.issued += 1;
            thread.progress.issued
        });
        entry.tag = tag;
    }
    // The others may just have ended, in which case nothing would drain the buffer.
    let alone = !running::concurrent();
    let at_once = scheduler(|scheduler| {
        (scheduler.strategy.leaving.is_none() || alone) && !exploring() || scheduler.is_atomic()
    });
    // SAFETY: guaranteed by the caller for this instruction, and by earlier callers for those in the buffer.
    unsafe {
        if at_once || !kind.may_wait() {
            drain(me);
            take_effect(&entry);
            return;
        }
        if kind.stores() {
            // What happened before a store is what its thread knew when it was issued, not when it took effect.
            if is_pm(address) {
                let _turn = processes::hold();
                append(Record::new(record::ISSUE, address, width, value, me, site));
            }
        }
        if exploring() {
            note(kind::ISSUED, steps::entry(me, entry.tag.into()));
            current(|thread| {
                // Flushes and fences are invisible to other threads.
                if kind.stores() {
                    thread.progress.did_something();
                }
                thread.buffer.push(entry);
            });
            settle_quietly(me);
            return;
        }
        let waiting = current(|thread| {
            thread.buffer.push(entry);
            thread.buffer.len()
        });
        if waiting > CAPACITY {
            one_leaves(me);
        }
    }
}

/// Makes an instruction take effect. Safe if it stores nothing, or to the accessible pool.
unsafe fn take_effect(entry: &Entry) {
    let event = &entry.event;
    let value = if event.kind == Kind::FlushOpt { entry.issued } else { event.value };
    let _turn = processes::hold();
    let explored = exploring();
    if explored {
        note_effect(entry);
    }
    if event.kind.stores() && !is_pm(event.address) {
        return;
    }
    if event.kind.stores() {
        // SAFETY: the pool is accessible there.
        unsafe { poke(event.address, event.width.into(), event.value) };
        touch(event.address, event.width.into());
    }
    scheduler(|scheduler| {
        if event.kind.stores() {
            scheduler.progress();
        }
        note_pending(event.kind, &mut scheduler.thread(event.thread.0).unfenced);
    });
    let (kind, site) = (event.kind as u8, event.site.0);
    append(Record::new(kind, event.address, event.width, value, event.thread.0, site));
}

/// Notes that an instruction takes effect, and what it accesses. If it was not delayed, it is its thread's own step.
fn note_effect(entry: &Entry) {
    let event = &entry.event;
    let (number, issued) = (event.thread.0, entry.tag);
    scheduler(|scheduler| {
        let waited = event.kind.may_wait() && issued != 0 && !scheduler.is_atomic();
        let actor = if waited { steps::entry(number, issued.into()) } else { steps::thread(number) };
        if waited {
            let recorded = is_pm(event.address) || !event.kind.stores();
            write(kind::EFFECT, actor, actor, recorded.into());
        }
        if event.kind.stores() && !is_pm(event.address) {
            decisions::hidden_takes_effect(scheduler, number, issued);
        }
        // A locked instruction that does not change memory has only read it. That read has not been noted if the
        // program does not use the value.
        // SAFETY: it is about to be stored to.
        let unchanged =
            event.kind == Kind::Rmw && unsafe { peek(event.address, event.width.into()) } == event.value;
        if let Some(access) = decisions::access_of(event) {
            let kind = if unchanged { AccessKind::Read } else { access.kind };
            decisions::accessed(scheduler, actor, Access { kind, ..access }, event.site.0);
        }
        if event.kind.stores() && is_pm(event.address) && !unchanged && !session::has_flag(flag::EADR) {
            // A crash keeps a prefix of a line's stores, so their order matters regardless of which bytes they write.
            let line = decisions::line_order(event.address);
            decisions::accessed(scheduler, actor, line, 0);
        }
    });
    if event.kind.stores() && !is_pm(event.address) {
        happens_before::changed_by(event.address, number, event.site.0);
    }
}

/// Lets a thread's flushes and store fences take effect as early as possible: later they would only make more stores
/// certain.
fn settle_quietly(number: u16) {
    let next = |scheduler: &mut Scheduler| {
        let buffer = &mut scheduler.thread(number).buffer;
        let quiet = |&index: &usize| buffer.get(index).is_some_and(|entry| !entry.event.kind.stores());
        let index = buffer.ready().find(quiet)?;
        Some(buffer.remove(index))
    };
    while let Some(entry) = scheduler(next) {
        // SAFETY: buffered instructions were issued with accessible addresses.
        unsafe { take_effect(&entry) };
    }
}

/// Makes the entry at `index` of a thread's buffer take effect, as decided.
pub(super) fn leaves(number: u16, index: usize) {
    let entry = scheduler(|scheduler| scheduler.thread(number).buffer.remove(index));
    // SAFETY: buffered instructions were issued with accessible addresses.
    unsafe { take_effect(&entry) };
    settle_quietly(number);
}

/// A volatile store has been performed, but is buffered as far as other threads are concerned. Returns whether there
/// was one.
pub(super) fn hidden_store(site: *const Site) -> bool {
    let Some((address, width, value)) = scheduler(decisions::store_ended) else { return false };
    // SAFETY: the store has been performed already.
    unsafe { issue(Kind::Store, address, width, value, sites::number(site)) };
    true
}

/// Tracks whether a fence would complete anything.
#[inline(always)]
fn note_pending(kind: Kind, unfenced: &mut bool) {
    if kind.needs_fence() {
        *unfenced = true;
    } else if kind.fences() {
        *unfenced = false;
    }
}

/// Called when the thread is alone, and its instruction took effect immediately.
#[inline(always)]
pub(crate) fn took_effect(kind: Kind) {
    if kind.needs_fence() || kind.fences() {
        current(|thread| note_pending(kind, &mut thread.unfenced));
    }
}

/// Makes one of the instructions that may take effect next do so.
///
/// # Safety
///
/// The pool is accessible.
unsafe fn one_leaves(number: u16) {
    let entry = scheduler(|scheduler| {
        let waiting = scheduler.thread(number).buffer.len();
        let wanted = if exploring() { 0 } else { scheduler.strategy.random.below(waiting) };
        let buffer = &mut scheduler.thread(number).buffer;
        buffer.remove(buffer.ready_before(wanted))
    });
    // SAFETY: as for this function.
    unsafe { take_effect(&entry) };
}

/// May drain an entry of some buffer: that is the hardware's choice, made by the seed.
#[inline(always)]
pub(super) fn some_take_effect() {
    while let Some(number) = scheduler(Scheduler::buffer_to_drain) {
        // SAFETY: buffered instructions were issued with accessible addresses.
        unsafe { one_leaves(number) };
    }
}

/// Drains a thread's buffer.
pub(crate) fn drain(number: u16) {
    while scheduler(|scheduler| !scheduler.thread(number).buffer.is_empty()) {
        // SAFETY: buffered instructions were issued with accessible addresses.
        unsafe { one_leaves(number) };
    }
}

/// Drains all buffers: the process ends, but its stores still take effect.
pub(crate) fn drain_all() {
    if running::concurrent() {
        for number in scheduler(|scheduler| scheduler.alive().to_vec()) {
            drain(number);
        }
    }
}

/// Called after a volatile store that took effect at once. Everything it may not overtake takes effect before any other
/// thread sees it.
pub(super) fn volatile_store() {
    let next = |thread: &mut super::scheduler::Thread| {
        let index = thread.buffer.ready_before_other((Class::Write, None))?;
        Some(thread.buffer.remove(index))
    };
    while let Some(entry) = current(next) {
        // SAFETY: buffered instructions were issued with accessible addresses.
        unsafe { take_effect(&entry) };
    }
}

/// A locked instruction on volatile memory, or a function that contains one: a full fence, recorded if it completes
/// anything.
#[inline(always)]
pub(crate) fn volatile_fence(site: *const Site) {
    if session::recording() {
        if running::concurrent() {
            drain(running::number());
        }
        if current(|thread| thread.unfenced) {
            fence(site);
        }
    }
}

#[cold]
fn fence(site: *const Site) {
    let event = event(Kind::Fence, 0, 0, 0, sites::number(site));
    // SAFETY: a fence stores nothing.
    unsafe { take_effect(&Entry { event, issued: 0, tag: 0 }) };
}
