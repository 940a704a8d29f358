//! What a program may do to its process, and what the checker must survive: forking, executing another program, leaving
//! orphans behind, exhausting memory.
//!
//! A forked child is followed (see `processes`) unless there are threads or the heap is persistent memory: then it runs
//! on without recording, with its own copy of persistent memory, and if it touches that, the verdict says so. A child
//! of the checker that does not end by itself (with `exit`, `_exit` or a signal) must have executed another program.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use crashproof_protocol::abi::Site;
use crashproof_protocol::{FILES, Record, exit, mode, reason, record};

use crate::c_library::results::with_result;
use crate::interpose::{replace, schedule};
use crate::recorder::unknown;
use crate::session::{self, control, recording};
use crate::system::{own_process, raw_syscall};
use crate::threads::turns::end_process;
use crate::{callers, direct_end, endless, files, forking, open_files, prefault, processes, stacks, unseen};

/// Called when a child of the checker begins.
pub(crate) fn start() {
    // It may inspect itself as any program may.
    // SAFETY: changes only who may inspect this process.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1) };
    control(|control| control.ended = 0);
}

/// In the parent, after a fork.
extern "C" fn has_forked() {
    if session::recording() {
        control(|control| control.ended |= session::FORKED);
    }
}

extern "C" fn after_fork() {
    if forking::is_followed() {
        return;
    }
    if session::recording() {
        session::become_unfollowed();
    }
    session::stop_recording();
}

/// Does a command start the program itself? Then that knows its files without being passed their names.
fn names_own_program(command: &[u8]) -> bool {
    let file = |path: &[u8]| path.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
    let Some(own) = callers::program().map(|program| file(program.as_bytes())) else { return false };
    let mut words = command.split(|byte| byte.is_ascii_whitespace() || b";&|()<>\"'`".contains(byte));
    words.any(|word| word == b"/proc/self/exe" || !own.is_empty() && file(word) == own)
}

/// Another program can reach PM only through its files, and those are in the pool: if it is passed one or knows its
/// name, it would find something else. Memory is not shared with it.
unsafe fn note_spawn(words: impl Iterator<Item = *const c_char>, site: *const Site) {
    for word in words {
        // SAFETY: the program vouches for its pointers, as it would to the C library.
        let word = unsafe { CStr::from_ptr(word) }.to_bytes();
        if files::are_mentioned(word) || names_own_program(word) {
            return unknown(reason::SPAWN, site);
        }
    }
}

type Words = *const *mut c_char;

/// The words of a null-terminated list.
unsafe fn each(words: Words) -> impl Iterator<Item = *const c_char> {
    let mut number = 0;
    std::iter::from_fn(move || {
        // SAFETY: the list ends in null, and nothing beyond is read.
        let word = unsafe { if words.is_null() { std::ptr::null_mut() } else { *words.add(number) } };
        number += 1;
        (!word.is_null()).then_some(word.cast_const())
    })
}

replace! {
    fn system(command: *const c_char) -> c_int, caller(rsi)
    |site| { note_spawn((!command.is_null()).then_some(command).into_iter(), site); real(command) }

    fn popen(command: *const c_char, mode: *const c_char) -> *mut c_void, caller(rdx)
    |site| { note_spawn([command].into_iter(), site); real(command, mode) }
}

replace! { [posix_spawn posix_spawnp] {
    (child: *mut libc::pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, words: Words, environment: Words) -> c_int,
        caller(stack)
    |site| {
        note_spawn([path].into_iter().chain(each(words)), site);
        with_result(child, site, |child| real(child, path, actions, attributes, words, environment))
    }
} }

/// Runs when the process ends with `exit`, after the program's own destructors.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".fini_array"))]
static END: extern "C" fn() = {
    extern "C" fn end() {
        note_end();
        end_directly();
    }
    end
};

/// The program's `main` returned. If nothing else of the program's is to run, the recovery ends here.
pub(crate) fn end_early() {
    if direct_end::has_no_exit_handlers() && can_end_directly() {
        note_end();
        direct_end::end();
    }
}

fn end_directly() {
    if can_end_directly() {
        direct_end::end();
    }
}

fn can_end_directly() -> bool {
    recording()
        && session::recovering()
        && processes::is_first()
        && control(|control| control.ended & session::FORKED) == 0
        && direct_end::is_possible()
}

schedule! {
    fn exit(status: c_int) |real| {
        direct_end::ends_with(status);
        real()(status);
    }

    fn _exit(status: c_int) |real| {
        note_end();
        real()(status);
    }

    fn _Exit(status: c_int) |real| {
        note_end();
        real()(status);
    }
}

/// The process ends by itself. Stores still in store buffers take effect all the same.
fn note_end() {
    if recording() {
        stacks::note_end();
        end_process();
        drop(processes::hold());
        unseen::look_for_changes();
        if session::current_mode() == mode::RECORD && open_files::any_written_raw() {
            unknown(reason::WRITTEN_RAW, std::ptr::null());
        }
        if processes::is_first() {
            control(|control| control.ended |= 1);
            prefault::end();
        }
        processes::end();
    }
}

/// Address space of the parked process.
static PARKED_BYTES: AtomicU64 = AtomicU64::new(0);

/// Makes this process the parent of all orphans its children leave behind, and records its size.
pub(crate) fn prepare_parent() {
    let size = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = size.split(' ').next().and_then(|pages| pages.parse().ok()).unwrap_or(0);
    PARKED_BYTES.store(pages * 4096, Ordering::Relaxed);
    // SAFETY: changes only who adopts orphans. The handlers stay valid as long as the process; in the parent, which
    // records nothing, they do nothing.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        // Children must not access this process: they could change the state that later ones start from.
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        libc::pthread_atfork(None, Some(has_forked), Some(after_fork));
    }
}

/// How often, at intervals of a millisecond, to check whether a forked child makes progress while nothing is recorded.
const LOOKS: u32 = 1000;
/// The same for one that is followed, which may have to wait for the processor.
const LOOKS_AT_FOLLOWED: u32 = 20_000;

/// Gives children that the program forked time to end or to block. If one keeps running, what it would have done to
/// persistent memory is unknown.
pub(crate) fn wait_for_forked() {
    if control(|control| control.ended & session::FORKED) == 0 {
        return;
    }
    let most = if control(|control| control.processes.count) > 1 { LOOKS_AT_FOLLOWED } else { LOOKS };
    let (mut looks, mut before, mut quiet) = (0, 0, 0);
    while looks < most {
        let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
        let runs = |child: &str| {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            let state = stat.rsplit(')').next().and_then(|fields| fields.split_whitespace().next());
            matches!(state, Some("R" | "D"))
        };
        let (records, waiting) = control(|control| (control.records, control.processes.waiting));
        let idle = waiting == 0 && !children.split_whitespace().any(runs) && records == before;
        // A process that has just been woken up still looks asleep.
        quiet = if idle { quiet + 1 } else { 0 };
        if children.trim().is_empty() || quiet > 2 {
            return;
        }
        looks = if records == before { looks + 1 } else { 0 };
        before = records;
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    control(|control| control.ended |= session::TOUCHED_BY_CHILD);
}

/// The status of a run: a process that the first one forked may have ended it.
pub(crate) fn ended_by_child(status: c_int) -> c_int {
    match control(|control| control.processes.ending) {
        0 => status,
        code => (code as c_int) << 8,
    }
}

/// Ends all processes that a child left behind.
pub(crate) fn end_orphans() {
    // In the sandbox, the first process of a namespace: all others in it descend from the one child.
    let alone = own_process() == 1;
    loop {
        let mut status: c_int = 0;
        // SAFETY: the kernel writes the status; the children are of the one child that the checker asked for.
        unsafe {
            // Not by the C library's function: that notes the error, and the page would be copied for every child.
            let any = [-1_isize as usize, &raw mut status as usize, libc::WNOHANG as usize, 0, 0, 0];
            match raw_syscall(libc::SYS_wait4, any) {
                // There are none: the usual case.
                ..0 => return,
                0 if alone => {
                    libc::kill(-1, libc::SIGKILL);
                    libc::waitpid(-1, &raw mut status, 0);
                }
                0 => {
                    let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
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

/// A child that exited without announcing it executed another program, or was stopped by a sanitizer.
pub(crate) fn note_ending(status: c_int) {
    let sanitizer = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == exit::SANITIZER;
    if !sanitizer && libc::WIFEXITED(status) && control(|control| control.ended & 1) == 0 {
        session::append(Record::new(record::UNKNOWN, 0, 0, reason::EXEC, 0, 0));
    }
    if control(|control| control.ended & session::TOUCHED_BY_CHILD) != 0 {
        session::append(Record::new(record::UNKNOWN, 0, 0, reason::FORK, 0, 0));
    }
}

fn limit(resource: libc::__rlimit_resource_t, soft: u64, hard: u64) {
    let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: the kernel only reads the limit.
    unsafe { libc::setrlimit(resource, &raw const limit) };
}

/// A child that ignores the signal for its CPU limit is killed a second later. This is told apart from a child that
/// something else killed.
pub(crate) fn seen_by_limit(status: c_int, used: &libc::rusage) -> c_int {
    let seconds = endless::seconds_to_end(control(|control| control.max_cpu_seconds)) as i64;
    let killed = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL;
    let too_long = seconds > 0 && used.ru_utime.tv_sec + used.ru_stime.tv_sec >= seconds;
    if killed && too_long { libc::SIGXCPU } else { status }
}

/// Limits the child's processor time.
pub(crate) fn limit_time() {
    let seconds = endless::seconds_to_end(control(|control| control.max_cpu_seconds));
    if seconds > 0 {
        limit(libc::RLIMIT_CPU, seconds, seconds + 1);
    }
}

/// Limits the memory and disk space of children.
pub(crate) fn limit_what_children_inherit() {
    static LIMITED: AtomicU64 = AtomicU64::new(u64::MAX);
    let more = control(|control| control.max_memory);
    if LIMITED.load(Ordering::Relaxed) == more {
        return;
    }
    LIMITED.store(more, Ordering::Relaxed);
    limit(libc::RLIMIT_CORE, 0, 0);
    let parked = PARKED_BYTES.load(Ordering::Relaxed);
    if more > 0 && parked > 0 {
        limit(libc::RLIMIT_AS, parked + more, libc::RLIM_INFINITY);
    }
    // No file in the pool can be larger. `write` then fails as on a full disk, without killing the process.
    limit(libc::RLIMIT_FSIZE, FILES.bytes, FILES.bytes);
    // SAFETY: ignoring a signal runs no code.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
