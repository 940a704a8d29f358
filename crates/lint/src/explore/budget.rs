//! The budget of a function.
//!
//! A function with more paths than the budget allows is not dropped: a representative selection is explored further,
//! and violations on those paths are reported. But the function is UNKNOWN, and its callers see the explored paths plus
//! one on which anything may happen.

use super::limits::Cut;
use super::walk::{State, Walk};
use crate::event::{Event, Kind, Site, UnknownCode};
use crate::expression::{Expression, Form};

impl Walk<'_, '_> {
    pub(super) fn cut(&mut self, cut: Cut) {
        self.explorer.cuts.add(self.id, cut);
    }

    /// How many paths may be open: few once the budget of steps is exhausted.
    fn limit(&self) -> usize {
        if self.steps > self.explorer.bounds.steps { 1 } else { self.explorer.bounds.paths.max(1) }
    }

    /// Keeps a representative selection of paths if there are too many.
    pub(super) fn thin(&mut self, states: Vec<State>) -> Vec<State> {
        let limit = self.limit();
        if self.steps > self.explorer.bounds.steps {
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

    /// Additional steps for the few remaining paths, to reach the end of the function.
    pub(super) fn is_over(&self) -> bool {
        self.steps > 2 * self.explorer.bounds.steps
    }

    /// The event that represents unexplored paths: anything may have been done to the function's arguments.
    pub(super) fn anything(&mut self) -> Event {
        let objects: Vec<Expression> = (0..self.function.parameters)
            .map(|number| self.explorer.expressions.add(Form::Parameter(number)))
            .collect();
        let place = self.function.place.unwrap_or(crashproof_frontend::program::ir::PlaceId(0));
        Event {
            kind: Kind::Unknown { objects, code: UnknownCode::NotWalked },
            site: Site { place, call: None, name: 0, outer: 0, by_library: false },
        }
    }
}
