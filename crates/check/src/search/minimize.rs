//! Finds the smallest loss that causes a failure.
//!
//! Exploring everything finds, for each failure and first lost store, the crash state that loses the fewest stores. But
//! a lost store may have nothing to do with the failure: losing a later one alone may suffice. And if not everything
//! was explored, a simpler crash state may have been missed. So every failure is tried again: with each of its lines
//! lost alone, then with one line after another surviving, then with more stores of each line surviving. Whatever still
//! fails in the same way replaces it. If everything was explored, the tree already has the answers; otherwise this runs
//! up to [`MAX_RUNS`] recoveries.

use px86::Line;

use crate::crash::{ChosenCrash, CrashState, Later, Persisted, Timeline, had_read};
use crate::search::observer::Recovered;
use crate::search::shared_state::Stop;
use crate::search::worker::Worker;
use crate::subject::Subject;

/// Maximum number of recoveries run to minimize the findings of one schedule.
pub(crate) const MAX_RUNS: u64 = 1000;

/// Searches for crashes that lose less and still fail in the same way.
///
/// `replace` tries some crashes: if they lose less than the best ones so far and fail in the same way, it returns what
/// they lose, which may be less than requested.
pub(crate) fn minimize<E>(
    mut best: Vec<ChosenCrash>,
    mut replace: impl FnMut(&[ChosenCrash]) -> Result<Option<Vec<ChosenCrash>>, E>,
) -> Result<(), E> {
    let Some(last) = best.len().checked_sub(1) else { return Ok(()) };
    // One of its lines alone.
    let lost = best[last].kept.clone();
    if lost.len() > 1 || best.iter().filter(|crash| !crash.kept.is_empty()).count() > 1 {
        for line in lost {
            let mut alone = best.clone();
            alone.iter_mut().for_each(|crash| crash.kept.clear());
            alone[last].kept.push(line);
            if let Some(better) = replace(&alone)? {
                best = better;
                break;
            }
        }
    }
    // One line after another, surviving completely or with one more store.
    let mut progress = true;
    while progress {
        progress = false;
        for level in 0..best.len() {
            for index in (0..best[level].kept.len()).rev() {
                let mut less = best.clone();
                let (line, kept) = less[level].kept.remove(index);
                let mut more = best.clone();
                more[level].kept[index] = (line, kept + 1);
                let mut better = replace(&less)?;
                if better.is_none() {
                    better = replace(&more)?;
                }
                if let Some(better) = better {
                    best = better;
                    progress = true;
                    break;
                }
            }
        }
    }
    Ok(())
}

impl<S: Subject> Worker<'_, S> {
    /// Follows recovery through these crashes, and returns what `judge` makes of the last one's outcome. `None` if the
    /// crashes are not possible, or if recovery is not repeatable.
    pub(crate) fn probe<T>(
        &mut self,
        state: &CrashState,
        crashes: &[ChosenCrash],
        judge: &mut dyn FnMut(&Recovered) -> Option<T>,
    ) -> Result<Option<T>, Stop> {
        let level = state.crashes() - 1;
        self.sets_aside = false;
        let chosen = |worker: &Self, line: Line| {
            state.chosen(line, worker.subject.image_line(line), &crashes[..=level])
        };
        self.recoveries = 0;
        let Some(followed) = self.follow_chosen(state, &chosen)? else { return Ok(None) };
        let outcome = self.outcome(followed.outcome);
        let Some(next) = crashes.get(level + 1) else {
            let reads = followed.path.reads();
            return Ok(self.recovered(state, &followed.revealed, &reads, &outcome, judge));
        };
        let records = outcome.writes.as_ref().filter(|records| next.at <= records.len());
        let Some(records) = records else { return Ok(None) };
        let mut timeline = Timeline::after(&self.search.settings.platform, state.last());
        let mut persisted = Persisted::default();
        for record in &records[..next.at] {
            timeline.advance_into(record, &mut persisted);
        }
        if !timeline.is_crash_point(records) {
            return Ok(None);
        }
        let history = self.search.history(records);
        let reads = had_read(&records[..next.at], &followed.path.reads(), &outcome.ignored);
        let again = state.then(Later {
            revealed: &followed.revealed,
            timeline: &timeline,
            persisted: &persisted,
            history: &history,
            reads: &reads,
            records,
        });
        self.probe(&again, crashes, judge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crash(kept: &[(u64, usize)]) -> Vec<ChosenCrash> {
        vec![ChosenCrash { at: 9, kept: kept.to_vec() }]
    }

    /// The result of [`minimize`] for a failure that requires line 1 to lose its second store of two.
    fn least(lost: &[(u64, usize)]) -> Vec<(u64, usize)> {
        let stores = 2;
        let weight =
            |crash: &[ChosenCrash]| crash[0].kept.iter().map(|(_, kept)| stores - kept).sum::<usize>();
        let mut best = crash(lost);
        let replace = |tried: &[ChosenCrash]| {
            let tried =
                crash(&tried[0].kept.iter().copied().filter(|(_, kept)| *kept < stores).collect::<Vec<_>>());
            let fails = tried[0].kept.iter().any(|(line, _)| *line == 1);
            let better = fails && weight(&tried) < weight(&best);
            if better {
                best.clone_from(&tried);
            }
            Ok::<_, ()>(better.then_some(tried))
        };
        minimize(crash(lost), replace).expect("no limit");
        best.remove(0).kept
    }

    #[test]
    fn only_what_matters_stays_lost() {
        assert_eq!(least(&[(0, 0), (1, 0), (2, 1)]), [(1, 1)]);
        assert_eq!(least(&[(1, 0)]), [(1, 1)]);
        assert_eq!(least(&[(1, 1)]), [(1, 1)]);
    }
}
