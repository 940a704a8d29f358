//! The processors a program sees: those available when it started, always running on the first of them.
//!
//! The processor a thread happens to run on differs from run to run; and the checker pins the children it talks to to
//! its own processor, which they must not see.

use std::ffi::{c_int, c_long, c_uint, c_void};

use libc::{cpu_set_t, pid_t, pthread_t};

use super::memory::write;
use crate::cell::RunningThreadCell;
use crate::interpose::replace;

/// The available ones; `None` if there are more than the C library's set holds.
static USABLE: RunningThreadCell<Option<cpu_set_t>> = RunningThreadCell::new(None);

/// Records which are available, before the checker pins the process.
pub(crate) fn note_usable() {
    // SAFETY: the set is a plain bit set, which the kernel fills in.
    unsafe {
        let mut set = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<cpu_set_t>(), &raw mut set) == 0 {
            USABLE.set(Some(set));
        }
    }
}

fn first() -> c_int {
    // SAFETY: numbers below the size of the set.
    let is_usable = |set: &cpu_set_t, number: c_int| unsafe { libc::CPU_ISSET(number as usize, set) };
    USABLE.get().and_then(|set| (0..libc::CPU_SETSIZE).find(|&number| is_usable(&set, number))).unwrap_or(0)
}

/// Fills in a set of the caller's size, if all available ones fit.
unsafe fn give(bytes: usize, to: *mut c_void, site: *const crashproof_protocol::abi::Site) -> bool {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let Some(set) = USABLE.get() else { return false };
        let set = std::slice::from_raw_parts((&raw const set).cast::<u8>(), size_of::<cpu_set_t>());
        if set.iter().skip(bytes).any(|byte| *byte != 0) {
            return false;
        }
        let mut given = vec![0; bytes];
        let known = bytes.min(set.len());
        given[..known].copy_from_slice(&set[..known]);
        write(to, given.as_ptr(), bytes, site);
        true
    }
}

replace! {
    fn sched_getcpu() -> c_int, caller(rdi)
    |_site| { first() }

    fn getcpu(processor: *mut c_uint, node: *mut c_uint) -> c_int, caller(rdx)
    |site| {
        if !processor.is_null() {
            write(processor.cast::<c_void>(), (first() as c_uint).to_le_bytes().as_ptr(), 4, site);
        }
        if !node.is_null() {
            write(node.cast::<c_void>(), [0u8; 4].as_ptr(), 4, site);
        }
        0
    }

    fn sched_getaffinity(process: pid_t, bytes: usize, to: *mut c_void) -> c_int, caller(rcx)
    |site| { if give(bytes, to, site) { 0 } else { real(process, bytes, to) } }

    fn pthread_getaffinity_np(thread: pthread_t, bytes: usize, to: *mut c_void) -> c_int, caller(rcx)
    |site| { if give(bytes, to, site) { 0 } else { real(thread, bytes, to) } }

    fn get_nprocs() -> c_int, caller(rdi)
    |_site| { USABLE.get().map_or_else(|| real(), |set| libc::CPU_COUNT(&set)) }

    fn sysconf(name: c_int) -> c_long, caller(rsi)
    |_site| {
        match USABLE.get().filter(|_| name == libc::_SC_NPROCESSORS_ONLN) {
            Some(set) => libc::CPU_COUNT(&set).into(),
            None => real(name),
        }
    }
}
