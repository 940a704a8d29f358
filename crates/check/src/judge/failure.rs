//! A failure found by a check: what must be lost for it, and how to reproduce it.

use crashproof_findings::story::Story;
use crashproof_findings::{Place, Related};
use serde::Serialize;

use crate::judge::facts::Facts;
use crate::judge::violation::Violation;
use crate::judge::volatile::VolatilePointer;
use crate::judge::words::Words;
use crate::subject::Failure;

/// Whether a failure may require fewer lost stores than reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Minimality {
    /// No: everything was explored.
    Proven,
    /// Each of them is needed, but not everything was explored: some other crash may require fewer.
    Local,
    /// Possibly: minimization ended early.
    Unfinished,
}

/// What distinguishes failures: how the run failed, the first lost store by execution and site, and the last one. Two
/// bugs may lose the same store first, for example in a helper that both call.
pub(crate) type Key = (String, (usize, u32), (usize, u32));

/// A recovery that fails, or a schedule under which the program fails without a crash.
#[derive(Clone, Debug)]
pub struct FailedRecovery {
    /// How it failed.
    pub failure: Failure,
    /// The first lost store, or the crash if nothing need be lost.
    pub place: Place,
    /// How many stores must be lost for it.
    pub lost: usize,
    /// Does recovery create threads?
    pub(crate) with_threads: bool,
    /// Does recovery follow a schedule other than its first?
    pub(crate) under_schedule: bool,
    /// Whether fewer may suffice.
    pub minimality: Minimality,
    /// How many consecutive crashes it takes; 0 if the program fails under its schedule without any.
    pub crashes: usize,
    /// The stores, loads and crashes that are part of it.
    pub(crate) facts: Facts,
    /// The end of recovery's output.
    pub output: String,
    /// The token for `crashproof replay`.
    pub replay: String,
    /// The number of crash points at which it was met.
    pub count: u64,
    /// The seed of the schedule under which it was met.
    pub seed: u32,
    /// The missing flush behind it, if robustness identifies one.
    pub cause: Option<Box<Violation>>,
    /// The pointer to volatile memory that recovery followed, if that is the cause.
    pub volatile: Option<VolatilePointer>,
    /// The events around the crash, for drawing.
    pub story: Option<Story>,
    /// Its description; set when everything is known.
    pub(crate) words: Words,
}

/// Ranks ways to the same failure, simplest first: crashes, lost stores, seed, crash point.
pub(crate) type Rank = (usize, usize, u32, usize);

impl FailedRecovery {
    /// The stores, loads and crashes involved, in the order they happened.
    pub fn related(&self) -> &[Related] {
        &self.words.related
    }

    pub(crate) fn rank(&self) -> Rank {
        (self.crashes, self.lost, self.seed, self.facts.chosen.first().map_or(0, |crash| crash.at))
    }
}
