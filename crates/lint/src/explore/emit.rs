//! Emits the events of a path.

use std::rc::Rc;

use super::walk::{State, Walk};
use crate::event::{Event, Kind, Site};
use crashproof_frontend::program::ir::PlaceId;

impl Walk<'_, '_> {
    /// A flush or fence in an inlined helper, and anything inside a library, is reported where it is used.
    pub(super) fn outside_of_libraries(&self, mut place: PlaceId, is_flush: bool) -> PlaceId {
        while let at = self.explorer.program.place(place)
            && let Some(outer) = at.inlined_at
            && (at.of_a_library || is_flush && !at.in_lambda)
        {
            place = outer;
        }
        place
    }

    pub(super) fn emit(&mut self, state: &mut State, kind: Kind, place: PlaceId) {
        let is_flush = matches!(kind, Kind::Flush { .. } | Kind::Queue { .. } | Kind::Fence { .. });
        let by_library = self.explorer.program.place(place).of_a_library;
        let place = self.outside_of_libraries(place, is_flush);
        if let Some(span) = kind.span() {
            self.note_alignment(state, span.at.object);
        }
        if let Kind::Store { span, .. } = &kind {
            self.note_touched(state, span, true);
        }
        let name = match kind.span() {
            Some(span) => {
                let text = self.describe(state, span);
                self.explorer.names.add(text)
            }
            None => 0,
        };
        let outer = match &kind {
            Kind::Store { span, .. } => self.larger_name(state, span, name),
            _ => 0,
        };
        self.emit_at(state, kind, Site { place, call: None, name, outer, by_library });
    }

    pub(super) fn emit_at(&mut self, state: &mut State, kind: Kind, site: Site) {
        self.steps += 1;
        let event = Event { kind, site };
        if let Kind::Flush { span, .. }
        | Kind::Queue { span }
        | Kind::Log { span }
        | Kind::Store { span, nontemporal: true, .. } = &event.kind
        {
            self.cared_for.insert(span.at.object);
        }
        let mut machine = std::mem::take(&mut state.machine);
        Rc::make_mut(&mut machine).step(&mut self.context(), &event);
        state.machine = machine;
        state.trace = self.explorer.traces.push(state.trace, event);
    }
}
