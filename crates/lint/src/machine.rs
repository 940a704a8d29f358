//! What is known of persistent memory at a point of a path, and the rules that are judged there.
//!
//! The machine reads the events of one path. For each store it knows whether the data is still only in the
//! cache, queued or on its way, or durable; for each flush, whether anything was stored there since. It is a
//! function of the trace, so paths with the same trace have the same machine.
//!
//! # Where the rules are from
//!
//! Tables 4 and 5 of the DeepMC paper (PPoPP 2022), sections 3.2, 3.3 and 4.3. What differs at the default
//! level, and is the paper's literal rule under `pedantic`:
//!
//! 1. Lines and words decide, not fields: what lies on a line that is written back anyway costs nothing and
//!    is not lost (`crate::span`). Ordering is asked of `px86`.
//! 2. Objects that nothing points to yet may be built in any order.
//! 3. Consecutive epochs on one object are a mistake only if no protocol explains them: data before the
//!    number or flag that makes it valid, or a flag set before and cleared after.
//! 4. What a caller may have stored or will flush is left to the caller.

use px86::order::{Class, preserved};
use px86::{LINE_BYTES, Line};

use crate::api::Apis;
use crate::dsa::FunctionGraph;
use crate::event::{Event, Kind, Names, Site};
use crate::expression::{Expression, Expressions, Form};
use crate::ir::{FunctionId, Operand, PlaceId, Program};
use crate::rules::{Beside, Model, Rule, Verdicts};
use crate::span::{Meets, Span};

/// Where data is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
enum Status {
    /// In the cache only.
    Dirty,
    /// Possibly written back.
    Maybe,
    /// Remembered for a later flush.
    Queued(PlaceId),
    /// On its way.
    Pending(PlaceId, bool),
    Durable,
}

/// Whether a transaction can undo a store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
enum Logged {
    No,
    Maybe,
    Yes,
}

#[derive(Clone, Debug)]
struct Write {
    span: Span,
    value: Expression,
    site: Site,
    status: Status,
    logged: Logged,
    nontemporal: bool,
    bulk: bool,
    /// In this transaction, counted from 1; 0 for none.
    transaction: u32,
    /// The number of the epoch, and the place among all events.
    epoch: u32,
    number: u32,
    /// Whether nothing pointed to the object.
    unpublished: bool,
}

/// A range that was written back and not touched since.
#[derive(Clone, Debug)]
struct Clean {
    span: Span,
    site: Site,
    pending: bool,
    queued: bool,
    number: u32,
}

#[derive(Clone, Debug)]
struct Log {
    span: Span,
    site: Site,
    number: u32,
}

#[derive(Clone, Debug)]
struct Transaction {
    site: Site,
    framework: usize,
    stage: i64,
    changed: bool,
    number: u32,
}

#[derive(Clone, Debug)]
struct Access {
    span: Span,
    site: Site,
    strand: u32,
    write: bool,
}

/// PMDK's names for the stages of a transaction.
pub(crate) mod stage {
    pub(crate) const NONE: i64 = 0;
    pub(crate) const WORK: i64 = 1;
    pub(crate) const ON_COMMIT: i64 = 2;
    pub(crate) const FINALLY: i64 = 4;
}

/// What the machine needs from around it.
pub(crate) struct Surroundings<'a> {
    pub(crate) program: &'a Program,
    pub(crate) apis: &'a Apis,
    pub(crate) expressions: &'a mut Expressions,
    pub(crate) names: &'a Names,
    pub(crate) verdicts: &'a mut Verdicts,
    pub(crate) graph: &'a FunctionGraph,
    pub(crate) function: FunctionId,
    /// The parameter that is a fresh object, if the function is a constructor.
    pub(crate) constructed: Option<u32>,
    /// Nobody in the program calls the function, so nothing can be left to a caller.
    pub(crate) is_root: bool,
    pub(crate) model: Model,
    pub(crate) pedantic: bool,
}

/// How sure it is that memory is persistent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Persistence {
    Surely,
    /// For some callers.
    Perhaps,
    No,
}

impl Surroundings<'_> {
    /// The cell of the graph that an address lies in.
    fn cell(&self, expression: Expression) -> Option<crate::dsa::Cell> {
        let graph = self.graph;
        match self.expressions.form(expression) {
            Form::Parameter(number) => graph.lookup(Operand::Parameter(number)),
            Form::Global(id) => graph.lookup(Operand::Global(id, 0)),
            Form::Local(function, number) if function == self.function => {
                graph.lookup(Operand::Instruction(number))
            }
            Form::Plus(inner, offset) => {
                let cell = self.cell(inner)?;
                Some(crate::dsa::Cell { node: cell.node, offset: cell.offset + offset })
            }
            Form::Element(inner, ..) => self.cell(inner),
            Form::Content(address) => graph.graph.edge(self.cell(address)?),
            _ => None,
        }
    }

    /// Whether an address is in persistent memory.
    pub(crate) fn persistence(&self, address: Expression) -> Persistence {
        let object = self.expressions.address(address).object;
        match self.expressions.form(object) {
            Form::Mapped(_) | Form::Fresh(_) | Form::Direct(_) => Persistence::Surely,
            Form::Opaque(_, true) => Persistence::Surely,
            Form::Global(id) => {
                let section = &self.program.globals[id.0 as usize].section;
                let persistent = self.apis.sections.iter().any(|known| known == section);
                if persistent { Persistence::Surely } else { Persistence::No }
            }
            Form::Parameter(_) | Form::Content(_) => match self.cell(address) {
                Some(cell) => {
                    let flags = self.graph.graph.flags(cell);
                    if !flags.persistent || self.graph.graph.is_volatile_part(cell) {
                        Persistence::No
                    } else if flags.volatile() {
                        Persistence::Perhaps
                    } else {
                        Persistence::Surely
                    }
                }
                None => Persistence::No,
            },
            _ => Persistence::No,
        }
    }

    fn alignment(&self, object: Expression) -> u64 {
        match self.expressions.form(object) {
            Form::Global(id) => self.program.globals[id.0 as usize].alignment,
            _ => 8,
        }
    }

    /// The object was allocated on this path, and nothing points to it unless the path stored a pointer.
    fn is_fresh(&self, object: Expression) -> bool {
        match self.expressions.form(object) {
            Form::Fresh(_) => true,
            Form::Direct(id) => matches!(self.expressions.form(id), Form::FreshId(_)),
            Form::Parameter(number) => self.constructed == Some(number),
            _ => false,
        }
    }

    fn is_parameter(&self, object: Expression) -> bool {
        matches!(self.expressions.form(object), Form::Parameter(_))
    }

    /// Two objects that are written differently may be the same.
    fn may_be_same(&self, left: Expression, right: Expression) -> bool {
        if left == right {
            return true;
        }
        if self.is_fresh(left) || self.is_fresh(right) {
            return false;
        }
        self.expressions.has_opaque(left) || self.expressions.has_opaque(right)
    }

    fn name(&self, site: Site) -> String {
        match self.names.text(site.name) {
            "" => "persistent memory".into(),
            name => format!("`{name}`"),
        }
    }

    fn by_call(&self, site: Site, beside: &mut Vec<Beside>) {
        if let Some(call) = site.call {
            beside.push(Beside { role: "call", place: call, message: "reached through this call".into() });
        }
    }

    fn bad(&mut self, rule: Rule, site: Site, message: String, mut beside: Vec<Beside>) {
        self.by_call(site, &mut beside);
        self.verdicts.bad(rule, site, || (message, beside));
    }
}

/// How a path ends, as far as rules care.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    Normal,
    /// It returns what means failure.
    Failure,
}

/// The state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    writes: Vec<Write>,
    clean: Vec<Clean>,
    logs: Vec<Log>,
    transactions: Vec<Transaction>,
    epochs_open: Vec<(Site, u32)>,
    accesses: Vec<Access>,
    strand: Option<u32>,
    strands: u32,
    published: Vec<Expression>,
    /// Objects of which something was flushed or logged: whoever does that takes them for persistent.
    cared_for: Vec<Expression>,
    /// Something was logged although no transaction is open: a caller has one.
    inside_callers: bool,
    /// When something was last waited for.
    last_fence: u32,
    /// Nothing is on its way, for sure.
    drained: bool,
    /// Nothing is queued, for sure.
    queue_drained: bool,
    epoch: u32,
    number: u32,
}

/// A path of so many stores is not remembered in full: the oldest that are durable are forgotten.
const MAX_WRITES: usize = 400;

impl Machine {
    pub(crate) fn in_transaction(&self) -> bool {
        !self.transactions.is_empty()
    }

    /// The stage of the innermost transaction.
    pub(crate) fn stage(&self) -> i64 {
        self.transactions.last().map_or(stage::NONE, |transaction| transaction.stage)
    }

    /// How far the path is; what comes later is told apart by it.
    pub(crate) fn now(&self) -> u32 {
        self.number
    }

    /// What matters for the rest of the path, by places rather than by values. Loops that change nothing of
    /// this are done.
    pub(crate) fn signature(&self) -> u64 {
        use std::hash::{Hash, Hasher};
        let mut hasher = rustc_hash::FxHasher::default();
        let mut writes: Vec<_> =
            self.writes.iter().map(|w| (w.site.place, w.status, w.logged, w.transaction)).collect();
        writes.sort_unstable();
        writes.dedup();
        writes.hash(&mut hasher);
        let mut clean: Vec<_> = self.clean.iter().map(|c| (c.site.place, c.pending, c.queued)).collect();
        clean.sort_unstable();
        clean.dedup();
        clean.hash(&mut hasher);
        let mut logs: Vec<_> = self.logs.iter().map(|l| l.site.place).collect();
        logs.sort_unstable();
        logs.dedup();
        logs.hash(&mut hasher);
        for transaction in &self.transactions {
            (transaction.site.place, transaction.stage, transaction.changed).hash(&mut hasher);
        }
        (self.drained, self.queue_drained, self.strand.is_some(), self.epochs_open.len()).hash(&mut hasher);
        hasher.finish()
    }

    /// Reads one event.
    pub(crate) fn step(&mut self, around: &mut Surroundings, event: &Event) {
        self.number += 1;
        let site = event.site;
        match &event.kind {
            Kind::Store { span, value, nontemporal, bulk } => {
                self.store(around, site, *span, *value, *nontemporal, *bulk);
            }
            Kind::Load { span } => self.access(around, site, *span, false),
            Kind::Flush { span, class } => self.flush(around, site, *span, Some(*class)),
            Kind::Queue { span } => self.flush(around, site, *span, None),
            // An mfence may be there for other threads.
            Kind::Fence { class, drains } => self.fence(around, site, *drains, *class == Class::StoreFence),
            Kind::Locked => self.fence(around, site, false, false),
            Kind::Log { span } => self.log(around, site, *span),
            Kind::Begin { framework } => self.begin(around, site, *framework),
            Kind::Commit => {
                self.commit(around);
                self.transactions.pop();
                self.logs_are_over();
            }
            Kind::Abort => {
                // What was logged is put back; what was not stays as it is.
                let number = self.transactions.pop().map_or(0, |transaction| transaction.number);
                for write in self.writes.iter_mut().filter(|w| w.transaction == number && number > 0) {
                    write.status = Status::Durable;
                }
                self.logs_are_over();
            }
            Kind::Process => match self.stage() {
                stage::WORK => self.commit_stage(around),
                stage::ON_COMMIT => self.set_stage(stage::FINALLY),
                _ => self.set_stage(stage::NONE),
            },
            Kind::CommitStage => self.commit_stage(around),
            Kind::End => {
                if self.stage() == stage::WORK {
                    self.commit_stage(around);
                }
                self.transactions.pop();
                self.logs_are_over();
            }
            Kind::Change => {
                self.change();
                // A library that changes its memory durably waits for it, and so for all before.
                self.fence(around, site, false, false);
            }
            Kind::EpochBegin => {
                if self.epochs_open.is_empty() {
                    self.missing_barrier(around, Rule::MissingBarrier, 0, "an epoch begins");
                }
                self.epochs_open.push((site, self.number));
            }
            Kind::EpochEnd => self.epoch_end(around),
            Kind::StrandBegin => {
                self.strands += 1;
                self.strand = Some(self.strands);
            }
            Kind::StrandEnd => self.strand = None,
            Kind::StrandJoin => {
                self.accesses.clear();
                self.strand = None;
                self.fence(around, site, true, false);
            }
            Kind::Unknown { objects } => self.unknown(around, objects),
        }
    }

    fn change(&mut self) {
        if let Some(transaction) = self.transactions.last_mut() {
            transaction.changed = true;
        }
    }

    fn set_stage(&mut self, stage: i64) {
        if let Some(transaction) = self.transactions.last_mut() {
            transaction.stage = stage;
        }
    }

    fn commit_stage(&mut self, around: &mut Surroundings) {
        self.commit(around);
        self.set_stage(stage::ON_COMMIT);
    }

    fn logs_are_over(&mut self) {
        if self.transactions.is_empty() {
            self.logs.clear();
        }
    }

    /// Whether it is known if this runs in a transaction: a function that others call may run in theirs.
    fn knows_transaction(&self, around: &Surroundings) -> bool {
        around.is_root && !self.inside_callers || self.in_transaction()
    }

    /// The model whose transactions log every store.
    fn logs_every_store(&self, around: &Surroundings) -> bool {
        self.transactions
            .last()
            .is_some_and(|transaction| around.apis.frameworks[transaction.framework].commit.logs_every_store)
    }

    fn is_unpublished(&self, around: &Surroundings, object: Expression) -> bool {
        around.is_fresh(object) && !self.published.contains(&object)
    }

    fn store(
        &mut self,
        around: &mut Surroundings,
        site: Site,
        span: Span,
        value: Expression,
        nontemporal: bool,
        bulk: bool,
    ) {
        self.access(around, site, span, true);
        if nontemporal {
            self.care_for(span.at.object);
        }
        let alignment = around.alignment(span.at.object);
        self.clean.retain(|clean| {
            !(clean.span.at.object == span.at.object && clean.span.may_share_line(&span, alignment)
                || clean.span.at.object != span.at.object
                    && around.may_be_same(clean.span.at.object, span.at.object))
        });
        let unpublished = self.is_unpublished(around, span.at.object);
        let every = self.logs_every_store(around);
        let transaction = self.transactions.last().filter(|t| t.stage <= stage::WORK).map_or(0, |t| t.number);
        let logged = if transaction == 0 {
            Logged::No
        } else if every || around.is_fresh(span.at.object) {
            Logged::Yes
        } else {
            self.logged(around, &span)
        };
        if every {
            let before = self.writes.iter().find(|write| {
                write.transaction == transaction && write.span == span && write.site.place != site.place
            });
            match before.map(|write| write.site) {
                Some(before) => {
                    let name = around.name(site);
                    let beside =
                        vec![Beside { role: "first", place: before.place, message: "stored before".into() }];
                    around.bad(
                        Rule::RepeatedPersist,
                        site,
                        format!("{name} is stored to again in the same transaction, and logged again"),
                        beside,
                    );
                }
                None => around.verdicts.good(Rule::RepeatedPersist, site.place),
            }
        }
        self.publish(around, site, &span, value, logged);
        self.change();
        // What is overwritten before it could be lost is no loss.
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
        });
        if self.writes.len() > MAX_WRITES {
            let durable = self.writes.iter().position(|write| write.status == Status::Durable);
            self.writes.remove(durable.unwrap_or(0));
        }
    }

    fn logged(&self, around: &Surroundings, span: &Span) -> Logged {
        let mut best = Logged::No;
        for log in &self.logs {
            if log.span.at.object == span.at.object {
                match log.span.contains(span) {
                    Meets::Covers => return Logged::Yes,
                    Meets::Maybe => best = Logged::Maybe,
                    Meets::Never => {}
                }
            } else if around.may_be_same(log.span.at.object, span.at.object) {
                best = Logged::Maybe;
            }
        }
        best
    }

    /// The object that a stored value leads to.
    fn target(&self, around: &Surroundings, value: Expression) -> Option<Expression> {
        if matches!(around.expressions.form(value), Form::Nothing | Form::Int(_)) {
            return None;
        }
        let object = around.expressions.address(value).object;
        self.writes
            .iter()
            .map(|write| write.span.at.object)
            .find(|written| {
                *written == object
                    || matches!(around.expressions.form(*written), Form::Direct(id) if id == value)
            })
            // A pointer that was loaded from memory led there before.
            .filter(|found| match around.expressions.form(*found) {
                Form::Content(_) | Form::Opaque(..) => false,
                Form::Direct(id) => {
                    !matches!(around.expressions.form(id), Form::Content(_) | Form::Opaque(..))
                }
                _ => true,
            })
    }

    fn publish(
        &mut self,
        around: &mut Surroundings,
        site: Site,
        to: &Span,
        value: Expression,
        logged: Logged,
    ) {
        let Some(target) = self.target(around, value) else { return };
        // Neither does an object publish anything that is itself out of reach.
        if self.is_unpublished(around, to.at.object) {
            return;
        }
        if target == to.at.object {
            self.publish_inside(around, site, to, value, logged);
            return;
        }
        let mut reached = vec![target];
        let mut at = 0;
        while let Some(object) = reached.get(at).copied() {
            at += 1;
            let values: Vec<Expression> = self
                .writes
                .iter()
                .filter(|write| write.span.at.object == object)
                .map(|write| write.value)
                .collect();
            for value in values {
                if let Some(next) = self.target(around, value)
                    && !reached.contains(&next)
                    && next != to.at.object
                    && self.is_unpublished(around, next)
                {
                    reached.push(next);
                }
            }
        }
        // In a transaction that logs the pointer, the object is durable before the pointer counts.
        let safe = !self.knows_transaction(around)
            || self.in_transaction() && logged != Logged::No
            || self.logs_every_store(around);
        if !safe {
            let lost: Vec<(Site, Status)> = self
                .writes
                .iter()
                .filter(|write| reached.contains(&write.span.at.object))
                .filter(|write| match write.status {
                    Status::Dirty => true,
                    // A flush that later stores cannot pass needs no fence before the pointer.
                    Status::Pending(_, ordered) => !ordered,
                    Status::Queued(_) => true,
                    _ => false,
                })
                .map(|write| (write.site, write.status))
                .collect();
            if let Some((first, status)) = lost.first() {
                let name = around.name(*first);
                let how = match status {
                    Status::Dirty => "not written back",
                    Status::Queued(_) => "only queued for writing back",
                    _ => "written back without a fence",
                };
                let beside =
                    vec![Beside { role: "lost", place: first.place, message: format!("{name} is {how}") }];
                let message =
                    format!("{} makes an object reachable whose content is {how}: {name}", around.name(site));
                around.bad(Rule::PublishBeforePersist, site, message, beside);
            } else {
                around.verdicts.good(Rule::PublishBeforePersist, site.place);
            }
        }
        self.published.extend(reached);
    }

    /// A pool that is one object to us holds many: a pointer into it makes what lies there reachable.
    fn publish_inside(
        &mut self,
        around: &mut Surroundings,
        site: Site,
        to: &Span,
        value: Expression,
        logged: Logged,
    ) {
        /// Larger nodes than this are rare, and what lies behind may be something else.
        const NODE: i64 = 256;
        let at = around.expressions.address(value);
        let near = |offset: i64| (at.offset..at.offset + NODE).contains(&offset);
        let safe = !self.knows_transaction(around) || self.in_transaction() && logged != Logged::No;
        if safe || at.element != to.at.element || near(to.at.offset) {
            return;
        }
        let lost = self.writes.iter().find(|write| {
            write.span.at.object == at.object
                && write.span.at.element == at.element
                && near(write.span.at.offset)
                && matches!(write.status, Status::Dirty | Status::Pending(_, false) | Status::Queued(_))
        });
        let Some(lost) = lost.map(|write| write.site) else { return };
        let name = around.name(lost);
        let beside =
            vec![Beside { role: "lost", place: lost.place, message: format!("{name} is not durable") }];
        let message = format!("{} makes an object reachable that is not durable: {name}", around.name(site));
        around.bad(Rule::PublishBeforePersist, site, message, beside);
    }

    /// Whether an object is persistent by more than what the graph says of pointers to it.
    fn is_cared_for(&self, around: &Surroundings, object: Expression) -> bool {
        match around.expressions.form(object) {
            Form::Parameter(_) | Form::Content(_) | Form::Opaque(..) => self.cared_for.contains(&object),
            _ => true,
        }
    }

    fn care_for(&mut self, object: Expression) {
        if !self.cared_for.contains(&object) {
            self.cared_for.push(object);
        }
    }

    fn flush(&mut self, around: &mut Surroundings, site: Site, span: Span, class: Option<Class>) {
        self.care_for(span.at.object);
        let alignment = around.alignment(span.at.object);
        self.judge_flush(around, site, &span, alignment);
        let ordered = class.is_some_and(|class| {
            preserved((class, Some(Line::containing(0))), (Class::Write, Some(Line::containing(LINE_BYTES))))
        });
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
                Meets::Covers => write.status = status,
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
    fn judge_flush(&mut self, around: &mut Surroundings, site: Site, span: &Span, alignment: u64) {
        let place = site.place;
        let (mut exact, mut uncertain) = (Vec::new(), false);
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
                    touched = true;
                    if span.contains(&write.span) != Meets::Never {
                        known = Some(write.site);
                    }
                }
                _ => touched |= same,
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
                    around.bad(Rule::RedundantFlush, site, message, beside);
                }
            } else if let Some(stored) = known {
                let name = around.name(site);
                let beside =
                    vec![Beside { role: "stored", place: stored.place, message: "durable since".into() }];
                let message =
                    format!("{name} is written back although nothing changed since it became durable");
                around.bad(Rule::RedundantFlush, site, message, beside);
            } else if touched && (around.is_root || !around.is_parameter(span.at.object))
                || around.is_root
                    && !around.is_parameter(span.at.object)
                    && !around.expressions.has_opaque(span.at.object)
            {
                let name = around.name(site);
                let message = format!("{name} is written back, but nothing was stored to it before");
                around.bad(Rule::FlushUnmodified, site, message, Vec::new());
            }
            return;
        }
        around.verdicts.good(Rule::RedundantFlush, place);
        if protected == Some(true) && !uncertain {
            let name = around.name(site);
            let message = format!("{name} is logged: the end of the transaction writes it back anyway");
            around.bad(Rule::RepeatedPersist, site, message, Vec::new());
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
            around.bad(Rule::FlushUnmodified, site, message, Vec::new());
        } else {
            around.verdicts.good(Rule::FlushUnmodified, place);
        }
    }

    fn fence(&mut self, around: &mut Surroundings, site: Site, drains: bool, judged: bool) {
        let waits = |write: &Write| match write.status {
            Status::Pending(..) => true,
            Status::Queued(_) => drains,
            Status::Dirty | Status::Maybe => write.nontemporal,
            Status::Durable => false,
        };
        let pending = self.writes.iter().any(waits)
            || self.clean.iter().any(|clean| clean.pending || drains && clean.queued);
        if judged {
            if pending || self.writes.iter().any(|write| write.status == Status::Maybe) {
                around.verdicts.good(Rule::EmptyFence, site.place);
            } else if self.drained && (self.queue_drained || !drains) {
                let message = "nothing was flushed since the last fence".to_owned();
                around.bad(Rule::EmptyFence, site, message, Vec::new());
            }
        }
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

    /// Strict persistency: one barrier, one store.
    fn several_at_once(&self, around: &mut Surroundings, site: Site, done: &[usize]) {
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
                around.bad(Rule::MultipleWritesAtOnce, site, message, beside);
            }
            None => around.verdicts.good(Rule::MultipleWritesAtOnce, site.place),
        }
    }

    /// Consecutive epochs on fields of one object.
    fn split_update(&self, around: &mut Surroundings, done: &[usize]) {
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
            around.bad(Rule::SplitUpdate, later.site, message, beside);
        }
    }

    fn position(&self, write: &Write) -> usize {
        self.writes.iter().position(|other| std::ptr::eq(other, write)).unwrap_or(usize::MAX)
    }

    /// Ways to order stores on purpose.
    fn is_protocol(&self, around: &Surroundings, earlier: &Write, later: &Write) -> bool {
        // What different functions do is seldom meant as one update.
        if earlier.site.call.is_some() || later.site.call.is_some() {
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

    fn log(&mut self, around: &mut Surroundings, site: Site, span: Span) {
        self.care_for(span.at.object);
        self.inside_callers |= self.transactions.is_empty();
        let before = self.logs.iter().find(|log| log.span.contains(&span) == Meets::Covers);
        match before.map(|log| log.site) {
            Some(before) if before.place != site.place => {
                let name = around.name(site);
                let beside =
                    vec![Beside { role: "first", place: before.place, message: "logged here".into() }];
                let message = format!("{name} is logged again in the same transaction");
                around.bad(Rule::RepeatedPersist, site, message, beside);
            }
            Some(_) => {}
            None => {
                if around.is_fresh(span.at.object) && self.in_transaction() {
                    let name = around.name(site);
                    let message =
                        format!("{name} was allocated in this transaction: there is nothing to undo");
                    around.bad(Rule::RepeatedPersist, site, message, Vec::new());
                } else {
                    around.verdicts.good(Rule::RepeatedPersist, site.place);
                }
            }
        }
        self.logs.push(Log { span, site, number: self.number });
    }

    fn begin(&mut self, around: &mut Surroundings, site: Site, framework: usize) {
        if self.transactions.is_empty() {
            self.missing_barrier(around, Rule::MissingBarrier, 0, "a transaction begins");
            self.logs.clear();
        }
        self.transactions.push(Transaction {
            site,
            framework,
            stage: stage::WORK,
            changed: false,
            number: self.number,
        });
    }

    /// Flushes since `from` that nothing waited for.
    fn missing_barrier(&mut self, around: &mut Surroundings, rule: Rule, from: u32, when: &str) {
        let open: Vec<(Site, bool)> = self
            .clean
            .iter()
            .filter(|clean| (clean.pending || clean.queued) && clean.number > from)
            .map(|clean| (clean.site, clean.queued))
            .collect();
        for (site, queued) in open {
            let name = around.name(site);
            let how = if queued { "is only queued for writing back" } else { "is flushed" };
            let message = format!("{name} {how}, but nothing waits for it before {when}");
            around.bad(rule, site, message, Vec::new());
        }
    }

    fn commit(&mut self, around: &mut Surroundings) {
        let Some(transaction) = self.transactions.last().cloned() else { return };
        let outermost = self.transactions.len() == 1;
        if !outermost {
            // A nested transaction becomes part of the outer one.
            let number = self.transactions[self.transactions.len() - 2].number;
            for write in self.writes.iter_mut().filter(|write| write.transaction == transaction.number) {
                write.transaction = number;
            }
            if transaction.changed {
                let outer = self.transactions.len() - 2;
                self.transactions[outer].changed = true;
            }
            return;
        }
        let rules = around.apis.frameworks[transaction.framework].commit;
        // A caller may have a transaction of its own around this one.
        if around.is_root && transaction.changed {
            around.verdicts.good(Rule::EmptyTransaction, transaction.site.place);
        } else if around.is_root {
            let message = "this transaction changes nothing persistent".to_owned();
            around.bad(Rule::EmptyTransaction, transaction.site, message, Vec::new());
        }
        if rules.flushes_logged && !rules.logs_every_store {
            self.unused_logs(around);
        }
        let mut lost = Vec::new();
        for write in self.writes.iter_mut().filter(|write| write.transaction == transaction.number) {
            let fresh = around.is_fresh(write.span.at.object);
            let flushed = match write.logged {
                Logged::Yes if fresh => rules.flushes_allocated,
                Logged::Yes => rules.flushes_logged,
                _ => false,
            };
            match write.status {
                Status::Dirty if !flushed && write.logged != Logged::Maybe && !write.nontemporal => {
                    // Without a commit that flushes, what follows it may still write it back.
                    if rules.flushes_logged {
                        if around.is_root {
                            lost.push(write.site);
                        }
                        write.status = Status::Maybe;
                    }
                }
                Status::Dirty | Status::Maybe => write.status = Status::Durable,
                Status::Pending(..) | Status::Queued(_) if rules.drains => write.status = Status::Durable,
                _ => around.verdicts.good(Rule::UnloggedWrite, write.site.place),
            }
        }
        for write in &mut self.writes {
            if rules.drains && matches!(write.status, Status::Pending(..) | Status::Queued(_)) {
                write.status = Status::Durable;
            }
        }
        for site in lost {
            let name = around.name(site);
            let beside = vec![Beside {
                role: "transaction",
                place: transaction.site.place,
                message: "in this transaction".into(),
            }];
            let message =
                format!("{name} is stored to in a transaction, but neither logged before nor written back");
            around.bad(Rule::UnloggedWrite, site, message, beside);
        }
        if rules.drains {
            for clean in &mut self.clean {
                (clean.pending, clean.queued) = (false, false);
            }
            (self.drained, self.queue_drained) = (true, true);
        }
        self.epoch += 2;
    }

    /// What was logged for nothing.
    fn unused_logs(&mut self, around: &mut Surroundings) {
        for log in self.logs.clone() {
            let mut inside = Vec::new();
            let mut uncertain = around.expressions.has_opaque(log.span.at.object);
            for write in self.writes.iter().filter(|write| write.number > log.number) {
                if write.span.at.object == log.span.at.object {
                    match log.span.contains(&write.span) {
                        Meets::Covers if write.span.at.element == log.span.at.element => {
                            inside.push(write.span)
                        }
                        Meets::Never => {}
                        _ => uncertain = true,
                    }
                } else if around.may_be_same(write.span.at.object, log.span.at.object) {
                    uncertain = true;
                }
            }
            let name = around.name(log.site);
            let Some((start, end)) = log.span.bytes() else { continue };
            let written: Vec<(i64, i64)> = inside.iter().filter_map(Span::bytes).collect();
            let rest = end - start - overlap(start, end, &written);
            if uncertain {
                around.verdicts.good(Rule::LogUnmodified, log.site.place);
            } else if inside.is_empty() {
                let message = format!("{name} is logged, but the transaction does not modify it");
                around.bad(Rule::LogUnmodified, log.site, message, Vec::new());
            } else if rest >= LINE_BYTES as i64 || around.pedantic && rest > 0 {
                let message =
                    format!("{name}: {} bytes are logged, but {rest} of them are not modified", end - start);
                around.bad(Rule::LogUnmodified, log.site, message, Vec::new());
            } else {
                around.verdicts.good(Rule::LogUnmodified, log.site.place);
            }
        }
    }

    fn epoch_end(&mut self, around: &mut Surroundings) {
        let Some((_, from)) = self.epochs_open.pop() else { return };
        let rule =
            if self.epochs_open.is_empty() { Rule::MissingBarrier } else { Rule::MissingBarrierNested };
        self.missing_barrier(around, rule, from, "the epoch ends");
        for write in &self.writes {
            if write.number > from && write.status == Status::Dirty && !write.nontemporal {
                let site = write.site;
                let message = format!("{} is not written back before its epoch ends", around.name(site));
                around.bad(Rule::UnflushedWrite, site, message, Vec::new());
            }
        }
    }

    fn access(&mut self, around: &mut Surroundings, site: Site, span: Span, write: bool) {
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

    fn unknown(&mut self, around: &Surroundings, objects: &[Expression]) {
        for object in objects {
            for write in &mut self.writes {
                if write.span.at.object == *object && write.status != Status::Durable {
                    write.status = Status::Maybe;
                }
            }
            self.clean.retain(|clean| {
                clean.span.at.object != *object && !around.may_be_same(clean.span.at.object, *object)
            });
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
        if !self.in_transaction() || self.stage() != stage::WORK {
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
            around.bad(Rule::MissingBarrierNested, site, message, Vec::new());
        }
    }

    /// The end of a path through a function that nobody in the program calls.
    pub(crate) fn path_ends(&mut self, around: &mut Surroundings, exit: Exit) {
        if self.in_transaction() || self.inside_callers {
            return;
        }
        // What is left behind where something failed is seldom used.
        let lenient = exit == Exit::Failure && !around.pedantic;
        for write in &self.writes {
            let site = write.site;
            let sure = around.persistence(write.span.at.object) == Persistence::Surely;
            let sure = sure && self.is_cared_for(around, write.span.at.object);
            match write.status {
                _ if !sure => {}
                Status::Dirty if write.nontemporal && !lenient => {
                    let message =
                        format!("{} is stored past the cache, but nothing waits for it", around.name(site));
                    around.bad(Rule::MissingBarrier, site, message, Vec::new());
                }
                Status::Dirty if !lenient => {
                    let message = format!("{} is stored to, but never written back", around.name(site));
                    around.bad(Rule::UnflushedWrite, site, message, Vec::new());
                }
                // What is queued may be left to whoever drains the queue, unless somebody took a fence for that.
                Status::Queued(_) if self.last_fence < write.number => {}
                // A copy of as much as the caller says is a service: the caller waits when it is done.
                Status::Pending(..)
                    if write.bulk
                        && write.span.bytes().is_none()
                        && around.is_parameter(write.span.at.object) => {}
                Status::Pending(place, _) | Status::Queued(place) if !lenient => {
                    let beside =
                        vec![Beside { role: "stored", place: site.place, message: "stored here".into() }];
                    let name = around.name(site);
                    let message = format!("{name} is flushed, but nothing waits for it");
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

/// How many bytes of a range the others hold.
fn overlap(start: i64, end: i64, others: &[(i64, i64)]) -> i64 {
    let mut parts: Vec<(i64, i64)> =
        others.iter().map(|(from, to)| ((*from).max(start), (*to).min(end))).filter(|(a, b)| a < b).collect();
    parts.sort_unstable();
    let (mut sum, mut reached) = (0, start);
    for (from, to) in parts {
        let from = from.max(reached);
        if to > from {
            sum += to - from;
            reached = to;
        }
    }
    sum
}

fn covered(start: i64, end: i64, others: Vec<(i64, i64)>) -> bool {
    overlap(start, end, &others) == end - start
}
