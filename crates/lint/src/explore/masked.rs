//! Values of a few bits, decided by trying them all.
//!
//! `flags & (A | B | C)` has eight values. Code tests them by their bits (`v & (v - 1)` for more than one), and
//! distinguishes them by a `switch` without a case for what cannot be. Facts alone do not contradict each other there;
//! trying the values does.

use super::walk::{State, Walk};
use crate::expression::{Expression, Form};
use crashproof_frontend::program::ir::Arithmetic;

/// More bits than this are too many to try.
const BITS: u32 = 8;

impl Walk<'_, '_> {
    /// Whether a condition over a value of a few bits holds for all values that the facts of a path leave, or for none.
    pub(super) fn masked_truth(&self, state: &State, condition: Expression) -> Option<bool> {
        let (value, mask) = self.masked(condition)?;
        let about: Vec<(Expression, bool)> = state
            .facts
            .iter()
            .filter(|(fact, _)| self.computed(**fact, value, 0).is_some())
            .map(|(fact, holds)| (*fact, *holds))
            .collect();
        let mut known = None;
        // All numbers made of bits of the mask, from the mask down to zero.
        let mut number = mask;
        loop {
            let left = about
                .iter()
                .all(|(fact, holds)| self.computed(*fact, value, number).is_none_or(|n| (n != 0) == *holds));
            if left {
                let holds = self.computed(condition, value, number)? != 0;
                if known.is_some_and(|known| known != holds) {
                    return None;
                }
                known = Some(holds);
            }
            if number == 0 {
                return known;
            }
            number = (number - 1) & mask;
        }
    }

    /// The value of a few bits that an expression is computed from, and its mask.
    fn masked(&self, expression: Expression) -> Option<(Expression, i64)> {
        match self.explorer.expressions.form(expression) {
            Form::Operation(Arithmetic::And, left, right) => {
                match self.explorer.expressions.as_int(right) {
                    // A mask of a mask is the outer one.
                    Some(mask) if mask > 0 && mask.count_ones() <= BITS => Some((expression, mask)),
                    _ => self.masked(left).or_else(|| self.masked(right)),
                }
            }
            Form::Operation(_, left, right) | Form::Comparison(_, left, right) => {
                self.masked(left).or_else(|| self.masked(right))
            }
            Form::Plus(inner, _) => self.masked(inner),
            _ => None,
        }
    }

    /// What an expression comes to if `value` is `number`; none if it is about something else.
    fn computed(&self, expression: Expression, value: Expression, number: i64) -> Option<i64> {
        if expression == value {
            return Some(number);
        }
        match self.explorer.expressions.form(expression) {
            Form::Int(constant) => Some(constant),
            Form::Plus(inner, offset) => Some(self.computed(inner, value, number)?.wrapping_add(offset)),
            Form::Operation(what, left, right) => {
                what.of(self.computed(left, value, number)?, self.computed(right, value, number)?)
            }
            Form::Comparison(what, left, right) => {
                let (left, right) =
                    (self.computed(left, value, number)?, self.computed(right, value, number)?);
                Some(what.holds(left, right).into())
            }
            _ => None,
        }
    }
}
