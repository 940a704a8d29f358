//! Propositional gates: the building blocks of a formula before it becomes clauses.
//!
//! Equal gates are shared, constants fold, and a gate's clauses are added to the solver when it is created (Tseitin).

use crashproof_ordersat::{Lit, Solver};
use rustc_hash::FxHashMap;

/// A value, with the literal that it is this one.
pub type Choice = (u64, Lit);

/// Makes gates in a solver.
pub struct Gates {
    /// Takes the clauses.
    pub solver: Box<dyn Solver>,
    yes: Lit,
    ands: FxHashMap<(Lit, Lit), Lit>,
    xors: FxHashMap<(Lit, Lit), Lit>,
    muxes: FxHashMap<(Lit, Lit, Lit), Lit>,
    anys: FxHashMap<Vec<Lit>, Lit>,
    /// Words with few possible values, by their bits.
    pub(crate) words: FxHashMap<Vec<Lit>, Vec<Choice>>,
}

impl Gates {
    /// Gates in a solver without variables.
    pub fn new(mut solver: Box<dyn Solver>) -> Gates {
        let yes = solver.new_var().positive();
        solver.clause(&[yes]);
        Gates {
            solver,
            yes,
            ands: FxHashMap::default(),
            xors: FxHashMap::default(),
            muxes: FxHashMap::default(),
            anys: FxHashMap::default(),
            words: FxHashMap::default(),
        }
    }

    /// The literal that is true.
    pub fn yes(&self) -> Lit {
        self.yes
    }

    /// The literal that is false.
    pub fn no(&self) -> Lit {
        !self.yes
    }

    /// A constant.
    pub fn constant(&self, value: bool) -> Lit {
        if value { self.yes } else { !self.yes }
    }

    /// A fresh variable.
    pub fn fresh(&mut self) -> Lit {
        self.solver.new_var().positive()
    }

    /// Adds a clause, simplifying constants.
    pub fn clause(&mut self, lits: &[Lit]) {
        let (yes, no) = (self.yes(), self.no());
        if lits.contains(&yes) {
            return;
        }
        if lits.contains(&no) {
            let kept: Vec<Lit> = lits.iter().copied().filter(|&lit| lit != no).collect();
            self.solver.clause(&kept);
        } else {
            self.solver.clause(lits);
        }
    }

    /// The conjunction implies `then`.
    pub fn implies(&mut self, all: &[Lit], then: Lit) {
        let mut clause: Vec<Lit> = all.iter().map(|&lit| !lit).collect();
        clause.push(then);
        self.clause(&clause);
    }

    /// Both.
    pub fn and(&mut self, a: Lit, b: Lit) -> Lit {
        let (yes, no) = (self.yes(), self.no());
        if a == no || b == no || a == !b {
            return no;
        }
        if a == yes || a == b {
            return b;
        }
        if b == yes {
            return a;
        }
        let key = (a.min(b), a.max(b));
        if let Some(&gate) = self.ands.get(&key) {
            return gate;
        }
        let gate = self.fresh();
        self.solver.clause(&[!gate, a]);
        self.solver.clause(&[!gate, b]);
        self.solver.clause(&[gate, !a, !b]);
        self.ands.insert(key, gate);
        gate
    }

    /// Either.
    pub fn or(&mut self, a: Lit, b: Lit) -> Lit {
        !self.and(!a, !b)
    }

    /// All of them.
    pub fn all(&mut self, lits: &[Lit]) -> Lit {
        !self.any(&lits.iter().map(|&lit| !lit).collect::<Vec<_>>())
    }

    /// Any of them: a single gate for any number of inputs.
    pub fn any(&mut self, lits: &[Lit]) -> Lit {
        let (yes, no) = (self.yes(), self.no());
        let mut kept: Vec<Lit> = lits.iter().copied().filter(|&lit| lit != no).collect();
        kept.sort_unstable();
        kept.dedup();
        if kept.contains(&yes) || kept.windows(2).any(|pair| pair[0] == !pair[1]) {
            return yes;
        }
        match kept.as_slice() {
            [] => return no,
            [one] => return *one,
            [a, b] => return self.or(*a, *b),
            _ => {}
        }
        if let Some(&gate) = self.anys.get(&kept) {
            return gate;
        }
        let gate = self.fresh();
        for &lit in &kept {
            self.solver.clause(&[gate, !lit]);
        }
        self.anys.insert(kept.clone(), gate);
        kept.push(!gate);
        self.solver.clause(&kept);
        gate
    }

    /// Exactly one of the two.
    pub fn xor(&mut self, a: Lit, b: Lit) -> Lit {
        let (yes, no) = (self.yes(), self.no());
        match (a, b) {
            _ if a == no => return b,
            _ if b == no => return a,
            _ if a == yes => return !b,
            _ if b == yes => return !a,
            _ if a == b => return no,
            _ if a == !b => return yes,
            _ => {}
        }
        // Signs are moved outside, so that one gate serves four cases.
        let flip = a.is_positive() != b.is_positive();
        let (a, b) = (a.var().positive(), b.var().positive());
        let key = (a.min(b), a.max(b));
        let gate = match self.xors.get(&key) {
            Some(&gate) => gate,
            None => {
                let gate = self.fresh();
                self.solver.clause(&[!gate, a, b]);
                self.solver.clause(&[!gate, !a, !b]);
                self.solver.clause(&[gate, !a, b]);
                self.solver.clause(&[gate, a, !b]);
                self.xors.insert(key, gate);
                gate
            }
        };
        if flip { !gate } else { gate }
    }

    /// `a` if `condition`, else `b`.
    pub fn mux(&mut self, condition: Lit, a: Lit, b: Lit) -> Lit {
        let (yes, no) = (self.yes(), self.no());
        match () {
            () if condition == yes || a == b => return a,
            () if condition == no => return b,
            () if a == yes || a == condition => return self.or(condition, b),
            () if a == no || a == !condition => return self.and(!condition, b),
            () if b == yes || b == !condition => return self.or(!condition, a),
            () if b == no || b == condition => return self.and(condition, a),
            () if a == !b => return self.xor(condition, b),
            () => {}
        }
        if !condition.is_positive() {
            return self.mux(!condition, b, a);
        }
        if let Some(&gate) = self.muxes.get(&(condition, a, b)) {
            return gate;
        }
        let gate = self.fresh();
        self.solver.clause(&[!condition, !a, gate]);
        self.solver.clause(&[!condition, a, !gate]);
        self.solver.clause(&[condition, !b, gate]);
        self.solver.clause(&[condition, b, !gate]);
        self.solver.clause(&[!a, !b, gate]);
        self.solver.clause(&[a, b, !gate]);
        self.muxes.insert((condition, a, b), gate);
        gate
    }
}
