//! Records where `patches` moved instructions.

use super::instruction::LONGEST;
use crate::cell::RunningThreadCell;

/// The most instructions that move together.
pub(crate) const MOST: usize = 6;
const ZONES: usize = 16;

/// Memory close to a module for its patches.
#[derive(Clone, Copy)]
pub(crate) struct Zone {
    /// Where the module begins.
    pub(crate) module: usize,
    pub(crate) begin: usize,
    pub(crate) used: usize,
    /// One bit per byte of the module: is it a jump target?
    pub(crate) targets: usize,
}

/// Header of a patch; patches follow each other in the zone.
#[repr(C, align(64))]
pub(crate) struct Head {
    /// Size of the whole patch.
    pub(crate) bytes: usize,
    pub(crate) count: usize,
    /// Old and new addresses of the instructions.
    pub(crate) moved: [(usize, usize); MOST],
    /// The original bytes, and how many of them.
    pub(crate) original: [u8; MOST * LONGEST],
    pub(crate) replaced: usize,
    /// The two functions that code in the zone calls.
    pub(crate) ask: usize,
    pub(crate) tell: usize,
}

struct Zones {
    zones: [Zone; ZONES],
    count: usize,
}

static ZONES_IN_USE: RunningThreadCell<Zones> = RunningThreadCell::new(Zones {
    zones: [Zone { module: 0, begin: 0, used: 0, targets: 0 }; ZONES],
    count: 0,
});

/// The zone of the module that begins at this address.
pub(crate) fn zone(module: usize) -> Option<Zone> {
    ZONES_IN_USE.with(|all| all.zones[..all.count].iter().find(|zone| zone.module == module).copied())
}

/// Adds a zone, if there is room.
pub(crate) fn add_zone(zone: Zone) -> bool {
    ZONES_IN_USE.with(|all| {
        let count = all.count;
        let Some(slot) = all.zones.get_mut(count) else { return false };
        *slot = zone;
        all.count += 1;
        true
    })
}

/// Updates how much of a zone is in use.
pub(crate) fn set_used(begin: usize, used: usize) {
    ZONES_IN_USE.with(|all| {
        if let Some(zone) = all.zones[..all.count].iter_mut().find(|zone| zone.begin == begin) {
            zone.used = used;
        }
    });
}

/// Calls `find` with each patch of a zone and its address, until it returns something.
fn in_patches<R>(zone: &Zone, mut find: impl FnMut(usize, &Head) -> Option<R>) -> Option<R> {
    let mut patch = zone.begin;
    while patch < zone.begin + zone.used {
        // SAFETY: patches follow each other up to there.
        let head = unsafe { &*(patch as *const Head) };
        if let Some(found) = find(patch, head) {
            return Some(found);
        }
        patch += head.bytes;
    }
    None
}

/// The original address of an instruction; the address itself if the instruction was not moved.
pub(crate) fn original(at: usize) -> usize {
    let zone = ZONES_IN_USE.with(|all| {
        all.zones[..all.count].iter().find(|zone| (zone.begin..zone.begin + zone.used).contains(&at)).copied()
    });
    let found = zone.and_then(|zone| {
        in_patches(&zone, |begin, head| {
            (begin..begin + head.bytes).contains(&at).then(|| {
                let moved = head.moved[..head.count].iter().rev().find(|(_, there)| *there <= at);
                moved.map_or(at, |(here, _)| *here)
            })
        })
    });
    found.unwrap_or(at)
}

/// The new address of the instruction that was at this address.
pub(crate) fn from(at: usize) -> Option<usize> {
    let (zones, count) = ZONES_IN_USE.with(|all| (all.zones, all.count));
    zones[..count].iter().find_map(|zone| {
        in_patches(zone, |_, head| {
            head.moved[..head.count].iter().find(|(here, _)| *here == at).map(|(_, there)| *there)
        })
    })
}

/// Calls `each` with what every patch replaced: where that was, and what.
pub(crate) fn each_replaced(mut each: impl FnMut(usize, &[u8])) {
    let (zones, count) = ZONES_IN_USE.with(|all| (all.zones, all.count));
    for zone in &zones[..count] {
        in_patches(zone, |_, head| {
            each(head.moved[0].0, &head.original[..head.replaced]);
            None::<()>
        });
    }
}

/// Was the instruction at this address moved?
pub(crate) fn is_moved(at: usize) -> bool {
    from(at).is_some()
}
