//! Bounds of the exploration, and which functions exceed them.

use std::collections::{BTreeMap, BTreeSet};

use crashproof_frontend::program::ir::FunctionId;

/// Bounds of the exploration.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum iterations of a loop.
    pub loops: u32,
    /// Maximum depth of recursion.
    pub recursion: u32,
    /// Maximum number of open paths at one place of a function.
    pub paths: usize,
    /// Maximum number of blocks and events in one function, over all paths.
    pub steps: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { loops: 10, recursion: 5, paths: 96, steps: 40_000 }
    }
}

/// A limit that a function exceeds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Cut {
    /// Open paths at one place.
    Paths,
    /// Blocks and events, over all paths.
    Steps,
    /// Ways visible to callers.
    Ways,
    /// Memory contents of one way visible to callers.
    Memory,
    /// Events of one way visible to callers: if exceeded, they see only what it leaves open.
    Events,
    /// The same, and what the way leaves open cannot be expressed either.
    HiddenEvents,
    /// Stores remembered on one path.
    Stores,
}

impl Cut {
    /// Not all paths of the function itself were explored, so nothing can be claimed about all of them.
    pub(crate) fn is_inside(self) -> bool {
        matches!(self, Cut::Paths | Cut::Steps | Cut::Stores)
    }

    /// The reason in the report.
    pub(crate) fn describe(self, bounds: &Bounds) -> String {
        match self {
            Cut::Paths => format!("more than {} paths are open at one place (--paths)", bounds.paths),
            Cut::Steps => format!("its paths take more than {} steps (--steps)", bounds.steps),
            Cut::Ways => format!("callers see only {} of the ways through", super::way::MAX_WAYS),
            Cut::Memory => {
                format!("callers see only {} of the places written by", super::way::MAX_MEMORY)
            }
            Cut::Events => {
                format!(
                    "callers see only what the ways with more than {} events leave open",
                    super::way::MAX_EVENTS
                )
            }
            Cut::HiddenEvents => {
                format!(
                    "callers see nothing of the ways with more than {} events through",
                    super::way::MAX_EVENTS
                )
            }
            Cut::Stores => format!("more than {} stores on one path", crate::machine::MAX_WRITES),
        }
    }
}

/// All limits that were exceeded.
#[derive(Debug, Default)]
pub(crate) struct Cuts {
    all: BTreeMap<FunctionId, BTreeSet<Cut>>,
}

impl Cuts {
    pub(crate) fn add(&mut self, function: FunctionId, cut: Cut) {
        self.all.entry(function).or_default().insert(cut);
    }

    /// Whether not all paths of a function were explored.
    pub(crate) fn is_inside(&self, function: FunctionId) -> bool {
        self.all.get(&function).is_some_and(|cuts| cuts.iter().any(|cut| cut.is_inside()))
    }

    /// Whether callers do not see all ways of a function.
    pub(super) fn hides_ways(&self, function: FunctionId) -> bool {
        self.all
            .get(&function)
            .is_some_and(|cuts| cuts.iter().any(|cut| !matches!(cut, Cut::Memory | Cut::Events)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (FunctionId, &BTreeSet<Cut>)> {
        self.all.iter().map(|(function, cuts)| (*function, cuts))
    }
}
