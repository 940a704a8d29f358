//! Translates a callee's expressions and events into the caller's terms.

use rustc_hash::FxHashMap;

use super::described::Call;
use super::walk::{MAX_DEPTH, State, Walk};
use crate::event::{Event, Kind};
use crate::expression::{Expression, Form, NOTHING, Origin, Persistence};
use crate::gap::Gap;
use crate::span::Length;
use crashproof_frontend::program::ir::FunctionId;

/// How deep a callee's expression of what it is handed may be nested, as a member of an element of it is.
const MEMBERS: u8 = 3;

/// The call at which expressions are translated, and the translations so far.
pub(super) struct Translation<'a> {
    /// The caller before the call.
    pub(super) state: &'a State,
    values: &'a [Expression],
    /// The instruction, and the number of the visit.
    call: (u32, u32),
    /// The called function.
    callee: FunctionId,
    memo: FxHashMap<Expression, Expression>,
}

impl<'a> Translation<'a> {
    pub(super) fn new(state: &'a State, call: &Call<'a>, visit: u32, callee: FunctionId) -> Self {
        let call_at = (call.number, visit);
        Translation { state, values: call.values, call: call_at, callee, memo: FxHashMap::default() }
    }
}

impl Walk<'_, '_> {
    pub(super) fn translate_event(&mut self, here: &mut Translation, event: &Event) -> Option<Kind> {
        let mut kind = event.kind.clone();
        match &mut kind {
            Kind::Store { span, .. }
            | Kind::Load { span }
            | Kind::Empty { span }
            | Kind::Flush { span, .. }
            | Kind::Queue { span }
            | Kind::Log { span } => {
                let base = self.translate(here, span.at.element.unwrap_or(span.at.object));
                let flushes = matches!(
                    event.kind,
                    Kind::Flush { .. } | Kind::Queue { .. } | Kind::Store { nontemporal: true, .. }
                );
                if base == NOTHING && matches!(event.kind, Kind::Store { .. }) {
                    // The callee stored to persistent memory, but the caller cannot tell where.
                    self.explorer.verdicts.gaps.add(Gap::Address, event.site.place);
                }
                if base == NOTHING && matches!(event.kind, Kind::Log { .. }) {
                    return Some(Kind::LogSomewhere);
                }
                if base == NOTHING || self.persistence(base) == Persistence::No {
                    return flushes.then_some(Kind::Elsewhere);
                }
                let address = self.explorer.expressions.plus(base, span.at.offset);
                let length = match span.length {
                    Length::Symbol(symbol) => {
                        let own = self.translate(here, symbol);
                        self.length(own)
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
                    let own = self.translate(here, *object);
                    *object = self.explorer.expressions.address(own).object;
                }
            }
            _ => {}
        }
        if let Kind::Store { value, .. } = &mut kind {
            *value = self.translate(here, *value);
        }
        Some(kind)
    }

    /// A callee's expression in the caller's terms.
    pub(super) fn translate(&mut self, here: &mut Translation, expression: Expression) -> Expression {
        if let Some(known) = here.memo.get(&expression) {
            return *known;
        }
        let form = self.explorer.expressions.form(expression);
        let result = match form {
            Form::Nothing => NOTHING,
            Form::Int(_) | Form::Global(_) | Form::Function(_) | Form::Failure | Form::Local(..) => {
                expression
            }
            Form::Parameter(number) => here.values.get(number as usize).copied().unwrap_or(NOTHING),
            Form::Transaction => self.open_transaction(here.state),
            Form::Stage => self.stage(here.state),
            Form::Content(address) => {
                let address = self.translate(here, address);
                match self.content(here.state, address) {
                    NOTHING => self.translate_unknown_content(here, expression),
                    known => known,
                }
            }
            Form::Volatile(origin)
            | Form::Mapped(origin)
            | Form::Fresh(origin)
            | Form::FreshId(origin)
            | Form::Opaque(origin, _) => self.translate_origin(here, form, origin),
            Form::Direct(_) | Form::Found(..) => self.translate_found(here, expression, form),
            Form::Plus(..)
            | Form::Element(..)
            | Form::Pair(..)
            | Form::Operation(..)
            | Form::Comparison(..) => self.translate_computed(here, form),
        };
        // Recursion makes expressions that say nothing more. What the caller hands over, and its members, it knows already.
        let handed = here.values.iter().map(|value| self.explorer.expressions.depth(*value)).max();
        let limit = handed.map_or(MAX_DEPTH, |depth| MAX_DEPTH.max(depth.saturating_add(MEMBERS)));
        let result = if self.explorer.expressions.depth(result) <= limit {
            result
        } else if matches!(form, Form::Content(_)) {
            self.translate_unknown_content(here, expression)
        } else {
            NOTHING
        };
        here.memo.insert(expression, result);
        result
    }

    fn translate_computed(&mut self, here: &mut Translation, form: Form) -> Expression {
        match form {
            Form::Plus(inner, offset) => {
                let inner = self.translate(here, inner);
                self.explorer.expressions.plus(inner, offset)
            }
            Form::Element(base, index, scale) => {
                match (self.translate(here, base), self.translate(here, index)) {
                    (NOTHING, _) => NOTHING,
                    // An element that cannot be identified here: the same for all events of this call.
                    (base, NOTHING) => {
                        let origin = 0x8000_0000 | stable_number(index);
                        let unknown = Form::Opaque(origin, Persistence::No);
                        let index = self.translate_origin(here, unknown, origin);
                        self.explorer.expressions.element(base, index, scale)
                    }
                    (base, index) => self.explorer.expressions.element(base, index, scale),
                }
            }
            Form::Pair(left, right) => {
                let (left, right) = (self.translate(here, left), self.translate(here, right));
                self.explorer.expressions.add(Form::Pair(left, right))
            }
            Form::Operation(what, left, right) => {
                let (left, right) = (self.translate(here, left), self.translate(here, right));
                self.explorer.expressions.arithmetic(what, left, right)
            }
            Form::Comparison(what, left, right) => {
                let (left, right) = (self.translate(here, left), self.translate(here, right));
                self.explorer.expressions.comparison(what, left, right)
            }
            _ => NOTHING,
        }
    }

    /// A pointer that the callee loads from memory with unknown content. If it leads to persistent memory there, it is
    /// some persistent object: the same for all events of this call.
    fn translate_unknown_content(&mut self, here: &Translation, expression: Expression) -> Expression {
        let Some(graph) = self.explorer.analysis.graphs.get(&here.callee) else { return NOTHING };
        let cell = graph.cell(&self.explorer.expressions, here.callee, expression);
        match cell.map_or(Persistence::No, |cell| graph.graph.persistence(cell)) {
            Persistence::No => NOTHING,
            persistence => {
                let origin = 0x8000_0000 | stable_number(expression);
                self.translate_origin(here, Form::Opaque(origin, persistence), origin)
            }
        }
    }

    /// Objects created in the callee are distinct for each call.
    fn translate_origin(&mut self, here: &Translation, form: Form, origin: u32) -> Expression {
        let (number, visit) = here.call;
        let declared = self
            .explorer
            .expressions
            .known(form)
            .is_some_and(|known| self.explorer.expressions.is_declared(known));
        let origin = self.explorer.expressions.origin(Origin::Through(origin, self.id, number, visit));
        let own = self.explorer.expressions.add(match form {
            Form::Volatile(_) => Form::Volatile(origin),
            Form::Mapped(_) => Form::Mapped(origin),
            Form::Fresh(_) => Form::Fresh(origin),
            Form::FreshId(_) => Form::FreshId(origin),
            Form::Opaque(_, persistence) => Form::Opaque(origin, persistence),
            other => other,
        });
        if declared {
            self.explorer.expressions.set_declared(own);
        }
        own
    }

    /// Persistent objects found by a library: if the arguments are unknown here, some object.
    fn translate_found(&mut self, here: &mut Translation, expression: Expression, form: Form) -> Expression {
        let own = match form {
            Form::Direct(id) => match self.translate(here, id) {
                NOTHING => None,
                id => Some(Form::Direct(id)),
            },
            Form::Found(name, arguments) => {
                self.translate_arguments(here, arguments).map(|arguments| Form::Found(name, arguments))
            }
            _ => None,
        };
        match own {
            Some(form) => self.explorer.expressions.add(form),
            None => {
                let origin = 0x8000_0000 | stable_number(expression);
                self.translate_origin(here, Form::Opaque(origin, Persistence::Surely), origin)
            }
        }
    }

    /// A callee's arguments to a library's find function in the caller's terms; `None` if some are unknown here.
    fn translate_arguments(&mut self, here: &mut Translation, arguments: Expression) -> Option<Expression> {
        let Form::Pair(before, last) = self.explorer.expressions.form(arguments) else {
            return Some(arguments);
        };
        let before = self.translate_arguments(here, before)?;
        match self.translate(here, last) {
            NOTHING => None,
            last => Some(self.explorer.expressions.add(Form::Pair(before, last))),
        }
    }
}

/// An arbitrary number that is the same for equal expressions.
fn stable_number(expression: Expression) -> u32 {
    let mut hasher = rustc_hash::FxHasher::default();
    std::hash::Hash::hash(&expression, &mut hasher);
    std::hash::Hasher::finish(&hasher) as u32 & 0x7fff_ffff
}
