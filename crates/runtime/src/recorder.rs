//! Records what the running thread does.

use crashproof_protocol::abi::Site;
use crashproof_protocol::{Record, mode, record};
use px86::Kind;

use crate::cell::RunningThreadCell;
use crate::processes;
use crate::session::{append, current_mode, recording};
use crate::sites;
use crate::threads::running;

/// An event of the model.
#[inline(always)]
pub(crate) fn record(kind: Kind, address: u64, width: u8, value: u64, site: *const Site) {
    append(Record::new(kind as u8, address, width, value, running::number(), sites::number(site)));
}

/// A record that is not an event of the model.
pub(crate) fn note(kind: u8, address: u64, value: u64, site: *const Site) {
    if recording() {
        let _turn = processes::hold();
        append(Record::new(kind, address, 0, value, running::number(), sites::number(site)));
    }
}

/// Records something that is not followed, so the verdict will be UNKNOWN. See [`crashproof_protocol::reason`].
pub(crate) fn unknown(reason: u64, site: *const Site) {
    note(record::UNKNOWN, 0, reason, site);
}

/// Open strands and epochs of all threads.
static OPEN_REGIONS: RunningThreadCell<u32> = RunningThreadCell::new(0);

/// Does the checker ask for strands and epochs?
#[inline(always)]
pub(crate) fn regions_are_wanted() -> bool {
    current_mode() == mode::RECORD_REGIONS
}

/// A strand or an epoch begins.
pub(crate) fn region_begins() {
    OPEN_REGIONS.with(|open| *open += 1);
}

/// A strand or an epoch ends.
pub(crate) fn region_ends() {
    OPEN_REGIONS.with(|open| *open = open.saturating_sub(1));
}

/// Records a read in a recorded run, which matters within strands and epochs. With several threads, reads are recorded
/// anyway.
#[inline(never)]
pub(crate) fn read_in_region(address: u64, width: u64, value: u64, site: *const Site) {
    if OPEN_REGIONS.get() > 0 {
        record(Kind::Load, address, width as u8, value, site);
    }
}
