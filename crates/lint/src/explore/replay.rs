//! A callee's ways in the place of a call, in terms of the caller.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::reach::whole;
use super::summary::{Summary, Way};
use super::{MAX_DEPTH, State, Walk};
use crate::event::{Event, Kind, Site};
use crate::expression::{Expression, Form, NOTHING, Origin, Persistence};
use crate::span::Length;
use crashproof_frontend::program::ir::{FunctionId, PlaceId};

impl Walk<'_, '_> {
    /// Puts a callee's ways in the place of a call.
    pub(super) fn replay(
        &mut self,
        state: State,
        number: u32,
        summary: &Summary,
        values: &[Expression],
        place: PlaceId,
        callee: FunctionId,
    ) -> Vec<State> {
        let mut after = Vec::new();
        let visit = self.visit(&state);
        self.steps += (summary.alignments.len() + summary.loaded.len()) / 16;
        let mut memo = FxHashMap::default();
        // Something that only flushes and fences is a name for the instruction: the call is the place.
        let wrapper = summary.ways.iter().flat_map(|way| &way.events).all(|event| {
            matches!(
                event.kind,
                Kind::Flush { .. } | Kind::Queue { .. } | Kind::Elsewhere | Kind::Fence { .. }
            )
        });
        // What the callee's types say of an object holds here too, if it is a whole object here as well.
        for (object, alignment) in &summary.alignments {
            let here = self.translate(&state, *object, values, (number, visit), &mut memo);
            if here != NOTHING && self.all.expressions.address(here).object == here {
                self.all.expressions.set_alignment(here, *alignment);
            }
        }
        for (pointer, persistence) in &summary.loaded {
            let here = self.translate(&state, *pointer, values, (number, visit), &mut memo);
            if matches!(self.all.expressions.form(here), Form::Content(_)) {
                self.all.expressions.set_loaded(here, *persistence);
            }
        }
        let mut ways: Vec<(&Way, State)> = Vec::new();
        let mut otherwise: Vec<&Way> = Vec::new();
        for way in &summary.ways {
            let mut next = state.clone();
            let (mut possible, mut in_place) = (true, true);
            for (fact, holds) in &way.facts {
                let here = self.translate(&state, *fact, values, (number, visit), &mut memo);
                match self.truth(&next, here) {
                    Some(truth) if truth != *holds => {
                        possible = false;
                        in_place &= !self.all.expressions.is_about_transactions(*fact);
                    }
                    Some(_) => {}
                    None => self.assume(&mut next, here, *holds),
                }
            }
            if possible {
                ways.push((way, next));
            } else if in_place {
                otherwise.push(way);
            }
        }
        // Loops are taken to run. If that cannot be here, what they do is better than nothing at all. But who insists on a
        // transaction does not come back without one.
        if ways.is_empty() {
            ways = otherwise.into_iter().map(|way| (way, state.clone())).collect();
        }
        for (way, mut next) in ways {
            let mut translated = FxHashMap::default();
            let from = next.machine.now();
            for event in &way.events {
                let Some(kind) =
                    self.translate_event(&state, event, values, (number, visit), &mut translated)
                else {
                    continue;
                };
                // The callee's name for the memory is as good, unless the place is here.
                let of_a_library = self.all.program.place(event.site.place).of_a_library;
                let here = wrapper || of_a_library;
                let name = match kind.span() {
                    Some(span) if here || event.site.name == 0 => {
                        let text = self.describe(&next, span);
                        if text.is_empty() { event.site.name } else { self.all.names.add(text) }
                    }
                    _ => event.site.name,
                };
                if wrapper && self.all.verdicts.swept.contains(&event.site.place) {
                    self.all.verdicts.swept.insert(place);
                }
                let by_library = event.site.by_library || of_a_library;
                let site = if here {
                    Site { place, call: None, name, by_library }
                } else {
                    Site { place: event.site.place, call: Some(place), name, by_library }
                };
                self.emit_at(&mut next, kind, site);
            }
            if way.exit {
                Rc::make_mut(&mut next.machine).callee_failed(from);
            }
            if !wrapper {
                let readable = self.all.program.function(callee).readable.clone();
                let mut machine = std::mem::take(&mut next.machine);
                Rc::make_mut(&mut machine).callee_ends(&mut self.around(), from, &readable);
                next.machine = machine;
            }
            self.steps += way.memory.len() / 16;
            for (at, bytes, value) in &way.memory {
                let base = at.element.unwrap_or(at.object);
                let base = self.translate(&state, base, values, (number, visit), &mut translated);
                let value = self.translate(&state, *value, values, (number, visit), &mut translated);
                if base != NOTHING && *at == whole(at.object) {
                    let object = self.all.expressions.address(base).object;
                    self.forget(&mut next, object);
                } else if base != NOTHING {
                    let address = self.all.expressions.plus(base, at.offset);
                    self.remember(&mut next, address, *bytes, value);
                }
            }
            let result = self.translate(&state, way.result, values, (number, visit), &mut translated);
            next.values[number as usize] =
                if result == NOTHING { self.opaque(&state, number) } else { result };
            self.note_loaded(number, result);
            after.push(next);
        }
        after
    }

    pub(super) fn translate_event(
        &mut self,
        state: &State,
        event: &Event,
        values: &[Expression],
        call: (u32, u32),
        memo: &mut FxHashMap<Expression, Expression>,
    ) -> Option<Kind> {
        let mut kind = event.kind.clone();
        match &mut kind {
            Kind::Store { span, .. }
            | Kind::Load { span }
            | Kind::Flush { span, .. }
            | Kind::Queue { span }
            | Kind::Log { span } => {
                let base = span.at.element.unwrap_or(span.at.object);
                let base = self.translate(state, base, values, call, memo);
                let flushes = matches!(event.kind, Kind::Flush { .. } | Kind::Queue { .. });
                if base == NOTHING || self.persistence(base) == Persistence::No {
                    return flushes.then_some(Kind::Elsewhere);
                }
                let address = self.all.expressions.plus(base, span.at.offset);
                let length = match span.length {
                    Length::Symbol(symbol) => {
                        let here = self.translate(state, symbol, values, call, memo);
                        self.length(here)
                    }
                    known => known,
                };
                if self.persistence(address) == Persistence::No {
                    return flushes.then_some(Kind::Elsewhere);
                }
                *span = self.span(address, length);
            }
            Kind::Unknown { objects, .. } => {
                for object in objects.iter_mut() {
                    let here = self.translate(state, *object, values, call, memo);
                    *object = self.all.expressions.address(here).object;
                }
            }
            _ => {}
        }
        if let Kind::Store { value, .. } = &mut kind {
            *value = self.translate(state, *value, values, call, memo);
        }
        Some(kind)
    }

    /// A callee's expression in terms of the caller.
    pub(super) fn translate(
        &mut self,
        state: &State,
        expression: Expression,
        values: &[Expression],
        call: (u32, u32),
        memo: &mut FxHashMap<Expression, Expression>,
    ) -> Expression {
        if let Some(known) = memo.get(&expression) {
            return *known;
        }
        let result = match self.all.expressions.form(expression) {
            Form::Nothing => NOTHING,
            Form::Int(_) | Form::Global(_) | Form::Function(_) | Form::Failure => expression,
            Form::Parameter(number) => values.get(number as usize).copied().unwrap_or(NOTHING),
            Form::Plus(inner, offset) => {
                let inner = self.translate(state, inner, values, call, memo);
                self.all.expressions.plus(inner, offset)
            }
            Form::Element(base, index, scale) => {
                let base = self.translate(state, base, values, call, memo);
                let index = self.translate(state, index, values, call, memo);
                if base == NOTHING || index == NOTHING {
                    NOTHING
                } else {
                    self.all.expressions.element(base, index, scale)
                }
            }
            Form::Content(address) => {
                let address = self.translate(state, address, values, call, memo);
                self.load(state, address, 8, None)
            }
            Form::Direct(id) => match self.translate(state, id, values, call, memo) {
                NOTHING => {
                    let origin = self.through(0x8000_0000 | id_number(expression), call);
                    self.all.expressions.add(Form::Opaque(origin, Persistence::Surely))
                }
                id => self.all.expressions.add(Form::Direct(id)),
            },
            Form::Local(..) => expression,
            Form::Transaction => self.open_transaction(state),
            Form::Stage => self.stage(state),
            Form::Found(name, arguments) => {
                match self.translate_arguments(state, arguments, values, call, memo) {
                    Some(arguments) => self.all.expressions.add(Form::Found(name, arguments)),
                    None => {
                        let origin = self.through(0x8000_0000 | id_number(expression), call);
                        self.all.expressions.add(Form::Opaque(origin, Persistence::Surely))
                    }
                }
            }
            Form::Volatile(origin) => {
                let origin = self.through(origin, call);
                self.all.expressions.add(Form::Volatile(origin))
            }
            Form::Mapped(origin) => {
                let origin = self.through(origin, call);
                self.all.expressions.add(Form::Mapped(origin))
            }
            Form::Fresh(origin) => {
                let origin = self.through(origin, call);
                self.all.expressions.add(Form::Fresh(origin))
            }
            Form::FreshId(origin) => {
                let origin = self.through(origin, call);
                self.all.expressions.add(Form::FreshId(origin))
            }
            Form::Opaque(origin, persistent) => {
                let origin = self.through(origin, call);
                self.all.expressions.add(Form::Opaque(origin, persistent))
            }
            Form::Pair(left, right) => {
                let left = self.translate(state, left, values, call, memo);
                let right = self.translate(state, right, values, call, memo);
                self.all.expressions.add(Form::Pair(left, right))
            }
            Form::Operation(what, left, right) => {
                let left = self.translate(state, left, values, call, memo);
                let right = self.translate(state, right, values, call, memo);
                self.all.expressions.arithmetic(what, left, right)
            }
            Form::Comparison(what, left, right) => {
                let left = self.translate(state, left, values, call, memo);
                let right = self.translate(state, right, values, call, memo);
                self.all.expressions.comparison(what, left, right)
            }
        };
        // Recursion makes expressions that say nothing more.
        let result = if self.all.expressions.depth(result) > MAX_DEPTH { NOTHING } else { result };
        memo.insert(expression, result);
        result
    }

    /// What a callee gave to a library that finds things, in terms of the caller; none if part of it is not known here.
    fn translate_arguments(
        &mut self,
        state: &State,
        arguments: Expression,
        values: &[Expression],
        call: (u32, u32),
        memo: &mut FxHashMap<Expression, Expression>,
    ) -> Option<Expression> {
        let Form::Pair(before, last) = self.all.expressions.form(arguments) else { return Some(arguments) };
        let before = self.translate_arguments(state, before, values, call, memo)?;
        match self.translate(state, last, values, call, memo) {
            NOTHING => None,
            last => Some(self.all.expressions.add(Form::Pair(before, last))),
        }
    }

    pub(super) fn through(&mut self, origin: u32, call: (u32, u32)) -> u32 {
        self.all.expressions.origin(Origin::Through(origin, self.id, call.0, call.1))
    }
}

fn id_number(expression: Expression) -> u32 {
    // Any number that is the same for the same expression.
    let mut hasher = rustc_hash::FxHasher::default();
    std::hash::Hash::hash(&expression, &mut hasher);
    std::hash::Hasher::finish(&hasher) as u32 & 0x7fff_ffff
}
