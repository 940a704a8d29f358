//! What a program declares about its own accesses: loads verified by a checksum, tolerated ordering, strands and
//! epochs.
//!
//! Markers are always recorded. Reads between the markers of strands and epochs, and thread synchronization, are
//! recorded only if the checker asks for them (`check --model`).

use std::ptr::null;

use crashproof_protocol::abi::Site;
use crashproof_protocol::record;

use crate::interpose::provide;
use crate::recorder::{note, region_begins, region_ends, regions_are_wanted};
use crate::shadow::{bracket_begins, bracket_ends};
use crate::threads::{buffers, running};

/// A checksum will verify the loads that follow.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn crashproof_checksum_begin() {
    note(record::CHECKSUM_BEGIN, 0, 0, null());
    bracket_begins();
}

/// The checksum has been compared: did it match?
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn crashproof_checksum_end(matched: i32) {
    note(record::CHECKSUM_END, u64::from(matched != 0), 0, null());
    bracket_ends(matched != 0);
}

/// The loads and stores that follow may observe an order that only the caches produce.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn crashproof_tolerate_begin() {
    note(record::TOLERATE_BEGIN, 0, 0, null());
    bracket_begins();
}

/// Ends [`crashproof_tolerate_begin`].
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn crashproof_tolerate_end() {
    note(record::TOLERATE_END, 0, 0, null());
    bracket_ends(false);
}

/// Records a marker. The checker works out from the trace what lies between two markers, so this thread's earlier
/// stores must take effect first. Unless the checker asked for it, a marker changes nothing.
fn mark(kind: u8, site: *const Site) {
    if regions_are_wanted() && running::concurrent() {
        buffers::drain(running::number());
    }
    note(kind, 0, 0, site);
}

provide! {
    fn crashproof_strand_begin(), caller(rdi)
    |site| { region_begins(); mark(record::STRAND_BEGIN, site); }

    fn crashproof_strand_end(), caller(rdi)
    |site| { region_ends(); mark(record::STRAND_END, site); }

    fn crashproof_strand_join(), caller(rdi)
    |site| { mark(record::STRAND_JOIN, site); }

    fn crashproof_epoch_begin(), caller(rdi)
    |site| { region_begins(); mark(record::EPOCH_BEGIN, site); }

    fn crashproof_epoch_end(), caller(rdi)
    |site| { region_ends(); mark(record::EPOCH_END, site); }
}
