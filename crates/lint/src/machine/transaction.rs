//! Transactions: what is logged, and what their end makes durable.

use px86::LINE_BYTES;

use super::context::Context;
use super::state::{Log, Logged, Machine, Status, Transaction, overlap, stage};
use crate::event::Site;
use crate::expression::Persistence;
use crate::rules::{RelatedPlace, Rule};
use crate::span::{Meets, Span};
use crashproof_frontend::frameworks::Commit;

impl Machine {
    pub(super) fn log(&mut self, context: &mut Context, site: Site, span: Span) {
        self.care_for(span.at.object);
        self.inside_callers |= self.transactions.is_empty();
        let before = self.logs.iter().find(|log| log.span.contains(&span) == Meets::Covers);
        match before.map(|log| log.site) {
            Some(before) if before.place != site.place => {
                let name = context.name(site);
                let related =
                    vec![RelatedPlace { role: "first", place: before.place, message: "logged here".into() }];
                let message = format!("{name} is logged again in the same transaction");
                let advice = format!("leave this out: {} logged it", context.line(before.place, site));
                context.violates(Rule::RepeatedPersist, site, message, related).advise(advice);
            }
            Some(_) => {}
            None => {
                if context.is_fresh(span.at.object) && self.in_transaction() {
                    let name = context.name(site);
                    let message =
                        format!("{name} was allocated in this transaction: there is nothing to undo");
                    context.violates(Rule::RepeatedPersist, site, message, Vec::new());
                } else if context.is_root {
                    // What callers passed, or logged earlier, is judged at the call.
                    context.verdicts.satisfies(Rule::RepeatedPersist, site.place);
                }
            }
        }
        self.logs.push(Log { span, site, number: self.number, uncertain: false });
    }

    pub(super) fn begin(&mut self, site: Site, framework: usize) {
        if self.transactions.is_empty() {
            // Inside a caller's transaction this one is nested, and the outer one waits.
            self.begun = (!self.inside_callers).then_some((site, self.number));
            self.logs.clear();
        }
        self.transactions.push(Transaction {
            site,
            framework,
            stage: stage::WORK,
            changed: false,
            read: false,
            number: self.number,
        });
    }

    /// The first store in a transaction: a flush before it began that is still pending may be overtaken.
    pub(super) fn first_store(&mut self, context: &mut Context) {
        if let Some((site, number)) = self.begun.take() {
            self.missing_barrier(context, Rule::MissingBarrier, 0..number, "a transaction begins", site);
        }
    }

    pub(super) fn commit(&mut self, context: &mut Context) {
        let Some(transaction) = self.transactions.last().cloned() else { return };
        if let Some(outer) = self.transactions.len().checked_sub(2) {
            self.merge_into(outer, &transaction);
            return;
        }
        let rules = context.apis.frameworks[transaction.framework].commit;
        // A caller may have its own transaction around this one.
        let useful = transaction.changed || rules.isolates && transaction.read && !context.pedantic;
        if context.is_root && useful {
            context.verdicts.satisfies(Rule::EmptyTransaction, transaction.site.place);
        } else if context.is_root {
            let message = "this transaction changes nothing persistent".to_owned();
            context.violates(Rule::EmptyTransaction, transaction.site, message, Vec::new());
        }
        if rules.flushes_logged && !rules.logs_every_store {
            self.unused_logs(context);
        }
        let lost = self.commit_writes(context, &transaction, rules);
        self.awaited(context, rules.drains, rules.drains);
        for write in &mut self.writes {
            if rules.drains && matches!(write.status, Status::Pending(..) | Status::Queued(_)) {
                write.status = Status::Durable;
            }
        }
        for site in lost {
            unlogged(context, &transaction, site);
        }
        if rules.drains {
            for clean in &mut self.clean {
                (clean.pending, clean.queued) = (false, false);
            }
            (self.drained, self.queue_drained) = (true, true);
        }
        self.epoch += 2;
    }

    /// Restores what was logged; the rest remains as it is.
    pub(super) fn abort(&mut self) {
        let number = self.transactions.pop().map_or(0, |transaction| transaction.number);
        for write in self.writes.iter_mut().filter(|write| write.transaction == number && number > 0) {
            write.status = Status::Durable;
        }
        self.logs_are_over();
    }

    /// A nested transaction becomes part of the outer one.
    fn merge_into(&mut self, outer: usize, nested: &Transaction) {
        let outer = &mut self.transactions[outer];
        outer.changed |= nested.changed;
        outer.read |= nested.read;
        for write in self.writes.iter_mut().filter(|write| write.transaction == nested.number) {
            write.transaction = outer.number;
        }
    }

    /// What a commit makes durable, and the stores that it loses.
    fn commit_writes(
        &mut self,
        context: &mut Context,
        transaction: &Transaction,
        rules: Commit,
    ) -> Vec<Site> {
        let mut lost = Vec::new();
        // A function also called within its own file is not blamed for what a log of the same object may cover.
        let logs = if context.verdicts.is_tentative { self.logs.as_slice() } else { &[] };
        for write in self.writes.iter_mut().filter(|write| write.transaction == transaction.number) {
            let fresh = context.is_fresh(write.span.at.object);
            if write.logged == Logged::Yes && write.site.call.is_some() {
                context.verdicts.logged_by_caller(write.site.place, context.function);
            }
            let flushed = match write.logged {
                Logged::Yes if fresh => rules.flushes_allocated,
                Logged::Yes => rules.flushes_logged,
                _ => false,
            };
            match write.status {
                Status::Dirty if !flushed && write.logged != Logged::Maybe && !write.nontemporal => {
                    // If the commit does not flush, later code still may.
                    if rules.flushes_logged {
                        let sure = context.persistence(write.span.at.object) == Persistence::Surely;
                        let object = write.span.at.object;
                        // A log after the store keeps what was stored.
                        let unsure = logs
                            .iter()
                            .filter(|log| log.number < write.number)
                            .any(|log| context.may_be_same(log.span.at.object, object));
                        if context.is_root && sure && !unsure {
                            lost.push(write.site);
                        }
                        write.status = Status::Maybe;
                    }
                }
                Status::Dirty | Status::Maybe => write.status = Status::Durable,
                // Waited for together with all others.
                Status::Pending(..) | Status::Queued(_) if rules.drains => {}
                _ => context.verdicts.satisfies(Rule::UnloggedWrite, write.site.place),
            }
        }
        lost
    }

    /// Logged ranges that the transaction does not modify.
    pub(super) fn unused_logs(&mut self, context: &mut Context) {
        for log in self.logs.clone() {
            let (mut inside, mut somewhere) = (Vec::new(), Vec::new());
            let object = log.span.at.object;
            let mut uncertain =
                log.uncertain || context.expressions.has_opaque(object) || self.cut_short.contains(&object);
            for write in self.writes.iter().filter(|write| write.number > log.number) {
                if write.span.at.object == log.span.at.object {
                    match log.span.contains(&write.span) {
                        Meets::Covers if write.span.at.element == log.span.at.element => {
                            inside.push(write.span)
                        }
                        Meets::Never => {}
                        // One element of an array modifies no more than the array.
                        _ => match context.extents.around(&write.span, log.span.at.element) {
                            Some(range) => {
                                somewhere.push(range);
                                inside.push(write.span);
                            }
                            None => uncertain = true,
                        },
                    }
                } else if context.may_be_same(write.span.at.object, log.span.at.object) {
                    uncertain = true;
                }
            }
            let name = context.name(log.site);
            let Some((start, end)) = log.span.bytes() else { continue };
            let same_element = |span: &&Span| span.at.element == log.span.at.element;
            let mut written: Vec<(i64, i64)> =
                inside.iter().filter(same_element).filter_map(Span::bytes).collect();
            written.append(&mut somewhere);
            let rest = end - start - overlap(start, end, &written);
            if uncertain {
                context.verdicts.satisfies(Rule::LogUnmodified, log.site.place);
            } else if inside.is_empty() {
                let message = format!("{name} is logged, but the transaction does not modify it");
                let advice = "leave this out".to_owned();
                context.violates(Rule::LogUnmodified, log.site, message, Vec::new()).advise(advice);
            } else if rest >= LINE_BYTES as i64 || context.pedantic && rest > 0 {
                let message =
                    format!("{name}: {} bytes are logged, but {rest} of them are not modified", end - start);
                let stored = self.writes.iter().filter(|write| inside.contains(&write.span));
                let advice =
                    context.list(stored.map(|write| write.site)).map(|names| format!("log only {names}"));
                context.violates(Rule::LogUnmodified, log.site, message, Vec::new()).advice = advice;
            } else {
                context.verdicts.satisfies(Rule::LogUnmodified, log.site.place);
            }
        }
    }

    /// Whether the open transaction can undo what is logged.
    pub(super) fn is_undone_by_log(&self, context: &Context) -> bool {
        self.transactions
            .last()
            .is_some_and(|transaction| context.apis.frameworks[transaction.framework].commit.flushes_logged)
    }

    /// A store in the open transaction that is not logged.
    pub(super) fn judge_unlogged(&self, context: &mut Context, site: Site) {
        if let Some(transaction) = self.transactions.last() {
            unlogged(context, transaction, site);
        }
    }

    pub(super) fn change(&mut self) {
        if let Some(transaction) = self.transactions.last_mut() {
            transaction.changed = true;
        }
    }

    pub(super) fn set_stage(&mut self, stage: i64) {
        if let Some(transaction) = self.transactions.last_mut() {
            transaction.stage = stage;
        }
    }

    pub(super) fn commit_stage(&mut self, context: &mut Context) {
        self.commit(context);
        self.set_stage(stage::ON_COMMIT);
    }

    pub(super) fn logs_are_over(&mut self) {
        if self.transactions.is_empty() {
            self.logs.clear();
            self.maybe_logged = false;
        }
    }

    /// Whether it is known if this runs in a transaction: a function may be called inside a caller's.
    pub(super) fn knows_transaction(&self, context: &Context) -> bool {
        context.is_root && !self.inside_callers || self.in_transaction()
    }

    /// The model whose transactions log every store.
    pub(super) fn logs_every_store(&self, context: &Context) -> bool {
        self.transactions
            .last()
            .is_some_and(|transaction| context.apis.frameworks[transaction.framework].commit.logs_every_store)
    }
}

fn unlogged(context: &mut Context, transaction: &Transaction, site: Site) {
    let name = context.name(site);
    let related = vec![RelatedPlace {
        role: "transaction",
        place: transaction.site.place,
        message: "in this transaction".into(),
    }];
    let message = format!("{name} is stored to in a transaction, but neither logged before nor written back");
    let how = match &context.apis.frameworks[transaction.framework].logs {
        Some(logs) => format!("log {} with `{logs}` before this store", context.it(site)),
        None => format!("log {} before this store", context.it(site)),
    };
    let begun = context.line(transaction.site.place, site);
    let advice = format!("{how}, in the transaction of {begun}");
    context.violates(Rule::UnloggedWrite, site, message, related).advise(advice);
}
