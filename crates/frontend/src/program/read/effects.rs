//! Effects of the table of meaning as instructions of [`crate::program::ir`].
//!
//! One call may become several instructions. The first is the call's result, so that its users find it. Their number
//! depends only on the callee and on types, never on operands, because they are counted before operands are numbered.

use crate::llvm::{Module, Value};
use crate::meaning::{Effect, Extent, Lanes, LanesAt, Length, Manner, Returns};
use crate::program::ir::{Arithmetic, Op, Operand};
use crate::program::read::instruction::array_around;

/// Instructions that a call becomes.
struct Lowering<'a, 'm> {
    module: &'a Module<'m>,
    call: Value<'m>,
    name: &'a str,
    arguments: &'a [Operand],
    /// The number of the first instruction.
    first: u32,
    ops: Vec<Op>,
}

/// Translates the `effects` of a call. `first` is the number of the first instruction.
pub(crate) fn lower<'m>(
    module: &Module<'m>,
    call: Value<'m>,
    name: &str,
    arguments: &[Operand],
    first: u32,
    meaning: (&[Effect], Returns),
) -> Vec<Op> {
    let mut lowering = Lowering { module, call, name, arguments, first, ops: Vec::new() };
    let (effects, returns) = meaning;
    let bulk_is_result = match (effects, returns) {
        (
            [Effect::Copy { to, extent, .. } | Effect::Fill { to, extent, .. }],
            Returns::Argument(argument),
        ) => *to == argument && is_one_op(*extent),
        ([Effect::Load { .. }], Returns::Anything) => true,
        _ => false,
    };
    if !call.ty().is_void() && !bulk_is_result {
        lowering.result(returns);
    }
    for effect in effects {
        lowering.effect(*effect);
    }
    if lowering.ops.is_empty() {
        lowering.ops.push(Op::Other);
    }
    lowering.ops
}

fn is_one_op(extent: Extent) -> bool {
    matches!(extent, Extent::Exactly(Length::Constant(_) | Length::Argument(_, 1)))
}

impl Lowering<'_, '_> {
    fn argument(&self, number: u8) -> Operand {
        self.arguments.get(usize::from(number)).copied().unwrap_or(Operand::Undefined)
    }

    /// Whether the call has this argument: those of `scanf` are optional.
    fn has(&self, number: u8) -> bool {
        usize::from(number) < self.arguments.len()
    }

    fn push(&mut self, op: Op) -> Operand {
        self.ops.push(op);
        Operand::Instruction(self.first + self.ops.len() as u32 - 1)
    }

    fn result(&mut self, returns: Returns) {
        let op = match returns {
            Returns::Anything | Returns::Heap => Op::Other,
            Returns::Argument(argument) => Op::Copy { value: self.argument(argument) },
            Returns::End(start, length) => {
                let (offset, index) = match length {
                    Length::Constant(bytes) => (bytes as i64, Vec::new()),
                    Length::Argument(argument, unit) => (0, vec![(self.argument(argument), unit as i64)]),
                    Length::Product(..) | Length::Text(..) => (0, vec![(Operand::Undefined, 1)]),
                };
                Op::Offset { base: self.argument(start), offset, index, within: None }
            }
            Returns::Within(object) => Op::Offset {
                base: self.argument(object),
                offset: 0,
                index: vec![(Operand::Undefined, 1)],
                within: array_around(self.module, self.call.operand(object.into()), 1),
            },
        };
        self.push(op);
    }

    /// A length as an operand. An upper bound counts as unknown.
    fn length(&mut self, extent: Extent) -> Operand {
        let Extent::Exactly(length) = extent else { return Operand::Undefined };
        let (left, right) = match length {
            Length::Constant(bytes) => return Operand::Int(bytes as i64),
            Length::Argument(argument, 1) => return self.argument(argument),
            Length::Text(..) => return Operand::Undefined,
            Length::Argument(argument, unit) => (self.argument(argument), Operand::Int(unit as i64)),
            Length::Product(a, b) => (self.argument(a), self.argument(b)),
        };
        self.push(Op::Arithmetic { what: Arithmetic::Mul, left, right })
    }

    fn bytes(&self, argument: u8) -> u64 {
        let ty = self.call.operand(argument.into()).ty();
        if ty.is_sized() { self.module.store_size(ty) } else { 8 }
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            // Reads are irrelevant here.
            Effect::Read { .. } => {}
            Effect::Load { from } => {
                let ty = self.call.ty();
                let bytes = if ty.is_sized() { self.module.store_size(ty) } else { 8 };
                self.push(Op::Load { address: self.argument(from), bytes });
            }
            Effect::Store { to, value, manner } => {
                let (bytes, nontemporal) = (self.bytes(value), manner == Manner::NonTemporal);
                let (address, value) = (self.argument(to), self.argument(value));
                self.push(Op::Store { address, value, bytes, nontemporal });
            }
            Effect::Copy {
                to,
                extent: Extent::Exactly(Length::Constant(bytes)),
                manner: Manner::NonTemporal,
                ..
            } => {
                let (address, value) = (self.argument(to), Operand::Undefined);
                self.push(Op::Store { address, value, bytes, nontemporal: true });
            }
            Effect::Copy { to, from, manner: Manner::NonTemporal, .. } => self.not_understood(&[to, from]),
            Effect::Copy { to, from, extent, .. } => {
                self.bulk(to, Some(from), Operand::Undefined, extent);
            }
            Effect::Append { to, from } => {
                self.bulk(to, Some(from), Operand::Undefined, Extent::Unknown);
            }
            Effect::Fill { to, value, extent } => {
                let value = value.map_or(Operand::Int(0), |value| self.argument(value));
                self.bulk(to, None, value, extent);
            }
            Effect::Write { to, extent } if self.has(to) => {
                self.bulk(to, None, Operand::Undefined, extent);
            }
            Effect::Write { .. } => {}
            Effect::WriteThrough { list } => {
                let pointer = self.push(Op::Load { address: self.argument(list), bytes: 8 });
                self.push(Op::NotUnderstood { what: self.name.to_owned(), pointers: vec![pointer] });
            }
            Effect::WriteAnywhere => self.not_understood(&[]),
            Effect::Lanes(lanes) => self.lanes(lanes),
            Effect::Flush { at, flush } => {
                self.push(Op::Flush { address: self.argument(at), class: flush.class() });
            }
            Effect::Fence(fence) => {
                self.push(Op::Fence { class: fence.class() });
            }
        }
    }

    fn bulk(&mut self, to: u8, from: Option<u8>, value: Operand, extent: Extent) {
        let length = self.length(extent);
        let source = from.map(|from| self.argument(from));
        let target = self.argument(to);
        self.push(Op::Bulk { target, source, value, length });
        // A string of any length starts at its beginning; code that appends to one or splits it flushes all of it.
        if matches!(extent, Extent::Exactly(Length::Text(..)) | Extent::AtMost(_) | Extent::Unknown) {
            self.push(Op::Store { address: target, value: Operand::Undefined, bytes: 1, nontemporal: false });
        }
    }

    /// Lanes that may be disabled count as stored: what must be flushed is the same.
    fn lanes(&mut self, lanes: Lanes) {
        let Some(value) = lanes.value else { return };
        let (address, bytes) = (self.argument(lanes.address), self.bytes(value));
        match (lanes.at, lanes.manner) {
            (LanesAt::Contiguous, Manner::Plain) => {
                self.push(Op::Store { address, value: Operand::Undefined, bytes, nontemporal: false });
            }
            (LanesAt::Compressed, Manner::Plain) => {
                let (target, undefined) = (address, Operand::Undefined);
                self.push(Op::Bulk { target, source: None, value: undefined, length: undefined });
            }
            // Lanes may be anywhere, or keep earlier stores in the cache.
            (LanesAt::Scattered, _) => self.not_understood(&[]),
            _ => self.not_understood(&[lanes.address]),
        }
    }

    fn not_understood(&mut self, pointers: &[u8]) {
        let pointers = pointers.iter().map(|argument| self.argument(*argument)).collect();
        self.push(Op::NotUnderstood { what: self.name.to_owned(), pointers });
    }
}
