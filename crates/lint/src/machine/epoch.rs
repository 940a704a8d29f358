//! Epochs and strands: what one barrier makes durable, what is split over two, what nothing orders.

use std::ops::Range;

use super::around::Surroundings;
use super::state::{Access, Machine, Status, Write};
use crate::event::Site;
use crate::rules::{Beside, Model, Rule};
use crate::span::{Meets, Span};

impl Machine {
    /// Strict persistency: one barrier, one store.
    pub(super) fn several_at_once(&self, around: &mut Surroundings, site: Site, done: &[usize]) {
        if around.model != Model::Strict {
            return;
        }
        let outside: Vec<&Write> = done
            .iter()
            .map(|at| &self.writes[*at])
            .filter(|write| around.pedantic || !write.unpublished && write.transaction == 0)
            .collect();
        let Some(first) = outside.first() else { return };
        let alignment = around.alignment(first.span.at.object);
        let other = outside.iter().skip(1).find(|write| {
            write.span != first.span
                && write.site.place != first.site.place
                && (around.pedantic || !first.span.same_line(&write.span, alignment))
        });
        match other {
            Some(other) => {
                let beside = vec![
                    Beside { role: "stored", place: first.site.place, message: around.name(first.site) },
                    Beside { role: "stored", place: other.site.place, message: around.name(other.site) },
                ];
                let message = format!(
                    "one barrier makes {} and {} durable, in any order",
                    around.name(first.site),
                    around.name(other.site)
                );
                let advice =
                    format!("persist {} before storing {}", around.name(first.site), around.name(other.site));
                around.bad(Rule::MultipleWritesAtOnce, site, message, beside).advise(advice);
            }
            None => around.verdicts.good(Rule::MultipleWritesAtOnce, site.place),
        }
    }

    /// Consecutive epochs on fields of one object.
    pub(super) fn split_update(&self, around: &mut Surroundings, done: &[usize]) {
        // Strict persistency wants just that: one store after the other.
        if around.model == Model::Strict && !around.pedantic {
            return;
        }
        for at in done {
            let later = &self.writes[*at];
            if later.transaction > 0 || (later.unpublished && !around.pedantic) {
                continue;
            }
            let alignment = around.alignment(later.span.at.object);
            let earlier = self.writes.iter().rev().find(|earlier| {
                earlier.status == Status::Durable
                    && earlier.epoch + 1 == self.epoch
                    && !done.contains(&(self.position(earlier)))
                    && earlier.transaction == 0
                    && earlier.span.at.object == later.span.at.object
                    && earlier.span.contains(&later.span) == Meets::Never
                    && later.span.contains(&earlier.span) == Meets::Never
                    && !earlier.span.same_line(&later.span, alignment)
            });
            let Some(earlier) = earlier else { continue };
            if !around.pedantic && self.is_protocol(around, earlier, later) {
                continue;
            }
            let beside = vec![Beside {
                role: "first",
                place: earlier.site.place,
                message: format!("{} is durable an epoch before", around.name(earlier.site)),
            }];
            let message = format!(
                "{} and {} belong to one object, but become durable in different epochs: a crash between \
                 leaves one without the other",
                around.name(earlier.site),
                around.name(later.site)
            );
            let advice = format!(
                "make {} and {} durable at once, in a transaction, or order them by a protocol",
                around.name(earlier.site),
                around.name(later.site)
            );
            around.bad(Rule::SplitUpdate, later.site, message, beside).advise(advice);
        }
    }

    pub(super) fn position(&self, write: &Write) -> usize {
        self.writes.iter().position(|other| std::ptr::eq(other, write)).unwrap_or(usize::MAX)
    }

    /// Ways to order stores on purpose.
    pub(super) fn is_protocol(&self, around: &Surroundings, earlier: &Write, later: &Write) -> bool {
        // What different functions do is seldom meant as one update, and a loop takes one element after the other.
        if earlier.site.call.is_some() || later.site.call.is_some() || earlier.site.place == later.site.place
        {
            return true;
        }
        let scalar =
            |write: &Write| !write.bulk && write.span.bytes().is_some_and(|(from, to)| to - from <= 8);
        // Data, then the number, pointer or flag that makes it valid.
        if !scalar(earlier) && scalar(later)
            || earlier.span.at.element.is_some() && later.span.at.element.is_none()
        {
            return true;
        }
        // The pointer that makes something reachable comes last.
        let led_to = around.expressions.address(later.value).object;
        if self.writes.iter().any(|write| write.span.at.object == led_to) {
            return true;
        }
        // A flag that is set before and cleared after, or a state that goes on: one of both is stored to again.
        let rewritten = |span: &Span| self.writes.iter().filter(|write| write.span == *span).count() > 1;
        if rewritten(&earlier.span) || rewritten(&later.span) {
            return true;
        }
        // A flag: set to a constant before, or as the last step.
        let constant = |write: &Write| around.expressions.as_int(write.value).is_some();
        constant(earlier) || constant(later)
    }

    /// Flushes of that time that nothing waited for.
    pub(super) fn missing_barrier(
        &mut self,
        around: &mut Surroundings,
        rule: Rule,
        flushed: Range<u32>,
        when: &str,
        at: Site,
    ) {
        let open: Vec<(Site, bool)> = self
            .clean
            .iter()
            .filter(|clean| (clean.pending || clean.queued) && flushed.contains(&clean.number))
            .map(|clean| (clean.site, clean.queued))
            .collect();
        // One barrier is missing, after the last of them.
        let Some(((site, queued), before)) = open.split_last() else { return };
        let name = around.name(*site);
        let how = if *queued { "is only queued for writing back" } else { "is flushed" };
        let message = format!("{name} {how}, but nothing waits for it before {when}");
        let mut beside = vec![Beside { role: "too late", place: at.place, message: format!("{when} here") }];
        beside.extend(before.iter().filter(|(other, _)| other.place != site.place).map(|(other, _)| {
            Beside {
                role: "also",
                place: other.place,
                message: format!("nothing waits for {} either", around.name(*other)),
            }
        }));
        self.overtaken.extend(open.iter().map(|(site, _)| site.place));
        // A callee that begins a transaction now and then, for itself, is not what comes next here.
        let advice = match *queued {
            true => format!("drain the queue after this, before {}", around.line(at.place, *site)),
            false => format!("fence after this flush, before {}", around.line(at.place, *site)),
        };
        let verdict = around.bad(rule, *site, message, beside);
        verdict.unless_kept |= at.call.is_some();
        verdict.advise(advice);
    }

    pub(super) fn epoch_end(&mut self, around: &mut Surroundings, end: Site) {
        let Some((_, from)) = self.epochs_open.pop() else { return };
        let rule =
            if self.epochs_open.is_empty() { Rule::MissingBarrier } else { Rule::MissingBarrierNested };
        self.missing_barrier(around, rule, from + 1..self.number, "the epoch ends", end);
        for write in &self.writes {
            if write.number > from && write.status == Status::Dirty && !write.nontemporal {
                let site = write.site;
                let message = format!("{} is not written back before its epoch ends", around.name(site));
                let advice =
                    format!("flush {} and fence, before {}", around.name(site), around.line(end.place, site));
                around.bad(Rule::UnflushedWrite, site, message, Vec::new()).advise(advice);
            }
        }
    }

    pub(super) fn access(&mut self, around: &mut Surroundings, site: Site, span: Span, write: bool) {
        let Some(strand) = self.strand.filter(|_| around.model == Model::Strand) else { return };
        let other = self.accesses.iter().find(|other| {
            other.strand != strand
                && other.write
                && (other.span.contains(&span) != Meets::Never || span.contains(&other.span) != Meets::Never)
        });
        if let Some(other) = other {
            let name = around.name(site);
            let what = if write { "stored to" } else { "read" };
            let beside = vec![Beside {
                role: "first",
                place: other.site.place,
                message: "stored to in another strand".into(),
            }];
            let message =
                format!("{name} is {what} in a strand that nothing orders after the strand that stored it");
            around.bad(Rule::ConcurrentStrands, site, message, beside);
        }
        self.accesses.push(Access { span, site, strand, write });
    }
}
