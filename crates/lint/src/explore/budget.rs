//! The budget of a function.
//!
//! A function with more paths than the budget allows is not dropped: a spread of its paths is explored further, and
//! violations on those are found. But the function is UNKNOWN, and its callers see the explored paths beside one on which
//! anything may happen.

use super::limits::Cut;
use super::walk::{State, Walk};
use crate::event::{Event, Kind, Site, UnknownCode};
use crate::expression::{Expression, Form};

impl Walk<'_, '_> {
    pub(super) fn cut(&mut self, cut: Cut) {
        self.explorer.cuts.add(self.id, cut);
    }

    /// How many paths may be open: few, once the steps are used up.
    fn limit(&self) -> usize {
        if self.steps > self.explorer.bounds.steps { 1 } else { self.explorer.bounds.paths.max(1) }
    }

    /// Keeps a spread of paths if there are too many.
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

    /// Steps that are taken even with few paths, to reach the end of the function.
    pub(super) fn is_over(&self) -> bool {
        self.steps > 2 * self.explorer.bounds.steps
    }

    /// The event that stands for unexplored paths: anything may have been done to what the function was given.
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
