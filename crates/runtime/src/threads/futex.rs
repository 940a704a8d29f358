//! `syscall`, for those who wait on futexes themselves: Rust's standard library, `std::atomic::wait`, the
//! guards of C++'s local statics.

use std::ffi::{c_int, c_long};

use crashproof_protocol::reason;
use libc::timespec;

use super::baton::raw_syscall;
use super::scheduler::{
    CONCURRENT, Class, Key, Woken, give_way, others_may_run, scheduler, synchronise, unsupported, wait,
};
use super::{managed, memory, time};

fn key(word: usize) -> Key {
    Key { class: Class::Futex, address: word as u64 }
}

/// The calls of the C library are variadic; reading all six arguments is harmless.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    let arguments = [a, b, c, d, e, f];
    let result = if !managed() {
        raw_syscall(number, arguments)
    } else {
        match number {
            libc::SYS_futex => futex(arguments),
            libc::SYS_sched_yield => {
                give_way();
                0
            }
            libc::SYS_exit_group => {
                memory::drain_all();
                raw_syscall(number, arguments)
            }
            _ => raw_syscall(number, arguments),
        }
    };
    if (-4095..0).contains(&result) {
        *libc::__errno_location() = -result as c_int;
        return -1;
    }
    result as c_long
}

unsafe fn futex([word, operation, value, timeout, second, bits]: [usize; 6]) -> isize {
    let flags = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;
    let command = operation as c_int & !flags;
    let realtime = operation as c_int & libc::FUTEX_CLOCK_REALTIME != 0;
    synchronise();
    match command {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => {
            if *(word as *const u32) != value as u32 {
                return -(libc::EAGAIN as isize);
            }
            let timeout = timeout as *const timespec;
            let deadline = if timeout.is_null() {
                Ok(None)
            } else if command == libc::FUTEX_WAIT {
                time::deadline_in(timeout).map(Some)
            } else {
                let clock = if realtime { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC };
                time::deadline(clock, timeout).map(Some)
            };
            let bits = if command == libc::FUTEX_WAIT { u32::MAX } else { bits as u32 };
            match deadline {
                Err(error) => -(error as isize),
                Ok(deadline) => match wait(key(word), deadline, false, bits) {
                    Woken::TimedOut => -(libc::ETIMEDOUT as isize),
                    Woken::Called | Woken::Cancelled => 0,
                },
            }
        }
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => {
            let bits = if command == libc::FUTEX_WAKE { u32::MAX } else { bits as u32 };
            let woken = scheduler().wake(key(word), value as c_int as usize, bits);
            others_may_run();
            woken as isize
        }
        libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE => {
            if command == libc::FUTEX_CMP_REQUEUE && *(word as *const u32) != bits as u32 {
                return -(libc::EAGAIN as isize);
            }
            let woken = scheduler().wake(key(word), value as c_int as usize, u32::MAX);
            let moved = scheduler().requeue(key(word), key(second), timeout as c_int as usize);
            (woken + moved) as isize
        }
        _ => {
            if CONCURRENT {
                unsupported(reason::FUTEX);
            }
            raw_syscall(libc::SYS_futex, [word, operation, value, timeout, second, bits])
        }
    }
}
