//! Follows the checker's decisions step by step, and notes what each step did.

use crashproof_protocol::abi::is_pm;
use crashproof_protocol::steps::{self, Access, AccessKind, Actor, Note, is_entry, kind, thread_of};
use crashproof_protocol::{exit, schedule};
use px86::Kind;

use super::exploration::{Arrival, Choice, Counts, Exploration, Hidden, Need, object, prefer};
use super::program_state::program_state;
use super::scheduler::Scheduler;
use super::state::scheduler;
use super::step_notes::{set_follows_decisions, write, write_at};
use super::{locks, running, unseen_accesses};
use crate::cell::RunningThreadCell;
use crate::raw::{peek, poke};
use crate::session;

static EXPLORATION: RunningThreadCell<Option<Exploration>> = RunningThreadCell::new(None);

/// Capacity of a store buffer.
pub(crate) const CAPACITY: usize = 32;

/// Called when the child starts.
pub(super) fn begin(strategy: u32) {
    set_follows_decisions(strategy == schedule::DECISIONS);
    if strategy != schedule::DECISIONS {
        return;
    }
    let (decisions, sleeping) = session::decisions();
    let mut asleep: Vec<(Actor, Vec<Access>)> = Vec::new();
    for note in sleeping {
        match note.access() {
            Some(access) => asleep.last_mut().expect("a sleeper comes first").1.push(access),
            None => asleep.push((note.actor, Vec::new())),
        }
    }
    EXPLORATION.set(Some(Exploration::new(decisions.to_vec(), asleep)));
}

fn with<R>(access: impl FnOnce(&mut Exploration) -> R) -> R {
    EXPLORATION.with(|exploration| access(exploration.as_mut().expect("the run follows decisions")))
}

/// An actor accesses something; threads that wait for it to change continue.
pub(super) fn accessed(scheduler: &mut Scheduler, actor: Actor, access: Access, site: u32) {
    write_at(Note::of(actor, &access).kind, actor, access.address, access.bytes, site);
    with(|exploration| exploration.accesses(access));
    let me = thread_of(actor);
    if !is_entry(actor) {
        scheduler.thread(me).progress.visible = true;
    }
    if !matches!(access.kind, AccessKind::Read | AccessKind::Flush) {
        scheduler.thread(me).progress.changes += 1;
        for index in 0..scheduler.alive().len() {
            let number = scheduler.alive()[index];
            let progress = &mut scheduler.thread(number).progress;
            if number != me {
                progress.changed(&access);
            } else if access.kind != AccessKind::Sync && !is_entry(actor) {
                // A thread has always seen what leaves its own buffer.
                progress.did_something();
            }
        }
    }
}

/// The running thread operates on an object.
pub(super) fn synchronizes(scheduler: &mut Scheduler, kind: AccessKind, address: u64) {
    accessed(scheduler, steps::thread(running::number()), object(kind, address), 0);
}

/// The running thread waits until another one operates on an object.
pub(super) fn awaits(scheduler: &mut Scheduler, address: u64) {
    scheduler.thread(running::number()).progress.awaits(object(AccessKind::Sync, address));
}

/// The running thread reads.
pub(crate) fn reads(scheduler: &mut Scheduler, address: u64, bytes: u64, site: u32) {
    let access = Access::new(AccessKind::Read, address, bytes as u32);
    accessed(scheduler, steps::thread(running::number()), access, site);
}

/// A read that a thread is about to perform.
#[derive(Clone, Copy)]
pub(super) struct Read {
    /// Its place in the program.
    pub(super) place: usize,
    pub(super) address: u64,
    pub(super) bytes: u64,
    /// Could a loop wait for the value it reads?
    pub(super) may_wait: bool,
}

impl Read {
    fn access(&self) -> Access {
        Access::new(AccessKind::Read, self.address, self.bytes as u32)
    }
}

/// The running thread is about to read. If it has been here before in the same state, it now waits until something
/// changes that it has read since. Returns its state, if that was computed.
pub(super) fn arrives(scheduler: &mut Scheduler, read: Read) -> Option<u64> {
    let progress = &mut scheduler.thread(running::number()).progress;
    let (arrival, state) = progress.arrives(read.place, read.access(), read.may_wait, program_state);
    if arrival == Arrival::Counts {
        note_counting(Counts::ForLong);
    }
    state
}

/// It now reads, having arrived there in this state.
pub(super) fn goes_to_read(scheduler: &mut Scheduler, read: Read, state: Option<u64>) {
    let progress = &mut scheduler.thread(running::number()).progress;
    progress.reads(read.place, read.access(), state);
}

/// Notes that a thread which counts its rounds is treated as waiting from here on, though it may not be; the note's
/// width says so.
fn note_counting(counts: Counts) {
    if counts == Counts::ForLong {
        write(kind::RETRIED, steps::thread(running::number()), 0, 1);
    }
}

/// The running thread yields.
pub(super) fn gives_way(scheduler: &mut Scheduler) {
    note_counting(scheduler.thread(running::number()).progress.gives_way(program_state()));
}

/// The running thread is about to wait with a timeout.
pub(super) fn waits_until(scheduler: &mut Scheduler) {
    let me = running::number();
    let numbers = scheduler.alive().to_vec();
    let others = numbers.into_iter().filter(|&number| number != me);
    let changes = others.map(|number| scheduler.thread(number).progress.changes).sum();
    scheduler.thread(me).progress.waits_until(program_state(), changes);
}

/// The running thread has announced a locked instruction on this volatile memory.
///
/// # Safety
///
/// The program is about to access it.
pub(super) unsafe fn begins_exchange(scheduler: &mut Scheduler, address: u64, bytes: u64) {
    // SAFETY: as for this function.
    let value = unsafe { peek(address, bytes.clamp(1, 8)) };
    scheduler.thread(running::number()).progress.exchanged = Some((address, bytes, value));
}

/// Called after a locked instruction on volatile memory has stored; returns whether that changed anything.
///
/// # Safety
///
/// The program has just accessed it.
pub(super) unsafe fn exchange_ended(scheduler: &mut Scheduler, address: u64, site: u32) -> bool {
    let Some((at, bytes, before)) = scheduler.thread(running::number()).progress.exchanged.take() else {
        return true;
    };
    // SAFETY: as for this function.
    let changed = at != address || bytes > 8 || unsafe { peek(address, bytes.clamp(1, 8)) } != before;
    if changed {
        writes(scheduler, address, if at == address { bytes } else { 8 }, site);
    }
    changed
}

/// Called after a locked instruction on volatile memory that only read.
pub(super) fn exchange_read(scheduler: &mut Scheduler) {
    scheduler.thread(running::number()).progress.exchanged = None;
}

/// Has the running thread announced a locked instruction on this volatile memory?
pub(super) fn is_told_of_exchange(scheduler: &mut Scheduler, address: u64) -> bool {
    scheduler.thread(running::number()).progress.exchanged.is_some_and(|(at, ..)| at == address)
}

/// The running thread writes.
pub(super) fn writes(scheduler: &mut Scheduler, address: u64, bytes: u64, site: u32) {
    let access = Access::new(AccessKind::Write, address, bytes as u32);
    accessed(scheduler, steps::thread(running::number()), access, site);
}

fn is_available(scheduler: &mut Scheduler, number: u16) -> bool {
    let thread = scheduler.thread(number);
    let Need { empty_buffer, room, lock } = thread.progress.need;
    let waiting = thread.buffer.len();
    (!empty_buffer || waiting == 0)
        && (!room || waiting < CAPACITY)
        && lock.is_none_or(|lock| locks::with(|locks| locks.is_available(lock, number)))
}

/// All actors that can step, in order of preference.
fn enabled(scheduler: &mut Scheduler) -> Vec<Actor> {
    let mut enabled = Vec::new();
    // Threads whose timeout may fire now or later: least preferred.
    let mut timed = Vec::new();
    for index in 0..scheduler.alive().len() {
        let number = scheduler.alive()[index];
        let thread = scheduler.thread(number);
        let stores = |&index: &usize| thread.buffer.get(index).is_some_and(|entry| entry.event.kind.stores());
        let ready = thread.buffer.ready().filter(stores);
        enabled.extend(ready.map(|index| {
            let entry = thread.buffer.get(index).expect("it is ready");
            steps::entry(number, entry.tag.into())
        }));
        if thread.may_time_out() && !thread.progress.patient {
            timed.push(steps::thread(number));
        }
        let runs = thread.is_ready() && !thread.progress.spins && !thread.progress.ends_process;
        if runs && is_available(scheduler, number) {
            enabled.push(steps::thread(number));
        }
    }
    let greedy = with(|exploration| exploration.is_greedy());
    prefer(&mut enabled, running::number().wrapping_add(greedy.into()));
    enabled.extend(timed);
    enabled
}

/// Threads that could wake up spuriously, and have not yet.
fn may_wake_up(scheduler: &mut Scheduler) -> Vec<Actor> {
    let numbers = scheduler.alive().to_vec();
    let may = |number: &u16| {
        scheduler.waits_for_condition(*number).is_some()
            && !scheduler.thread(*number).progress.woke_up
            && is_available(scheduler, *number)
    };
    numbers.into_iter().filter(may).map(steps::spurious).collect()
}

/// The running thread wakes one of several waiting threads: the index of that one, which is a decision of its own.
pub(super) fn choose_woken(waiting: &[u16]) -> usize {
    let me = running::number();
    let choices: Vec<Actor> = waiting.iter().map(|&woken| steps::choice(me, woken)).collect();
    let chosen = follow(&choices, &[]);
    choices.iter().position(|&choice| choice == chosen).unwrap_or(0)
}

/// Chooses and notes the actor of the next step.
fn follow(enabled: &[Actor], only_decided: &[Actor]) -> Actor {
    let actor = match with(|exploration| exploration.choose(enabled, only_decided)) {
        Choice::Step(actor) => actor,
        Choice::Redundant => session::end_at_once(exit::REDUNDANT),
        Choice::Infeasible => session::end_at_once(exit::INFEASIBLE),
    };
    write(kind::STEP, actor, 0, 0);
    unseen_accesses::step_begins();
    enabled.iter().chain(only_decided).for_each(|&other| write(kind::ENABLED, other, 0, 0));
    session::control(|control| control.points += 1);
    actor
}

/// No actor can step: advances time, or lets spinning threads continue. Returns whether that helped.
fn let_somebody_go_on(scheduler: &mut Scheduler) -> bool {
    let alive = scheduler.alive().to_vec();
    if let Some(&number) = alive.iter().find(|&&number| scheduler.thread(number).progress.ends_process) {
        scheduler.thread(number).progress.ends_process = false;
        return true;
    }
    let spinning: Vec<u16> =
        alive.iter().copied().filter(|&number| scheduler.thread(number).progress.spins).collect();
    if !spinning.is_empty() {
        // Time advances while threads spin.
        scheduler.time_passes();
        if !with(Exploration::retry) {
            session::too_much_work();
        }
        for number in spinning {
            let progress = &mut scheduler.thread(number).progress;
            progress.did_something();
            progress.retried = true;
            write(kind::RETRIED, steps::thread(number), 0, 0);
        }
        return true;
    }
    if scheduler.next_timeout() {
        return true;
    }
    false
}

/// Drains stores as decided, until a thread is to step; returns that thread. `None` means deadlock.
pub(super) fn next_thread(drain: impl Fn(u16, usize)) -> Option<u16> {
    loop {
        let (enabled, sleepers) = scheduler(|scheduler| (enabled(scheduler), may_wake_up(scheduler)));
        if enabled.is_empty() && !with(|exploration| exploration.is_decided(&sleepers)) {
            if scheduler(let_somebody_go_on) {
                continue;
            }
            return None;
        }
        let actor = follow(&enabled, &sleepers);
        let number = thread_of(actor);
        if !is_entry(actor) {
            scheduler(|scheduler| {
                if steps::is_spurious(actor) {
                    wakes_up(scheduler, number);
                }
                scheduler.time_out(number);
                let progress = &mut scheduler.thread(number).progress;
                progress.visible = false;
                if progress.need.empty_buffer {
                    write(kind::FENCED, actor, 0, 0);
                }
                progress.need = Need::NOTHING;
            });
            return Some(number);
        }
        let index = scheduler(|scheduler| {
            let tag = (actor >> 16) as u32;
            scheduler.thread(number).buffer.entries().position(|entry| entry.tag == tag)
        });
        drain(number, index.expect("it is enabled"));
    }
}

/// A thread wakes up spuriously, ordered before or after every signal.
fn wakes_up(scheduler: &mut Scheduler, number: u16) {
    if let Some(condition) = scheduler.waits_for_condition(number) {
        scheduler.wake_up(number);
        scheduler.thread(number).progress.woke_up = true;
        accessed(scheduler, steps::thread(number), object(AccessKind::Sync, condition), 0);
    }
}

/// Has the running thread's step accessed nothing yet? Then no new step is needed.
pub(super) fn goes_on(need: Need) -> bool {
    need == Need::NOTHING
        && scheduler(|scheduler| {
            let progress = &scheduler.thread(running::number()).progress;
            !progress.visible && !progress.spins
        })
}

/// The running thread is about to perform a volatile store; returns whether it will be buffered.
///
/// # Safety
///
/// The program is about to store there.
pub(super) unsafe fn store_begins(scheduler: &mut Scheduler, address: u64, bytes: u64) -> bool {
    let waits = bytes <= 8 && bytes > 0 && !is_pm(address) && !is_own_stack(address);
    if waits {
        // SAFETY: the caller vouches for the address.
        let before = unsafe { peek(address, bytes) };
        scheduler.thread(running::number()).progress.begun = Some((address, bytes as u8, before));
    }
    waits
}

/// The store is done; returns its address, width and value.
pub(super) fn store_ended(scheduler: &mut Scheduler) -> Option<(u64, u8, u64)> {
    let progress = &mut scheduler.thread(running::number()).progress;
    let (address, width, before) = progress.begun.take()?;
    // SAFETY: the program has just stored there.
    let value = unsafe { peek(address, width.into()) };
    let issued = progress.issued + 1;
    progress.hidden.push(Hidden { issued, address, width, value, before });
    Some((address, width, value))
}

/// Applies a thread's buffered stores to memory, or reverts them, so that memory matches its view.
fn show_hidden(hidden: &mut [Hidden], shown: bool) {
    // SAFETY: the program stored there.
    unsafe {
        if shown {
            for store in hidden.iter_mut() {
                store.before = peek(store.address, store.width.into());
                poke(store.address, store.width.into(), store.value);
            }
        } else {
            for store in hidden.iter().rev() {
                poke(store.address, store.width.into(), store.before);
            }
        }
    }
}

/// The turn passes to another thread: makes memory match its view.
pub(super) fn change_view(scheduler: &mut Scheduler, from: u16, to: u16) {
    if from != to {
        show_hidden(&mut scheduler.thread(from).progress.hidden, false);
        show_hidden(&mut scheduler.thread(to).progress.hidden, true);
    }
}

/// A volatile store leaves the buffer, and becomes visible to all.
pub(super) fn hidden_takes_effect(scheduler: &mut Scheduler, number: u16, issued: u32) {
    let hidden = &mut scheduler.thread(number).progress.hidden;
    let Some(index) = hidden.iter().position(|store| store.issued == issued) else { return };
    let store = hidden.remove(index);
    let running = running::number();
    if number != running {
        show_hidden(&mut scheduler.thread(running).progress.hidden, false);
        // SAFETY: the program stored there.
        unsafe { poke(store.address, store.width.into(), store.value) };
        show_hidden(&mut scheduler.thread(running).progress.hidden, true);
    }
}

/// What an instruction that takes effect accesses.
pub(super) fn access_of(event: &px86::Event) -> Option<Access> {
    match event.kind {
        kind if kind.stores() => Some(Access::new(AccessKind::Write, event.address, event.width.into())),
        Kind::Flush | Kind::FlushOpt => {
            let line = px86::Line::containing(event.address).start();
            Some(Access::new(AccessKind::Flush, line, px86::LINE_BYTES as u32))
        }
        _ => None,
    }
}

/// What a store accesses besides its bytes: the order of the stores to its line.
pub(super) fn line_order(address: u64) -> Access {
    /// An address that no lock can have.
    const NO_ADDRESS: u64 = 1 << 63;
    object(AccessKind::Sync, NO_ADDRESS | px86::Line::containing(address).start())
}

/// Is the address on the stack of the running thread? Other threads practically never access it.
fn is_own_stack(address: u64) -> bool {
    const REACH: u64 = 1 << 16;
    let here = 0u8;
    let here = &raw const here as u64;
    address.wrapping_sub(here) < REACH
}
