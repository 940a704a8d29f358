//! Crash states set aside because failing recoveries have already shown what is wrong with them.
//!
//! A program that forgets a flush fails in every state that loses the store; there may be millions, and they hide other
//! bugs. So once recoveries have failed because of one store, exploration continues as if that store persisted at once.
//! The same holds, after far more of them, for recoveries that read something stale but do not fail; corners are few, and
//! continue to lose such a store for longer, because one of them may be where recovery does fail. And once
//! recoveries have waited forever for a value written by one store, such as a lock left locked, no recovery is run from
//! states that still contain it. The report names the stores; `--exhaustive` sets nothing aside.

use std::collections::{BTreeMap, BTreeSet};

use crashproof_protocol::Record;
use px86::{Kind, Line};
use rustc_hash::FxHashMap;

use crate::crash::{Content, CrashState};

/// The number of failing recoveries that confirm a cause.
const CONFIRMED: u32 = 4;
/// The number of recoveries that read something stale due to one missing flush without failing, before the rest are set
/// aside.
const CONFIRMED_STALE: u32 = 256;
/// The same until corners are set aside, too.
const CONFIRMED_STALE_IN_CORNERS: u32 = 4096;
/// The same for endless recoveries, which take long.
const CONFIRMED_ENDLESS: u32 = 2;

/// A store of the recorded run or of a recovery, by site.
pub(crate) type StoreSite = (bool, u32);

/// What is set aside, and why.
#[derive(Clone, Default)]
pub(crate) struct SetAside {
    /// Recoveries that failed, by the store that would have had to persist.
    failed: FxHashMap<StoreSite, u32>,
    /// Recoveries that did not fail, by the store whose loss made them read something stale.
    stale: FxHashMap<StoreSite, u32>,
    /// Stores assumed to persist at once.
    assumed: BTreeSet<StoreSite>,
    /// Those assumed to do so in corners, too.
    assumed_in_corners: BTreeSet<StoreSite>,
    /// Endless recoveries, by the site of the store whose value they waited on.
    waited: BTreeMap<u32, u32>,
    /// Incremented with every change to what is assumed or waited for.
    pub(crate) version: u64,
    /// The number of states not recovered from because recovery would wait forever.
    pub(crate) not_recovered: u64,
}

impl SetAside {
    /// A recovery failed; this store would have had to persist.
    pub(crate) fn failed(&mut self, store: StoreSite, endless: bool) {
        let count = self.failed.entry(store).or_default();
        *count += if endless { CONFIRMED.div_ceil(CONFIRMED_ENDLESS) } else { 1 };
        if *count >= CONFIRMED {
            let new = self.assumed.insert(store) | self.assumed_in_corners.insert(store);
            self.version += u64::from(new);
        }
    }

    /// A recovery read something stale without failing; this store would have had to persist.
    pub(crate) fn stale(&mut self, store: StoreSite) {
        let count = self.stale.entry(store).or_default();
        *count += 1;
        let new = *count >= CONFIRMED_STALE && self.assumed.insert(store)
            || *count >= CONFIRMED_STALE_IN_CORNERS && self.assumed_in_corners.insert(store);
        self.version += u64::from(new);
    }

    /// Have recoveries failed for lack of a store?
    pub(crate) fn has_failed(&self, store: StoreSite) -> bool {
        self.failed.get(&store).is_some_and(|count| *count >= CONFIRMED)
    }

    /// A recovery waited forever on a value written by a store at this site of the recorded run.
    pub(crate) fn waited(&mut self, site: u32) {
        let count = self.waited.entry(site).or_default();
        *count += 1;
        self.version += u64::from(*count == CONFIRMED_ENDLESS);
    }

    /// Is anything set aside?
    pub(crate) fn is_any(&self) -> bool {
        !self.assumed.is_empty() || self.not_recovered > 0
    }

    /// Stores assumed to persist at once.
    pub(crate) fn assumed(&self) -> &BTreeSet<StoreSite> {
        &self.assumed
    }

    /// The sites of stores whose values recoveries wait on forever.
    pub(crate) fn waits(&self) -> impl Iterator<Item = u32> {
        self.waited.iter().filter(|(_, count)| **count >= CONFIRMED_ENDLESS).map(|(site, _)| *site)
    }
}

/// A worker's view of what is set aside.
#[derive(Default)]
pub(crate) struct View {
    version: u64,
    assumed: BTreeSet<StoreSite>,
    assumed_in_corners: BTreeSet<StoreSite>,
    /// Are corners being tried?
    in_corners: bool,
    waits: BTreeSet<u32>,
    /// Where stores of those sites were the last: address, width and value.
    pub(crate) held: BTreeMap<u64, (u8, u64)>,
    /// How much of the recorded run `held` covers.
    at: usize,
}

impl View {
    /// Updates the view with other workers' findings and with the progress of the recorded run.
    pub(crate) fn update(&mut self, search: impl FnOnce() -> Option<SetAside>, records: &[Record]) {
        if let Some(now) = search() {
            self.version = now.version;
            self.assumed.clone_from(now.assumed());
            self.assumed_in_corners.clone_from(&now.assumed_in_corners);
            let waits: BTreeSet<u32> = now.waits().collect();
            if waits != self.waits {
                (self.waits, self.at) = (waits, 0);
                self.held.clear();
            }
        }
        if self.waits.is_empty() {
            return;
        }
        // The run is being traversed once more.
        if records.len() < self.at {
            self.at = 0;
            self.held.clear();
        }
        for record in records.get(self.at..).unwrap_or_default() {
            if record.event_kind().is_some_and(Kind::stores) {
                if self.waits.contains(&record.site) {
                    self.held.insert(record.address(), (record.width(), record.value));
                } else {
                    self.held.remove(&record.address());
                }
            }
        }
        self.at = records.len();
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// From here on corners are tried, or all states.
    pub(crate) fn tries_corners(&mut self, corners: bool) {
        self.in_corners = corners;
    }

    /// What is assumed for the states that are tried.
    fn assumed(&self) -> &BTreeSet<StoreSite> {
        if self.in_corners { &self.assumed_in_corners } else { &self.assumed }
    }

    /// The stores of the recorded run assumed to persist at once, by site.
    pub(crate) fn assumed_of_run(&self) -> BTreeSet<u32> {
        self.assumed().iter().filter(|(recovery, _)| !recovery).map(|(_, site)| *site).collect()
    }

    pub(crate) fn assumes_anything(&self) -> bool {
        !self.assumed().is_empty()
    }

    /// Retains only contents in which the stores assumed to persist survive.
    pub(crate) fn retain(&self, state: &CrashState, line: Line, contents: &mut Vec<Content>) {
        for (level, timeline) in state.timelines().enumerate() {
            let stores = timeline.each_store(line).enumerate();
            let assumed =
                stores.filter(|(_, store)| self.assumed().contains(&(level > 0, store.event.site.0)));
            let Some(least) = assumed.last().map(|(index, _)| index as u32 + 1) else { continue };
            // Contents revealed before the assumption was made may contradict it.
            if contents.iter().any(|content| content.kept[level] >= least) {
                contents.retain(|content| content.kept[level] >= least);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corners_lose_a_store_that_is_only_stale_for_longer() {
        let (stale, fails) = ((false, 1), (false, 2));
        let mut all = SetAside::default();
        (0..CONFIRMED_STALE).for_each(|_| all.stale(stale));
        (0..CONFIRMED).for_each(|_| all.failed(fails, false));
        let mut view = View::default();
        let mut version = 0;
        let mut seen = |all: &SetAside, corners: bool| {
            assert!(all.version > version || corners, "workers pick it up");
            version = all.version;
            view.tries_corners(corners);
            view.update(|| Some(all.clone()), &[]);
            view.assumed_of_run().into_iter().collect::<Vec<_>>()
        };
        assert_eq!(seen(&all, false), [1, 2]);
        assert_eq!(seen(&all, true), [2]);
        (CONFIRMED_STALE..CONFIRMED_STALE_IN_CORNERS).for_each(|_| all.stale(stale));
        assert_eq!(seen(&all, false), [1, 2]);
        assert_eq!(seen(&all, true), [1, 2]);
        // What was only stale may fail later.
        (0..CONFIRMED_STALE).for_each(|_| all.stale((true, 3)));
        assert!(!all.assumed_in_corners.contains(&(true, 3)));
        (0..CONFIRMED).for_each(|_| all.failed((true, 3), false));
        assert!(all.assumed_in_corners.contains(&(true, 3)));
    }
}
