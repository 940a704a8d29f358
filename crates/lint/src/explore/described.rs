//! Calls of described functions: the description is executed in place of the code.

use px86::order::Class;

use super::access::Bulk;
use super::walk::{State, Walk};
use crate::event::{Kind, UnknownCode};
use crate::expression::{Expression, Form, NOTHING, Persistence};
use crate::gap::Gap;
use crate::span::Length;
use crate::{mapping, returned};
use crashproof_frontend::frameworks::{Effect, Meaning, Returns, What};
use crashproof_frontend::program::ir::{Arithmetic, Compare, PlaceId};

/// A call: the instruction, its arguments, its place.
pub(super) struct Call<'a> {
    pub(super) number: u32,
    pub(super) values: &'a [Expression],
    pub(super) place: PlaceId,
}

impl Call<'_> {
    pub(super) fn argument(&self, number: u32) -> Expression {
        self.values.get(number as usize).copied().unwrap_or(NOTHING)
    }
}

/// The memory an effect applies to.
struct Target {
    address: Expression,
    length: Length,
}

impl Walk<'_, '_> {
    pub(super) fn described_call(
        &mut self,
        state: State,
        call: &Call,
        meaning: &Meaning,
        name: &str,
    ) -> Vec<State> {
        let mut after = Vec::new();
        for mut state in self.decided(state, call, &meaning.effects) {
            if self.effects(&mut state, call, meaning) {
                let result = self.result(&state, call, meaning.returns, name);
                state.values[call.number as usize] = result;
                if meaning.alignment > 0 {
                    self.explorer.expressions.set_alignment(result, meaning.alignment);
                }
                after.push(state);
            }
        }
        after
    }

    /// The result of a described function.
    fn result(&mut self, state: &State, call: &Call, returns: Returns, name: &str) -> Expression {
        let origin = self.origin(state, call.number);
        match returns {
            Returns::Mapping if !self.maps_shared_file(call.number) => self.opaque(state, call.number),
            Returns::Anything => self.opaque(state, call.number),
            Returns::Persistent | Returns::Mapping => self.explorer.expressions.add(Form::Mapped(origin)),
            Returns::Found => {
                let name = self.explorer.names.add(name.to_owned());
                match self.arguments(call.values) {
                    Some(arguments) => self.explorer.expressions.add(Form::Found(name, arguments)),
                    None => self.explorer.expressions.add(Form::Opaque(origin, Persistence::Surely)),
                }
            }
            Returns::Transaction => self.open_transaction(state),
            Returns::Fresh => self.explorer.expressions.add(Form::Fresh(origin)),
            Returns::FreshOid => {
                let id = self.explorer.expressions.add(Form::FreshId(origin));
                self.explorer.expressions.add(Form::Pair(NOTHING, id))
            }
            Returns::Direct(first) => match call.argument(first + 1) {
                NOTHING => self.explorer.expressions.add(Form::Opaque(origin, Persistence::Surely)),
                id => self.explorer.expressions.add(Form::Direct(id)),
            },
            Returns::Argument(argument) => call.argument(argument),
            Returns::Volatile => self.explorer.expressions.add(Form::Volatile(origin)),
            Returns::Constant(constant) => self.explorer.expressions.int(constant),
            Returns::Stage => self.stage(state),
            Returns::Function(_) => {
                match returned::function(self.explorer.program, self.explorer.apis, returns) {
                    Some(id) => self.explorer.expressions.add(Form::Function(id)),
                    None => self.opaque(state, call.number),
                }
            }
            Returns::PoolOf(argument) => {
                // If it may be persistent, only the case in which it is persistent matters.
                let is_persistent = self.persistence(call.argument(argument)) != Persistence::No;
                self.explorer.expressions.int(is_persistent.into())
            }
        }
    }

    fn maps_shared_file(&self, call: u32) -> bool {
        let op = &self.function.instructions[call as usize].op;
        mapping::is_shared_file(self.explorer.program, self.explorer.apis, self.function, op)
    }

    /// The arguments as one expression, if all are known.
    fn arguments(&mut self, values: &[Expression]) -> Option<Expression> {
        let mut all = self.explorer.expressions.int(0);
        for value in values {
            if *value == NOTHING {
                return None;
            }
            all = self.explorer.expressions.add(Form::Pair(all, *value));
        }
        Some(all)
    }

    /// An expression that is zero if no transaction is open, as far as known.
    pub(super) fn open_transaction(&mut self, state: &State) -> Expression {
        if state.machine.in_transaction() {
            self.explorer.expressions.int(1)
        } else if self.is_root {
            self.explorer.expressions.int(0)
        } else {
            self.explorer.expressions.add(Form::Transaction)
        }
    }

    /// The stage of the innermost transaction, as far as known.
    pub(super) fn stage(&mut self, state: &State) -> Expression {
        if state.machine.in_transaction() || self.is_root {
            let stage = state.machine.stage();
            self.explorer.expressions.int(stage)
        } else {
            self.explorer.expressions.add(Form::Stage)
        }
    }

    /// The condition for an effect, if it depends on an argument.
    fn condition(&mut self, effect: &Effect, call: &Call) -> Option<Expression> {
        let expressions = &mut self.explorer.expressions;
        let zero = expressions.int(0);
        match (effect.only_if, effect.unless) {
            (Some(number), _) => Some(expressions.comparison(Compare::Ne, call.argument(number), zero)),
            (None, Some(number)) => {
                let bits = expressions.int(effect.bits);
                let set = expressions.arithmetic(Arithmetic::And, call.argument(number), bits);
                Some(expressions.comparison(Compare::Eq, set, zero))
            }
            (None, None) => None,
        }
    }

    /// One path per outcome of the effects' conditions, if callers may determine them.
    fn decided(&mut self, state: State, call: &Call, effects: &[Effect]) -> Vec<State> {
        let mut all = vec![state];
        for effect in effects {
            let Some(holds) = self.condition(effect, call) else { continue };
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

    /// Executes a description. `false` if control does not come back.
    fn effects(&mut self, state: &mut State, call: &Call, meaning: &Meaning) -> bool {
        for effect in &meaning.effects {
            if let Some(holds) = self.condition(effect, call)
                && self.truth(state, holds) == Some(false)
            {
                continue;
            }
            let target = self.target(effect, call);
            match effect.what {
                What::Leave => return false,
                What::Nothing => {}
                What::Store | What::StoreNonTemporal | What::LogAndStore => {
                    self.described_store(state, call, effect, &target);
                }
                What::Clobber => self.clobber(state, &target),
                What::Flush | What::FlushOrdered | What::FlushPages | What::Queue | What::Log => {
                    self.described_flush(state, call, effect.what, &target);
                }
                what => {
                    if let Some(kind) = control(what, meaning.framework) {
                        self.emit(state, kind, call.place);
                    }
                }
            }
        }
        true
    }

    fn target(&mut self, effect: &Effect, call: &Call) -> Target {
        let address = match (effect.address, effect.oid) {
            (Some(number), _) => call.argument(number),
            (None, Some(first)) => match call.argument(first + 1) {
                NOTHING => NOTHING,
                id => self.explorer.expressions.add(Form::Direct(id)),
            },
            (None, None) => NOTHING,
        };
        let address = match effect.offset {
            Some(offset) => {
                self.explorer.expressions.arithmetic(Arithmetic::Add, address, call.argument(offset))
            }
            None => address,
        };
        let length = match (effect.length, effect.bytes) {
            _ if effect.line => Length::Known(1),
            (Some(number), _) => self.length(call.argument(number)),
            (None, Some(bytes)) => Length::Known(bytes),
            (None, None) => Length::Unknown,
        };
        Target { address, length }
    }

    fn described_store(&mut self, state: &mut State, call: &Call, effect: &Effect, target: &Target) {
        let &Target { address, length } = target;
        let source = effect.source.map(|number| call.argument(number));
        let value = effect.value.map_or(NOTHING, |number| call.argument(number));
        if effect.what == What::LogAndStore && self.persistence(address) != Persistence::No {
            let span = self.span(address, length);
            self.emit(state, Kind::Log { span }, call.place);
        }
        let nontemporal = effect.what == What::StoreNonTemporal;
        match length {
            Length::Known(bytes) if bytes <= 8 && source.is_none() => {
                self.store(state, address, value, bytes, nontemporal, call.place);
            }
            _ => {
                let bulk = Bulk { target: address, source, value, length, nontemporal };
                self.bulk(state, &bulk, call.place);
            }
        }
    }

    /// Makes the content of memory unknown.
    fn clobber(&mut self, state: &mut State, target: &Target) {
        if let Length::Known(bytes) = target.length {
            self.remember(state, target.address, bytes, NOTHING);
            // An identifier is two words.
            if bytes == 16 {
                let second = self.explorer.expressions.plus(target.address, 8);
                self.remember(state, target.address, 8, NOTHING);
                self.remember(state, second, 8, NOTHING);
            }
        }
    }

    fn described_flush(&mut self, state: &mut State, call: &Call, what: What, target: &Target) {
        if target.length == Length::Known(0) {
            return;
        }
        let span = self.span(target.address, target.length);
        let is_persistent = self.persistence(target.address) != Persistence::No;
        let kind = match what {
            // What is flushed or logged is unknown.
            What::Log if target.address == NOTHING => {
                self.explorer.verdicts.gaps.add(Gap::Address, call.place);
                Kind::LogSomewhere
            }
            _ if target.address == NOTHING => {
                self.explorer.verdicts.gaps.add(Gap::Address, call.place);
                Kind::Unknown { objects: Vec::new(), code: UnknownCode::Library }
            }
            What::Log if !is_persistent => Kind::Unknown { objects: Vec::new(), code: UnknownCode::Library },
            _ if !is_persistent => Kind::Elsewhere,
            What::FlushOrdered => Kind::Flush { span, class: Class::Flush, pages: false },
            What::FlushPages => Kind::Flush { span, class: Class::FlushOpt, pages: true },
            What::Queue => Kind::Queue { span },
            What::Log => Kind::Log { span },
            _ => Kind::Flush { span, class: Class::FlushOpt, pages: false },
        };
        self.emit(state, kind, call.place);
    }
}

/// Effects that apply to no particular memory.
fn control(what: What, framework: usize) -> Option<Kind> {
    Some(match what {
        What::Fence => Kind::Fence { class: Class::StoreFence, drains: false },
        What::Drain => Kind::Fence { class: Class::StoreFence, drains: true },
        // Never redundant: it serves more than what was flushed.
        What::Settle => Kind::Fence { class: Class::Fence, drains: true },
        What::Sync => Kind::Sync,
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
        What::TolerateBegin => Kind::TolerateBegin,
        What::TolerateEnd => Kind::TolerateEnd,
        _ => return None,
    })
}
