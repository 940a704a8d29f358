//! Replays a callee's ways at a call.

use std::rc::Rc;

use super::described::Call;
use super::translate::Translation;
use super::walk::{State, Walk};
use super::way::{Summary, Way, whole};
use crate::event::{Event, Kind, Site};
use crate::expression::{Form, NOTHING};
use crashproof_frontend::program::ir::{FunctionId, PlaceId};

impl Walk<'_, '_> {
    /// The states after a call, one per feasible way through the callee.
    pub(super) fn replay(
        &mut self,
        mut state: State,
        call: &Call,
        summary: &Summary,
        callee: FunctionId,
    ) -> Vec<State> {
        self.steps += (summary.alignments.len() + summary.loaded.len() + summary.extents.len()) / 16;
        let visit = self.visit(&state);
        self.note_uses_of(&mut state, callee, call.values);
        let mut here = Translation::new(&state, call, visit, callee);
        self.take_over_objects(&mut here, summary);
        self.take_over_extents(&mut here, summary);
        let wrapper = is_wrapper(summary);
        self.note_callee(&state, callee);
        self.note_handed(&state, callee, call.values);
        let mut after = Vec::new();
        for (way, mut next) in self.possible_ways(&mut here, summary) {
            let mut here = Translation::new(&state, call, visit, callee);
            let from = next.machine.now();
            for event in &way.events {
                self.replay_event(&mut here, &mut next, event, wrapper, call.place);
            }
            if way.exit {
                Rc::make_mut(&mut next.machine).callee_failed(from);
            }
            if !wrapper {
                let readable = self.explorer.program.function(callee).readable.clone();
                let mut machine = std::mem::take(&mut next.machine);
                Rc::make_mut(&mut machine).callee_ends(&mut self.context(), from, &readable);
                next.machine = machine;
            }
            self.name_uses_of(&mut here, &mut next, callee);
            self.replay_memory(&mut here, &mut next, way);
            let result = self.translate(&mut here, way.result);
            next.values[call.number as usize] =
                if result == NOTHING { self.opaque(&state, call.number) } else { result };
            self.note_loaded(call.number, result);
            after.push(next);
        }
        after
    }

    /// What the callee's types reveal about an object holds here, too, even if it is part of a larger one.
    fn take_over_objects(&mut self, here: &mut Translation, summary: &Summary) {
        for (object, alignment) in &summary.alignments {
            let own = self.translate(here, *object);
            let at = self.explorer.expressions.address(own);
            if own != NOTHING && at.offset % *alignment as i64 == 0 {
                self.explorer.expressions.set_alignment(at.element.unwrap_or(at.object), *alignment);
            }
        }
        for (pointer, persistence) in &summary.loaded {
            let own = self.translate(here, *pointer);
            if matches!(self.explorer.expressions.form(own), Form::Content(_)) {
                self.explorer.expressions.set_loaded(own, *persistence);
            }
        }
    }

    /// Takes over the arrays that a callee's indices select from.
    fn take_over_extents(&mut self, here: &mut Translation, summary: &Summary) {
        for extent in &summary.extents {
            let Some(element) = extent.at.element else { continue };
            let outer = self.translate(here, extent.outer.unwrap_or(extent.at.object));
            let element = self.translate(here, element);
            if outer != NOTHING && element != NOTHING {
                let explorer = &mut *self.explorer;
                explorer.extents.take_over(&explorer.expressions, extent, outer, element);
            }
        }
    }

    /// The ways consistent with what is known here, each with the state in which it is taken.
    fn possible_ways<'s>(&mut self, here: &mut Translation, summary: &'s Summary) -> Vec<(&'s Way, State)> {
        let (mut ways, mut otherwise) = (Vec::new(), Vec::new());
        for way in &summary.ways {
            let mut next = here.state.clone();
            let (mut possible, mut in_place) = (true, true);
            for (fact, holds) in &way.facts {
                let own = self.translate(here, *fact);
                match self.truth(&next, own) {
                    Some(truth) if truth != *holds => {
                        possible = false;
                        in_place &= !self.explorer.expressions.is_about_transactions(*fact);
                    }
                    Some(_) => {}
                    None => {
                        if own != NOTHING && self.explorer.validations.contains(fact) {
                            let (own, _) = self.explorer.expressions.fact(own, true);
                            self.explorer.validations.insert(own);
                        }
                        if own != NOTHING && summary.asserted.contains(fact) {
                            let (own, _) = self.explorer.expressions.fact(own, true);
                            // If this function also branches on the same condition, it is not an assertion.
                            if !self.branches.contains_key(&own) {
                                self.asserted.insert(own);
                            }
                        }
                        self.assume(&mut next, own, *holds);
                    }
                }
            }
            if possible {
                ways.push((way, next));
            } else if in_place {
                otherwise.push(way);
            }
        }
        // Summaries assume that loops run. If that contradicts what is known, a contradicting way is better than none,
        // unless it involves transactions: a function that requires one does not return without it.
        if ways.is_empty() {
            ways = otherwise.into_iter().map(|way| (way, here.state.clone())).collect();
        }
        ways
    }

    fn replay_event(
        &mut self,
        here: &mut Translation,
        next: &mut State,
        event: &Event,
        wrapper: bool,
        place: PlaceId,
    ) {
        let Some(kind) = self.translate_event(here, event) else {
            if matches!(event.kind, Kind::Store { .. }) {
                Rc::make_mut(&mut next.machine).forget_late();
            }
            return;
        };
        // The callee's name for the memory is as good, unless the event is reported here.
        let of_a_library = self.explorer.program.place(event.site.place).of_a_library;
        let is_here = wrapper || of_a_library;
        let name = match kind.span() {
            Some(span) if is_here || event.site.name == 0 => {
                let text = self.describe(next, span);
                if text.is_empty() { event.site.name } else { self.explorer.names.add(text) }
            }
            _ => event.site.name,
        };
        if wrapper && self.explorer.verdicts.swept.contains(&event.site.place) {
            self.explorer.verdicts.swept.insert(place);
        }
        let by_library = event.site.by_library || of_a_library;
        let site = if is_here {
            Site { place, call: None, name, outer: 0, by_library }
        } else {
            let outer = self.outer_name(next, &kind, event.site);
            Site { place: event.site.place, call: Some(place), name, outer, by_library }
        };
        self.emit_at(next, kind, site);
    }

    fn replay_memory(&mut self, here: &mut Translation, next: &mut State, way: &Way) {
        self.steps += way.memory.len() / 16;
        for (at, bytes, value) in &way.memory {
            let base = self.translate(here, at.element.unwrap_or(at.object));
            let value = self.translate(here, *value);
            if base != NOTHING && *at == whole(at.object) {
                let object = self.explorer.expressions.address(base).object;
                self.forget(next, object);
            } else if base != NOTHING {
                let address = self.explorer.expressions.plus(base, at.offset);
                self.remember(next, address, *bytes, value);
            }
        }
    }
}

/// Whether a function only flushes and fences: then its events are reported at the call.
fn is_wrapper(summary: &Summary) -> bool {
    summary.ways.iter().flat_map(|way| &way.events).all(|event| {
        matches!(event.kind, Kind::Flush { .. } | Kind::Queue { .. } | Kind::Elsewhere | Kind::Fence { .. })
    })
}
