//! Branches: which ways are possible, and what taking one of them says.

use std::rc::Rc;

use super::{EXHAUSTED, State, Walk};
use crate::expression::{Expression, Form, NOTHING};
use crate::ir::{Arithmetic, Compare, Op, Operand};

impl Walk<'_, '_> {
    /// Whether a condition is known to hold.
    pub(super) fn truth(&mut self, state: &State, condition: Expression) -> Option<bool> {
        if condition == NOTHING {
            return None;
        }
        if let Some(value) = self.all.expressions.as_int(condition) {
            return Some(value & 1 != 0 || value > 1);
        }
        let (fact, holds) = self.all.expressions.fact(condition, true);
        if let Some(value) = self.all.expressions.as_int(fact) {
            return Some((value != 0) == holds);
        }
        if let Some(known) = state.facts.get(&fact) {
            return Some(*known == holds);
        }
        if self.is_condition(fact) {
            let parts = match self.all.expressions.form(fact) {
                Form::Operation(Arithmetic::And, left, right) => Some((left, right, false)),
                Form::Operation(Arithmetic::Or, left, right) => Some((left, right, true)),
                _ => None,
            };
            if let Some((left, right, decides)) = parts {
                let (left, right) = (self.truth(state, left), self.truth(state, right));
                if left == Some(decides) || right == Some(decides) {
                    return Some(decides == holds);
                }
                if left == Some(!decides) && right == Some(!decides) {
                    return Some(decides != holds);
                }
            }
        }
        // Equal to one constant is not equal to another.
        if let Form::Comparison(Compare::Eq, left, right) = self.all.expressions.form(fact)
            && self.all.expressions.as_int(right).is_some()
        {
            let other = state.facts.iter().any(|(known, truth)| {
                *truth
                    && matches!(self.all.expressions.form(*known), Form::Comparison(Compare::Eq, same, constant)
                        if same == left && constant != right && self.all.expressions.as_int(constant).is_some())
            });
            if other {
                return Some(!holds);
            }
        }
        None
    }

    pub(super) fn is_condition(&self, expression: Expression) -> bool {
        match self.all.expressions.form(expression) {
            Form::Comparison(..) => true,
            Form::Operation(Arithmetic::And | Arithmetic::Or, left, right) => {
                self.is_condition(left) && self.is_condition(right)
            }
            _ => false,
        }
    }

    pub(super) fn assume(&mut self, state: &mut State, condition: Expression, holds: bool) {
        if condition == NOTHING {
            return;
        }
        if self.is_condition(condition) {
            match (self.all.expressions.form(condition), holds) {
                (Form::Operation(Arithmetic::And, left, right), true)
                | (Form::Operation(Arithmetic::Or, left, right), false) => {
                    self.assume(state, left, holds);
                    self.assume(state, right, holds);
                    return;
                }
                _ => {}
            }
        }
        let (fact, holds) = self.all.expressions.fact(condition, holds);
        if self.all.expressions.as_int(fact).is_none() {
            Rc::make_mut(&mut state.facts).insert(fact, holds);
        }
    }

    /// Of the ways out of a loop's head, those that make sense: the first time in, the last time out.
    pub(super) fn sensible(&self, block: u32, state: &State, to: &[u32]) -> Vec<u32> {
        let Some((header, (rounds, _))) = state.rounds.iter().find(|(header, _)| **header == block) else {
            return to.to_vec();
        };
        let inside = &self.shape.loops[header].blocks;
        let (stay, leave): (Vec<u32>, Vec<u32>) = to.iter().partition(|next| inside.contains(next));
        if stay.is_empty() || leave.is_empty() {
            return to.to_vec();
        }
        if *rounds >= EXHAUSTED {
            leave
        } else if *rounds == 0
            && self.eventful.contains(header)
            && !self.shape.flush_loops.contains_key(header)
        {
            stay
        } else {
            to.to_vec()
        }
    }

    pub(super) fn terminator(&mut self, block: u32, op: &Op, state: State) {
        // A loop that is left elsewhere than at its head does not go round for ever.
        let exhausted = state.rounds.get(&block).is_some_and(|(rounds, _)| *rounds >= EXHAUSTED);
        match op {
            Op::Jump { to } if exhausted && self.shape.loops[&block].blocks.contains(to) => {}
            Op::Jump { to } => self.goto(state, block, *to),
            Op::Branch { condition, yes, no } => {
                let condition = self.value(&state, *condition);
                match self.truth(&state, condition) {
                    Some(true) => self.goto(state, block, *yes),
                    Some(false) => self.goto(state, block, *no),
                    None => {
                        let ways = self.sensible(block, &state, &[*yes, *no]);
                        if exhausted && ways.iter().all(|to| self.shape.loops[&block].blocks.contains(to)) {
                            return;
                        }
                        for (to, holds) in [(*yes, true), (*no, false)] {
                            if ways.contains(&to) {
                                let mut next = state.clone();
                                self.assume(&mut next, condition, holds);
                                self.goto(next, block, to);
                            }
                        }
                    }
                }
            }
            Op::Switch { value, cases, default } => {
                self.switch(block, state, *value, cases, *default, exhausted)
            }
            Op::Return { value } => self.returns(state, *value),
            _ => {}
        }
    }

    pub(super) fn switch(
        &mut self,
        block: u32,
        state: State,
        value: Operand,
        cases: &[(i64, u32)],
        default: u32,
        exhausted: bool,
    ) {
        let value = self.value(&state, value);
        if let Some(constant) = self.all.expressions.as_int(value) {
            let to = cases.iter().find(|case| case.0 == constant).map_or(default, |case| case.1);
            self.goto(state, block, to);
            return;
        }
        let mut targets: Vec<u32> = cases.iter().map(|case| case.1).collect();
        targets.push(default);
        targets.sort_unstable();
        targets.dedup();
        let targets = self.sensible(block, &state, &targets);
        if exhausted && targets.iter().all(|to| self.shape.loops[&block].blocks.contains(to)) {
            return;
        }
        for to in targets {
            let mut next = state.clone();
            let own: Vec<i64> = cases.iter().filter(|case| case.1 == to).map(|case| case.0).collect();
            if value != NOTHING {
                if to == default {
                    for case in cases.iter().filter(|case| case.1 != to).take(16) {
                        let constant = self.all.expressions.int(case.0);
                        let equal = self.all.expressions.comparison(Compare::Eq, value, constant);
                        self.assume(&mut next, equal, false);
                    }
                } else if let [one] = own[..] {
                    let constant = self.all.expressions.int(one);
                    let equal = self.all.expressions.comparison(Compare::Eq, value, constant);
                    if self.truth(&next, equal) == Some(false) {
                        continue;
                    }
                    self.assume(&mut next, equal, true);
                }
            }
            self.goto(next, block, to);
        }
    }

    pub(super) fn goto(&mut self, mut state: State, from: u32, to: u32) {
        let Some(rank) = self.shape.rank[to as usize] else { return };
        let back = self.shape.rank[from as usize].is_some_and(|own| rank <= own);
        if self.shape.loops.contains_key(&to) {
            if back {
                let signature = state.machine.signature();
                let rounds = Rc::make_mut(&mut state.rounds);
                let entry = rounds.entry(to).or_default();
                if entry.0 >= EXHAUSTED {
                    // It did not leave when it had to.
                    return;
                }
                entry.0 += 1;
                let again = entry.1.contains(&signature) || entry.0 >= self.all.bounds.loops;
                entry.1.push(signature);
                if again {
                    // One more look at the head, to leave.
                    entry.0 = EXHAUSTED;
                }
            } else {
                Rc::make_mut(&mut state.rounds).insert(to, (0, Vec::new()));
            }
        }
        // Loops that are left are forgotten, so that paths can be joined again.
        let left: Vec<u32> = state
            .rounds
            .keys()
            .filter(|header| !self.shape.loops.get(header).is_some_and(|a_loop| a_loop.blocks.contains(&to)))
            .copied()
            .collect();
        if !left.is_empty() {
            let rounds = Rc::make_mut(&mut state.rounds);
            for header in left {
                rounds.remove(&header);
            }
        }
        state.from = from;
        self.pending.entry((rank, to)).or_default().push(state);
    }
}
