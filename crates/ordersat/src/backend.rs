//! Selects the solver: the only place that knows the backends behind [`Solver`].

use crate::solver::Solver;

/// The available solvers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SolverKind {
    /// Pure Rust.
    #[default]
    Batsat,
    /// CaDiCaL, in C++; only if built in.
    Cadical,
}

impl SolverKind {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            SolverKind::Batsat => "batsat",
            SolverKind::Cadical => "cadical",
        }
    }

    /// A new solver. `None` if it is not built in.
    pub fn make(self) -> Option<Box<dyn Solver>> {
        match self {
            SolverKind::Batsat => Some(Box::new(crate::batsat::Batsat::default())),
            #[cfg(feature = "cadical")]
            SolverKind::Cadical => Some(Box::new(crate::cadical::Cadical::default())),
            #[cfg(not(feature = "cadical"))]
            SolverKind::Cadical => None,
        }
    }
}
