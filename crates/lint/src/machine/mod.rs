//! What is known of persistent memory at a point of a path, and the rules that are judged there.
//!
//! The machine reads the events of one path. For each store it knows whether the data is still only in the
//! cache, queued or on its way, or durable; for each flush, whether anything was stored there since. It is a
//! function of the trace, so paths with the same trace have the same machine.
//!
//! # Where the rules are from
//!
//! Tables 4 and 5 of the DeepMC paper (PPoPP 2022), sections 3.2, 3.3 and 4.3. What differs at the default
//! level, and is the paper's literal rule under `pedantic`:
//!
//! 1. Lines and words decide, not fields: what lies on a line that is written back anyway costs nothing and
//!    is not lost (`crate::span`). Ordering is asked of `px86`.
//! 2. Objects that nothing points to yet may be built in any order.
//! 3. Consecutive epochs on one object are a mistake only if no protocol explains them: data before the
//!    number or flag that makes it valid, or a flag set before and cleared after.
//! 4. What a caller may have stored or will flush is left to the caller.

mod around;
mod end;
mod epoch;
mod flush;
mod meet;
mod publish;
mod store;
mod transaction;

use px86::order::Class;

use crate::event::{Event, Kind, Site};
use crate::expression::Expression;
use crate::rules::Rule;
use crate::span::Span;
use crashproof_frontend::program::ir::PlaceId;

pub(crate) use around::Surroundings;
pub(crate) use flush::keeps_order;

/// Where data is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
enum Status {
    /// In the cache only.
    Dirty,
    /// Possibly written back.
    Maybe,
    /// Remembered for a later flush.
    Queued(PlaceId),
    /// On its way.
    Pending(PlaceId, bool),
    Durable,
}

/// Whether a transaction can undo a store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
enum Logged {
    No,
    Maybe,
    Yes,
}

impl Write {
    /// What it is in the model.
    fn kind(&self) -> px86::Kind {
        if self.nontemporal { px86::Kind::NonTemporalStore } else { px86::Kind::Store }
    }
}

#[derive(Clone, Debug)]
struct Write {
    span: Span,
    value: Expression,
    site: Site,
    status: Status,
    logged: Logged,
    nontemporal: bool,
    bulk: bool,
    /// In this transaction, counted from 1; 0 for none.
    transaction: u32,
    /// The number of the epoch, and the place among all events.
    epoch: u32,
    number: u32,
    /// Whether nothing pointed to the object.
    unpublished: bool,
    /// Whether it was stored in a call that failed.
    failed: bool,
    /// The flush that last wrote it back.
    flushed: Option<PlaceId>,
}

/// A range that was written back and not touched since.
#[derive(Clone, Debug)]
struct Clean {
    span: Span,
    site: Site,
    pending: bool,
    queued: bool,
    number: u32,
}

#[derive(Clone, Debug)]
struct Log {
    span: Span,
    site: Site,
    number: u32,
    /// Unknown code ran since: it may have modified what was logged.
    uncertain: bool,
}

#[derive(Clone, Debug)]
struct Transaction {
    site: Site,
    framework: usize,
    stage: i64,
    changed: bool,
    /// Something persistent was read.
    read: bool,
    number: u32,
}

#[derive(Clone, Debug)]
struct Access {
    span: Span,
    site: Site,
    strand: u32,
    write: bool,
}

/// PMDK's names for the stages of a transaction.
pub(crate) mod stage {
    pub(crate) const NONE: i64 = 0;
    pub(crate) const WORK: i64 = 1;
    pub(crate) const ON_COMMIT: i64 = 2;
    pub(crate) const FINALLY: i64 = 4;
}

/// How a path ends, as far as rules care.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    Normal,
    /// It returns what means failure.
    Failure,
}

/// The state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    writes: Vec<Write>,
    clean: Vec<Clean>,
    logs: Vec<Log>,
    transactions: Vec<Transaction>,
    epochs_open: Vec<(Site, u32)>,
    accesses: Vec<Access>,
    strand: Option<u32>,
    strands: u32,
    published: Vec<Expression>,
    /// Objects of which something was flushed or logged: whoever does that takes them for persistent.
    cared_for: Vec<Expression>,
    /// Something was logged although no transaction is open: a caller has one.
    inside_callers: bool,
    /// Code that is not known may have logged something in this transaction.
    maybe_logged: bool,
    /// A transaction that began while something may have been on its way; nothing was stored in it yet.
    begun: Option<(Site, u32)>,
    /// When something was last waited for.
    last_fence: u32,
    /// Nothing is on its way, for sure.
    drained: bool,
    /// Nothing is queued, for sure.
    queue_drained: bool,
    epoch: u32,
    number: u32,
    /// A store that was not durable yet is no longer known.
    forgotten: bool,
    /// Flushes that something else came before: to wait for them now is too late.
    overtaken: Vec<PlaceId>,
    /// Objects of which loops that were cut short may have stored more.
    cut_short: Vec<Expression>,
}

/// A path of so many stores is not remembered in full, and the function is named for it.
pub(crate) const MAX_WRITES: usize = 400;

impl Machine {
    pub(crate) fn in_transaction(&self) -> bool {
        !self.transactions.is_empty()
    }

    /// Whether it matters that something is read: the innermost transaction has not read yet, or belongs to a caller.
    pub(crate) fn wants_reads(&self) -> bool {
        self.transactions.last().is_none_or(|transaction| !transaction.read && !transaction.changed)
    }

    /// The stage of the innermost transaction.
    pub(crate) fn stage(&self) -> i64 {
        self.transactions.last().map_or(stage::NONE, |transaction| transaction.stage)
    }

    /// Whether it went over what can be remembered.
    pub(crate) fn has_forgotten(&self) -> bool {
        self.forgotten
    }

    /// A loop is left before its end: it may have stored more of what it stored.
    pub(crate) fn cut_short(&mut self) {
        for write in &self.writes {
            if !self.cut_short.contains(&write.span.at.object) {
                self.cut_short.push(write.span.at.object);
            }
        }
    }

    /// How far the path is; what comes later is told apart by it.
    pub(crate) fn now(&self) -> u32 {
        self.number
    }

    /// What matters for the rest of the path, by places rather than by values. Loops that change nothing of
    /// this are done.
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

    /// Reads one event.
    pub(crate) fn step(&mut self, around: &mut Surroundings, event: &Event) {
        self.number += 1;
        let site = event.site;
        match &event.kind {
            Kind::Store { span, value, nontemporal, bulk } => {
                self.store(around, site, *span, *value, *nontemporal, *bulk);
            }
            Kind::Load { span } => {
                if let Some(transaction) = self.transactions.last_mut() {
                    transaction.read = true;
                }
                self.access(around, site, *span, false);
            }
            Kind::Flush { span, class } => self.flush(around, site, *span, Some(*class)),
            Kind::Queue { span } => self.flush(around, site, *span, None),
            Kind::Elsewhere => (self.drained, self.queue_drained) = (false, false),
            // An mfence may be there for other threads.
            Kind::Fence { class, drains } => self.fence(around, site, *drains, *class == Class::StoreFence),
            Kind::Locked => self.fence(around, site, false, false),
            Kind::Log { span } => self.log(around, site, *span),
            Kind::Begin { framework } => self.begin(site, *framework),
            Kind::Commit => {
                self.commit(around);
                self.transactions.pop();
                self.logs_are_over();
            }
            Kind::Abort => {
                // What was logged is put back; what was not stays as it is.
                let number = self.transactions.pop().map_or(0, |transaction| transaction.number);
                for write in self.writes.iter_mut().filter(|w| w.transaction == number && number > 0) {
                    write.status = Status::Durable;
                }
                self.logs_are_over();
            }
            Kind::Process => match self.stage() {
                stage::WORK => self.commit_stage(around),
                stage::ON_COMMIT => self.set_stage(stage::FINALLY),
                _ => self.set_stage(stage::NONE),
            },
            Kind::CommitStage => self.commit_stage(around),
            Kind::End => {
                if self.stage() == stage::WORK {
                    self.commit_stage(around);
                }
                self.transactions.pop();
                self.logs_are_over();
            }
            Kind::Change => {
                self.change();
                // A library that changes its memory durably waits for it, and so for all before.
                self.fence(around, site, false, false);
            }
            Kind::Inside => self.inside_callers |= self.transactions.is_empty(),
            Kind::EpochBegin => {
                if self.epochs_open.is_empty() {
                    let all = 0..self.number;
                    self.missing_barrier(around, Rule::MissingBarrier, all, "an epoch begins", site);
                }
                self.epochs_open.push((site, self.number));
            }
            Kind::EpochEnd => self.epoch_end(around, site),
            Kind::StrandBegin => {
                self.strands += 1;
                self.strand = Some(self.strands);
            }
            Kind::StrandEnd => self.strand = None,
            Kind::StrandJoin => {
                self.accesses.clear();
                self.strand = None;
                self.fence(around, site, true, false);
            }
            Kind::Unknown { objects, own } => {
                self.maybe_logged |= *own && (self.in_transaction() || !around.is_root);
                self.unknown(around, objects);
            }
        }
    }
}

/// How many bytes of a range the others hold.
fn overlap(start: i64, end: i64, others: &[(i64, i64)]) -> i64 {
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

fn covered(start: i64, end: i64, others: Vec<(i64, i64)>) -> bool {
    overlap(start, end, &others) == end - start
}
