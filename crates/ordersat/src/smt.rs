//! The same formula as SMT-LIB, for external solvers.
//!
//! Nodes of the order are integers, "before" is "less than" (difference logic), and every composition is written out.
//! The benchmark passes it to z3, to compare with a general solver on the same events, clauses and orders.

use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::literal::{Lit, Var};
use crate::solver::{Limits, Outcome, Solver, Statistics, Stop};
use crate::theory::{Graph, Keeping};

/// Writes a formula down instead of solving it. Copies are of one and the same script.
#[derive(Clone, Default)]
pub struct Script(Rc<RefCell<Formula>>);

#[derive(Default)]
struct Formula {
    variables: u32,
    clauses: Vec<Vec<Lit>>,
    graph: Graph,
}

impl Script {
    /// The script that asks whether all of these can be true.
    pub fn text(&self, assumptions: &[Lit]) -> String {
        let formula = self.0.borrow();
        let mut text = "(set-logic QF_IDL)\n".to_owned();
        for variable in 0..formula.variables {
            text.push_str(&format!("(declare-const v{variable} Bool)\n"));
        }
        for node in 0..formula.graph.nodes() {
            text.push_str(&format!("(declare-const n{node} Int)\n"));
        }
        formula.claims(assumptions, &mut text).expect("a string takes everything");
        text.push_str("(check-sat)\n");
        text
    }
}

impl Formula {
    fn claims(&self, assumptions: &[Lit], text: &mut String) -> std::fmt::Result {
        for &lit in assumptions {
            writeln!(text, "(assert {})", name(lit))?;
        }
        for clause in &self.clauses {
            let lits: Vec<String> = clause.iter().map(|&lit| name(lit)).collect();
            writeln!(text, "(assert (or false {}))", lits.join(" "))?;
        }
        for (a, b) in self.graph.fixed_edges() {
            writeln!(text, "(assert (< n{a} n{b}))")?;
        }
        for (lit, a, b) in self.graph.literal_edges() {
            writeln!(text, "(assert (=> {} (< n{a} n{b})))", name(*lit))?;
        }
        let mut overwriters: FxHashMap<u32, Vec<(Lit, u32)>> = FxHashMap::default();
        for &(lit, source, node) in self.graph.overwrites() {
            overwriters.entry(source).or_default().push((lit, node));
        }
        for &(reads, source, reader) in self.graph.reads() {
            for &(overwrites, writer) in overwriters.get(&source).into_iter().flatten() {
                if reader == writer {
                    continue;
                }
                let both = format!("(and {} {})", name(reads), name(overwrites));
                if self.graph.is_apart(reader, writer) {
                    writeln!(text, "(assert (not {both}))")?;
                } else {
                    writeln!(text, "(assert (=> {both} (< n{reader} n{writer})))")?;
                }
            }
        }
        Ok(())
    }
}

fn name(lit: Lit) -> String {
    let variable = lit.var().0;
    if lit.is_positive() { format!("v{variable}") } else { format!("(not v{variable})") }
}

impl Solver for Script {
    fn new_var(&mut self) -> Var {
        let mut formula = self.0.borrow_mut();
        formula.variables += 1;
        Var(formula.variables - 1)
    }

    fn clause(&mut self, lits: &[Lit]) {
        self.0.borrow_mut().clauses.push(lits.to_vec());
    }

    fn set_graph(&mut self, graph: &Graph, _: Keeping) {
        self.0.borrow_mut().graph = graph.clone();
    }

    /// Solves nothing: pass [`Script::text`] to another solver.
    fn solve(&mut self, _: &[Lit], _: &Limits) -> Outcome {
        Outcome::Unknown(Stop::Time)
    }

    fn value(&self, _: Lit) -> bool {
        false
    }

    fn failed(&self) -> Vec<Lit> {
        Vec::new()
    }

    fn statistics(&self) -> Statistics {
        let formula = self.0.borrow();
        Statistics {
            variables: formula.variables.into(),
            clauses: formula.clauses.len() as u64,
            nodes: formula.graph.nodes() as u64,
            atoms: formula.graph.atoms() as u64,
            ..Statistics::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_differences() {
        let mut script = Script::default();
        let (reads, overwrites) = (script.new_var().positive(), script.new_var().positive());
        script.clause(&[reads, !overwrites]);
        let mut graph = Graph::default();
        let (a, b, source) = (graph.node(), graph.node(), graph.source());
        graph.always(a, b);
        graph.edge(!reads, b, a);
        graph.read(reads, source, b);
        graph.overwrite(overwrites, source, a);
        script.set_graph(&graph, Keeping::default());
        assert_eq!(
            script.text(&[overwrites]),
            "(set-logic QF_IDL)\n(declare-const v0 Bool)\n(declare-const v1 Bool)\n(declare-const n0 Int)\n\
             (declare-const n1 Int)\n(assert v1)\n(assert (or false v0 (not v1)))\n(assert (< n0 n1))\n\
             (assert (=> (not v0) (< n1 n0)))\n(assert (=> (and v0 v1) (< n1 n0)))\n(check-sat)\n"
        );
    }
}
