//! Schedules from seeds.

use crashproof_protocol::schedule;

use crate::subject::Schedule;

/// How to make schedules from seeds. Seed 0 is always the default schedule: a thread runs until it waits.
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
    /// The schedule of a seed. `expected_points` is how often the run of seed 0 could have switched threads; 0 if that
    /// is not known.
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
}
