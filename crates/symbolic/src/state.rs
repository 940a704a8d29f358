//! One path, or several merged ones: the conditions under which it is taken, and the state on it.

use std::rc::Rc;

use crashproof_frontend::bitcode::ir::FunctionId;
use crashproof_prove::term::{Node, Term, Terms};
use rustc_hash::FxHashMap;

use crate::memory::Memory;
use crate::value::{self, Value};

/// A path.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// All of these hold.
    pub(crate) path: Vec<Term>,
    pub(crate) memory: Memory,
    /// What recovery has loaded from addresses it had to load itself, by address and size. No other thread writes then,
    /// so it need not be loaded again.
    pub(crate) loaded: Rc<FxHashMap<(Term, u64), Term>>,
    /// For each enclosing loop, in all calls, outermost first: has this iteration done anything observable?
    pub(crate) dirty: Vec<Term>,
    /// The locks it holds.
    pub(crate) held: Held,
    /// Exit handlers to call when the process ends.
    pub(crate) ending: Ending,
    /// Recovery has threads whose schedules are not followed: the content of shared memory is unknown, and so are
    /// claims.
    pub(crate) unfollowed: bool,
}

impl State {
    /// The conjunction of the path.
    pub(crate) fn guard(&self, terms: &mut Terms) -> Term {
        let mut guard = terms.truth(true);
        for condition in &self.path {
            guard = terms.and(guard, *condition);
        }
        guard
    }

    /// Whether a condition holds, if the path determines it.
    pub(crate) fn known(&self, terms: &Terms, condition: Term) -> Option<bool> {
        if let Some(constant) = terms.constant(condition) {
            return Some(constant == 1);
        }
        for fact in &self.path {
            if *fact == condition {
                return Some(true);
            }
            if terms.node(*fact) == Node::Not(condition) || terms.node(condition) == Node::Not(*fact) {
                return Some(false);
            }
        }
        None
    }

    /// Continues only where the condition holds; returns whether that is possible at all.
    pub(crate) fn assume(&mut self, terms: &mut Terms, condition: Term) -> bool {
        match self.known(terms, condition) {
            Some(known) => known,
            None => {
                // Each conjunct separately, so that each is known afterwards.
                if let Node::Binary(crashproof_prove::term::Binary::And, a, b) = terms.node(condition) {
                    return self.assume(terms, a) && self.assume(terms, b);
                }
                self.path.push(condition);
                true
            }
        }
    }

    /// Records that something observable was done if the condition holds.
    pub(crate) fn mark_dirty(&mut self, terms: &mut Terms, condition: Term) {
        for flag in &mut self.dirty {
            *flag = terms.or(*flag, condition);
        }
    }
}

/// The locks that a thread holds; `None` if paths with different ones met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held(Option<Rc<Vec<Term>>>);

impl Default for Held {
    fn default() -> Self {
        Held(Some(Rc::default()))
    }
}

impl Held {
    pub(crate) fn merge(&self, other: &Held) -> Held {
        if self == other { self.clone() } else { Held(None) }
    }

    /// Whether both are known to be the same locks.
    pub(crate) fn same_as(&self, other: &Held) -> bool {
        self.0.is_some() && self == other
    }

    pub(crate) fn take(&mut self, lock: Term) {
        if let Some(locks) = &mut self.0 {
            Rc::make_mut(locks).push(lock);
        }
    }

    pub(crate) fn release(&mut self, lock: Term) {
        let Some(locks) = &mut self.0 else { return };
        match locks.iter().rposition(|held| *held == lock) {
            Some(index) => {
                Rc::make_mut(locks).remove(index);
            }
            None => self.0 = None,
        }
    }
}

/// An exit handler, with its argument if it has one.
pub(crate) type LastCall = (FunctionId, Option<Term>);

/// The exit handlers to call, last first; `None` if paths with different lists met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ending(pub(crate) Option<Rc<Vec<LastCall>>>);

impl Default for Ending {
    fn default() -> Self {
        Ending(Some(Rc::default()))
    }
}

impl Ending {
    pub(crate) fn merge(&self, other: &Ending) -> Ending {
        if self == other { self.clone() } else { Ending(None) }
    }
}

/// Paths that arrive at one place, each with values that depend on the path.
pub(crate) type Arrivals = Vec<(State, Vec<Value>)>;

/// Merges several paths into one.
pub(crate) fn merge(terms: &mut Terms, mut arrivals: Arrivals) -> Option<(State, Vec<Value>)> {
    while arrivals.len() > 1 {
        let (first, second) = best_pair(terms, &arrivals);
        let (b, b_values) = arrivals.remove(second);
        let (a, a_values) = arrivals.swap_remove(first);
        arrivals.push(merge_two(terms, (a, a_values), (b, b_values)));
    }
    arrivals.pop()
}

/// The two that differ only in one last condition, or else those with the most in common.
fn best_pair(terms: &Terms, arrivals: &Arrivals) -> (usize, usize) {
    let mut best = (0, 0, 1);
    for first in 0..arrivals.len() {
        for second in first + 1..arrivals.len() {
            let (a, b) = (&arrivals[first].0.path, &arrivals[second].0.path);
            let common = common_prefix(a, b);
            if complementary(terms, &a[common..], &b[common..]) {
                return (first, second);
            }
            if common + 1 > best.0 {
                best = (common + 1, first, second);
            }
        }
    }
    (best.1, best.2)
}

fn common_prefix(a: &[Term], b: &[Term]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

fn complementary(terms: &Terms, a: &[Term], b: &[Term]) -> bool {
    match (a, b) {
        ([x], [y]) => terms.node(*x) == Node::Not(*y) || terms.node(*y) == Node::Not(*x),
        _ => false,
    }
}

fn merge_two(terms: &mut Terms, a: (State, Vec<Value>), b: (State, Vec<Value>)) -> (State, Vec<Value>) {
    let common = common_prefix(&a.0.path, &b.0.path);
    let (rest_a, rest_b) = (&a.0.path[common..], &b.0.path[common..]);
    let all = |terms: &mut Terms, rest: &[Term]| {
        let start = terms.truth(true);
        rest.iter().fold(start, |sum, condition| terms.and(sum, *condition))
    };
    let only_a = all(terms, rest_a);
    let only_b = all(terms, rest_b);
    // The paths exclude each other, so either condition distinguishes them; the shorter one gives simpler values.
    let swap = rest_b.len() < rest_a.len();
    let mut path = a.0.path[..common].to_vec();
    if !complementary(terms, rest_a, rest_b) {
        let either = terms.or(only_a, only_b);
        if !terms.is_true(either) {
            path.push(either);
        }
    }
    let (condition, (yes, yes_values), (no, no_values)) = if swap { (only_b, b, a) } else { (only_a, a, b) };
    let values =
        yes_values.iter().zip(&no_values).map(|(yes, no)| value::choose(terms, condition, yes, no)).collect();
    let dirty = yes.dirty.iter().zip(&no.dirty).map(|(yes, no)| terms.choose(condition, *yes, *no)).collect();
    let mut loaded = yes.loaded;
    if !Rc::ptr_eq(&loaded, &no.loaded) {
        Rc::make_mut(&mut loaded).retain(|place, value| no.loaded.get(place) == Some(value));
    }
    let (held, ending) = (yes.held.merge(&no.held), yes.ending.merge(&no.ending));
    let unfollowed = yes.unfollowed || no.unfollowed;
    let memory = yes.memory.merge(terms, condition, &no.memory);
    (State { path, memory, loaded, dirty, held, ending, unfollowed }, values)
}
