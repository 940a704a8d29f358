//! Schedules from seeds.

use crashproof_protocol::schedule;

use crate::subject::Schedule;

/// How to make schedules from seeds. Seed 0 is always the default schedule, in which a thread runs until it waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Odd seeds are random, even ones PCT.
    #[default]
    Mixed,
    /// Switches at random.
    Random,
    /// Random priorities with a few changes.
    Pct,
}

impl Strategy {
    /// The schedule of a seed. `expected_points` is how often the run of seed 0 could have switched threads; 0 if
    /// unknown.
    pub(crate) fn schedule(self, seed: u32, expected_points: u64) -> Schedule {
        let strategy = match self {
            _ if seed == 0 => schedule::ROUND_ROBIN,
            Strategy::Random => schedule::RANDOM,
            Strategy::Pct => schedule::PCT,
            Strategy::Mixed if seed % 2 == 1 => schedule::RANDOM,
            Strategy::Mixed => schedule::PCT,
        };
        Schedule { seed, strategy, expected_points }
    }

    /// The guarantee of `seeds` schedules, including seed 0, for a run with this many threads and switching points.
    pub(crate) fn guarantee(self, seeds: u32, threads: u32, points: u64) -> Option<String> {
        let runs = (1..seeds).filter(|&seed| self.schedule(seed, 0).strategy == schedule::PCT).count();
        (self == Strategy::Pct).then(|| Strategy::pct_guarantee(runs, threads, points))?
    }

    /// The guarantee of this many PCT schedules, as a sentence. A PCT schedule finds a bug of depth d, one that
    /// requires d steps in a certain order, with probability at least 1/(n k^(d-1)) (Burckhardt et al., ASPLOS 2010,
    /// theorem 9); random schedules guarantee nothing.
    pub(crate) fn pct_guarantee(runs: usize, threads: u32, points: u64) -> Option<String> {
        if runs == 0 || threads < 2 {
            return None;
        }
        let missed = |depth: i32| {
            let one = 1.0 / (f64::from(threads) * (points.max(1) as f64).powi(depth - 1));
            (1.0 - one).powi(runs as i32)
        };
        Some(format!(
            "{runs} PCT schedules of {threads} threads and {points} points: a bug of depth 2 was missed with a probability \
             of at most {:.3}, one of depth 3 of at most {:.3}",
            missed(2),
            missed(3)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pct_says_what_it_may_have_missed() {
        let text = Strategy::Pct.guarantee(11, 2, 5).expect("ten schedules of PCT");
        assert!(text.contains("depth 2 was missed with a probability of at most 0.349"), "{text}");
        assert_eq!(Strategy::Random.guarantee(11, 2, 5), None);
        assert_eq!(Strategy::Pct.guarantee(11, 1, 5), None, "one thread has one schedule");
    }
}
