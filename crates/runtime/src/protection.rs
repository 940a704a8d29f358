//! Who touches the pool in the runtime's name.
//!
//! The window is inaccessible (see `follow`). What the C library does there while it works for the runtime was announced
//! already, so it is let through and not recorded again.

use std::cell::Cell;

use crate::session::recording;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Does the calling thread run a real function on behalf of the runtime?
pub(crate) fn works_for_runtime() -> bool {
    DEPTH.get() > 0
}

/// Runs a signal handler of the program, which may have come while the runtime called a real function: what the handler does
/// is the program's own.
pub(crate) fn for_the_program(handler: impl FnOnce()) {
    let depth = DEPTH.replace(0);
    handler();
    DEPTH.set(depth);
}

/// Whatever the calling thread does to PM while this lives was announced.
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
