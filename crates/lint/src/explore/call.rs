//! Calls: of described functions, of functions whose summary is there, and of the unknown.

use std::rc::Rc;

use px86::order::Class;

use super::{State, Walk};
use crate::event::Kind;
use crate::expression::{Address, Expression, Form, NOTHING, Persistence};
use crate::span::Length;
use crashproof_frontend::frameworks::{Effect, Returns, What};
use crashproof_frontend::program::ir::{Arithmetic, Callee, Compare, Operand, PlaceId};

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
                match self.all.expressions.form(pointer) {
                    Form::Function(id) => vec![id],
                    _ => self.all.analysis.targets.get(&(self.id, number)).cloned().unwrap_or_default(),
                }
            }
        };
        if targets.is_empty() {
            self.unknown_call(&mut state, number, &values, true, place);
            return vec![state];
        }
        let mut after = Vec::new();
        for target in &targets {
            let mut before = state.clone();
            let function = self.all.program.function(*target);
            if let Some(meaning) = self.all.apis.meaning(&function.name) {
                let (effects, returns, framework, alignment) =
                    (meaning.effects.clone(), meaning.returns, meaning.framework, meaning.alignment);
                for mut before in self.decided(before, &values, &effects) {
                    if self.effects(&mut before, number, &values, &effects, framework, place) {
                        let result = self.result(&before, number, &values, returns, &function.name);
                        before.values[number as usize] = result;
                        if alignment > 0 {
                            self.all.expressions.set_alignment(result, alignment);
                        }
                        after.push(before);
                    }
                }
            } else if let Some(summary) = self.all.summaries.get(target).cloned() {
                self.all.met.insert(*target);
                after.extend(self.replay(before, number, &summary, &values, place, *target));
            } else {
                if !function.is_defined() && !function.name.is_empty() {
                    let touches = values.iter().any(|value| self.persistence(*value) != Persistence::No);
                    if touches {
                        self.all.unresolved.insert(function.readable.clone());
                    }
                }
                let recursive = function.is_defined();
                if !recursive {
                    self.unknown_call(&mut before, number, &values, false, place);
                } else {
                    // The recursion ends here, in this round.
                    before.values[number as usize] = self.opaque(&before, number);
                }
                after.push(before);
            }
        }
        after
    }

    /// A call of something that nothing is known of. If `anything`, it may flush and fence what it was not given.
    pub(super) fn unknown_call(
        &mut self,
        state: &mut State,
        number: u32,
        values: &[Expression],
        anything: bool,
        place: PlaceId,
    ) {
        let mut objects = Vec::new();
        for value in values {
            if self.persistence(*value) != Persistence::No {
                objects.push(self.all.expressions.address(*value).object);
            }
            // Variables whose address is given away may change.
            let at = self.all.expressions.address(*value);
            if matches!(self.all.expressions.form(at.object), Form::Local(..)) {
                let stale: Vec<Address> =
                    state.memory.keys().filter(|known| known.object == at.object).copied().collect();
                for known in stale {
                    Rc::make_mut(&mut state.memory).entry(known).and_modify(|entry| entry.1 = NOTHING);
                }
            }
        }
        if !objects.is_empty() || anything {
            objects.dedup();
            self.emit(state, Kind::Unknown { objects, own: anything }, place);
        }
        state.values[number as usize] = self.opaque(state, number);
    }

    /// What a described function returns.
    pub(super) fn result(
        &mut self,
        state: &State,
        number: u32,
        values: &[Expression],
        returns: Returns,
        name: &str,
    ) -> Expression {
        match returns {
            Returns::Anything => self.opaque(state, number),
            Returns::Persistent => {
                let origin = self.origin(state, number);
                self.all.expressions.add(Form::Mapped(origin))
            }
            Returns::Found => {
                let name = self.all.names.add(name.to_owned());
                match self.arguments(values) {
                    Some(arguments) => self.all.expressions.add(Form::Found(name, arguments)),
                    None => {
                        let origin = self.origin(state, number);
                        self.all.expressions.add(Form::Opaque(origin, Persistence::Surely))
                    }
                }
            }
            Returns::Transaction => self.open_transaction(state),
            Returns::Fresh => {
                let origin = self.origin(state, number);
                self.all.expressions.add(Form::Fresh(origin))
            }
            Returns::FreshOid => {
                let origin = self.origin(state, number);
                let id = self.all.expressions.add(Form::FreshId(origin));
                self.all.expressions.add(Form::Pair(NOTHING, id))
            }
            Returns::Direct(first) => {
                let id = values.get(first as usize + 1).copied().unwrap_or(NOTHING);
                if id == NOTHING {
                    let origin = self.origin(state, number);
                    return self.all.expressions.add(Form::Opaque(origin, Persistence::Surely));
                }
                self.all.expressions.add(Form::Direct(id))
            }
            Returns::Argument(argument) => values.get(argument as usize).copied().unwrap_or(NOTHING),
            Returns::Volatile => {
                let origin = self.origin(state, number);
                self.all.expressions.add(Form::Volatile(origin))
            }
            Returns::Constant(constant) => self.all.expressions.int(constant),
            Returns::Stage => self.stage(state),
            Returns::PoolOf(argument) => {
                let pointer = values.get(argument as usize).copied().unwrap_or(NOTHING);
                // Where it is not sure, only what happens if it is persistent matters.
                let is_persistent = self.persistence(pointer) != Persistence::No;
                self.all.expressions.int(is_persistent.into())
            }
        }
    }

    /// Arguments as one expression, if all are known.
    pub(super) fn arguments(&mut self, values: &[Expression]) -> Option<Expression> {
        let mut all = self.all.expressions.int(0);
        for value in values {
            if *value == NOTHING {
                return None;
            }
            all = self.all.expressions.add(Form::Pair(all, *value));
        }
        Some(all)
    }

    /// Something that is zero if no transaction is open, as far as that is known here.
    pub(super) fn open_transaction(&mut self, state: &State) -> Expression {
        if state.machine.in_transaction() {
            self.all.expressions.int(1)
        } else if self.is_root {
            self.all.expressions.int(0)
        } else {
            self.all.expressions.add(Form::Transaction)
        }
    }

    /// What must hold for an effect to take place, if that depends on an argument.
    fn condition(&mut self, effect: &Effect, values: &[Expression]) -> Option<Expression> {
        let argument = |number: u32| values.get(number as usize).copied().unwrap_or(NOTHING);
        let zero = self.all.expressions.int(0);
        match (effect.only_if, effect.unless) {
            (Some(number), _) => Some(self.all.expressions.comparison(Compare::Ne, argument(number), zero)),
            (None, Some(number)) => {
                let bits = self.all.expressions.int(effect.bits);
                let set = self.all.expressions.arithmetic(Arithmetic::And, argument(number), bits);
                Some(self.all.expressions.comparison(Compare::Eq, set, zero))
            }
            (None, None) => None,
        }
    }

    /// A path for each way that the conditions of effects may go, if a caller may decide over them.
    fn decided(&mut self, state: State, values: &[Expression], effects: &[Effect]) -> Vec<State> {
        let mut all = vec![state];
        for effect in effects {
            let Some(holds) = self.condition(effect, values) else { continue };
            if !self.is_about_parameters(holds) {
                continue;
            }
            let mut apart = Vec::new();
            for mut yes in all {
                if self.truth(&yes, holds).is_none() {
                    let mut no = yes.clone();
                    self.assume(&mut yes, holds, true);
                    self.assume(&mut no, holds, false);
                    apart.push(no);
                }
                apart.push(yes);
            }
            all = apart;
        }
        all
    }

    /// The stage of the innermost transaction, as far as that is known here.
    pub(super) fn stage(&mut self, state: &State) -> Expression {
        if state.machine.in_transaction() || self.is_root {
            let stage = state.machine.stage();
            self.all.expressions.int(stage)
        } else {
            self.all.expressions.add(Form::Stage)
        }
    }

    /// Carries out what a description says. False if control does not come back.
    pub(super) fn effects(
        &mut self,
        state: &mut State,
        number: u32,
        values: &[Expression],
        effects: &[Effect],
        framework: usize,
        place: PlaceId,
    ) -> bool {
        let argument = |number: u32| values.get(number as usize).copied().unwrap_or(NOTHING);
        for effect in effects {
            if let Some(holds) = self.condition(effect, values)
                && self.truth(state, holds) == Some(false)
            {
                continue;
            }
            let address = match (effect.address, effect.oid) {
                (Some(number), _) => argument(number),
                (None, Some(first)) => {
                    let id = argument(first + 1);
                    if id == NOTHING { NOTHING } else { self.all.expressions.add(Form::Direct(id)) }
                }
                (None, None) => NOTHING,
            };
            let address = match effect.offset.map(argument) {
                Some(offset) => self.all.expressions.arithmetic(Arithmetic::Add, address, offset),
                None => address,
            };
            let length = match (effect.length, effect.bytes) {
                _ if effect.line => Length::Known(1),
                (Some(number), _) => {
                    let value = argument(number);
                    self.length(value)
                }
                (None, Some(bytes)) => Length::Known(bytes),
                (None, None) => Length::Unknown,
            };
            self.effect(state, number, effect, address, length, values, framework, place);
            if effect.what == What::Leave {
                return false;
            }
        }
        true
    }

    #[allow(clippy::too_many_arguments, reason = "all of it is the one effect")]
    pub(super) fn effect(
        &mut self,
        state: &mut State,
        _number: u32,
        effect: &Effect,
        address: Expression,
        length: Length,
        values: &[Expression],
        framework: usize,
        place: PlaceId,
    ) {
        let argument = |number: u32| values.get(number as usize).copied().unwrap_or(NOTHING);
        let known = address != NOTHING && self.persistence(address) != Persistence::No;
        let span = self.span(address, length);
        let kind = match effect.what {
            What::Nothing | What::Leave => return,
            What::Store | What::StoreNonTemporal | What::LogAndStore => {
                let source = effect.source.map(argument);
                let value = effect.value.map_or(NOTHING, argument);
                if effect.what == What::LogAndStore && known {
                    self.emit(state, Kind::Log { span }, place);
                }
                let nontemporal = effect.what == What::StoreNonTemporal;
                match length {
                    Length::Known(bytes) if bytes <= 8 && source.is_none() => {
                        self.store(state, address, value, bytes, nontemporal, place);
                    }
                    _ => self.bulk(state, address, source, value, length, nontemporal, place),
                }
                return;
            }
            What::Clobber => {
                if let Length::Known(bytes) = length {
                    self.remember(state, address, bytes, NOTHING);
                    // An identifier is two words.
                    let second = self.all.expressions.plus(address, 8);
                    if bytes == 16 {
                        self.remember(state, address, 8, NOTHING);
                        self.remember(state, second, 8, NOTHING);
                    }
                }
                return;
            }
            What::Flush | What::FlushOrdered | What::Queue | What::Log if length == Length::Known(0) => {
                return;
            }
            What::Flush | What::FlushOrdered | What::Queue if !known && address != NOTHING => Kind::Elsewhere,
            // Something is flushed, but nobody knows what.
            What::Flush | What::FlushOrdered | What::Queue | What::Log if !known => {
                Kind::Unknown { objects: Vec::new(), own: false }
            }
            What::Flush => Kind::Flush { span, class: Class::FlushOpt },
            What::FlushOrdered => Kind::Flush { span, class: Class::Flush },
            What::Queue => Kind::Queue { span },
            What::Log => Kind::Log { span },
            What::Fence => Kind::Fence { class: Class::StoreFence, drains: false },
            What::Drain => Kind::Fence { class: Class::StoreFence, drains: true },
            // Not judged: it is there for more than what was flushed.
            What::Settle => Kind::Fence { class: Class::Fence, drains: true },
            What::Begin => Kind::Begin { framework },
            What::Commit => Kind::Commit,
            What::Abort => Kind::Abort,
            What::Process => Kind::Process,
            What::CommitStage => Kind::CommitStage,
            What::End => Kind::End,
            What::Change => Kind::Change,
            What::Inside => Kind::Inside,
            What::EpochBegin => Kind::EpochBegin,
            What::EpochEnd => Kind::EpochEnd,
            What::StrandBegin => Kind::StrandBegin,
            What::StrandEnd => Kind::StrandEnd,
            What::StrandJoin => Kind::StrandJoin,
        };
        self.emit(state, kind, place);
    }
}
