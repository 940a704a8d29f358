//! The program's clock, and sleeping.
//!
//! Time is virtual and belongs to the scheduler: it advances a little whenever the program reads it or spins, and jumps
//! to the next deadline when every thread waits. No thread really sleeps.

use std::ffi::{c_int, c_uint};

use libc::timespec;

use super::memory::write;
use crate::interpose::schedule;
use crate::processes;
use crate::session::recording;
use crate::system::fail;
use crate::threads::buffers::scheduler;
use crate::threads::scheduler::{Class, Key, Wait, Woken};
use crate::threads::turns::{end_cancelled, wait};
use crate::threads::{running, timers};

const SECOND: u64 = 1_000_000_000;
/// Start of every child on the wall clock: 1 January 2026.
const WALL: u64 = 1_767_225_600 * SECOND;
/// Start of every child on the other clocks.
const UP: u64 = 1_000 * SECOND;

/// Seconds on the wall clock when a child starts: files were last changed then, as far as the program can tell.
pub(super) fn beginning() -> i64 {
    (WALL / SECOND) as i64
}

/// Nanoseconds since the child started.
fn now() -> u64 {
    scheduler(|scheduler| scheduler.now)
}

/// The program reads the clock, which advances even if the program does nothing else.
fn look() -> u64 {
    scheduler(|scheduler| {
        scheduler.now += 1_000;
        scheduler.now
    })
}

/// Nanoseconds by a clock that only goes forward.
pub(super) fn monotonic() -> u64 {
    if recording() {
        return UP + look();
    }
    let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills in the time.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

fn origin(clock: c_int) -> u64 {
    match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI => WALL,
        _ => UP,
    }
}

fn nanoseconds(time: &timespec) -> Result<u64, c_int> {
    let valid = (0..SECOND as i64).contains(&time.tv_nsec);
    let whole = (time.tv_sec.max(0) as u64).saturating_mul(SECOND);
    if valid { Ok(whole.saturating_add(time.tv_nsec as u64)) } else { Err(libc::EINVAL) }
}

/// The instant that an absolute time of a clock denotes; an error if the time is invalid.
///
/// # Safety
///
/// `time` is valid.
pub(crate) unsafe fn deadline(clock: c_int, time: *const timespec) -> Result<u64, c_int> {
    // SAFETY: `time` is valid.
    nanoseconds(unsafe { &*time }).map(|time| time.saturating_sub(origin(clock)))
}

/// The instant this much later.
///
/// # Safety
///
/// `time` is valid.
pub(crate) unsafe fn deadline_in(time: *const timespec) -> Result<u64, c_int> {
    // SAFETY: `time` is valid.
    nanoseconds(unsafe { &*time }).map(|time| now().saturating_add(time))
}

/// Sleeps until an instant; `false` if a signal came first.
fn sleep_until(moment: u64) -> bool {
    if moment <= now() {
        return true;
    }
    processes::give_way();
    if timers::wait_until(moment) {
        return false;
    }
    if !running::has_threads() {
        scheduler(|scheduler| scheduler.advance_to(moment));
        return true;
    }
    let key = Key { class: Class::Sleep, address: running::number().into() };
    if wait(Wait::new(key, Some(moment)).cancellable()) == Woken::Cancelled {
        end_cancelled();
    }
    true
}

/// Sleeps until an instant, which may be invalid; leaves no remaining time.
unsafe fn sleep_fully(moment: Result<u64, c_int>, rest: *mut timespec) -> c_int {
    let moment = match moment {
        Ok(moment) => moment,
        Err(error) => return error,
    };
    let slept = sleep_until(moment);
    if !rest.is_null() {
        let left = moment.saturating_sub(now());
        // SAFETY: `rest` has room for it unless it is null.
        unsafe { *rest = timespec { tv_sec: (left / SECOND) as i64, tv_nsec: (left % SECOND) as i64 } };
    }
    if slept { 0 } else { libc::EINTR }
}

/// Writes a result to the program's memory, which may be PM.
unsafe fn give<T>(to: *mut T, value: T) {
    // SAFETY: `to` has room for it.
    unsafe { write(to, &raw const value, size_of::<T>(), std::ptr::null()) };
}

schedule! {
    fn sleep(seconds: c_uint) -> c_uint |real| {
        let moment = now() + u64::from(seconds) * SECOND;
        if sleep_until(moment) { 0 } else { moment.saturating_sub(now()).div_ceil(SECOND) as c_uint }
    }

    fn usleep(microseconds: c_uint) -> c_int |real| {
        if sleep_until(now() + u64::from(microseconds) * 1000) { 0 } else { fail(libc::EINTR) }
    }

    fn nanosleep(time: *const timespec, rest: *mut timespec) -> c_int |real| {
        match sleep_fully(deadline_in(time), rest) {
            0 => 0,
            error => fail(error),
        }
    }

    fn clock_nanosleep(clock: c_int, flags: c_int, time: *const timespec, rest: *mut timespec) -> c_int |real| {
        let moment =
            if flags & libc::TIMER_ABSTIME != 0 { deadline(clock, time) } else { deadline_in(time) };
        sleep_fully(moment, rest)
    }

    fn thrd_sleep(time: *const timespec, rest: *mut timespec) -> c_int |real| {
        match sleep_fully(deadline_in(time), rest) {
            0 => 0,
            libc::EINTR => -1,
            _ => -2,
        }
    }

    fn gettimeofday(time: *mut libc::timeval, zone: *mut libc::c_void) -> c_int |real| {
        let moment = WALL + look();
        if !time.is_null() {
            let now = libc::timeval {
                tv_sec: (moment / SECOND) as i64,
                tv_usec: (moment % SECOND / 1000) as i64,
            };
            give(time, now);
        }
        if !zone.is_null() {
            zone.cast::<[c_int; 2]>().write([0; 2]);
        }
        0
    }

    fn time(out: *mut libc::time_t) -> libc::time_t |real| {
        let seconds = ((WALL + now()) / SECOND) as i64;
        if !out.is_null() {
            give(out, seconds);
        }
        seconds
    }

    fn timespec_get(time: *mut timespec, base: c_int) -> c_int |real| {
        clock_gettime(libc::CLOCK_REALTIME, time);
        base
    }
}

/// Asks the kernel directly: AddressSanitizer's allocator reads the clock, and looking up the C library's function
/// allocates.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut timespec) -> c_int {
    // SAFETY: the program guarantees room for the time.
    unsafe {
        if !recording() {
            return libc::syscall(libc::SYS_clock_gettime, clock, time) as c_int;
        }
        let moment = origin(clock) + look();
        give(time, timespec { tv_sec: (moment / SECOND) as i64, tv_nsec: (moment % SECOND) as i64 });
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_valid_or_refused() {
        let time = |tv_sec, tv_nsec| timespec { tv_sec, tv_nsec };
        assert_eq!(nanoseconds(&time(2, 5)), Ok(2 * SECOND + 5));
        assert_eq!(nanoseconds(&time(-3, 0)), Ok(0));
        assert_eq!(nanoseconds(&time(0, SECOND as i64)), Err(libc::EINVAL));
        assert_eq!(nanoseconds(&time(i64::MAX, 1)), Ok(u64::MAX));
    }

    #[test]
    fn deadlines_count_from_when_children_begin() {
        let at = timespec { tv_sec: (WALL / SECOND) as i64 + 3, tv_nsec: 0 };
        // SAFETY: there is a time.
        unsafe {
            assert_eq!(deadline(libc::CLOCK_REALTIME, &raw const at), Ok(3 * SECOND));
            assert!(deadline(libc::CLOCK_MONOTONIC, &raw const at).is_ok_and(|moment| moment > WALL / 2));
        }
    }
}
