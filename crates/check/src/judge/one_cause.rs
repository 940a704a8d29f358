//! Failures that show one mistake from several sides become one finding.
//!
//! A pair of stores that must change together fails in two ways: the first without the second, and the second without the
//! first. What is stored after its commit fails when the crash comes before the store, and when it comes before the flush.
//! A lock that is held when the power fails keeps recovery waiting wherever it was taken.
//! The author has one thing to change, so the report has one finding; the others are counted in it.

use crate::judge::access::Access;
use crate::judge::cause::Cause;
use crate::judge::failure::FailedRecovery;

/// Joins the failures of one cause: each that another one explains is counted there and left out.
pub(crate) fn join(failures: Vec<FailedRecovery>) -> Vec<FailedRecovery> {
    let explained_by = |index: usize| {
        failures.iter().enumerate().position(|(other, explains)| {
            other != index && fails_alike(&failures[index], explains) && explains.explains(&failures[index])
        })
    };
    let explained: Vec<Option<usize>> = (0..failures.len()).map(explained_by).collect();
    let mut joined: Vec<Option<FailedRecovery>> = failures.into_iter().map(Some).collect();
    for (index, by) in explained.iter().enumerate() {
        let Some(by) = by.filter(|&by| joined[by].is_some()) else { continue };
        let count = joined[index].take().map_or(0, |gone| gone.count);
        if let Some(explains) = &mut joined[by] {
            explains.count += count;
        }
    }
    joined.into_iter().flatten().collect()
}

fn fails_alike(one: &FailedRecovery, other: &FailedRecovery) -> bool {
    one.crashes == other.crashes
        && one.failure.kind(&one.output) == other.failure.kind(&other.output)
        && one.volatile.is_none()
        && other.volatile.is_none()
}

fn same(one: Option<&Access>, other: Option<&Access>) -> bool {
    one.zip(other).is_some_and(|(one, other)| (one.level, one.site) == (other.level, other.site))
}

impl FailedRecovery {
    /// Is `other` what this one tells, seen from the other side?
    fn explains(&self, other: &FailedRecovery) -> bool {
        let (mine, its) = (&self.facts, &other.facts);
        match mine.cause {
            // The first store survives without the second; if the second without the first fails as well, no order of
            // flushes helps.
            Cause::Torn { one_access: false } => {
                its.cause != mine.cause
                    && same(mine.lost.first(), its.survived.as_ref())
                    && same(mine.survived.as_ref(), its.lost.first())
            }
            Cause::StoredAfterCommit => {
                let its_survivor = its.survived.as_ref();
                // A store that is never flushed is a mistake of its own.
                matches!(its.cause, Cause::Unknown | Cause::Torn { one_access: false })
                    && its.flushed
                    && its.lost.len() == 1
                    && same(mine.not_yet.as_ref(), its.lost.first())
                    && (its_survivor.is_none() || same(mine.survived.as_ref(), its_survivor))
            }
            // Wherever it was taken, and whether the crash came before it was given back or took that away.
            Cause::LockHeld { taken: ref mine_taken, .. } => match &its.cause {
                Cause::LockHeld { taken, .. } => {
                    let order = |it: &FailedRecovery| (it.lost, it.rank(), it.facts.key());
                    mine_taken.address == taken.address && order(self) < order(other)
                }
                _ => false,
            },
            _ => false,
        }
    }
}
