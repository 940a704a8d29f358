//! Which crashes to try, and how workers share them.

use crate::search::random::Draws;
use crate::search::worker::{Worker, completed};
use crate::subject::{Error, Subject};

/// Crash points that a worker takes at once.
const BLOCK: usize = 64;

/// Which crashes to try.
pub(crate) enum Plan {
    /// All that recovery can distinguish.
    Everything,
    /// Some, at random.
    Random(Draws),
}

impl Plan {
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
        let result = worker.at_crash_points(|worker, timeline, point| {
            if let Some(before) = worker.unrecoverable_at.take() {
                worker.search.observer.next_crash_point(before, timeline.at);
            }
            if point / BLOCK % of != number {
                return Ok(());
            }
            worker.recoveries = 0;
            match self {
                Plan::Everything => worker.crash(&worker.crashed(timeline)),
                Plan::Random(draws) => worker.random_crashes(timeline, draws, point),
            }
        });
        completed(result).map(|_| ())
    }
}
