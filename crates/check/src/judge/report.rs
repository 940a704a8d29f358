//! The results of a check.

use crashproof_findings::Place;

use crate::judge::failure::FailedRecovery;
use crate::judge::races::DataRace;
use crate::judge::redundant::Redundant;
use crate::judge::strands::Dependence;
use crate::judge::suppress::Suppression;
use crate::judge::violation::Violation;
use crate::search::Statistics;

/// A plain store that recovery may read before it is certainly written back.
#[derive(Clone, Debug)]
pub struct PersistencyRace {
    /// The store.
    pub store: Place,
    /// The load in recovery.
    pub load: Place,
    /// How many recoveries showed it.
    pub count: u64,
}

/// The results of a check.
#[derive(Clone, Debug)]
pub struct Report {
    /// Recoveries that fail, those that need the fewest lost stores first.
    pub findings: Vec<FailedRecovery>,
    /// Strands or epochs that depend on each other.
    pub dependences: Vec<Dependence>,
    /// Missing flushes on which no recovery failed; those without consequences last.
    pub violations: Vec<Violation>,
    /// The suppressions that matched nothing.
    pub unused_suppressions: Vec<Suppression>,
    /// Unordered plain accesses.
    pub races: Vec<DataRace>,
    /// Plain stores that recovery may read before they are certainly written back, if that was requested.
    pub persistency_races: Vec<PersistencyRace>,
    /// Redundant flushes and fences.
    pub redundant: Vec<Redundant>,
    /// Why the check is not complete; empty if it is.
    pub unknown: Vec<String>,
    /// Remarks about what the verdict rests on.
    pub remarks: Vec<String>,
    /// How many crashes in a row were tried.
    pub crashes: usize,
    /// Counts and times.
    pub statistics: Statistics,
}

impl Report {
    /// Adds the results of another check of the same project, each mistake once; the statistics remain those of the
    /// first.
    pub fn merge(&mut self, other: Report) {
        let same = |a: &FailedRecovery, b: &FailedRecovery| {
            let last = |it: &FailedRecovery| it.cause.as_ref().map(|cause| cause.last.clone());
            a.place == b.place && last(a) == last(b)
        };
        for finding in other.findings {
            if !self.findings.iter().any(|known| same(known, &finding)) {
                self.findings.push(finding);
            }
        }
        self.dependences.extend(other.dependences);
        let known: Vec<_> = self.violations.iter().map(|it| (it.place.clone(), it.last.clone())).collect();
        let new = other.violations.into_iter();
        self.violations.extend(new.filter(|it| !known.contains(&(it.place.clone(), it.last.clone()))));
        crate::judge::merge_races(&mut self.races, other.races);
        self.persistency_races.extend(other.persistency_races);
        self.redundant.extend(other.redundant);
        self.unknown.extend(other.unknown);
        self.remarks.extend(other.remarks);
    }
}
