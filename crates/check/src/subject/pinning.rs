//! Keeps a worker and the program it talks to on one processor.
//!
//! They take turns: the worker waits while the program recovers, and vice versa. On two processors each turn wakes one
//! that has gone to sleep, which takes longer than many recoveries. But the processor they share may have other work, so
//! from time to time they run unpinned, and are pinned again where the scheduler put them. The runtime hides the pinning
//! from the program.

#![allow(unsafe_code, reason = "which processor to run on is the system's to say")]

use libc::{cpu_set_t, pid_t};

/// Every this many runs, one is not pinned.
const RUNS_PINNED: u32 = 64;

#[derive(Default)]
pub(crate) struct Pinning {
    /// The processors there are to choose from, while they are pinned.
    usable: Option<cpu_set_t>,
    runs: u32,
}

impl Pinning {
    /// Pins this thread and the program to one processor, or releases them.
    pub(crate) fn set(&mut self, pinned: bool, program: u32) {
        if let Some(usable) = self.usable.take() {
            run_on(&usable, program);
        }
        if pinned {
            // Safety: plain data, of the size given. Machines with more processors than fit do without.
            unsafe {
                let mut usable: cpu_set_t = std::mem::zeroed();
                let known = libc::sched_getaffinity(0, size_of::<cpu_set_t>(), &raw mut usable) == 0;
                self.usable = (known && libc::CPU_COUNT(&usable) > 1).then_some(usable);
            }
            self.runs = 0;
        }
    }

    pub(crate) fn before_run(&self, program: u32) {
        if let Some(usable) = self.usable.filter(|_| self.is_free()) {
            run_on(&usable, program);
        }
    }

    pub(crate) fn after_run(&mut self, program: u32) {
        if self.usable.is_some() && self.is_free() {
            // Safety: plain data; a number that does not fit is not set.
            unsafe {
                let mut here: cpu_set_t = std::mem::zeroed();
                if let Ok(number @ 0..1024) = usize::try_from(libc::sched_getcpu()) {
                    libc::CPU_SET(number, &mut here);
                    run_on(&here, program);
                }
            }
        }
        self.runs += 1;
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
