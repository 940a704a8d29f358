//! Instructions other than calls, by family: values, memory, members of aggregates.

use crashproof_frontend::bitcode::ir::{Instruction, Op, Operand, Order, Type};
use crashproof_prove::term::{self, Term, Terms};

use crate::arithmetic::compare;
use crate::atomics::apply_rmw;
use crate::frame::Step;
use crate::machine::{Flow, Machine};
use crate::value::{self, Value};

impl Machine<'_> {
    /// Executes an instruction other than a call; returns its result.
    pub(crate) fn instruction(
        &mut self,
        step: &mut Step<'_>,
        instruction: &Instruction,
    ) -> Flow<Option<Value>> {
        let ty = &instruction.ty;
        // Integers too wide for terms: the value is unknown, which matters only if it is used.
        if matches!(ty, Type::Int(65..)) && !matches!(instruction.op, Op::Load { .. }) {
            let value = self.not_modeled(64, "arithmetic of more than 64 bits", step.at);
            return Ok(Some(Value::Scalar(value)));
        }
        match &instruction.op {
            Op::Load { .. }
            | Op::Store { .. }
            | Op::Rmw { .. }
            | Op::CompareExchange { .. }
            | Op::Fence { .. }
            | Op::Alloca { .. } => self.memory_instruction(step, &instruction.op, ty),
            Op::Extract(aggregate, indices) => self.extract(step, aggregate, indices).map(Some),
            Op::Insert(aggregate, member, indices) => self.insert(step, aggregate, member, indices).map(Some),
            Op::Select(condition, yes, no) => {
                let condition = self.word_of(step, condition)?;
                let (yes, no) = (self.value_of(step, yes)?, self.value_of(step, no)?);
                Ok(Some(value::choose(&mut self.terms, condition, &yes, &no)))
            }
            Op::Same(operand) => {
                let value = self.value_of(step, operand)?;
                self.same_bits(step.state, value, ty, step.at)
            }
            Op::Unsupported(what) => self.unmodeled(step.state, ty, what, step.at),
            Op::Call { .. } => unreachable!("calls are dispatched in paths.rs"),
            op => Ok(Some(Value::Scalar(self.word_instruction(step, op, value::bits(ty).unwrap_or(64))?))),
        }
    }

    /// Instructions that compute a number or an address of `width` bits.
    fn word_instruction(&mut self, step: &mut Step<'_>, op: &Op, width: u8) -> Flow<Term> {
        match op {
            Op::Binary(op, a, b) => {
                let (a, b) = (self.word_of(step, a)?, self.word_of(step, b)?);
                self.arithmetic(step.state, *op, a, b, step.at)
            }
            Op::Compare(predicate, a, b) => {
                let (a, b) = (self.word_of(step, a)?, self.word_of(step, b)?);
                Ok(compare(&mut self.terms, *predicate, a, b))
            }
            Op::ZeroExtend(a) => {
                let a = self.word_of(step, a)?;
                Ok(self.terms.zero_extend(a, width))
            }
            Op::SignExtend(a) => {
                let a = self.word_of(step, a)?;
                Ok(self.terms.sign_extend(a, width))
            }
            Op::Truncate(a) => {
                let a = self.word_of(step, a)?;
                Ok(self.terms.extract(a, 0, width))
            }
            Op::Address { base, offset, scaled } => {
                let base = self.word_of(step, base)?;
                let mut address = self.offset(base, *offset as u64);
                for (index, stride) in scaled {
                    let index = self.word_of(step, index)?;
                    let index = self.terms.sign_extend(index, 64);
                    let stride = self.terms.number(*stride as u64, 64);
                    let by = self.terms.binary(term::Binary::Mul, index, stride);
                    address = self.terms.binary(term::Binary::Add, address, by);
                }
                Ok(address)
            }
            _ => unreachable!("every other instruction is of another family"),
        }
    }

    /// Instructions that create, read, write or order memory.
    fn memory_instruction(&mut self, step: &mut Step<'_>, op: &Op, ty: &Type) -> Flow<Option<Value>> {
        match op {
            Op::Alloca { size, count, align } => {
                let count = self.word_of(step, count)?;
                let Some(count) = self.terms.constant(count) else {
                    return Err(self.refuse(step.state, "the size of a local array is not known", step.at));
                };
                let point = step.frame.point;
                let address =
                    self.allocate(step.state, point, size * count, *align, "local variable", step.at)?;
                Ok(Some(Value::Scalar(self.terms.number(address, 64))))
            }
            Op::Load { from, .. } => {
                let from = self.word_of(step, from)?;
                Ok(Some(self.load(step.state, from, ty, step.at)?))
            }
            Op::Store { value, ty, to, order, nontemporal, .. } => {
                let (value, to) = (self.value_of(step, value)?, self.word_of(step, to)?);
                match value {
                    Value::Scalar(value) if *order == Order::SequentiallyConsistent => {
                        self.exchange(step.state, to, value, step.at)?;
                    }
                    _ => self.store(step.state, to, &value, ty, *nontemporal, step.at)?,
                }
                Ok(None)
            }
            Op::Rmw { op, at: address, value, bytes } => {
                let (address, operand) = (self.word_of(step, address)?, self.word_of(step, value)?);
                let op = *op;
                let compute = &mut |terms: &mut Terms, old: Term| {
                    (apply_rmw(terms, op, old, operand), terms.truth(true))
                };
                let old = self.rmw(step.state, address, *bytes as u8 * 8, compute, step.at)?;
                Ok(Some(Value::Scalar(old)))
            }
            Op::CompareExchange { at: address, expected, new, bytes } => {
                let address = self.word_of(step, address)?;
                let (expected, new) = (self.word_of(step, expected)?, self.word_of(step, new)?);
                let compute = &mut |terms: &mut Terms, old: Term| (new, terms.equal(old, expected));
                let old = self.rmw(step.state, address, *bytes as u8 * 8, compute, step.at)?;
                let success = self.terms.equal(old, expected);
                Ok(Some(Value::Members(vec![Value::Scalar(old), Value::Scalar(success)])))
            }
            Op::Fence { order, compiler_only } => {
                if *order == Order::SequentiallyConsistent && !compiler_only {
                    self.fence(step.state, step.at)?;
                }
                Ok(None)
            }
            _ => unreachable!("every other instruction is of another family"),
        }
    }

    fn extract(&mut self, step: &mut Step<'_>, aggregate: &Operand, indices: &[u32]) -> Flow<Value> {
        let mut member = self.value_of(step, aggregate)?;
        for index in indices {
            let Value::Members(mut members) = member else {
                return Err(self.refuse(step.state, "a member of something that has none", step.at));
            };
            member = members.swap_remove(*index as usize);
        }
        Ok(member)
    }

    fn insert(
        &mut self,
        step: &mut Step<'_>,
        aggregate: &Operand,
        member: &Operand,
        indices: &[u32],
    ) -> Flow<Value> {
        let (mut whole, member) = (self.value_of(step, aggregate)?, self.value_of(step, member)?);
        let mut place = &mut whole;
        for index in indices {
            let Value::Members(members) = place else {
                return Err(self.refuse(step.state, "a member of something that has none", step.at));
            };
            place = &mut members[*index as usize];
        }
        *place = member;
        Ok(whole)
    }
}
