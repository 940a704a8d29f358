//! System V IPC, which ends with the machine and not with the process.
//!
//! A segment of shared memory that a run creates would be there for the next recovery. So it is attached once, which
//! forked processes inherit, and marked as removed: it goes when the last of them ends. Keys are kept here, because the
//! kernel forgets that of a removed segment. Semaphores and message queues with keys cannot be removed like this: those
//! that recovery would find are UNKNOWN, and so are segments that others have made.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};

use crashproof_protocol::reason;

use crate::cell::RunningThreadCell;
use crate::interpose::replace;
use crate::recorder::unknown;
use crate::system::{errno, fail};

/// The segments that this process or an ancestor has created with a key.
static KEYS: RunningThreadCell<BTreeMap<libc::key_t, c_int>> = RunningThreadCell::new(BTreeMap::new());

replace! {
    fn shmget(key: libc::key_t, bytes: usize, flags: c_int) -> c_int, caller(rcx)
    |site| {
        let known = (key != libc::IPC_PRIVATE).then(|| KEYS.with(|keys| keys.get(&key).copied())).flatten();
        if let Some(segment) = known {
            let exclusive = libc::IPC_CREAT | libc::IPC_EXCL;
            return if flags & exclusive == exclusive { fail(libc::EEXIST) } else { segment };
        }
        let creates = key == libc::IPC_PRIVATE || flags & libc::IPC_CREAT != 0;
        // Only what is certainly this run's own is removed: one that others have made stays as it is.
        let own = if creates { real(key, bytes, flags | libc::IPC_EXCL) } else { -1 };
        if own >= 0 {
            libc::shmat(own, std::ptr::null(), 0);
            libc::shmctl(own, libc::IPC_RMID, std::ptr::null_mut());
            if key != libc::IPC_PRIVATE {
                KEYS.with(|keys| keys.insert(key, own));
            }
            return own;
        }
        let segment = if creates && errno() != libc::EEXIST { own } else { real(key, bytes, flags) };
        if segment >= 0 {
            unknown(reason::SYSTEM_V, site);
        }
        segment
    }

    fn shmctl(segment: c_int, command: c_int, about: *mut c_void) -> c_int, caller(rcx)
    |_site| {
        if command == libc::IPC_RMID {
            KEYS.with(|keys| keys.retain(|_, known| *known != segment));
        }
        real(segment, command, about)
    }

    fn semget(key: libc::key_t, count: c_int, flags: c_int) -> c_int, caller(rcx)
    |site| {
        if key != libc::IPC_PRIVATE {
            unknown(reason::SYSTEM_V, site);
        }
        real(key, count, flags)
    }

    fn msgget(key: libc::key_t, flags: c_int) -> c_int, caller(rdx)
    |site| {
        if key != libc::IPC_PRIVATE {
            unknown(reason::SYSTEM_V, site);
        }
        real(key, flags)
    }
}
