//! Order between dependent objects: a record must be durable before the index, bit or offset that covers it is stored,
//! and a flag that is set and cleared must be durable in between.
//!
//! `publish` handles pointers to objects. Here the dependence is numeric: the address of a record is computed from the
//! content of the index, or the index from the position of the record. px86 determines what the hardware keeps in
//! order, through [`super::flush::keeps_order`] and lines.
//!
//! Not covered: an index computed from something other than what selects the record.

use super::context::Context;
use super::overtaken::known_as;
use super::state::{Early, Late, Logged, Machine, Overwritten, Status, Write};
use crate::event::Site;
use crate::expression::{Expression, Expressions, Form, NOTHING, Persistence};
use crate::rules::{Condition, RelatedPlace, Rule};
use crate::span::{Length, Span};
use crashproof_frontend::program::ir::Arithmetic;

/// The unknown values from which a number is computed.
fn leaves(all: &Expressions, number: Expression, found: &mut Vec<Expression>) {
    match all.form(number) {
        Form::Content(_) | Form::Opaque(..) => found.push(number),
        Form::Plus(inner, _) => leaves(all, inner, found),
        Form::Operation(_, left, right) | Form::Comparison(_, left, right) => {
            leaves(all, left, found);
            leaves(all, right, found);
        }
        Form::Element(_, index, _) => leaves(all, index, found),
        _ => {}
    }
}

/// The indices that select an element, each with its scale.
fn indices(all: &Expressions, element: Option<Expression>) -> Vec<(Expression, i64)> {
    let mut found = Vec::new();
    let mut at = element;
    while let Some(expression) = at {
        at = match all.form(expression) {
            Form::Element(base, index, scale) => {
                found.push((index, scale));
                Some(base)
            }
            Form::Plus(base, _) => Some(base),
            _ => None,
        };
    }
    found
}

/// Whether a number is computed rather than copied.
fn is_computed(all: &Expressions, value: Expression) -> bool {
    matches!(all.form(value), Form::Plus(..) | Form::Operation(..) | Form::Comparison(..))
}

/// Whether `part` is part of `whole`.
fn contains(all: &Expressions, whole: Expression, part: Expression) -> bool {
    whole == part
        || match all.form(whole) {
            Form::Plus(inner, _) => contains(all, inner, part),
            Form::Operation(_, left, right) | Form::Comparison(_, left, right) => {
                contains(all, left, part) || contains(all, right, part)
            }
            _ => false,
        }
}

/// Whether a store of at most a word may be an index or a flag.
fn is_scalar(span: &Span) -> bool {
    span.bytes().is_some_and(|(from, to)| to - from <= 8)
}

/// Whether a new value of an index makes the record at `index` count: the index is computed from the same number, or is
/// the offset of the record.
fn covers(all: &Expressions, value: Expression, record: &Span) -> bool {
    let mut own = Vec::new();
    if is_computed(all, value) {
        leaves(all, value, &mut own);
    }
    indices(all, record.at.element).into_iter().any(|(index, scale)| {
        let mut theirs = Vec::new();
        leaves(all, index, &mut theirs);
        theirs.iter().any(|leaf| own.contains(leaf))
            || scale == 1 && index == value && all.as_int(value).is_none()
    })
}

/// Larger records than this are rare, and anything beyond may belong to another one.
const RECORD: i64 = 256;

/// Whether a number selects a record. A constant added to the number is part of the record's offset.
fn refers_to(all: &Expressions, value: Expression, record: &Span) -> bool {
    let (number, more) = match all.form(value) {
        Form::Plus(number, more) => (number, more),
        _ => (value, 0),
    };
    all.as_int(value).is_none()
        && indices(all, record.at.element).iter().any(|(index, scale)| {
            let is_added = || {
                // For an offset in bytes, the remainder is a member of the record.
                if *scale == 1 {
                    return (0..RECORD).contains(&(record.at.offset - more));
                }
                let start = all.array_start(record.at.object, *scale);
                start.is_some_and(|start| (record.at.offset - start).div_euclid(*scale) == more)
            };
            *index == value || more != 0 && *index == number && is_added()
        })
}

/// Whether a number is what a power of two leaves of others.
fn is_mask(all: &Expressions, mask: Expression) -> bool {
    all.as_int(mask).is_some_and(|mask| mask > 0 && mask & (mask + 1) == 0)
}

/// Whether a number is the content of memory at a place.
fn is_content(all: &Expressions, number: Expression, span: &Span) -> bool {
    all.at(&span.at).is_some_and(|address| all.form(number) == Form::Content(address))
}

/// Whether the record that contains an index counted before the index was stored: a reference to it was made durable
/// after the record was stored, other than by an allocator. Later references say nothing new about it.
fn is_counted(all: &Expressions, writes: &[Write], early: &Early) -> bool {
    let scale = indices(all, early.at.at.element).first().map_or(0, |first| first.1.unsigned_abs());
    let is_inside =
        |span: &Span| span.at.object == early.at.at.object && span.at.element == early.at.at.element;
    // Being in the same array is not enough.
    let is_of_record = |span: &Span| is_inside(span) && span.at.offset.abs_diff(early.at.at.offset) < scale;
    early.at.at.element.is_some()
        && writes.iter().any(|count| {
            count.number < early.number
                && count.status == Status::Durable
                && !is_inside(&count.span)
                && refers_to(all, count.value, &early.at)
                && writes.iter().any(|write| write.number < count.number && is_of_record(&write.span))
        })
}

/// Whether a record is selected by its number rather than by a byte offset, which is how allocators count.
fn is_of_array(all: &Expressions, record: &Span) -> bool {
    indices(all, record.at.element).iter().all(|(_, scale)| scale.unsigned_abs() > 1)
}

/// Whether a number is the content of memory at a place, incremented.
fn counts_on(all: &Expressions, number: Expression, span: &Span) -> bool {
    matches!(all.form(number), Form::Plus(inner, _) if is_content(all, inner, span))
}

/// Whether the index already stored covers the record that is only stored now.
fn covered_already(all: &Expressions, index: &Write, record: &Span) -> bool {
    if !is_computed(all, index.value) {
        return false;
    }
    indices(all, record.at.element).into_iter().any(|(number, scale)| {
        if scale == 1 {
            return false;
        }
        // A ring: the number of the element is what is left of a count that was stored already.
        let counted = match all.form(number) {
            Form::Operation(Arithmetic::Rem, count, _) => Some(count),
            Form::Operation(Arithmetic::And, count, mask) if is_mask(all, mask) => Some(count),
            _ => None,
        };
        match all.form(index.value) {
            Form::Plus(inner, 1) if counted == Some(inner) => is_content(all, inner, &index.span),
            // A count: it covers all elements below. A number that one element holds about another is not a count,
            // unless it was incremented.
            Form::Plus(inner, more)
                if inner == number
                    && (index.span.at.element.is_none() || is_content(all, inner, &index.span)) =>
            {
                let start = all.array_start(record.at.object, scale).unwrap_or(record.at.offset);
                (0..more).contains(&(record.at.offset - start).div_euclid(scale))
            }
            // A bit of a map, with the number of the element.
            Form::Operation(_, left, right)
                if matches!(all.form(number), Form::Opaque(..) | Form::Content(_)) =>
            {
                let address = all.at(&index.span.at);
                let old = address.and_then(|address| all.known(Form::Content(address)));
                let is_map = |part| old.is_some_and(|old| contains(all, part, old));
                (is_map(left) && contains(all, right, number) || is_map(right) && contains(all, left, number))
                    && old != Some(number)
            }
            Form::Plus(inner, _) if inner == number => false,
            // The number of the element itself, as in two copies that alternate.
            _ => contains(all, number, index.value),
        }
    })
}

/// Whether a function returns the number of a record, as an allocator does. What it allocates counts only once
/// something refers to it.
fn hands_out(all: &Expressions, result: Expression, element: Option<Expression>) -> bool {
    all.as_int(result).is_none()
        && result != NOTHING
        && indices(all, element).into_iter().any(|(index, _)| index == result || contains(all, index, result))
}

impl Machine {
    /// A store to a possible index: the records it covers must be durable. Whether it is an index shows later: it may
    /// itself be part of a record that another index or flag makes count.
    pub(super) fn note_index(
        &mut self,
        context: &mut Context,
        site: Site,
        to: &Span,
        value: Expression,
        logged: Logged,
    ) {
        let safe = context.has_transactions
            || !self.knows_transaction(context)
            || self.in_transaction() && logged != Logged::No
            || self.logs_every_store(context);
        // A number used as the length of a copy is a length: what follows the copy is not at that offset.
        let is_length = self.writes.iter().any(|write| write.span.length == Length::Symbol(value));
        if safe || is_length || !is_scalar(to) {
            return;
        }
        let is_lost = |context: &Context, write: &&Write| {
            let open = match write.status {
                Status::Dirty | Status::Queued(_) => true,
                Status::Pending(_, ordered) => !ordered,
                Status::Maybe | Status::Durable => false,
            };
            open && write.span.at.element != to.at.element
                && covers(context.expressions, value, &write.span)
                && !context.are_on_one_line(&write.span, to)
                && context.persistence(write.span.at.object) == Persistence::Surely
        };
        self.hand_on_early(context, site, to, value);
        let (at, in_new) = (*to, self.is_of_new_record(to));
        let early: Vec<Early> = self
            .writes
            .iter()
            .filter(|write| is_lost(context, write))
            .map(|write| Early {
                stored: write.site,
                status: write.status,
                number: write.number,
                index: site,
                at,
                in_new,
                refers: is_of_array(context.expressions, &write.span)
                    && refers_to(context.expressions, value, &write.span)
                    && !counts_on(context.expressions, value, to),
            })
            .collect();
        for early in early {
            let known = |other: &Early| {
                other.stored.place == early.stored.place && other.index.place == early.index.place
            };
            if !self.early.iter().any(known) {
                self.early.push(early);
            }
        }
    }

    /// A store that makes a possible index count: a count or bit that covers it, or a flag next to it. Records must
    /// then be durable before this store.
    fn hand_on_early(&mut self, context: &Context, site: Site, to: &Span, value: Expression) {
        let is_constant = context.expressions.as_int(value).is_some_and(|value| value != 0);
        let in_new = self.is_of_new_record(to);
        let (writes, expressions) = (&self.writes, &context.expressions);
        self.early.retain_mut(|early| {
            let record = writes.iter().find(|write| write.number == early.number);
            // A reference to the record makes it count, rather than an allocator's high-water mark.
            if early.index.place != site.place
                && !early.refers
                && record.is_some_and(|record| {
                    record.status == Status::Durable && refers_to(expressions, value, &record.span)
                })
            {
                return false;
            }
            let beside = early.at.at.object == to.at.object
                && early.at.at.element == to.at.element
                && early.at != *to
                && is_constant;
            let was_counted = is_counted(expressions, writes, early);
            let covered = early.at.at.element != to.at.element
                && !was_counted
                && (covers(expressions, value, &early.at) || refers_to(expressions, value, &early.at));
            if !beside && !covered || early.index.place == site.place {
                return true;
            }
            match record.map(|write| write.status) {
                Some(status @ (Status::Dirty | Status::Queued(_) | Status::Pending(_, false))) if covered => {
                    (early.index, early.status, early.at) = (site, status, *to);
                    early.in_new = in_new;
                    true
                }
                Some(Status::Dirty | Status::Queued(_) | Status::Pending(_, false)) => true,
                _ => false,
            }
        });
    }

    /// Whether a record is a new one when something is stored to it: an allocator that counts in bytes has just passed it.
    pub(super) fn is_allocated(&self, all: &Expressions, record: &Span) -> bool {
        let indices = indices(all, record.at.element);
        self.writes.iter().any(|write| {
            write.span.at.element != record.at.element
                && is_scalar(&write.span)
                && matches!(all.form(write.value), Form::Plus(number, more)
                    if indices.contains(&(number, 1)) && (0..more).contains(&record.at.offset))
        })
    }

    /// Whether a range belongs to a new record: what it refers to counts only once something refers to the record.
    fn is_of_new_record(&self, span: &Span) -> bool {
        span.at.element.is_some()
            && self.writes.iter().any(|write| {
                write.allocated
                    && write.span.at.object == span.at.object
                    && write.span.at.element == span.at.element
            })
    }

    /// The end of a path: records that were not durable in time.
    pub(super) fn judge_early(&self, context: &mut Context) {
        for early in self.early.iter().filter(|early| !early.in_new) {
            Machine::judge_covered(context, early.index, early.stored, early.status);
        }
    }

    pub(super) fn meet_early(&mut self, other: &Machine) {
        for theirs in &other.early {
            let same = |own: &Early| {
                own.stored.place == theirs.stored.place && own.index.place == theirs.index.place
            };
            if !self.early.iter().any(same) {
                self.early.push(Early { number: self.own_number(other, theirs.number), ..theirs.clone() });
            }
        }
    }

    /// Reports a record that is not durable when the index that covers it is stored.
    fn judge_covered(context: &mut Context, site: Site, stored: Site, status: Status) {
        let name = context.name(stored);
        let how = match status {
            Status::Dirty => "not written back",
            Status::Queued(_) => "only queued for writing back",
            _ => "flushed without a fence",
        };
        let index = context.name(site);
        let message =
            format!("{name} can be lost after {index} persists: it is {how} before {index} covers it");
        let mut related = vec![RelatedPlace {
            role: "published",
            place: site.place,
            message: format!("{index} covers it from here on"),
        }];
        if let Status::Pending(flush, _) = status {
            let message = "flushed here, but not fenced".to_owned();
            related.push(RelatedPlace { role: "flush", place: flush, message });
        }
        let line = context.line(site.place, stored);
        let advice = match status {
            Status::Pending(flush, _) => {
                format!("fence after {}, before {line}", context.line(flush, stored))
            }
            _ => format!("flush {} and fence, before {line}", context.it(stored)),
        };
        context.violates(Rule::PublishBeforePersist, stored, message, related).advise(advice);
    }

    /// A store to a record that an index already covers; whether that is wrong is decided at the end of the function. A
    /// later store elsewhere may be what really makes the record count.
    pub(super) fn note_late(
        &mut self,
        context: &Context,
        site: Site,
        span: &Span,
        value: Expression,
        transaction: u32,
    ) {
        // A zero clears an element that counts no more, as the consumer of a ring does.
        let clears = context.expressions.as_int(value) == Some(0);
        let covering = self.writes.iter().rev().find(|index| {
            transaction == 0
                && !clears
                && is_scalar(&index.span)
                && index.span.at.element != span.at.element
                && matches!(index.status, Status::Durable | Status::Pending(..))
                && covered_already(context.expressions, index, span)
                // Nothing else in between: it is one update.
                && self.writes.iter().all(|write| {
                    write.number <= index.number || write.span.at.element == span.at.element
                })
                && !context.are_on_one_line(&index.span, span)
        });
        if let Some(index) = covering {
            self.late.push(Late { stored: site, index: index.site, at: span.at });
        } else if is_scalar(span) {
            // Another record, or another element of the same array.
            self.late.retain(|late| {
                let scale = indices(context.expressions, late.at.element).first().map_or(1, |first| first.1);
                late.at.element == span.at.element
                    && late.at.offset.abs_diff(span.at.offset) < scale.unsigned_abs()
            });
        }
    }

    /// A store that is not tracked may be what makes records count.
    pub(crate) fn forget_late(&mut self) {
        self.late.clear();
    }

    /// The end of a function: records stored only after the index that covers them.
    pub(crate) fn judge_late(&self, context: &mut Context, result: Expression, returns_pointer: bool) {
        if self.in_transaction() || self.inside_callers || context.has_transactions && !context.is_root {
            return;
        }
        for late in &self.late {
            let returned = returns_pointer && context.expressions.address(result).object == late.at.object
                || hands_out(context.expressions, result, late.at.element)
                || late.index.call.is_some() && context.returns_something(late.index.place);
            // A callee's stores are judged there: here they may be to an object that the callee created.
            if returned
                || late.stored.call.is_some()
                || context.persistence(late.at.object) != Persistence::Surely
            {
                continue;
            }
            let (name, index) = (context.name(late.stored), context.name(late.index));
            let related = vec![RelatedPlace {
                role: "published",
                place: late.index.place,
                message: format!("{index} covers it from here on"),
            }];
            let message = format!("{name} is stored only after {index}, which covers it, is written back");
            let line = context.line(late.index.place, late.stored);
            let advice = format!("store and persist {} before {line}", context.it(late.stored));
            context.violates(Rule::PublishBeforePersist, late.stored, message, related).advise(advice);
        }
    }

    /// The store that is overwritten before it was written back, although later stores became durable in between: code
    /// that relies on that order never sees it.
    pub(super) fn overwritten(
        &self,
        context: &Context,
        site: Site,
        span: &Span,
        value: Expression,
    ) -> Option<Overwritten> {
        let before = self.writes.iter().rev().find(|write| write.span == *span)?;
        if before.status != Status::Dirty
            || before.nontemporal
            || self.last_fence < before.number
            || before.transaction != 0
            || before.unpublished
        {
            return None;
        }
        let constant = |value: Expression| context.expressions.as_int(value);
        let durable = self.writes.iter().filter(|write| {
            let is_durable = match write.status {
                Status::Durable => write.epoch >= before.epoch,
                // For example, by a flush of what a log lists.
                Status::Maybe => true,
                _ => false,
            };
            write.number > before.number && is_durable
        });
        let between: Vec<Site> = durable.map(|write| write.site).collect();
        let is_certain = match (constant(before.value), constant(value)) {
            (Some(old), Some(new)) if old == new => return None,
            // A lost zero is usually what memory held before.
            (Some(old), Some(_)) => old != 0,
            // Incremented and reset: only a recovery in between would ever read it.
            (None, Some(0)) if is_computed(context.expressions, before.value) => !between.is_empty(),
            // A number incremented in a loop is stored at one place.
            _ if before.site.place == site.place => return None,
            (None, Some(_)) => false,
            _ => match (context.expressions.form(before.value), context.expressions.form(value)) {
                (Form::Plus(base, old), Form::Plus(same, new)) if base == same && old != new => false,
                _ => return None,
            },
        };
        Some(Overwritten { stored: before.site, is_certain, between })
    }

    /// Reports a store that was overwritten before it was written back, if the program does write that place back.
    pub(super) fn judge_overwritten(context: &mut Context, overwritten: &Overwritten, by: Site) {
        let stored = overwritten.stored;
        let name = context.name(stored);
        let related =
            vec![RelatedPlace { role: "overwritten", place: by.place, message: "overwritten here".into() }];
        let line = context.line(by.place, stored);
        let message = format!(
            "{name} is overwritten ({line}) before it was written back, although later stores became durable in between"
        );
        let advice =
            format!("flush {} after this store and fence, before the next store", context.it(stored));
        let rule = Rule::UnflushedWrite;
        if overwritten.is_certain {
            context.violates(rule, stored, message, related).advise(advice);
            return;
        }
        for between in &overwritten.between {
            let (guard, guarded) = (known_as(stored), known_as(*between));
            let condition = Condition { guard, guarded, unless: Vec::new(), clears: false };
            let (message, related) = (message.clone(), related.clone());
            context.violates_if(condition, rule, stored, message, related).advise(advice.clone());
        }
    }
}
