//! Which thread runs. Atomics, because threads that wait for the baton read them.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU16};

static CONCURRENT: AtomicBool = AtomicBool::new(false);
/// Why `concurrent` is true: there are several threads, or every operation is watched.
static THREADS: AtomicBool = AtomicBool::new(false);
static WATCHED: AtomicBool = AtomicBool::new(false);
static NUMBER: AtomicU16 = AtomicU16::new(0);
static KERNEL_NUMBER: AtomicI32 = AtomicI32::new(0);

/// Is more than one thread alive, or is every operation watched? The only branch that single-threaded programs pay for.
#[inline(always)]
pub(crate) fn concurrent() -> bool {
    CONCURRENT.load(Relaxed)
}

pub(crate) fn set_concurrent(concurrent: bool) {
    THREADS.store(concurrent, Relaxed);
    CONCURRENT.store(concurrent || is_watched(), Relaxed);
}

/// May something happen between any two operations of the only thread? See `timers`.
#[inline(always)]
pub(crate) fn is_watched() -> bool {
    WATCHED.load(Relaxed)
}

pub(crate) fn set_watched(watched: bool) {
    WATCHED.store(watched, Relaxed);
    CONCURRENT.store(watched || has_threads(), Relaxed);
}

/// Is more than one thread alive?
pub(crate) fn has_threads() -> bool {
    THREADS.load(Relaxed)
}

/// The number of the thread whose turn it is.
#[inline(always)]
pub(crate) fn number() -> u16 {
    NUMBER.load(Relaxed)
}

pub(crate) fn set_number(number: u16) {
    NUMBER.store(number, Relaxed);
}

/// The kernel's id of the thread whose turn it is; 0 until it has run.
pub(crate) fn kernel_number() -> i32 {
    KERNEL_NUMBER.load(Relaxed)
}

pub(crate) fn set_kernel_number(number: i32) {
    KERNEL_NUMBER.store(number, Relaxed);
}
