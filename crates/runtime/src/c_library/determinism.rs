//! Nondeterministic inputs a program can ask for: process ids, random bytes, processor time.
//!
//! The checker compares runs by what they read from PM, so everything else must be reproducible. A child of the checker
//! therefore has a fixed process id and random bytes from a fixed generator. Its clocks, and the processor's clock for
//! instrumented code, belong to the scheduler (see `time`). Timers that send signals are left alone.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use std::ptr::null_mut;

use crashproof_protocol::abi::Site;
use libc::{pid_t, timespec, timeval};

use super::memory::write;
use super::results::with_result;
use super::time;
use super::waiting::{others_first, wait_for_descriptors, wait_for_sets};
use crate::cell::RunningThreadCell;
use crate::interpose::replace;
use crate::random::Random;
use crate::session::under_checker;
use crate::system::{own_process, own_thread};
use crate::threads::turns::through_kernel;

static RANDOM: RunningThreadCell<Random> = RunningThreadCell::new(Random::new(0x0C8A_59F0_07C5_A700));

/// The process id the program sees.
const PROCESS: pid_t = 4242;
const PARENT: pid_t = 4241;

fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    RANDOM.with(|random| random.fill(&mut bytes));
    bytes
}

fn many_random_bytes(count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    RANDOM.with(|random| random.fill(&mut bytes));
    bytes
}

unsafe fn sleep(seconds: i64, nanoseconds: i64) -> c_int {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe { libc::nanosleep(&timespec { tv_sec: seconds, tv_nsec: nanoseconds }, null_mut()) }
}

/// Replaces the processor's clock by one that ticks every nanosecond.
pub(crate) fn cycles() -> u64 {
    if !under_checker() {
        // SAFETY: every x86-64 processor has a time stamp counter.
        return unsafe { std::arch::x86_64::_rdtsc() };
    }
    time::monotonic()
}

/// Replaces the processor's random numbers.
pub(crate) fn random() -> u64 {
    if under_checker() {
        return u64::from_le_bytes(random_bytes());
    }
    let mut word = [0u8; 8];
    // SAFETY: the kernel fills in the word.
    unsafe { libc::syscall(libc::SYS_getrandom, word.as_mut_ptr(), word.len(), 0) };
    u64::from_le_bytes(word)
}

pub(crate) unsafe fn give_random(to: *mut c_void, bytes: usize, site: *const Site) {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe { write(to, many_random_bytes(bytes).as_ptr(), bytes, site) };
}

/// If the name is a file of random data, opens a replacement with the same content in every run.
pub(crate) unsafe fn open_random(name: *const c_char) -> Option<c_int> {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let is = |file: &CStr| {
            let file = file.to_bytes_with_nul();
            (0..file.len()).all(|at| name.add(at).read_volatile() as u8 == file[at])
        };
        if is(c"/dev/urandom") || is(c"/dev/random") {
            return Some(file_of(&many_random_bytes(1 << 20)));
        }
        if is(c"/proc/sys/kernel/random/uuid") {
            let number = u128::from_le_bytes(random_bytes());
            let digits = format!("{number:032x}");
            let (a, b, c, d) = (&digits[..8], &digits[8..12], &digits[13..16], &digits[17..20]);
            return Some(file_of(format!("{a}-{b}-4{c}-8{d}-{}\n", &digits[20..]).as_bytes()));
        }
        None
    }
}

/// A file with the given content.
unsafe fn file_of(content: &[u8]) -> c_int {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let descriptor = libc::memfd_create(c"random".as_ptr(), libc::MFD_CLOEXEC);
        libc::syscall(libc::SYS_write, descriptor as c_long, content.as_ptr(), content.len());
        libc::lseek(descriptor, 0, libc::SEEK_SET);
        descriptor
    }
}

replace! {
    fn clock() -> c_long, caller(rdi)
    |_site| { (time::monotonic() / 1000) as c_long }

    fn times(to: *mut c_void) -> c_long, caller(rsi)
    |site| {
        if !to.is_null() {
            write(to, [0u64; 4].as_ptr(), 32, site);
        }
        (time::monotonic() / 10_000_000) as c_long
    }

    /// Reports the scheduler's clock as the process's own time; nothing else is counted.
    fn getrusage(who: c_int, to: *mut c_void) -> c_int, caller(rdx)
    |site| {
        if !matches!(who, libc::RUSAGE_SELF | libc::RUSAGE_CHILDREN | libc::RUSAGE_THREAD) {
            return real(who, to);
        }
        let now = if who == libc::RUSAGE_CHILDREN { 0 } else { time::monotonic() / 1000 };
        let mut usage = [0u64; 18];
        (usage[0], usage[1]) = (now / 1_000_000, now % 1_000_000);
        write(to, usage.as_ptr(), size_of_val(&usage), site);
        0
    }

    /// Free memory and load would differ from run to run, so they are fixed.
    fn sysinfo(to: *mut libc::sysinfo) -> c_int, caller(rsi)
    |site| {
        let mut info: libc::sysinfo = std::mem::zeroed();
        info.uptime = (time::monotonic() / 1_000_000_000) as c_long;
        (info.totalram, info.freeram, info.procs, info.mem_unit) = (8 << 30, 4 << 30, 100, 1);
        write(to, &raw const info, size_of::<libc::sysinfo>(), site);
        0
    }

    fn getloadavg(to: *mut f64, count: c_int) -> c_int, caller(rdx)
    |site| {
        let count = count.clamp(0, 3);
        write(to, [0f64; 3].as_ptr(), count as usize * 8, site);
        count
    }

    fn getpid() -> pid_t, caller(rdi)
    |_site| { PROCESS }

    fn getppid() -> pid_t, caller(rdi)
    |_site| { PARENT }

    /// A thread's id differs from the process id by as much as it really does.
    fn gettid() -> pid_t, caller(rdi)
    |_site| { PROCESS + (own_thread() - own_process()) }

    fn tgkill(process: pid_t, thread: pid_t, signal: c_int) -> c_int, caller(rcx)
    |_site| {
        let own = own_process();
        if process == PROCESS { real(own, thread - PROCESS + own, signal) } else { real(process, thread, signal) }
    }

    fn kill(process: pid_t, signal: c_int) -> c_int, caller(rdx)
    |_site| {
        let process = if process == PROCESS { own_process() } else { process };
        real(process, signal)
    }

    fn getrandom(to: *mut c_void, bytes: usize, flags: c_uint) -> isize, caller(rcx)
    |site| { let _ = flags; give_random(to, bytes, site); bytes as isize }

    fn getentropy(to: *mut c_void, bytes: usize) -> c_int, caller(rdx)
    |site| { give_random(to, bytes, site); 0 }

    fn arc4random() -> u32, caller(rdi)
    |_site| { u32::from_le_bytes(random_bytes()) }

    fn arc4random_buf(to: *mut c_void, bytes: usize), caller(rdx)
    |site| { give_random(to, bytes, site) }

    fn arc4random_uniform(bound: u32) -> u32, caller(rsi)
    |_site| { (u64::from_le_bytes(random_bytes()) % u64::from(bound.max(1))) as u32 }

    /// Without descriptors, `poll` is a way to sleep.
    fn poll(descriptors: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int) -> c_int, caller(rcx)
    |site| {
        if count == 0 && timeout >= 0 {
            return sleep(i64::from(timeout / 1000), i64::from(timeout % 1000) * 1_000_000);
        }
        wait_for_descriptors(descriptors, count, site, |descriptors| {
            if timeout != 0 {
                through_kernel();
                others_first(timeout, |milliseconds| real(descriptors, count, milliseconds) != 0);
            }
            real(descriptors, count, timeout)
        })
    }

    fn select(count: c_int, read: *mut c_void, written: *mut c_void, other: *mut c_void, timeout: *mut timeval) -> c_int,
        caller(r9)
    |site| {
        with_result(timeout, site, |timeout| {
            if count == 0 && !timeout.is_null() {
                return sleep((*timeout).tv_sec, (*timeout).tv_usec * 1000);
            }
            wait_for_sets([read, written, other], site, |[read, written, other]| {
                real(count, read, written, other, timeout)
            })
        })
    }
}
