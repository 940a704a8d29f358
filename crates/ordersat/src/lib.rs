//! SAT modulo orders: a propositional formula, some of whose variables order events, and a solver that detects when the
//! events cannot be linearized.
//!
//! The theory is the ordering consistency theory of He, Sun and Fan (PLDI 2021), as both papers behind
//! `crashproof prove` use it. Its atoms are edges of a graph (`literal true: this before that`) and, because
//! memory models compose reads-from with coherence, *compositions*: if a read takes its value from a write,
//! and that write is overwritten by another, the read comes before the other. Compositions are found here as
//! they arise; as clauses they would be cubic in the size of the program.
//!
//! | | |
//! |---|---|
//!  [`closure`] | the order as a transitive closure (Italiano 1986) with undo: finds forced orders |
//!  [`levels`] | the order as levels (Bender, Fineman, Gilbert, Tarjan 2015): only finds cycles, for large graphs |
//! | [`theory`] | edges with reasons, compositions, propagation, explanations |
//! | [`solver`] | the trait of a solver; [`backend`] chooses between [`batsat`] and `cadical` |
//! | [`eliminate`], [`preprocess`] | variable elimination, and a solver of the smaller formula |
//! | [`portfolio`] | several solvers in parallel, sharing learned clauses |
//! | [`limited`] | limits while a formula is being built |
//! | [`smt`] | the formula written down for other solvers, to compare with |

pub mod backend;
pub mod batsat;
#[cfg(feature = "cadical")]
pub mod cadical;
pub mod closure;
pub mod eliminate;
pub mod levels;
pub mod limited;
pub mod literal;
pub mod portfolio;
pub mod preprocess;
pub mod smt;
pub mod solver;
pub mod theory;

pub use backend::SolverKind;
pub use literal::{Lit, Var};
pub use solver::{Limits, Outcome, Question, Solver, Statistics, Survey};
pub use theory::{Graph, NodeId, SourceId};
