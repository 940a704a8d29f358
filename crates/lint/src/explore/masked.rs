//! Evaluates conditions on few-bit values by trying all values.
//!
//! `flags & (A | B | C)` has eight values. Code tests their bits (`v & (v - 1)` for more than one), and distinguishes
//! them by a `switch` without cases for impossible values. Facts alone do not contradict each other there; trying the
//! values does.

use super::walk::{State, Walk};
use crate::expression::{Expression, Form};
use crashproof_frontend::program::ir::Arithmetic;

/// Values with more bits than this are not enumerated.
const BITS: u32 = 8;

impl Walk<'_, '_> {
    /// Whether a condition on a few-bit value holds for all values consistent with the facts of a path, or for none.
    pub(super) fn masked_truth(&self, state: &State, condition: Expression) -> Option<bool> {
        let (value, mask) = self.masked(condition)?;
        let about: Vec<(Expression, bool)> = state
            .facts
            .iter()
            .filter(|(fact, _)| self.computed(**fact, value, 0).is_some())
            .map(|(fact, holds)| (*fact, *holds))
            .collect();
        let mut known = None;
        // All subsets of the mask, from the mask itself down to zero.
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

    /// The few-bit value from which an expression is computed, and its mask.
    fn masked(&self, expression: Expression) -> Option<(Expression, i64)> {
        match self.explorer.expressions.form(expression) {
            Form::Operation(Arithmetic::And, left, right) => {
                match self.explorer.expressions.as_int(right) {
                    // For nested masks, the outer one.
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

    /// The result of an expression if `value` is `number`; `None` if it depends on anything else.
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
