//! Limits while a formula is being built.
//!
//! A formula may be too large to build, and its author cannot know that beforehand. Once a limit is hit, further clauses are
//! dropped and every question is answered [`Outcome::Unknown`].

use crate::solver::{Limits, Outcome, Question, Solver, Statistics, Stop, Survey};
use crate::theory::{Graph, Keeping};
use crate::{Lit, Var};

/// To ask whether a limit is hit takes a system call.
const SELDOM: u64 = 1 << 13;

/// A solver within limits.
pub struct Limited {
    inner: Box<dyn Solver>,
    limits: Limits,
    clauses: u64,
    stop: Option<Stop>,
}

impl Limited {
    /// The same solver, within these limits.
    pub fn new(inner: Box<dyn Solver>, limits: Limits) -> Limited {
        Limited { inner, limits, clauses: 0, stop: limits.hit() }
    }
}

impl Solver for Limited {
    fn new_var(&mut self) -> Var {
        self.inner.new_var()
    }

    fn clause(&mut self, lits: &[Lit]) {
        self.clauses += 1;
        if self.stop.is_none() && self.clauses.is_multiple_of(SELDOM) {
            self.stop = self.limits.hit();
        }
        if self.stop.is_none() {
            self.inner.clause(lits);
        }
    }

    fn keep(&mut self, lit: Lit) {
        self.inner.keep(lit);
    }

    fn set_graph(&mut self, graph: &Graph, keeping: Keeping) {
        if self.stop.is_none() {
            self.inner.set_graph(graph, keeping);
        }
    }

    fn solve(&mut self, assumptions: &[Lit], limits: &Limits) -> Outcome {
        match self.stop {
            Some(stop) => Outcome::Unknown(stop),
            None => self.inner.solve(assumptions, limits),
        }
    }

    fn survey(&mut self, questions: &[Question], limits: &Limits) -> Survey {
        match self.stop {
            Some(stop) => Survey::Unknown(stop),
            None => self.inner.survey(questions, limits),
        }
    }

    fn keep_learned(&mut self, longest: usize) {
        self.inner.keep_learned(longest);
    }

    fn take_learned(&mut self) -> Vec<Box<[Lit]>> {
        self.inner.take_learned()
    }

    fn value(&self, lit: Lit) -> bool {
        self.inner.value(lit)
    }

    fn failed(&self) -> Vec<Lit> {
        self.inner.failed()
    }

    fn stopped(&self) -> Option<Stop> {
        self.stop
    }

    fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }
}
