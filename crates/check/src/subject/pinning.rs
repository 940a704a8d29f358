//! Keeps a worker and the program it talks to on one processor.
//!
//! They take turns: the worker waits while the program recovers, and vice versa. On two processors each turn would wake
//! a sleeping one, which takes longer than many recoveries. But their shared processor may have other work, so from
//! time to time they run unpinned, and are pinned again where the scheduler put them. The runtime hides the pinning
//! from the program.

#![allow(unsafe_code, reason = "which processor to run on is the system's to say")]

use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock, PoisonError};

use libc::{cpu_set_t, pid_t};

/// One in this many runs is not pinned.
const RUNS_PINNED: u32 = 64;

/// The processors to which workers of this process are pinned: two on one would wait for each other.
static TAKEN: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// The available processors, if there are several. A worker started by a pinned one would see only its processor.
fn usable() -> Option<cpu_set_t> {
    static USABLE: OnceLock<Option<cpu_set_t>> = OnceLock::new();
    *USABLE.get_or_init(|| {
        // SAFETY: plain data of the given size. Machines with more processors than fit are not pinned.
        unsafe {
            let mut usable: cpu_set_t = std::mem::zeroed();
            let known = libc::sched_getaffinity(0, size_of::<cpu_set_t>(), &raw mut usable) == 0;
            (known && libc::CPU_COUNT(&usable) > 1).then_some(usable)
        }
    })
}

#[derive(Default)]
pub(crate) struct Pinning {
    /// How many callers have requested pinning: both running schedules and crashing each of them do.
    held: u32,
    /// The available processors, while pinned.
    usable: Option<cpu_set_t>,
    /// The processor to which it is pinned.
    taken: Option<usize>,
    runs: u32,
}

impl Drop for Pinning {
    fn drop(&mut self) {
        self.release();
    }
}

impl Pinning {
    /// Pins this thread and the program to one processor, until every request has been released.
    pub(crate) fn set(&mut self, pinned: bool, program: u32) {
        self.held = if pinned { self.held + 1 } else { self.held.saturating_sub(1) };
        match (pinned, self.held) {
            (true, 1) => (self.usable, self.runs) = (usable(), 0),
            (false, 0) => {
                if let Some(usable) = self.usable.take() {
                    run_on(&usable, program);
                }
                self.release();
            }
            _ => {}
        }
    }

    pub(crate) fn before_run(&mut self, program: u32) {
        if let Some(usable) = self.usable.filter(|_| self.is_free()) {
            self.release();
            run_on(&usable, program);
        }
    }

    pub(crate) fn after_run(&mut self, program: u32) {
        if let Some(usable) = self.usable.filter(|_| self.is_free())
            && let Some(number) = self.take(&usable)
        {
            // SAFETY: plain data; a number that does not fit is not set.
            unsafe {
                let mut here: cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(number, &mut here);
                run_on(&here, program);
            }
        }
        self.runs += 1;
    }

    /// The processor that this thread is on, or another one if that is taken.
    fn take(&mut self, usable: &cpu_set_t) -> Option<usize> {
        // SAFETY: a query without side effects.
        let here = usize::try_from(unsafe { libc::sched_getcpu() }).ok();
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the numbers fit.
        let free = |number: &usize| {
            *number < 1024 && !taken.contains(number) && unsafe { libc::CPU_ISSET(*number, usable) }
        };
        let number = here.filter(free).or_else(|| (0..1024).find(free))?;
        taken.insert(number);
        self.taken = Some(number);
        Some(number)
    }

    fn release(&mut self) {
        if let Some(number) = self.taken.take() {
            TAKEN.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        }
    }

    fn is_free(&self) -> bool {
        self.runs.is_multiple_of(RUNS_PINNED)
    }
}

/// If this is not permitted nothing changes; it only costs time.
fn run_on(processors: &cpu_set_t, program: u32) {
    for thread in [0, program as pid_t] {
        // SAFETY: a set of the given size.
        unsafe { libc::sched_setaffinity(thread, size_of::<cpu_set_t>(), processors) };
    }
}
