//! Which crashes to try, and how workers divide them.

use std::sync::{Mutex, PoisonError};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::schedules::Seen;
use crate::search::random::Draws;
use crate::search::shared_state::Stop;
use crate::search::tree::Place;
use crate::search::worker::{Worker, completed};
use crate::subject::{Error, Subject};

/// The number of crash points a worker takes at once.
const BLOCK: usize = 64;

/// A crash point with more states than its budget of recoveries, whose corners have been tried.
struct Large {
    recoveries: u64,
    /// Where recovery ended then.
    ended: FxHashSet<Place>,
    /// How often the tree had been trimmed.
    drops: u32,
}

/// Which crashes to try.
pub(crate) enum Plan<'a> {
    /// All that recovery can distinguish.
    Everything,
    /// Some, at random.
    Random(Draws),
    /// All at cuts not crashed before: for each length of the trace, the cut it corresponds to.
    Unseen(&'a [u128], &'a Mutex<Seen>),
}

impl Plan<'_> {
    /// Does a crash point belong to the shards of this check? Points that another schedule shares are assigned by their
    /// common content.
    /// they have in common.
    fn is_in_shard<S: Subject>(&self, worker: &Worker<S>, at: usize, block: usize) -> bool {
        let Some(shards) = &worker.search.settings.shards else { return true };
        match self {
            Plan::Unseen(cuts, _) => shards.takes(cuts[at]),
            Plan::Everything | Plan::Random(_) => shards.takes((worker.recording.schedule.seed, block)),
        }
    }

    /// Crashes the run at one worker's share of the crash points: number `number` of `of`.
    ///
    /// Shares are blocks: nearby crashes lead to the same recoveries, so one worker should handle them.
    pub(crate) fn carry_out<S: Subject>(
        &self,
        mut worker: Worker<S>,
        number: usize,
        of: usize,
    ) -> Result<(), Error> {
        // Crash points with more states than their budget of recoveries: first the corners of each, then the rest.
        let mut large: FxHashMap<usize, Large> = FxHashMap::default();
        let result = worker.at_crash_points(|worker, timeline, point| {
            if let Some(before) = worker.unrecoverable_at.take() {
                worker.search.observer.next_crash_point(before, timeline.at);
            }
            let block = point / BLOCK;
            if block % of != number {
                return Ok(());
            }
            let is_new = match self {
                Plan::Unseen(cuts, seen) => {
                    seen.lock().unwrap_or_else(PoisonError::into_inner).insert(cuts[timeline.at])
                }
                Plan::Everything | Plan::Random(_) => true,
            };
            if !is_new || !self.is_in_shard(worker, timeline.at, block) {
                return Ok(());
            }
            worker.recoveries = 0;
            let state = worker.crashed(timeline);
            match self {
                Plan::Everything | Plan::Unseen(..) => {
                    worker.begin_crash(&state)?;
                    if !worker.is_large(&state) {
                        return worker.explore(&state);
                    }
                    worker.search.shared().coverage.large_points += 1;
                    let ended = worker.corners(&state);
                    if matches!(ended, Err(Stop::Crash)) {
                        worker.search.shared().coverage.corners_cut += 1;
                        worker.is_cut(timeline);
                    }
                    let ended = ended?;
                    let drops = worker.search.shared().tree.drops();
                    large.insert(point, Large { recoveries: worker.recoveries, ended, drops });
                    Ok(())
                }
                Plan::Random(draws) => worker.random_crashes(timeline, draws, point),
            }
        });
        if !completed(result)? || large.is_empty() {
            return Ok(());
        }
        worker.subject.rewind();
        let result = worker.at_crash_points(|worker, timeline, point| {
            let Some(Large { recoveries, ended, drops }) = large.remove(&point) else { return Ok(()) };
            worker.recoveries = recoveries;
            // Places are invalid once the tree has been trimmed.
            if worker.search.shared().tree.drops() == drops {
                worker.reported = ended;
            }
            let result = worker.explore(&worker.crashed(timeline));
            worker.reported.clear();
            if matches!(result, Err(Stop::Crash)) {
                worker.is_cut(timeline);
            }
            result
        });
        completed(result).map(|_| ())
    }
}
