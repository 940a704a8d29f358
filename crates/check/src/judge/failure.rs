//! A failure that a check found: what must be lost for it, and how to reproduce it.

use crashproof_findings::story::Story;
use crashproof_findings::{Place, Related};
use serde::Serialize;

use crate::crash::ChosenCrash;
use crate::judge::violation::Violation;
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

/// What distinguishes failures: how the run failed, and the first lost store, by its execution and site.
pub(crate) type Key = (String, (usize, u32));

/// A recovery that fails, or a schedule under which the program fails without any crash.
#[derive(Clone, Debug)]
pub struct FailedRecovery {
    /// How it failed.
    pub failure: Failure,
    /// The store that was lost first, or where the crash came if nothing need be lost.
    pub place: Place,
    /// How many stores must be lost for it.
    pub lost: usize,
    /// Whether fewer may suffice.
    pub minimality: Minimality,
    /// How many crashes in a row it takes; 0 if the program fails under its schedule without any.
    pub crashes: usize,
    /// The stores, loads and crashes that are part of it, in the order they happened.
    pub related: Vec<Related>,
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
    /// The events around the crash, for drawing.
    pub story: Option<Story>,
    /// The crashes, first to last, and what survived each.
    pub(crate) chosen: Vec<ChosenCrash>,
}

/// What makes one way to the same failure simpler than another: crashes, lost stores, seed, crash point.
pub(crate) type Rank = (usize, usize, u32, usize);

impl FailedRecovery {
    pub(crate) fn rank(&self) -> Rank {
        (self.crashes, self.lost, self.seed, self.chosen.first().map_or(0, |crash| crash.at))
    }
}
