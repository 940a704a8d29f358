//! Symbols: values read by loads, and values that are unknown because something is not modeled.

use std::rc::Rc;

use crashproof_frontend::bitcode::ir::Type;
use crashproof_prove::term::{Node, Term};
use rustc_hash::FxHashSet;

use crate::frame::At;
use crate::machine::Machine;
use crate::value::{self, Value};

impl Machine<'_> {
    /// A value that is unknown because something is not modeled, which matters only if it is used.
    pub(crate) fn imprecise(&mut self, bits: u8, why: &str) -> Term {
        if self.options.approximate {
            return self.terms.symbol("input", bits);
        }
        let symbol = self.terms.symbol("not modeled", bits);
        self.imprecise.insert(symbol, why.into());
        symbol
    }

    /// Why a term depends on something not modeled, if it does.
    pub(crate) fn why_imprecise(&mut self, term: Term) -> Option<Rc<str>> {
        if self.imprecise.is_empty() {
            return None;
        }
        let mut stack = vec![term];
        while let Some(&top) = stack.last() {
            if self.checked.contains_key(&top) {
                stack.pop();
                continue;
            }
            let own = self.imprecise.get(&top).cloned();
            let operands: Vec<Term> = self.terms.operands(top).collect();
            let open: Vec<Term> =
                operands.iter().copied().filter(|t| !self.checked.contains_key(t)).collect();
            if open.is_empty() {
                let inherited = operands.iter().find_map(|t| self.checked[t].clone());
                self.checked.insert(top, own.or(inherited));
                stack.pop();
            } else {
                stack.extend(open);
            }
        }
        self.checked[&term].clone()
    }

    /// A fresh symbol for the value an event reads.
    pub(crate) fn read_symbol(&mut self, bits: u8) -> Term {
        let symbol = self.terms.symbol("read", bits);
        self.readers.insert(symbol, self.who);
        symbol
    }

    /// Whether a term depends on something another thread read.
    pub(crate) fn is_foreign(&self, term: Term) -> bool {
        let mut seen = FxHashSet::default();
        let mut stack = vec![term];
        while let Some(term) = stack.pop() {
            if !seen.insert(term) {
                continue;
            }
            if matches!(self.terms.node(term), Node::Symbol(_))
                && self.readers.get(&term).is_some_and(|reader| *reader != self.who)
            {
                return true;
            }
            stack.extend(self.terms.operands(term));
        }
        false
    }

    /// Includes the place in the text, because the value may be used elsewhere.
    pub(crate) fn reason(&self, what: &str, at: At<'_>) -> String {
        format!("{what} at {}:{} is not modeled", at.place.file, at.place.line)
    }

    /// An arbitrary value of a type; `None` if the type has none.
    pub(crate) fn anything(&mut self, ty: &Type) -> Option<Value> {
        value::build(ty, &mut |bits| self.terms.symbol("input", bits)).ok()
    }
}
