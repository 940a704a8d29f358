//! Strict mode's lock on the pool: it is inaccessible unless the C library works for the runtime.

use std::ffi::c_int;

use crashproof_protocol::{POOL_BASE, POOL_BYTES};

use crate::cell::RunningThreadCell;
use crate::system::{KeptErrno, give_up, raw_syscall};

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not in strict mode.
    Off,
    Closed,
    Open,
}

static STATE: RunningThreadCell<State> = RunningThreadCell::new(State::Off);

/// Changes the protection of pages of the pool.
pub(crate) fn protect(address: u64, bytes: u64, protection: c_int) {
    assert!(address >= POOL_BASE && address + bytes <= POOL_BASE + POOL_BYTES, "pages outside of the pool");
    // SAFETY: pages of the pool, whose accesses fault by intention. Not by the C library's function, which the runtime
    // interposes.
    let result = unsafe {
        raw_syscall(libc::SYS_mprotect, [address as usize, bytes as usize, protection as usize, 0, 0, 0])
    };
    if result != 0 {
        give_up("cannot protect the pool (strict mode)");
    }
}

pub(crate) const ACCESSIBLE: c_int = libc::PROT_READ | libc::PROT_WRITE;

pub(crate) fn is_on() -> bool {
    crate::session::recording() && STATE.get() != State::Off
}

/// From here on the pool is inaccessible.
pub(crate) fn start() {
    STATE.set(State::Closed);
    protect(POOL_BASE, POOL_BYTES, libc::PROT_NONE);
}

/// The pool is accessible again for good.
pub(crate) fn stop() {
    if STATE.get() != State::Off {
        STATE.set(State::Off);
        protect(POOL_BASE, POOL_BYTES, ACCESSIBLE);
    }
}

/// The pool is accessible while this lives.
pub(crate) struct Opened(bool);

impl Opened {
    #[inline(always)]
    pub(crate) fn new() -> Opened {
        let needed = crate::session::recording() && STATE.get() == State::Closed;
        if needed {
            STATE.set(State::Open);
            protect(POOL_BASE, POOL_BYTES, ACCESSIBLE);
        }
        Opened(needed)
    }
}

impl Drop for Opened {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0 {
            let _errno = KeptErrno::new();
            STATE.set(State::Closed);
            protect(POOL_BASE, POOL_BYTES, libc::PROT_NONE);
        }
    }
}
