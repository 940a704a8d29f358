//! Branches: which successors are feasible, and what taking one of them implies.

use std::rc::Rc;

use px86::LINE_BYTES;

use super::walk::{COUNTED, EXHAUSTED, State, Walk};
use crate::event::{Kind, Site};
use crate::expression::{Address, Expression, Form, LAST_ERROR, NOTHING, Persistence};
use crate::span::{Length, Span};
use crashproof_frontend::frameworks::What;
use crashproof_frontend::program::ir::{Arithmetic, Callee, Compare, Op, Operand};

impl Walk<'_, '_> {
    /// The truth value of a condition, if known.
    pub(super) fn truth(&mut self, state: &State, condition: Expression) -> Option<bool> {
        if condition == NOTHING {
            return None;
        }
        if let Some(value) = self.explorer.expressions.as_int(condition) {
            return Some(value & 1 != 0 || value > 1);
        }
        let (fact, holds) = self.explorer.expressions.fact(condition, true);
        if let Some(value) = self.explorer.expressions.as_int(fact) {
            return Some((value != 0) == holds);
        }
        if let Some(known) = state.facts.get(&fact) {
            return Some(*known == holds);
        }
        if self.is_condition(fact) {
            let parts = match self.explorer.expressions.form(fact) {
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
        if self.is_null_but_used(state, fact) {
            return Some(!holds);
        }
        // A value equal to one constant is not equal to another.
        if let Form::Comparison(Compare::Eq, left, right) = self.explorer.expressions.form(fact)
            && self.explorer.expressions.as_int(right).is_some()
        {
            let other = state.facts.iter().any(|(known, truth)| {
                *truth
                    && matches!(self.explorer.expressions.form(*known), Form::Comparison(Compare::Eq, same, constant)
                        if same == left && constant != right && self.explorer.expressions.as_int(constant).is_some())
            });
            if other {
                return Some(!holds);
            }
        }
        self.masked_truth(state, fact).map(|truth| truth == holds)
    }

    /// Whether a fact says that an address is null, although the path has stored there: it would not have got this far.
    fn is_null_but_used(&self, state: &State, fact: Expression) -> bool {
        let expressions = &self.explorer.expressions;
        let Form::Comparison(Compare::Eq, address, zero) = expressions.form(fact) else { return false };
        if expressions.as_int(zero) != Some(0) {
            return false;
        }
        let at = expressions.address(address);
        let first = Address { object: at.object, element: None, offset: i64::MIN };
        let mut known = state.memory.range(first..).take_while(|(known, _)| known.object == at.object);
        // What only some of several joined paths stored is not known.
        known.any(|(known, (_, value))| known.element == at.element && known.offset >= 0 && *value != NOTHING)
    }

    /// Whether a value means failure on a path: by itself, or because the path took the error branch.
    pub(super) fn fails(&mut self, state: &State, value: Expression) -> bool {
        if self.explorer.expressions.is_failure(value) {
            return true;
        }
        if !matches!(self.explorer.expressions.form(value), Form::Opaque(..) | Form::Content(_)) {
            return false;
        }
        let mut holds = |what, number| {
            let number = self.explorer.expressions.int(number);
            let known = self.explorer.expressions.known(Form::Comparison(what, value, number))?;
            state.facts.get(&known).copied()
        };
        // In the form of `fact`: negative, or a pointer that encodes an error.
        holds(Compare::Lt, 0) == Some(true)
            || holds(Compare::Gt, -1) == Some(false)
            || holds(Compare::Below, LAST_ERROR + 1) == Some(false)
            || holds(Compare::Above, LAST_ERROR) == Some(true)
    }

    pub(super) fn is_condition(&self, expression: Expression) -> bool {
        match self.explorer.expressions.form(expression) {
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
            match (self.explorer.expressions.form(condition), holds) {
                (Form::Operation(Arithmetic::And, left, right), true)
                | (Form::Operation(Arithmetic::Or, left, right), false) => {
                    self.assume(state, left, holds);
                    self.assume(state, right, holds);
                    return;
                }
                _ => {}
            }
        }
        let (fact, holds) = self.explorer.expressions.fact(condition, holds);
        if self.explorer.expressions.as_int(fact).is_none() {
            Rc::make_mut(&mut state.facts).insert(fact, holds);
        }
        let computed: Vec<(Site, Span)> = state.machine.computed_lengths().collect();
        if !computed.is_empty() {
            let nothing = self.lengths_of_nothing(fact, holds);
            let is_nothing =
                |span: &Span| nothing.iter().any(|length| span.length == Length::Symbol(*length));
            for (site, span) in computed.into_iter().filter(|(_, span)| is_nothing(span)) {
                self.emit_at(state, Kind::Empty { span }, site);
            }
        }
    }

    /// Lengths that a fact makes zero: where `n > first` does not hold, a copy of `n - first` bytes has stored nothing.
    fn lengths_of_nothing(&mut self, fact: Expression, holds: bool) -> Vec<Expression> {
        let Form::Comparison(what, left, right) = self.explorer.expressions.form(fact) else {
            return Vec::new();
        };
        let (more, less) = match (what, holds) {
            (Compare::Eq, true) => (true, true),
            (Compare::Gt | Compare::Above, false) => (true, false),
            (Compare::Lt | Compare::Below, false) => (false, true),
            _ => (false, false),
        };
        let all = &mut self.explorer.expressions;
        let mut lengths = Vec::new();
        if more {
            lengths.push(all.difference(left, right));
        }
        if less {
            lengths.push(all.difference(right, left));
        }
        lengths.retain(|length| all.as_int(*length).is_none());
        lengths
    }

    /// The successors of a loop's head on the first visit: only those into the loop, if it has events.
    fn sensible(&self, block: u32, state: &State, to: &[u32]) -> Vec<u32> {
        let Some((rounds, _)) = state.rounds.get(&block) else { return to.to_vec() };
        let inside = &self.shape.loops[&block].blocks;
        let (stay, leave): (Vec<u32>, Vec<u32>) = to.iter().partition(|next| inside.contains(next));
        let enters = *rounds == 0
            && self.eventful.contains(&block)
            && !self.shape.flush_loops.contains_key(&block)
            && !leave.is_empty()
            && !stay.is_empty();
        if enters { stay } else { to.to_vec() }
    }

    /// The exhausted loop that is left here, at its head or at its back edge. Other exits are for errors and the like.
    fn to_be_left(&self, block: u32, state: &State, to: &[u32]) -> Option<u32> {
        let mut done = state.rounds.iter().filter(|(_, (rounds, _))| *rounds >= EXHAUSTED);
        let (header, _) = done.find(|(header, _)| {
            let blocks = &self.shape.loops[header].blocks;
            blocks.contains(&block)
                && to.iter().any(|next| !blocks.contains(next))
                && (to.contains(header) || block == **header && !self.leaves_at_its_end(**header))
        })?;
        Some(*header)
    }

    /// Whether an edge leaves a loop where the loop decides whether to continue: at its head or its back edge.
    fn ends_loop(&self, block: u32, state: &State, to: u32) -> bool {
        state.rounds.iter().any(|(header, (rounds, _))| {
            let blocks = &self.shape.loops[header].blocks;
            let goes_back = self.function.terminator(block).op.successors().contains(header);
            let decides = goes_back || block == *header && *rounds > 0;
            decides && blocks.contains(&block) && !blocks.contains(&to)
        })
    }

    /// Whether a loop decides at its end whether to go on, as `do` loops do.
    fn leaves_at_its_end(&self, header: u32) -> bool {
        let blocks = &self.shape.loops[&header].blocks;
        blocks.iter().filter(|block| **block != header).any(|block| {
            let to = self.function.terminator(*block).op.successors();
            to.contains(&header) && to.iter().any(|next| !blocks.contains(next))
        })
    }

    pub(super) fn terminator(&mut self, block: u32, op: &Op, mut state: State) {
        let targets = op.successors();
        let (known, condition) = match op {
            Op::Jump { to } => (Some(*to), NOTHING),
            Op::Branch { condition, yes, no } => {
                let condition = self.value(&state, *condition);
                (self.truth(&state, condition).map(|holds| if holds { *yes } else { *no }), condition)
            }
            Op::Switch { value, cases, default } => {
                let value = self.value(&state, *value);
                let constant = self.explorer.expressions.as_int(value);
                let case =
                    |constant| cases.iter().find(|case| case.0 == constant).map_or(*default, |case| case.1);
                (constant.map(case), value)
            }
            Op::Return { value } => return self.returns(state, *value),
            _ => return,
        };
        if let Op::Branch { condition: operand, yes, no } = op
            && known.is_some()
            && self.is_by_chance(&state, block, *operand)
        {
            for to in [*yes, *no] {
                self.goto(state.clone(), block, to);
            }
            return;
        }
        let mut ways = self.sensible(block, &state, &targets);
        if let Some(header) = self.to_be_left(block, &state, &targets) {
            let inside = |to: &u32| self.shape.loops[&header].blocks.contains(to);
            let rounds = state.rounds[&header].1.len() as u32;
            match known {
                // A path on which an exchange fails each time; those on which it succeeds have left.
                Some(to) if inside(&to) && self.left_at.contains(&block) && self.retries(op) => return,
                // A loop with a constant trip count is walked to its end.
                Some(to) if inside(&to) && rounds < COUNTED => {
                    Rc::make_mut(&mut state.rounds).entry(header).and_modify(|entry| entry.0 = rounds);
                    return self.goto(state, block, to);
                }
                Some(to) if inside(&to) => {
                    // What the remaining iterations would have stored is unknown.
                    Rc::make_mut(&mut state.machine).cut_short();
                    ways = targets.iter().copied().filter(|to| !inside(to)).collect();
                    for to in ways {
                        self.goto(state.clone(), block, to);
                    }
                    return;
                }
                _ => ways = targets.iter().copied().filter(|to| !inside(to)).collect(),
            }
        }
        match (known, op) {
            (Some(to), _) => {
                if self.ends_loop(block, &state, to) {
                    self.left_at.insert(block);
                }
                self.goto(state, block, to);
            }
            (None, Op::Branch { yes, no, .. }) => {
                let flushing = self.flushing_side(block, condition, *yes, *no);
                for (to, holds) in [(*yes, true), (*no, false)] {
                    if ways.contains(&to) && flushing.is_none_or(|side| side == to) {
                        self.note_assertion(&state, condition, holds, if holds { *no } else { *yes });
                        self.note_branch(condition, block);
                        self.note_undecided(block, to);
                        self.note_validation(&state, condition);
                        let mut next = state.clone();
                        // The number of iterations stands for any number: callers must not see it as a fact.
                        if !(self.ends_loop(block, &state, to) && self.is_about_parameters(condition)) {
                            self.assume(&mut next, condition, holds);
                        }
                        self.goto(next, block, to);
                    }
                }
            }
            (None, Op::Switch { cases, default, .. }) => {
                for to in ways {
                    if let Some(next) = self.case(&state, condition, cases, *default, to) {
                        self.goto(next, block, to);
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether a branch depends on the success of a compare-exchange.
    fn retries(&self, op: &Op) -> bool {
        let Op::Branch { condition, .. } = op else { return false };
        self.is_success(*condition, 6)
    }

    fn is_success(&self, value: Operand, depth: u32) -> bool {
        let Operand::Instruction(number) = value else { return false };
        if depth == 0 {
            return false;
        }
        let of = |value: Operand| self.is_success(value, depth - 1);
        match &self.function.instructions[number as usize].op {
            Op::Extract { aggregate: Operand::Instruction(from), index: 1 } => {
                matches!(self.function.instructions[*from as usize].op, Op::Locked { expected: Some(_), .. })
            }
            Op::Copy { value } => of(*value),
            Op::Compare { left, right, .. } | Op::Arithmetic { left, right, .. } => of(*left) || of(*right),
            Op::Phi { incoming } => incoming.iter().any(|(_, value)| of(*value)),
            _ => false,
        }
    }

    /// For a branch on the offset within a cache line, the side that flushes: on the other side, the flush of another
    /// part of the line covers it.
    fn flushing_side(&mut self, block: u32, condition: Expression, yes: u32, no: u32) -> Option<u32> {
        if condition == NOTHING || !self.is_about_lines(condition) {
            return None;
        }
        let only = |this: &Self, side: u32, other: u32| {
            let others = this.shape.reached(other, block);
            this.shape.reached(side, block).difference(&others).any(|at| this.flushes(*at))
        };
        match (only(self, yes, no), only(self, no, yes)) {
            (true, false) => Some(yes),
            (false, true) => Some(no),
            _ => None,
        }
    }

    fn is_about_lines(&mut self, condition: Expression) -> bool {
        match self.explorer.expressions.form(condition) {
            Form::Operation(Arithmetic::Rem, address, unit) => {
                self.explorer.expressions.as_int(unit) == Some(LINE_BYTES as i64)
                    && self.persistence(address) != Persistence::No
            }
            Form::Operation(Arithmetic::And, address, mask)
                if self.explorer.expressions.as_int(mask) == Some(LINE_BYTES as i64 - 1) =>
            {
                self.persistence(address) != Persistence::No
            }
            Form::Operation(_, left, right) | Form::Comparison(_, left, right) => {
                self.is_about_lines(left) || self.is_about_lines(right)
            }
            Form::Plus(inner, _) => self.is_about_lines(inner),
            _ => false,
        }
    }

    /// Whether a block flushes, itself or by a call.
    fn flushes(&self, block: u32) -> bool {
        self.function.block(block).any(|(_, instruction)| match &instruction.op {
            Op::Flush { .. } => true,
            Op::Call { callee: Callee::Direct(called), .. } => {
                let ways = self.explorer.summaries.get(called).map_or(&[][..], |summary| &summary.ways);
                let described = self.explorer.apis.meaning(&self.explorer.program.function(*called).name);
                described
                    .is_some_and(|meaning| meaning.effects.iter().any(|effect| effect.what == What::Flush))
                    || ways
                        .iter()
                        .flat_map(|way| &way.events)
                        .any(|event| matches!(event.kind, Kind::Flush { .. }))
            }
            _ => false,
        })
    }

    /// The state in which a switch reaches a target, if it can.
    fn case(
        &mut self,
        state: &State,
        value: Expression,
        cases: &[(i64, u32)],
        default: u32,
        to: u32,
    ) -> Option<State> {
        let mut next = state.clone();
        if value == NOTHING {
            return Some(next);
        }
        if to == default {
            // More facts than these are not worth their cost.
            for case in cases.iter().filter(|case| case.1 != to).take(16) {
                let constant = self.explorer.expressions.int(case.0);
                let equal = self.explorer.expressions.comparison(Compare::Eq, value, constant);
                self.assume(&mut next, equal, false);
            }
            return Some(next);
        }
        let mut own = cases.iter().filter(|case| case.1 == to).map(|case| case.0);
        if let (Some(one), None) = (own.next(), own.next()) {
            let constant = self.explorer.expressions.int(one);
            let equal = self.explorer.expressions.comparison(Compare::Eq, value, constant);
            if self.truth(&next, equal) == Some(false) {
                return None;
            }
            self.assume(&mut next, equal, true);
        }
        Some(next)
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
                // Once the budget of steps is exhausted, one more iteration must suffice.
                let rounds =
                    if self.steps > self.explorer.bounds.steps { 1 } else { self.explorer.bounds.loops };
                let is_done = entry.1.contains(&signature) || entry.0 >= rounds;
                entry.1.push(signature);
                if is_done {
                    // One more visit of the head, in order to leave.
                    entry.0 = EXHAUSTED;
                }
            } else {
                Rc::make_mut(&mut state.rounds).insert(to, (0, Vec::new()));
            }
        }
        // Loops that have been left are forgotten, so that paths can be joined again.
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
