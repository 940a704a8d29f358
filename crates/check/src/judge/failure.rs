//! A failure that a check found: what must be lost for it, and how to reproduce it.

use crashproof_findings::story::Story;
use crashproof_findings::{Place, Related};
use serde::Serialize;

use crate::judge::facts::Facts;
use crate::judge::violation::Violation;
use crate::judge::volatile::VolatilePointer;
use crate::judge::words::Words;
use crate::subject::Failure;

/// Whether a failure may need fewer lost stores than the ones reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Minimality {
    /// No: everything was explored.
    Proven,
    /// Each of them is needed, but not everything was explored: elsewhere fewer may suffice.
    Local,
    /// Perhaps: minimization ended early.
    Unfinished,
}

/// What distinguishes failures: how the run failed, the first lost store by its execution and site, and the last one:
/// two bugs may lose the same store first, such as one of a helper that both call.
pub(crate) type Key = (String, (usize, u32), (usize, u32));

/// A recovery that fails, or a schedule under which the program fails without any crash.
#[derive(Clone, Debug)]
pub struct FailedRecovery {
    /// How it failed.
    pub failure: Failure,
    /// The store that was lost first, or where the crash came if nothing need be lost.
    pub place: Place,
    /// How many stores must be lost for it.
    pub lost: usize,
    /// Does recovery create threads?
    pub(crate) with_threads: bool,
    /// Does recovery follow a schedule other than its first?
    pub(crate) under_schedule: bool,
    /// Whether fewer may suffice.
    pub minimality: Minimality,
    /// How many crashes in a row it takes; 0 if the program fails under its schedule without any.
    pub crashes: usize,
    /// The stores, loads and crashes that are part of it.
    pub(crate) facts: Facts,
    /// The end of what recovery printed.
    pub output: String,
    /// For `crashproof replay`.
    pub replay: String,
    /// At how many crash points it was met.
    pub count: u64,
    /// Seed of the schedule under which it was met.
    pub seed: u32,
    /// The missing flush behind it, if robustness tells.
    pub cause: Option<Box<Violation>>,
    /// The pointer to volatile memory that recovery followed, if that is it.
    pub volatile: Option<VolatilePointer>,
    /// The events around the crash, for drawing.
    pub story: Option<Story>,
    /// It in words; set when everything is known.
    pub(crate) words: Words,
}

/// What makes one way to the same failure simpler than another: crashes, lost stores, seed, crash point.
pub(crate) type Rank = (usize, usize, u32, usize);

impl FailedRecovery {
    /// The stores, loads and crashes that are part of it, in the order they happened.
    pub fn related(&self) -> &[Related] {
        &self.words.related
    }

    pub(crate) fn rank(&self) -> Rank {
        (self.crashes, self.lost, self.seed, self.facts.chosen.first().map_or(0, |crash| crash.at))
    }
}
