//! Flushes and fences: what they make durable, and which are redundant.

use px86::order::{Class, preserved};
use px86::{LINE_BYTES, Line};

use super::context::Context;
use super::state::{Clean, Logged, Machine, Status, Write, covered};
use crate::event::Site;
use crate::rules::{RelatedPlace, Rule};
use crate::span::{Meets, Span};
use crashproof_frontend::program::ir::PlaceId;

/// Whether such a flush is ordered before later stores to other lines without a fence.
pub(crate) fn keeps_order(class: Class) -> bool {
    preserved((class, Some(Line::containing(0))), (Class::Write, Some(Line::containing(LINE_BYTES))))
}

/// What a path stored before a flush to the memory it writes back.
#[derive(Default)]
struct BeforeFlush {
    alignment: u64,
    /// Data only in the cache, on lines that the flush may write back.
    dirty: Vec<Span>,
    /// More may have been stored than is known.
    uncertain: bool,
    /// The last store that no longer needs a flush, and the flush that wrote it back.
    durable: Option<(Site, Option<PlaceId>)>,
    /// Some part of the object was stored to.
    touched: bool,
    /// Whether the end of the transaction writes back all of `dirty`; `None` if that is empty.
    is_committed: Option<bool>,
}

/// Whether a flush is certainly not for what was stored, although their addresses cannot be compared: the source refers
/// to them by different members, they are in different arrays, or one is at a fixed offset and the other at a computed
/// one. If the path stored nothing through the computed address, as when an undo log determines what to flush, it may
/// be the address of anything that was stored: `is_stored_to` says whether it did.
fn is_apart(context: &Context, write: &Write, flush: Site, span: &Span, is_stored_to: bool) -> bool {
    let (stored, flushed) = (write.span.at.element, span.at.element);
    let by_byte = write.span.at.object == span.at.object
        && (stored.is_none() && context.is_by_byte(flushed) && is_stored_to
            || flushed.is_none()
                && span.bytes().is_some()
                && context.is_by_byte(stored)
                && !may_reach(context, write, span));
    by_byte
        || context.are_named_apart(write.site, flush)
        || context.extents.are_in_other_arrays(&write.span, span)
}

/// Whether a flush may write back a store a computed number of bytes behind a place that it includes: it covers more than
/// one line, and no array is known that the store cannot leave.
fn may_reach(context: &Context, write: &Write, span: &Span) -> bool {
    span.at.element.is_none()
        && context.is_by_byte(write.span.at.element)
        && write.span.at.object == span.at.object
        && span.bytes().is_some_and(|(start, end)| {
            (start..end).contains(&write.span.at.offset) && end - start > LINE_BYTES as i64
        })
        && context.extents.around(&write.span, None).is_none()
}

impl Machine {
    pub(super) fn flush(&mut self, context: &mut Context, site: Site, span: Span, class: Option<Class>) {
        let alignment = context.alignment_of(&span);
        self.judge_flush(context, site, &span, alignment);
        self.write_back(context, site, span, class);
    }

    /// Writes back whole pages: that they hold lines to which nothing was stored means nothing.
    pub(super) fn flush_pages(&mut self, context: &mut Context, site: Site, span: Span, class: Class) {
        context.verdicts.satisfies(Rule::RedundantFlush, site.place);
        let span = if context.begins_page(span.at.object) { span.in_pages() } else { span };
        self.write_back(context, site, span, Some(class));
    }

    fn write_back(&mut self, context: &mut Context, site: Site, span: Span, class: Option<Class>) {
        self.care_for(span.at.object);
        let alignment = context.alignment_of(&span);
        let ordered = class.is_some_and(keeps_order);
        let status = match class {
            Some(_) => Status::Pending(site.place, ordered),
            None => Status::Queued(site.place),
        };
        let (mut overwritten, mut together) = (Vec::new(), Vec::new());
        let is_stored_to = self
            .writes
            .iter()
            .any(|write| write.span.at.object == span.at.object && write.span.at.element == span.at.element);
        // A pointer that may lead anywhere is flushed for what was stored through it, if anything was: the flush is not
        // meant for other stores.
        let is_for_its_own = self.writes.iter().any(|write| {
            write.status == Status::Dirty
                && write.span.at.object == span.at.object
                && span.covers_lines(&write.span, alignment) == Meets::Covers
        });
        for write in &mut self.writes {
            if write.status == Status::Durable {
                continue;
            }
            let meets = if write.span.at.object == span.at.object {
                span.covers_lines(&write.span, alignment)
            } else if !is_for_its_own && context.may_be_same(write.span.at.object, span.at.object) {
                Meets::Maybe
            } else {
                Meets::Never
            };
            let meets = match meets {
                Meets::Maybe | Meets::Never if context.are_on_one_line(&write.span, &span) => Meets::Covers,
                Meets::Maybe if context.extents.lies_in(&write.span, &span) => Meets::Covers,
                Meets::Maybe if is_apart(context, write, site, &span, is_stored_to) => Meets::Never,
                Meets::Maybe if write.span.is_comparable(&span) => write.cover(&span, alignment),
                // Flushes of the first and the last byte write back everything in between, wherever that is.
                Meets::Never
                    if write.span.is_comparable(&span) && write.span.may_share_line(&span, alignment) =>
                {
                    match write.cover(&span, alignment) {
                        Meets::Covers => Meets::Covers,
                        _ => Meets::Never,
                    }
                }
                other => other,
            };
            match meets {
                Meets::Covers => {
                    (write.status, write.flushed) = (status, Some(site.place));
                    together.push(write.number);
                    overwritten.extend(write.overwrites.take().map(|before| (before, write.site)));
                }
                Meets::Maybe if matches!(write.status, Status::Dirty) => {
                    // Possibly the same element at another index, or the same object by another name.
                    write.status = Status::Maybe;
                    let by_another_name = write.span.at.object != span.at.object;
                    if by_another_name && context.expressions.has_opaque(span.at.object)
                        || may_reach(context, write, &span)
                    {
                        write.perhaps = Some(site.place);
                    }
                }
                _ => {}
            }
        }
        self.flushed_together(&together);
        for (stored, by) in overwritten {
            Machine::judge_overwritten(context, &stored, by);
        }
        self.clean.retain(|clean| span.contains(&clean.span) != Meets::Covers);
        self.clean.push(Clean {
            span,
            site,
            pending: class.is_some(),
            queued: class.is_none(),
            number: self.number,
        });
        self.drained = false;
    }

    /// Judges whether a flush is redundant, entirely or partly.
    fn judge_flush(&mut self, context: &mut Context, site: Site, span: &Span, alignment: u64) {
        let before = self.before_flush(context, span, alignment);
        if before.dirty.is_empty() && !before.uncertain {
            self.judge_redundant(context, site, span, &before);
            return;
        }
        context.verdicts.satisfies(Rule::RedundantFlush, site.place);
        if before.is_committed == Some(true) && !before.uncertain {
            let name = context.name(site);
            let message = format!("{name} is logged: the end of the transaction writes it back anyway");
            let advice = "leave this flush out".to_owned();
            context.violates(Rule::RepeatedPersist, site, message, Vec::new()).advise(advice);
        }
        self.judge_extent(context, site, span, &before);
    }

    /// What the path stored where a flush writes back.
    fn before_flush(&self, context: &Context, span: &Span, alignment: u64) -> BeforeFlush {
        let uncertain = self.cut_short.contains(&span.at.object);
        let mut before = BeforeFlush { alignment, uncertain, ..BeforeFlush::default() };
        for write in &self.writes {
            let same = write.span.at.object == span.at.object;
            if !same && !context.may_be_same(write.span.at.object, span.at.object) {
                continue;
            }
            let near = same && write.span.may_share_line(span, alignment);
            // At another index it may be something else entirely.
            let same_element = same && write.span.at.element == span.at.element;
            match write.status {
                Status::Dirty | Status::Maybe if !same => before.uncertain = true,
                Status::Dirty | Status::Maybe if near => {
                    before.dirty.push(write.span);
                    before.uncertain |= write.status == Status::Maybe;
                    let inside = self.is_flushed_by_commit(context, write);
                    before.is_committed = Some(before.is_committed.unwrap_or(true) && inside);
                }
                Status::Durable | Status::Pending(..) | Status::Queued(_) if same => {
                    before.touched |= same_element;
                    if span.contains(&write.span) == Meets::Covers
                        || write.span.contains(span) == Meets::Covers
                    {
                        before.durable = Some((write.site, write.flushed));
                    }
                }
                _ => before.touched |= same_element,
            }
        }
        before
    }

    fn is_flushed_by_commit(&self, context: &Context, write: &Write) -> bool {
        let commits = self
            .transactions
            .first()
            .is_some_and(|transaction| context.apis.frameworks[transaction.framework].commit.flushes_logged);
        commits
            && write.logged == Logged::Yes
            && write.transaction > 0
            && !context.is_fresh(write.span.at.object)
    }

    /// A flush of memory whose stores are all durable or pending.
    fn judge_redundant(&self, context: &mut Context, site: Site, span: &Span, before: &BeforeFlush) {
        let place = site.place;
        let name = context.name(site);
        let clean = self.clean.iter().rev().find(|clean| {
            clean.span.at.object == span.at.object
                && clean.span.covers_lines(span, before.alignment) == Meets::Covers
        });
        if let Some(clean) = clean {
            let first = clean.site.place;
            if first != place {
                let related =
                    vec![RelatedPlace { role: "first", place: first, message: "written back here".into() }];
                let message =
                    format!("{name} is written back again, although nothing was stored to it since");
                let advice = format!("leave this out: {} wrote it back", context.line(first, site));
                context.violates(Rule::RedundantFlush, site, message, related).advise(advice);
            }
        } else if let Some((stored, flushed)) = before.durable {
            // The next iteration of a loop.
            if flushed == Some(place) {
                return;
            }
            let related =
                vec![RelatedPlace { role: "stored", place: stored.place, message: "durable since".into() }];
            let message = format!("{name} is written back although nothing changed since it became durable");
            let advice = match flushed {
                Some(flushed) => format!("leave this out: {} wrote it back", context.line(flushed, site)),
                None => "leave this out".to_owned(),
            };
            context.violates(Rule::RedundantFlush, site, message, related).advise(advice);
        } else if !before.touched && !context.pedantic && self.sweeps(context, place, span) {
            context.verdicts.swept.insert(place);
        } else if context.has_threads && !before.touched && !context.is_new(span.at.object) {
            // Another thread may have stored it, after which this one read it.
        } else if (context.is_root || before.touched)
            && (before.touched && context.is_root || !context.is_parameter(span.at.object))
        {
            let message = format!("{name} is written back, but nothing was stored to it before");
            let advice = "leave this out, or flush what was stored to instead".to_owned();
            context.violates(Rule::FlushUnmodified, site, message, Vec::new()).advise(advice);
            if !before.touched && !context.is_new(span.at.object) {
                context.verdicts.untouched.insert(place);
            }
        }
    }

    /// A flush of more than what was stored.
    fn judge_extent(&self, context: &mut Context, site: Site, span: &Span, before: &BeforeFlush) {
        let dirty = &before.dirty;
        let is_exact = !before.uncertain && !context.pedantic;
        let redundant = if is_exact { span.lines_without(dirty, before.alignment) } else { None };
        let literal = context.pedantic
            && !before.uncertain
            && span.bytes().is_some_and(|(start, end)| {
                !covered(start, end, dirty.iter().filter_map(Span::bytes).collect())
            });
        if redundant.is_none_or(|lines| lines == 0) && !literal {
            context.verdicts.satisfies(Rule::FlushUnmodified, site.place);
            return;
        }
        let name = context.name(site);
        let message = match redundant {
            Some(1) => format!("{name} is written back, but one of its cache lines was not modified"),
            Some(lines) => {
                format!("{name} is written back, but {lines} of its cache lines were not modified")
            }
            None => format!("{name} is written back as a whole, but only part of it was modified"),
        };
        let stored = self.writes.iter().filter(|write| dirty.contains(&write.span));
        let advice = context.list(stored.map(|write| write.site)).map(|names| format!("flush only {names}"));
        context.violates(Rule::FlushUnmodified, site, message, Vec::new()).advice = advice;
    }

    /// Records which flushes are fenced in time.
    pub(super) fn awaited(&self, context: &mut Context, pending: bool, queued: bool) {
        let mut note = |place: PlaceId| {
            if !self.overtaken.contains(&place) {
                context.verdicts.satisfies_in(Rule::MissingBarrier, context.function, place);
            }
        };
        for write in &self.writes {
            match write.status {
                Status::Pending(place, _) if pending => note(place),
                Status::Queued(place) if queued => note(place),
                _ => {}
            }
        }
        for clean in &self.clean {
            if clean.pending && pending || clean.queued && queued {
                note(clean.site.place);
            }
        }
    }

    /// Whether a flush processes one object after another.
    fn sweeps(&self, context: &Context, place: PlaceId, span: &Span) -> bool {
        let other = |clean: &Clean| clean.site.place == place && clean.span != *span;
        context.expressions.has_opaque(span.at.object) || self.clean.iter().any(other)
    }

    pub(super) fn fence(&mut self, context: &mut Context, site: Site, drains: bool, judged: bool) {
        let waits = |write: &Write| match write.status {
            Status::Pending(..) => true,
            Status::Queued(_) => drains,
            Status::Dirty | Status::Maybe => write.kind().needs_fence(),
            Status::Durable => false,
        };
        let pending = self.writes.iter().any(waits)
            || self.clean.iter().any(|clean| clean.pending || drains && clean.queued);
        if judged {
            if pending || self.writes.iter().any(|write| write.status == Status::Maybe) {
                context.verdicts.satisfies(Rule::EmptyFence, site.place);
            } else if self.drained && (self.queue_drained || !drains) {
                let message = "nothing was flushed since the last fence".to_owned();
                context.violates(Rule::EmptyFence, site, message, Vec::new()).unless_deliberate = true;
            } else {
                // A caller may have left something pending.
                context.verdicts.satisfies_in(Rule::EmptyFence, context.function, site.place);
            }
        }
        self.awaited(context, true, drains);
        self.last_fence = self.number;
        let mut done: Vec<usize> = Vec::new();
        for (at, write) in self.writes.iter_mut().enumerate() {
            if waits(write) {
                write.status = Status::Durable;
                write.epoch = self.epoch;
                done.push(at);
            }
        }
        for clean in &mut self.clean {
            clean.pending = false;
            clean.queued &= !drains;
        }
        if !done.is_empty() {
            if self.knows_transaction(context) {
                self.several_at_once(context, site, &done);
                self.split_update(context, &done);
            }
            self.epoch += 1;
        }
        self.drained = true;
        self.queue_drained |= drains;
    }
}
