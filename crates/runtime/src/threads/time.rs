//! The program's clock, and sleeping.
//!
//! Time is the scheduler's: it moves a little whenever the program asks for it or spins, and jumps to the
//! next deadline when every thread waits. Nobody sleeps for real.

use std::ffi::{c_int, c_uint};

use libc::timespec;

use super::real::interpose;
use super::scheduler::{CONCURRENT, CURRENT, Class, Key, Woken, block_cancellable};

/// Nanoseconds since the child began.
static mut NOW: u64 = 0;

const SECOND: u64 = 1_000_000_000;
/// When children begin, by the clock on the wall: 1 January 2026.
const WALL: u64 = 1_767_225_600 * SECOND;
/// When children begin, by the other clocks.
const UP: u64 = 1_000 * SECOND;

pub(super) unsafe fn now() -> u64 {
    NOW
}

pub(super) unsafe fn advance(nanoseconds: u64) {
    NOW += nanoseconds;
}

pub(super) unsafe fn advance_to(moment: u64) {
    NOW = NOW.max(moment);
}

fn origin(clock: c_int) -> u64 {
    match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI => WALL,
        _ => UP,
    }
}

unsafe fn nanoseconds(time: *const timespec) -> Option<u64> {
    let time = &*time;
    let valid = (0..SECOND as i64).contains(&time.tv_nsec);
    valid.then(|| (time.tv_sec.max(0) as u64).saturating_mul(SECOND).saturating_add(time.tv_nsec as u64))
}

/// The moment that an absolute time of a clock means; an error if it is none.
pub(super) unsafe fn deadline(clock: c_int, time: *const timespec) -> Result<u64, c_int> {
    nanoseconds(time).map(|time| time.saturating_sub(origin(clock))).ok_or(libc::EINVAL)
}

/// The moment so much later.
pub(super) unsafe fn deadline_in(time: *const timespec) -> Result<u64, c_int> {
    nanoseconds(time).map(|time| NOW.saturating_add(time)).ok_or(libc::EINVAL)
}

/// Sleeps until a moment.
unsafe fn sleep_until(moment: u64) {
    if moment <= NOW {
        return;
    }
    if !CONCURRENT {
        advance_to(moment);
        return;
    }
    let key = Key { class: Class::Sleep, address: u64::from(CURRENT) };
    if block_cancellable(key, Some(moment)) == Woken::Cancelled {
        super::create::end_cancelled();
    }
}

unsafe fn nothing_left(rest: *mut timespec) {
    if !rest.is_null() {
        *rest = timespec { tv_sec: 0, tv_nsec: 0 };
    }
}

/// Writes an answer to where the program wants it, which may be PM.
unsafe fn give<T>(to: *mut T, value: T) {
    crate::libc_memory::write(to, &raw const value, size_of::<T>(), std::ptr::null());
}

interpose! {
    fn sleep(seconds: c_uint) -> c_uint |real| {
        sleep_until(now() + u64::from(seconds) * SECOND);
        0
    }

    fn usleep(microseconds: c_uint) -> c_int |real| {
        sleep_until(now() + u64::from(microseconds) * 1000);
        0
    }

    fn nanosleep(time: *const timespec, rest: *mut timespec) -> c_int |real| {
        match deadline_in(time) {
            Ok(moment) => {
                sleep_until(moment);
                nothing_left(rest);
                0
            }
            Err(error) => {
                *libc::__errno_location() = error;
                -1
            }
        }
    }

    fn clock_nanosleep(clock: c_int, flags: c_int, time: *const timespec, rest: *mut timespec) -> c_int |real| {
        let moment =
            if flags & libc::TIMER_ABSTIME != 0 { deadline(clock, time) } else { deadline_in(time) };
        match moment {
            Ok(moment) => {
                sleep_until(moment);
                nothing_left(rest);
                0
            }
            Err(error) => error,
        }
    }

    fn thrd_sleep(time: *const timespec, rest: *mut timespec) -> c_int |real| {
        match deadline_in(time) {
            Ok(moment) => {
                sleep_until(moment);
                nothing_left(rest);
                0
            }
            Err(_) => -2,
        }
    }

    fn gettimeofday(time: *mut libc::timeval, zone: *mut libc::c_void) -> c_int |real| {
        advance(1_000);
        let moment = WALL + now();
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

/// Asks the kernel where the others ask the C library: AddressSanitizer's allocator looks at the clock, and finding the
/// C library's function allocates.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut timespec) -> c_int {
    if !super::managed() {
        return libc::syscall(libc::SYS_clock_gettime, clock, time) as c_int;
    }
    // It goes on even if the program does nothing but look.
    advance(1_000);
    let moment = origin(clock) + now();
    let now = timespec { tv_sec: (moment / SECOND) as i64, tv_nsec: (moment % SECOND) as i64 };
    give(time, now);
    0
}
