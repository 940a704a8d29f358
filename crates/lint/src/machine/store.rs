//! Stores: what they make dirty, and whether a transaction can undo them.

use rustc_hash::FxHashSet;

use super::context::Context;
use super::state::{Logged, MAX_WRITES, Machine, Status, Write, stage};
use crate::event::Site;
use crate::expression::{Expression, Form};
use crate::rules::{RelatedPlace, Rule};
use crate::span::{Length, Meets, Span};

impl Machine {
    pub(super) fn store(
        &mut self,
        context: &mut Context,
        site: Site,
        span: Span,
        value: Expression,
        nontemporal: bool,
        bulk: bool,
    ) {
        self.access(context, site, span, true);
        self.first_store(context);
        if nontemporal {
            self.care_for(span.at.object);
        }
        let alignment = context.alignment_of(&span);
        self.clean.retain(|clean| {
            !(clean.span.at.object == span.at.object && clean.span.may_share_line(&span, alignment)
                || clean.span.at.object != span.at.object
                    && context.may_be_same(clean.span.at.object, span.at.object))
        });
        let unpublished = self.is_unpublished(context, span.at.object);
        let every = self.logs_every_store(context);
        let transaction = self.transactions.last().filter(|t| t.stage <= stage::WORK).map_or(0, |t| t.number);
        let logged = if transaction == 0 {
            Logged::No
        } else if every || context.is_fresh(span.at.object) {
            Logged::Yes
        } else {
            self.logged(context, &span)
        };
        if every {
            self.judge_repeated(context, site, &span, transaction);
        }
        if self.tolerates > 0 {
            self.store_tolerated(&span);
            return;
        }
        self.publish(context, site, &span, value, logged);
        self.note_index(context, site, &span, value, logged);
        self.note_overtaken(context, site, &span, value, logged);
        self.note_late(context, site, &span, value, transaction);
        let allocated = self.is_allocated(context.expressions, &span);
        let overwrites = if transaction == 0 { self.overwritten(context, site, &span, value) } else { None };
        self.change();
        // Only the last store to a range can be lost.
        let same_transaction = transaction;
        self.writes.retain(|write| {
            !(span.contains(&write.span) == Meets::Covers
                && write.transaction == same_transaction
                && write.site.place == site.place
                || write.span == span && write.status != Status::Durable && write.epoch == self.epoch)
        });
        self.writes.push(Write {
            span,
            value,
            site,
            status: Status::Dirty,
            logged,
            nontemporal,
            bulk,
            transaction,
            epoch: self.epoch,
            number: self.number,
            unpublished,
            allocated,
            failed: false,
            flushed: None,
            parts: Vec::new(),
            overwrites,
            perhaps: None,
        });
        if self.writes.len() > MAX_WRITES {
            let durable = self.writes.iter().position(|write| write.status == Status::Durable);
            self.forgotten |= durable.is_none();
            self.writes.remove(durable.unwrap_or(0));
        }
    }

    /// A store that may be lost. A later flush of it is not redundant, and it supersedes an earlier store to the same
    /// place.
    fn store_tolerated(&mut self, span: &Span) {
        self.writes.retain(|write| span.contains(&write.span) != Meets::Covers);
        if !self.cut_short.contains(&span.at.object) {
            self.cut_short.push(span.at.object);
        }
    }

    /// If every store is logged, storing twice to the same place logs twice.
    fn judge_repeated(&self, context: &mut Context, site: Site, span: &Span, transaction: u32) {
        let before = self.writes.iter().find(|write| {
            write.transaction == transaction && write.span == *span && write.site.place != site.place
        });
        let Some(before) = before.map(|write| write.site) else {
            context.verdicts.satisfies(Rule::RepeatedPersist, site.place);
            return;
        };
        let name = context.name(site);
        let related =
            vec![RelatedPlace { role: "first", place: before.place, message: "stored before".into() }];
        let message = format!("{name} is stored to again in the same transaction, and logged again");
        let advice = format!("compute it first, and store it once ({})", context.line(before.place, site));
        context.violates(Rule::RepeatedPersist, site, message, related).advise(advice);
    }

    pub(super) fn logged(&self, context: &Context, span: &Span) -> Logged {
        let mut best = if self.maybe_logged { Logged::Maybe } else { Logged::No };
        for log in &self.logs {
            if log.span.at.object == span.at.object {
                match log.span.contains(span) {
                    Meets::Covers => return Logged::Yes,
                    Meets::Maybe => best = Logged::Maybe,
                    Meets::Never => {}
                }
            } else if context.may_be_same(log.span.at.object, span.at.object) {
                best = Logged::Maybe;
            }
        }
        best
    }

    /// Whether an object is persistent for reasons other than what the graph says about pointers to it.
    pub(super) fn is_cared_for(&self, context: &Context, object: Expression) -> bool {
        match context.expressions.form(object) {
            Form::Parameter(_) | Form::Content(_) => {
                self.cared_for.contains(&object) || context.is_declared(object)
            }
            Form::Opaque(..) => {
                self.cared_for.contains(&object)
                    || context.is_entry && context.expressions.is_declared(object)
            }
            _ => true,
        }
    }

    /// What was stored whose length is computed by the program.
    pub(crate) fn computed_lengths(&self) -> impl Iterator<Item = (Site, Span)> {
        let computed = |write: &&Write| matches!(write.span.length, Length::Symbol(_));
        self.writes.iter().filter(computed).map(|write| (write.site, write.span))
    }

    /// Objects that some path considers persistent are persistent on this one.
    pub(crate) fn care_for_all(&mut self, objects: &FxHashSet<Expression>) {
        for object in objects {
            self.care_for(*object);
        }
    }

    pub(super) fn care_for(&mut self, object: Expression) {
        if !self.cared_for.contains(&object) {
            self.cared_for.push(object);
        }
    }
}
