//! Random formulas over random edges: every solver and every way of keeping the order agrees with trying all
//! assignments.

use crashproof_ordersat::portfolio::Portfolio;
use crashproof_ordersat::preprocess::Preprocessed;
use crashproof_ordersat::theory::{Graph, Keeping};
use crashproof_ordersat::{Limits, Lit, Outcome, Question, Solver, SolverKind, Survey, Var};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

#[derive(Clone, Debug)]
struct Formula {
    nodes: usize,
    sources: usize,
    edges: Vec<(Lit, u32, u32)>,
    reads: Vec<(Lit, u32, u32)>,
    overwrites: Vec<(Lit, u32, u32)>,
    fixed: Vec<(u32, u32)>,
    apart: Vec<(u32, u32)>,
    clauses: Vec<Vec<Lit>>,
    assumptions: Vec<Lit>,
}

const VARIABLES: u32 = 9;

/// Those of them that may mean something to the theory. The others are there to be left out.
const ATOMS: u32 = 5;

fn lit_among(variables: u32) -> impl Strategy<Value = Lit> {
    (0..variables, any::<bool>()).prop_map(|(var, sign)| Lit::new(Var(var), sign))
}

fn lit() -> impl Strategy<Value = Lit> {
    lit_among(VARIABLES)
}

fn atom() -> impl Strategy<Value = Lit> {
    lit_among(ATOMS)
}

fn formula() -> impl Strategy<Value = Formula> {
    let nodes = 6u32;
    let sources = 2u32;
    (
        proptest::collection::vec((atom(), 0..nodes, 0..nodes), 0..12),
        proptest::collection::vec((atom(), 0..sources, 0..nodes), 0..6),
        proptest::collection::vec((atom(), 0..sources, 0..nodes), 0..6),
        proptest::collection::vec((0..nodes, 0..nodes), 0..4),
        proptest::collection::vec((0..nodes, 0..nodes), 0..3),
        proptest::collection::vec(proptest::collection::vec(lit(), 1..4), 0..22),
        proptest::collection::vec(lit(), 0..3),
    )
        .prop_map(move |(edges, reads, overwrites, mut fixed, apart, clauses, assumptions)| {
            fixed.retain(|(a, b)| a < b);
            let (nodes, sources) = (nodes as usize, sources as usize);
            Formula { nodes, sources, edges, reads, overwrites, fixed, apart, clauses, assumptions }
        })
}

impl Formula {
    /// By trying everything.
    fn satisfiable(&self) -> bool {
        (0..1u32 << VARIABLES)
            .any(|assignment| self.holds(|lit| assignment >> lit.var().0 & 1 == u32::from(lit.is_positive())))
    }

    fn holds(&self, value: impl Fn(Lit) -> bool) -> bool {
        if !self.assumptions.iter().all(|&lit| value(lit)) {
            return false;
        }
        if !self.clauses.iter().all(|clause| clause.iter().any(|&lit| value(lit))) {
            return false;
        }
        let mut edges = self.fixed.clone();
        edges.extend(self.edges.iter().filter(|(lit, ..)| value(*lit)).map(|&(_, a, b)| (a, b)));
        for &(reads, source, reader) in &self.reads {
            for &(overwrites, overwritten, writer) in &self.overwrites {
                if source == overwritten && reader != writer && value(reads) && value(overwrites) {
                    if self.apart.contains(&(reader, writer)) {
                        return false;
                    }
                    edges.push((reader, writer));
                }
            }
        }
        let mut left: Vec<u32> = (0..self.nodes as u32).collect();
        while !left.is_empty() {
            let before = left.len();
            let all = left.clone();
            left.retain(|node| edges.iter().any(|&(a, b)| b == *node && all.contains(&a)));
            if left.len() == before {
                return false;
            }
        }
        true
    }
}

/// Gives the formula to a solver, without the assumptions.
fn tell(formula: &Formula, solver: &mut dyn Solver, keeping: Keeping) {
    for _ in 0..VARIABLES {
        solver.new_var();
    }
    let mut graph = Graph::default();
    for _ in 0..formula.nodes {
        graph.node();
    }
    for _ in 0..formula.sources {
        graph.source();
    }
    formula.fixed.iter().for_each(|&(a, b)| graph.always(a, b));
    formula.edges.iter().for_each(|&(lit, a, b)| graph.edge(lit, a, b));
    formula.reads.iter().for_each(|&(lit, source, node)| graph.read(lit, source, node));
    formula.overwrites.iter().for_each(|&(lit, source, node)| graph.overwrite(lit, source, node));
    formula.apart.iter().for_each(|&(a, b)| graph.apart(a, b));
    formula.clauses.iter().for_each(|clause| solver.clause(clause));
    solver.set_graph(&graph, keeping);
}

fn solve(formula: &Formula, kind: SolverKind, keeping: Keeping, preprocess: bool) -> bool {
    let mut solver = kind.make().expect("built in");
    if preprocess {
        solver = Box::new(Preprocessed::new(solver));
    }
    tell(formula, &mut *solver, keeping);
    let limits = Limits::default();
    match solver.solve(&formula.assumptions, &limits) {
        Outcome::Satisfiable => {
            assert!(formula.holds(|lit| solver.value(lit)), "{kind:?} gave a model that is none");
            true
        }
        Outcome::Unsatisfiable => {
            let failed = solver.failed();
            assert!(failed.iter().all(|lit| formula.assumptions.contains(lit)), "{failed:?}");
            let less = Formula { assumptions: failed, ..formula.clone() };
            assert!(!less.satisfiable(), "the assumptions to blame are not to blame");
            false
        }
        Outcome::Unknown(stop) => panic!("no limit was set, and {stop:?} was hit"),
    }
}

/// Asks for every literal whether it can be true, and then whether any can that, by the first answers, can; and whether
/// one that cannot can.
fn survey(
    formula: &Formula,
    lits: &[Lit],
    expected: &[usize],
    kind: SolverKind,
    helpers: usize,
    preprocess: bool,
) {
    let mut portfolio: Box<dyn Solver> = Box::new(Portfolio::new(kind, helpers).expect("built in"));
    if preprocess {
        portfolio = Box::new(Preprocessed::new(portfolio));
    }
    tell(formula, &mut *portfolio, Keeping::Closure);
    let questions: Vec<Question> =
        lits.iter().map(|&lit| Question { lit, ends: false, group: lit.index() / 4 }).collect();
    let Survey::Through(mut possible) = portfolio.survey(&questions, &Limits::default()) else {
        panic!("nothing ends this")
    };
    possible.sort_unstable();
    assert_eq!(possible, expected, "{helpers} helpers");
    let questions: Vec<Question> =
        lits.iter().map(|&lit| Question { lit, ends: true, group: lit.index() / 4 }).collect();
    match portfolio.survey(&questions, &Limits::default()) {
        Survey::Found(at) => {
            let model = Formula { assumptions: vec![lits[at]], ..formula.clone() };
            assert!(model.holds(|lit| portfolio.value(lit)), "{helpers} helpers gave a model that is none");
        }
        other => assert!(expected.is_empty() && other == Survey::Through(Vec::new()), "{other:?}"),
    }
}

fn cases() -> u32 {
    std::env::var("CRASHPROOF_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2000)
}

fn solvers_agree(formula: &Formula) -> Result<(), TestCaseError> {
    let expected = formula.satisfiable();
    let lits: Vec<Lit> =
        (0..VARIABLES).flat_map(|var| [true, false].map(|sign| Lit::new(Var(var), sign))).collect();
    let can = |lit: Lit| Formula { assumptions: vec![lit], ..formula.clone() }.satisfiable();
    let possible: Vec<usize> = (0..lits.len()).filter(|&at| can(lits[at])).collect();
    for kind in [SolverKind::Batsat, SolverKind::Cadical] {
        if kind.make().is_none() {
            continue;
        }
        for preprocess in [false, true] {
            for keeping in [Keeping::Closure, Keeping::Levels] {
                let found = solve(formula, kind, keeping, preprocess);
                prop_assert_eq!(found, expected, "{:?} {:?}, preprocess: {}", kind, keeping, preprocess);
            }
            for helpers in 0..3 {
                survey(formula, &lits, &possible, kind, helpers, preprocess);
            }
        }
    }
    Ok(())
}

#[test]
fn solvers_agree_with_trying_everything() {
    let cases = cases();
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    if let Err(failure) = TestRunner::new(config).run(&formula(), |formula| solvers_agree(&formula)) {
        panic!("{failure}");
    }
    println!("tried | random formulas over random orders | {cases} | every solver agrees with enumeration |");
}
