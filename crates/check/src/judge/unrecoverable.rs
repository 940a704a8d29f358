//! Unrecoverable stretches of a run: crashes after which recovery fails even if nothing is lost.
//!
//! A program that crashes while creating its pool often cannot open what it left. From the first such crash to the
//! last, the pool is not set up, and recovery fails in the same way no matter what is lost. That is one finding, not
//! one per store that might be lost: the crash that loses nothing says it all. The crash point after the last such one
//! belongs to it, too: it may lose the stores that complete the pool, which leaves memory as before.

use std::collections::{BTreeMap, BTreeSet};

use crate::judge::failure::{FailedRecovery, Key};

/// Such crashes of one recorded run.
#[derive(Default)]
pub(crate) struct Unrecoverable {
    /// By how recovery fails and what it prints.
    stretches: BTreeMap<(String, String), Stretch>,
    /// The last crash at which each finding was met.
    latest: BTreeMap<Key, usize>,
    /// Findings of earlier runs, which this run did not cause.
    before: BTreeSet<Key>,
}

/// From the first to the last crash after which recovery fails in one way no matter what is lost.
struct Stretch {
    last: usize,
    /// The crash after the last one, or the last one itself if there is none.
    next: usize,
    /// The finding that represents all of them.
    whole: Key,
}

impl Unrecoverable {
    /// A new run begins.
    pub(crate) fn begin(&mut self, findings: &BTreeMap<Key, FailedRecovery>) {
        *self = Unrecoverable { before: findings.keys().cloned().collect(), ..Unrecoverable::default() };
    }

    /// A finding was met at a crash that lost `lost` stores. Does recovery fail no matter what is lost?
    pub(crate) fn met(&mut self, at: usize, lost: usize, output: &str, key: &Key) -> bool {
        let latest = self.latest.entry(key.clone()).or_default();
        *latest = at.max(*latest);
        // Failures without output cannot be distinguished.
        if lost > 0 || output.is_empty() {
            return false;
        }
        let stretch = self.stretches.entry((key.0.clone(), output.to_owned()));
        let stretch = stretch.or_insert(Stretch { last: at, next: at, whole: key.clone() });
        if at > stretch.last {
            (stretch.last, stretch.next) = (at, at);
        }
        true
    }

    /// The crash point that follows the one at `at` is at `next`.
    pub(crate) fn followed(&mut self, at: usize, next: usize) {
        for stretch in self.stretches.values_mut().filter(|stretch| stretch.last == at) {
            stretch.next = next;
        }
    }

    /// Merges the findings of a stretch into one.
    pub(crate) fn merge(&self, findings: &mut BTreeMap<Key, FailedRecovery>) {
        let within = |key: &Key, met: &FailedRecovery| {
            let stretch = self.stretches.get(&(key.0.clone(), met.output.clone()))?;
            let part = met.crashes == 1
                && *key != stretch.whole
                && !self.before.contains(key)
                && *self.latest.get(key)? <= stretch.next;
            part.then(|| stretch.whole.clone())
        };
        let merged: Vec<(Key, Key)> = findings
            .iter()
            .filter_map(|(key, met)| Some((key.clone(), within(key, met)?)))
            .filter(|(_, whole)| findings.contains_key(whole))
            .collect();
        for (key, whole) in merged {
            let part = findings.remove(&key).map_or(0, |met| met.count);
            if let Some(met) = findings.get_mut(&whole) {
                met.count += part;
            }
        }
    }
}
