//! Which crashes to try, in which order, and how workers divide them.
//!
//! Crash points are gone through in rounds, each of which does a part of the work at every crash point before the next
//! round begins: breadth before depth. Without a limit on the whole check all of them are finished: points with few
//! states are explored at once, then come the corners of the others, the rest last (`unlimited`). With a limit nobody
//! knows how far the check gets, so rounds are finer (`limited`).

use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;

use crate::crash::Timeline;
use crate::schedules::Seen;
use crate::search::corners::Corners;
use crate::search::random::Draws;
use crate::search::shared_state::{Settings, Stop};
use crate::search::stage::Stage;
use crate::search::worker::{Worker, completed};
use crate::subject::{Error, Subject};

/// The number of crash points a worker takes at once.
const BLOCK: usize = 64;
/// Crash points with up to this many states are explored at once even if a limit may end the check: their corners are
/// all that they have.
const FEW_STATES: u64 = 4;
/// Every how many crash points are gone through first, and next, if a limit may end the check.
const STRIDES: [usize; 3] = [256, 16, 1];
/// The recoveries that a crash point has in the first round that follows its corners, if a limit may end the check, and
/// how many times more in each round after that.
const FIRST_SHARE: u64 = 64;
const GROWTH: u64 = 4;

/// A crash point on which work remains.
#[derive(Default)]
struct Begun {
    recoveries: u64,
    /// Its corners so far, and where recovery ended then.
    corners: Corners,
}

/// What a round does at each of its crash points.
#[derive(Clone, Copy)]
enum Work {
    /// Begins those whose number `every` divides: with at most `few` states they are explored, otherwise nothing lost and
    /// everything lost are tried.
    Begin { few: Option<u64>, every: usize },
    /// Corners up to this stage.
    Corners(Stage),
    /// All states, until this many recoveries were run for a crash point, in all rounds together.
    All(Option<u64>),
}

/// The rounds of a check that no limit ends. The order matters where states are set aside on the way.
fn unlimited(settings: &Settings) -> Vec<Work> {
    let few = settings.max_per_crash;
    vec![Work::Begin { few, every: 1 }, Work::Corners(Stage::Moments), Work::All(None)]
}

/// The rounds of a check that a limit may end: points all over the run before the points between them, nothing lost and
/// everything lost at each before single lines at any, and so on.
fn limited(settings: &Settings) -> Vec<Work> {
    // A recovery that is crashed in turn may have any number of states.
    let few = Some(if settings.crashes == 1 { FEW_STATES } else { 0 });
    let mut rounds: Vec<Work> = STRIDES.iter().map(|&every| Work::Begin { few, every }).collect();
    rounds.extend([Work::Corners(Stage::Lines), Work::Corners(Stage::Moments)]);
    let most = settings.max_per_crash.unwrap_or(u64::MAX);
    let shares = std::iter::successors(Some(FIRST_SHARE), |share| share.checked_mul(GROWTH));
    rounds.extend(shares.take_while(|share| *share < most).map(|share| Work::All(Some(share))));
    rounds.push(Work::All(None));
    rounds
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
    /// Does a crash point belong to the shards of this check? Points that another schedule shares are assigned by the
    /// content they have in common.
    fn is_in_shard<S: Subject>(&self, worker: &Worker<S>, at: usize, block: usize) -> bool {
        let Some(shards) = &worker.search.settings.shards else { return true };
        match self {
            Plan::Unseen(cuts, _) => shards.takes(cuts[at]),
            Plan::Everything | Plan::Random(_) => shards.takes((worker.recording.schedule.seed, block)),
        }
    }

    /// Is a crash point to be tried? Asked once for each.
    fn wants<S: Subject>(&self, worker: &Worker<S>, at: usize, block: usize) -> bool {
        let is_new = match self {
            Plan::Unseen(cuts, seen) => seen.lock().unwrap_or_else(PoisonError::into_inner).insert(cuts[at]),
            Plan::Everything | Plan::Random(_) => true,
        };
        is_new && self.is_in_shard(worker, at, block)
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
        let settings = &worker.search.settings;
        let rounds = if settings.may_end_early() { limited(settings) } else { unlimited(settings) };
        let mut share = Share { plan: self, number, of, begun: FxHashMap::default(), stride: None };
        for (count, work) in rounds.into_iter().enumerate() {
            let begins = matches!(work, Work::Begin { .. });
            if !begins && share.begun.is_empty() {
                break;
            }
            if count > 0 {
                worker.subject.rewind();
            }
            if !share.round(&mut worker, work)? {
                break;
            }
        }
        Ok(())
    }
}

/// One worker's share of the crash points.
struct Share<'p, 'a> {
    plan: &'p Plan<'a>,
    number: usize,
    of: usize,
    /// The crash points on which work remains.
    begun: FxHashMap<usize, Begun>,
    /// The multiples of this have begun.
    stride: Option<usize>,
}

impl Share<'_, '_> {
    /// Does the work of a round at all crash points; returns whether another round may follow.
    fn round<S: Subject>(&mut self, worker: &mut Worker<S>, work: Work) -> Result<bool, Error> {
        worker.set_aside.tries_corners(matches!(work, Work::Corners(_)));
        let result = worker.at_crash_points(|worker, timeline, point| {
            if let Some(before) = worker.unrecoverable_at.take() {
                worker.search.observer.next_crash_point(before, timeline.at);
            }
            if let Work::Begin { few, every } = work {
                if !point.is_multiple_of(every) || !self.takes(worker, timeline.at, point) {
                    return Ok(());
                }
                worker.recoveries = 0;
                return match self.plan {
                    Plan::Random(draws) => worker.random_crashes(timeline, draws, point),
                    Plan::Everything | Plan::Unseen(..) => self.begin(worker, timeline, point, few),
                };
            }
            match self.begun.remove(&point) {
                Some(begun) => self.go_on(worker, timeline, point, begun, work),
                None => Ok(()),
            }
        });
        if let Work::Begin { every, .. } = work {
            self.stride = Some(every);
        }
        completed(result)
    }

    /// Does this worker begin with a crash point in this round?
    fn takes<S: Subject>(&self, worker: &Worker<S>, at: usize, point: usize) -> bool {
        let block = point / BLOCK;
        let has_begun = self.stride.is_some_and(|stride| point.is_multiple_of(stride));
        block % self.of == self.number && !has_begun && self.plan.wants(worker, at, block)
    }

    /// Crashes for the first time at a crash point.
    fn begin<S: Subject>(
        &mut self,
        worker: &mut Worker<S>,
        timeline: &Timeline,
        point: usize,
        few: Option<u64>,
    ) -> Result<(), Stop> {
        let state = worker.crashed(timeline);
        worker.begin_crash(&state)?;
        if few.is_none_or(|few| worker.has_at_most(few, &state)) {
            let result = worker.explore(&state);
            worker.search.shared().coverage.at_once += u64::from(result.is_ok());
            return worker.note_explored(timeline, result);
        }
        self.go_on(worker, timeline, point, Begun::default(), Work::Corners(Stage::Ends))
    }

    /// Goes on with a crash point that has begun.
    fn go_on<S: Subject>(
        &mut self,
        worker: &mut Worker<S>,
        timeline: &Timeline,
        point: usize,
        mut begun: Begun,
        work: Work,
    ) -> Result<(), Stop> {
        let state = worker.crashed(timeline);
        worker.recoveries = begun.recoveries;
        let result = match work {
            Work::All(share) => {
                worker.turn = share;
                worker.reported = Some(std::mem::take(&mut begun.corners.ended));
                let result = worker.explore(&state);
                begun.corners.ended = worker.reported.take().unwrap_or_default();
                worker.turn = None;
                if !matches!(result, Err(Stop::Turn)) {
                    return worker.note_explored(timeline, result);
                }
                Ok(())
            }
            Work::Begin { .. } => unreachable!("it has begun"),
            Work::Corners(stage) => {
                let result = worker.corners(&state, stage, &mut begun.corners);
                if matches!(result, Err(Stop::Crash)) {
                    worker.search.shared().coverage.corners_cut += 1;
                    return worker.note_explored(timeline, result);
                }
                result
            }
        };
        begun.recoveries = worker.recoveries;
        self.begun.insert(point, begun);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_point_begins_once() {
        for points in [1, 15, 16, 17, 255, 256, 257, 1000] {
            let mut begun = vec![0; points];
            let mut before: Option<usize> = None;
            for every in STRIDES {
                let new = |point: &usize| !before.is_some_and(|stride| point.is_multiple_of(stride));
                (0..points).step_by(every).filter(new).for_each(|point| begun[point] += 1);
                before = Some(every);
            }
            assert!(begun.iter().all(|count| *count == 1), "{points}");
        }
    }
}
