//! What is not looked at because it would be too much, by function and by name.
//!
//! A function that has more paths than the budget allows is not dropped: a spread of its paths is walked on, and what
//! is wrong on those is found. But the function is unknown, and so is what its callers see of it, beside the paths
//! that were walked.

use std::collections::{BTreeMap, BTreeSet};

use super::{State, Walk};
use crate::event::{Event, Kind, Site};
use crate::expression::{Expression, Form};
use crashproof_frontend::program::ir::FunctionId;

/// A limit that a function went over.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Cut {
    /// Paths open at one place.
    Paths,
    /// Blocks and events, over all paths.
    Steps,
    /// Ways that callers see.
    Ways,
    /// Contents of memory that callers see of one way.
    Memory,
    /// Events that callers see of one way.
    Events,
    /// Stores that are remembered on one path.
    Stores,
}

impl Cut {
    /// The paths of the function itself were not all walked, so nothing can be said to hold on all of them.
    pub(crate) fn is_inside(self) -> bool {
        matches!(self, Cut::Paths | Cut::Steps | Cut::Stores)
    }

    /// What to tell the user.
    pub(crate) fn describe(self, bounds: &super::Bounds) -> String {
        match self {
            Cut::Paths => format!("more than {} paths are open at one place (--paths)", bounds.paths),
            Cut::Steps => format!("its paths take more than {} steps (--steps)", bounds.steps),
            Cut::Ways => format!("callers see only {} of the ways through", super::summary::MAX_WAYS),
            Cut::Memory => {
                format!("callers see only {} of the places written by", super::summary::MAX_MEMORY)
            }
            Cut::Events => {
                format!(
                    "callers see nothing of the ways with more than {} events through",
                    super::summary::MAX_EVENTS
                )
            }
            Cut::Stores => format!("more than {} stores on one path", crate::machine::MAX_WRITES),
        }
    }
}

/// All limits that were gone over.
#[derive(Debug, Default)]
pub(crate) struct Cuts {
    all: BTreeMap<FunctionId, BTreeSet<Cut>>,
}

impl Cuts {
    pub(crate) fn add(&mut self, function: FunctionId, cut: Cut) {
        self.all.entry(function).or_default().insert(cut);
    }

    /// Whether not all paths of a function were walked.
    pub(crate) fn is_inside(&self, function: FunctionId) -> bool {
        self.all.get(&function).is_some_and(|cuts| cuts.iter().any(|cut| cut.is_inside()))
    }

    /// Whether callers do not see all ways of a function.
    pub(super) fn hides_ways(&self, function: FunctionId) -> bool {
        self.all.get(&function).is_some_and(|cuts| cuts.iter().any(|cut| *cut != Cut::Memory))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (FunctionId, &BTreeSet<Cut>)> {
        self.all.iter().map(|(function, cuts)| (*function, cuts))
    }
}

impl Walk<'_, '_> {
    pub(super) fn cut(&mut self, cut: Cut) {
        self.all.cuts.add(self.id, cut);
    }

    /// How many paths may be open: few, once the steps are used up.
    fn limit(&self) -> usize {
        if self.steps > self.all.bounds.steps { 1 } else { self.all.bounds.paths.max(1) }
    }

    /// Keeps a spread of paths if there are too many.
    pub(super) fn thin(&mut self, states: Vec<State>) -> Vec<State> {
        let limit = self.limit();
        if self.steps > self.all.bounds.steps {
            self.cut(Cut::Steps);
        }
        if states.len() <= limit {
            return states;
        }
        if limit > 1 {
            self.cut(Cut::Paths);
        }
        let count = states.len();
        let kept = |at: usize| (at * limit) / count != ((at + 1) * limit) / count;
        states.into_iter().enumerate().filter(|(at, _)| kept(*at)).map(|(_, state)| state).collect()
    }

    /// Steps that are taken even with few paths, to reach the end of the function.
    pub(super) fn is_over(&self) -> bool {
        self.steps > 2 * self.all.bounds.steps
    }

    /// What stands for the paths that were not walked: anything may have been done to what the function was given.
    pub(super) fn anything(&mut self) -> Event {
        let objects: Vec<Expression> = (0..self.function.parameters)
            .map(|number| self.all.expressions.add(Form::Parameter(number)))
            .collect();
        let place = self.function.place.unwrap_or(crashproof_frontend::program::ir::PlaceId(0));
        Event {
            kind: Kind::Unknown { objects, own: true },
            site: Site { place, call: None, name: 0, by_library: false },
        }
    }
}
