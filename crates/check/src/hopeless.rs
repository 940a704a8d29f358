//! Crashes after which recovery fails even if nothing is lost.
//!
//! A program that is crashed while it creates its pool often cannot open what it left. From the first such crash
//! to the last it is not set up yet, and fails in the same way whatever is lost. That is one finding, not one for
//! each store that might be lost: the crash that loses nothing says it all. The next crash after the last such one
//! belongs to it, too: what it may lose is what completes the pool, and then things are as they were before.

use std::collections::{BTreeMap, BTreeSet};

use crate::failure::{Failure, Finding};
use crate::found::{Key, Met};

/// What is known about such crashes.
#[derive(Default)]
pub(crate) struct Hopeless {
    /// By how recovery fails and what it says: the last such crash, and a finding that tells of one.
    stretches: BTreeMap<(String, String), (usize, Key)>,
    /// The last crash at which a finding was met.
    latest: BTreeMap<Key, usize>,
    /// All crashes of the recorded run.
    crashes: BTreeSet<usize>,
}

fn kind(failure: &Failure, output: &str) -> (String, String) {
    (format!("{failure:?}"), output.to_owned())
}

impl Hopeless {
    /// The recorded run is crashed here.
    pub(crate) fn crashed(&mut self, at: usize) {
        self.crashes.insert(at);
    }

    /// A finding was met at a crash; `lost` stores were lost.
    pub(crate) fn met(&mut self, at: usize, lost: usize, failure: &Failure, output: &str, key: &Key) {
        let latest = self.latest.entry(key.clone()).or_default();
        *latest = at.max(*latest);
        // Those that say nothing cannot be told apart.
        if lost == 0 && !output.is_empty() {
            let stretch = self.stretches.entry(kind(failure, output)).or_insert((at, key.clone()));
            stretch.0 = at.max(stretch.0);
        }
    }

    /// Puts the findings of a stretch together.
    pub(crate) fn merge(&self, findings: &mut BTreeMap<Key, Met>) {
        let within = |key: &Key, finding: &Finding| {
            let stretch = self.stretches.get(&kind(&finding.failure, &finding.output))?;
            let (last, whole) = stretch;
            let end = self.crashes.range(last + 1..).next().unwrap_or(last);
            (finding.crashes == 1 && key != whole && self.latest.get(key)? <= end).then(|| whole.clone())
        };
        let merged: Vec<(Key, Key)> = findings
            .iter()
            .filter_map(|(key, met)| Some((key.clone(), within(key, &met.finding)?)))
            .filter(|(_, whole)| findings.contains_key(whole))
            .collect();
        for (key, whole) in merged {
            let part = findings.remove(&key).map_or(0, |met| met.finding.count);
            if let Some(met) = findings.get_mut(&whole) {
                met.finding.count += part;
            }
        }
    }
}
