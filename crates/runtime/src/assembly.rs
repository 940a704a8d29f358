//! Inline assembly whose memory operands the plugin announces.
//!
//! Accesses to PM are followed as the assembly runs (`follow`): each faults and is recorded for what it is. The plugin
//! knows the statement, so a fault in between is attributed to that site, with or without debug info.

use crashproof_protocol::abi::Site;

use crate::cell::RunningThreadCell;

/// The running statement and the number of operands announced for it. Assembly does not nest within a thread.
static RUNNING: RunningThreadCell<(*const Site, u32)> = RunningThreadCell::new((std::ptr::null(), 0));

/// The running statement, if one was announced.
pub(crate) fn site() -> Option<*const Site> {
    RUNNING.with(|(site, operands)| (*operands > 0).then_some(*site))
}

/// Announces an operand of the assembly that is about to run.
pub(crate) fn before(site: *const Site) {
    RUNNING.with(|running| *running = (site, running.1 + 1));
}

/// The assembly has run.
pub(crate) fn after() {
    RUNNING.with(|running| running.1 = running.1.saturating_sub(1));
}
