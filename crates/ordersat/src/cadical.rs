//! The CaDiCaL backend: [`Solver`] over CaDiCaL, through its external propagator (IPASIR-UP).
//!
//! The propagator learns of assignments late and, for units, more than once; so it keeps a trail of its own. What it
//! adds are theory lemmas, true whatever is assigned, and a found model is checked once more as a whole: a
//! misunderstanding about levels can cost time, not truth.

use std::cell::RefCell;
use std::rc::Rc;

use cadical_sys::{CaDiCal, ExternalPropagator, Status, Terminator};

use crate::literal::{Lit, Var};
use crate::solver::{Limits, Outcome, Solver, Statistics, Stop};
use crate::theory::{Graph, Keeping, Theory};

/// CaDiCaL, modulo orders.
pub struct Cadical {
    solver: CaDiCal,
    shared: Rc<RefCell<Shared>>,
    watch: Rc<RefCell<Watch>>,
    variables: u32,
    clauses: u64,
    graph: Option<Graph>,
    model: Vec<bool>,
    failed: Vec<Lit>,
}

#[derive(Default)]
struct Shared {
    theory: Option<Theory>,
    /// True literals shown to the theory, and how many there were at each level.
    trail: Vec<Lit>,
    trail_at: Vec<usize>,
    assigned: Vec<bool>,
    /// A clause to hand over, literal by literal.
    clause: Option<Vec<i32>>,
    /// The reason that is being handed over.
    reason: Option<Vec<i32>>,
}

impl Shared {
    fn assign(&mut self, lit: Lit) {
        let Some(theory) = &mut self.theory else { return };
        if self.clause.is_some() || self.assigned[lit.index()] || !theory.watches(lit) {
            return;
        }
        self.assigned[lit.index()] = true;
        self.trail.push(lit);
        if let Err(conflict) = theory.assign(lit) {
            self.clause = Some(conflict.iter().map(|&lit| (!lit).dimacs()).collect());
        }
    }

    fn backtrack(&mut self, level: usize) {
        let Some(count) = self.trail_at.len().checked_sub(level).filter(|&count| count > 0) else { return };
        let length = self.trail_at[level];
        self.trail_at.truncate(level);
        for lit in self.trail.drain(length..) {
            self.assigned[lit.index()] = false;
        }
        if let Some(theory) = &mut self.theory {
            theory.pop_levels(count);
        }
    }
}

struct Propagator(Rc<RefCell<Shared>>);

impl ExternalPropagator for Propagator {
    fn notify_assignment(&mut self, lits: &[i32]) {
        let mut shared = self.0.borrow_mut();
        for &lit in lits {
            shared.assign(Lit::from_dimacs(lit));
        }
    }

    fn notify_new_decision_level(&mut self) {
        let shared = &mut *self.0.borrow_mut();
        shared.trail_at.push(shared.trail.len());
        if let Some(theory) = &mut shared.theory {
            theory.push_level();
        }
    }

    fn notify_backtrack(&mut self, new_level: usize) {
        self.0.borrow_mut().backtrack(new_level);
    }

    fn cb_check_found_model(&mut self, model: &[i32]) -> bool {
        let mut shared = self.0.borrow_mut();
        for &lit in model {
            shared.assign(Lit::from_dimacs(lit));
        }
        shared.clause.is_none()
    }

    fn cb_propagate(&mut self) -> i32 {
        let shared = &mut *self.0.borrow_mut();
        if shared.clause.is_some() {
            return 0;
        }
        let Some(theory) = &mut shared.theory else { return 0 };
        theory.next_forced().map_or(0, Lit::dimacs)
    }

    fn cb_add_reason_clause_lit(&mut self, propagated: i32) -> i32 {
        let shared = &mut *self.0.borrow_mut();
        if shared.reason.is_none() {
            let theory = shared.theory.as_mut().expect("what was propagated has a theory");
            let because = theory.explain(Lit::from_dimacs(propagated));
            let mut clause: Vec<i32> = because.iter().map(|&lit| (!lit).dimacs()).collect();
            clause.push(propagated);
            shared.reason = Some(clause);
        }
        hand_over(&mut shared.reason)
    }

    fn cb_has_external_clause(&mut self, is_forgettable: &mut bool) -> bool {
        *is_forgettable = true;
        self.0.borrow().clause.is_some()
    }

    fn cb_add_external_clause_lit(&mut self) -> i32 {
        hand_over(&mut self.0.borrow_mut().clause)
    }
}

/// The next literal of a clause; 0, and the clause is gone, when all were told.
fn hand_over(clause: &mut Option<Vec<i32>>) -> i32 {
    let next = clause.as_mut().and_then(Vec::pop);
    if next.is_none() {
        *clause = None;
    }
    next.unwrap_or(0)
}

#[derive(Default)]
struct Watch {
    limits: Limits,
    stopped: Option<Stop>,
    asked: u32,
}

struct Watchdog(Rc<RefCell<Watch>>);

impl Terminator for Watchdog {
    fn terminated(&mut self) -> bool {
        let watch = &mut *self.0.borrow_mut();
        watch.asked = watch.asked.wrapping_add(1);
        if watch.asked.is_multiple_of(64) && watch.stopped.is_none() {
            watch.stopped = watch.limits.hit();
        }
        watch.stopped.is_some()
    }
}

impl Default for Cadical {
    fn default() -> Cadical {
        let mut solver = CaDiCal::new();
        // The theory is notified of levels as they come; assignments out of order would not fit.
        solver.set("chrono", 0);
        solver.set("factor", 0);
        let watch = Rc::new(RefCell::new(Watch::default()));
        solver.connect_terminator(Watchdog(Rc::clone(&watch)));
        Cadical {
            solver,
            shared: Rc::new(RefCell::new(Shared::default())),
            watch,
            variables: 0,
            clauses: 0,
            graph: None,
            model: Vec::new(),
            failed: Vec::new(),
        }
    }
}

impl Solver for Cadical {
    fn new_var(&mut self) -> Var {
        self.variables += 1;
        Var(self.variables - 1)
    }

    fn clause(&mut self, lits: &[Lit]) {
        self.clauses += 1;
        for lit in lits {
            self.solver.add(lit.dimacs());
        }
        self.solver.add(0);
    }

    fn set_graph(&mut self, graph: &Graph, keeping: Keeping) {
        let literals = 2 * self.variables as usize;
        let theory = Theory::new(graph, literals, keeping);
        if theory.is_contradictory() {
            self.solver.add(0);
        }
        *self.shared.borrow_mut() =
            Shared { theory: Some(theory), assigned: vec![false; literals], ..Shared::default() };
        self.solver.connect_external_propagator(Propagator(Rc::clone(&self.shared)));
        let mut observed: Vec<i32> = graph.literals().map(|lit| lit.dimacs().abs()).collect();
        observed.sort_unstable();
        observed.dedup();
        for var in observed {
            self.solver.add_observed_var(var);
        }
        self.graph = Some(graph.clone());
    }

    fn solve(&mut self, assumptions: &[Lit], limits: &Limits) -> Outcome {
        let stopped = limits.hit();
        *self.watch.borrow_mut() = Watch { limits: *limits, stopped, asked: 0 };
        if let Some(stop) = stopped {
            return Outcome::Unknown(stop);
        }
        if let Some(most) = limits.conflicts {
            self.solver.limit("conflicts", i32::try_from(most).unwrap_or(i32::MAX));
        }
        for lit in assumptions {
            self.solver.assume(lit.dimacs());
        }
        match self.solver.solve() {
            Status::SATISFIABLE => {
                self.model.clear();
                for var in 1..=self.variables as i32 {
                    self.model.push(self.solver.val(var) > 0);
                }
                Outcome::Satisfiable
            }
            Status::UNSATISFIABLE => {
                self.failed.clear();
                for &lit in assumptions {
                    if self.solver.failed(lit.dimacs()) {
                        self.failed.push(lit);
                    }
                }
                Outcome::Unsatisfiable
            }
            Status::UNKNOWN => Outcome::Unknown(self.watch.borrow().stopped.unwrap_or(Stop::Conflicts)),
        }
    }

    fn value(&self, lit: Lit) -> bool {
        self.model.get(lit.var().0 as usize).is_some_and(|&value| value) == lit.is_positive()
    }

    fn failed(&self) -> Vec<Lit> {
        self.failed.clone()
    }

    fn statistics(&self) -> Statistics {
        let shared = self.shared.borrow();
        let theory = shared.theory.as_ref();
        let graph = self.graph.as_ref();
        let figure = |name: &str| self.solver.get_statistic_value(name).max(0) as u64;
        Statistics {
            variables: u64::from(self.variables),
            clauses: self.clauses,
            nodes: graph.map_or(0, |graph| graph.nodes() as u64),
            atoms: graph.map_or(0, |graph| graph.atoms() as u64),
            conflicts: figure("conflicts"),
            propagations: figure("propagations"),
            forced: theory.map_or(0, |theory| theory.propagations),
            cycles: theory.map_or(0, |theory| theory.conflicts),
        }
    }
}
