//! Addresses rounded down to a line or page, and lengths that compensate for it. A flush writes back whole lines, so
//! rounding makes no difference.

use px86::LINE_BYTES;

use crate::expression::{Expression, Expressions, Form};
use crashproof_frontend::program::ir::Arithmetic;

impl Expressions {
    /// Whether a number was divided by its current multiplier, that is, rounded down to a line or page.
    pub(crate) fn is_rounded(&self, what: Arithmetic, number: Expression, unit: i64) -> bool {
        let bytes = |by_shift: bool, unit: i64| match by_shift {
            true => u32::try_from(unit).ok().and_then(|bits| 1_i64.checked_shl(bits)),
            false => Some(unit),
        };
        let Some(bytes_now) = bytes(what == Arithmetic::Shl, unit).filter(|bytes| is_unit(*bytes)) else {
            return false;
        };
        match self.form(number) {
            Form::Operation(inverse @ (Arithmetic::Div | Arithmetic::Shr), _, by) => {
                self.as_int(by).and_then(|by| bytes(inverse == Arithmetic::Shr, by)) == Some(bytes_now)
            }
            _ => false,
        }
    }

    pub(crate) fn dividend(&self, number: Expression) -> Expression {
        match self.form(number) {
            Form::Operation(_, dividend, _) => dividend,
            _ => number,
        }
    }

    /// Whether one number is the offset of the other within its line or page.
    pub(crate) fn is_misalignment(&self, part: Expression, of: Expression) -> bool {
        match self.form(part) {
            Form::Operation(Arithmetic::Rem, whole, unit) => {
                whole == of && self.as_int(unit).is_some_and(is_unit)
            }
            Form::Operation(Arithmetic::And, whole, mask) => {
                whole == of && self.as_int(mask).is_some_and(|mask| mask < 4096 && is_unit(mask + 1))
            }
            _ => false,
        }
    }

    /// The same, negated, as it is added to an address.
    pub(crate) fn is_negative_misalignment(&self, part: Expression, of: Expression) -> bool {
        match self.form(part) {
            Form::Operation(Arithmetic::Sub, zero, part) => {
                self.as_int(zero) == Some(0) && self.is_misalignment(part, of)
            }
            _ => false,
        }
    }

    /// A length that was increased by its start's offset within a line, without that: the lines are the same.
    pub(crate) fn without_misalignment(&mut self, length: Expression) -> Expression {
        let (sum, constant) = match self.form(length) {
            Form::Plus(inner, constant) => (inner, constant),
            _ => (length, 0),
        };
        let is_inside = |part: Expression| match self.form(part) {
            Form::Operation(Arithmetic::And, _, mask) => {
                self.as_int(mask).is_some_and(|mask| (1..LINE_BYTES as i64).contains(&mask))
            }
            Form::Operation(Arithmetic::Rem, _, unit) => self.as_int(unit) == Some(LINE_BYTES as i64),
            _ => false,
        };
        match self.form(sum) {
            _ if is_inside(sum) => self.int(constant),
            Form::Operation(Arithmetic::Add, part, rest) if is_inside(part) => self.plus(rest, constant),
            // A parameter might be a pointer.
            Form::Element(rest, part, 1) if is_inside(part) => self.plus(rest, constant),
            Form::Operation(Arithmetic::Add, rest, part) if is_inside(part) => self.plus(rest, constant),
            _ => length,
        }
    }
}

/// Whether a number of bytes is a line, a page or part of one.
fn is_unit(bytes: i64) -> bool {
    (2..=4096).contains(&bytes) && bytes & (bytes - 1) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_inside_a_line_does_not_count() {
        let mut all = Expressions::new();
        let (p, n) = (all.add(Form::Parameter(0)), all.add(Form::Parameter(1)));
        let mask = all.int(63);
        let inside = all.arithmetic(Arithmetic::And, p, mask);
        let number = all.int(512);
        let length = all.arithmetic(Arithmetic::Add, inside, number);
        assert_eq!(all.without_misalignment(length), number);
        let length = all.arithmetic(Arithmetic::Add, n, inside);
        assert_eq!(all.without_misalignment(length), n);
    }

    #[test]
    fn an_address_is_rounded_down_in_many_ways() {
        let mut all = Expressions::new();
        let p = all.add(Form::Parameter(0));
        let (line, six) = (all.int(64), all.int(6));
        let divided = all.arithmetic(Arithmetic::Div, p, line);
        assert_eq!(all.arithmetic(Arithmetic::Mul, divided, line), p);
        let shifted = all.arithmetic(Arithmetic::Shr, p, six);
        assert_eq!(all.arithmetic(Arithmetic::Shl, shifted, six), p);
        assert_eq!(all.arithmetic(Arithmetic::Mul, shifted, line), p);
        let rest = all.arithmetic(Arithmetic::Rem, p, line);
        assert_eq!(all.arithmetic(Arithmetic::Sub, p, rest), p);
        let zero = all.int(0);
        let back = all.arithmetic(Arithmetic::Sub, zero, rest);
        assert_eq!(all.element(p, back, 1), p);
    }
}
