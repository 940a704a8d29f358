//! Collects what guards what: the facts of a path where it reads or stores persistent memory.

use super::walk::{State, Walk};
use crate::event::{Kind, Site};
use crate::expression::{Address, Expression, Form, Persistence};
use crate::guards::names_a_member;
use crate::span::{Length, Span};
use crashproof_frontend::program::ir::{FunctionId, Op};

impl Walk<'_, '_> {
    /// The path touches a range: whatever its facts are about guards it.
    pub(super) fn note_touched(&mut self, state: &State, span: &Span) {
        let Some(address) = self.explorer.expressions.at(&span.at) else { return };
        let guards = self.guards(state);
        let unseen: Vec<Expression> =
            guards.into_iter().filter(|guard| self.seen_guards.insert((*guard, address))).collect();
        let is_new = self.seen_touched.insert(address);
        if unseen.is_empty() && !is_new {
            return;
        }
        let touched = self.describe(state, span);
        if touched.is_empty() {
            return;
        }
        for guard in unseen {
            let guard = self.guard_name(state, guard);
            self.explorer.guards.add(&guard, &touched);
        }
        if is_new {
            let name = self.explorer.names.add(touched);
            self.explorer.touched.entry(self.id).or_default().insert(name);
        }
    }

    /// The path calls a function: whatever that touches is guarded, too.
    pub(super) fn note_callee(&mut self, state: &State, callee: FunctionId) {
        let Some(touched) = self.explorer.touched.get(&callee).cloned() else { return };
        if self.seen_callees.insert(callee) {
            self.explorer.touched.entry(self.id).or_default().extend(&touched);
        }
        for guard in self.guards(state) {
            if self.seen_guarded_callees.insert((guard, callee)) {
                let guard = self.guard_name(state, guard);
                for name in &touched {
                    self.explorer.guards.add(&guard, self.explorer.names.text(*name));
                }
            }
        }
    }

    /// A branch beside which the program only ends: an assertion, which guards nothing.
    pub(super) fn note_assertion(&mut self, condition: Expression, beside: u32) {
        if matches!(self.function.terminator(beside).op, Op::Unreachable) {
            let (fact, _) = self.explorer.expressions.fact(condition, true);
            self.asserted.insert(fact);
        }
    }

    /// Contents of persistent memory that the facts of a path are about.
    fn guards(&mut self, state: &State) -> Vec<Expression> {
        let mut all = Vec::new();
        for fact in state.facts.keys().filter(|fact| !self.asserted.contains(fact)) {
            self.explorer.expressions.contents(*fact, &mut all);
        }
        all.retain(|content| match self.explorer.expressions.form(*content) {
            Form::Content(address) => self.persistence(address) != Persistence::No,
            _ => false,
        });
        all.dedup();
        all
    }

    fn guard_name(&mut self, state: &State, content: Expression) -> String {
        let Form::Content(address) = self.explorer.expressions.form(content) else { return String::new() };
        let at: Address = self.explorer.expressions.address(address);
        self.describe(state, &Span { at, length: Length::Unknown })
    }

    /// What this function calls the memory of a callee's store, if the callee only has a pointer to it.
    pub(super) fn outer_name(&mut self, state: &State, kind: &Kind, site: Site) -> u32 {
        let Kind::Store { span, .. } = kind else { return 0 };
        if names_a_member(self.explorer.names.text(site.name)) {
            return 0;
        }
        let text = self.describe(state, span);
        if names_a_member(&text) { self.explorer.names.add(text) } else { site.outer }
    }
}
