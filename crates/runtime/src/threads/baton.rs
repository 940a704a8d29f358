//! Passes the turn from one real thread to another.

use std::ptr::null;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::system::raw_syscall;

/// What a thread waits on for its turn.
pub(crate) struct Baton(AtomicU32);

const EMPTY: u32 = 0;
const HERE: u32 = 1;

impl Baton {
    pub(crate) const fn new() -> Baton {
        Baton(AtomicU32::new(EMPTY))
    }

    /// Gives the turn to the thread that waits, or will wait, on this baton.
    pub(crate) fn pass(&self) {
        self.0.store(HERE, Ordering::Release);
        self.futex(libc::FUTEX_WAKE, 1, null());
    }

    /// Waits for the turn. Calls `watch` occasionally if that takes long.
    pub(crate) fn wait(&self, mut watch: impl FnMut()) {
        static LONG: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        while self.0.compare_exchange(HERE, EMPTY, Ordering::Acquire, Ordering::Relaxed).is_err() {
            let result = self.futex(libc::FUTEX_WAIT, EMPTY, &raw const LONG);
            if result == -(libc::ETIMEDOUT as isize) {
                watch();
            }
        }
    }

    fn futex(&self, operation: i32, value: u32, timeout: *const libc::timespec) -> isize {
        let operation = operation | libc::FUTEX_PRIVATE_FLAG;
        let arguments =
            [self.0.as_ptr() as usize, operation as usize, value as usize, timeout as usize, 0, 0];
        // SAFETY: the kernel reads the word, and the time if there is one.
        unsafe { raw_syscall(libc::SYS_futex, arguments) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_turn_goes_there_and_back() {
        static BATONS: [Baton; 2] = [const { Baton::new() }; 2];
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let other = std::thread::spawn(|| {
            for round in 0..100 {
                BATONS[1].wait(|| {});
                assert_eq!(COUNT.fetch_add(1, Ordering::Relaxed), 2 * round + 1);
                BATONS[0].pass();
            }
        });
        for round in 0..100 {
            assert_eq!(COUNT.fetch_add(1, Ordering::Relaxed), 2 * round);
            BATONS[1].pass();
            BATONS[0].wait(|| {});
        }
        other.join().expect("it ends");
    }
}
