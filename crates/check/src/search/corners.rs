//! Corners of a crash point with more states than its budget of recoveries: the states most likely to reveal bugs.
//!
//! Nothing lost, everything lost, each line alone lost, each line alone surviving, and memory as it was at any instant
//! since the first store that may be lost. They come first, at all crash points; only then are the other states
//! explored.

use std::collections::BTreeSet;

use px86::Line;
use px86::storage::{CachedStore, Seq};
use rustc_hash::FxHashSet;

use crate::crash::{Content, CrashState, Revealed, Timeline, apply};
use crate::search::shared_state::Stop;
use crate::search::tree::Place;
use crate::search::worker::Worker;
use crate::subject::{Bytes, Subject};

/// Maximum number of instants tried; if there are more, a uniform selection.
const MOMENTS: usize = 256;

/// One corner.
#[derive(Clone, Copy)]
pub(crate) enum Corner {
    Kept,
    Lost,
    /// Only this line is lost.
    Without(Line),
    /// Only this line survives.
    Only(Line),
    /// Memory as it was at an instant.
    Moment(Seq),
    /// Memory as it was when a store took effect, by its place in the trace.
    Until(u32),
}

impl<S: Subject> Worker<'_, S> {
    /// Might this crash have more states than its budget of recoveries?
    pub(crate) fn is_large(&self, state: &CrashState) -> bool {
        let Some(most) = self.search.settings.max_per_crash else { return false };
        let mut states = 1_u64;
        state.open_lines().into_iter().any(|line| {
            let contents = self.contents(state, line, &Revealed::default());
            states = states.saturating_mul(contents.len() as u64);
            states > most
        })
    }

    /// A limit ended the exploration of a crash point.
    pub(crate) fn is_cut(&self, timeline: &Timeline) {
        let coverage = &mut self.search.shared().coverage;
        coverage.points_cut += 1;
        coverage.states_cut += timeline.eager_states();
        coverage.tried += self.recoveries;
    }

    /// Follows recovery into the corners of a crash; returns where it ended.
    pub(crate) fn corners(&mut self, state: &CrashState) -> Result<FxHashSet<Place>, Stop> {
        self.keeping_contents(|worker| worker.each_corner(state))
    }

    fn each_corner(&mut self, state: &CrashState) -> Result<FxHashSet<Place>, Stop> {
        let mut ended = FxHashSet::default();
        // Only lines that recovery reads matter, and recovery itself reveals them. If it reads nothing of a line that
        // another choice would change, it does with that choice exactly what it did.
        let (kept, checksummed) = self.corner(state, Corner::Kept, &mut ended)?;
        if checksummed {
            // `checksums` decides which states are tried with a checksum.
            return Ok(ended);
        }
        let lost = self.corner(state, Corner::Lost, &mut ended)?.0;
        let mut lines: BTreeSet<Line> = kept.union(&lost).copied().collect();
        for line in lines.clone() {
            if kept.contains(&line) {
                lines.extend(self.corner(state, Corner::Without(line), &mut ended)?.0);
            }
            if lost.contains(&line) {
                lines.extend(self.corner(state, Corner::Only(line), &mut ended)?.0);
            }
        }
        let stores = |line: &Line| state.last().each_store(*line).map(|store| store.at).collect::<Vec<Seq>>();
        let moments: BTreeSet<Seq> = lines.iter().flat_map(stores).collect();
        let step = moments.len().div_ceil(MOMENTS).max(1);
        // Most stores of a constructor to fresh memory change nothing.
        let mut tried: FxHashSet<Vec<Bytes>> = FxHashSet::default();
        for corner in moments.into_iter().step_by(step).map(Corner::Moment) {
            if tried.insert(lines.iter().map(|line| self.in_corner(state, *line, corner)).collect()) {
                self.corner(state, corner, &mut ended)?;
            }
        }
        Ok(ended)
    }

    /// Follows recovery into one corner; returns the lines whose reads there another choice could have changed, and
    /// whether a checksum protects any of them.
    fn corner(
        &mut self,
        state: &CrashState,
        corner: Corner,
        ended: &mut FxHashSet<Place>,
    ) -> Result<(BTreeSet<Line>, bool), Stop> {
        if self.search.shared().stopped {
            return Err(Stop::Limit);
        }
        self.search.shared().coverage.corners += 1;
        let chosen = |worker: &Self, line: Line| worker.in_corner(state, line, corner);
        let Some(followed) = self.follow_chosen(state, &chosen)? else {
            return Ok((BTreeSet::new(), false));
        };
        if ended.insert(followed.at) {
            let outcome = self.outcome(followed.outcome);
            self.leaf(state, &followed.revealed, &followed.path, &outcome)?;
        }
        let is_choice = |(line, left): (&Line, &Vec<Content>)| {
            self.known_contents(state, *line).is_told_apart(left).then_some(*line)
        };
        let lines = followed.revealed.iter().filter_map(is_choice).collect();
        Ok((lines, !followed.checksummed.is_empty()))
    }

    /// A line's content in a corner.
    pub(crate) fn in_corner(&self, state: &CrashState, line: Line, corner: Corner) -> Bytes {
        let known = self.known_contents(state, line);
        let (kept, least) = (|| known.kept, || &known.least);
        // Lines that survive together are lost together.
        let same = |other: Line| state.first.unit(other) == state.first.unit(line);
        // What is assumed to persist is never lost.
        match corner {
            Corner::Kept => kept(),
            Corner::Lost => least().bytes,
            Corner::Without(other) if same(other) => least().bytes,
            Corner::Without(_) => kept(),
            Corner::Only(other) if same(other) => kept(),
            Corner::Only(_) => least().bytes,
            Corner::Moment(_) | Corner::Until(_) if !state.later.is_empty() => kept(),
            Corner::Moment(moment) => begin_of(state, line, least(), |store| store.at <= moment),
            Corner::Until(last) => begin_of(state, line, least(), |store| store.tag <= last),
        }
    }
}

/// A line's content with the first of its stores, as long as they survive.
fn begin_of(
    state: &CrashState,
    line: Line,
    least: &Content,
    survives: impl Fn(&CachedStore) -> bool,
) -> Bytes {
    let mut bytes = least.bytes;
    let stores = state.first.each_store(line).skip(least.kept[0] as usize);
    stores.take_while(|store| survives(store)).for_each(|store| apply(line, &mut bytes, store));
    bytes
}
