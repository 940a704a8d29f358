//! Processes that the program forks: one at a time touches persistent memory.
//!
//! Each has its own copy of the pool, since the runtime maps it privately; what the others did to theirs is in the
//! trace, which all share. So a process that is about to touch PM waits for its turn, and first applies to its own copy
//! everything added to the trace since its last turn. It keeps its turn until it sleeps in the kernel, ends, or only
//! polls; then the turn passes to the earliest-created process that can make progress. So the program's own waiting
//! (for a pipe, or for a child to end) decides the order, not the speed of the machine.
//!
//! Other orders are not explored: two processes that touch PM while neither has waited for the other to end make the
//! verdict UNKNOWN, together with whatever was found in this order.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};

use crashproof_protocol::{FACTS, Process, Processes, Record, reason, record};
use px86::{Kind, LINE_BYTES};

use crate::cell::RunningThreadCell;
use crate::raw;
use crate::session::{self, control, recovering, shadow};
use crate::system::{own_process, raw_syscall};

/// The process id of this process; 0 while there are no others.
static OWN: AtomicU64 = AtomicU64::new(0);

struct Turn {
    /// Nesting depth of the turn.
    depth: u32,
    /// How much of the trace has been applied to this copy of the pool.
    seen: u64,
    /// The index of this process.
    index: usize,
    /// Length of the trace at the fork.
    forked_at: u64,
    /// Consecutive turns that left the trace unchanged.
    idle: u32,
    /// The processes whose end it has waited for, a bit each.
    joined: u64,
    /// Has the unexplored order been reported?
    told: bool,
    /// Facts of files that other processes have stored.
    facts: Vec<u64>,
}

static TURN: RunningThreadCell<Turn> = RunningThreadCell::new(Turn {
    depth: 0,
    seen: 0,
    index: 0,
    forked_at: 0,
    idle: 0,
    joined: 0,
    told: false,
    facts: Vec::new(),
});

/// Have there ever been other processes?
static FORKED: AtomicBool = AtomicBool::new(false);

/// Has the program forked? Then this process's knowledge of files may be stale.
pub(crate) fn were_several() -> bool {
    FORKED.load(Relaxed)
}

/// Are there several processes?
#[inline(always)]
pub(crate) fn several() -> bool {
    OWN.load(Relaxed) != 0
}

fn table<R>(access: impl FnOnce(&mut Processes) -> R) -> R {
    control(|control| access(&mut control.processes))
}

/// The word that says whose turn it is, shared by all processes.
fn turn() -> &'static AtomicU64 {
    // SAFETY: the control block stays mapped, and this word is accessed only by atomic operations.
    table(|table| unsafe { AtomicU64::from_ptr(&raw mut table.turn) })
}

/// Called before a fork: the number for the new process's thread; `None` if there are too many. `first` is the first
/// number not used by a thread of this process.
pub(crate) fn prepare_fork(first: u16) -> Option<u16> {
    if !several() {
        let own = own_process() as u64;
        table(|table| {
            *table = Processes::NONE;
            table.all[0] = Process { number: own, thread: 0, touched: 0, waits: 0 };
            table.count = 1;
        });
        turn().store(own, SeqCst);
        OWN.store(own, Relaxed);
        FORKED.store(true, Relaxed);
        let seen = control(|control| control.records);
        TURN.with(|turn| {
            (turn.seen, turn.index, turn.forked_at, turn.depth) = (seen, 0, 0, 0);
            turn.joined = 0;
        });
    }
    let _held = hold();
    table(|table| {
        if table.count as usize >= Processes::MOST {
            return None;
        }
        let number = table.next_thread.max(first.into());
        table.next_thread = number + 1;
        u16::try_from(number).ok()
    })
}

/// Called after a fork in the parent, with the new process id; `None` if the fork failed.
pub(crate) fn forked(process: Option<i32>, thread: u16) {
    let _held = hold();
    table(|table| {
        let Some(process) = process else { return };
        let entry = Process { number: process as u64, thread: thread.into(), touched: 0, waits: 0 };
        table.all[table.count as usize] = entry;
        table.count += 1;
    });
}

/// Called after a fork in the child.
pub(crate) fn begin() {
    let own = own_process() as u64;
    let forked_at = TURN.with(|turn| turn.seen);
    OWN.store(own, Relaxed);
    // The parent makes its entry, which may take a while.
    let index = loop {
        let found = table(|table| {
            let count = (table.count as usize).min(Processes::MOST);
            table.all[..count].iter().position(|process| process.number == own)
        });
        match found {
            Some(index) => break index,
            None => pause(),
        }
    };
    TURN.with(|turn| {
        (turn.index, turn.forked_at, turn.depth) = (index, forked_at, 0);
        (turn.idle, turn.joined, turn.told) = (0, 0, false);
    });
}

/// Records that this process has waited for another to end; returns that one's thread number, if it was followed.
pub(crate) fn joined(process: i32) -> Option<u16> {
    if !several() {
        return None;
    }
    let (index, thread) = table(|table| {
        let index = table.all.iter().position(|entry| entry.number == process as u64)?;
        table.all[index].number = 0;
        Some((index, u16::try_from(table.all[index].thread).ok()?))
    })?;
    TURN.with(|turn| turn.joined |= 1 << index);
    Some(thread)
}

/// Returns whether this process is alone again: all others have ended and have been waited for.
pub(crate) fn is_alone_again() -> bool {
    let own = OWN.load(Relaxed);
    let alone = table(|table| table.all.iter().all(|entry| entry.number == 0 || entry.number == own));
    if alone {
        drop(hold());
        OWN.store(0, Relaxed);
    }
    alone
}

/// Announces that this process ends, so that others need not find out.
pub(crate) fn end() {
    if several() {
        let own = OWN.load(Relaxed);
        let _ = turn().compare_exchange(own, 0, AcqRel, Relaxed);
    }
}

/// Is this the process that the checker started?
pub(crate) fn is_first() -> bool {
    !several() || TURN.with(|turn| turn.index == 0)
}

/// Facts of files that other processes have stored since the last call.
pub(crate) fn facts_of_others() -> Vec<u64> {
    TURN.with(|turn| std::mem::take(&mut turn.facts))
}

/// While this guard lives, it is this process's turn, and its copy of the pool is up to date.
pub(crate) struct Held(());

impl Drop for Held {
    fn drop(&mut self) {
        release();
    }
}

/// Waits for this process's turn, if there are others.
#[inline(always)]
pub(crate) fn hold() -> Option<Held> {
    several().then(|| {
        acquire();
        Held(())
    })
}

/// The same for PM accesses.
#[inline(always)]
pub(crate) fn hold_to_access() -> Option<Held> {
    several().then(|| {
        acquire();
        accesses();
        Held(())
    })
}

/// Ends a turn whose guard was forgotten.
pub(crate) fn end_hold() {
    if several() {
        release();
    }
}

fn pause() {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 100_000 };
    // SAFETY: the kernel only reads the time.
    unsafe { raw_syscall(libc::SYS_nanosleep, [&raw const time as usize, 0, 0, 0, 0, 0]) };
}

/// How often a process must be seen asleep, with no progress in between, to count as waiting.
const LOOKS: u32 = 4;

#[cold]
fn acquire() {
    let outermost = TURN.with(|turn| {
        turn.depth += 1;
        turn.depth == 1
    });
    if !outermost {
        return;
    }
    let own = OWN.load(Relaxed);
    if turn().compare_exchange(own, own | Processes::BUSY, AcqRel, Relaxed).is_err() {
        wait_for_turn(own);
    }
    catch_up();
}

fn wait_for_turn(own: u64) {
    let index = TURN.with(|turn| turn.index);
    let set_waiting = |waits: u64| {
        table(|table| {
            table.all[index].waits = waits;
            // SAFETY: as for the turn.
            let waiting = unsafe { AtomicU64::from_ptr(&raw mut table.waiting) };
            if waits != 0 {
                waiting.fetch_add(1, Relaxed)
            } else {
                waiting.fetch_sub(1, Relaxed)
            };
        });
    };
    set_waiting(1);
    let mut quiet = 0;
    let mut before = (0, 0);
    loop {
        let holder = turn().load(Acquire);
        let now = (holder, session::records_seen_from_aside());
        let mine = holder == own;
        let free = mine || (may_be_taken(holder) && earlier_ones_wait(index, own, holder));
        quiet = if free && now == before { quiet + 1 } else { 0 };
        before = now;
        if (mine || quiet >= LOOKS)
            && turn().compare_exchange(holder, own | Processes::BUSY, AcqRel, Relaxed).is_ok()
        {
            break;
        }
        pause();
    }
    set_waiting(0);
}

/// Can the turn be taken from its holder, because it does not use it?
fn may_be_taken(holder: u64) -> bool {
    let process = holder & !Processes::BUSY;
    match state_of(process) {
        _ if process == 0 => true,
        None | Some(b'Z' | b'X') => true,
        Some(b'S' | b'T') => holder & Processes::BUSY == 0,
        Some(_) => holder & Processes::BUSY == 0 && is_another_program(process),
    }
}

/// Are all earlier-created processes unable to make progress? They take precedence.
fn earlier_ones_wait(index: usize, own: u64, holder: u64) -> bool {
    let others = table(|table| table.all);
    others[..index].iter().filter(|other| other.number != 0 && other.number != own).all(|other| {
        other.number == holder
            || other.waits == 0
                && match state_of(other.number) {
                    None | Some(b'S' | b'T' | b'Z' | b'X') => true,
                    Some(_) => is_another_program(other.number),
                }
    })
}

/// The kernel's state letter for a process; `None` if there is no such process.
fn state_of(process: u64) -> Option<u8> {
    let mut text = [0u8; 512];
    let length = read_file(&format!("/proc/{process}/stat\0"), &mut text)?;
    // The state follows the name, which is in parentheses.
    let text = &text[..length];
    let name_end = text.iter().rposition(|&byte| byte == b')')?;
    text.get(name_end + 2).copied()
}

/// Has a process executed another program, which does not contain the runtime?
fn is_another_program(process: u64) -> bool {
    let exe = |of: &str| std::fs::read_link(format!("/proc/{of}/exe")).ok();
    session::unfollowed(|| exe(&process.to_string()) != exe("self"))
}

fn read_file(path: &str, into: &mut [u8]) -> Option<usize> {
    // SAFETY: the path ends in zero; the kernel writes only into the buffer.
    unsafe {
        let file = raw_syscall(libc::SYS_open, [path.as_ptr() as usize, libc::O_RDONLY as usize, 0, 0, 0, 0]);
        if file < 0 {
            return None;
        }
        let length =
            raw_syscall(libc::SYS_read, [file as usize, into.as_mut_ptr() as usize, into.len(), 0, 0, 0]);
        raw_syscall(libc::SYS_close, [file as usize, 0, 0, 0, 0, 0]);
        usize::try_from(length).ok()
    }
}

/// Applies other processes' changes to this process's copy of the pool.
fn catch_up() {
    let all = session::recorded();
    let seen = TURN.with(|turn| std::mem::replace(&mut turn.seen, all.len() as u64)) as usize;
    for record in &all[seen.min(all.len())..] {
        repeat(record);
    }
}

fn repeat(record: &Record) {
    let Some(kind) = record.event_kind() else { return };
    let (address, width) = (record.address(), u64::from(record.width()));
    if width == 0 || !matches!(kind, Kind::Load | Kind::Store | Kind::NonTemporalStore | Kind::Rmw) {
        return;
    }
    if kind.stores() {
        // SAFETY: the pool is accessible there.
        unsafe { raw::poke(address, width, record.value) };
        if FACTS.contains(address) {
            TURN.with(|turn| turn.facts.push(address));
        }
    }
    if recovering() {
        let bits = (u64::MAX >> (64 - width)) << (address % LINE_BYTES);
        shadow(address, |known| *known |= bits);
    }
}

/// How many idle polls a process may make in a row before others get the turn.
const IDLE: u32 = 2_000;

fn release() {
    let records = control(|control| control.records);
    let outermost = TURN.with(|turn| {
        turn.depth = turn.depth.saturating_sub(1);
        turn.depth == 0
    });
    if !outermost {
        return;
    }
    let idle = TURN.with(|turn| {
        turn.idle = if records == turn.seen { turn.idle + 1 } else { 0 };
        turn.seen = records;
        turn.idle >= IDLE
    });
    let own = OWN.load(Relaxed);
    let _ = turn().compare_exchange(own | Processes::BUSY, own, AcqRel, Relaxed);
    if idle {
        give_way();
    }
}

/// This process cannot continue until another one acts: passes the turn, if any other can use it.
pub(crate) fn give_way() {
    if !several() {
        return;
    }
    let (depth, index) = TURN.with(|turn| {
        turn.idle = 0;
        (turn.depth, turn.index)
    });
    let own = OWN.load(Relaxed);
    if depth > 0 || turn().compare_exchange(own, 0, AcqRel, Relaxed).is_err() {
        return;
    }
    let mut quiet = 0;
    // Until one has it, or none wants it.
    while turn().load(Acquire) == 0 && quiet < LOOKS {
        let others = table(|table| table.all);
        let wanted = others.iter().enumerate().any(|(at, other)| {
            at != index
                && other.number != 0
                && (other.waits != 0
                    || matches!(state_of(other.number), Some(b'R' | b'D'))
                        && !is_another_program(other.number))
        });
        quiet = if wanted { 0 } else { quiet + 1 };
        pause();
    }
}

/// This process is about to access PM: has another one done so, unordered with respect to it?
fn accesses() {
    let records = control(|control| control.records);
    let (index, forked_at, joined) = TURN.with(|turn| (turn.index, turn.forked_at, turn.joined));
    let others = table(|table| {
        table.all[index].touched = records + 1;
        table.all
    });
    let meanwhile =
        |(at, other): (usize, &Process)| at != index && other.touched > forked_at && joined >> at & 1 == 0;
    if others.iter().enumerate().any(meanwhile) && !TURN.with(|turn| std::mem::replace(&mut turn.told, true))
    {
        session::append(Record::new(record::UNKNOWN, 0, 0, reason::PROCESSES, 0, 0));
    }
}
