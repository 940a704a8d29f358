//! What orders threads besides persistent memory: locks and the like, and volatile memory that they watch.
//!
//! A missing flush is one before a store that happens later, perhaps in another thread that waited for it. So the
//! trace tells when a thread sees what another one did: once for each change, since loops look again and again.

use std::collections::HashMap;

use crashproof_protocol::abi::Site;
use crashproof_protocol::{record, sync};

use super::scheduler::{CONCURRENT, CURRENT};
use crate::access;

/// The last change of a place.
struct Change {
    by: u16,
    /// Who has seen it.
    seen: Vec<u16>,
}

static mut CHANGES: Option<HashMap<u64, Change>> = None;

#[allow(static_mut_refs, reason = "one thread runs at a time")]
unsafe fn changes() -> &'static mut HashMap<u64, Change> {
    CHANGES.get_or_insert_default()
}

/// Volatile memory was stored to.
pub(super) unsafe fn changed(address: u64, site: *const Site) {
    if access::recording() {
        access::note(record::SYNC, 0, sync::value(address, sync::CHANGED), site);
        changes().insert(address, Change { by: CURRENT, seen: Vec::new() });
    }
}

/// Volatile memory was read.
pub(super) unsafe fn saw(address: u64, site: *const Site) {
    if !access::recording() {
        return;
    }
    if let Some(change) = changes().get_mut(&address)
        && change.by != CURRENT
        && !change.seen.contains(&CURRENT)
    {
        change.seen.push(CURRENT);
        access::note(record::SYNC, 0, sync::value(address, sync::SAW), site);
    }
}

/// A thread took or left a lock, or the like.
pub(crate) unsafe fn synchronised(address: u64) {
    if CONCURRENT || crate::regions::are_wanted() {
        access::note(record::SYNC, 0, sync::value(address, sync::SAW | sync::CHANGED), std::ptr::null());
    }
}
