//! The effects of functions and intrinsics on memory and ordering, from the front end's table of meaning.
//!
//! An effect in the table that is not modeled here ends the path: the verdict is then unknown.

use crashproof_frontend::bitcode::ir::Type;
use crashproof_frontend::meaning::{
    Argument, Effect, Extent, Fence, Flush, Function, Length, Manner, Returns,
};
use crashproof_prove::term::{Binary, Term};

use crate::invocation::{Invocation, Reply};
use crate::machine::{Flow, Machine, Stop};
use crate::state::State;
use crate::value::Value;

/// The largest result object of a function: a time, a file's status, a signal set.
const MOST_WRITTEN: u64 = 256;

/// A function's name for messages.
pub(crate) fn described(name: &str) -> String {
    let kind = if name.starts_with("llvm.") { "intrinsic " } else { "" };
    format!("{kind}`{name}`")
}

impl Machine<'_> {
    /// Carries out a library function by its description.
    pub(crate) fn described_function(
        &mut self,
        function: &Function,
        call: &mut Invocation<'_>,
    ) -> Flow<Reply> {
        for effect in function.effects {
            self.effect(effect, call)?;
        }
        let result = match function.returns {
            Returns::Argument(argument) => call.scalar(argument.into()),
            Returns::End(start, length) => match (call.scalar(start.into()), self.bytes_of(length, call)) {
                (Some(start), Some(bytes)) => Some(self.terms.binary(Binary::Add, start, bytes)),
                _ => None,
            },
            Returns::Anything | Returns::Within(_) | Returns::Heap => None,
        };
        match result {
            Some(term) => Ok(Reply::scalar(term)),
            None => self.result_not_modeled(call),
        }
    }

    /// The result of a function without further effects.
    pub(crate) fn result_not_modeled(&mut self, call: &mut Invocation<'_>) -> Flow<Reply> {
        if *call.ty == Type::Void {
            return Ok(Reply::NONE);
        }
        self.unmodeled(call.state, call.ty, &described(call.name), call.at).map(Reply::Returns)
    }

    /// Ends the path, because the function may affect memory in a way that is not modeled.
    pub(crate) fn not_supported(&mut self, call: &mut Invocation<'_>) -> Stop {
        let reason = self.reason(&described(call.name), call.at);
        self.refuse(call.state, &reason, call.at)
    }

    /// The effect of a successful function on memory: results in an object of known size may be anything.
    pub(crate) fn effect_of_success(&mut self, effect: &Effect, call: &mut Invocation<'_>) -> Flow<()> {
        let Effect::Write { to, extent: Extent::Exactly(Length::Constant(bytes)) } = *effect else {
            return self.effect(effect, call).map(|_| ());
        };
        let Some(to) = call.scalar(to.into()).filter(|_| bytes <= MOST_WRITTEN) else {
            return Err(self.not_supported(call));
        };
        let what = described(call.name);
        for index in 0..bytes {
            let byte = self.not_modeled(8, &what, call.at);
            let place = self.offset(to, index);
            self.store_scalar(call.state, place, byte, false, call.at)?;
        }
        Ok(())
    }

    /// Applies a function's effect on memory or ordering; returns what it loads.
    pub(crate) fn effect(&mut self, effect: &Effect, call: &mut Invocation<'_>) -> Flow<Option<Value>> {
        let at = call.at;
        let word = |call: &Invocation<'_>, argument: Argument| call.scalar(argument.into());
        match *effect {
            Effect::Flush { at: line, flush } => {
                let Some(line) = word(call, line) else { return Err(self.not_supported(call)) };
                self.flush(call.state, line, flush != Flush::Clflush, at)?;
            }
            Effect::Fence(Fence::Store) => self.store_fence(call.state, at)?,
            Effect::Fence(Fence::Full) => self.fence(call.state, at)?,
            Effect::Copy { to, from, extent, manner: Manner::Plain } => {
                let length = self.extent_of(extent, call);
                let (Some(to), Some(from), Some(length)) = (word(call, to), word(call, from), length) else {
                    return Err(self.not_supported(call));
                };
                // Overlapping ranges would have to be read first.
                if !self.is_length_known(call.state, length) && !call.name.contains("memmove") {
                    let byte = |machine: &mut Self, state: &mut State, index: u64| {
                        let place = machine.offset(from, index);
                        machine.load_scalar(state, place, 8, at)
                    };
                    self.bytes_one_by_one(call.state, to, length, "a copy", at, byte)?;
                    return Ok(None);
                }
                self.for_lengths(call.state, length, "a copy", at, |machine, state, bytes| {
                    machine.copy_bytes(state, to, from, bytes, at)
                })?;
            }
            Effect::Fill { to, value, extent } => {
                let length = self.extent_of(extent, call);
                let byte = match value {
                    Some(value) => word(call, value),
                    None => Some(self.terms.number(0, 8)),
                };
                let (Some(to), Some(byte), Some(length)) = (word(call, to), byte, length) else {
                    return Err(self.not_supported(call));
                };
                if !self.is_length_known(call.state, length) {
                    let value = self.terms.extract(byte, 0, 8);
                    let byte = |_: &mut Self, _: &mut State, _: u64| Ok(value);
                    self.bytes_one_by_one(call.state, to, length, "a fill", at, byte)?;
                    return Ok(None);
                }
                self.for_lengths(call.state, length, "a fill", at, |machine, state, bytes| {
                    machine.fill_bytes(state, to, byte, bytes, at)
                })?;
            }
            Effect::Store { to, value, manner: manner @ (Manner::Plain | Manner::NonTemporal) } => {
                let (Some(to), Some(value)) = (word(call, to), word(call, value)) else {
                    return Err(self.not_supported(call));
                };
                self.store_scalar(call.state, to, value, manner == Manner::NonTemporal, at)?;
            }
            Effect::Load { from } => {
                let Some(from) = word(call, from) else { return Err(self.not_supported(call)) };
                return self.load(call.state, from, call.ty, at).map(Some);
            }
            // Nothing changes, and the values read are unknown.
            Effect::Read { .. } => {}
            Effect::Lanes(lanes) if lanes.value.is_none() => {
                return self.unmodeled(call.state, call.ty, &described(call.name), at);
            }
            _ => return Err(self.not_supported(call)),
        }
        Ok(None)
    }

    /// The number of bytes an effect applies to, if that is a single term.
    fn extent_of(&mut self, extent: Extent, call: &Invocation<'_>) -> Option<Term> {
        match extent {
            Extent::Exactly(length) => self.bytes_of(length, call),
            _ => None,
        }
    }

    fn bytes_of(&mut self, length: Length, call: &Invocation<'_>) -> Option<Term> {
        match length {
            Length::Argument(argument, 1) => call.scalar(argument.into()),
            Length::Argument(argument, unit) => {
                let (count, unit) = (call.scalar(argument.into())?, self.terms.number(unit, 64));
                Some(self.terms.binary(Binary::Mul, count, unit))
            }
            Length::Constant(bytes) => Some(self.terms.number(bytes, 64)),
            Length::Product(..) | Length::Text(..) => None,
        }
    }
}
