//! Merges failures that show one mistake from several sides into one finding.
//!
//! Two stores that must change together fail in two ways: the first without the second, and the second without the
//! first. Data stored after its commit fails if the crash precedes the store, and if it precedes the flush. A lock held
//! at the crash blocks recovery wherever it was taken. One fence completes all flushes before it, and a copy may be
//! torn at any of its lines. Each is a single change for the author, so the report has one finding, which counts the
//! others.

use px86::Line;

use crate::judge::access::Access;
use crate::judge::cause::{Cause, Instruction};
use crate::judge::facts::Facts;
use crate::judge::failure::FailedRecovery;
use crate::judge::violation::Violation;
use crate::subject::same_place;

/// Merges failures with one cause: each failure that another one explains is counted there and dropped.
pub(crate) fn join(failures: Vec<FailedRecovery>) -> Vec<FailedRecovery> {
    let explained_by = |index: usize| {
        failures.iter().enumerate().position(|(other, explains)| {
            other != index
                && fails_alike(&failures[index], explains)
                && (explains.explains(&failures[index])
                    || behind_one_fence(&failures, explains, &failures[index]))
        })
    };
    let explained: Vec<Option<usize>> = (0..failures.len()).map(explained_by).collect();
    let mut joined: Vec<Option<FailedRecovery>> = failures.into_iter().map(Some).collect();
    for (index, by) in explained.iter().enumerate() {
        let Some(by) = by.filter(|&by| joined[by].is_some()) else { continue };
        let Some(gone) = joined[index].take() else { continue };
        if let Some(explains) = &mut joined[by] {
            explains.count += gone.count;
            // Names the stores that the one fence would have saved.
            let unfenced = [&explains.facts, &gone.facts].map(|it| matches!(it.cause, Cause::NotFenced(_)));
            let lost = gone.facts.lost.first().filter(|_| unfenced == [true, true]);
            let known = explains.facts.lost.iter().any(|it| same(Some(it), lost));
            explains.facts.lost.extend(lost.filter(|_| !known).cloned());
        }
    }
    joined.into_iter().flatten().collect()
}

fn fails_alike(one: &FailedRecovery, other: &FailedRecovery) -> bool {
    // A missing fence shows in whatever recovery reads first.
    let unfenced = |it: &FailedRecovery| matches!(it.facts.cause, Cause::NotFenced(_));
    one.crashes == other.crashes
        && (unfenced(other) || one.failure.kind(&one.output) == other.failure.kind(&other.output))
        && one.volatile.is_none()
        && other.volatile.is_none()
}

/// Are both stores of a failure ordered by the fence that another failure says is missing? With that fence, they cannot
/// be observed in the wrong order either.
fn behind_one_fence(all: &[FailedRecovery], explains: &FailedRecovery, other: &FailedRecovery) -> bool {
    let its = &other.facts;
    let unfenced = |facts: &Facts| matches!(facts.cause, Cause::NotFenced(_));
    let together = |it: &&FailedRecovery| {
        unfenced(&it.facts)
            && same(it.facts.survived.as_ref(), explains.facts.survived.as_ref())
            && same(it.facts.lost.first(), its.survived.as_ref())
    };
    unfenced(&explains.facts)
        && matches!(its.cause, Cause::FlushedLate(_) | Cause::WrongOrder { .. })
        && same(explains.facts.lost.first(), its.lost.first())
        && all.iter().any(|it| together(&it))
}

fn same(one: Option<&Access>, other: Option<&Access>) -> bool {
    one.zip(other).is_some_and(|(one, other)| (one.level, one.site) == (other.level, other.site))
}

/// Does this failure already cover a missing flush that recoveries failed on? No flush keeps together what must change
/// atomically, and one fence completes all flushes before it.
pub(crate) fn tells(failed: &FailedRecovery, missing: &Violation) -> bool {
    let (its, mine) = (&missing.facts, &failed.facts);
    let lines = |facts: &Facts| {
        let line = |access: &Access| Line::containing(access.address);
        let mut both = [facts.lost.first().map(line), facts.survived.as_ref().map(line)];
        both.sort_unstable();
        both
    };
    match mine.cause {
        Cause::Torn { .. } => missing.failed && lines(mine) == lines(its),
        Cause::NotFenced(_) => {
            matches!(its.cause, Cause::NotFenced(_)) && same(mine.survived.as_ref(), its.survived.as_ref())
        }
        _ => false,
    }
}

impl FailedRecovery {
    /// Is `other` the same mistake, seen from the other side?
    fn explains(&self, other: &FailedRecovery) -> bool {
        let (mine, its) = (&self.facts, &other.facts);
        match mine.cause {
            // The first store survives without the second; if the second without the first fails, too, no order of
            // flushes helps.
            Cause::Torn { one_access: false } => {
                let first = its.lost.first().map(|it| (it.level, it.site));
                its.cause != mine.cause
                    && same(mine.lost.first(), its.survived.as_ref())
                    && (same(mine.survived.as_ref(), its.lost.first())
                        || first.is_some_and(|first| mine.kept.contains(&first)))
            }
            Cause::Torn { one_access: true } => {
                its.cause == mine.cause
                    && same_place(&self.place, &other.place)
                    && (self.rank(), mine.key()) < (other.rank(), its.key())
            }
            // The fence must follow the nearer flush.
            Cause::NotFenced(flush) => match (&its.cause, &mine.survived, &its.survived) {
                (Cause::NotFenced(other_flush), Some(survivor), Some(its_survivor)) => {
                    let order = |flush: &Instruction, survivor: &Access, it: &FailedRecovery| {
                        (survivor.index.saturating_sub(flush.index), it.rank(), it.facts.key())
                    };
                    same(Some(survivor), Some(its_survivor))
                        && order(&flush, survivor, self) < order(other_flush, its_survivor, other)
                }
                _ => false,
            },
            Cause::StoredAfterCommit { .. } => {
                let its_survivor = its.survived.as_ref();
                // A store that is never flushed is a separate mistake.
                matches!(its.cause, Cause::Unknown | Cause::Torn { one_access: false })
                    && its.flushed
                    && its.lost.len() == 1
                    && same(mine.not_yet.as_ref(), its.lost.first())
                    && (its_survivor.is_none() || same(mine.survived.as_ref(), its_survivor))
            }
            // Regardless of where it was taken, and of whether the crash preceded its release or undid it.
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
