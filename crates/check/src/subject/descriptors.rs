//! The limits on open files and on file size. Every worker needs a handful of descriptors and large, nearly empty files
//! in memory, so the checker raises its own limits as far as permitted; the program under test gets the user's limit on
//! open files.

#![allow(unsafe_code, reason = "limits of the process")]

use std::sync::OnceLock;

use crashproof_protocol::{POOL_BYTES, TRACE_BYTES, fd};

use crate::subject::error::{Error, system};

/// The limit before it was raised.
static FOUND: OnceLock<libc::rlimit> = OnceLock::new();

/// Raises the limits, once.
pub(crate) fn raise_limits() -> Result<(), Error> {
    raise_file_size()?;
    if FOUND.get().is_some() {
        return Ok(());
    }
    let cannot = system("cannot learn the limit on open files");
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes the limit.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } < 0 {
        return Err(cannot(std::io::Error::last_os_error()));
    }
    let _ = FOUND.set(limit);
    let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
    // SAFETY: the kernel only reads the limit. If the call fails, the old limit remains.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) };
    // Those that the program inherits, and their temporary duplicates.
    let needed = 2 * fd::END as u64;
    if limit.rlim_max < needed {
        let message = format!("the limit is {}, at least {needed} are needed (ulimit -n)", limit.rlim_max);
        return Err(system("too few files may be open")(std::io::Error::other(message)));
    }
    Ok(())
}

/// Memory shared with the program counts as a file: nearly all of it is never written.
fn raise_file_size() -> Result<(), Error> {
    let needed = if POOL_BYTES > TRACE_BYTES { POOL_BYTES } else { TRACE_BYTES };
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes the limit, and then only reads it. If the call fails, the old limit remains.
    unsafe {
        libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit);
        if limit.rlim_cur < needed {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
        }
    }
    if limit.rlim_cur < needed {
        let message = format!(
            "the limit is {} bytes, and memory shared with the program counts as a file of {} GiB that is nearly empty \
             (ulimit -f unlimited)",
            limit.rlim_cur,
            needed >> 30
        );
        return Err(system("files may not be large enough")(std::io::Error::other(message)));
    }
    Ok(())
}

/// Restores the original limit in this process; called between fork and exec.
pub(crate) fn restore_limit() {
    // Open descriptors stay valid below a lower limit.
    if let Some(limit) = FOUND.get() {
        // SAFETY: the kernel only reads the limit.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, limit) };
    }
}
