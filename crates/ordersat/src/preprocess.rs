//! Preprocessing: eliminates variables ([`eliminate`](crate::eliminate)) and renumbers the rest before a solver sees the formula.
//!
//! Callers do not notice: values of eliminated variables are computed from a model of the rest, and a variable that turns
//! up in a later question or clause is restored.

use crate::eliminate::{Clause, Eliminated, eliminate};
use crate::literal::{Lit, Var};
use crate::solver::{Limits, Outcome, Question, Solver, Statistics, Survey};
use crate::theory::{Graph, Keeping};

/// A solver of the preprocessed formula.
pub struct Preprocessed {
    inner: Box<dyn Solver>,
    /// Clauses given before the graph.
    clauses: Vec<Clause>,
    given: u64,
    /// For each variable: must it stay?
    kept: Vec<bool>,
    /// Has the solver been given the formula?
    loaded: bool,
    eliminated: Eliminated,
    /// Names within, and back.
    inward: Vec<Option<Var>>,
    outward: Vec<Var>,
    /// The last model, of all variables.
    model: Vec<bool>,
}

impl Preprocessed {
    /// A solver behind which this one answers.
    pub fn new(inner: Box<dyn Solver>) -> Preprocessed {
        Preprocessed {
            inner,
            clauses: Vec::new(),
            given: 0,
            kept: Vec::new(),
            loaded: false,
            eliminated: Eliminated::default(),
            inward: Vec::new(),
            outward: Vec::new(),
            model: Vec::new(),
        }
    }

    fn name(&mut self, lit: Lit) -> Lit {
        let known = &mut self.inward[lit.var().0 as usize];
        let var = *known.get_or_insert_with(|| {
            self.outward.push(lit.var());
            self.inner.new_var()
        });
        Lit::new(var, lit.is_positive())
    }

    fn give(&mut self, clause: &[Lit]) {
        let clause: Vec<Lit> = clause.iter().map(|&lit| self.name(lit)).collect();
        self.inner.clause(&clause);
    }

    /// The literals as the inner solver names them, restored if they were eliminated.
    fn restored(&mut self, lits: &[Lit]) -> Vec<Lit> {
        for lit in lits {
            for clause in self.eliminated.restore(lit.var()) {
                self.give(&clause);
            }
        }
        lits.iter().map(|&lit| self.name(lit)).collect()
    }

    fn take_model(&mut self) {
        self.model.clear();
        let named = self.inward.iter();
        self.model.extend(named.map(|name| name.is_some_and(|var| self.inner.value(var.positive()))));
        self.eliminated.complete(&mut self.model);
    }
}

impl Solver for Preprocessed {
    fn new_var(&mut self) -> Var {
        let var = Var(self.kept.len() as u32);
        self.kept.push(false);
        self.inward.push(None);
        var
    }

    fn clause(&mut self, lits: &[Lit]) {
        self.given += 1;
        if self.loaded {
            let lits = self.restored(lits);
            self.inner.clause(&lits);
            return;
        }
        let mut clause = lits.to_vec();
        clause.sort_unstable();
        clause.dedup();
        // A literal and its opposite are neighbors now.
        if !clause.windows(2).any(|pair| pair[0] == !pair[1]) {
            self.clauses.push(clause.into());
        }
    }

    fn keep(&mut self, lit: Lit) {
        self.kept[lit.var().0 as usize] = true;
    }

    fn set_graph(&mut self, graph: &Graph, keeping: Keeping) {
        for lit in graph.literals() {
            self.keep(lit);
        }
        let (clauses, eliminated) = eliminate(std::mem::take(&mut self.clauses), &self.kept);
        self.eliminated = eliminated;
        clauses.iter().for_each(|clause| self.give(clause));
        let graph = graph.renamed(|lit| self.name(lit));
        self.inner.set_graph(&graph, keeping);
        self.loaded = true;
    }

    fn solve(&mut self, assumptions: &[Lit], limits: &Limits) -> Outcome {
        let assumptions = self.restored(assumptions);
        let outcome = self.inner.solve(&assumptions, limits);
        if outcome == Outcome::Satisfiable {
            self.take_model();
        }
        outcome
    }

    fn survey(&mut self, questions: &[Question], limits: &Limits) -> Survey {
        let lits: Vec<Lit> = questions.iter().map(|question| question.lit).collect();
        let lits = self.restored(&lits);
        let named = questions.iter().zip(lits).map(|(question, lit)| Question { lit, ..*question });
        let survey = self.inner.survey(&named.collect::<Vec<_>>(), limits);
        if matches!(survey, Survey::Found(_)) {
            self.take_model();
        }
        survey
    }

    fn value(&self, lit: Lit) -> bool {
        self.model[lit.var().0 as usize] == lit.is_positive()
    }

    fn failed(&self) -> Vec<Lit> {
        let failed = self.inner.failed().into_iter();
        failed.map(|lit| Lit::new(self.outward[lit.var().0 as usize], lit.is_positive())).collect()
    }

    fn statistics(&self) -> Statistics {
        Statistics { variables: self.kept.len() as u64, clauses: self.given, ..self.inner.statistics() }
    }
}
