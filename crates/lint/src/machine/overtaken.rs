//! Stores that are not durable when another store is made that guards them (`crate::guards`). Whether it does is known
//! only when all functions have been walked, so the verdict is conditional.

use super::context::Context;
use super::state::{Logged, Machine, Overtaken, Status, Write};
use crate::event::Site;
use crate::expression::{Expression, Expressions, Form, Persistence};
use crate::guards;
use crate::rules::{Condition, RelatedPlace, Rule};
use crate::span::Span;

/// How other functions identify a store.
pub(super) fn known_as(site: Site) -> u32 {
    if site.outer == 0 { site.name } else { site.outer }
}

/// Whether two ranges are selected by the same indices: members of one record, or of parallel arrays.
fn are_of_one_record(all: &Expressions, one: &Span, other: &Span) -> bool {
    let index = |span: &Span| {
        span.at.element.map(|element| match all.form(element) {
            Form::Element(base, index, _) => (base, index),
            _ => (element, element),
        })
    };
    one.at.object == other.at.object && one.at.element.is_some() && index(one) == index(other)
}

impl Machine {
    /// A store that may guard others: those that are not durable may be lost although it persists.
    pub(super) fn note_overtaken(
        &mut self,
        context: &Context,
        site: Site,
        to: &Span,
        value: Expression,
        logged: Logged,
    ) {
        // If a library's transactions maintain the order, members tested before others say nothing about it.
        let safe = context.has_transactions
            || !self.knows_transaction(context)
            || self.in_transaction() && logged != Logged::No
            || self.logs_every_store(context);
        if safe || to.bytes().is_none_or(|(from, end)| end - from > 8) {
            return;
        }
        let name = known_as(site);
        let is_open = |status: Status| match status {
            Status::Dirty | Status::Queued(_) => true,
            Status::Pending(_, ordered) => !ordered,
            Status::Maybe | Status::Durable => false,
        };
        self.published_later(context, site, to, value);
        for overtaken in &mut self.overtaking {
            // Anything also stored before the guard belongs to the next operation.
            let (writes, by) = (&self.writes, overtaken.numbers.1);
            if writes.iter().any(|write| write.site.place == site.place && write.number < by) {
                continue;
            }
            let open = self
                .writes
                .iter()
                .any(|write| write.number == overtaken.numbers.0 && write.status != Status::Durable);
            if !open && name != known_as(overtaken.by) && !overtaken.unless.contains(&name) {
                overtaken.unless.push(name);
            }
        }
        let is_computed = matches!(context.expressions.form(value), Form::Opaque(..) | Form::Nothing);
        for write in &self.writes {
            let known = |overtaken: &Overtaken| {
                overtaken.lost.place == write.site.place && overtaken.by.place == site.place
            };
            if is_open(write.status)
                && !write.unpublished
                // A lost zero is usually what memory held before.
                && context.expressions.as_int(write.value) != Some(0)
                && write.span != *to
                // The members of a structure that is copied as a whole are stored in any order.
                && write.site.place != site.place
                && !context.are_on_one_line(&write.span, to)
                && context.persistence(write.span.at.object) == Persistence::Surely
                && !self.overtaking.iter().any(known)
            {
                self.overtaking.push(Overtaken {
                    lost: write.site,
                    status: write.status,
                    by: site,
                    numbers: (write.number, self.number),
                    is_computed,
                    clears: context.expressions.as_int(value) == Some(0),
                    unless: Vec::new(),
                });
            }
        }
    }

    /// A record whose members became durable together before something outside it is stored, or before the data its
    /// address was computed from (the offset returned by an allocator): that store publishes it, and the order of its
    /// members does not matter.
    fn published_later(&mut self, context: &Context, site: Site, to: &Span, value: Expression) {
        let all: &Expressions = context.expressions;
        let leads = matches!(
            all.form(value),
            Form::Content(_) | Form::Opaque(..) | Form::Operation(..) | Form::Plus(..) | Form::Element(..)
        );
        let leads_to =
            |span: &Span| leads && all.is_made_of(span.at.element.unwrap_or(span.at.object), value);
        let writes = &self.writes;
        let find = |number: u32| writes.iter().find(|write| write.number == number);
        self.overtaking.retain(|overtaken| {
            let (Some(lost), Some(by)) = (find(overtaken.numbers.0), find(overtaken.numbers.1)) else {
                return true;
            };
            // For a range of unknown length, what a flush covers of it counts as covered.
            let is_durable = |write: &Write| matches!(write.status, Status::Durable | Status::Maybe);
            let is_outside = to.at.object == lost.span.at.object && to.at.element != lost.span.at.element;
            let publishes = is_outside && are_of_one_record(all, &lost.span, &by.span)
                || leads_to(&lost.span) && leads_to(&by.span);
            !(is_durable(lost)
                && is_durable(by)
                && lost.epoch == by.epoch
                && site.place != by.site.place
                && publishes)
        });
    }

    /// One flush covers these stores: a checksum next to its data needs no order.
    pub(super) fn flushed_together(&mut self, numbers: &[u32]) {
        self.overtaking.retain(|overtaken| {
            let (lost, by) = overtaken.numbers;
            !(overtaken.is_computed && numbers.contains(&lost) && numbers.contains(&by))
        });
    }

    /// The end of a path: what was overtaken, if the later store turns out to guard the earlier one.
    pub(super) fn judge_overtaken(&self, context: &mut Context) {
        for overtaken in &self.overtaking {
            let (lost, by) = (overtaken.lost, overtaken.by);
            let (name, guard) = (context.name(lost), context.name(by));
            // Elements of one array do not guard each other.
            if guards::is_same_member(&name, &guard) {
                continue;
            }
            let how = match overtaken.status {
                Status::Dirty => "not durable",
                Status::Queued(_) => "only queued for writing back",
                _ => "flushed without a fence",
            };
            let message = format!(
                "{name} can be lost after {guard} persists: it is {how} when {guard}, which guards it, is stored"
            );
            let mut related = vec![RelatedPlace {
                role: "published",
                place: by.place,
                message: format!("{guard} counts from here on"),
            }];
            let line = context.line(by.place, lost);
            let advice = match overtaken.status {
                Status::Pending(flush, _) => {
                    let message = "flushed here, but not fenced".to_owned();
                    related.push(RelatedPlace { role: "flush", place: flush, message });
                    format!("fence after {}, before {line}", context.line(flush, lost))
                }
                _ => format!("flush {} and fence, before {line}", context.it(lost)),
            };
            let condition = Condition {
                guard: known_as(by),
                guarded: known_as(lost),
                unless: overtaken.unless.clone(),
                clears: overtaken.clears,
            };
            let rule = Rule::PublishBeforePersist;
            context.violates_if(condition, rule, lost, message, related).advise(advice);
        }
    }

    pub(super) fn meet_overtaken(&mut self, other: &Machine) {
        for theirs in &other.overtaking {
            let same =
                |own: &Overtaken| own.lost.place == theirs.lost.place && own.by.place == theirs.by.place;
            if !self.overtaking.iter().any(same) {
                let (lost, by) = theirs.numbers;
                let numbers = (self.own_number(other, lost), self.own_number(other, by));
                self.overtaking.push(Overtaken { numbers, ..theirs.clone() });
            }
        }
    }
}
