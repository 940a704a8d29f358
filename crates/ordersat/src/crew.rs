//! Several solvers at one formula.
//!
//! A single question goes to the first of them; many go round ([`Solver::survey`]). Whoever is free takes the next
//! question, in the order given but rather of a group that nobody else has begun, and first learns what the others found out meanwhile: that a question has no model,
//! which is a fact from then on, and the shortest of the clauses they learnt. Such clauses follow from the formula alone,
//! whatever was assumed. Who finds all questions taken joins in at one that is not answered yet, and the first to know counts:
//! they search differently, having come different ways. So the answers do not depend on who was faster; which model is found may.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use crate::literal::{Lit, Var};
use crate::solver::{Limits, Outcome, Question, Solver, SolverKind, Statistics, Stop, Survey};
use crate::theory::{Graph, Keeping};

/// Learnt clauses of more literals than this are kept to oneself: they say little, and everybody has to look at them.
const LONGEST: usize = 6;

/// After so many conflicts somebody who is still busy with a question listens to the others.
const SLICE: u64 = 2000;

/// A solver that calls for help when there is much to ask.
pub struct Crew {
    kind: SolverKind,
    helpers: usize,
    first: Box<dyn Solver>,
    formula: Formula,
    /// A model that a helper found.
    model: Option<Vec<bool>>,
    /// What helpers did that are gone.
    helped: Statistics,
}

/// The formula, for those who come later.
#[derive(Default)]
struct Formula {
    variables: u32,
    clauses: Vec<Box<[Lit]>>,
    graph: Graph,
    keeping: Keeping,
}

impl Formula {
    fn tell(&self, solver: &mut dyn Solver) {
        for _ in 0..self.variables {
            solver.new_var();
        }
        for clause in &self.clauses {
            solver.clause(clause);
        }
        solver.set_graph(&self.graph, self.keeping);
    }
}

impl Crew {
    /// One solver, and so many more when needed. None if the solver is not built in.
    pub fn new(kind: SolverKind, helpers: usize) -> Option<Crew> {
        Some(Crew {
            kind,
            helpers,
            first: kind.make()?,
            formula: Formula::default(),
            model: None,
            helped: Statistics::default(),
        })
    }
}

impl Solver for Crew {
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
        let desk = Desk::new(questions, *limits);
        let (kind, formula, first) = (self.kind, &self.formula, &mut self.first);
        let figures: Vec<Statistics> = std::thread::scope(|scope| {
            let desk = &desk;
            let help = move |number| {
                let mut solver = kind.make().expect("the first was made");
                formula.tell(&mut *solver);
                desk.work(&mut *solver, number, formula.variables);
                solver.statistics()
            };
            let threads: Vec<_> = (1..=helpers).map(|number| scope.spawn(move || help(number))).collect();
            desk.work(&mut **first, 0, formula.variables);
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
        let state = desk.state.into_inner().unwrap_or_else(PoisonError::into_inner);
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

/// Where questions are taken and answers are brought.
struct Desk<'a> {
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
    /// Clauses that somebody learnt, and who.
    learnt: Vec<(usize, Box<[Lit]>)>,
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

impl<'a> Desk<'a> {
    fn new(questions: &'a [Question], limits: Limits) -> Desk<'a> {
        let (takers, answered) = (vec![0; questions.len()], vec![false; questions.len()]);
        let state = State { takers, answered, ..State::default() };
        Desk { questions, limits, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whoever panicked takes the whole survey along.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes questions until there are none, or the survey is over.
    fn work(&self, solver: &mut dyn Solver, number: usize, variables: u32) {
        solver.keep_learnt(LONGEST);
        let mut heard = 0;
        while let Some(question) = self.take(number) {
            if !self.ask(solver, number, question, &mut heard, variables) {
                break;
            }
        }
        solver.keep_learnt(0);
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
        heard: &mut usize,
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
                let news = state.learnt[*heard..].iter().filter(|(author, _)| *author != number);
                let news = news.map(|(_, clause)| clause.clone()).collect();
                *heard = state.learnt.len();
                news
            };
            news.iter().for_each(|clause| solver.clause(clause));
            let outcome = solver.solve(&[lit], &slice);
            let learnt = solver.take_learnt();
            let mut state = self.state();
            state.learnt.extend(learnt.into_iter().map(|clause| (number, clause)));
            if state.answered[question] {
                return true;
            }
            state.answered[question] = !matches!(outcome, Outcome::Unknown(_));
            match outcome {
                Outcome::Unsatisfiable => {
                    state.refuted.push(lit);
                    state.learnt.push((number, [!lit].into()));
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
