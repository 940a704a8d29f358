//! What a program may do to its process, and what the checker must survive: fork, become another program,
//! leave orphans behind, ask for all memory.
//!
//! A forked child is not followed: it runs on without recording, with persistent memory of its own, and the
//! verdict says so. A child of the checker that does not end on its own (with `exit`, `_exit` or a signal)
//! must have become another program.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

use crashproof_protocol::{FILES, Record, exit, reason, record};

use crate::interpose::schedule;
use crate::recorder::unknown;
use crate::session::{self, control, recording};
use crate::system::own_thread;
use crate::threads::buffers::drain_all;
use crate::{protection, unseen};

/// Called when a child of the checker begins.
pub(crate) fn start() {
    control(|control| control.ended = 0);
    // SAFETY: the handlers stay as long as the process.
    unsafe { libc::pthread_atfork(Some(before_fork), None, Some(after_fork)) };
}

extern "C" fn before_fork() {
    unknown(reason::FORK, std::ptr::null());
}

extern "C" fn after_fork() {
    session::stop_recording();
    protection::stop();
}

/// `vfork` shares memory with the parent until the child has become another program; as `fork` it does not.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn vfork() -> libc::pid_t {
    // SAFETY: the program would fork itself.
    unsafe { libc::fork() }
}

/// Runs when the process ends with `exit`, after the program's own destructors.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".fini_array"))]
static END: extern "C" fn() = {
    extern "C" fn end() {
        note_end();
    }
    end
};

schedule! {
    fn _exit(status: c_int) |real| {
        note_end();
        real()(status);
    }

    fn _Exit(status: c_int) |real| {
        note_end();
        real()(status);
    }
}

/// The process ends on its own. What waits in store buffers takes effect all the same.
fn note_end() {
    if recording() {
        drain_all();
        unseen::look_for_changes();
        control(|control| control.ended = 1);
    }
}

/// Address space of the parked process.
static PARKED_BYTES: AtomicU64 = AtomicU64::new(0);

/// Makes this process the parent of whatever its children leave behind, and remembers its size.
pub(crate) fn prepare_parent() {
    let size = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = size.split(' ').next().and_then(|pages| pages.parse().ok()).unwrap_or(0);
    PARKED_BYTES.store(pages * 4096, Ordering::Relaxed);
    // SAFETY: changes who gets orphans, nothing else.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
}

/// Ends what a child left behind.
pub(crate) fn end_orphans() {
    loop {
        let mut status = 0;
        // SAFETY: the kernel writes the status; the children are of the one child that the checker asked for.
        unsafe {
            match libc::waitpid(-1, &raw mut status, libc::WNOHANG) {
                // There are none: the usual case.
                -1 => return,
                0 => {
                    let path = format!("/proc/self/task/{}/children", own_thread());
                    let children = std::fs::read_to_string(path).unwrap_or_default();
                    for child in children.split_whitespace().filter_map(|number| number.parse().ok()) {
                        libc::kill(child, libc::SIGKILL);
                    }
                    if children.is_empty() {
                        return;
                    }
                    libc::waitpid(-1, &raw mut status, 0);
                }
                _ => {}
            }
        }
    }
}

/// A child that exited without saying so became another program, or was stopped by a sanitizer.
pub(crate) fn note_ending(status: c_int) {
    let sanitizer = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == exit::SANITIZER;
    if !sanitizer && libc::WIFEXITED(status) && control(|control| control.ended) == 0 {
        session::append(Record::new(record::UNKNOWN, 0, 0, reason::EXEC, 0, 0));
    }
}

fn limit(resource: libc::__rlimit_resource_t, soft: u64, hard: u64) {
    let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: the kernel only reads the limit.
    unsafe { libc::setrlimit(resource, &raw const limit) };
}

/// Keeps a child from taking all processor time, memory and disk space there are.
pub(crate) fn limit_resources() {
    let (seconds, more) = control(|control| (u64::from(control.max_cpu_seconds), control.max_memory));
    if seconds > 0 {
        limit(libc::RLIMIT_CPU, seconds, seconds + 1);
    }
    limit(libc::RLIMIT_CORE, 0, 0);
    let parked = PARKED_BYTES.load(Ordering::Relaxed);
    if more > 0 && parked > 0 {
        limit(libc::RLIMIT_AS, parked + more, libc::RLIM_INFINITY);
    }
    // No file that fits into the pool is larger. `write` then fails, as it does on a full disk, and kills nobody.
    limit(libc::RLIMIT_FSIZE, FILES.bytes, FILES.bytes);
    // SAFETY: ignoring a signal runs no code.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
