//! Events: what a path does to persistent memory.

use std::rc::Rc;

use super::{State, Walk};
use crate::event::{Event, Kind, Site};
use crate::ir::PlaceId;

impl Walk<'_, '_> {
    pub(super) fn emit(&mut self, state: &mut State, kind: Kind, mut place: PlaceId) {
        // A flush or fence in an inlined helper: the place is where the helper is used.
        if matches!(kind, Kind::Flush { .. } | Kind::Queue { .. } | Kind::Fence { .. }) {
            while let Some(outer) = self.all.program.place(place).inlined_at {
                place = outer;
            }
        }
        if let Some(span) = kind.span() {
            self.note_alignment(state, span.at.object);
        }
        let name = match kind.span() {
            Some(span) => {
                let text = self.describe(state, span);
                self.all.names.add(text)
            }
            None => 0,
        };
        self.emit_at(state, kind, Site { place, call: None, name });
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
        Rc::make_mut(&mut machine).step(&mut self.around(), &event);
        state.machine = machine;
        state.trace = self.all.traces.push(state.trace, event);
    }
}
