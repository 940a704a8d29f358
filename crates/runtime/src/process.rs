//! What a program may do to its process, and what the checker must survive: fork, become another program,
//! leave orphans behind, ask for all memory.
//!
//! A forked child is not followed: it runs on without recording, with persistent memory of its own, and the
//! verdict says so. A child of the checker that does not end on its own (with `exit`, `_exit` or a signal)
//! must have become another program.

use std::ffi::c_int;

use crashproof_protocol::{FILES, Record, exit, mode, reason, record};

use crate::{access, session, strict, unseen};

/// Called when a child of the checker begins.
pub(crate) unsafe fn start() {
    (*session::CONTROL).ended = 0;
    libc::pthread_atfork(Some(before_fork), None, Some(after_fork));
}

unsafe extern "C" fn before_fork() {
    access::note(record::UNKNOWN, 0, reason::FORK, std::ptr::null());
}

unsafe extern "C" fn after_fork() {
    session::MODE = mode::PASS;
    strict::stop();
}

/// `vfork` shares memory with the parent until the child has become another program; as `fork` it does not.
#[unsafe(no_mangle)]
unsafe extern "C" fn vfork() -> libc::pid_t {
    libc::fork()
}

/// Runs when the process ends with `exit`, after the program's own destructors.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: unsafe extern "C" fn() = {
    unsafe extern "C" fn end() {
        note_end();
    }
    end
};

/// Notes that the process ends on its own.
pub(crate) unsafe fn note_end() {
    if access::recording() {
        unseen::look_for_changes();
        (*session::CONTROL).ended = 1;
    }
}

/// Address space of the parked process.
static mut PARKED_BYTES: u64 = 0;

/// Makes this process the parent of whatever its children leave behind, and remembers its size.
pub(crate) unsafe fn prepare_parent() {
    let size = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    PARKED_BYTES =
        size.split(' ').next().and_then(|pages| pages.parse().ok()).map_or(0, |pages: u64| pages * 4096);
    libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
}

/// Ends what a child left behind.
pub(crate) unsafe fn end_orphans() {
    loop {
        let mut status = 0;
        match libc::waitpid(-1, &raw mut status, libc::WNOHANG) {
            // Nobody: the usual case.
            -1 => return,
            0 => {
                let path = format!("/proc/self/task/{}/children", libc::syscall(libc::SYS_gettid));
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

/// A child that exited without saying so became another program, or was stopped by a sanitizer.
pub(crate) unsafe fn note_ending(status: c_int) {
    let sanitizer = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == exit::SANITIZER;
    if !sanitizer && libc::WIFEXITED(status) && (*session::CONTROL).ended == 0 {
        let kind = record::UNKNOWN;
        session::append(Record::new(kind, 0, 0, reason::EXEC, 0, 0));
    }
}

/// Keeps a child from filling the disk with one file: none that fits into the pool is larger.
pub(crate) unsafe fn limit_files() {
    let limit = libc::rlimit { rlim_cur: FILES.bytes, rlim_max: FILES.bytes };
    libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
    // Then `write` fails, as it does on a full disk, and nobody is killed.
    libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
}

/// Keeps a child from taking all memory there is.
pub(crate) unsafe fn limit_memory() {
    let more = (*session::CONTROL).max_memory;
    if more > 0 && PARKED_BYTES > 0 {
        let limit = libc::rlimit { rlim_cur: PARKED_BYTES + more, rlim_max: libc::RLIM_INFINITY };
        libc::setrlimit(libc::RLIMIT_AS, &raw const limit);
    }
}
