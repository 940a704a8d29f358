//! Pointers that make objects reachable.

use super::context::Context;
use super::state::{Logged, Machine, Status, Write};
use crate::event::Site;
use crate::expression::{Expression, Form, Persistence};
use crate::rules::{RelatedPlace, Rule};
use crate::span::Span;

impl Machine {
    pub(super) fn is_unpublished(&self, context: &Context, object: Expression) -> bool {
        context.is_fresh(object) && !self.published.contains(&object)
    }

    /// The object that a stored value leads to.
    pub(super) fn target(&self, context: &Context, value: Expression) -> Option<Expression> {
        if matches!(context.expressions.form(value), Form::Nothing | Form::Int(_)) {
            return None;
        }
        let object = context.expressions.address(value).object;
        self.writes
            .iter()
            .map(|write| write.span.at.object)
            .find(|written| {
                *written == object
                    || matches!(context.expressions.form(*written), Form::Direct(id) if id == value)
            })
            // A pointer loaded from memory led there before; so did what a library finds.
            .filter(|found| match context.expressions.form(*found) {
                Form::Content(_) | Form::Opaque(..) | Form::Found(..) => false,
                Form::Direct(id) => {
                    !matches!(context.expressions.form(id), Form::Content(_) | Form::Opaque(..))
                }
                _ => true,
            })
    }

    pub(super) fn publish(
        &mut self,
        context: &mut Context,
        site: Site,
        to: &Span,
        value: Expression,
        logged: Logged,
    ) {
        let Some(target) = self.target(context, value) else { return };
        // Nor does an object publish anything while it is itself unreachable.
        if self.is_unpublished(context, to.at.object) {
            return;
        }
        if target == to.at.object {
            self.publish_inside(context, site, to, value, logged);
            return;
        }
        let reached = self.made_reachable(context, target, to.at.object);
        // In a transaction that logs the pointer, the object is durable before the pointer counts.
        let safe = !self.knows_transaction(context)
            || self.in_transaction() && logged != Logged::No
            || self.logs_every_store(context);
        if !safe {
            match self.lost_by(context, &reached) {
                // The remedy is to log the pointer: the object is then durable before it counts.
                lost if !lost.is_empty() && self.is_undone_by_log(context) => {
                    self.judge_unlogged(context, site);
                }
                lost => Machine::judge_publish(context, site, &lost),
            }
        }
        self.published.extend(reached);
    }

    /// The object that a pointer leads to, and those that its content leads to.
    fn made_reachable(&self, context: &Context, target: Expression, holder: Expression) -> Vec<Expression> {
        let mut reached = vec![target];
        let mut at = 0;
        while let Some(object) = reached.get(at).copied() {
            at += 1;
            for write in self.writes.iter().filter(|write| write.span.at.object == object) {
                if let Some(next) = self.target(context, write.value)
                    && !reached.contains(&next)
                    && next != holder
                    && self.is_unpublished(context, next)
                {
                    reached.push(next);
                }
            }
        }
        reached
    }

    /// The stores to reachable objects that are not durable, and their state.
    fn lost_by(&self, context: &Context, reached: &[Expression]) -> Vec<(Site, Status)> {
        let is_lost = |write: &&Write| {
            reached.contains(&write.span.at.object)
                && context.persistence(write.span.at.object) == Persistence::Surely
                && match write.status {
                    Status::Dirty | Status::Queued(_) => true,
                    // A flush that later stores cannot overtake needs no fence before the pointer.
                    Status::Pending(_, ordered) => !ordered,
                    Status::Maybe | Status::Durable => false,
                }
        };
        self.writes.iter().filter(is_lost).map(|write| (write.site, write.status)).collect()
    }

    /// Reports stores that a pointer makes reachable too early, at the line of the store that is lost.
    fn judge_publish(context: &mut Context, site: Site, lost: &[(Site, Status)]) {
        let pointer = context.name(site);
        for (stored, status) in lost {
            let name = context.name(*stored);
            let how = match status {
                Status::Dirty => "not written back",
                Status::Queued(_) => "only queued for writing back",
                _ => "written back without a fence",
            };
            let message = format!(
                "{name} can be lost after {pointer} persists: it is {how} before {pointer} makes it reachable"
            );
            let related = vec![RelatedPlace {
                role: "published",
                place: site.place,
                message: format!("{pointer} makes it reachable from here on"),
            }];
            let line = context.line(site.place, *stored);
            let advice = match status {
                Status::Pending(flush, _) => {
                    format!("fence after {}, before {line}", context.line(*flush, *stored))
                }
                _ => format!("flush {} and fence, before {line}", context.it(*stored)),
            };
            context.violates(Rule::PublishBeforePersist, *stored, message, related).advise(advice);
        }
    }

    /// A pool treated as one object contains many: a pointer into it makes what lies there reachable.
    pub(super) fn publish_inside(
        &mut self,
        context: &mut Context,
        site: Site,
        to: &Span,
        value: Expression,
        logged: Logged,
    ) {
        /// Larger nodes than this are rare, and anything beyond may be something else.
        const NODE: i64 = 256;
        let at = context.expressions.address(value);
        let near = |offset: i64| (at.offset..at.offset + NODE).contains(&offset);
        let safe = !self.knows_transaction(context) || self.in_transaction() && logged != Logged::No;
        if safe || at.element != to.at.element || near(to.at.offset) {
            return;
        }
        let is_lost = |write: &&Write| {
            write.span.at.object == at.object
                && write.span.at.element == at.element
                && near(write.span.at.offset)
                && matches!(write.status, Status::Dirty | Status::Pending(_, false) | Status::Queued(_))
        };
        let lost: Vec<(Site, Status)> =
            self.writes.iter().filter(is_lost).map(|write| (write.site, write.status)).collect();
        Machine::judge_publish(context, site, &lost);
    }
}
