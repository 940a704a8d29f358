//! What orders threads besides persistent memory: locks and the like, and volatile memory that they watch.
//!
//! A missing flush is one before a store that happens later, perhaps in another thread that waited for it. So the
//! trace says when a thread sees what another one did: once per change, since loops look again and again.

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

/// The latest change of each place, and who has seen it.
#[derive(Default)]
struct Changes(HashMap<u64, (u16, Vec<u16>)>);

impl Changes {
    fn changed(&mut self, address: u64, by: u16) {
        self.0.insert(address, (by, Vec::new()));
    }

    /// Is this the first time that a thread sees a change of another's?
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

/// Volatile memory was stored to.
pub(super) fn changed(address: u64, site: *const Site) {
    if recording() {
        note(record::SYNC, 0, sync::value(address, sync::CHANGED), site);
        CHANGES.with(|changes| changes.get_or_insert_default().changed(address, running::number()));
    }
}

/// A store to volatile memory left the buffer of a thread, perhaps of one that does not run now.
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

/// Memory was freed: the thread that gets it next comes after that, as under the allocator's lock.
pub(crate) fn freed(block: u64) {
    handed_on(block, sync::CHANGED);
}

/// A thread got memory that was freed before.
pub(crate) fn reused(block: u64) {
    handed_on(block, sync::SAW);
}

/// Also while one thread is alone again: the block may be from one that has ended and was not joined yet.
fn handed_on(block: u64, what: u64) {
    if recording() && session::control(|control| control.threads > 1) {
        note(record::SYNC, 0, sync::value(block, what), std::ptr::null());
    }
}

/// A thread saw the last change of a lock, or the like, in code that need not have been rebuilt, such as the standard
/// library of Rust.
pub(crate) fn saw_last_change(address: u64) {
    if running::concurrent() {
        note(record::SYNC, 0, sync::value(address, sync::SAW), std::ptr::null());
    }
}

/// A thread took or left a lock, or the like.
pub(crate) fn synchronized(address: u64) {
    synchronized_as(AccessKind::Sync, address);
}

/// A thread did this to a lock, or the like.
pub(crate) fn synchronized_as(kind: AccessKind, address: u64) {
    if exploring() {
        scheduler(|scheduler| decisions::synchronizes(scheduler, kind, address));
    }
    if running::concurrent() || regions_are_wanted() {
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
