//! Store buffers: what a thread stores, flushes and fences may wait, and takes effect later.
//!
//! The buffers are px86's, and so is what may overtake what; the seed only chooses among what px86 permits. With seed 0
//! nothing waits. The trace holds what took effect, in that order.

use crashproof_protocol::abi::Site;
use crashproof_protocol::{Record, record};
use px86::buffer::Entry;
use px86::{Class, Event, Kind, Thread};

use super::running;
use super::scheduler::Scheduler;
use crate::cell::RunningThreadCell;
use crate::raw::poke;
use crate::session::{self, append};
use crate::shadow::touch;
use crate::sites;
use crate::system::give_up;

/// What a store buffer holds at most; real ones hold some dozens.
const CAPACITY: usize = 32;

static SCHEDULER: RunningThreadCell<Option<Scheduler>> = RunningThreadCell::new(None);

/// The child begins, with one thread.
pub(crate) fn begin(scheduler: Scheduler) {
    SCHEDULER.set(Some(scheduler));
}

/// Gives access to the scheduler's state; not across a switch.
#[inline(always)]
pub(crate) fn scheduler<R>(access: impl FnOnce(&mut Scheduler) -> R) -> R {
    SCHEDULER.with(|scheduler| match scheduler {
        Some(scheduler) => access(scheduler),
        None => give_up("threads before main"),
    })
}

/// Gives access to the running thread; not across a switch.
#[inline(always)]
pub(crate) fn current<R>(access: impl FnOnce(&mut super::scheduler::Thread) -> R) -> R {
    scheduler(|scheduler| access(scheduler.thread(running::number())))
}

fn event(kind: Kind, address: u64, width: u8, value: u64, site: u32) -> Event {
    Event { address, value, site: px86::Site(site), thread: Thread(running::number()), kind, width }
}

/// The running thread gives an instruction out: to its buffer, or to take effect now.
///
/// # Safety
///
/// What it stores to is in the pool, which is accessible.
pub(super) unsafe fn issue(kind: Kind, address: u64, width: u8, value: u64, site: u32) {
    let me = running::number();
    let issued = session::control(|control| control.records);
    let entry = Entry { event: event(kind, address, width, value, site), issued, tag: 0 };
    let at_once = scheduler(|scheduler| scheduler.strategy.leaving.is_none() || scheduler.is_atomic());
    // SAFETY: of this instruction the caller says so, of those in the buffer others did before.
    unsafe {
        if at_once || !kind.may_wait() {
            drain(me);
            take_effect(&entry);
            return;
        }
        if kind.stores() {
            // What happens before a store is what its thread knew when it issued it, not when it took effect.
            append(Record::new(record::ISSUE, address, width, value, me, site));
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

/// An instruction takes effect. Safe if it stores to nothing, or to the accessible pool.
unsafe fn take_effect(entry: &Entry) {
    let event = &entry.event;
    let value = if event.kind == Kind::FlushOpt { entry.issued } else { event.value };
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

/// Whether a fence would complete anything, after an instruction.
#[inline(always)]
fn note_pending(kind: Kind, unfenced: &mut bool) {
    if kind.needs_fence() {
        *unfenced = true;
    } else if kind.fences() {
        *unfenced = false;
    }
}

/// The thread is alone, and an instruction took effect at once.
#[inline(always)]
pub(crate) fn took_effect(kind: Kind) {
    if kind.needs_fence() || kind.fences() {
        current(|thread| note_pending(kind, &mut thread.unfenced));
    }
}

/// One of the instructions that may take effect next does.
///
/// # Safety
///
/// The pool is accessible.
unsafe fn one_leaves(number: u16) {
    let entry = scheduler(|scheduler| {
        let waiting = scheduler.thread(number).buffer.len();
        let wanted = scheduler.strategy.random.below(waiting);
        let buffer = &mut scheduler.thread(number).buffer;
        buffer.remove(buffer.ready_before(wanted))
    });
    // SAFETY: as for this function.
    unsafe { take_effect(&entry) };
}

/// Perhaps something leaves a buffer: the hardware decides, that is the seed.
#[inline(always)]
pub(super) fn some_take_effect() {
    while let Some(number) = scheduler(Scheduler::buffer_to_drain) {
        // SAFETY: what is in buffers was issued with accessible addresses.
        unsafe { one_leaves(number) };
    }
}

/// Everything in a thread's buffer takes effect.
pub(crate) fn drain(number: u16) {
    while scheduler(|scheduler| !scheduler.thread(number).buffer.is_empty()) {
        // SAFETY: what is in buffers was issued with accessible addresses.
        unsafe { one_leaves(number) };
    }
}

/// Everything takes effect: the process ends, but what was stored does get out.
pub(crate) fn drain_all() {
    if running::concurrent() {
        for number in scheduler(|scheduler| scheduler.alive().to_vec()) {
            drain(number);
        }
    }
}

/// Volatile memory was stored to, at once. What such a store may not overtake takes effect before anybody sees it.
pub(super) fn volatile_store() {
    let next = |thread: &mut super::scheduler::Thread| {
        let index = thread.buffer.ready_before_other((Class::Write, None))?;
        Some(thread.buffer.remove(index))
    };
    while let Some(entry) = current(next) {
        // SAFETY: what is in buffers was issued with accessible addresses.
        unsafe { take_effect(&entry) };
    }
}

/// A locked instruction on volatile memory, or a function that contains one: a full fence, recorded if it
/// completes anything.
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
