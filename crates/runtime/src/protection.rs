//! Marks accesses to the pool made on the runtime's behalf.
//!
//! The window is inaccessible (see `follow`). What the C library does there on the runtime's behalf has been announced
//! already, so it is let through and not recorded again.

use std::cell::Cell;

use crate::session::recording;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Is the calling thread inside a real function on behalf of the runtime?
pub(crate) fn works_for_runtime() -> bool {
    DEPTH.get() > 0
}

/// Runs a signal handler of the program, which may have interrupted a real function called by the runtime: the
/// handler's accesses are the program's own.
pub(crate) fn for_the_program(handler: impl FnOnce()) {
    let depth = DEPTH.replace(0);
    handler();
    DEPTH.set(depth);
}

/// While this guard lives, the thread's accesses to PM count as announced.
pub(crate) struct Opened(bool);

impl Opened {
    #[inline(always)]
    pub(crate) fn new() -> Opened {
        let recording = recording();
        if recording {
            DEPTH.set(DEPTH.get() + 1);
        }
        Opened(recording)
    }
}

impl Drop for Opened {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0 {
            DEPTH.set(DEPTH.get() - 1);
        }
    }
}
