//! Calls of described functions, of functions with a summary, and of unknown code. Direct calls of the C library no
//! longer appear as calls: the reader has replaced them according to the table of meaning.

use std::rc::Rc;

use super::described::Call;
use super::walk::{State, Walk};
use crate::event::{Kind, UnknownCode};
use crate::expression::{Address, Expression, Form, NOTHING, Persistence};
use crate::gap::Gap;
use crashproof_frontend::program::ir::{Callee, FunctionId, Op, Operand, PlaceId};

impl Walk<'_, '_> {
    pub(super) fn call(
        &mut self,
        mut state: State,
        number: u32,
        callee: Callee,
        arguments: &[Operand],
        place: PlaceId,
    ) -> Vec<State> {
        let values: Vec<Expression> = arguments.iter().map(|operand| self.value(&state, *operand)).collect();
        let targets = match callee {
            Callee::Direct(id) => vec![id],
            Callee::Indirect(pointer) => {
                let pointer = self.value(&state, pointer);
                match self.explorer.expressions.form(pointer) {
                    Form::Function(id) => vec![id],
                    _ => self.explorer.analysis.targets.get(&(self.id, number)).cloned().unwrap_or_default(),
                }
            }
        };
        let call = Call { number, values: &values, place };
        if targets.is_empty() {
            if self.concerns_persistent(arguments, &values) {
                self.explorer.verdicts.gaps.add(Gap::Pointer, place);
            }
            self.unknown_call(&mut state, &call, UnknownCode::Pointer);
            return vec![state];
        }
        let mut after = Vec::new();
        for target in &targets {
            after.extend(self.call_of(state.clone(), &call, *target, arguments));
        }
        after
    }

    fn call_of(
        &mut self,
        mut state: State,
        call: &Call,
        target: FunctionId,
        arguments: &[Operand],
    ) -> Vec<State> {
        let function = self.explorer.program.function(target);
        let apis = self.explorer.apis;
        if let Some(meaning) = apis.meaning(&function.name) {
            return self.described_call(state, call, meaning, &function.name);
        }
        if let Some(summary) = self.explorer.summaries.get(&target).cloned() {
            self.explorer.met.insert(target);
            return self.replay(state, call, &summary, target);
        }
        if function.is_defined() {
            // The recursion ends here, in this iteration.
            state.values[call.number as usize] = self.opaque(&state, call.number);
            return vec![state];
        }
        // A function that does not return, such as a failed assertion, reports its arguments and stores to none of
        // them.
        if !self.never_returns(call.number) && self.concerns_persistent(arguments, call.values) {
            self.explorer.verdicts.gaps.add(Gap::Function(target), call.place);
        }
        self.unknown_call(&mut state, call, UnknownCode::Library);
        vec![state]
    }

    fn never_returns(&self, call: u32) -> bool {
        let next = |number: u32| self.function.instructions.get(number as usize).map(|next| &next.op);
        match next(call + 1) {
            // It may throw an exception, but control does not come back then either.
            Some(Op::Jump { to }) => {
                matches!(next(self.function.blocks[*to as usize].start), Some(Op::Unreachable))
            }
            Some(Op::Unreachable) => true,
            _ => false,
        }
    }

    /// Whether a call is passed persistent memory, or a structure that leads to some.
    pub(super) fn concerns_persistent(&mut self, arguments: &[Operand], values: &[Expression]) -> bool {
        values.iter().any(|value| self.persistence(*value) != Persistence::No)
            || arguments.iter().any(|argument| self.leads_to_persistent(*argument))
    }

    fn leads_to_persistent(&self, argument: Operand) -> bool {
        let graph = &self.explorer.analysis.graphs[&self.id];
        graph.lookup(argument).is_some_and(|cell| graph.graph.leads_to_persistent(cell))
    }

    /// A call of unknown code. If it may be code of the program, it may flush and fence anything.
    fn unknown_call(&mut self, state: &mut State, call: &Call, code: UnknownCode) {
        let mut objects = Vec::new();
        for value in call.values {
            if self.persistence(*value) != Persistence::No {
                self.note_copied(state, *value);
                objects.push(self.explorer.expressions.address(*value).object);
            }
            // Variables whose address is passed may change.
            let at = self.explorer.expressions.address(*value);
            if matches!(self.explorer.expressions.form(at.object), Form::Local(..)) {
                let stale: Vec<Address> =
                    state.memory.keys().filter(|known| known.object == at.object).copied().collect();
                for known in stale {
                    Rc::make_mut(&mut state.memory).entry(known).and_modify(|entry| entry.1 = NOTHING);
                }
            }
        }
        if !objects.is_empty() || code == UnknownCode::Pointer {
            objects.dedup();
            self.emit(state, Kind::Unknown { objects, code }, call.place);
        }
        state.values[call.number as usize] = self.opaque(state, call.number);
    }
}
