//! Arithmetic of instructions and intrinsics: values only, no memory.

use crashproof_frontend::bitcode::ir::{self, Predicate, Type};
use crashproof_prove::term::{self, Binary, Term, Terms};

use crate::frame::At;
use crate::machine::{Flow, Machine};
use crate::state::State;
use crate::value::{self, Value};

impl Machine<'_> {
    pub(crate) fn arithmetic(
        &mut self,
        state: &mut State,
        op: ir::Binary,
        a: Term,
        b: Term,
        at: At<'_>,
    ) -> Flow<Term> {
        use ir::Binary as Ir;
        use term::Binary as To;
        let to = match op {
            Ir::Add => To::Add,
            Ir::Sub => To::Sub,
            Ir::Mul => To::Mul,
            Ir::DivideUnsigned => To::DivUnsigned,
            Ir::DivideSigned => To::DivSigned,
            Ir::RemainderUnsigned => To::RemUnsigned,
            Ir::RemainderSigned => To::RemSigned,
            Ir::ShiftLeft => To::ShiftLeft,
            Ir::ShiftRight => To::ShiftRight,
            Ir::ShiftRightSigned => To::ShiftRightSigned,
            Ir::And => To::And,
            Ir::Or => To::Or,
            Ir::Xor => To::Xor,
        };
        if matches!(to, To::DivUnsigned | To::DivSigned | To::RemUnsigned | To::RemSigned) {
            let condition = self.terms.nonzero(b);
            let message = "the divisor is not 0".to_owned();
            self.assert(state, condition, message, at)?;
        }
        // The processor traps here, too.
        let width = self.terms.width(a);
        if matches!(to, To::DivSigned | To::RemSigned) && width >= 32 {
            let (least, minus) =
                (self.terms.number(1 << (width - 1), width), self.terms.number(u64::MAX, width));
            let (lowest, negates) = (self.terms.equal(a, least), self.terms.equal(b, minus));
            let both = self.terms.and(lowest, negates);
            let fits = self.terms.not(both);
            self.assert(state, fits, "the quotient fits".to_owned(), at)?;
        }
        Ok(self.terms.binary(to, a, b))
    }

    /// Reinterprets a value as another type of the same size.
    pub(crate) fn same_bits(
        &mut self,
        state: &mut State,
        value: Value,
        ty: &Type,
        at: At<'_>,
    ) -> Flow<Option<Value>> {
        match (&value, ty) {
            (Value::Scalar(_), Type::Aggregate(_)) => {}
            (Value::Members(_), _) if value::bits(ty).is_some() => {}
            (Value::Members(members), Type::Aggregate(aggregate))
                if members.len() != aggregate.members.len() => {}
            _ => return Ok(Some(value)),
        }
        self.unmodeled(state, ty, "a vector taken apart by its bits", at)
    }

    pub(crate) fn both_negative(&mut self, a: Term, b: Term) -> Term {
        let both = self.terms.and(a, b);
        self.terms.extract(both, self.terms.width(a) - 1, 1)
    }

    /// A product, and whether it overflows: if it does not, dividing by one factor returns the other.
    pub(crate) fn product(&mut self, a: Term, b: Term, signed: bool) -> (Term, Term) {
        let width = self.terms.width(a);
        let product = self.terms.binary(Binary::Mul, a, b);
        if width <= 32 {
            // The full product fits.
            let wide = |terms: &mut Terms, term: Term| {
                if signed { terms.sign_extend(term, 2 * width) } else { terms.zero_extend(term, 2 * width) }
            };
            let (left, right) = (wide(&mut self.terms, a), wide(&mut self.terms, b));
            let exact = self.terms.binary(Binary::Mul, left, right);
            let same = wide(&mut self.terms, product);
            let fits = self.terms.equal(exact, same);
            return (product, self.terms.not(fits));
        }
        let op = if signed { Binary::DivSigned } else { Binary::DivUnsigned };
        let zero = self.terms.number(0, width);
        let back = self.terms.binary(op, product, b);
        let other = self.terms.equal(back, a);
        let mut fits = self.terms.equal(b, zero);
        fits = self.terms.or(fits, other);
        if signed {
            // The only quotient that overflows.
            let (least, minus) =
                (self.terms.number(1 << (width - 1), width), self.terms.number(u64::MAX, width));
            let (lowest, negated) = (self.terms.equal(a, least), self.terms.equal(b, minus));
            let both = self.terms.and(lowest, negated);
            let not = self.terms.not(both);
            fits = self.terms.and(fits, not);
        }
        (product, self.terms.not(fits))
    }

    pub(crate) fn extreme(&mut self, predicate: Predicate, a: Term, b: Term) -> Term {
        let first = compare(&mut self.terms, predicate, a, b);
        self.terms.choose(first, a, b)
    }

    pub(crate) fn count_ones(&mut self, a: Term) -> Term {
        let width = self.terms.width(a);
        let mut sum = self.terms.number(0, width);
        for bit in 0..width {
            let one = self.terms.extract(a, bit, 1);
            let one = self.terms.zero_extend(one, width);
            sum = self.terms.binary(Binary::Add, sum, one);
        }
        sum
    }

    pub(crate) fn count_zeros(&mut self, a: Term, from_top: bool) -> Term {
        let width = self.terms.width(a);
        let mut result = self.terms.number(width.into(), width);
        for step in 0..width {
            // The last bit examined decides, so the first bit of the count comes last.
            let bit = if from_top { step } else { width - 1 - step };
            let zeros = if from_top { width - 1 - bit } else { bit };
            let here = self.terms.extract(a, bit, 1);
            let count = self.terms.number(zeros.into(), width);
            result = self.terms.choose(here, count, result);
        }
        result
    }

    pub(crate) fn rotate(&mut self, a: Term, by: Term, left: bool) -> Term {
        let width = self.terms.width(a);
        let bits = self.terms.number(width.into(), width);
        let by = self.terms.binary(Binary::RemUnsigned, by, bits);
        let rest = self.terms.binary(Binary::Sub, bits, by);
        let (up, down) = if left { (by, rest) } else { (rest, by) };
        let high = self.terms.binary(Binary::ShiftLeft, a, up);
        let low = self.terms.binary(Binary::ShiftRight, a, down);
        self.terms.or(high, low)
    }
}

pub(crate) fn compare(terms: &mut Terms, predicate: Predicate, a: Term, b: Term) -> Term {
    use term::Binary::{LessSigned, LessUnsigned};
    let (op, left, right, negated) = match predicate {
        Predicate::Equal => return terms.equal(a, b),
        Predicate::NotEqual => {
            let equal = terms.equal(a, b);
            return terms.not(equal);
        }
        Predicate::UnsignedLess => (LessUnsigned, a, b, false),
        Predicate::UnsignedGreater => (LessUnsigned, b, a, false),
        Predicate::UnsignedLessEqual => (LessUnsigned, b, a, true),
        Predicate::UnsignedGreaterEqual => (LessUnsigned, a, b, true),
        Predicate::SignedLess => (LessSigned, a, b, false),
        Predicate::SignedGreater => (LessSigned, b, a, false),
        Predicate::SignedLessEqual => (LessSigned, b, a, true),
        Predicate::SignedGreaterEqual => (LessSigned, a, b, true),
    };
    let less = terms.binary(op, left, right);
    if negated { terms.not(less) } else { less }
}
