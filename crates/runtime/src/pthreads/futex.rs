//! `syscall`, for those who wait on futexes themselves: Rust's standard library, `std::atomic::wait`, the
//! guards of C++'s local statics.

use std::ffi::{c_int, c_long, c_void};

use crashproof_protocol::abi::is_pm;
use crashproof_protocol::reason;
use libc::timespec;

use crate::c_library::{determinism, time};
use crate::raw;
use crate::recorder::unknown;
use crate::session::recording;
use crate::system::{fail, raw_syscall};
use crate::threads::buffers::scheduler;
use crate::threads::decisions;
use crate::threads::happens_before::synchronized;
use crate::threads::running;
use crate::threads::scheduler::{Class, Key, Wait, Woken};
use crate::threads::step_notes::exploring;
use crate::threads::turns::{end_process, give_way, others_may_run, synchronize, wait};

fn key(word: usize) -> Key {
    Key { class: Class::Futex, address: word as u64 }
}

/// The calls of the C library are variadic; reading all six arguments is harmless.
#[cfg_attr(not(test), unsafe(no_mangle))]
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
    if recording() {
        let (descriptor, buffer, offset) = (a as c_int, b as *mut c_void, d as i64);
        // SAFETY: the program vouches for the call, by whatever way it makes it.
        let known = unsafe {
            match number {
                libc::SYS_read => Some(libc::read(descriptor, buffer, c)),
                libc::SYS_write => Some(libc::write(descriptor, buffer, c)),
                libc::SYS_pread64 => Some(libc::pread(descriptor, buffer, c, offset)),
                libc::SYS_pwrite64 => Some(libc::pwrite(descriptor, buffer, c, offset)),
                _ => None,
            }
        };
        if let Some(result) = known {
            return result as c_long;
        }
    }
    // SAFETY: the program vouches for the call.
    let result = unsafe {
        match number {
            libc::SYS_futex if recording() => futex(arguments),
            libc::SYS_sched_yield if recording() => {
                give_way();
                0
            }
            // What differs from run to run is the same under the checker, however it is asked for.
            libc::SYS_getrandom if recording() => {
                determinism::give_random(a as *mut c_void, b, std::ptr::null());
                b as isize
            }
            libc::SYS_getpid if recording() => libc::getpid() as isize,
            libc::SYS_getppid if recording() => libc::getppid() as isize,
            libc::SYS_gettid if recording() => libc::gettid() as isize,
            libc::SYS_clock_gettime if recording() => {
                libc::clock_gettime(a as c_int, b as *mut timespec) as isize
            }
            libc::SYS_exit_group if recording() => {
                end_process();
                raw_syscall(number, arguments)
            }
            _ => raw_syscall(number, reachable(number, arguments)),
        }
    };
    if (-4095..0).contains(&result) {
        return fail(-result as c_int).into();
    }
    result as c_long
}

/// Arguments as the kernel can use them: it cannot follow anybody into the window. What it stores to PM shows at the end
/// of the run.
fn reachable(number: c_long, mut arguments: [usize; 6]) -> [usize; 6] {
    let maps = [
        libc::SYS_mmap,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_mprotect,
        libc::SYS_madvise,
        libc::SYS_msync,
    ];
    if !maps.contains(&number) && arguments.iter().any(|argument| is_pm(*argument as u64)) {
        arguments = arguments.map(|argument| raw::reachable(argument as u64) as usize);
    }
    arguments
}

/// # Safety
///
/// As for the system call.
unsafe fn futex([word, operation, value, timeout, second, bits]: [usize; 6]) -> isize {
    let flags = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;
    let command = operation as c_int & !flags;
    let realtime = operation as c_int & libc::FUTEX_CLOCK_REALTIME != 0;
    // SAFETY: the program says that there is a word.
    let holds = |expected: usize| unsafe { *(word as *const u32) == expected as u32 };
    let wake = |bits| scheduler(|scheduler| scheduler.wake(key(word), value as c_int as usize, bits));
    synchronize();
    if exploring() {
        // SAFETY: the program says that there is a word.
        scheduler(|scheduler| unsafe { decisions::reads_memory(scheduler, word as u64, 4, word) });
        synchronized(word as u64);
    }
    match command {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => {
            if !holds(value) {
                return -(libc::EAGAIN as isize);
            }
            let timeout = timeout as *const timespec;
            let clock = if realtime { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC };
            // SAFETY: there is a time, if any.
            let deadline = unsafe {
                match command {
                    _ if timeout.is_null() => Ok(None),
                    libc::FUTEX_WAIT => time::deadline_in(timeout).map(Some),
                    _ => time::deadline(clock, timeout).map(Some),
                }
            };
            let bits = if command == libc::FUTEX_WAIT { u32::MAX } else { bits as u32 };
            match deadline.map(|deadline| wait(Wait { bits, ..Wait::new(key(word), deadline) })) {
                Err(error) => -(error as isize),
                Ok(Woken::TimedOut) => -(libc::ETIMEDOUT as isize),
                Ok(Woken::Called | Woken::Cancelled) => 0,
            }
        }
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => {
            let woken = wake(if command == libc::FUTEX_WAKE { u32::MAX } else { bits as u32 });
            others_may_run();
            woken as isize
        }
        libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE => {
            if command == libc::FUTEX_CMP_REQUEUE && !holds(bits) {
                return -(libc::EAGAIN as isize);
            }
            let limit = timeout as c_int as usize;
            let woken = wake(u32::MAX);
            (woken + scheduler(|scheduler| scheduler.requeue(key(word), key(second), limit))) as isize
        }
        _ => {
            if running::concurrent() {
                unknown(reason::FUTEX, std::ptr::null());
            }
            // SAFETY: the program vouches for the call.
            unsafe { raw_syscall(libc::SYS_futex, [word, operation, value, timeout, second, bits]) }
        }
    }
}
