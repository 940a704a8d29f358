//! Functions of the C library that touch memory and are not followed there: on PM they make the verdict
//! UNKNOWN, by name.
//!
//! Programs seldom use them on PM. Others that are neither here nor interposed are found by what memory holds
//! at the end of the run, if they store, and by strict mode in any case.

use std::ffi::c_int;

use crashproof_protocol::abi::{Site, is_pm};
use crashproof_protocol::{reason, record, untracked};

use crate::files;
use crate::interpose::replace;
use crate::recorder::note;

fn untracked(function: u64, site: *const Site) {
    note(record::UNKNOWN, function, reason::FUNCTION, site);
}

/// Is a request for input or output about PM?
unsafe fn concerns_pm(request: *const libc::aiocb) -> bool {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        is_pm(request as u64)
            || !request.is_null()
                && (is_pm((*request).aio_buf as u64) || files::of((*request).aio_fildes).is_some())
    }
}

// The kernel, or another thread, reads and writes the buffer some time later.
replace! { [aio_read aio_read64] {
    (request: *mut libc::aiocb) -> c_int, caller(rsi)
    |site| {
        if concerns_pm(request) { untracked(const { untracked::number("aio_read") }, site); }
        real(request)
    }
} }

replace! { [aio_write aio_write64] {
    (request: *mut libc::aiocb) -> c_int, caller(rsi)
    |site| {
        if concerns_pm(request) { untracked(const { untracked::number("aio_write") }, site); }
        real(request)
    }
} }
