//! Where knowledge ends: unknown code, the end of a callee, the end of a path.

use super::around::Surroundings;
use super::state::{Exit, Machine, Status, stage};
use crate::event::Site;
use crate::expression::{Expression, Persistence};
use crate::rules::{Beside, Rule};

impl Machine {
    /// Whether unknown code decides over the state of a store: it was given the object, or may fence what is on its way.
    pub(super) fn depends_on_unknown(&self, objects: &[Expression]) -> bool {
        self.writes.iter().any(|write| match write.status {
            Status::Pending(..) | Status::Queued(_) => true,
            Status::Dirty | Status::Maybe => objects.contains(&write.span.at.object),
            Status::Durable => false,
        })
    }

    pub(super) fn unknown(&mut self, around: &mut Surroundings, objects: &[Expression]) {
        // It may wait as well.
        self.awaited(around, true, true);
        for object in objects {
            // It may have stored more of it.
            if !self.cut_short.contains(object) {
                self.cut_short.push(*object);
            }
            for write in &mut self.writes {
                if write.span.at.object == *object && write.status != Status::Durable {
                    write.status = Status::Maybe;
                }
            }
            self.clean.retain(|clean| {
                clean.span.at.object != *object && !around.may_be_same(clean.span.at.object, *object)
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

    /// The end of a callee that began at event `from`, inside a transaction: what it wrote and flushed must
    /// be waited for (Table 4, nested transactions).
    pub(crate) fn callee_ends(&mut self, around: &mut Surroundings, from: u32, name: &str) {
        // Whoever waits in one place and not in another knows that the transaction waits.
        for clean in self.clean.iter().filter(|clean| clean.number > from && !clean.pending) {
            around.verdicts.good(Rule::MissingBarrierNested, clean.site.place);
        }
        if !self.in_transaction() || self.stage() != stage::WORK {
            return;
        }
        // What logs into the open transaction is a part of it, and its commit waits for all.
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
            let memory = around.name(site);
            let message = format!(
                "{memory} is flushed, but nothing waits for it before `{name}` returns into a transaction"
            );
            let advice = format!("fence after this flush, before `{name}` returns");
            around.bad(Rule::MissingBarrierNested, site, message, Vec::new()).advise(advice);
        }
    }

    /// The end of a callee that began at event `from`, and returned what means failure.
    pub(crate) fn callee_failed(&mut self, from: u32) {
        for write in self.writes.iter_mut().filter(|write| write.number > from) {
            write.failed = true;
        }
    }

    /// The end of a path: what is still queued may be drained by whoever comes next.
    pub(crate) fn hands_over(&self, around: &mut Surroundings) {
        self.awaited(around, false, true);
    }

    /// The end of a path through a function that nobody in the program calls.
    pub(crate) fn path_ends(&mut self, around: &mut Surroundings, exit: Exit) {
        if self.in_transaction() || self.inside_callers {
            return;
        }
        // What is left behind where something failed is seldom used.
        for write in &self.writes {
            let lenient = (exit == Exit::Failure || write.failed) && !around.pedantic;
            let site = write.site;
            let sure = around.persistence(write.span.at.object) == Persistence::Surely;
            let sure = sure && self.is_cared_for(around, write.span.at.object);
            match write.status {
                _ if !sure => {}
                Status::Dirty if write.nontemporal && !lenient => {
                    let message =
                        format!("{} is stored past the cache, but nothing waits for it", around.name(site));
                    let advice =
                        format!("fence after this store, before `{}` returns", around.inside(site.place));
                    around.bad(Rule::MissingBarrier, site, message, Vec::new()).advise(advice);
                }
                Status::Dirty if !lenient => {
                    let message = format!("{} is stored to, but never written back", around.name(site));
                    let other =
                        self.clean.iter().rev().find(|clean| clean.span.at.object == write.span.at.object);
                    let beside = other.map(|clean| Beside {
                        role: "flush",
                        place: clean.site.place,
                        message: format!("this writes back {}, not what was stored", around.name(clean.site)),
                    });
                    let (it, returns) = (around.it(site), around.inside(site.place));
                    let advice = format!("flush {it} after this store, and fence before `{returns}` returns");
                    let beside = beside.into_iter().collect();
                    around.bad(Rule::UnflushedWrite, site, message, beside).advise(advice);
                }
                // What is queued may be left to whoever drains the queue, unless somebody took a fence for that.
                Status::Queued(_) if self.last_fence < write.number => {}
                // A copy of as much as the caller says is a service: the caller waits when it is done.
                Status::Pending(..)
                    if write.bulk
                        && write.span.bytes().is_none()
                        && around.is_parameter(write.span.at.object) => {}
                Status::Pending(place, ordered) if !lenient => {
                    let beside =
                        vec![Beside { role: "stored", place: site.place, message: "stored here".into() }];
                    let name = around.name(site);
                    let message = format!("{name} is flushed, but nothing waits for it");
                    // Without a fence it is only late: nothing stored later becomes durable before it.
                    let advice = format!("fence after this flush, before `{}` returns", around.inside(place));
                    let verdict = around.bad(Rule::MissingBarrier, Site { place, ..site }, message, beside);
                    verdict.unless_kept |= ordered;
                    verdict.advise(advice);
                }
                Status::Queued(place) if !lenient => {
                    let beside =
                        vec![Beside { role: "stored", place: site.place, message: "stored here".into() }];
                    let name = around.name(site);
                    let message = format!("{name} is queued for writing back, but nothing drains the queue");
                    around.bad(Rule::MissingBarrier, Site { place, ..site }, message, beside);
                }
                Status::Durable | Status::Maybe => {
                    around.verdicts.good(Rule::UnflushedWrite, site.place);
                }
                _ => {}
            }
        }
    }
}
