//! Unknown code, the end of a callee and the end of a path: what can be judged there.

use px86::order::Class;
use rustc_hash::FxHashSet;

use super::context::Context;
use super::state::{Exit, Machine, Status, Write, stage};
use crate::event::{Event, Kind, Site, UnknownCode};
use crate::expression::{Expression, Persistence};
use crate::gap::Gap;
use crate::rules::{RelatedPlace, Rule};
use crashproof_findings::plain_function;
use crashproof_frontend::program::ir::PlaceId;

impl Machine {
    /// Whether the state of a store depends on unknown code, which was given the object or may fence a pending flush.
    pub(super) fn depends_on_unknown(&self, objects: &[Expression]) -> bool {
        self.writes.iter().any(|write| match write.status {
            Status::Pending(..) | Status::Queued(_) => true,
            Status::Dirty | Status::Maybe => objects.contains(&write.span.at.object),
            Status::Durable => false,
        })
    }

    pub(super) fn unknown(&mut self, context: &mut Context, objects: &[Expression]) {
        // It may also fence.
        self.awaited(context, true, true);
        for object in objects {
            // It may have stored to more of it.
            if !self.cut_short.contains(object) {
                self.cut_short.push(*object);
            }
            for write in &mut self.writes {
                if write.span.at.object == *object && write.status != Status::Durable {
                    write.status = Status::Maybe;
                }
            }
            self.clean.retain(|clean| {
                clean.span.at.object != *object && !context.may_be_same(clean.span.at.object, *object)
            });
        }
        for log in &mut self.logs {
            log.uncertain = true;
        }
        for clean in &mut self.clean {
            (clean.pending, clean.queued) = (false, false);
        }
        for write in &mut self.writes {
            if matches!(write.status, Status::Pending(..) | Status::Queued(_)) {
                write.status = Status::Durable;
            }
        }
        (self.drained, self.queue_drained) = (false, false);
        self.change();
    }

    /// What a path leaves open, as fewer events than those that led there: a fence if there was one, then stores that
    /// are not durable, with their flushes. `None` if the path involved transactions, epochs or strands.
    pub(crate) fn what_is_open(&self, context: &mut Context) -> Option<Vec<Event>> {
        let is_plain = self.transactions.is_empty()
            && self.logs.is_empty()
            && self.epochs_open.is_empty()
            && self.strand.is_none()
            && self.begun.is_none()
            && !self.inside_callers
            && self.tolerates == 0;
        if !is_plain || self.writes.is_empty() {
            return None;
        }
        self.judge_overtaken(context);
        self.judge_early(context);
        let mut events = Vec::new();
        let mut unsure: Vec<Expression> = self.cut_short.clone();
        for write in self.writes.iter().filter(|write| write.status == Status::Maybe) {
            if !unsure.contains(&write.span.at.object) {
                unsure.push(write.span.at.object);
            }
        }
        let site = self.writes[0].site;
        if !unsure.is_empty() {
            let kind = Kind::Unknown { objects: unsure, code: UnknownCode::NotWalked };
            events.push(Event { kind, site });
        } else if self.last_fence > 0 {
            events.push(Event { kind: Kind::Fence { class: Class::Fence, drains: true }, site });
        }
        for write in &self.writes {
            let &Write { span, value, nontemporal, bulk, site, .. } = write;
            let store = Event { kind: Kind::Store { span, value, nontemporal, bulk }, site };
            match write.status {
                Status::Durable | Status::Maybe => {}
                Status::Dirty => events.push(store),
                Status::Pending(place, ordered) => {
                    events.push(store);
                    let class = if ordered { Class::Flush } else { Class::FlushOpt };
                    events.push(Event {
                        kind: Kind::Flush { span, class, pages: false },
                        site: Site { place, ..site },
                    });
                }
                Status::Queued(place) => {
                    events.push(store);
                    events.push(Event { kind: Kind::Queue { span }, site: Site { place, ..site } });
                }
            }
        }
        Some(events)
    }

    /// The end of a callee that began at event `from`, inside a transaction: what it wrote and flushed must be waited
    /// for (Table 4, nested transactions).
    pub(crate) fn callee_ends(&mut self, context: &mut Context, from: u32, name: &str) {
        // Code that fences only on some paths relies on the transaction's fence.
        for clean in self.clean.iter().filter(|clean| clean.number > from && !clean.pending) {
            context.verdicts.satisfies(Rule::MissingBarrierNested, clean.site.place);
        }
        if !self.in_transaction() || self.stage() != stage::WORK {
            return;
        }
        // Code that logs to the open transaction is part of it, and its commit fences.
        if self.logs.iter().any(|log| log.number > from) {
            return;
        }
        let open: Vec<Site> = self
            .writes
            .iter()
            .filter(|write| write.number > from && !write.unpublished)
            .filter_map(|write| match write.status {
                Status::Pending(place, _) => Some(Site { place, ..write.site }),
                _ => None,
            })
            .collect();
        for site in open {
            let memory = context.name(site);
            let message =
                format!("{memory} is flushed, but not fenced before `{name}` returns into a transaction");
            let advice = format!("fence after this flush, before `{name}` returns");
            context.violates(Rule::MissingBarrierNested, site, message, Vec::new()).advise(advice);
        }
    }

    /// Drops stores that a library function failed to make.
    pub(crate) fn forget_stores(&mut self, at: &FxHashSet<PlaceId>) {
        self.writes.retain(|write| write.status == Status::Durable || !at.contains(&write.site.place));
    }

    /// The end of a callee that began at event `from` and returned a failure.
    pub(crate) fn callee_failed(&mut self, from: u32) {
        for write in self.writes.iter_mut().filter(|write| write.number > from) {
            write.failed = true;
        }
    }

    /// The end of a path: the next caller may drain what is still queued.
    pub(crate) fn hands_over(&self, context: &mut Context) {
        self.awaited(context, false, true);
    }

    /// The end of a path through a function without callers in the program.
    pub(crate) fn path_ends(&mut self, context: &mut Context, exit: Exit) {
        if self.in_transaction() || self.inside_callers {
            return;
        }
        self.judge_overtaken(context);
        self.judge_early(context);
        // A failure abandons unreachable new objects, and a library undoes changes to its own objects. All other
        // earlier stores are permanent.
        for write in &self.writes {
            let object = write.span.at.object;
            let given_up =
                write.unpublished && !self.published.contains(&object) || context.is_of_a_library(object);
            let has_failed = exit == Exit::Failure || write.failed;
            let lenient = has_failed && given_up && !context.pedantic;
            let site = write.site;
            let sure = context.persistence(write.span.at.object) == Persistence::Surely;
            let sure = sure && self.is_cared_for(context, write.span.at.object);
            // Who gives up between flush and fence leaves nothing that counts: the fence would come with what makes it count.
            let is_on_its_way = matches!(write.status, Status::Pending(..))
                || write.status == Status::Dirty && write.nontemporal;
            match write.status {
                _ if !sure || is_on_its_way && has_failed && !context.pedantic => {}
                Status::Dirty if write.nontemporal && !lenient => {
                    let message = format!("{} is stored past the cache, but not fenced", context.name(site));
                    let advice = format!(
                        "fence after this store, before `{}` returns",
                        plain_function(context.inside(site.place))
                    );
                    let verdict = context.violates(Rule::MissingBarrier, site, message, Vec::new());
                    verdict.ordered = false;
                    verdict.advise(advice);
                }
                Status::Dirty if !lenient => {
                    let message = format!("{} is stored to, but never written back", context.name(site));
                    // A flush of another function says little about this store.
                    let function = context.inside(site.place);
                    let other = self.clean.iter().rev().find(|clean| {
                        clean.span.at.object == write.span.at.object
                            && context.inside(clean.site.place) == function
                    });
                    let related = other.map(|clean| RelatedPlace {
                        role: "flush",
                        place: clean.site.place,
                        message: format!(
                            "this writes back {}, not what was stored",
                            context.name(clean.site)
                        ),
                    });
                    let (it, returns) = (context.it(site), plain_function(context.inside(site.place)));
                    let advice = format!("flush {it} after this store, and fence before `{returns}` returns");
                    let related = related.into_iter().collect();
                    context.violates(Rule::UnflushedWrite, site, message, related).advise(advice);
                }
                // The queue may be drained later, unless a fence shows that this was meant to happen here.
                Status::Queued(_) if self.last_fence < write.number => {}
                // A copy with a length from the caller is a utility: the caller fences.
                Status::Pending(..)
                    if write.bulk
                        && write.span.bytes().is_none()
                        && context.is_parameter(write.span.at.object) => {}
                Status::Pending(place, ordered) if !lenient => {
                    let related = vec![RelatedPlace {
                        role: "stored",
                        place: site.place,
                        message: "stored here".into(),
                    }];
                    let name = context.name(site);
                    let message = format!("{name} is flushed, but not fenced");
                    // An ordered flush without a fence is only late: no later store persists before it.
                    let advice = format!(
                        "fence after this flush, before `{}` returns",
                        plain_function(context.inside(place))
                    );
                    let verdict =
                        context.violates(Rule::MissingBarrier, Site { place, ..site }, message, related);
                    verdict.unless_deliberate |= ordered;
                    verdict.ordered &= ordered;
                    verdict.advise(advice);
                }
                Status::Queued(place) if !lenient => {
                    let related = vec![RelatedPlace {
                        role: "stored",
                        place: site.place,
                        message: "stored here".into(),
                    }];
                    let name = context.name(site);
                    let message = format!("{name} is queued for writing back, but nothing drains the queue");
                    context
                        .violates(Rule::MissingBarrier, Site { place, ..site }, message, related)
                        .ordered = false;
                }
                Status::Durable | Status::Maybe => {
                    if let (Status::Maybe, Some(flush)) = (write.status, write.perhaps) {
                        context.verdicts.gaps.add(Gap::Flush, flush);
                    }
                    context.verdicts.satisfies(Rule::UnflushedWrite, site.place);
                }
                _ => {}
            }
        }
    }
}
