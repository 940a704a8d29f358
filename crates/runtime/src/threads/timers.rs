//! Signal-sending timers, driven by the program's virtual clock.
//!
//! A real timer fires at a different point in every run. So timers whose signal the program handles are kept here:
//! while one is set, time advances with every PM access and every waiting function, and the signal comes between two of
//! these, at the same point in every run. A real timer occasionally examines a program that does neither but waits in
//! its own loop; whenever it fires, that is between the same two operations.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::running;
use super::state::scheduler;
use crate::cell::RunningThreadCell;
use crate::session;
use crate::system::{own_process, own_thread, raw_syscall};

/// How far time advances per operation, in nanoseconds.
const OPERATION: u64 = 1_000;
/// The maximum number of timers.
const MOST: usize = 32;

/// The signal value of the real timer that examines the program.
pub(crate) const LOOKS: usize = 0x6372_6173_6870_7266;
/// Processor time between two examinations, in nanoseconds.
const BETWEEN_LOOKS: i64 = 200_000_000;

/// Identifies a timer of the process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// The timer of `alarm` and `setitimer`, by its kind.
    Interval(i32),
    /// A timer from `timer_create`.
    Created(usize),
}

#[derive(Clone, Copy)]
struct Timer {
    which: Which,
    signal: i32,
    /// The value passed to the handler.
    value: usize,
    /// When it is due by the scheduler's clock, and its interval; 0 for a one-shot timer.
    due: u64,
    interval: u64,
}

static TIMERS: RunningThreadCell<[Option<Timer>; MOST]> = RunningThreadCell::new([None; MOST]);
/// The number of operations so far, readable without the baton.
static OPERATIONS: AtomicU64 = AtomicU64::new(0);

fn now() -> u64 {
    scheduler(|scheduler| scheduler.now)
}

/// Is any timer set?
pub(crate) fn any() -> bool {
    TIMERS.with(|timers| timers.iter().any(Option::is_some))
}

/// Sets a timer, or stops it if it is never due. Returns when it would have been due, and its interval; `None` if there
/// are too many timers.
pub(crate) fn set(which: Which, signal: i32, value: usize, first: u64, interval: u64) -> Option<(u64, u64)> {
    let now = now();
    let result = TIMERS.with(|timers| {
        let known = |timer: &Option<Timer>| timer.is_some_and(|timer| timer.which == which);
        let before = timers.iter().position(known).and_then(|at| timers[at].take());
        if first > 0 {
            let free = timers.iter().position(Option::is_none)?;
            timers[free] = Some(Timer { which, signal, value, due: now + first, interval });
        }
        Some(before.map_or((0, 0), |before| (before.due.saturating_sub(now).max(1), before.interval)))
    });
    // Operations are noticed only if accesses take the slow path.
    running::set_watched(any());
    look_after_program(if first > 0 { Some(signal) } else { None });
    result
}

/// The time until a timer is due, and its interval; zeros if it is not set.
pub(crate) fn remaining(which: Which) -> (u64, u64) {
    let now = now();
    TIMERS.with(|timers| {
        let known = timers.iter().flatten().find(|timer| timer.which == which);
        known.map_or((0, 0), |timer| (timer.due.saturating_sub(now).max(1), timer.interval))
    })
}

/// A forked process inherits none of its parent's timers.
pub(crate) fn forget() {
    TIMERS.set([None; MOST]);
    LOOKING.set(0);
    running::set_watched(false);
}

/// Called before an operation: sends the signals of timers that are due.
#[inline(always)]
pub(super) fn before_operation() {
    if running::is_watched() {
        time_passes(OPERATION);
    }
}

#[cold]
fn time_passes(nanoseconds: u64) {
    OPERATIONS.fetch_add(1, Relaxed);
    if scheduler(|scheduler| {
        scheduler.now += nanoseconds;
        scheduler.is_atomic()
    }) {
        return;
    }
    let now = now();
    while let Some(timer) = take_due(now) {
        send(timer);
    }
}

/// The first timer that is due at this time, rearmed for its next expiry.
fn take_due(moment: u64) -> Option<Timer> {
    TIMERS.with(|timers| {
        let due = timers.iter_mut().filter(|timer| timer.is_some_and(|timer| timer.due <= moment));
        let first = due.min_by_key(|timer| timer.map_or(0, |timer| timer.due))?;
        let timer = (*first)?;
        *first = (timer.interval > 0).then(|| Timer { due: moment.max(timer.due) + timer.interval, ..timer });
        Some(timer)
    })
}

/// The process waits until an instant, or forever: time advances to the first timer due before that, if there is one,
/// and its signal comes. Returns whether there was one.
pub(crate) fn wait_until(moment: u64) -> bool {
    let first = TIMERS.with(|timers| timers.iter().flatten().map(|timer| timer.due).min());
    let Some(due) = first.filter(|due| *due <= moment) else { return false };
    OPERATIONS.fetch_add(1, Relaxed);
    scheduler(|scheduler| scheduler.advance_to(due));
    let timer = take_due(due);
    running::set_watched(any());
    timer.is_some_and(|timer| {
        send(timer);
        true
    })
}

/// The process waits in the kernel, for other events as well: from here on timers are real ones.
pub(crate) fn leave_to_kernel() {
    const SECOND: u64 = 1_000_000_000;
    let now = now();
    for timer in TIMERS.with(|timers| std::mem::replace(timers, [None; MOST])).into_iter().flatten() {
        let time = |time: u64, unit: u64| [time / SECOND, time % SECOND / unit];
        let times = |unit: u64| {
            let [first, interval] =
                [timer.due.saturating_sub(now).max(1_000), timer.interval].map(|it| time(it, unit));
            [interval[0], interval[1], first[0], first[1]]
        };
        // SAFETY: the kernel only reads the times.
        unsafe {
            match timer.which {
                Which::Interval(which) => raw_syscall(
                    libc::SYS_setitimer,
                    [which as usize, times(1000).as_ptr() as usize, 0, 0, 0, 0],
                ),
                Which::Created(number) => {
                    raw_syscall(libc::SYS_timer_settime, [number, 0, times(1).as_ptr() as usize, 0, 0, 0])
                }
            };
        }
    }
    running::set_watched(false);
    look_after_program(None);
}

/// Sends the signal, which is delivered at once, or when the program unblocks it.
fn send(timer: Timer) {
    // The kernel's layout: number, error, code; the timer's number and overrun; the value.
    let mut info = [0i32; 32];
    (info[0], info[2]) =
        (timer.signal, if matches!(timer.which, Which::Created(_)) { libc::SI_TIMER } else { 0x80 });
    (info[6], info[7]) = (timer.value as i32, (timer.value >> 32) as i32);
    let to =
        [own_process() as usize, own_thread() as usize, timer.signal as usize, info.as_ptr() as usize, 0, 0];
    // SAFETY: the program requested the signal, and the kernel only reads its info.
    unsafe { raw_syscall(libc::SYS_rt_tgsigqueueinfo, to) };
}

/// The kernel's id of the real timer plus one; 0 if there is none.
static LOOKING: RunningThreadCell<usize> = RunningThreadCell::new(0);

/// Sets the real timer, or deletes it if the program has no timer set.
fn look_after_program(signal: Option<i32>) {
    const SIGEV_SIGNAL: i32 = 0;
    let mut looking = LOOKING.get();
    // SAFETY: the kernel reads the event and the times, and writes the number.
    unsafe {
        if looking != 0 && !any() {
            raw_syscall(libc::SYS_timer_delete, [looking - 1, 0, 0, 0, 0, 0]);
            looking = 0;
        } else if looking == 0
            && let Some(signal) = signal
        {
            let mut event = [0u64; 8];
            event[0] = LOOKS as u64;
            event[1] = signal as u64 | (SIGEV_SIGNAL as u64) << 32;
            let mut number = 0i32;
            let clock = libc::CLOCK_PROCESS_CPUTIME_ID as usize;
            let of = [clock, event.as_ptr() as usize, &raw mut number as usize, 0, 0, 0];
            if raw_syscall(libc::SYS_timer_create, of) == 0 {
                let times = [0, BETWEEN_LOOKS, 0, BETWEEN_LOOKS];
                let of = [number as usize, 0, times.as_ptr() as usize, 0, 0, 0];
                raw_syscall(libc::SYS_timer_settime, of);
                looking = number as usize + 1;
            }
        }
    }
    LOOKING.set(looking);
}

/// The number of operations when the real timer last fired; see [`is_stuck`].
static LAST_LOOK: AtomicU64 = AtomicU64::new(u64::MAX);

/// Called when the real timer fires: has there been no operation since the last time? Then the program waits in its own
/// loop.
pub(crate) fn is_stuck() -> bool {
    let operations = OPERATIONS.load(Relaxed);
    LAST_LOOK.swap(operations, Relaxed) == operations && session::recording() && any()
}
