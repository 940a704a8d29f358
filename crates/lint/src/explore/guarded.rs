//! Collects guards: the facts that hold on a path where it reads or stores persistent memory.

use super::walk::{State, Walk};
use crate::event::{Kind, Site};
use crate::expression::{Address, Expression, Form, NOTHING, Persistence};
use crate::guards::{Relation, count_members, members};
use crate::span::{Length, Span};
use crashproof_frontend::program::ir::{Callee, Compare, FunctionId, Op, Operand};

/// A content of persistent memory that decides whether a path gets here.
struct Guard {
    content: Expression,
    /// As far as known, it is only a check for free room.
    is_capacity: bool,
}

impl Walk<'_, '_> {
    /// The path reads or stores to a range, which is guarded by everything its facts are about.
    pub(super) fn note_touched(&mut self, state: &State, span: &Span, stores: bool) {
        let Some(address) = self.explorer.expressions.at(&span.at) else { return };
        let guards = self.guards(state);
        // Whether there is room for a record says nothing about whether the record counts.
        let counts = |guard: &Guard| !guard.is_capacity || !self.is_chosen_by(&span.at, guard.content);
        let guards: Vec<Expression> = guards.into_iter().filter(counts).map(|guard| guard.content).collect();
        let unseen: Vec<Expression> =
            guards.into_iter().filter(|guard| self.seen_guards.insert((*guard, address))).collect();
        let is_new = self.seen_touched.insert(address);
        if unseen.is_empty() && !is_new {
            return;
        }
        let touched = self.describe(state, span);
        // Of an element chosen at run time only this is known: what stores to it undoes something.
        let some_element = self.some_element;
        if some_element && !stores {
            // A store may follow.
            for guard in unseen {
                self.seen_guards.remove(&(guard, address));
            }
            return;
        }
        if touched.is_empty() {
            return;
        }
        for guard in unseen {
            let leads_here = self.explorer.expressions.is_made_of(address, guard);
            let relation = match (some_element, leads_here) {
                (true, _) => Relation::Undo,
                (false, true) => Relation::LeadsTo,
                (false, false) => Relation::Any,
            };
            let guard = self.guard_name(state, guard);
            // The guard was described just now: an element chosen at run time is no guard.
            if !self.some_element {
                self.explorer.guards.add(&guard, &touched, relation);
            }
        }
        if some_element {
            return;
        }
        if is_new {
            let name = self.explorer.names.add(touched);
            self.explorer.touched.entry(self.id).or_default().insert(name);
        }
    }

    /// The path calls a function: everything that accesses is guarded, too.
    pub(super) fn note_callee(&mut self, state: &State, callee: FunctionId) {
        let Some(touched) = self.explorer.touched.get(&callee).cloned() else { return };
        if self.seen_callees.insert(callee) {
            self.explorer.touched.entry(self.id).or_default().extend(&touched);
        }
        for Guard { content: guard, .. } in self.guards(state) {
            if self.seen_guarded_callees.insert((guard, callee)) {
                let guard = self.guard_name(state, guard);
                for name in &touched {
                    let name = self.explorer.names.text(*name);
                    self.explorer.guards.add(&guard, name, Relation::Any);
                }
            }
        }
    }

    /// Memory that the path passes to a function as a plain pointer, which the function reads or stores through: only
    /// the path knows which member it is.
    pub(super) fn note_handed(&mut self, state: &State, callee: FunctionId, values: &[Expression]) {
        let Some(touched) = self.explorer.touched.get(&callee) else { return };
        let plain: Vec<&str> = touched
            .iter()
            .filter_map(|name| members(self.explorer.names.text(*name)))
            .filter(|(_, members)| members.is_empty())
            .map(|(root, _)| root)
            .collect();
        let variables = &self.explorer.program.function(callee).variables;
        let is_used = |number: u32| {
            let parameter = variables.get(&Operand::Parameter(number));
            parameter.is_some_and(|parameter| plain.contains(&parameter.name.as_str()))
        };
        let handed: Vec<Expression> =
            (0..).zip(values).filter(|(number, _)| is_used(*number)).map(|(_, value)| *value).collect();
        for value in handed {
            if value != NOTHING && self.persistence(value) != Persistence::No {
                let span = self.span(value, Length::Unknown);
                self.note_touched(state, &span, false);
            }
        }
    }

    /// A branch whose other side only ends the program: an assertion. What follows is not guarded by it, but its claim
    /// may relate two numbers.
    pub(super) fn note_assertion(&mut self, state: &State, condition: Expression, holds: bool, beside: u32) {
        if matches!(self.function.terminator(beside).op, Op::Unreachable) {
            let (fact, _) = self.explorer.expressions.fact(condition, true);
            self.asserted.insert(fact);
            self.note_bound(state, condition, holds);
        }
    }

    /// A claim that one number in persistent memory never exceeds another: `finished <= started`. A program that
    /// increments both must make the limit durable first, so the lower one guards it.
    fn note_bound(&mut self, state: &State, condition: Expression, holds: bool) {
        let Form::Comparison(what, left, right) = self.explorer.expressions.form(condition) else { return };
        let is_below = matches!(what, Compare::Lt | Compare::Le | Compare::Below | Compare::BelowOrEqual);
        let is_above = matches!(what, Compare::Gt | Compare::Ge | Compare::Above | Compare::AboveOrEqual);
        if !is_below && !is_above {
            return;
        }
        let (lower, upper) = if is_below == holds { (left, right) } else { (right, left) };
        let is_content = |this: &mut Self, number: Expression| match this.explorer.expressions.form(number) {
            Form::Content(address) => this.persistence(address) != Persistence::No,
            _ => false,
        };
        if is_content(self, lower) && is_content(self, upper) {
            let (guard, guarded) = (self.guard_name(state, lower), self.guard_name(state, upper));
            self.explorer.guards.add(&guard, &guarded, Relation::Any);
        }
    }

    /// A branch on a condition: what only one side does is guarded by it.
    pub(super) fn note_branch(&mut self, condition: Expression, block: u32) {
        if condition == NOTHING {
            return;
        }
        if self.is_condition(condition)
            && let Form::Operation(_, left, right) = self.explorer.expressions.form(condition)
        {
            self.note_branch(left, block);
            self.note_branch(right, block);
        }
        let (fact, _) = self.explorer.expressions.fact(condition, true);
        self.branches.entry(fact).or_default().insert(block);
    }

    /// Whether a fact determines that the current block is reached: some branch on it may bypass the block. Unknown for
    /// facts that do not come from a branch of this function.
    fn decides(&mut self, fact: Expression) -> bool {
        let Some(branches) = self.branches.get(&fact) else { return true };
        let current = self.current;
        for from in branches.clone() {
            let known = self.either_way.get(&(from, current)).copied();
            let either_way = known.unwrap_or_else(|| self.shape.is_reached_either_way(from, current));
            self.either_way.insert((from, current), either_way);
            if !either_way {
                return true;
            }
        }
        false
    }

    /// Contents of persistent memory that appear in a path's facts, if these determine that the path gets here.
    fn guards(&mut self, state: &State) -> Vec<Guard> {
        let mut all: Vec<Guard> = Vec::new();
        let facts: Vec<(Expression, bool)> = state
            .facts
            .iter()
            .filter(|(fact, _)| !self.asserted.contains(fact))
            .map(|(fact, holds)| (*fact, *holds))
            .collect();
        for (fact, holds) in facts {
            if !self.decides(fact) || self.explorer.validations.contains(&fact) {
                continue;
            }
            let is_capacity = self.is_capacity(fact, holds);
            let mut contents = Vec::new();
            self.explorer.expressions.contents(fact, &mut contents);
            for content in contents {
                match all.iter_mut().find(|guard| guard.content == content) {
                    Some(known) => known.is_capacity &= is_capacity,
                    None => all.push(Guard { content, is_capacity }),
                }
            }
        }
        all.retain(|guard| match self.explorer.expressions.form(guard.content) {
            Form::Content(address) => self.persistence(address) != Persistence::No,
            _ => false,
        });
        all
    }

    /// Those that this function's own branches ask for.
    pub(super) fn own_guards(&mut self, state: &State) -> Vec<Expression> {
        let own: Vec<Expression> =
            state.facts.keys().filter(|fact| self.branches.contains_key(fact)).copied().collect();
        let mut contents = Vec::new();
        for fact in own {
            self.explorer.expressions.contents(fact, &mut contents);
        }
        let mut guards: Vec<Expression> = self.guards(state).into_iter().map(|guard| guard.content).collect();
        guards.retain(|guard| contents.contains(guard));
        guards
    }

    /// A branch on a condition that compares a checksum.
    pub(super) fn note_validation(&mut self, state: &State, condition: Expression) {
        if condition == NOTHING {
            return;
        }
        if self.is_condition(condition)
            && let Form::Operation(_, left, right) = self.explorer.expressions.form(condition)
        {
            self.note_validation(state, left);
            self.note_validation(state, right);
        }
        let (fact, _) = self.explorer.expressions.fact(condition, true);
        if self.is_validation(state, fact) {
            self.explorer.validations.insert(fact);
        }
    }

    /// Whether a fact compares a content of memory with a value computed from the rest of its object, as for a
    /// checksum: it may persist before the rest, because then it does not match.
    fn is_validation(&self, state: &State, fact: Expression) -> bool {
        let expressions = &self.explorer.expressions;
        let Form::Comparison(Compare::Eq | Compare::Ne, left, right) = expressions.form(fact) else {
            return false;
        };
        let object = |content: Expression| match expressions.form(content) {
            Form::Content(address) => Some(expressions.address(address).object),
            _ => None,
        };
        let is_computed = |content: Expression, value: Expression| {
            let Some(own) = object(content) else { return false };
            let mut others = Vec::new();
            if matches!(expressions.form(value), Form::Operation(..)) {
                expressions.contents(value, &mut others);
            }
            others.into_iter().any(|other| object(other) == Some(own))
                || self.is_computed_by_callee(state, value)
        };
        is_computed(left, right) || is_computed(right, left)
    }

    /// Whether a value is the result of a function that reads persistent memory and returns none.
    fn is_computed_by_callee(&self, state: &State, value: Expression) -> bool {
        if !matches!(self.explorer.expressions.form(value), Form::Opaque(..)) {
            return false;
        }
        (0..).zip(&self.function.instructions).any(|(number, instruction): (usize, _)| {
            state.values[number] == value
                && matches!(&instruction.op, Op::Call { callee: Callee::Direct(called), .. }
                    if !self.explorer.program.function(*called).returns_pointer
                        && self.explorer.touched.get(called).is_some_and(|touched| !touched.is_empty()))
        })
    }

    /// Whether the index that selects an element is computed from a content of memory.
    fn is_chosen_by(&self, at: &Address, content: Expression) -> bool {
        let expressions = &self.explorer.expressions;
        let mut next = at.element;
        while let Some(element) = next {
            next = match expressions.form(element) {
                Form::Element(base, index, _) => {
                    let mut contents = Vec::new();
                    expressions.contents(index, &mut contents);
                    if contents.contains(&content) {
                        return true;
                    }
                    Some(base)
                }
                Form::Plus(base, _) => Some(base),
                _ => None,
            };
        }
        false
    }

    /// Whether a fact may be only a check for free room: a number is below a limit.
    fn is_capacity(&self, fact: Expression, holds: bool) -> bool {
        let expressions = &self.explorer.expressions;
        let Form::Comparison(what, _, limit) = expressions.form(fact) else { return false };
        let bounds = match what {
            Compare::Lt | Compare::Below => holds,
            Compare::Gt | Compare::Above => !holds,
            _ => false,
        };
        bounds && expressions.as_int(limit).is_some_and(|limit| limit > 1)
    }

    fn guard_name(&mut self, state: &State, content: Expression) -> String {
        let Form::Content(address) = self.explorer.expressions.form(content) else { return String::new() };
        let at: Address = self.explorer.expressions.address(address);
        self.describe(state, &Span { at, length: Length::Unknown })
    }

    /// The name of a store's target as part of something larger, if only a pointer to it is known: `t->a` for
    /// `*chosen`.
    pub(super) fn larger_name(&mut self, state: &State, span: &Span, name: u32) -> u32 {
        if count_members(self.explorer.names.text(name)) > 0 {
            return 0;
        }
        self.hidden = Some(span.at);
        let text = self.describe(state, span);
        self.hidden = None;
        if count_members(&text) > 0 && !self.some_element { self.explorer.names.add(text) } else { 0 }
    }

    /// This function's name for the target of a callee's store, if it knows more members on the path to it than the
    /// callee, which may have only a pointer.
    pub(super) fn outer_name(&mut self, state: &State, kind: &Kind, site: Site) -> u32 {
        let Kind::Store { span, .. } = kind else { return 0 };
        let names = &self.explorer.names;
        let known = if site.outer == 0 { site.name } else { site.outer };
        let known = count_members(names.text(known));
        let text = self.describe(state, span);
        if count_members(&text) > known && !self.some_element {
            self.explorer.names.add(text)
        } else {
            site.outer
        }
    }
}
