//! The limit on open files. Every worker needs a handful of descriptors, so the checker raises its own limit as far as it
//! may; the program under test gets the limit that the user has.

#![allow(unsafe_code, reason = "limits of the process")]

use std::sync::OnceLock;

use crashproof_protocol::fd;

use crate::subject::error::{Error, system};

/// The limit before it was raised.
static FOUND: OnceLock<libc::rlimit> = OnceLock::new();

/// Raises the limit, once.
pub(crate) fn raise_limit() -> Result<(), Error> {
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
    // SAFETY: the kernel only reads the limit. Without success the old one holds.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) };
    // Those that the program inherits, and where they are moved to meanwhile.
    let needed = 2 * fd::END as u64;
    if limit.rlim_max < needed {
        let message = format!("the limit is {}, at least {needed} are needed (ulimit -n)", limit.rlim_max);
        return Err(system("too few files may be open")(std::io::Error::other(message)));
    }
    Ok(())
}

/// Gives this process the limit back that the checker found; between fork and exec.
pub(crate) fn restore_limit() {
    // Descriptors that are open already stay valid below a lower limit.
    if let Some(limit) = FOUND.get() {
        // SAFETY: the kernel only reads the limit.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, limit) };
    }
}
