//! The interface of a solver modulo orders.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::literal::{Lit, Var};
use crate::theory::{Graph, Keeping};

/// The limits of a question.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// When to give up.
    pub deadline: Option<Instant>,
    /// Bytes of resident memory of the process at which to give up.
    pub memory: Option<u64>,
    /// Conflicts after which a question is given up.
    pub conflicts: Option<u64>,
    /// Set to ask the solver to stop.
    pub interrupt: Option<&'static AtomicBool>,
}

impl Limits {
    /// Gives up after this time from now.
    pub fn with_timeout(mut self, timeout: Duration) -> Limits {
        self.deadline = Instant::now().checked_add(timeout);
        self
    }

    /// The limit that is currently exceeded, if any.
    pub fn hit(&self) -> Option<Stop> {
        if self.interrupt.is_some_and(|asked| asked.load(Ordering::Relaxed)) {
            return Some(Stop::Interrupted);
        }
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Some(Stop::Time);
        }
        if self.memory.is_some_and(|limit| resident().is_some_and(|bytes| bytes > limit)) {
            return Some(Stop::Memory);
        }
        None
    }
}

impl Limits {
    /// The limit that is hit now if what the process has started counts, too: compilers, readers of bitcode.
    pub fn hit_by_all(&self) -> Option<Stop> {
        self.hit().or_else(|| {
            let limit = self.memory?;
            let tasks = std::fs::read_dir("/proc/self/task").ok()?.flatten();
            let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
            let own = resident()?;
            let all = lists.fold(own, |sum, list| {
                let each = list.split_whitespace().filter_map(resident_of);
                sum + each.sum::<u64>()
            });
            (all > limit).then_some(Stop::Memory)
        })
    }
}

/// Bytes of memory that the process holds; `None` if the system does not provide this.
fn resident() -> Option<u64> {
    resident_of("self")
}

fn resident_of(process: &str) -> Option<u64> {
    let statm = std::fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

/// Why a solver stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The deadline passed.
    Time,
    /// The process holds too much memory.
    Memory,
    /// The question led to too many conflicts.
    Conflicts,
    /// It was asked to stop.
    Interrupted,
}

/// The answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is a model; ask [`Solver::value`].
    Satisfiable,
    /// There is none; ask [`Solver::failed`] which assumptions are to blame.
    Unsatisfiable,
    /// A limit was hit.
    Unknown(Stop),
}

/// Is there a model in which this is true?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The question.
    pub lit: Lit,
    /// If there is a model, does that settle all questions?
    pub ends: bool,
    /// Questions of one group are alike: who has answered one is quicker with the next.
    pub group: usize,
}

/// The answers to several questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Survey {
    /// This one, by number, ended it; ask [`Solver::value`] for its model.
    Found(usize),
    /// None that would have ended it has a model; these, by number and in no order, have one.
    Through(Vec<usize>),
    /// A limit was hit.
    Unknown(Stop),
}

/// Statistics over all questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Propositional variables.
    pub variables: u64,
    /// Clauses as given.
    pub clauses: u64,
    /// Nodes of the order.
    pub nodes: u64,
    /// Atoms of the order.
    pub atoms: u64,
    /// Conflicts met.
    pub conflicts: u64,
    /// Literals propagated.
    pub propagations: u64,
    /// Literals that the theory found.
    pub forced: u64,
    /// Conflicts that the theory found.
    pub cycles: u64,
}

/// A propositional solver modulo orders.
///
/// Variables and clauses come first, then [`Solver::set_graph`], once; after that clauses over known variables may
/// be added between questions.
pub trait Solver {
    /// A new variable.
    fn new_var(&mut self) -> Var;

    /// Adds a clause: one of these must be true.
    fn clause(&mut self, lits: &[Lit]);

    /// Says that later questions or clauses will be about this. A hint, before [`Solver::set_graph`].
    fn keep(&mut self, _lit: Lit) {}

    /// Defines the meaning of literals in the theory.
    fn set_graph(&mut self, graph: &Graph, keeping: Keeping);

    /// Is there a model in which these are true?
    fn solve(&mut self, assumptions: &[Lit], limits: &Limits) -> Outcome;

    /// Asks many questions, one after another. What has no model is a fact for those that follow, so questions that are
    /// easy, or that others depend on, come first. `limits.conflicts` is not heeded.
    fn survey(&mut self, questions: &[Question], limits: &Limits) -> Survey {
        let limits = Limits { conflicts: None, ..*limits };
        let mut possible = Vec::new();
        for (index, &Question { lit, ends, .. }) in questions.iter().enumerate() {
            match self.solve(&[lit], &limits) {
                Outcome::Unsatisfiable => self.clause(&[!lit]),
                Outcome::Satisfiable if ends => return Survey::Found(index),
                Outcome::Satisfiable => possible.push(index),
                Outcome::Unknown(stop) => return Survey::Unknown(stop),
            }
        }
        Survey::Through(possible)
    }

    /// From now on keeps a copy of learned clauses with at most this many literals; 0 for none. A solver that does not
    /// expose them may ignore this.
    fn keep_learned(&mut self, _longest: usize) {}

    /// What was kept since this was last asked.
    fn take_learned(&mut self) -> Vec<Box<[Lit]>> {
        Vec::new()
    }

    /// The value of a literal in the last model.
    fn value(&self, lit: Lit) -> bool;

    /// Assumptions that cannot all be true, after [`Outcome::Unsatisfiable`].
    fn failed(&self) -> Vec<Lit>;

    /// Why nothing more is taken in, if nothing is: what is being built need not be finished.
    fn stopped(&self) -> Option<Stop> {
        None
    }

    /// The statistics so far.
    fn statistics(&self) -> Statistics;
}
