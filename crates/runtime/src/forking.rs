//! Functions that fork, and that wait for forked processes to end.
//!
//! The new process is followed (see `processes`) unless there are threads, or the heap is persistent memory, which
//! forked processes do not share.

use std::ffi::{c_int, c_void};

use crashproof_protocol::{flag, record};
use libc::{pid_t, siginfo_t};

use crate::c_library::results::with_result;
use crate::cell::RunningThreadCell;
use crate::interpose::{replace, schedule};
use crate::recorder::note;
use crate::system::KeptErrno;
use crate::threads::turns;
use crate::{processes, session};

/// The thread number for a process that is being forked, if it will be followed.
static FOLLOWED: RunningThreadCell<Option<u16>> = RunningThreadCell::new(None);

/// Is a process being forked that will be followed? For `pthread_atfork` handlers.
pub(crate) fn is_followed() -> bool {
    FOLLOWED.get().is_some()
}

fn fork_followed(real: impl FnOnce() -> pid_t) -> pid_t {
    let alone = session::has_flag(flag::PM_HEAP) || session::has_flag(flag::DISCOVER);
    let number = if alone { None } else { turns::prepare_fork() };
    if let Some(number) = number {
        note(record::SPAWN, 0, number.into(), std::ptr::null());
    }
    FOLLOWED.set(number);
    let child = real();
    FOLLOWED.set(None);
    let _errno = KeptErrno::new();
    match number {
        None => {}
        Some(number) if child == 0 => turns::begin_forked(number),
        Some(number) => processes::forked((child > 0).then_some(child), number),
    }
    child
}

/// Records that a call waited for a process to end: everything that process did happened before.
fn waited(process: pid_t) -> pid_t {
    if process > 0 {
        let _errno = KeptErrno::new();
        if let Some(number) = processes::joined(process) {
            note(record::JOIN, 0, number.into(), std::ptr::null());
            turns::end_of_forks();
        }
    }
    process
}

schedule! {
    fn fork() -> pid_t |real| { fork_followed(|| real()()) }
}

schedule! {
    fn _Fork() -> pid_t |real| { fork_followed(|| real()()) }

    fn daemon(keep_directory: c_int, keep_descriptors: c_int) -> c_int |real| {
        match fork() {
            -1 => return -1,
            0 => {}
            _ => libc::_exit(0),
        }
        libc::setsid();
        if keep_directory == 0 {
            libc::chdir(c"/".as_ptr());
        }
        if keep_descriptors == 0 {
            let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
            for descriptor in 0..3 {
                libc::dup2(nothing, descriptor);
            }
            if nothing > 2 {
                libc::close(nothing);
            }
        }
        0
    }
}

/// `vfork` shares memory with the parent until the child executes another program; treated as `fork`, it does not.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn vfork() -> pid_t {
    // SAFETY: the program itself would fork.
    unsafe { fork() }
}

/// Bytes of a `struct rusage`.
type Used = [u8; 144];

replace! {
    fn wait(status: *mut c_int) -> pid_t, caller(rsi)
    |site| { waited(with_result(status, site, |status| real(status))) }

    fn waitpid(process: pid_t, status: *mut c_int, options: c_int) -> pid_t, caller(rcx)
    |site| { waited(with_result(status, site, |status| real(process, status, options))) }

    fn wait3(status: *mut c_int, options: c_int, used: *mut Used) -> pid_t, caller(rcx)
    |site| { waited(with_result(status, site, |status| with_result(used, site, |used| real(status, options, used)))) }

    fn wait4(process: pid_t, status: *mut c_int, options: c_int, used: *mut Used) -> pid_t, caller(r8)
    |site| {
        waited(with_result(status, site, |status| with_result(used, site, |used| real(process, status, options, used))))
    }

    fn waitid(kind: c_int, which: c_int, info: *mut siginfo_t, options: c_int) -> c_int, caller(r8)
    |site| {
        let mut ended = 0;
        let result = with_result(info, site, |info| {
            let result = real(kind, which, info, options);
            if result == 0 && options & libc::WNOWAIT == 0 && options & libc::WEXITED != 0 && !info.is_null() {
                ended = (*info.cast::<c_void>().cast::<siginfo_t>()).si_pid();
            }
            result
        });
        waited(ended);
        result
    }
}
