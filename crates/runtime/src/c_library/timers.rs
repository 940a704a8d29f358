//! Functions that set signal-sending timers, or wait for signals.
//!
//! If the program handles a timer's signal and has one thread, the runtime drives the timer (see `threads::timers`), so
//! the signal comes at the same point in every run. With several threads the kernel drives it, and the verdict is
//! UNKNOWN.

use std::ffi::{c_int, c_uint, c_void};

use crashproof_protocol::abi::Site;
use crashproof_protocol::reason;
use libc::{itimerspec, itimerval, siginfo_t, sigset_t, timespec, timeval};

use super::results::with_result;
use crate::cell::RunningThreadCell;
use crate::interpose::replace;
use crate::recorder::unknown;
use crate::system::fail;
use crate::threads::running;
use crate::threads::timers::{self, Which};

const SECOND: u64 = 1_000_000_000;

/// Is a handler installed for a signal?
unsafe fn is_handled(signal: c_int) -> bool {
    // SAFETY: only queries the disposition of the signal.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)
    }
}

/// Does the runtime drive a timer that sends this signal? If the kernel does although the program handles the signal,
/// the verdict says so.
unsafe fn is_ours(signal: c_int, site: *const Site) -> bool {
    // SAFETY: asks only.
    if !unsafe { is_handled(signal) } {
        return false;
    }
    if running::has_threads() {
        unknown(reason::TIMER, site);
        return false;
    }
    true
}

fn signal_of(which: c_int) -> c_int {
    match which {
        libc::ITIMER_REAL => libc::SIGALRM,
        libc::ITIMER_VIRTUAL => libc::SIGVTALRM,
        _ => libc::SIGPROF,
    }
}

/// Sets the timer of `alarm` or `setitimer`, if the runtime drives it; returns the previous remaining time and
/// interval.
unsafe fn set_interval(which: c_int, first: u64, interval: u64, site: *const Site) -> Option<(u64, u64)> {
    let signal = signal_of(which);
    // SAFETY: asks only.
    let ours = unsafe { is_ours(signal, site) };
    let known = timers::remaining(Which::Interval(which)) != (0, 0);
    if !ours && !known {
        return None;
    }
    timers::set(Which::Interval(which), signal, 0, first, interval)
}

fn of_timeval(time: timeval) -> u64 {
    time.tv_sec.max(0) as u64 * SECOND + time.tv_usec.max(0) as u64 * 1000
}

fn to_timeval(time: u64) -> timeval {
    timeval { tv_sec: (time / SECOND) as i64, tv_usec: (time % SECOND / 1000) as i64 }
}

fn of_timespec(time: timespec) -> u64 {
    time.tv_sec.max(0) as u64 * SECOND + time.tv_nsec.max(0) as u64
}

fn to_timespec(time: u64) -> timespec {
    timespec { tv_sec: (time / SECOND) as i64, tv_nsec: (time % SECOND) as i64 }
}

/// The arguments of `timer_create` per timer: the clock, the signal and its value.
#[derive(Clone, Copy)]
struct Created {
    timer: usize,
    clock: c_int,
    signal: c_int,
    value: usize,
}

static CREATED: RunningThreadCell<[Option<Created>; 32]> = RunningThreadCell::new([None; 32]);

fn created(timer: *mut c_void) -> Option<Created> {
    CREATED.with(|created| created.iter().flatten().find(|created| created.timer == timer as usize).copied())
}

replace! {
    fn alarm(seconds: c_uint) -> c_uint, caller(rsi)
    |site| {
        match set_interval(libc::ITIMER_REAL, u64::from(seconds) * SECOND, 0, site) {
            Some((left, _)) => left.div_ceil(SECOND) as c_uint,
            None => real(seconds),
        }
    }

    fn ualarm(first: c_uint, interval: c_uint) -> c_uint, caller(rdx)
    |site| {
        match set_interval(libc::ITIMER_REAL, u64::from(first) * 1000, u64::from(interval) * 1000, site) {
            Some((left, _)) => (left / 1000) as c_uint,
            None => real(first, interval),
        }
    }

    fn setitimer(which: c_int, value: *const itimerval, old: *mut itimerval) -> c_int, caller(rcx)
    |site| {
        if value.is_null() {
            return fail(libc::EFAULT);
        }
        let wanted = *value;
        with_result(old, site, |old| {
            match set_interval(which, of_timeval(wanted.it_value), of_timeval(wanted.it_interval), site) {
                Some((left, interval)) => {
                    if !old.is_null() {
                        *old = itimerval { it_value: to_timeval(left), it_interval: to_timeval(interval) };
                    }
                    0
                }
                None => real(which, &raw const wanted, old),
            }
        })
    }

    fn getitimer(which: c_int, value: *mut itimerval) -> c_int, caller(rdx)
    |site| {
        with_result(value, site, |value| match timers::remaining(Which::Interval(which)) {
            (0, _) => real(which, value),
            (left, interval) => {
                *value = itimerval { it_value: to_timeval(left), it_interval: to_timeval(interval) };
                0
            }
        })
    }

    fn timer_create(clock: c_int, event: *mut libc::sigevent, timer: *mut *mut c_void) -> c_int, caller(rcx)
    |site| {
        let (signal, value) = match event.as_ref() {
            None => (libc::SIGALRM, 0),
            Some(event) if event.sigev_notify == libc::SIGEV_SIGNAL => {
                (event.sigev_signo, event.sigev_value.sival_ptr as usize)
            }
            // `SIGEV_THREAD` runs on the C library's own threads; otherwise there is no notification.
            Some(event) => {
                if event.sigev_notify != libc::SIGEV_NONE {
                    unknown(reason::TIMER, site);
                }
                return with_result(timer, site, |timer| real(clock, event as *const _ as *mut _, timer));
            }
        };
        with_result(timer, site, |timer| {
            let result = real(clock, event, timer);
            if result == 0 {
                CREATED.with(|created| {
                    if let Some(free) = created.iter_mut().find(|created| created.is_none()) {
                        *free = Some(Created { timer: *timer as usize, clock, signal, value });
                    }
                });
            }
            result
        })
    }

    fn timer_delete(timer: *mut c_void) -> c_int, caller(rsi)
    |_site| {
        if let Some(known) = created(timer) {
            timers::set(Which::Created(known.timer), known.signal, 0, 0, 0);
            CREATED.with(|created| {
                created.iter_mut().filter(|it| it.is_some_and(|it| it.timer == known.timer)).for_each(|it| *it = None);
            });
        }
        real(timer)
    }

    fn timer_settime(timer: *mut c_void, flags: c_int, value: *const itimerspec, old: *mut itimerspec) -> c_int, caller(r8)
    |site| {
        let Some(known) = created(timer).filter(|known| is_ours(known.signal, site)) else {
            return with_result(old, site, |old| real(timer, flags, value, old));
        };
        let wanted = *value;
        let mut first = of_timespec(wanted.it_value);
        if flags & libc::TIMER_ABSTIME != 0 && first > 0 {
            let mut now: timespec = std::mem::zeroed();
            libc::clock_gettime(known.clock, &raw mut now);
            first = first.saturating_sub(of_timespec(now)).max(1);
        }
        let set = timers::set(Which::Created(known.timer), known.signal, known.value, first, of_timespec(wanted.it_interval));
        with_result(old, site, |old| match set {
            Some((left, interval)) => {
                if !old.is_null() {
                    *old = itimerspec { it_value: to_timespec(left), it_interval: to_timespec(interval) };
                }
                0
            }
            None => {
                unknown(reason::TIMER, site);
                real(timer, flags, &raw const wanted, old)
            }
        })
    }

    fn timer_gettime(timer: *mut c_void, value: *mut itimerspec) -> c_int, caller(rdx)
    |site| {
        with_result(value, site, |value| match timers::remaining(Which::Created(timer as usize)) {
            (0, _) => real(timer, value),
            (left, interval) => {
                *value = itimerspec { it_value: to_timespec(left), it_interval: to_timespec(interval) };
                0
            }
        })
    }

    fn pause() -> c_int, caller(rdi)
    |_site| { if timers::wait_until(u64::MAX) { fail(libc::EINTR) } else { real() } }

    fn sigsuspend(mask: *const sigset_t) -> c_int, caller(rsi)
    |_site| {
        // Signals blocked until now are pending in the kernel, which delivers them here.
        if wait_with_blocked() { real(mask) } else { fail(libc::EINTR) }
    }
}

/// Waits for the next timer's signal, which stays pending in the kernel. `false` if it was not blocked and has been
/// delivered.
unsafe fn wait_with_blocked() -> bool {
    // SAFETY: the kernel writes the sets.
    unsafe {
        let pending = || {
            let mut set = 0u64;
            crate::system::raw_syscall(libc::SYS_rt_sigpending, [&raw mut set as usize, 8, 0, 0, 0, 0]);
            set
        };
        if pending() != 0 || !timers::wait_until(u64::MAX) {
            return true;
        }
        pending() != 0
    }
}

/// Called before a function that takes a blocked signal: brings the next timer's, if none is pending.
unsafe fn before_taking() {
    // SAFETY: as for the function.
    unsafe { wait_with_blocked() };
}

replace! {
    fn sigwait(set: *const sigset_t, signal: *mut c_int) -> c_int, caller(rdx)
    |site| { before_taking(); with_result(signal, site, |signal| real(set, signal)) }

    fn sigwaitinfo(set: *const sigset_t, info: *mut siginfo_t) -> c_int, caller(rdx)
    |site| { before_taking(); with_result(info, site, |info| real(set, info)) }

    fn sigtimedwait(set: *const sigset_t, info: *mut siginfo_t, timeout: *const timespec) -> c_int, caller(rcx)
    |site| { before_taking(); with_result(info, site, |info| real(set, info, timeout)) }
}
