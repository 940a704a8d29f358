//! Events: what a path does to persistent memory, and what the source calls that memory.

use std::rc::Rc;

use super::{State, Walk};
use crate::event::{Event, Kind, Site};
use crate::expression::{Form, NOTHING};
use crate::ir::PlaceId;
use crate::span::{Length, Span};

impl Walk<'_, '_> {
    pub(super) fn emit(&mut self, state: &mut State, kind: Kind, mut place: PlaceId) {
        // A flush or fence in an inlined helper: the place is where the helper is used.
        if matches!(kind, Kind::Flush { .. } | Kind::Queue { .. } | Kind::Fence { .. }) {
            while let Some(outer) = self.all.program.place(place).inlined_at {
                place = outer;
            }
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
        let event = Event { kind, site };
        let mut machine = std::mem::take(&mut state.machine);
        Rc::make_mut(&mut machine).step(&mut self.around(), &event);
        state.machine = machine;
        state.trace = self.all.traces.push(state.trace, event);
    }

    /// What the source calls a range.
    pub(super) fn describe(&mut self, state: &State, span: &Span) -> String {
        let mut best: Option<(i64, String)> = None;
        if let Form::Global(id) = self.all.expressions.form(span.at.object) {
            let global = &self.all.program.globals[id.0 as usize];
            let whole = span.length == Length::Known(global.bytes) && span.at.offset == 0;
            let field =
                global.ty.filter(|_| !whole).and_then(|ty| self.all.program.field(ty, span.at.offset as u64));
            return match field {
                Some(field) if field.starts_with('[') => format!("{}{field}", global.name),
                Some(field) => format!("{}.{field}", global.name),
                None => global.name.clone(),
            };
        }
        let variables = std::mem::take(&mut self.variables);
        for (operand, variable) in &variables {
            let value = self.value(state, *operand);
            if value == NOTHING {
                continue;
            }
            let at = self.all.expressions.address(value);
            if at.object != span.at.object || at.element != span.at.element || at.offset > span.at.offset {
                continue;
            }
            let distance = span.at.offset - at.offset;
            let Some(ty) = variable.ty else { continue };
            let ty = &self.all.program.types[ty.0 as usize];
            let Some(base) = ty.base.filter(|_| ty.is_pointer) else { continue };
            let target = &self.all.program.types[base.0 as usize];
            if target.bytes > 0 && distance >= target.bytes as i64 && !target.members.is_empty() {
                continue;
            }
            let whole = distance == 0
                && matches!(span.length, Length::Known(bytes) if bytes >= target.bytes && target.bytes > 0);
            let field = (!whole).then(|| self.all.program.field(base, distance as u64)).flatten();
            let name = match field {
                Some(field) => format!("{}->{field}", variable.name),
                None => format!("*{}", variable.name),
            };
            if best.as_ref().is_none_or(|(known, _)| distance < *known) {
                best = Some((distance, name));
            }
        }
        self.variables = variables;
        best.map(|(_, name)| name).unwrap_or_default()
    }
}
