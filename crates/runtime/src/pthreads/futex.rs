//! `syscall`, for code that waits on futexes directly: Rust's standard library, `std::atomic::wait`, the guards of
//! C++'s local statics.

use std::ffi::{c_char, c_int, c_long, c_void};

use crashproof_protocol::abi::is_pm;
use crashproof_protocol::reason;
use libc::timespec;

use crate::c_library::{determinism, time};
use crate::recorder::unknown;
use crate::session::recording;
use crate::system::{errno, fail, raw_syscall};
use crate::threads::buffers::scheduler;
use crate::threads::decisions;
use crate::threads::happens_before::{saw_last_change, synchronized};
use crate::threads::running;
use crate::threads::scheduler::{Class, Key, Wait, Woken};
use crate::threads::step_notes::exploring;
use crate::threads::turns::{end_process, give_way, others_may_run, synchronize, wait, wake};
use crate::{callers, raw};

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
    // SAFETY: the program vouches for the call.
    let result = unsafe { call(number, [a, b, c, d, e, f]) };
    if (-4095..0).contains(&result) {
        return fail(-result as c_int).into();
    }
    result as c_long
}

/// Makes a system call for the program; a negative result is an error.
///
/// # Safety
///
/// As for the system call.
pub(crate) unsafe fn call(number: c_long, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    if !recording() {
        // SAFETY: as for this function.
        return unsafe { raw_syscall(number, reachable(number, arguments)) };
    }
    // Converts a C library result to the kernel's convention.
    let told = |result: isize| if result < 0 { -(errno() as isize) } else { result };
    let (descriptor, buffer, offset) = (a as c_int, b as *mut c_void, d as i64);
    let _call = if is_of_files(number) { callers::outer_call() } else { None };
    // SAFETY: the program vouches for the call, however it makes it.
    unsafe {
        match number {
            libc::SYS_read => told(libc::read(descriptor, buffer, c)),
            libc::SYS_write => told(libc::write(descriptor, buffer, c)),
            libc::SYS_pread64 => told(libc::pread(descriptor, buffer, c, offset)),
            libc::SYS_pwrite64 => told(libc::pwrite(descriptor, buffer, c, offset)),
            libc::SYS_readv => told(libc::readv(descriptor, b as *const libc::iovec, c as c_int)),
            libc::SYS_writev => told(libc::writev(descriptor, b as *const libc::iovec, c as c_int)),
            libc::SYS_preadv => told(libc::preadv(descriptor, b as *const libc::iovec, c as c_int, offset)),
            libc::SYS_pwritev => told(libc::pwritev(descriptor, b as *const libc::iovec, c as c_int, offset)),
            libc::SYS_open => told(libc::open(a as *const c_char, b as c_int, c as c_int) as isize),
            libc::SYS_openat => {
                told(libc::openat(a as c_int, b as *const c_char, c as c_int, d as c_int) as isize)
            }
            libc::SYS_close => told(libc::close(descriptor) as isize),
            libc::SYS_lseek => told(libc::lseek(descriptor, b as i64, c as c_int) as isize),
            libc::SYS_fsync => told(libc::fsync(descriptor) as isize),
            libc::SYS_fdatasync => told(libc::fdatasync(descriptor) as isize),
            libc::SYS_ftruncate => told(libc::ftruncate(descriptor, b as i64) as isize),
            libc::SYS_fallocate => told(libc::fallocate(descriptor, b as c_int, c as i64, d as i64) as isize),
            libc::SYS_rename => told(libc::rename(a as *const c_char, b as *const c_char) as isize),
            libc::SYS_unlink => told(libc::unlink(a as *const c_char) as isize),
            libc::SYS_dup => told(libc::dup(descriptor) as isize),
            libc::SYS_dup2 => told(libc::dup2(descriptor, b as c_int) as isize),
            libc::SYS_sendfile => told(libc::sendfile(descriptor, b as c_int, c as *mut i64, d)),
            libc::SYS_copy_file_range => {
                told(libc::copy_file_range(descriptor, b as *mut i64, c as c_int, d as *mut i64, e, f as u32))
            }
            libc::SYS_splice => {
                told(libc::splice(descriptor, b as *mut i64, c as c_int, d as *mut i64, e, f as u32))
            }
            libc::SYS_mmap => {
                let mapped = libc::mmap(a as *mut c_void, b, c as c_int, d as c_int, e as c_int, f as i64);
                if mapped == libc::MAP_FAILED { -(errno() as isize) } else { mapped as isize }
            }
            libc::SYS_msync => told(libc::msync(a as *mut c_void, b, c as c_int) as isize),
            libc::SYS_munmap => told(libc::munmap(a as *mut c_void, b) as isize),
            libc::SYS_futex => futex(arguments),
            libc::SYS_sched_yield => {
                give_way();
                0
            }
            // Nondeterministic results are fixed under the checker, however they are requested.
            libc::SYS_getrandom => {
                determinism::give_random(a as *mut c_void, b, std::ptr::null());
                b as isize
            }
            libc::SYS_getpid => libc::getpid() as isize,
            libc::SYS_getppid => libc::getppid() as isize,
            libc::SYS_gettid => libc::gettid() as isize,
            libc::SYS_clock_gettime => told(libc::clock_gettime(a as c_int, b as *mut timespec) as isize),
            libc::SYS_exit_group => {
                end_process();
                raw_syscall(number, arguments)
            }
            _ => raw_syscall(number, reachable(number, arguments)),
        }
    }
}

/// Does a call involve files, so that its site may have to be reported?
fn is_of_files(number: c_long) -> bool {
    matches!(
        number,
        libc::SYS_read
            | libc::SYS_write
            | libc::SYS_pread64
            | libc::SYS_pwrite64
            | libc::SYS_readv
            | libc::SYS_writev
            | libc::SYS_preadv
            | libc::SYS_pwritev
            | libc::SYS_open
            | libc::SYS_openat
            | libc::SYS_fsync
            | libc::SYS_fdatasync
            | libc::SYS_ftruncate
            | libc::SYS_fallocate
            | libc::SYS_rename
            | libc::SYS_unlink
            | libc::SYS_sendfile
            | libc::SYS_copy_file_range
            | libc::SYS_splice
            | libc::SYS_mmap
            | libc::SYS_msync
    )
}

/// Translates arguments for the kernel, which cannot access the window. What it stores to PM is detected at the end of
/// the run.
pub(crate) fn reachable(number: c_long, mut arguments: [usize; 6]) -> [usize; 6] {
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
    // SAFETY: the program vouches for the word.
    let holds = |expected: usize| unsafe { *(word as *const u32) == expected as u32 };
    let wake = |bits| wake(key(word), value as c_int as usize, bits);
    synchronize();
    if exploring() {
        scheduler(|scheduler| decisions::reads(scheduler, word as u64, 4, 0));
    }
    synchronized(word as u64);
    match command {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => {
            if !holds(value) {
                return -(libc::EAGAIN as isize);
            }
            let timeout = timeout as *const timespec;
            let clock = if realtime { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC };
            // SAFETY: null, or the program vouches for the time.
            let deadline = unsafe {
                match command {
                    _ if timeout.is_null() => Ok(None),
                    libc::FUTEX_WAIT => time::deadline_in(timeout).map(Some),
                    _ => time::deadline(clock, timeout).map(Some),
                }
            };
            let bits = if command == libc::FUTEX_WAIT { u32::MAX } else { bits as u32 };
            let woken = deadline.map(|deadline| wait(Wait { bits, ..Wait::new(key(word), deadline) }));
            // The woken thread reads the word next, in code that may not have been rebuilt.
            saw_last_change(word as u64);
            match woken {
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
