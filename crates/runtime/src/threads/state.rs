//! The scheduler of this process.

#![forbid(unsafe_code)]

use super::running;
use super::scheduler::{Scheduler, Thread};
use crate::cell::RunningThreadCell;
use crate::system::give_up;

static SCHEDULER: RunningThreadCell<Option<Scheduler>> = RunningThreadCell::new(None);

/// Called when the child starts, with one thread.
pub(crate) fn begin(scheduler: Scheduler) {
    SCHEDULER.set(Some(scheduler));
}

/// Gives access to the scheduler's state; must not be held across a switch.
#[inline(always)]
pub(crate) fn scheduler<R>(access: impl FnOnce(&mut Scheduler) -> R) -> R {
    SCHEDULER.with(|scheduler| match scheduler {
        Some(scheduler) => access(scheduler),
        None => give_up("threads before main"),
    })
}

/// Gives access to the running thread; must not be held across a switch.
#[inline(always)]
pub(crate) fn current<R>(access: impl FnOnce(&mut Thread) -> R) -> R {
    scheduler(|scheduler| access(scheduler.thread(running::number())))
}
