//! The batsat backend: [`Solver`] over batsat, with the order theory as its theory.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use batsat::{Callbacks, Lit as BatLit, SolverInterface, Var as BatVar, lbool, theory};

use crate::literal::{Lit, Var};
use crate::solver::{Limits, Outcome, Solver, Statistics, Stop};
use crate::theory::{Graph, Keeping, Theory};

/// batsat, modulo orders.
pub struct Batsat {
    solver: batsat::Solver<Watchdog>,
    limits: Rc<Cell<Limits>>,
    stopped: Rc<Cell<Option<Stop>>>,
    /// Clauses learned for the present question, one a conflict.
    learned: Rc<Cell<u64>>,
    kept: Rc<RefCell<Kept>>,
    theory: Adapter,
    model: Vec<lbool>,
    clauses: u64,
    graph: (u64, u64),
    buffer: Vec<BatLit>,
}

/// Learned clauses to share with other solvers.
#[derive(Default)]
struct Kept {
    /// Those of more literals are not kept.
    longest: usize,
    clauses: Vec<Box<[Lit]>>,
}

/// Looks at the limits now and then.
struct Watchdog {
    limits: Rc<Cell<Limits>>,
    stopped: Rc<Cell<Option<Stop>>>,
    asked: Cell<u32>,
    learned: Rc<Cell<u64>>,
    kept: Rc<RefCell<Kept>>,
}

impl Callbacks for Watchdog {
    fn on_new_clause(&mut self, clause: &[BatLit], _: batsat::ClauseKind) {
        self.learned.set(self.learned.get() + 1);
        let mut kept = self.kept.borrow_mut();
        if clause.len() <= kept.longest {
            kept.clauses.push(clause.iter().map(|&lit| from_bat(lit)).collect());
        }
    }

    fn stop(&self) -> bool {
        // Asked at every conflict or so; the clock and /proc are not free.
        let asked = self.asked.get().wrapping_add(1);
        self.asked.set(asked);
        if self.limits.get().conflicts.is_some_and(|most| self.learned.get() > most) {
            self.stopped.set(Some(Stop::Conflicts));
        }
        if asked.is_multiple_of(64) && self.stopped.get().is_none() {
            self.stopped.set(self.limits.get().hit());
        }
        self.stopped.get().is_some()
    }
}

struct Adapter {
    theory: Option<Theory>,
    /// How much of the trail was shown to the theory, now and at each level.
    seen: usize,
    seen_at: Vec<usize>,
    explanation: Vec<BatLit>,
    clause: Vec<BatLit>,
}

impl Default for Batsat {
    fn default() -> Batsat {
        let limits = Rc::new(Cell::new(Limits::default()));
        let stopped = Rc::new(Cell::new(None));
        let learned = Rc::new(Cell::new(0));
        let kept = Rc::new(RefCell::new(Kept::default()));
        let watchdog = Watchdog {
            limits: Rc::clone(&limits),
            stopped: Rc::clone(&stopped),
            asked: Cell::new(0),
            learned: Rc::clone(&learned),
            kept: Rc::clone(&kept),
        };
        Batsat {
            solver: batsat::Solver::new(batsat::SolverOpts::default(), watchdog),
            limits,
            stopped,
            learned,
            kept,
            theory: Adapter {
                theory: None,
                seen: 0,
                seen_at: Vec::new(),
                explanation: Vec::new(),
                clause: Vec::new(),
            },
            model: Vec::new(),
            clauses: 0,
            graph: (0, 0),
            buffer: Vec::new(),
        }
    }
}

fn to_bat(lit: Lit) -> BatLit {
    BatLit::new(BatVar::unsafe_from_idx(lit.var().0), lit.is_positive())
}

fn from_bat(lit: BatLit) -> Lit {
    Lit::new(Var(lit.var().idx()), lit.sign())
}

impl Adapter {
    fn check(&mut self, acts: &mut theory::TheoryArg) {
        let Some(theory) = &mut self.theory else { return };
        while self.seen < acts.model().len() {
            let lit = from_bat(acts.model()[self.seen]);
            self.seen += 1;
            if !theory.watches(lit) {
                continue;
            }
            if let Err(conflict) = theory.assign(lit) {
                self.clause.clear();
                self.clause.extend(conflict.iter().map(|&lit| to_bat(!lit)));
                acts.raise_conflict(&self.clause, false);
                return;
            }
        }
        while let Some(lit) = theory.next_forced() {
            if !acts.propagate(to_bat(lit)) {
                return;
            }
        }
    }
}

impl theory::Theory for Adapter {
    fn final_check(&mut self, acts: &mut theory::TheoryArg) {
        self.check(acts);
    }

    fn partial_check(&mut self, acts: &mut theory::TheoryArg) {
        self.check(acts);
    }

    fn create_level(&mut self) {
        self.seen_at.push(self.seen);
        if let Some(theory) = &mut self.theory {
            theory.push_level();
        }
    }

    fn pop_levels(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        let left = self.seen_at.len() - count;
        self.seen = self.seen_at[left];
        self.seen_at.truncate(left);
        if let Some(theory) = &mut self.theory {
            theory.pop_levels(count);
        }
    }

    fn n_levels(&self) -> usize {
        self.seen_at.len()
    }

    fn explain_propagation(&mut self, lit: BatLit) -> &[BatLit] {
        self.explanation.clear();
        if let Some(theory) = &mut self.theory {
            self.explanation.extend(theory.explain(from_bat(lit)).iter().map(|&lit| to_bat(lit)));
        }
        &self.explanation
    }
}

impl Solver for Batsat {
    fn new_var(&mut self) -> Var {
        Var(self.solver.new_var_default().idx())
    }

    fn clause(&mut self, lits: &[Lit]) {
        self.clauses += 1;
        self.buffer.clear();
        self.buffer.extend(lits.iter().map(|&lit| to_bat(lit)));
        let mut buffer = std::mem::take(&mut self.buffer);
        self.solver.add_clause_reuse(&mut buffer);
        self.buffer = buffer;
    }

    fn set_graph(&mut self, graph: &Graph, keeping: Keeping) {
        self.graph = (graph.nodes() as u64, graph.atoms() as u64);
        let theory = Theory::new(graph, 2 * self.solver.num_vars() as usize, keeping);
        if theory.is_contradictory() {
            self.solver.add_clause_reuse(&mut Vec::new());
        }
        self.theory.theory = Some(theory);
    }

    fn solve(&mut self, assumptions: &[Lit], limits: &Limits) -> Outcome {
        self.limits.set(*limits);
        self.learned.set(0);
        self.stopped.set(limits.hit());
        if let Some(stop) = self.stopped.get() {
            return Outcome::Unknown(stop);
        }
        let assumptions: Vec<BatLit> = assumptions.iter().map(|&lit| to_bat(lit)).collect();
        let result = self.solver.solve_limited_th(&mut self.theory, &assumptions);
        if result == lbool::TRUE {
            self.model.clear();
            self.model.extend_from_slice(self.solver.get_model());
            Outcome::Satisfiable
        } else if result == lbool::FALSE {
            Outcome::Unsatisfiable
        } else {
            Outcome::Unknown(self.stopped.get().unwrap_or(Stop::Time))
        }
    }

    fn keep_learned(&mut self, longest: usize) {
        *self.kept.borrow_mut() = Kept { longest, clauses: Vec::new() };
    }

    fn take_learned(&mut self) -> Vec<Box<[Lit]>> {
        std::mem::take(&mut self.kept.borrow_mut().clauses)
    }

    fn value(&self, lit: Lit) -> bool {
        let value = self.model.get(lit.var().0 as usize).copied().unwrap_or(lbool::FALSE);
        (value == lbool::TRUE) == lit.is_positive()
    }

    fn failed(&self) -> Vec<Lit> {
        self.solver.unsat_core().iter().map(|&lit| !from_bat(lit)).collect()
    }

    fn statistics(&self) -> Statistics {
        let theory = self.theory.theory.as_ref();
        Statistics {
            variables: u64::from(self.solver.num_vars()),
            clauses: self.clauses,
            nodes: self.graph.0,
            atoms: self.graph.1,
            conflicts: self.solver.num_conflicts(),
            propagations: self.solver.num_propagations(),
            forced: theory.map_or(0, |theory| theory.propagations),
            cycles: theory.map_or(0, |theory| theory.conflicts),
        }
    }
}
