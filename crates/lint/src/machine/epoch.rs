//! Epochs and strands: several stores per barrier, updates split over two epochs, unordered accesses.

use std::ops::Range;

use super::context::Context;
use super::state::{Access, Machine, Status, Write};
use crate::event::Site;
use crate::rules::{Model, RelatedPlace, Rule};
use crate::span::{Meets, Span};

impl Machine {
    /// Strict persistency: one store per barrier.
    pub(super) fn several_at_once(&self, context: &mut Context, site: Site, done: &[usize]) {
        if context.model != Model::Strict {
            return;
        }
        let outside: Vec<&Write> = done
            .iter()
            .map(|at| &self.writes[*at])
            .filter(|write| context.pedantic || !write.unpublished && write.transaction == 0)
            .collect();
        let Some(first) = outside.first() else { return };
        let alignment = context.alignment_of(&first.span);
        let other = outside.iter().skip(1).find(|write| {
            write.span != first.span
                && write.site.place != first.site.place
                && (context.pedantic || !first.span.same_line(&write.span, alignment))
        });
        match other {
            Some(other) => {
                let related = vec![
                    RelatedPlace {
                        role: "stored",
                        place: first.site.place,
                        message: context.name(first.site),
                    },
                    RelatedPlace {
                        role: "stored",
                        place: other.site.place,
                        message: context.name(other.site),
                    },
                ];
                let message = format!(
                    "one barrier makes {} and {} durable, in any order",
                    context.name(first.site),
                    context.name(other.site)
                );
                let advice = format!(
                    "persist {} before storing {}",
                    context.name(first.site),
                    context.name(other.site)
                );
                context.violates(Rule::MultipleWritesAtOnce, site, message, related).advise(advice);
            }
            None => context.verdicts.satisfies(Rule::MultipleWritesAtOnce, site.place),
        }
    }

    /// Consecutive epochs on fields of one object.
    pub(super) fn split_update(&self, context: &mut Context, done: &[usize]) {
        // Strict persistency requires exactly that: one store after another.
        if context.model == Model::Strict && !context.pedantic {
            return;
        }
        for at in done {
            let later = &self.writes[*at];
            if later.transaction > 0 || (later.unpublished && !context.pedantic) {
                continue;
            }
            let alignment = context.alignment_of(&later.span);
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
            if !context.pedantic && self.is_protocol(context, earlier, later) {
                continue;
            }
            let related = vec![RelatedPlace {
                role: "first",
                place: earlier.site.place,
                message: format!("{} is durable an epoch before", context.name(earlier.site)),
            }];
            let message = format!(
                "{} and {} belong to one object, but become durable in different epochs: a crash between \
                 leaves one without the other",
                context.name(earlier.site),
                context.name(later.site)
            );
            let advice = format!(
                "make {} and {} durable at once, in a transaction, or order them by a protocol",
                context.name(earlier.site),
                context.name(later.site)
            );
            context.violates(Rule::SplitUpdate, later.site, message, related).advise(advice);
        }
    }

    pub(super) fn position(&self, write: &Write) -> usize {
        self.writes.iter().position(|other| std::ptr::eq(other, write)).unwrap_or(usize::MAX)
    }

    /// Whether a known protocol explains the order of two stores.
    pub(super) fn is_protocol(&self, context: &Context, earlier: &Write, later: &Write) -> bool {
        // Stores of different functions are seldom one update, and a loop processes one element after another.
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
        let led_to = context.expressions.address(later.value).object;
        if self.writes.iter().any(|write| write.span.at.object == led_to) {
            return true;
        }
        // A flag that is set before and cleared after, or a state machine: one of the two is stored to twice.
        let rewritten = |span: &Span| self.writes.iter().filter(|write| write.span == *span).count() > 1;
        if rewritten(&earlier.span) || rewritten(&later.span) {
            return true;
        }
        // A flag: set to a constant before, or as the last step.
        let constant = |write: &Write| context.expressions.as_int(write.value).is_some();
        constant(earlier) || constant(later)
    }

    /// Flushes in a range of events that were not fenced.
    pub(super) fn missing_barrier(
        &mut self,
        context: &mut Context,
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
        let name = context.name(*site);
        let how = if *queued { "is only queued for writing back" } else { "is flushed" };
        let message = format!("{name} {how}, but no fence follows before {when}");
        let mut related =
            vec![RelatedPlace { role: "too late", place: at.place, message: format!("{when} here") }];
        related.extend(before.iter().filter(|(other, _)| other.place != site.place).map(|(other, _)| {
            RelatedPlace {
                role: "also",
                place: other.place,
                message: format!("nothing waits for {} either", context.name(*other)),
            }
        }));
        self.overtaken.extend(open.iter().map(|(site, _)| site.place));
        // A callee that begins its own transaction on some paths is not a barrier that the caller forgot.
        let advice = match *queued {
            true => format!("drain the queue after this, before {}", context.line(at.place, *site)),
            false => format!("fence after this flush, before {}", context.line(at.place, *site)),
        };
        let verdict = context.violates(rule, *site, message, related);
        verdict.ordered = false;
        verdict.unless_deliberate |= at.call.is_some();
        verdict.advise(advice);
    }

    pub(super) fn epoch_end(&mut self, context: &mut Context, end: Site) {
        let Some((_, from)) = self.epochs_open.pop() else { return };
        let rule =
            if self.epochs_open.is_empty() { Rule::MissingBarrier } else { Rule::MissingBarrierNested };
        self.missing_barrier(context, rule, from + 1..self.number, "the epoch ends", end);
        for write in &self.writes {
            if write.number > from && write.status == Status::Dirty && !write.nontemporal {
                let site = write.site;
                let message = format!("{} is not written back before its epoch ends", context.name(site));
                let advice = format!(
                    "flush {} and fence, before {}",
                    context.name(site),
                    context.line(end.place, site)
                );
                context.violates(Rule::UnflushedWrite, site, message, Vec::new()).advise(advice);
            }
        }
    }

    pub(super) fn access(&mut self, context: &mut Context, site: Site, span: Span, write: bool) {
        let Some(strand) = self.strand.filter(|_| context.model == Model::Strand) else { return };
        let other = self.accesses.iter().find(|other| {
            other.strand != strand
                && other.write
                && (other.span.contains(&span) != Meets::Never || span.contains(&other.span) != Meets::Never)
        });
        if let Some(other) = other {
            let name = context.name(site);
            let what = if write { "stored to" } else { "read" };
            let related = vec![RelatedPlace {
                role: "first",
                place: other.site.place,
                message: "stored to in another strand".into(),
            }];
            let message =
                format!("{name} is {what} in a strand that nothing orders after the strand that stored it");
            context.violates(Rule::ConcurrentStrands, site, message, related);
        }
        self.accesses.push(Access { span, site, strand, write });
    }
}
