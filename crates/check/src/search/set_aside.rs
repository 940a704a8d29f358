//! Crash states that are set aside because failing recoveries have already shown what is wrong with them.
//!
//! A program that forgets a flush fails in every state that loses the store; there may be millions, and they hide what
//! else is wrong. So once recoveries have failed for one store, exploration goes on as if that store persisted at once. The
//! same holds, after far more of them, for recoveries that read something stale and do not fail.
//! And once recoveries have waited forever for what one store wrote, such as a lock that was left locked, states in which
//! that is still there are not recovered from. The report names the stores; `--exhaustive` sets nothing aside.

use std::collections::{BTreeMap, BTreeSet};

use crashproof_protocol::Record;
use px86::{Kind, Line};
use rustc_hash::FxHashMap;

use crate::crash::{Content, CrashState};

/// Failing recoveries that confirm one cause.
const CONFIRMED: u32 = 4;
/// Recoveries that read something stale for want of one flush and went on, before the rest of them is set aside.
const CONFIRMED_STALE: u32 = 256;
/// The same for recoveries that do not end, each of which takes long.
const CONFIRMED_ENDLESS: u32 = 2;

/// A store: of the recorded run, or of a recovery, and its site.
pub(crate) type StoreSite = (bool, u32);

/// What is set aside, and why.
#[derive(Clone, Default)]
pub(crate) struct SetAside {
    /// Recoveries that failed, by the store that would have had to persist.
    failed: FxHashMap<StoreSite, u32>,
    /// Recoveries that did not fail, by the store without which they read something stale.
    stale: FxHashMap<StoreSite, u32>,
    /// Stores that are taken to persist at once.
    assumed: BTreeSet<StoreSite>,
    /// Recoveries that never ended, by the site of the store whose value they waited to change.
    waited: BTreeMap<u32, u32>,
    /// Goes on with every change of what is assumed or waited for.
    pub(crate) version: u64,
    /// States that were not recovered from since recovery would wait forever.
    pub(crate) not_recovered: u64,
}

impl SetAside {
    /// A recovery failed; this store would have had to persist.
    pub(crate) fn failed(&mut self, store: StoreSite, endless: bool) {
        let count = self.failed.entry(store).or_default();
        *count += if endless { CONFIRMED.div_ceil(CONFIRMED_ENDLESS) } else { 1 };
        if *count >= CONFIRMED && self.assumed.insert(store) {
            self.version += 1;
        }
    }

    /// A recovery read something stale, and did not fail; this store would have had to persist.
    pub(crate) fn stale(&mut self, store: StoreSite) {
        let count = self.stale.entry(store).or_default();
        *count += 1;
        if *count >= CONFIRMED_STALE && self.assumed.insert(store) {
            self.version += 1;
        }
    }

    /// Have recoveries failed without a store?
    pub(crate) fn has_failed(&self, store: StoreSite) -> bool {
        self.failed.get(&store).is_some_and(|count| *count >= CONFIRMED)
    }

    /// A recovery waited forever for what a store at this site of the recorded run wrote.
    pub(crate) fn waited(&mut self, site: u32) {
        let count = self.waited.entry(site).or_default();
        *count += 1;
        self.version += u64::from(*count == CONFIRMED_ENDLESS);
    }

    /// Is anything set aside?
    pub(crate) fn is_any(&self) -> bool {
        !self.assumed.is_empty() || self.not_recovered > 0
    }

    /// Stores that are taken to persist at once.
    pub(crate) fn assumed(&self) -> &BTreeSet<StoreSite> {
        &self.assumed
    }

    /// The sites of stores whose values recoveries wait forever to change.
    pub(crate) fn waits(&self) -> impl Iterator<Item = u32> {
        self.waited.iter().filter(|(_, count)| **count >= CONFIRMED_ENDLESS).map(|(site, _)| *site)
    }
}

/// A worker's view of what is set aside.
#[derive(Default)]
pub(crate) struct View {
    version: u64,
    assumed: BTreeSet<StoreSite>,
    waits: BTreeSet<u32>,
    /// Where stores of those sites were the last: address, width and value.
    pub(crate) held: BTreeMap<u64, (u8, u64)>,
    /// How much of the recorded run `held` takes into account.
    at: usize,
}

impl View {
    /// Takes in what others have found out, and how far the recorded run has come.
    pub(crate) fn update(&mut self, search: impl FnOnce() -> Option<SetAside>, records: &[Record]) {
        if let Some(now) = search() {
            self.version = now.version;
            self.assumed.clone_from(now.assumed());
            let waits: BTreeSet<u32> = now.waits().collect();
            if waits != self.waits {
                (self.waits, self.at) = (waits, 0);
                self.held.clear();
            }
        }
        if self.waits.is_empty() {
            return;
        }
        // The run is gone through once more.
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

    /// The stores of the recorded run that are taken to persist at once, by site.
    pub(crate) fn assumed_of_run(&self) -> BTreeSet<u32> {
        self.assumed.iter().filter(|(recovery, _)| !recovery).map(|(_, site)| *site).collect()
    }

    pub(crate) fn assumes_anything(&self) -> bool {
        !self.assumed.is_empty()
    }

    /// Leaves only contents in which the stores survive that are taken to persist at once.
    pub(crate) fn retain(&self, state: &CrashState, line: Line, contents: &mut Vec<Content>) {
        for (level, timeline) in state.timelines().enumerate() {
            let stores = timeline.each_store(line).enumerate();
            let assumed = stores.filter(|(_, store)| self.assumed.contains(&(level > 0, store.event.site.0)));
            let Some(least) = assumed.last().map(|(index, _)| index as u32 + 1) else { continue };
            // What was revealed before the assumption was made may contradict it.
            if contents.iter().any(|content| content.kept[level] >= least) {
                contents.retain(|content| content.kept[level] >= least);
            }
        }
    }
}
