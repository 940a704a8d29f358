//! The state of a path, and how each event changes it.

use px86::order::Class;

use crate::event::{Event, Kind, Site, UnknownCode};
use crate::expression::{Address, Expression};
use crate::gap::Gap;
use crate::rules::Rule;
use crate::span::{Meets, Span};
use crashproof_frontend::program::ir::PlaceId;

use super::context::Context;

/// The state of stored data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum Status {
    /// Only in the cache.
    Dirty,
    /// Possibly written back.
    Maybe,
    /// Remembered for a later flush.
    Queued(PlaceId),
    /// Flushed, not yet fenced; whether the flush is ordered before later stores.
    Pending(PlaceId, bool),
    Durable,
}

/// Whether a transaction can undo a store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum Logged {
    No,
    Maybe,
    Yes,
}

#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) span: Span,
    pub(super) value: Expression,
    pub(super) site: Site,
    pub(super) status: Status,
    pub(super) logged: Logged,
    pub(super) nontemporal: bool,
    pub(super) bulk: bool,
    /// The transaction, counted from 1; 0 for none.
    pub(super) transaction: u32,
    /// The number of the epoch, and the position among all events.
    pub(super) epoch: u32,
    pub(super) number: u32,
    /// Whether the object was unreachable.
    pub(super) unpublished: bool,
    /// Whether the record had just been allocated.
    pub(super) allocated: bool,
    /// Whether it was stored in a call that failed.
    pub(super) failed: bool,
    /// The flush that last wrote it back.
    pub(super) flushed: Option<PlaceId>,
    /// Parts of it that were written back separately, by bytes of the object.
    pub(super) parts: Vec<(i64, i64)>,
    /// The store that it overwrote before that was written back.
    pub(super) overwrites: Option<Overwritten>,
    /// A flush at an address that is not known, which may have written it back.
    pub(super) perhaps: Option<PlaceId>,
}

/// A store that was overwritten before it was written back.
#[derive(Clone, Debug)]
pub(super) struct Overwritten {
    pub(super) stored: Site,
    /// It matters regardless of what it guards.
    pub(super) is_certain: bool,
    /// What became durable in between.
    pub(super) between: Vec<Site>,
}

/// A record that was not durable when an index that covers it was stored.
#[derive(Clone, Debug)]
pub(super) struct Early {
    pub(super) stored: Site,
    pub(super) status: Status,
    /// The store of the record, among all events.
    pub(super) number: u32,
    pub(super) index: Site,
    pub(super) at: Span,
    /// The index is part of a new record.
    pub(super) in_new: bool,
    /// The index is the number of the record, rather than a limit up to which records count.
    pub(super) refers: bool,
}

/// A record that was stored after the index that covers it.
#[derive(Clone, Debug)]
pub(super) struct Late {
    pub(super) stored: Site,
    pub(super) index: Site,
    pub(super) at: Address,
}

impl Write {
    /// Records that part of it is written back, and returns whether all of it has been.
    pub(super) fn cover(&mut self, flushed: &Span, alignment: u64) -> Meets {
        let Some(part) = flushed.bytes() else { return Meets::Maybe };
        if !self.parts.contains(&part) {
            self.parts.push(part);
        }
        self.span.is_covered_by(&self.parts, alignment)
    }

    /// Its kind in the model.
    pub(super) fn kind(&self) -> px86::Kind {
        if self.nontemporal { px86::Kind::NonTemporalStore } else { px86::Kind::Store }
    }
}

/// A range that was written back and not touched since.
#[derive(Clone, Debug)]
pub(super) struct Clean {
    pub(super) span: Span,
    pub(super) site: Site,
    pub(super) pending: bool,
    pub(super) queued: bool,
    pub(super) number: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Log {
    pub(super) span: Span,
    pub(super) site: Site,
    pub(super) number: u32,
    /// Unknown code has run since: it may have modified what was logged.
    pub(super) uncertain: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Transaction {
    pub(super) site: Site,
    pub(super) framework: usize,
    pub(super) stage: i64,
    pub(super) changed: bool,
    /// Something persistent was read.
    pub(super) read: bool,
    pub(super) number: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) span: Span,
    pub(super) site: Site,
    pub(super) strand: u32,
    pub(super) write: bool,
}

/// PMDK's names for the stages of a transaction.
pub(crate) mod stage {
    pub(crate) const NONE: i64 = 0;
    pub(crate) const WORK: i64 = 1;
    pub(crate) const ON_COMMIT: i64 = 2;
    pub(crate) const FINALLY: i64 = 4;
}

/// How a path ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    Normal,
    /// It returns a failure.
    Failure,
}

/// A store that another one may overtake on its way to memory.
#[derive(Clone, Debug)]
pub(super) struct Overtaken {
    pub(super) lost: Site,
    pub(super) status: Status,
    pub(super) by: Site,
    /// The events of both stores.
    pub(super) numbers: (u32, u32),
    /// The later value is computed in untracked ways: it may be a checksum of the other.
    pub(super) is_computed: bool,
    /// It is zero.
    pub(super) clears: bool,
    /// Stores made after the lost store was durable: if one of them is also a guard, the order holds.
    pub(super) unless: Vec<u32>,
}

/// The state of a path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    pub(super) writes: Vec<Write>,
    pub(super) clean: Vec<Clean>,
    pub(super) logs: Vec<Log>,
    pub(super) transactions: Vec<Transaction>,
    pub(super) epochs_open: Vec<(Site, u32)>,
    pub(super) accesses: Vec<Access>,
    pub(super) strand: Option<u32>,
    pub(super) strands: u32,
    pub(super) published: Vec<Expression>,
    /// Objects of which some part was flushed or logged: the program considers them persistent.
    pub(super) cared_for: Vec<Expression>,
    /// Something was logged although no transaction is open: a caller has one.
    pub(super) inside_callers: bool,
    /// Unknown code may have logged something in this transaction.
    pub(super) maybe_logged: bool,
    /// A transaction that began while a flush may have been pending, and in which nothing has been stored yet.
    pub(super) begun: Option<(Site, u32)>,
    /// The event of the last fence.
    pub(super) last_fence: u32,
    /// No flush is pending, with certainty.
    pub(super) drained: bool,
    /// Nothing is queued, with certainty.
    pub(super) queue_drained: bool,
    pub(super) epoch: u32,
    pub(super) number: u32,
    /// A store that was not durable was dropped.
    pub(super) forgotten: bool,
    /// Flushes that something overtook: fencing them now is too late.
    pub(super) overtaken: Vec<PlaceId>,
    /// Objects to which truncated loops may have stored more.
    pub(super) cut_short: Vec<Expression>,
    /// Records that an index covered before they were stored.
    pub(super) late: Vec<Late>,
    /// Records that an index covered before they were durable.
    pub(super) early: Vec<Early>,
    /// Stores that others may have overtaken.
    pub(super) overtaking: Vec<Overtaken>,
    /// The number of open regions of stores that may be lost.
    pub(super) tolerates: u32,
}

/// The most stores remembered per path. A function with a longer path is UNKNOWN.
pub(crate) const MAX_WRITES: usize = 400;

impl Machine {
    pub(crate) fn in_transaction(&self) -> bool {
        !self.transactions.is_empty()
    }

    /// Whether reads matter: the innermost transaction has not read yet, or belongs to a caller.
    pub(crate) fn wants_reads(&self) -> bool {
        self.transactions.last().is_none_or(|transaction| !transaction.read && !transaction.changed)
    }

    /// The stage of the innermost transaction.
    pub(crate) fn stage(&self) -> i64 {
        self.transactions.last().map_or(stage::NONE, |transaction| transaction.stage)
    }

    /// Whether a fence may have something to wait for, possibly left pending by a caller.
    pub(crate) fn may_wait(&self) -> bool {
        !self.drained
            || self.clean.iter().any(|clean| clean.pending)
            || self.writes.iter().any(|write| match write.status {
                Status::Pending(..) => true,
                Status::Dirty | Status::Maybe => write.kind().needs_fence(),
                Status::Queued(_) | Status::Durable => false,
            })
    }

    /// Whether no stored data is on its way to memory.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.writes.iter().all(|write| write.status == Status::Durable)
    }

    /// Whether a store was dropped because there were too many.
    pub(crate) fn has_forgotten(&self) -> bool {
        self.forgotten
    }

    /// A loop is left before its end: it may store to more of each object.
    pub(crate) fn cut_short(&mut self) {
        for write in &self.writes {
            if !self.cut_short.contains(&write.span.at.object) {
                self.cut_short.push(write.span.at.object);
            }
        }
    }

    /// The number of the last event: later events have higher numbers.
    pub(crate) fn now(&self) -> u32 {
        self.number
    }

    /// A hash of what matters for the rest of the path, by places rather than values. A loop that no longer changes it
    /// is done.
    pub(crate) fn signature(&self) -> u64 {
        use std::hash::{Hash, Hasher};
        let mut hasher = rustc_hash::FxHasher::default();
        let mut writes: Vec<_> =
            self.writes.iter().map(|w| (w.site.place, w.status, w.logged, w.transaction)).collect();
        writes.sort_unstable();
        writes.dedup();
        writes.hash(&mut hasher);
        let mut clean: Vec<_> = self.clean.iter().map(|c| (c.site.place, c.pending, c.queued)).collect();
        clean.sort_unstable();
        clean.dedup();
        clean.hash(&mut hasher);
        let mut logs: Vec<_> = self.logs.iter().map(|l| l.site.place).collect();
        logs.sort_unstable();
        logs.dedup();
        logs.hash(&mut hasher);
        for transaction in &self.transactions {
            (transaction.site.place, transaction.stage, transaction.changed).hash(&mut hasher);
        }
        (self.drained, self.queue_drained, self.strand.is_some(), self.epochs_open.len()).hash(&mut hasher);
        self.begun.is_some().hash(&mut hasher);
        hasher.finish()
    }

    /// Processes one event.
    pub(crate) fn step(&mut self, context: &mut Context, event: &Event) {
        self.number += 1;
        let site = event.site;
        match &event.kind {
            Kind::Store { span, value, nontemporal, bulk } => {
                self.store(context, site, *span, *value, *nontemporal, *bulk);
            }
            Kind::Load { span } => {
                if let Some(transaction) = self.transactions.last_mut() {
                    transaction.read = true;
                }
                self.access(context, site, *span, false);
            }
            Kind::Flush { span, class, pages: false } => self.flush(context, site, *span, Some(*class)),
            Kind::Flush { span, class, pages: true } => self.flush_pages(context, site, *span, *class),
            Kind::Queue { span } => self.flush(context, site, *span, None),
            Kind::Elsewhere => (self.drained, self.queue_drained) = (false, false),
            // An mfence may serve other threads.
            Kind::Fence { class, drains } => self.fence(context, site, *drains, *class == Class::StoreFence),
            Kind::Locked => self.fence(context, site, false, false),
            Kind::Sync => {
                for write in &mut self.writes {
                    if matches!(write.status, Status::Dirty | Status::Maybe) {
                        (write.status, write.flushed) =
                            (Status::Pending(site.place, false), Some(site.place));
                    }
                }
                self.fence(context, site, false, false);
            }
            Kind::Log { span } => self.log(context, site, *span),
            Kind::Empty { span } => self.writes.retain(|write| write.span != *span),
            Kind::LogSomewhere => {
                self.inside_callers |= self.transactions.is_empty();
                self.maybe_logged = true;
                self.change();
            }
            Kind::Begin { framework } => self.begin(site, *framework),
            Kind::Commit => {
                self.commit(context);
                self.transactions.pop();
                self.logs_are_over();
            }
            Kind::Abort => self.abort(),
            Kind::Process => match self.stage() {
                stage::WORK => self.commit_stage(context),
                stage::ON_COMMIT => self.set_stage(stage::FINALLY),
                _ => self.set_stage(stage::NONE),
            },
            Kind::CommitStage => self.commit_stage(context),
            Kind::End => {
                if self.stage() == stage::WORK {
                    self.commit_stage(context);
                }
                self.transactions.pop();
                self.logs_are_over();
            }
            Kind::Change => {
                self.change();
                // A library that changes its memory durably fences, and so everything before is durable as well.
                self.fence(context, site, false, false);
            }
            Kind::Inside => self.inside_callers |= self.transactions.is_empty(),
            Kind::EpochBegin => {
                if self.epochs_open.is_empty() {
                    let all = 0..self.number;
                    self.missing_barrier(context, Rule::MissingBarrier, all, "an epoch begins", site);
                }
                self.epochs_open.push((site, self.number));
            }
            Kind::EpochEnd => self.epoch_end(context, site),
            Kind::StrandBegin => {
                self.strands += 1;
                self.strand = Some(self.strands);
            }
            Kind::TolerateBegin => self.tolerates += 1,
            Kind::TolerateEnd => self.tolerates = self.tolerates.saturating_sub(1),
            Kind::StrandEnd => self.strand = None,
            Kind::StrandJoin => {
                self.accesses.clear();
                self.strand = None;
                self.fence(context, site, true, false);
            }
            Kind::Unknown { objects, code } => {
                let own = *code != UnknownCode::Library;
                self.maybe_logged |= own && (self.in_transaction() || !context.is_root);
                if *code == UnknownCode::Pointer && self.depends_on_unknown(objects) {
                    context.verdicts.gaps.add(Gap::Pointer, site.place);
                }
                self.unknown(context, objects);
            }
        }
    }
}

/// How many bytes of a range the others cover.
pub(super) fn overlap(start: i64, end: i64, others: &[(i64, i64)]) -> i64 {
    let mut parts: Vec<(i64, i64)> =
        others.iter().map(|(from, to)| ((*from).max(start), (*to).min(end))).filter(|(a, b)| a < b).collect();
    parts.sort_unstable();
    let (mut sum, mut reached) = (0, start);
    for (from, to) in parts {
        let from = from.max(reached);
        if to > from {
            sum += to - from;
            reached = to;
        }
    }
    sum
}

pub(super) fn covered(start: i64, end: i64, others: Vec<(i64, i64)>) -> bool {
    overlap(start, end, &others) == end - start
}
