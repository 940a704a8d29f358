//! Ends of recovery that were reported already, by their place in the tree of first reads: the same end after another crash
//! is counted, and not reported again.

use rustc_hash::FxHashSet;

use crate::search::tree::Place;

/// Where recovery was seen to end after a crash, and was reported.
#[derive(Default)]
pub(crate) struct ReportedEnds {
    places: FxHashSet<Place>,
    /// How often the tree had been trimmed: places are invalid once it has been again.
    drops: u32,
}

impl ReportedEnds {
    /// Adds a place; returns whether it is new. `drops` counts how often the tree was trimmed.
    pub(crate) fn insert(&mut self, at: Place, drops: u32) -> bool {
        if std::mem::replace(&mut self.drops, drops) != drops {
            self.places.clear();
        }
        self.places.insert(at)
    }
}
