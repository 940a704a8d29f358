//! What a caller sees of a function: its ways, in terms of parameters.

use std::rc::Rc;

use rustc_hash::FxHashSet;

use super::limits::Cut;
use super::slice::slice;
use super::walk::{State, Walk};
use super::way::{Entry, FEW_WAYS, MAX_EVENTS, MAX_MEMORY, MAX_WAYS, Summary, Way};
use crate::event::Kind;
use crate::expression::{Expression, Expressions, Form, NOTHING};
use crate::machine::Exit;
use crate::rules::Model;
use crashproof_frontend::program::ir::{Op, Operand, PlaceId};

impl Walk<'_, '_> {
    /// Places where a library function should have stored but failed, as the path determined: whether it stored
    /// anything is irrelevant, because the path gave up.
    fn failed_stores(&self, state: &State) -> FxHashSet<PlaceId> {
        let mut tested = FxHashSet::default();
        for fact in state.facts.keys() {
            self.explorer.expressions.unknowns(*fact, &mut tested);
        }
        let instructions = (0..).zip(&self.function.instructions);
        let results = instructions.filter(|(number, instruction): &(usize, _)| {
            matches!(instruction.op, Op::Other) && tested.contains(&state.values[*number])
        });
        results.map(|(_, instruction)| instruction.place).collect()
    }

    pub(super) fn returns(&mut self, mut state: State, value: Option<Operand>) {
        let result = value.map_or(NOTHING, |value| self.value(&state, value));
        self.counts |= value.is_some_and(|value| self.is_counted(self.current, value));
        let failure = match self.explorer.expressions.as_int(result) {
            Some(number) if number < 0 => true,
            Some(0) => self.function.returns_pointer,
            _ => self.fails(&state, result),
        };
        let known = self.explorer.expressions.as_int(result).is_some();
        let result = if failure && !known { self.explorer.expressions.add(Form::Failure) } else { result };
        let exit = if failure { Exit::Failure } else { Exit::Normal };
        let void = if failure { self.failed_stores(&state) } else { FxHashSet::default() };
        if !void.is_empty() {
            Rc::make_mut(&mut state.machine).forget_stores(&void);
        }
        if !failure {
            self.note_resets(&state);
        }
        state.machine.hands_over(&mut self.context());
        let returns_pointer = self.function.returns_pointer;
        state.machine.judge_late(&mut self.context(), result, returns_pointer);
        if self.is_root {
            // The value returned by joined paths may be an error.
            let perhaps = value.is_some()
                && matches!(self.explorer.expressions.form(result), Form::Nothing | Form::Opaque(..));
            self.ends.push((Rc::clone(&state.machine), exit, perhaps));
        }
        let own = |this: &Self, object: Expression| matches!(this.explorer.expressions.form(object), Form::Local(function, _) if function == this.id);
        let mut events = self.explorer.traces.events(state.trace);
        events
            .retain(|event| !(matches!(event.kind, Kind::Store { .. }) && void.contains(&event.site.place)));
        let memory: Vec<Entry> = state
            .memory
            .iter()
            .filter(|(at, _)| !own(self, at.object) && !self.explorer.expressions.has_opaque(at.object))
            .map(|(at, (bytes, value))| (*at, *bytes, *value))
            .collect();
        let mut memory = self.reachable(memory, result, &events);
        // Contents closest to the parameters matter most.
        memory.sort_by_key(|(at, ..)| self.explorer.expressions.depth(at.object));
        if memory.len() > MAX_MEMORY {
            self.cut(Cut::Memory);
            memory.truncate(MAX_MEMORY);
        }
        if state.machine.has_forgotten() {
            self.cut(Cut::Stores);
        }
        let facts = state
            .facts
            .iter()
            .filter(|(fact, _)| self.is_about_parameters(**fact))
            .map(|(fact, holds)| (*fact, *holds))
            .collect();
        let (signature, open) = (state.machine.signature(), state.machine.open());
        let mut events = slice(events);
        if events.len() > MAX_EVENTS
            && let Some(open) = state.machine.what_is_open(&mut self.context())
        {
            self.cut(Cut::Events);
            events = open;
        }
        self.ways.push(Way { events, result, facts, memory, exit: failure, signature, open });
    }

    pub(super) fn is_about_parameters(&self, expression: Expression) -> bool {
        match self.explorer.expressions.form(expression) {
            Form::Comparison(_, left, right) | Form::Operation(_, left, right) => {
                self.is_about_parameters(left) && self.is_about_parameters(right)
            }
            Form::Plus(inner, _) => self.is_about_parameters(inner),
            Form::Parameter(_) | Form::Int(_) | Form::Transaction | Form::Stage => true,
            _ => false,
        }
    }

    /// Judges what remains open at the ends of paths. An object flushed on one of them is persistent on all, but paths
    /// that gave up may have been about to flush it.
    fn judge_ends(&mut self) {
        let cared_for = std::mem::take(&mut self.cared_for);
        for (mut machine, exit, perhaps) in std::mem::take(&mut self.ends) {
            let machine = Rc::make_mut(&mut machine);
            if !perhaps {
                machine.care_for_all(&cared_for);
            }
            machine.path_ends(&mut self.context(), exit);
        }
    }

    /// If every path returns what usually means failure, or in the function of a thread, it means nothing.
    fn disregard_uniform_failure(&mut self) {
        let is_thread = self.is_entry && !self.is_main;
        if is_thread || self.ways.iter().all(|way| way.exit) {
            self.ends.iter_mut().for_each(|(_, exit, _)| *exit = Exit::Normal);
            self.ways.iter_mut().for_each(|way| way.exit = false);
        }
    }

    pub(super) fn summary(mut self) -> Summary {
        self.disregard_uniform_failure();
        self.judge_ends();
        let mut ways = std::mem::take(&mut self.ways);
        let all = ways.len();
        ways.retain(|way| way.events.len() <= MAX_EVENTS);
        if ways.len() < all {
            self.cut(Cut::HiddenEvents);
        }
        let failure = self.explorer.expressions.add(Form::Failure);
        let expressions = &self.explorer.expressions;
        // Events inside a transaction do not represent events outside, and vice versa.
        let in_the_same = |left: &Way, right: &Way| {
            let about = |way: &Way| -> Vec<(Expression, bool)> {
                way.facts
                    .iter()
                    .copied()
                    .filter(|(fact, _)| expressions.is_about_transactions(*fact))
                    .collect()
            };
            about(left) == about(right)
        };
        let joined =
            |ways: Vec<Way>, same: &dyn Fn(&Way, &Way) -> bool| joined(ways, expressions, failure, same);
        // A function's result determines how its caller continues: a failure and a pool are not one way, although
        // neither affected persistent memory.
        let same_result = |left: &Way, right: &Way| {
            left.result == right.result
                || expressions.is_failure(left.result) && expressions.is_failure(right.result)
        };
        let mut groups = joined(ways, &|left, right| left.events == right.events && same_result(left, right));
        if groups.len() > FEW_WAYS {
            let outcome = |way: &Way| (way.exit, expressions.as_int(way.result).map(|number| number != 0));
            groups =
                joined(groups, &|left, right| left.events == right.events && outcome(left) == outcome(right));
        }
        if groups.len() > MAX_WAYS {
            groups = joined(groups, &|left, right| left.events == right.events);
        }
        if groups.len() > MAX_WAYS {
            // Ways that no rule can distinguish any more are joined.
            groups = joined(groups, &|left, right| {
                left.signature == right.signature && left.exit == right.exit && in_the_same(left, right)
            });
        }
        let constant = |way: &Way| match way.result {
            // Callers rarely distinguish errors.
            result if expressions.is_failure(result) => Some(-1),
            result => expressions.as_int(result),
        };
        // Nor does a separate transaction represent the absence of one: callers may have something pending.
        let begins = |way: &Way| way.events.iter().any(|event| matches!(event.kind, Kind::Begin { .. }));
        let left_behind = |way: &Way| (way.open, way.exit, constant(way), begins(way));
        let as_open =
            |left: &Way, right: &Way| left_behind(left) == left_behind(right) && in_the_same(left, right);
        if groups.len() > FEW_WAYS && self.explorer.model != Model::Strand {
            // The way with the most effects represents those that leave the same open and return the same.
            groups.sort_by_key(|way| std::cmp::Reverse(way.events.len()));
            groups = joined(groups, &|left, right| {
                as_open(left, right)
                    && (left.result == right.result || left.exit)
                    && left.memory == right.memory
            });
        }
        if groups.len() > MAX_WAYS && self.explorer.model != Model::Strand {
            groups = joined(groups, &as_open);
        }
        if groups.len() > MAX_WAYS {
            self.cut(Cut::Ways);
            // Ways that succeed are more informative than ways that give up. The way that does least differs from the
            // others.
            groups.sort_by_key(|way| (way.exit, std::cmp::Reverse(way.events.len())));
            let succeed = groups.partition_point(|way| !way.exit);
            if succeed > MAX_WAYS {
                groups.swap(MAX_WAYS - 1, succeed - 1);
            }
            groups.truncate(MAX_WAYS);
        }
        if self.explorer.cuts.hides_ways(self.id) {
            let events = vec![self.anything()];
            let (result, facts, memory) = (NOTHING, Vec::new(), Vec::new());
            groups.push(Way { events, result, facts, memory, exit: false, signature: 0, open: 0 });
        }
        // Callers only need to know objects that events mention.
        let mentioned: FxHashSet<Expression> = groups
            .iter()
            .flat_map(|way| {
                way.events.iter().filter_map(|event| event.kind.span()).map(|span| span.at.object)
            })
            .collect();
        let (mut alignments, mut loaded) =
            (self.explorer.expressions.take_alignments(), self.explorer.expressions.take_loaded());
        alignments.retain(|(object, _)| mentioned.contains(object));
        loaded.retain(|(pointer, _)| mentioned.contains(pointer));
        let mut extents = self.explorer.extents.take();
        extents.retain(|extent| mentioned.contains(&extent.at.object));
        let mut asserted = std::mem::take(&mut self.asserted);
        asserted.retain(|fact| groups.iter().any(|way| way.facts.iter().any(|(own, _)| own == fact)));
        Summary { ways: groups, alignments, loaded, extents, asserted, counts: self.counts }
    }
}

/// Joins ways that are the same in some sense: the first one, with what holds for all.
fn joined(
    ways: Vec<Way>,
    expressions: &Expressions,
    failure: Expression,
    same: &dyn Fn(&Way, &Way) -> bool,
) -> Vec<Way> {
    let mut groups: Vec<Way> = Vec::new();
    for way in ways {
        let Some(known) = groups.iter_mut().find(|known| same(known, &way)) else {
            groups.push(way);
            continue;
        };
        if known.result != way.result {
            let fail = expressions.is_failure(known.result) && expressions.is_failure(way.result);
            known.result = if fail { failure } else { NOTHING };
        }
        known.facts.retain(|fact| way.facts.contains(fact));
        known.exit &= way.exit;
        for entry in &mut known.memory {
            let other = way.memory.iter().find(|other| other.0 == entry.0);
            if other != Some(entry) {
                entry.2 = NOTHING;
            }
        }
        for entry in &way.memory {
            if !known.memory.iter().any(|other| other.0 == entry.0) {
                known.memory.push((entry.0, entry.1, NOTHING));
            }
        }
    }
    groups
}
