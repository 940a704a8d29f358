//! C library functions whose accesses to memory or files are not followed: used on PM, they make the verdict UNKNOWN,
//! by name.
//!
//! Programs seldom use them on PM. A function that is neither here nor interposed is detected by comparing memory at
//! the end of the run, if it stores, and by strict mode in any case.

use std::ffi::{c_char, c_int, c_long, c_void};

use crashproof_protocol::abi::Site;
use crashproof_protocol::{reason, record, untracked};

use crate::files;
use crate::interpose::replace;
use crate::recorder::note;

fn untracked(function: u64, site: *const Site) {
    note(record::UNKNOWN, function, reason::FUNCTION, site);
}

/// Would a function that looks up names see files that differ from those on disk?
fn names_differ(function: u64, site: *const Site) {
    if files::have_names() {
        untracked(function, site);
    }
}

// The same stream, now of another file.
replace! { [freopen freopen64] {
    (name: *const c_char, mode: *const c_char, stream: *mut c_void) -> *mut c_void, caller(rcx)
    |site| {
        if !name.is_null() && files::is_for_stream(name, mode, site) {
            untracked(const { untracked::number("freopen") }, site);
        }
        real(name, mode, stream)
    }
} }

// The kernel reads and writes files asynchronously.
replace! {
    fn io_submit(context: *mut c_void, count: c_long, requests: *mut c_void) -> c_int, caller(rcx)
    |site| { names_differ(const { untracked::number("io_submit") }, site); real(context, count, requests) }

    fn io_uring_submit(ring: *mut c_void) -> c_int, caller(rsi)
    |site| { names_differ(const { untracked::number("io_uring_submit") }, site); real(ring) }

    fn io_uring_submit_and_wait(ring: *mut c_void, count: u32) -> c_int, caller(rdx)
    |site| { names_differ(const { untracked::number("io_uring_submit") }, site); real(ring, count) }
}

replace! { [glob glob64] {
    (pattern: *const c_char, flags: c_int, error: *const c_void, found: *mut c_void) -> c_int, caller(r8)
    |site| { names_differ(const { untracked::number("glob") }, site); real(pattern, flags, error, found) }
} }

replace! { [ftw ftw64] {
    (directory: *const c_char, each: *const c_void, descriptors: c_int) -> c_int, caller(rcx)
    |site| { names_differ(const { untracked::number("ftw") }, site); real(directory, each, descriptors) }
} }

replace! { [nftw nftw64] {
    (directory: *const c_char, each: *const c_void, descriptors: c_int, flags: c_int) -> c_int, caller(r8)
    |site| { names_differ(const { untracked::number("nftw") }, site); real(directory, each, descriptors, flags) }
} }

replace! { [fts_open fts64_open] {
    (paths: *const *mut c_char, options: c_int, order: *const c_void) -> *mut c_void, caller(rcx)
    |site| { names_differ(const { untracked::number("fts_open") }, site); real(paths, options, order) }
} }
