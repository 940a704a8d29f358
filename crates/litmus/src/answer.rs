//! An engine's answer about a test. All engines answer in this form, so that answers can be compared and shown
//! regardless of the engine.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use px86::Domain;

use crate::code::{LocId, Test};

/// Asks an engine to stop, on behalf of the user or a watcher of time and memory. The engine then answers with what it
/// has.
#[derive(Debug, Default)]
pub struct Interrupt {
    asked: AtomicBool,
    why: OnceLock<&'static str>,
}

impl Interrupt {
    /// An interrupt that has not been requested.
    pub const fn new() -> Interrupt {
        Interrupt { asked: AtomicBool::new(false), why: OnceLock::new() }
    }

    /// Asks to stop, and says why.
    pub fn ask(&self, why: &'static str) {
        // The first reason counts.
        let _ = self.why.set(why);
        self.asked.store(true, Ordering::Release);
    }

    /// Why to stop, if that was asked for.
    pub fn asked(&self) -> Option<&'static str> {
        self.asked.load(Ordering::Acquire).then(|| self.why.get().copied().unwrap_or("interrupted"))
    }

    /// For code that only checks whether it was requested.
    pub fn flag(&self) -> &AtomicBool {
        &self.asked
    }
}

/// What an engine is asked to do.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many crashes: 1 means recovery itself does not crash.
    pub crashes: u32,
    /// The persistence domain of the lines for which the test gives none.
    pub domain: Domain,
    /// How far to go before giving up.
    pub limits: Limits,
}

/// Limits at which an engine stops and reports that its answer is incomplete.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Machine states to visit, in each search an engine makes.
    pub states: usize,
    /// Different outcomes to list.
    pub outcomes: usize,
    /// Bytes of memory for visited states.
    pub bytes: usize,
    /// A way to interrupt the engine, if any.
    pub interrupt: Option<&'static Interrupt>,
}

impl Limits {
    /// Why to stop now, if that was requested.
    pub fn interrupted(&self) -> Option<&'static str> {
        self.interrupt.and_then(Interrupt::asked)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits { states: 5_000_000, outcomes: 100_000, bytes: 400 << 20, interrupt: None }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options { crashes: 1, domain: Domain::Adr, limits: Limits::default() }
    }
}

/// An engine's answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The engine's name.
    pub engine: &'static str,
    /// Every limit that was hit, as a sentence; empty if the answer is complete.
    pub incomplete: Vec<String>,
    /// All outcomes, each with the value of every location by id; sorted as they are shown.
    pub states: Vec<Vec<i64>>,
    /// Robustness in the three senses.
    pub robust: Robust,
    /// The result of recovery's assertions.
    pub assertions: Assertions,
    /// One answer a query, in the order of the file.
    pub queries: Vec<QueryAnswer>,
    /// Statistics.
    pub statistics: Statistics,
}

/// Yes, no, or not known because a limit was hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Yes,
    /// It does not, and this shows it.
    No(Box<Witness>),
    /// A limit was hit before it was decided.
    Unknown,
}

impl Verdict {
    /// The verdict as a truth value, if it is known.
    pub fn known(&self) -> Option<bool> {
        match self {
            Verdict::Yes => Some(true),
            Verdict::No(_) => Some(false),
            Verdict::Unknown => None,
        }
    }
}

/// Robustness for an observer of all locations, or of what recovery reads.
#[derive(Clone, Debug)]
pub struct Robust {
    /// PSan's Definitions 1 to 3.
    pub strict: Verdict,
    /// Every outcome is, write by write, a memory that x86-TSO can reach.
    pub event: Verdict,
    /// Every outcome is, value by value, a memory that x86-TSO can reach (PMVerify, Definition 6).
    pub state: Verdict,
}

/// Why a test is not robust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The outcome that no strictly persistent machine leaves.
    pub outcome: Vec<i64>,
    /// A store that was lost although a later one survived; known for `strict`.
    pub pair: Option<LostAndSurvived>,
    /// How it arose.
    pub story: Option<Story>,
}

/// The heart of a robustness violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostAndSurvived {
    /// The store that was lost: it needed a flush.
    pub lost: InstructionRef,
    /// The store that survived although the lost one happened before it.
    pub survived: InstructionRef,
}

/// An instruction of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstructionRef {
    /// The thread.
    pub thread: usize,
    /// Its place in the thread's code.
    pub index: usize,
}

/// The result of recovery's assertions.
#[derive(Clone, Debug)]
pub enum Assertions {
    /// There are none: no recovery, or one that asserts nothing.
    None,
    /// They hold from every outcome.
    Hold,
    /// One fails.
    Fail(Box<AssertionFailure>),
    /// A limit was hit before any failure was found.
    Unknown,
}

/// A failing assertion.
#[derive(Clone, Debug)]
pub struct AssertionFailure {
    /// What persistent memory held when the failing recovery began.
    pub outcome: Vec<i64>,
    /// The assertion's place in recovery's code.
    pub instruction: usize,
    /// How it arose: the first execution and its crash, then each recovery that crashed in turn.
    pub story: Option<Story>,
}

/// The answer to a query.
#[derive(Clone, Debug)]
pub struct QueryAnswer {
    /// Does what the query claims hold? None if not known.
    pub holds: Option<bool>,
    /// An outcome that decides it, if there is one: for `forbidden` a violation, for `allowed` a proof.
    pub outcome: Option<Vec<i64>>,
    /// How a forbidden outcome arose.
    pub story: Option<Story>,
}

/// An execution in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Story {
    /// The executions that crashed, oldest first.
    pub chapters: Vec<Chapter>,
    /// What the last recovery did, if it is part of the story.
    pub recovery: Vec<Step>,
}

/// One execution up to its crash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chapter {
    /// Is this the recovery code rather than the threads?
    pub recovery: bool,
    /// What happened, in the order it took effect.
    pub steps: Vec<Step>,
    /// For each line, the number of `steps` before its last write-back.
    pub written_back: Vec<usize>,
    /// The content of persistent memory after the crash, by location; `None` where the engine left it open.
    pub outcome: Vec<Option<i64>>,
}

/// Something that took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which instruction.
    pub instruction: InstructionRef,
    /// What it did.
    pub effect: Effect,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A load read this.
    Read(i64),
    /// A load read this from a store still in the thread's own buffer.
    Forwarded(i64),
    /// A store reached the cache with this value.
    Cached(i64),
    /// A flush took effect.
    Flushed,
    /// A fence completed.
    Fenced,
    /// A locked instruction read the first and stored the second, if it stored.
    Exchanged(i64, Option<i64>),
    /// An assertion was found false.
    Failed,
}

/// Statistics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Machine states visited, over all searches.
    pub explored: u64,
    /// Places where a crash was tried; lazy engine only.
    pub failure_points: u64,
    /// Runs of recovery; lazy engine only.
    pub recoveries: u64,
    /// How often an eager checker would have run recovery, in decimal; lazy engine only.
    pub eager_states: Option<String>,
}

impl Answer {
    /// Is it complete?
    pub fn complete(&self) -> bool {
        self.incomplete.is_empty()
    }

    /// Does every query and assertion hold? None if one is not known and none fails.
    pub fn satisfied(&self) -> Option<bool> {
        let assertions = match self.assertions {
            Assertions::None | Assertions::Hold => Some(true),
            Assertions::Fail(_) => Some(false),
            Assertions::Unknown => None,
        };
        let mut all = self.queries.iter().map(|query| query.holds).chain([assertions]);
        if all.clone().any(|holds| holds == Some(false)) {
            return Some(false);
        }
        all.all(|holds| holds == Some(true)).then_some(true)
    }
}

/// Sorts outcomes as they are shown: by value, locations in order of their names.
pub fn sort_states(test: &Test, states: &mut Vec<Vec<i64>>) {
    let order: Vec<LocId> = test.locations_by_name();
    states.sort_by(|a, b| {
        order
            .iter()
            .map(|id| a[usize::from(id.0)].cmp(&b[usize::from(id.0)]))
            .find(|o| o.is_ne())
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    states.dedup();
}
