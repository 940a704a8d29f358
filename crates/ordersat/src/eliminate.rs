//! Eliminates variables: bounded variable elimination, after Eén and Biere, "Effective preprocessing in SAT through
//! variable and clause elimination" (2005).
//!
//! A variable without meaning to the theory can be replaced by the resolvents of its clauses, and is, if that does not
//! enlarge the formula. Most are names of gates that are used once. The remaining formula propagates faster.
//!
//! The clauses of an eliminated variable are kept: they determine its value in a model of the rest, and restore it if
//! it is used later ([`Eliminated::restore`]).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::literal::{Lit, Var};

/// One of these is true.
pub type Clause = Box<[Lit]>;

/// A variable that would have to be compared in more pairs of clauses than this stays.
const MOST_PAIRS: usize = 400;

/// A variable whose replacement would have a longer clause than this stays.
const LONGEST: usize = 16;

/// What was left out.
#[derive(Debug, Default)]
pub struct Eliminated {
    /// Variables in the order in which they were left out, with their clauses; empty if they are back.
    gone: Vec<(Var, Vec<Clause>)>,
    /// Where a variable is in `gone`, while it is gone.
    at: Vec<Option<u32>>,
}

impl Eliminated {
    /// Is the variable left out?
    pub fn is_gone(&self, var: Var) -> bool {
        self.at.get(var.0 as usize).is_some_and(Option::is_some)
    }

    /// Restores a variable, and all variables in its clauses: returns the clauses that must hold in addition.
    pub fn restore(&mut self, var: Var) -> Vec<Clause> {
        let mut back = Vec::new();
        let mut wanted = vec![var];
        while let Some(var) = wanted.pop() {
            let Some(at) = self.at.get_mut(var.0 as usize).and_then(Option::take) else { continue };
            let clauses = std::mem::take(&mut self.gone[at as usize].1);
            wanted.extend(clauses.iter().flat_map(|clause| clause.iter().map(|lit| lit.var())));
            back.extend(clauses);
        }
        back
    }

    /// Extends a model of the remaining variables to the eliminated ones.
    pub fn complete(&self, model: &mut [bool]) {
        // The last eliminated variable depends on the fewest others.
        for (var, clauses) in self.gone.iter().rev().filter(|(var, _)| self.is_gone(*var)) {
            let holds = |lit: &Lit| model[lit.var().0 as usize] == lit.is_positive();
            let needed = clauses.iter().find_map(|clause| {
                let own = clause.iter().find(|lit| lit.var() == *var)?;
                (!clause.iter().any(|lit| lit.var() != *var && holds(lit))).then(|| own.is_positive())
            });
            model[var.0 as usize] = needed.unwrap_or(false);
        }
    }
}

/// Eliminates what can be eliminated, except what is `kept`, which has an entry per variable.
pub fn eliminate(clauses: Vec<Clause>, kept: &[bool]) -> (Vec<Clause>, Eliminated) {
    let mut work = Work::new(clauses, kept);
    work.run();
    let Work { clauses, eliminated, .. } = work;
    (clauses.into_iter().flatten().collect(), eliminated)
}

struct Work<'a> {
    kept: &'a [bool],
    /// None: gone.
    clauses: Vec<Option<Clause>>,
    /// Clauses of each literal; some of them may be gone.
    with: Vec<Vec<u32>>,
    /// How many of them are not.
    count: Vec<u32>,
    /// Variables to try, those of few clauses first; with the number of clauses when they were put here.
    queue: BinaryHeap<Reverse<(u32, u32)>>,
    /// Literals of the clause at hand.
    marked: Vec<bool>,
    eliminated: Eliminated,
}

impl Work<'_> {
    fn new(clauses: Vec<Clause>, kept: &[bool]) -> Work<'_> {
        let mut work = Work {
            kept,
            clauses: Vec::with_capacity(clauses.len()),
            with: vec![Vec::new(); 2 * kept.len()],
            count: vec![0; 2 * kept.len()],
            queue: BinaryHeap::new(),
            marked: vec![false; 2 * kept.len()],
            eliminated: Eliminated { gone: Vec::new(), at: vec![None; kept.len()] },
        };
        clauses.into_iter().for_each(|clause| work.add(clause));
        (0..kept.len() as u32).for_each(|var| work.enqueue(Var(var)));
        work
    }

    fn enqueue(&mut self, var: Var) {
        let lit = var.positive();
        let (yes, no) = (self.count[lit.index()], self.count[(!lit).index()]);
        // A variable that does not occur is not worth a note.
        if !self.kept[var.0 as usize] && yes + no > 0 && yes as usize * no as usize <= MOST_PAIRS {
            self.queue.push(Reverse((yes + no, var.0)));
        }
    }

    fn add(&mut self, clause: Clause) {
        let at = self.clauses.len() as u32;
        for lit in &clause {
            self.with[lit.index()].push(at);
            self.count[lit.index()] += 1;
        }
        self.clauses.push(Some(clause));
    }

    fn run(&mut self) {
        while let Some(Reverse((size, var))) = self.queue.pop() {
            let var = Var(var);
            let lit = var.positive();
            let now = self.count[lit.index()] + self.count[(!lit).index()];
            // It was put here again since.
            if now != size || self.eliminated.is_gone(var) {
                continue;
            }
            if let Some(instead) = self.instead(lit) {
                self.replace(var, instead);
            }
        }
    }

    fn live(&mut self, lit: Lit) -> Vec<u32> {
        let with = &mut self.with[lit.index()];
        with.retain(|&at| self.clauses[at as usize].is_some());
        with.clone()
    }

    /// The pairwise resolvents of a variable's clauses, if there are no more than the clauses.
    fn instead(&mut self, lit: Lit) -> Option<Vec<Clause>> {
        let (yes, no) = (self.live(lit), self.live(!lit));
        let most = yes.len() + no.len();
        let mut instead: Vec<Clause> = Vec::new();
        for &one in &yes {
            let first = self.clauses[one as usize].clone().expect("it is live");
            first.iter().for_each(|lit| self.marked[lit.index()] = true);
            let mut fits = true;
            for &other in &no {
                let second = self.clauses[other as usize].as_ref().expect("it is live");
                let others = second.iter().filter(|&&other| other != !lit);
                if others.clone().any(|&other| self.marked[(!other).index()]) {
                    continue;
                }
                let rest = others.copied().filter(|other| !self.marked[other.index()]);
                let clause: Clause = first.iter().copied().filter(|&own| own != lit).chain(rest).collect();
                fits = clause.len() <= LONGEST && instead.len() < most;
                if !fits {
                    break;
                }
                instead.push(clause);
            }
            first.iter().for_each(|lit| self.marked[lit.index()] = false);
            if !fits {
                return None;
            }
        }
        Some(instead)
    }

    fn replace(&mut self, var: Var, instead: Vec<Clause>) {
        let lit = var.positive();
        let mut old = self.live(lit);
        old.extend(self.live(!lit));
        let mut touched = Vec::new();
        let mut clauses = Vec::with_capacity(old.len());
        for at in old {
            let clause = self.clauses[at as usize].take().expect("it is live");
            for lit in &clause {
                self.count[lit.index()] -= 1;
                touched.push(lit.var());
            }
            clauses.push(clause);
        }
        self.eliminated.at[var.0 as usize] = Some(self.eliminated.gone.len() as u32);
        self.eliminated.gone.push((var, clauses));
        instead.into_iter().for_each(|clause| self.add(clause));
        touched.sort_unstable();
        touched.dedup();
        touched.into_iter().filter(|&other| other != var).for_each(|other| self.enqueue(other));
    }
}
