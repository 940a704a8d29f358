//! LLVM's intrinsics. The front end's table of meaning says what each one is; this module applies its effects to the
//! machine.

use crashproof_frontend::bitcode::ir::Predicate;
use crashproof_frontend::meaning::{self, Meaning, Operation};
use crashproof_prove::term::{Binary, Term};

use crate::invocation::{Invocation, Reply};
use crate::machine::{Flow, Machine, Stop};
use crate::value::{self, Value};

impl Machine<'_> {
    /// Executes an intrinsic. The result of a computation that is not modeled is unknown, which matters only if it is
    /// used; an intrinsic that may access memory in a way that is not modeled ends the path.
    pub(crate) fn intrinsic(&mut self, call: &mut Invocation<'_>) -> Flow<Reply> {
        match meaning::intrinsic(call.name) {
            Meaning::Nothing | Meaning::Pause | Meaning::ListEnd => {
                Ok(Reply::Returns(self.anything(call.ty)))
            }
            Meaning::Value(operation) => match self.computed(operation, call) {
                Some(value) => Ok(Reply::Returns(Some(value))),
                None => self.result_not_modeled(call),
            },
            Meaning::Effects(effects) => {
                let mut result = None;
                for effect in effects {
                    result = self.effect(effect, call)?.or(result);
                }
                Ok(Reply::Returns(result))
            }
            Meaning::Assume => match call.scalar(0) {
                Some(condition) if !call.state.assume(&mut self.terms, condition) => Err(Stop::Dead),
                _ => Ok(Reply::NONE),
            },
            Meaning::Trap => Err(self.fails(call.state, "trap", call.at)),
            Meaning::ListStart => self.with_words(call, 1, |machine, call| {
                machine.start_arguments(call.frame, call.state, call.word(0), call.at)
            }),
            Meaning::ListCopy => self.with_words(call, 2, |machine, call| {
                machine.copy_arguments(call.state, call.word(0), call.word(1), call.at)
            }),
            Meaning::Clock { .. } | Meaning::Random => self.result_not_modeled(call),
            Meaning::NotUnderstood if self.is_pure(call.name) => self.result_not_modeled(call),
            Meaning::NotUnderstood => Err(self.not_supported(call)),
        }
    }

    /// Is a function declared not to access memory?
    fn is_pure(&self, name: &str) -> bool {
        self.module.function_named(name).is_some_and(|id| self.module.function(id).pure)
    }

    /// Operates on this many words; with fewer arguments the call is not supported.
    fn with_words(
        &mut self,
        call: &mut Invocation<'_>,
        words: usize,
        does: impl FnOnce(&mut Self, &mut Invocation<'_>) -> Flow<()>,
    ) -> Flow<Reply> {
        if (0..words).any(|index| call.scalar(index).is_none()) {
            return Err(self.not_supported(call));
        }
        does(self, call)?;
        Ok(Reply::NONE)
    }

    /// The value that an operation computes; `None` if it is not modeled.
    fn computed(&mut self, operation: Operation, call: &Invocation<'_>) -> Option<Value> {
        let a = call.scalar(0)?;
        let b = || call.scalar(1);
        let term = match operation {
            Operation::Same => a,
            Operation::False => self.terms.truth(false),
            Operation::ObjectSize => {
                // The compiler's answer if it knows nothing better.
                let unknown = if self.terms.constant(b()?) == Some(1) { 0 } else { u64::MAX };
                self.terms.number(unknown, value::bits(call.ty).unwrap_or(64))
            }
            Operation::MaskPointer => self.terms.and(a, b()?),
            Operation::UnsignedMax => self.extreme(Predicate::UnsignedGreater, a, b()?),
            Operation::UnsignedMin => self.extreme(Predicate::UnsignedLess, a, b()?),
            Operation::SignedMax => self.extreme(Predicate::SignedGreater, a, b()?),
            Operation::SignedMin => self.extreme(Predicate::SignedLess, a, b()?),
            Operation::Absolute => {
                let negative = self.terms.negate(a);
                self.extreme(Predicate::SignedGreater, a, negative)
            }
            Operation::ByteSwap => self.byte_swap(a),
            Operation::CountOnes => self.count_ones(a),
            Operation::LeadingZeros => self.count_zeros(a, true),
            Operation::TrailingZeros => self.count_zeros(a, false),
            // Shifts of two equal words are rotations; others are not modeled.
            Operation::FunnelShiftLeft if b() == Some(a) => self.rotate(a, call.scalar(2)?, true),
            Operation::FunnelShiftRight if b() == Some(a) => self.rotate(a, call.scalar(2)?, false),
            Operation::UnsignedAddSaturating => self.saturating(unsigned_sum, a, b()?, u64::MAX),
            Operation::UnsignedSubSaturating => self.saturating(unsigned_difference, a, b()?, 0),
            Operation::UnsignedAddOverflow => return Some(self.overflowing(unsigned_sum, a, b()?)),
            Operation::UnsignedSubOverflow => return Some(self.overflowing(unsigned_difference, a, b()?)),
            Operation::SignedAddOverflow => return Some(self.overflowing(signed_sum, a, b()?)),
            Operation::SignedSubOverflow => return Some(self.overflowing(signed_difference, a, b()?)),
            Operation::UnsignedMulOverflow => return Some(self.overflowing(unsigned_product, a, b()?)),
            Operation::SignedMulOverflow => return Some(self.overflowing(signed_product, a, b()?)),
            Operation::FunnelShiftLeft
            | Operation::FunnelShiftRight
            | Operation::SignedAddSaturating
            | Operation::SignedSubSaturating
            | Operation::Anything => return None,
        };
        Some(Value::Scalar(term))
    }

    fn byte_swap(&mut self, word: Term) -> Term {
        let mut result = self.terms.extract(word, 0, 8);
        for index in 1..self.terms.width(word) / 8 {
            let byte = self.terms.extract(word, index * 8, 8);
            result = self.terms.concat(result, byte);
        }
        result
    }

    /// The result, and whether it overflows.
    fn overflowing(&mut self, operation: Checked, a: Term, b: Term) -> Value {
        let (value, overflow) = operation(self, a, b);
        Value::Members(vec![Value::Scalar(value), Value::Scalar(overflow)])
    }

    /// The result, or the limit if it overflows.
    fn saturating(&mut self, operation: Checked, a: Term, b: Term, limit: u64) -> Term {
        let (value, overflow) = operation(self, a, b);
        let limit = self.terms.number(limit, self.terms.width(value));
        self.terms.choose(overflow, limit, value)
    }
}

/// An operation that returns its result and whether that overflows.
type Checked = fn(&mut Machine<'_>, Term, Term) -> (Term, Term);

fn unsigned_sum(machine: &mut Machine<'_>, a: Term, b: Term) -> (Term, Term) {
    let sum = machine.terms.binary(Binary::Add, a, b);
    (sum, machine.terms.binary(Binary::LessUnsigned, sum, a))
}

fn unsigned_difference(machine: &mut Machine<'_>, a: Term, b: Term) -> (Term, Term) {
    let difference = machine.terms.binary(Binary::Sub, a, b);
    (difference, machine.terms.binary(Binary::LessUnsigned, a, b))
}

/// Overflows if both operands have the opposite sign of the sum.
fn signed_sum(machine: &mut Machine<'_>, a: Term, b: Term) -> (Term, Term) {
    let sum = machine.terms.binary(Binary::Add, a, b);
    let (left, right) =
        (machine.terms.binary(Binary::Xor, a, sum), machine.terms.binary(Binary::Xor, b, sum));
    (sum, machine.both_negative(left, right))
}

fn signed_difference(machine: &mut Machine<'_>, a: Term, b: Term) -> (Term, Term) {
    let difference = machine.terms.binary(Binary::Sub, a, b);
    let (left, right) =
        (machine.terms.binary(Binary::Xor, a, b), machine.terms.binary(Binary::Xor, a, difference));
    (difference, machine.both_negative(left, right))
}

fn unsigned_product(machine: &mut Machine<'_>, a: Term, b: Term) -> (Term, Term) {
    machine.product(a, b, false)
}

fn signed_product(machine: &mut Machine<'_>, a: Term, b: Term) -> (Term, Term) {
    machine.product(a, b, true)
}
