//! Inline assembly whose memory operands the plugin announces.
//!
//! What it does to PM is followed as it runs (`follow`): each access faults, and is recorded for what it is. The plugin
//! knows the statement, so an access that faults in between belongs to that place, with or without debug info.

use crashproof_protocol::abi::Site;

use crate::cell::RunningThreadCell;

/// The statement that is running, and how many of its operands were announced; assembly does not nest within a thread.
static RUNNING: RunningThreadCell<(*const Site, u32)> = RunningThreadCell::new((std::ptr::null(), 0));

/// The statement that is running, if one was announced.
pub(crate) fn site() -> Option<*const Site> {
    RUNNING.with(|(site, operands)| (*operands > 0).then_some(*site))
}

/// An operand of assembly that is about to run.
pub(crate) fn before(site: *const Site) {
    RUNNING.with(|running| *running = (site, running.1 + 1));
}

/// It ran.
pub(crate) fn after() {
    RUNNING.with(|running| running.1 = running.1.saturating_sub(1));
}
