//! Corners of a crash point with more states than its budget of recoveries: the states most likely to reveal bugs.
//!
//! Nothing lost, everything lost, each line alone lost, each line alone surviving, and memory as it was at any instant
//! since the first store that may be lost. They come first, at all crash points, in stages; only then are the other
//! states explored (see `plan`).

use std::collections::BTreeSet;

use px86::Line;
use px86::storage::{CachedStore, Seq};
use rustc_hash::FxHashSet;

use crate::crash::{Content, CrashState, Revealed, Timeline, apply};
use crate::search::reported_ends::ReportedEnds;
use crate::search::shared_state::Stop;
use crate::search::stage::Stage;
use crate::search::worker::Worker;
use crate::subject::{Bytes, Subject};

/// Maximum number of instants tried; if there are more, a uniform selection.
const MOMENTS: usize = 256;

/// The corners of a crash point that have been tried.
#[derive(Default)]
pub(crate) struct Corners {
    pub(crate) ended: ReportedEnds,
    /// How many stages are done.
    done: usize,
}

/// The lines that recovery tells apart in the corners of a crash point. Too many to be kept for each, and found again
/// without running anything.
#[derive(Default)]
struct ToldApart {
    /// With nothing lost, with everything lost, in any corner.
    kept: BTreeSet<Line>,
    lost: BTreeSet<Line>,
    any: BTreeSet<Line>,
    /// Does a checksum protect any of them? `checksums` decides then which states are tried.
    checksummed: bool,
}

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
    /// Does this crash have at most so many states?
    pub(crate) fn has_at_most(&self, most: u64, state: &CrashState) -> bool {
        let mut states = 1_u64;
        states <= most
            && state.open_lines().into_iter().all(|line| {
                let contents = self.contents(state, line, &Revealed::default());
                states = states.saturating_mul(contents.len() as u64);
                states <= most
            })
    }

    /// The exploration of a crash point has ended: it is complete, or limits are noted.
    pub(crate) fn note_explored(&self, timeline: &Timeline, result: Result<(), Stop>) -> Result<(), Stop> {
        let coverage = &mut self.search.shared().coverage;
        match result {
            Ok(()) => coverage.complete += 1,
            Err(Stop::Crash) => {
                coverage.points_cut += 1;
                coverage.states_cut += timeline.eager_states();
                coverage.tried += self.recoveries;
            }
            _ => {}
        }
        result
    }

    /// Follows recovery into the corners of a crash, up to a stage.
    pub(crate) fn corners(
        &mut self,
        state: &CrashState,
        until: Stage,
        corners: &mut Corners,
    ) -> Result<(), Stop> {
        self.keeping_contents(|worker| {
            let mut lines = ToldApart::default();
            for stage in Stage::ALL.into_iter().filter(|stage| *stage <= until) {
                worker.stage(state, stage, &mut lines, &mut corners.ended)?;
                if corners.done == stage as usize {
                    corners.done += 1;
                    worker.search.shared().coverage.stages[stage as usize] += 1;
                }
            }
            Ok(())
        })
    }

    /// Only lines that recovery reads matter, and recovery itself reveals them. If it reads nothing of a line that
    /// another choice would change, it does with that choice exactly what it did.
    fn stage(
        &mut self,
        state: &CrashState,
        stage: Stage,
        lines: &mut ToldApart,
        ended: &mut ReportedEnds,
    ) -> Result<(), Stop> {
        match stage {
            _ if lines.checksummed => {}
            Stage::Ends => {
                (lines.kept, lines.checksummed) = self.corner(state, Corner::Kept, ended)?;
                if !lines.checksummed {
                    lines.lost = self.corner(state, Corner::Lost, ended)?.0;
                }
                lines.any = lines.kept.union(&lines.lost).copied().collect();
            }
            Stage::Lines => {
                for line in lines.any.clone() {
                    if lines.kept.contains(&line) {
                        lines.any.extend(self.corner(state, Corner::Without(line), ended)?.0);
                    }
                    if lines.lost.contains(&line) {
                        lines.any.extend(self.corner(state, Corner::Only(line), ended)?.0);
                    }
                }
            }
            Stage::Moments => self.moments(state, &lines.any, ended)?,
        }
        Ok(())
    }

    fn moments(
        &mut self,
        state: &CrashState,
        lines: &BTreeSet<Line>,
        ended: &mut ReportedEnds,
    ) -> Result<(), Stop> {
        let stores = |line: &Line| state.last().each_store(*line).map(|store| store.at).collect::<Vec<Seq>>();
        let moments: BTreeSet<Seq> = lines.iter().flat_map(stores).collect();
        let step = moments.len().div_ceil(MOMENTS).max(1);
        // Most stores of a constructor to fresh memory change nothing.
        let mut tried: FxHashSet<Vec<Bytes>> = FxHashSet::default();
        for corner in moments.into_iter().step_by(step).map(Corner::Moment) {
            if tried.insert(lines.iter().map(|line| self.in_corner(state, *line, corner)).collect()) {
                self.corner(state, corner, ended)?;
            }
        }
        Ok(())
    }

    /// Follows recovery into one corner; returns the lines whose reads there another choice could have changed, and
    /// whether a checksum protects any of them.
    fn corner(
        &mut self,
        state: &CrashState,
        corner: Corner,
        ended: &mut ReportedEnds,
    ) -> Result<(BTreeSet<Line>, bool), Stop> {
        if self.search.shared().stopped {
            return Err(Stop::Limit);
        }
        let chosen = |worker: &Self, line: Line| worker.in_corner(state, line, corner);
        let Some(followed) = self.follow_chosen(state, &chosen)? else {
            return Ok((BTreeSet::new(), false));
        };
        let drops = self.search.shared().tree.drops();
        if ended.insert(followed.at, drops) {
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
    let stores: Vec<&CachedStore> = state.first.each_store(line).skip(least.kept[0] as usize).collect();
    let mut count = stores.iter().take_while(|store| survives(store)).count();
    // What one `write` stores to a sector survives as a whole: the sector's lines would contradict each other.
    while count > 0 && stores.get(count).is_some_and(|next| state.first.are_joined(stores[count - 1], next)) {
        count -= 1;
    }
    stores[..count].iter().for_each(|store| apply(line, &mut bytes, store));
    bytes
}
