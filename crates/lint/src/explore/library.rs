//! Calls of the C library, by the table of meaning.

use super::access::Bulk;
use super::described::Call;
use super::walk::{State, Walk};
use crate::expression::{Expression, Form, NOTHING};
use crate::span::Length;
use crashproof_frontend::meaning::{self, Effect, Extent, Manner, Returns};
use crashproof_frontend::program::ir::{Arithmetic, Operand};

impl Walk<'_, '_> {
    /// Whether a function writes what a structure points to, and that may be persistent: no argument says where it writes.
    pub(super) fn writes_out_of_sight(&self, function: &meaning::Function, arguments: &[Operand]) -> bool {
        function.effects.iter().any(|effect| match effect {
            Effect::WriteThrough { list } => {
                arguments.get(usize::from(*list)).is_some_and(|list| self.leads_to_persistent(*list))
            }
            _ => false,
        })
    }

    pub(super) fn library_call(&mut self, state: &mut State, call: &Call, function: &meaning::Function) {
        for effect in function.effects {
            let (to, source, value, extent, manner) = match *effect {
                Effect::Write { to, extent } => (to, None, NOTHING, extent, Manner::Plain),
                Effect::Fill { to, value, extent } => {
                    let zero = self.explorer.expressions.int(0);
                    (to, None, value.map_or(zero, |value| call.argument(value.into())), extent, Manner::Plain)
                }
                Effect::Copy { to, from, extent, manner } => {
                    (to, Some(call.argument(from.into())), NOTHING, extent, manner)
                }
                Effect::Append { to, .. } => (to, None, NOTHING, Extent::Unknown, Manner::Plain),
                Effect::Read { from, extent } => {
                    let length = self.extent(call, extent);
                    self.read(state, call.argument(from.into()), length, call.place);
                    continue;
                }
                // Instructions that are no functions; and what is written out of sight is not persistent here.
                _ => continue,
            };
            let target = call.argument(to.into());
            let length = self.extent(call, extent);
            let nontemporal = manner == Manner::NonTemporal;
            self.bulk(state, &Bulk { target, source, value, length, nontemporal }, call.place);
        }
        state.values[call.number as usize] = self.library_result(state, call, function.returns);
    }

    fn library_result(&mut self, state: &State, call: &Call, returns: Returns) -> Expression {
        let value = match returns {
            Returns::Argument(number) => call.argument(number.into()),
            Returns::End(number, length) => {
                let start = call.argument(number.into());
                let length = self.byte_count(call, length);
                self.explorer.expressions.arithmetic(Arithmetic::Add, start, length)
            }
            Returns::Heap => {
                let origin = self.origin(state, call.number);
                self.explorer.expressions.add(Form::Volatile(origin))
            }
            Returns::Within(_) | Returns::Anything => NOTHING,
        };
        if value == NOTHING { self.opaque(state, call.number) } else { value }
    }

    /// How much is touched. A function that may stop early is taken to go as far as it may.
    fn extent(&mut self, call: &Call, extent: Extent) -> Length {
        match extent {
            Extent::Exactly(length) | Extent::AtMost(length) => {
                let bytes = self.byte_count(call, length);
                self.length(bytes)
            }
            Extent::Unknown => Length::Unknown,
        }
    }

    fn byte_count(&mut self, call: &Call, length: meaning::Length) -> Expression {
        let expressions = &mut self.explorer.expressions;
        match length {
            meaning::Length::Constant(bytes) => expressions.int(bytes as i64),
            meaning::Length::Argument(number, unit) => {
                let unit = expressions.int(unit as i64);
                expressions.arithmetic(Arithmetic::Mul, call.argument(number.into()), unit)
            }
            meaning::Length::Product(left, right) => expressions.arithmetic(
                Arithmetic::Mul,
                call.argument(left.into()),
                call.argument(right.into()),
            ),
            meaning::Length::Text(..) => NOTHING,
        }
    }
}
