//! In which orders the threads of a program run.

use crashproof_protocol::{Control, schedule};

/// How schedules are made from seeds. Seed 0 is always the default one: a thread runs until it waits.
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

/// One schedule, as the control block has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    pub(crate) seed: u32,
    /// One of [`schedule`].
    pub(crate) strategy: u32,
    /// Places to switch in the run of seed 0; 0 if not known.
    pub(crate) expected_points: u64,
}

impl Schedule {
    /// Tells the runtime.
    pub(crate) fn apply(self, control: &mut Control) {
        control.seed = self.seed;
        control.strategy = self.strategy;
        control.expected_points = self.expected_points;
    }
}

impl Strategy {
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
