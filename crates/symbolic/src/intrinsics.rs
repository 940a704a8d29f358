//! LLVM's intrinsics.

use crashproof_frontend::bitcode::ir::{Predicate, Type};
use crashproof_prove::term::{Binary, Term, Terms};

use crate::access::At;
use crate::instructions::compare;
use crate::library::Reply;
use crate::machine::{Flow, Machine, Stop};
use crate::state::State;
use crate::value::{self, Value};

/// These do nothing that a program could see.
const NOTHING: [&str; 11] = [
    "llvm.lifetime.",
    "llvm.dbg.",
    "llvm.invariant.",
    "llvm.donothing",
    "llvm.stackrestore",
    "llvm.prefetch",
    "llvm.experimental.noalias",
    "llvm.x86.sse2.pause",
    "llvm.x86.sse2.lfence",
    "llvm.fake.use",
    "llvm.var.annotation",
];

impl Machine<'_> {
    /// Carries out an intrinsic, if it is one.
    pub(crate) fn intrinsic(
        &mut self,
        name: &str,
        arguments: &[Option<Value>],
        ty: &Type,
        state: &mut State,
        at: At<'_>,
    ) -> Flow<Option<Reply>> {
        if !name.starts_with("llvm.") {
            return Ok(None);
        }
        if NOTHING.iter().any(|prefix| name.starts_with(prefix)) {
            return Ok(Some(Reply::NONE));
        }
        let scalars = crate::value::scalars(arguments);
        let whole = name;
        let name = whole.strip_prefix("llvm.").unwrap_or(whole);
        let Some(scalars) = scalars else {
            return self
                .unmodelled(state, ty, &format!("intrinsic `{whole}`"), at)
                .map(|value| Some(Reply { value }));
        };
        let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        let term = match scalars.as_slice() {
            [to, from, length, ..] if starts(&["memcpy.", "memmove.", "memcpy.inline."]) => {
                self.for_lengths(state, *length, "a copy", at, |machine, state, bytes| {
                    machine.copy_bytes(state, *to, *from, bytes, at)
                })?;
                return Ok(Some(Reply::NONE));
            }
            [to, byte, length, ..] if starts(&["memset.", "memset.inline."]) => {
                self.for_lengths(state, *length, "a fill", at, |machine, state, bytes| {
                    machine.fill_bytes(state, *to, *byte, bytes, at)
                })?;
                return Ok(Some(Reply::NONE));
            }
            [] if name == "x86.sse2.mfence" => {
                self.fence(state, at)?;
                return Ok(Some(Reply::NONE));
            }
            [] if name == "x86.sse.sfence" => {
                self.store_fence(state, at)?;
                return Ok(Some(Reply::NONE));
            }
            [address] if name == "x86.sse2.clflush" => {
                self.flush(state, *address, false, at)?;
                return Ok(Some(Reply::NONE));
            }
            [address] if name == "x86.clflushopt" || name == "x86.clwb" => {
                self.flush(state, *address, true, at)?;
                return Ok(Some(Reply::NONE));
            }
            [condition, ..] if starts(&["assume"]) => {
                return if state.assume(&mut self.terms, *condition) {
                    Ok(Some(Reply::NONE))
                } else {
                    Err(Stop::Dead)
                };
            }
            [] if starts(&["trap", "debugtrap", "ubsantrap"]) => return Err(self.fails(state, "trap", at)),
            [_] if starts(&["ubsantrap"]) => return Err(self.fails(state, "trap", at)),
            [value, ..] if starts(&["expect.", "launder.", "strip.", "threadlocal.address", "ssa.copy"]) => {
                *value
            }
            [_, ..] if starts(&["is.constant"]) => self.terms.truth(false),
            [] if starts(&["stacksave"]) => self.terms.number(0, 64),
            [_, min, ..] if starts(&["objectsize."]) => {
                let bits = value::bits(ty).unwrap_or(64);
                let unknown = if self.terms.constant(*min) == Some(1) { 0 } else { u64::MAX };
                self.terms.number(unknown, bits)
            }
            [a, b] if starts(&["umax."]) => self.extreme(Predicate::UnsignedGreater, *a, *b),
            [a, b] if starts(&["umin."]) => self.extreme(Predicate::UnsignedLess, *a, *b),
            [a, b] if starts(&["smax."]) => self.extreme(Predicate::SignedGreater, *a, *b),
            [a, b] if starts(&["smin."]) => self.extreme(Predicate::SignedLess, *a, *b),
            [a, _] if starts(&["abs."]) => {
                let negative = self.terms.negate(*a);
                self.extreme(Predicate::SignedGreater, *a, negative)
            }
            [a] if starts(&["bswap."]) => {
                let width = self.terms.width(*a);
                let mut result = self.terms.extract(*a, 0, 8);
                for index in 1..width / 8 {
                    let byte = self.terms.extract(*a, index * 8, 8);
                    result = self.terms.concat(result, byte);
                }
                result
            }
            [a] if starts(&["ctpop."]) => self.count_ones(*a),
            [a, _] if starts(&["ctlz."]) => self.count_zeros(*a, true),
            [a, _] if starts(&["cttz."]) => self.count_zeros(*a, false),
            [a, b, by] if starts(&["fshl."]) && a == b => self.rotate(*a, *by, true),
            [a, b, by] if starts(&["fshr."]) && a == b => self.rotate(*a, *by, false),
            [a, b] if starts(&["uadd.with.overflow."]) => {
                let sum = self.terms.binary(Binary::Add, *a, *b);
                let overflow = self.terms.binary(Binary::LessUnsigned, sum, *a);
                return Ok(Some(pair(sum, overflow)));
            }
            [a, b] if starts(&["usub.with.overflow."]) => {
                let difference = self.terms.binary(Binary::Sub, *a, *b);
                let overflow = self.terms.binary(Binary::LessUnsigned, *a, *b);
                return Ok(Some(pair(difference, overflow)));
            }
            [a, b] if starts(&["sadd.with.overflow."]) => {
                let sum = self.terms.binary(Binary::Add, *a, *b);
                // Both have the other sign than the sum.
                let (left, right) =
                    (self.terms.binary(Binary::Xor, *a, sum), self.terms.binary(Binary::Xor, *b, sum));
                let overflow = self.both_negative(left, right);
                return Ok(Some(pair(sum, overflow)));
            }
            [a, b] if starts(&["ssub.with.overflow."]) => {
                let difference = self.terms.binary(Binary::Sub, *a, *b);
                let (left, right) =
                    (self.terms.binary(Binary::Xor, *a, *b), self.terms.binary(Binary::Xor, *a, difference));
                let overflow = self.both_negative(left, right);
                return Ok(Some(pair(difference, overflow)));
            }
            [a, b] if starts(&["umul.with.overflow.", "smul.with.overflow."]) => {
                let (product, overflow) = self.product(*a, *b, name.starts_with('s'));
                return Ok(Some(pair(product, overflow)));
            }
            [a, b] if starts(&["uadd.sat."]) => {
                let sum = self.terms.binary(Binary::Add, *a, *b);
                let overflow = self.terms.binary(Binary::LessUnsigned, sum, *a);
                let most = self.terms.number(u64::MAX, self.terms.width(*a));
                self.terms.choose(overflow, most, sum)
            }
            [a, b] if starts(&["usub.sat."]) => {
                let difference = self.terms.binary(Binary::Sub, *a, *b);
                let overflow = self.terms.binary(Binary::LessUnsigned, *a, *b);
                let least = self.terms.number(0, self.terms.width(*a));
                self.terms.choose(overflow, least, difference)
            }
            _ => {
                let value = self.unmodelled(state, ty, &format!("intrinsic `{whole}`"), at)?;
                return Ok(Some(Reply { value }));
            }
        };
        Ok(Some(Reply { value: Some(Value::Scalar(term)) }))
    }

    fn both_negative(&mut self, a: Term, b: Term) -> Term {
        let both = self.terms.and(a, b);
        self.terms.extract(both, self.terms.width(a) - 1, 1)
    }

    /// A product, and whether it does not fit: if it does, dividing by one factor gives the other.
    fn product(&mut self, a: Term, b: Term, signed: bool) -> (Term, Term) {
        let width = self.terms.width(a);
        let product = self.terms.binary(Binary::Mul, a, b);
        if width <= 32 {
            // There is room to see.
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
            // The one quotient that does not fit either.
            let (least, minus) =
                (self.terms.number(1 << (width - 1), width), self.terms.number(u64::MAX, width));
            let (lowest, negated) = (self.terms.equal(a, least), self.terms.equal(b, minus));
            let both = self.terms.and(lowest, negated);
            let not = self.terms.not(both);
            fits = self.terms.and(fits, not);
        }
        (product, self.terms.not(fits))
    }

    fn extreme(&mut self, predicate: Predicate, a: Term, b: Term) -> Term {
        let first = compare(&mut self.terms, predicate, a, b);
        self.terms.choose(first, a, b)
    }

    fn count_ones(&mut self, a: Term) -> Term {
        let width = self.terms.width(a);
        let mut sum = self.terms.number(0, width);
        for bit in 0..width {
            let one = self.terms.extract(a, bit, 1);
            let one = self.terms.zero_extend(one, width);
            sum = self.terms.binary(Binary::Add, sum, one);
        }
        sum
    }

    fn count_zeros(&mut self, a: Term, from_top: bool) -> Term {
        let width = self.terms.width(a);
        let mut result = self.terms.number(width.into(), width);
        for step in 0..width {
            // The bit looked at last decides, so the first one of the count comes last.
            let bit = if from_top { step } else { width - 1 - step };
            let zeros = if from_top { width - 1 - bit } else { bit };
            let here = self.terms.extract(a, bit, 1);
            let count = self.terms.number(zeros.into(), width);
            result = self.terms.choose(here, count, result);
        }
        result
    }

    fn rotate(&mut self, a: Term, by: Term, left: bool) -> Term {
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

fn pair(value: Term, flag: Term) -> Reply {
    Reply { value: Some(Value::Members(vec![Value::Scalar(value), Value::Scalar(flag)])) }
}
