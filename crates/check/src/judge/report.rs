//! What a check comes to.

use crate::judge::failure::FailedRecovery;
use crate::judge::redundant::Redundant;
use crate::judge::strands::Dependence;
use crate::judge::suppress::Suppression;
use crate::judge::violation::Violation;
use crate::search::Statistics;

/// What came of a check.
#[derive(Clone, Debug)]
pub struct Report {
    /// Recoveries that fail, those that need the fewest lost stores first.
    pub findings: Vec<FailedRecovery>,
    /// Strands or epochs that depend on each other.
    pub dependences: Vec<Dependence>,
    /// Missing flushes that no recovery failed on; those without consequence last.
    pub violations: Vec<Violation>,
    /// The suppressions that suppressed nothing.
    pub unused_suppressions: Vec<Suppression>,
    /// Redundant flushes and fences.
    pub redundant: Vec<Redundant>,
    /// Why the check is not complete; empty if it is.
    pub unknown: Vec<String>,
    /// What else the verdict rests on.
    pub remarks: Vec<String>,
    /// How many crashes in a row were tried.
    pub crashes: usize,
    /// Figures.
    pub statistics: Statistics,
}

impl Report {
    /// How many findings are errors: failures, regions that depend on each other, and every missing flush that
    /// something can come of.
    pub fn errors(&self) -> usize {
        let missing = self.violations.iter().filter(|violation| !violation.same_value).count();
        self.findings.len() + self.dependences.len() + missing
    }
}
