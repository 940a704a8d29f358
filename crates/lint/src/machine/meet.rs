//! Joins two paths: what is still open must be equal; of the rest, only what both agree on is kept.

use std::hash::{Hash, Hasher};

use super::state::{Machine, Status, Write};

impl Machine {
    /// A hash of what is still open: data that is not durable, what was logged, transactions. Coarser than
    /// [`Machine::signature`]: paths that differ only in what is complete and durable are equal here.
    pub(crate) fn open(&self) -> u64 {
        let mut hasher = rustc_hash::FxHasher::default();
        let mut writes: Vec<_> = self
            .writes
            .iter()
            .filter(|write| write.status != Status::Durable)
            .map(|write| (write.site.place, write.status, write.logged, write.transaction > 0))
            .collect();
        writes.sort_unstable();
        writes.dedup();
        writes.hash(&mut hasher);
        let mut waiting: Vec<_> = self
            .clean
            .iter()
            .filter(|clean| clean.pending || clean.queued)
            .map(|clean| (clean.site.place, clean.pending, clean.queued))
            .collect();
        waiting.sort_unstable();
        waiting.dedup();
        waiting.hash(&mut hasher);
        let mut logs: Vec<_> = self.logs.iter().map(|log| log.site.place).collect();
        logs.sort_unstable();
        logs.dedup();
        logs.hash(&mut hasher);
        for transaction in &self.transactions {
            (transaction.site.place, transaction.stage).hash(&mut hasher);
        }
        (self.strand.is_some(), self.epochs_open.len(), self.begun.is_some()).hash(&mut hasher);
        hasher.finish()
    }

    /// Joins another path with the same [`Machine::open`]. Only what held on both is kept.
    pub(crate) fn meet(&mut self, other: &Machine) {
        self.writes.retain(|write| {
            write.status != Status::Durable
                || other.writes.iter().any(|theirs| {
                    theirs.status == Status::Durable
                        && theirs.span == write.span
                        && theirs.site.place == write.site.place
                })
        });
        self.clean.retain(|clean| {
            clean.pending || clean.queued || other.clean.iter().any(|theirs| theirs.span == clean.span)
        });
        for (own, theirs) in self.transactions.iter_mut().zip(&other.transactions) {
            own.changed |= theirs.changed;
            own.read |= theirs.read;
        }
        for log in &mut self.logs {
            let same = other.logs.iter().any(|theirs| theirs.span == log.span && !theirs.uncertain);
            log.uncertain |= !same;
        }
        let add = |own: &mut Vec<_>, theirs: &[_]| {
            for object in theirs {
                if !own.contains(object) {
                    own.push(*object);
                }
            }
        };
        add(&mut self.published, &other.published);
        add(&mut self.cared_for, &other.cared_for);
        add(&mut self.cut_short, &other.cut_short);
        self.meet_overtaken(other);
        self.meet_early(other);
        for place in &other.overtaken {
            if !self.overtaken.contains(place) {
                self.overtaken.push(*place);
            }
        }
        self.inside_callers |= other.inside_callers;
        self.maybe_logged |= other.maybe_logged;
        self.forgotten |= other.forgotten;
        self.tolerates = self.tolerates.max(other.tolerates);
        self.drained &= other.drained;
        self.queue_drained &= other.queue_drained;
        // Events are numbered per path: what counts is how long ago the fence was.
        let since = (self.number - self.last_fence).max(other.number - other.last_fence);
        self.last_fence = self.number.saturating_sub(since);
    }

    /// The number on this path of a store of another path; unchanged if this path has no such store.
    pub(super) fn own_number(&self, other: &Machine, number: u32) -> u32 {
        let theirs = other.writes.iter().find(|write| write.number == number);
        let own = theirs.and_then(|theirs| {
            let same = |own: &&Write| own.span == theirs.span && own.site.place == theirs.site.place;
            self.writes.iter().find(same)
        });
        own.map_or(number, |own| own.number)
    }
}
