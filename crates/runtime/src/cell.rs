//! State that belongs to the one running thread.
//!
//! Under the checker the threads of the program run one at a time: the thread that holds the baton (see
//! [`crate::threads`]) runs and all others wait for it. Passing the baton on orders everything before it ahead of
//! everything after. So the runtime's state needs no locks, which the hot path could not afford anyway. The whole crate
//! relies on that one invariant, and this module is the only place that does so:
//!
//! Builds with debug assertions check both halves; release builds compile to a plain access. What threads may look at
//! without the baton, or without the checker, is an atomic and not a cell.

use std::cell::UnsafeCell;
#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// See the module's documentation.
pub(crate) struct RunningThreadCell<T> {
    state: UnsafeCell<T>,
    #[cfg(debug_assertions)]
    in_use: AtomicBool,
}

// SAFETY: only one thread at a time uses a cell; see the module's documentation.
unsafe impl<T> Sync for RunningThreadCell<T> {}

impl<T> RunningThreadCell<T> {
    pub(crate) const fn new(state: T) -> RunningThreadCell<T> {
        RunningThreadCell {
            state: UnsafeCell::new(state),
            #[cfg(debug_assertions)]
            in_use: AtomicBool::new(false),
        }
    }

    /// Gives access to the state. The closure must neither switch threads nor use the same cell again.
    #[inline(always)]
    pub(crate) fn with<R>(&self, access: impl FnOnce(&mut T) -> R) -> R {
        #[cfg(debug_assertions)]
        let _in_use = InUse::new(&self.in_use);
        // SAFETY: this thread holds the baton and is not inside `with` already, so the reference is the only one.
        access(unsafe { &mut *self.state.get() })
    }

    /// The address of the state.
    pub(crate) const fn as_ptr(&self) -> *mut T {
        self.state.get()
    }

    #[inline(always)]
    pub(crate) fn set(&self, state: T) {
        self.with(|old| *old = state);
    }
}

impl<T: Copy> RunningThreadCell<T> {
    #[inline(always)]
    pub(crate) fn get(&self) -> T {
        self.with(|state| *state)
    }
}

/// The handle of the thread that holds the baton; 0 while there is no scheduling.
#[cfg(debug_assertions)]
static HOLDER: AtomicU64 = AtomicU64::new(0);

#[cfg(debug_assertions)]
fn this_thread() -> u64 {
    // SAFETY: it only returns a number.
    unsafe { libc::pthread_self() }
}

/// The calling thread has received the baton.
#[inline(always)]
pub(crate) fn baton_received() {
    #[cfg(debug_assertions)]
    HOLDER.store(this_thread(), Ordering::Relaxed);
}

/// Scheduling has ended: the process is a child that the program forked.
#[inline(always)]
pub(crate) fn baton_abolished() {
    #[cfg(debug_assertions)]
    HOLDER.store(0, Ordering::Relaxed);
}

#[cfg(debug_assertions)]
struct InUse<'a>(&'a AtomicBool);

#[cfg(debug_assertions)]
impl InUse<'_> {
    fn new(in_use: &AtomicBool) -> InUse<'_> {
        let holder = HOLDER.load(Ordering::Relaxed);
        assert!(holder == 0 || holder == this_thread(), "state of the running thread used by another thread");
        assert!(!in_use.swap(true, Ordering::Relaxed), "state of the running thread used while in use");
        InUse(in_use)
    }
}

#[cfg(debug_assertions)]
impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_it_was_given() {
        static CELL: RunningThreadCell<Vec<u32>> = RunningThreadCell::new(Vec::new());
        CELL.with(|list| list.push(1));
        CELL.with(|list| list.push(2));
        assert_eq!(CELL.with(|list| list.clone()), [1, 2]);
        CELL.set(Vec::new());
        assert!(CELL.with(|list| list.is_empty()));
    }

    #[test]
    #[cfg_attr(not(debug_assertions), ignore = "only looked at with debug assertions")]
    #[should_panic(expected = "used while in use")]
    fn is_not_entered_twice() {
        static CELL: RunningThreadCell<u32> = RunningThreadCell::new(0);
        CELL.with(|_| CELL.get());
    }
}
