//! Which crashes to try, and how workers share them.

use std::sync::{Mutex, PoisonError};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::schedules::Seen;
use crate::search::random::Draws;
use crate::search::shared_state::Stop;
use crate::search::tree::Place;
use crate::search::worker::{Worker, completed};
use crate::subject::{Error, Subject};

/// Crash points that a worker takes at once.
const BLOCK: usize = 64;

/// A crash point with more states than recoveries it is allowed, of which the corners were tried.
struct Large {
    recoveries: u64,
    /// Where recovery ended then.
    ended: FxHashSet<Place>,
    /// How often the tree had been cut back.
    drops: u32,
}

/// Which crashes to try.
pub(crate) enum Plan<'a> {
    /// All that recovery can distinguish.
    Everything,
    /// Some, at random.
    Random(Draws),
    /// All at cuts that were not crashed at before: for each length of the trace, which cut that is.
    Unseen(&'a [u128], &'a Mutex<Seen>),
}

impl Plan<'_> {
    /// Is a crash point one of those that this check takes? Points at which another schedule was crashed, too, go by what
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
    /// Shares are blocks: crashes close to each other make recovery do the same, and one worker should find
    /// that out.
    pub(crate) fn carry_out<S: Subject>(
        &self,
        mut worker: Worker<S>,
        number: usize,
        of: usize,
    ) -> Result<(), Error> {
        // Crash points with more states than recoveries they are allowed: their corners, then the rest of all of them.
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
            // Places mean something else once the tree has been cut back.
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
