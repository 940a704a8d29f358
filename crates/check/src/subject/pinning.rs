//! Keeps a worker and the program it talks to on one processor.
//!
//! They take turns: the worker waits while the program recovers, and vice versa. On two processors each turn wakes one
//! that has gone to sleep, which takes longer than many recoveries. But the processor they share may have other work, so
//! from time to time they run unpinned, and are pinned again where the scheduler put them. The runtime hides the pinning
//! from the program.

#![allow(unsafe_code, reason = "which processor to run on is the system's to say")]

use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock, PoisonError};

use libc::{cpu_set_t, pid_t};

/// Every this many runs, one is not pinned.
const RUNS_PINNED: u32 = 64;

/// The processors that workers of this process are pinned to: two on one would wait for each other.
static TAKEN: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// The processors there are to choose from, if there are several. A worker that a pinned one starts would see only its.
fn usable() -> Option<cpu_set_t> {
    static USABLE: OnceLock<Option<cpu_set_t>> = OnceLock::new();
    *USABLE.get_or_init(|| {
        // Safety: plain data, of the size given. Machines with more processors than fit do without.
        unsafe {
            let mut usable: cpu_set_t = std::mem::zeroed();
            let known = libc::sched_getaffinity(0, size_of::<cpu_set_t>(), &raw mut usable) == 0;
            (known && libc::CPU_COUNT(&usable) > 1).then_some(usable)
        }
    })
}

#[derive(Default)]
pub(crate) struct Pinning {
    /// How many have asked for it and not taken that back: who runs schedules pins, and so does who crashes each.
    held: u32,
    /// The processors there are to choose from, while they are pinned.
    usable: Option<cpu_set_t>,
    /// The processor it is pinned to.
    taken: Option<usize>,
    runs: u32,
}

impl Drop for Pinning {
    fn drop(&mut self) {
        self.release();
    }
}

impl Pinning {
    /// Pins this thread and the program to one processor, until that is taken back as often.
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
            // Safety: plain data; a number that does not fit is not set.
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
        // Safety: asks only.
        let here = usize::try_from(unsafe { libc::sched_getcpu() }).ok();
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        // Safety: numbers that fit.
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

/// Where that is not allowed nothing changes, and nothing is lost but time.
fn run_on(processors: &cpu_set_t, program: u32) {
    for thread in [0, program as pid_t] {
        // Safety: a set of the size given.
        unsafe { libc::sched_setaffinity(thread, size_of::<cpu_set_t>(), processors) };
    }
}
