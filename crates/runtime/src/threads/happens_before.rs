//! Orders between threads other than through persistent memory: locks and the like, and volatile memory that they poll.
//!
//! A missing flush must precede a store that happens later, perhaps in another thread that waited for the first. So the
//! trace records when a thread sees another's change, once per change, since loops poll repeatedly.

#![forbid(unsafe_code)]

use std::collections::HashMap;

use crashproof_protocol::abi::Site;
use crashproof_protocol::steps::AccessKind;
use crashproof_protocol::{Record, record, sync};

use super::decisions;
use super::running;
use super::state::scheduler;
use super::step_notes::exploring;
use crate::cell::RunningThreadCell;
use crate::processes;
use crate::recorder::{note, regions_are_wanted};
use crate::session::{self, append, recording};

/// The latest change per address, and the threads that have seen it.
#[derive(Default)]
struct Changes(HashMap<u64, (u16, Vec<u16>)>);

impl Changes {
    fn changed(&mut self, address: u64, by: u16) {
        self.0.insert(address, (by, Vec::new()));
    }

    /// Is this the first time that a thread sees another's change?
    fn saw(&mut self, address: u64, thread: u16) -> bool {
        match self.0.get_mut(&address) {
            Some((by, seen)) if *by != thread && !seen.contains(&thread) => {
                seen.push(thread);
                true
            }
            _ => false,
        }
    }
}

static CHANGES: RunningThreadCell<Option<Changes>> = RunningThreadCell::new(None);

/// A volatile store took effect.
pub(super) fn changed(address: u64, site: *const Site) {
    if recording() {
        note(record::SYNC, 0, sync::value(address, sync::CHANGED), site);
        CHANGES.with(|changes| changes.get_or_insert_default().changed(address, running::number()));
    }
}

/// A volatile store left the buffer of a thread, which may not be running.
pub(super) fn changed_by(address: u64, thread: u16, site: u32) {
    if recording() {
        let _turn = processes::hold();
        append(Record::new(record::SYNC, 0, 0, sync::value(address, sync::CHANGED), thread, site));
        CHANGES.with(|changes| changes.get_or_insert_default().changed(address, thread));
    }
}

/// Volatile memory was read.
pub(super) fn saw(address: u64, site: *const Site) {
    if recording() && CHANGES.with(|changes| changes.get_or_insert_default().saw(address, running::number()))
    {
        note(record::SYNC, 0, sync::value(address, sync::SAW), site);
    }
}

/// Memory was freed: the thread that allocates it next is ordered after that, as under the allocator's lock.
pub(crate) fn freed(block: u64) {
    handed_on(block, sync::CHANGED);
}

/// A thread allocated memory that had been freed.
pub(crate) fn reused(block: u64) {
    handed_on(block, sync::SAW);
}

/// Recorded even if one thread is alone again: the block may come from one that has ended but was not joined yet.
fn handed_on(block: u64, what: u64) {
    if recording() && session::control(|control| control.threads > 1) {
        note(record::SYNC, 0, sync::value(block, what), std::ptr::null());
    }
}

/// A thread saw the last change of a lock or the like, in code that may not have been rebuilt, such as Rust's standard
/// library.
pub(crate) fn saw_last_change(address: u64) {
    if running::concurrent() {
        note(record::SYNC, 0, sync::value(address, sync::SAW), std::ptr::null());
    }
}

/// A thread acquired or released a lock or the like.
pub(crate) fn synchronized(address: u64) {
    synchronized_as(AccessKind::Sync, address);
}

/// A thread performed this operation on a lock or the like.
pub(crate) fn synchronized_as(kind: AccessKind, address: u64) {
    if exploring() {
        scheduler(|scheduler| decisions::synchronizes(scheduler, kind, address));
    }
    // Also if one thread is alone again: a detached one that has ended may be ordered before it by this alone.
    let had_others = || session::control(|control| control.threads > 1);
    if running::concurrent() || regions_are_wanted() || recording() && had_others() {
        note(record::SYNC, 0, sync::value(address, sync::SAW | sync::CHANGED), std::ptr::null());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_once_per_thread() {
        let mut changes = Changes::default();
        changes.changed(8, 1);
        assert!(!changes.saw(8, 1), "its own");
        assert!(changes.saw(8, 2));
        assert!(!changes.saw(8, 2));
        assert!(changes.saw(8, 3));
        assert!(!changes.saw(16, 2), "nobody changed that");
        changes.changed(8, 2);
        assert!(changes.saw(8, 1));
    }
}
