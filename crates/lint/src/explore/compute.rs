//! Instructions that compute a value from others.

use super::walk::{State, Walk};
use crate::expression::{Expression, Form, NOTHING, Persistence};
use crate::span::{Length, Span};
use crashproof_frontend::program::ir::{Arithmetic, Callee, Op, Operand};

impl Walk<'_, '_> {
    pub(super) fn computed_value(&mut self, state: &State, number: u32, op: &Op) -> Expression {
        let value = match op {
            Op::Offset { base, offset, index, within } => {
                let address = self.offset(state, number, *base, *offset, index);
                if let Some((start, bytes)) = *within {
                    let base = self.value(state, *base);
                    let scale = index.last().map_or(1, |last| last.1);
                    let explorer = &mut *self.explorer;
                    explorer.extents.note(
                        &explorer.expressions,
                        base,
                        address,
                        (start, start + bytes),
                        scale,
                    );
                }
                address
            }
            Op::Arithmetic { what: Arithmetic::Sub, left: Operand::Int(0), right }
                if self.is_errno(*right) =>
            {
                self.explorer.expressions.add(Form::Failure)
            }
            Op::Arithmetic { what, left, right } => {
                let (left, right) = (self.value(state, *left), self.value(state, *right));
                self.explorer.expressions.arithmetic(*what, left, right)
            }
            Op::Compare { what, left, right } => {
                let (left, right) = (self.value(state, *left), self.value(state, *right));
                self.explorer.expressions.comparison(*what, left, right)
            }
            Op::Select { condition, yes, no } => {
                let found = self.select(state, *condition, *yes, *no);
                let (yes, no) = (self.value(state, *yes), self.value(state, *no));
                match found {
                    NOTHING => self.not_null(number, yes, no).unwrap_or(NOTHING),
                    found => found,
                }
            }
            Op::Copy { value } => self.value(state, *value),
            Op::Extract { aggregate, index } => {
                let aggregate = self.value(state, *aggregate);
                match (self.explorer.expressions.form(aggregate), index) {
                    (Form::Pair(left, _), 0) => left,
                    (Form::Pair(_, right), 1) => right,
                    _ => NOTHING,
                }
            }
            // Only pairs are followed.
            Op::Insert { aggregate, value, index } => {
                return self.insert(state, *aggregate, *value, *index);
            }
            _ => NOTHING,
        };
        if value == NOTHING { self.opaque(state, number) } else { value }
    }

    /// Whether a value is loaded from `errno`: `-errno` is how functions say that they failed.
    fn is_errno(&self, value: Operand) -> bool {
        let op = |operand: Operand| match operand {
            Operand::Instruction(number) => Some(&self.function.instructions[number as usize].op),
            _ => None,
        };
        match op(value) {
            Some(Op::Copy { value }) => self.is_errno(*value),
            Some(Op::Load { address, .. }) => matches!(op(*address),
                Some(Op::Call { callee: Callee::Direct(called), .. })
                    if self.explorer.program.function(*called).name == "__errno_location"),
            _ => false,
        }
    }

    fn offset(
        &mut self,
        state: &State,
        number: u32,
        base: Operand,
        offset: i64,
        index: &[(Operand, i64)],
    ) -> Expression {
        let mut address = self.value(state, base);
        for (operand, scale) in index {
            let value = match operand {
                // Somewhere in the object, as `strchr` and `stpcpy` return.
                Operand::Undefined if address != NOTHING => {
                    let origin = self.origin(state, number);
                    self.explorer.expressions.add(Form::Opaque(origin, Persistence::No))
                }
                _ => self.value(state, *operand),
            };
            if value == NOTHING {
                return NOTHING;
            }
            if *scale > 1 && self.explorer.expressions.as_int(value).is_none() {
                self.explorer.expressions.note_array(address, offset, *scale);
            }
            address = self.explorer.expressions.element(address, value, *scale);
        }
        self.explorer.expressions.plus(address, offset)
    }

    /// A choice between places in one persistent object is a branch that the optimizer removed: both are followed.
    pub(super) fn select_each(
        &mut self,
        states: Vec<State>,
        number: u32,
        [condition, yes, no]: [Operand; 3],
    ) -> Vec<State> {
        let mut after = Vec::new();
        for mut state in states {
            let chosen = [yes, no].map(|operand| self.value(&state, operand));
            let open = self.value(&state, condition);
            let [one, other] = chosen.map(|value| self.explorer.expressions.address(value));
            let is_branch = open != NOTHING
                && one.object == other.object
                && self.persistence(one.object) != Persistence::No
                && self.select(&state, condition, yes, no) == NOTHING;
            if !is_branch {
                let op = Op::Select { condition, yes, no };
                state.values[number as usize] = self.computed_value(&state, number, &op);
                after.push(state);
                continue;
            }
            for (value, holds) in chosen.into_iter().zip([true, false]) {
                let mut next = state.clone();
                self.assume(&mut next, open, holds);
                next.values[number as usize] = value;
                // The data that selects between them must not persist before it.
                let at = self.explorer.expressions.address(value);
                self.note_touched(&next, &Span { at, length: Length::Unknown }, false);
                after.push(next);
            }
        }
        self.thin(after)
    }

    fn select(&mut self, state: &State, condition: Operand, yes: Operand, no: Operand) -> Expression {
        let condition = self.value(state, condition);
        let (yes, no) = (self.value(state, yes), self.value(state, no));
        match self.truth(state, condition) {
            Some(true) => yes,
            Some(false) => no,
            None if yes == no => yes,
            // `a && b` and `a || b`, as the optimizer writes them.
            None if self.is_condition(yes) && self.explorer.expressions.as_int(no) == Some(0) => {
                self.explorer.expressions.arithmetic(Arithmetic::And, condition, yes)
            }
            None if self.is_condition(no)
                && self.explorer.expressions.as_int(yes).is_some_and(|n| n & 1 == 1) =>
            {
                self.explorer.expressions.arithmetic(Arithmetic::Or, condition, no)
            }
            None => NOTHING,
        }
    }

    fn insert(&mut self, state: &State, aggregate: Operand, value: Operand, index: u32) -> Expression {
        let aggregate = self.value(state, aggregate);
        let value = self.value(state, value);
        let (left, right) = match self.explorer.expressions.form(aggregate) {
            Form::Pair(left, right) => (left, right),
            _ => (NOTHING, NOTHING),
        };
        match index {
            0 => self.explorer.expressions.add(Form::Pair(value, right)),
            1 => self.explorer.expressions.add(Form::Pair(left, value)),
            _ => NOTHING,
        }
    }

    /// The value of an operand that is computed later, from values known now.
    ///
    /// Values computed by the loop itself are from an earlier visit, if any: of the previous row, if rows are flushed
    /// in a loop.
    pub(super) fn ahead(&mut self, state: &State, operand: Operand, header: u32) -> Expression {
        let value = self.value(state, operand);
        let Operand::Instruction(number) = operand else { return value };
        let is_phi = matches!(self.function.instructions[number as usize].op, Op::Phi { .. });
        let is_inside = self.shape.loops.get(&header).is_some_and(|a_loop| {
            a_loop.blocks.iter().any(|block| {
                let block = &self.function.blocks[*block as usize];
                (block.start..block.end).contains(&number)
            })
        });
        if is_phi || value != NOTHING && !is_inside {
            return value;
        }
        match &self.function.instructions[number as usize].op {
            Op::Copy { value: copied } => self.ahead(state, *copied, header),
            // A member that the loop loads repeatedly.
            Op::Load { address, bytes } => {
                let address = self.ahead(state, *address, header);
                self.load(state, address, *bytes, None)
            }
            Op::Arithmetic { what, left, right } => {
                let (left, right) = (self.ahead(state, *left, header), self.ahead(state, *right, header));
                self.explorer.expressions.arithmetic(*what, left, right)
            }
            Op::Offset { base, offset, index, .. } => {
                let mut address = self.ahead(state, *base, header);
                for (operand, scale) in index {
                    let value = self.ahead(state, *operand, header);
                    if address == NOTHING || value == NOTHING {
                        return NOTHING;
                    }
                    address = self.explorer.expressions.element(address, value, *scale);
                }
                self.explorer.expressions.plus(address, *offset)
            }
            // A value that cannot be recomputed remains as it was.
            _ => value,
        }
    }
}
