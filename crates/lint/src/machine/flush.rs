//! Flushes and fences: what they do, and whether they do anything.

use px86::order::{Class, preserved};
use px86::{LINE_BYTES, Line};

use super::{Clean, Logged, Machine, Status, Surroundings, Write, covered};
use crate::event::Site;
use crate::rules::{Beside, Rule};
use crate::span::{Meets, Span};
use crashproof_frontend::program::ir::PlaceId;

/// Whether stores to other lines come after such a flush without a fence.
pub(crate) fn keeps_order(class: Class) -> bool {
    preserved((class, Some(Line::containing(0))), (Class::Write, Some(Line::containing(LINE_BYTES))))
}

impl Machine {
    pub(super) fn flush(&mut self, around: &mut Surroundings, site: Site, span: Span, class: Option<Class>) {
        self.care_for(span.at.object);
        let alignment = around.alignment(span.at.object);
        self.judge_flush(around, site, &span, alignment);
        let ordered = class.is_some_and(keeps_order);
        let status = match class {
            Some(_) => Status::Pending(site.place, ordered),
            None => Status::Queued(site.place),
        };
        for write in &mut self.writes {
            if write.status == Status::Durable {
                continue;
            }
            let meets = if write.span.at.object == span.at.object {
                span.covers_lines(&write.span, alignment)
            } else if around.may_be_same(write.span.at.object, span.at.object) {
                Meets::Maybe
            } else {
                Meets::Never
            };
            match meets {
                Meets::Covers => (write.status, write.flushed) = (status, Some(site.place)),
                Meets::Maybe if matches!(write.status, Status::Dirty) => {
                    // Part of an element by another index, or of something by another name.
                    write.status = Status::Maybe;
                }
                _ => {}
            }
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

    /// Whether a flush does something.
    pub(super) fn judge_flush(&mut self, around: &mut Surroundings, site: Site, span: &Span, alignment: u64) {
        let place = site.place;
        let (mut exact, mut uncertain) = (Vec::new(), self.cut_short.contains(&span.at.object));
        let (mut known, mut touched) = (None, false);
        let mut protected = None;
        for write in &self.writes {
            let same = write.span.at.object == span.at.object;
            if !same && !around.may_be_same(write.span.at.object, span.at.object) {
                continue;
            }
            let near = same && write.span.may_share_line(span, alignment);
            match write.status {
                Status::Dirty | Status::Maybe if !same => uncertain = true,
                Status::Dirty | Status::Maybe if near => {
                    exact.push(write.span);
                    uncertain |= write.status == Status::Maybe;
                    let commits = self.transactions.first().is_some_and(|transaction| {
                        around.apis.frameworks[transaction.framework].commit.flushes_logged
                    });
                    let inside = write.logged == Logged::Yes
                        && commits
                        && write.transaction > 0
                        && !around.is_fresh(span.at.object);
                    protected = match protected {
                        None | Some(true) => Some(inside),
                        Some(false) => Some(false),
                    };
                }
                Status::Durable | Status::Pending(..) | Status::Queued(_) if same => {
                    // By another index it may be something else altogether.
                    touched |= write.span.at.element == span.at.element;
                    if span.contains(&write.span) == Meets::Covers
                        || write.span.contains(span) == Meets::Covers
                    {
                        known = Some((write.site, write.flushed));
                    }
                }
                _ => touched |= same && write.span.at.element == span.at.element,
            }
        }
        if exact.is_empty() && !uncertain {
            let before = self.clean.iter().rev().find(|clean| {
                clean.span.at.object == span.at.object
                    && clean.span.covers_lines(span, alignment) == Meets::Covers
            });
            if let Some(before) = before {
                let first = before.site.place;
                let beside =
                    vec![Beside { role: "first", place: first, message: "written back here".into() }];
                let name = around.name(site);
                let message =
                    format!("{name} is written back again, although nothing was stored to it since");
                if first != place {
                    let advice = format!("leave this out: {} wrote it back", around.line(first, site));
                    around.bad(Rule::RedundantFlush, site, message, beside).advise(advice);
                }
            } else if let Some((stored, flushed)) = known {
                // A loop comes by again.
                if flushed == Some(place) {
                    return;
                }
                let name = around.name(site);
                let beside =
                    vec![Beside { role: "stored", place: stored.place, message: "durable since".into() }];
                let message =
                    format!("{name} is written back although nothing changed since it became durable");
                let advice = match flushed {
                    Some(flushed) => format!("leave this out: {} wrote it back", around.line(flushed, site)),
                    None => "leave this out".to_owned(),
                };
                around.bad(Rule::RedundantFlush, site, message, beside).advise(advice);
            } else if !touched && self.sweeps(around, place, span) {
                around.verdicts.swept.insert(place);
            } else if around.is_root && (touched || !around.is_parameter(span.at.object))
                || touched && !around.is_parameter(span.at.object)
            {
                let name = around.name(site);
                let message = format!("{name} is written back, but nothing was stored to it before");
                let advice = "leave this out, or flush what was stored to instead".to_owned();
                around.bad(Rule::FlushUnmodified, site, message, Vec::new()).advise(advice);
                if !touched && !around.is_new(span.at.object) {
                    around.verdicts.untouched.insert(place);
                }
            }
            return;
        }
        around.verdicts.good(Rule::RedundantFlush, place);
        if protected == Some(true) && !uncertain {
            let name = around.name(site);
            let message = format!("{name} is logged: the end of the transaction writes it back anyway");
            let advice = "leave this flush out".to_owned();
            around.bad(Rule::RepeatedPersist, site, message, Vec::new()).advise(advice);
        }
        let wasted = if uncertain || around.pedantic { None } else { span.lines_without(&exact, alignment) };
        let literal = around.pedantic
            && !uncertain
            && span.bytes().is_some_and(|(start, end)| {
                !covered(start, end, exact.iter().filter_map(Span::bytes).collect())
            });
        if wasted.is_some_and(|lines| lines > 0) || literal {
            let name = around.name(site);
            let message = match wasted {
                Some(1) => format!("{name} is written back, but one of its cache lines was not modified"),
                Some(lines) => {
                    format!("{name} is written back, but {lines} of its cache lines were not modified")
                }
                None => format!("{name} is written back as a whole, but only part of it was modified"),
            };
            let stored = self.writes.iter().filter(|write| exact.contains(&write.span));
            let advice =
                around.list(stored.map(|write| write.site)).map(|names| format!("flush only {names}"));
            around.bad(Rule::FlushUnmodified, site, message, Vec::new()).advice = advice;
        } else {
            around.verdicts.good(Rule::FlushUnmodified, place);
        }
    }

    /// Notes which flushes are waited for in time.
    pub(super) fn awaited(&self, around: &mut Surroundings, pending: bool, queued: bool) {
        let mut note = |place: PlaceId| {
            if !self.overtaken.contains(&place) {
                around.verdicts.keeps(Rule::MissingBarrier, around.function, place);
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

    /// Whether a flush takes one thing after another.
    fn sweeps(&self, around: &Surroundings, place: PlaceId, span: &Span) -> bool {
        let other = |clean: &Clean| clean.site.place == place && clean.span != *span;
        around.expressions.has_opaque(span.at.object) || self.clean.iter().any(other)
    }

    pub(super) fn fence(&mut self, around: &mut Surroundings, site: Site, drains: bool, judged: bool) {
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
                around.verdicts.good(Rule::EmptyFence, site.place);
            } else if self.drained && (self.queue_drained || !drains) {
                let message = "nothing was flushed since the last fence".to_owned();
                around.bad(Rule::EmptyFence, site, message, Vec::new()).unless_kept = true;
            } else {
                // It is not known that there is nothing.
                around.verdicts.keeps(Rule::EmptyFence, around.function, site.place);
            }
        }
        self.awaited(around, true, drains);
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
            if self.knows_transaction(around) {
                self.several_at_once(around, site, &done);
                self.split_update(around, &done);
            }
            self.epoch += 1;
        }
        self.drained = true;
        self.queue_drained |= drains;
    }
}
