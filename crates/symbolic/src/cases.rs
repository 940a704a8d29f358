//! The possible values of a term on a path, each with its condition, if they are few and known.

use crashproof_prove::term::{Node, Term, Terms};
use rustc_hash::FxHashMap;

use crate::frame::At;
use crate::machine::{Flow, Machine, Stop};
use crate::state::{self, State};

/// Addresses with more possible values than this are not split into cases.
const MOST_CASES: usize = 128;

/// Values with their conditions, by term; `None` if they are many or unknown.
type Cases = FxHashMap<Term, Option<Vec<(Term, u64)>>>;

impl Machine<'_> {
    /// The possible values of a term with their conditions, if they are few and known.
    pub(crate) fn cases(&mut self, state: &State, term: Term) -> Option<Vec<(Term, u64)>> {
        let yes = self.terms.truth(true);
        // Terms share parts, so results are cached.
        let mut all = self.all_cases(state, term, &mut FxHashMap::default())?;
        if all.len() == 1 {
            all[0].0 = yes;
        }
        Some(all)
    }

    fn all_cases(&mut self, state: &State, term: Term, kept: &mut Cases) -> Option<Vec<(Term, u64)>> {
        if let Some(known) = kept.get(&term) {
            return known.clone();
        }
        let found = self.new_cases(state, term, kept);
        kept.insert(term, found.clone());
        found
    }

    fn new_cases(&mut self, state: &State, term: Term, kept: &mut Cases) -> Option<Vec<(Term, u64)>> {
        let width = self.terms.width(term);
        let yes = self.terms.truth(true);
        let mut found: Vec<(Term, u64)> = Vec::new();
        let mut add = |terms: &mut Terms, condition: Term, number: u64| {
            if terms.is_false(condition) {
                return;
            }
            match found.iter_mut().find(|(_, known)| *known == number) {
                Some((known, _)) => *known = terms.or(*known, condition),
                None => found.push((condition, number)),
            }
        };
        match self.terms.node(term) {
            Node::Constant(number) => return Some(vec![(yes, number)]),
            Node::Symbol(_) => {
                return match state.known(&self.terms, term) {
                    Some(known) if width == 1 => Some(vec![(yes, known.into())]),
                    _ => None,
                };
            }
            Node::Choose(condition, a, b) => match state.known(&self.terms, condition) {
                Some(true) => return self.all_cases(state, a, kept),
                Some(false) => return self.all_cases(state, b, kept),
                None => {
                    let not = self.terms.not(condition);
                    for (branch, choice) in [(condition, a), (not, b)] {
                        for (inner, number) in self.all_cases(state, choice, kept)? {
                            let both = self.terms.and(branch, inner);
                            add(&mut self.terms, both, number);
                        }
                    }
                }
            },
            Node::Not(a) | Node::Extract(a, _) | Node::ZeroExtend(a) | Node::SignExtend(a) => {
                for (condition, number) in self.all_cases(state, a, kept)? {
                    let result = self.terms.apply(term, |_| number, |_| 0);
                    add(&mut self.terms, condition, result);
                }
            }
            Node::Binary(_, a, b) | Node::Concat(a, b) => {
                let (left, right) = (self.all_cases(state, a, kept)?, self.all_cases(state, b, kept)?);
                if left.len() * right.len() > MOST_CASES {
                    return None;
                }
                for (on_left, x) in &left {
                    for (on_right, y) in &right {
                        let result =
                            self.terms.apply(term, |operand| if operand == a { *x } else { *y }, |_| 0);
                        let both = self.terms.and(*on_left, *on_right);
                        add(&mut self.terms, both, result);
                    }
                }
            }
        }
        (found.len() <= MOST_CASES && !found.is_empty()).then_some(found)
    }

    /// Performs an action for every possible value of a term.
    pub(crate) fn for_each(
        &mut self,
        state: &mut State,
        term: Term,
        unknown: &str,
        at: At<'_>,
        mut does: impl FnMut(&mut Self, &mut State, u64) -> Flow<()>,
    ) -> Flow<()> {
        let Some(cases) = self.cases(state, term) else {
            return Err(self.refuse(state, unknown, at));
        };
        if let [(_, number)] = cases.as_slice() {
            return does(self, state, *number);
        }
        let mut arrivals = Vec::new();
        for (condition, number) in cases {
            let mut here = state.clone();
            if !here.assume(&mut self.terms, condition) {
                continue;
            }
            match does(self, &mut here, number) {
                Ok(()) => arrivals.push((here, Vec::new())),
                Err(Stop::Dead) => {}
                Err(Stop::Restart) => return Err(Stop::Restart),
            }
        }
        let (merged, _) = state::merge(&mut self.terms, arrivals).ok_or(Stop::Dead)?;
        *state = merged;
        Ok(())
    }
}
