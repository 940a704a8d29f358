//! The least that must be lost for a failure.
//!
//! Exploring everything meets, for each failure and first lost store, the way that loses the fewest stores. But a
//! store that is lost need not have to do with the failure: losing a later one alone may do. And where not everything
//! was explored, a simpler way may not have been met. So every finding is tried again: with each of its lines lost
//! alone, then with one line after the other kept, then with more stores of each line kept. What still fails in the
//! same way replaces it. All this is known from the tree if everything was explored; otherwise it takes recoveries,
//! of which there is a limit. The finding says which of these it was.

use std::collections::BTreeMap;

use px86::Line;

use crate::crash::{Chosen, CrashState, Later};
use crate::failure::{Least, TokenCrash};
use crate::found::{Key, Met};
use crate::robustness::had_read;
use crate::session::{Error, Session};
use crate::timeline::Timeline;
use crate::tree::Outcome;
use crate::worker::{Stop, Worker};

/// Recoveries that may be run for it, for each schedule.
pub(crate) const MOST_RUNS: u64 = 1000;

impl Worker<'_> {
    /// Replaces each finding of this schedule by the least that must be lost for it. Gives the session back.
    pub(crate) fn minimise(mut self) -> Result<Session, Error> {
        let seed = self.schedule.seed;
        let mut by_place: BTreeMap<usize, Vec<Key>> = BTreeMap::new();
        for (key, met) in &self.check.common().findings {
            if let Some(first) = met.crashes.first().filter(|_| met.finding.seed == seed) {
                by_place.entry(first.at).or_default().push(key.clone());
            }
        }
        if by_place.is_empty() || self.check.options.monitor.cancelled() {
            return Ok(self.session);
        }
        self.session.rewind();
        self.runs_left = Some(MOST_RUNS);
        let result = self.at_every_place(|worker, timeline, _| {
            for key in by_place.remove(&timeline.at).unwrap_or_default() {
                worker.reduce(timeline, &key)?;
            }
            // Nothing is left to do.
            if by_place.is_empty() { Err(Stop::NotKnown) } else { Ok(()) }
        });
        match result {
            Err(Stop::Error(error)) => Err(error),
            Ok(()) | Err(Stop::Limit | Stop::Crash | Stop::NotKnown) => Ok(self.session),
        }
    }

    /// Looks for less that fails like this finding.
    fn reduce(&mut self, timeline: &Timeline, key: &Key) -> Result<(), Stop> {
        let Some(mut best) = self.check.common().findings.get(key).cloned() else { return Ok(()) };
        let mut best_key = key.clone();
        let finished = self.reduce_all(timeline, &mut best_key, &mut best);
        let count = best.finding.count;
        best.finding.least = match &finished {
            Ok(()) if self.check.common().unknown.is_empty() => Least::Proven,
            Ok(()) => Least::Local,
            Err(_) => Least::Unfinished,
        };
        let mut common = self.check.common();
        common.findings.remove(key);
        match common.findings.get_mut(&best_key) {
            Some(known) if known.rank() <= best.rank() => known.finding.count += count,
            Some(known) => {
                best.finding.count += known.finding.count;
                *known = best;
            }
            None => {
                common.findings.insert(best_key, best);
            }
        }
        finished
    }

    fn reduce_all(&mut self, timeline: &Timeline, key: &mut Key, best: &mut Met) -> Result<(), Stop> {
        // One of its lines alone.
        let last = best.crashes.len() - 1;
        let lost: Vec<(u64, usize)> = best.crashes[last].kept.clone();
        if lost.len() > 1 || best.crashes.iter().filter(|crash| !crash.kept.is_empty()).count() > 1 {
            for line in lost {
                let mut alone = best.crashes.clone();
                alone.iter_mut().for_each(|crash| crash.kept.clear());
                alone[last].kept.push(line);
                if self.replace(timeline, &alone, key, best)? {
                    break;
                }
            }
        }
        // One line after the other kept, whole or one store more of it.
        let mut again = true;
        while again {
            again = false;
            for level in 0..best.crashes.len() {
                for index in (0..best.crashes[level].kept.len()).rev() {
                    let mut less = best.crashes.clone();
                    let (line, kept) = less[level].kept.remove(index);
                    let mut more = best.crashes.clone();
                    more[level].kept[index] = (line, kept + 1);
                    if self.replace(timeline, &less, key, best)?
                        || self.replace(timeline, &more, key, best)?
                    {
                        again = true;
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Puts these crashes in the place of `best` if they lose less and fail in the same way.
    fn replace(
        &mut self,
        timeline: &Timeline,
        crashes: &[TokenCrash],
        key: &mut Key,
        best: &mut Met,
    ) -> Result<bool, Stop> {
        let state = self.crashed(timeline);
        let Some((other_key, mut other)) = self.probe(&state, crashes)? else { return Ok(false) };
        let simpler = other.finding.lost < best.finding.lost && other.crashes.len() == best.crashes.len();
        if !simpler || other_key.0 != key.0 {
            return Ok(false);
        }
        other.finding.count = best.finding.count;
        *key = other_key;
        *best = other;
        Ok(true)
    }

    /// What is wrong after these crashes, if anything.
    fn probe(&mut self, state: &CrashState, crashes: &[TokenCrash]) -> Result<Option<(Key, Met)>, Stop> {
        let level = state.crashes() - 1;
        let bytes = |line: Line| state.kept(line, self.session.image_line(line), &crashes[..=level]);
        let chosen: Chosen = state.open_lines().into_iter().map(|line| (line, bytes(line))).collect();
        self.recoveries = 0;
        let Some(followed) = self.follow_chosen(state, &chosen)? else { return Ok(None) };
        let Some(next) = crashes.get(level + 1) else {
            let violations = self.violations(state, followed.outcome, &followed.revealed, &followed.reads);
            let Some(judged) = self.judge(state, followed.outcome, &followed.revealed, &violations) else {
                return Ok(None);
            };
            let key = judged.key.clone();
            return Ok(Some((key, self.tell(judged, state, &followed.revealed, &followed.reads))));
        };
        let Outcome { writes, ignored, .. } = self.check.common().tree.outcomes[followed.outcome].clone();
        let Some(records) = writes.filter(|records| next.at <= records.len()) else { return Ok(None) };
        let mut timeline = Timeline::after(&self.check.options.platform, state.last());
        let mut persisted = Default::default();
        for record in &records[..next.at] {
            timeline.advance_into(record, &mut persisted);
        }
        if !timeline.is_crash_point(&records) {
            return Ok(None);
        }
        let mut again = state.clone();
        let history = self.check.history(&records);
        let reads = had_read(&records[..next.at], &followed.reads, &ignored);
        again.later.push(Later {
            revealed: &followed.revealed,
            timeline: &timeline,
            persisted: &persisted,
            history: &history,
            reads: &reads,
            records: &records,
        });
        self.probe(&again, crashes)
    }
}
