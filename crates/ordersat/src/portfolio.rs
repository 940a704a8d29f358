//! A portfolio: several solvers work on one formula in parallel and share what they learn.
//!
//! A single question goes to the first solver; [`Solver::survey`] distributes many. A free solver takes the next question,
//! preferably of a group that no other solver has begun, and first imports what the others learned meanwhile: refuted
//! questions, which are facts from then on, and their shortest learned clauses. Learned clauses follow from the formula
//! alone, whatever was assumed. When every question is taken, a free solver joins an open one; the first answer counts.
//! Answers therefore do not depend on timing; which model is found may.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use crate::backend::SolverKind;
use crate::literal::{Lit, Var};
use crate::solver::{Limits, Outcome, Question, Solver, Statistics, Stop, Survey};
use crate::theory::{Graph, Keeping};

/// Longer learned clauses are not shared: they say little, and every solver has to watch them.
const LONGEST: usize = 6;

/// Conflicts after which a solver that is still busy with a question imports what others learned.
const SLICE: u64 = 2000;

/// A solver that starts helpers when there are many questions.
pub struct Portfolio {
    kind: SolverKind,
    helpers: usize,
    first: Box<dyn Solver>,
    formula: Formula,
    /// A model that a helper found.
    model: Option<Vec<bool>>,
    /// Work done by helpers that have ended.
    helped: Statistics,
}

/// The formula, kept for helpers that start later.
#[derive(Default)]
struct Formula {
    variables: u32,
    clauses: Vec<Box<[Lit]>>,
    graph: Graph,
    keeping: Keeping,
}

impl Formula {
    fn load_into(&self, solver: &mut dyn Solver) {
        for _ in 0..self.variables {
            solver.new_var();
        }
        for clause in &self.clauses {
            solver.clause(clause);
        }
        solver.set_graph(&self.graph, self.keeping);
    }
}

impl Portfolio {
    /// One solver, and this many more when needed. `None` if the solver is not built in.
    pub fn new(kind: SolverKind, helpers: usize) -> Option<Portfolio> {
        Some(Portfolio {
            kind,
            helpers,
            first: kind.make()?,
            formula: Formula::default(),
            model: None,
            helped: Statistics::default(),
        })
    }
}

impl Solver for Portfolio {
    fn new_var(&mut self) -> Var {
        self.formula.variables += 1;
        self.first.new_var()
    }

    fn clause(&mut self, lits: &[Lit]) {
        self.formula.clauses.push(lits.into());
        self.first.clause(lits);
    }

    fn set_graph(&mut self, graph: &Graph, keeping: Keeping) {
        self.formula.graph = graph.clone();
        self.formula.keeping = keeping;
        self.first.set_graph(graph, keeping);
    }

    fn solve(&mut self, assumptions: &[Lit], limits: &Limits) -> Outcome {
        self.model = None;
        self.first.solve(assumptions, limits)
    }

    fn survey(&mut self, questions: &[Question], limits: &Limits) -> Survey {
        self.model = None;
        let helpers = self.helpers.min(questions.len().saturating_sub(1));
        if helpers == 0 {
            return self.first.survey(questions, limits);
        }
        let board = Board::new(questions, *limits);
        let (kind, formula, first) = (self.kind, &self.formula, &mut self.first);
        let figures: Vec<Statistics> = std::thread::scope(|scope| {
            let board = &board;
            let help = move |number| {
                let mut solver = kind.make().expect("the first was made");
                formula.load_into(&mut *solver);
                board.work(&mut *solver, number, formula.variables);
                solver.statistics()
            };
            // Helpers that the machine does not have room for are done without.
            let helper = |number| std::thread::Builder::new().spawn_scoped(scope, move || help(number)).ok();
            let threads: Vec<_> = (1..=helpers).filter_map(helper).collect();
            board.work(&mut **first, 0, formula.variables);
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        for done in figures {
            self.helped.conflicts += done.conflicts;
            self.helped.propagations += done.propagations;
            self.helped.forced += done.forced;
            self.helped.cycles += done.cycles;
        }
        let state = board.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        // What was found out holds for later questions, and for helpers who come then.
        for fact in state.refuted {
            self.clause(&[!fact]);
        }
        match (state.found, state.stopped) {
            (Some((question, model)), _) => {
                self.model = Some(model);
                Survey::Found(question)
            }
            (None, Some(stop)) => Survey::Unknown(stop),
            (None, None) => Survey::Through(state.possible),
        }
    }

    fn value(&self, lit: Lit) -> bool {
        match &self.model {
            Some(model) => model[lit.var().0 as usize] == lit.is_positive(),
            None => self.first.value(lit),
        }
    }

    fn failed(&self) -> Vec<Lit> {
        self.first.failed()
    }

    fn statistics(&self) -> Statistics {
        let (first, helped) = (self.first.statistics(), self.helped);
        Statistics {
            conflicts: first.conflicts + helped.conflicts,
            propagations: first.propagations + helped.propagations,
            forced: first.forced + helped.forced,
            cycles: first.cycles + helped.cycles,
            ..first
        }
    }
}

/// The questions of a survey, shared by all solvers.
struct Board<'a> {
    questions: &'a [Question],
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How many are at each question, or were.
    takers: Vec<u32>,
    /// Which questions are answered.
    answered: Vec<bool>,
    /// Who began each group.
    owners: FxHashMap<usize, usize>,
    /// Learned clauses, each with the solver that learned it.
    learned: Vec<(usize, Box<[Lit]>)>,
    /// Questions without a model.
    refuted: Vec<Lit>,
    /// Questions with a model that do not end the survey, in no order.
    possible: Vec<usize>,
    /// The one that ends it, and its model.
    found: Option<(usize, Vec<bool>)>,
    stopped: Option<Stop>,
}

impl State {
    fn is_over(&self) -> bool {
        self.found.is_some() || self.stopped.is_some()
    }
}

impl<'a> Board<'a> {
    fn new(questions: &'a [Question], limits: Limits) -> Board<'a> {
        let (takers, answered) = (vec![0; questions.len()], vec![false; questions.len()]);
        let state = State { takers, answered, ..State::default() };
        Board { questions, limits, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic ends the whole survey.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes questions until there are none, or the survey is over.
    fn work(&self, solver: &mut dyn Solver, number: usize, variables: u32) {
        solver.keep_learned(LONGEST);
        let mut imported = 0;
        while let Some(question) = self.take(number) {
            if !self.ask(solver, number, question, &mut imported, variables) {
                break;
            }
        }
        solver.keep_learned(0);
    }

    fn take(&self, number: usize) -> Option<usize> {
        let mut state = self.state();
        if state.is_over() {
            return None;
        }
        let own = |&at: &usize| *state.owners.get(&self.questions[at].group).unwrap_or(&number) == number;
        let open = (0..self.questions.len()).filter(|&at| !state.answered[at]);
        let mut left = open.clone().filter(|&at| state.takers[at] == 0);
        let question = left.clone().find(own).or_else(|| left.next());
        let question = question.or_else(|| open.min_by_key(|&at| state.takers[at]))?;
        state.takers[question] += 1;
        state.owners.entry(self.questions[question].group).or_insert(number);
        Some(question)
    }

    /// Answers a question. False if the survey is over.
    fn ask(
        &self,
        solver: &mut dyn Solver,
        number: usize,
        question: usize,
        imported: &mut usize,
        variables: u32,
    ) -> bool {
        let Question { lit, ends, .. } = self.questions[question];
        let slice = Limits { conflicts: Some(SLICE), ..self.limits };
        loop {
            let news: Vec<Box<[Lit]>> = {
                let state = self.state();
                if state.is_over() {
                    return false;
                }
                if state.answered[question] {
                    return true;
                }
                let news = state.learned[*imported..].iter().filter(|(author, _)| *author != number);
                let news = news.map(|(_, clause)| clause.clone()).collect();
                *imported = state.learned.len();
                news
            };
            news.iter().for_each(|clause| solver.clause(clause));
            let outcome = solver.solve(&[lit], &slice);
            let learned = solver.take_learned();
            let mut state = self.state();
            state.learned.extend(learned.into_iter().map(|clause| (number, clause)));
            if state.answered[question] {
                return true;
            }
            state.answered[question] = !matches!(outcome, Outcome::Unknown(_));
            match outcome {
                Outcome::Unsatisfiable => {
                    state.refuted.push(lit);
                    state.learned.push((number, [!lit].into()));
                    drop(state);
                    solver.clause(&[!lit]);
                    return true;
                }
                Outcome::Satisfiable if ends => {
                    let model = (0..variables).map(|var| solver.value(Var(var).positive())).collect();
                    state.found.get_or_insert((question, model));
                    return false;
                }
                Outcome::Satisfiable => {
                    state.possible.push(question);
                    return true;
                }
                Outcome::Unknown(Stop::Conflicts) => {}
                Outcome::Unknown(stop) => {
                    state.stopped.get_or_insert(stop);
                    return false;
                }
            }
        }
    }
}
