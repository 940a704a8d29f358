//! What an exploration reports during its run: steps, crashes, recoveries and statistics.

use std::rc::Rc;

use num_bigint::BigUint;
use px86::Site;
use px86::buffer::Entry;
use px86::robust::{Clocks, Violation};
use px86::storage::Execution;
use px86::survive::CrashStack;

/// An effect, for narrating the execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Happened {
    /// In which thread.
    pub thread: usize,
    /// By which instruction.
    pub site: Site,
    /// What.
    pub what: What,
}

/// What took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A load read this.
    Read(u64),
    /// A load read this, all or part of it from a store still in the thread's own buffer.
    Forwarded(u64),
    /// A store reached the cache with this value.
    Cached(u64),
    /// A flush.
    Flushed,
    /// A fence.
    Fenced,
    /// A locked instruction read the first and stored the second.
    Exchanged(u64, Option<u64>),
    /// The program's own check failed.
    Failed,
    /// A crash.
    Crashed,
}

/// The way to here, newest first, shared between the branches that have it in common.
#[derive(Clone, Debug, Default)]
pub struct Path(Option<Rc<(Happened, Path)>>);

impl Path {
    pub(super) fn push(&mut self, happened: Happened) {
        let before = std::mem::take(self);
        *self = Path(Some(Rc::new((happened, before))));
    }

    /// The way in order.
    pub fn steps(&self) -> Vec<Happened> {
        let mut steps = Vec::new();
        let mut at = self;
        while let Some(node) = &at.0 {
            steps.push(node.0);
            at = &node.1;
        }
        steps.reverse();
        steps
    }
}

/// What is remembered of an execution that crashed, beside its cache.
#[derive(Clone, Debug)]
pub struct Past {
    /// What happened before what.
    pub clocks: Rc<Clocks>,
    /// Stores that never reached the cache, oldest first.
    pub waiting: Rc<Vec<Entry>>,
}

/// A crash, as the observer sees it.
pub struct Crash<'a> {
    /// How many there have been, this one included.
    pub crashes: usize,
    /// All executions so far and what may be left of them.
    pub stack: &'a mut CrashStack,
    /// The same executions' clocks and lost buffers.
    pub past: &'a [Past],
    /// How it came to this.
    pub path: &'a Path,
}

/// Receives the explorer's reports.
pub trait Observer {
    /// The cache changed, before any crash.
    fn memory(&mut self, execution: &Execution);

    /// A crash. Should recovery be explored from here?
    fn crash(&mut self, crash: Crash) -> bool;

    /// A load of the first recovery may read from a store that no strictly persistent execution would
    /// have left; `stack` is what may be left of the crash if it does.
    fn violation(&mut self, violation: Violation, stack: &mut CrashStack, path: &Path);

    /// Recovery ended; `failed` is the site of its own failed check, if any.
    fn recovered(&mut self, failed: Option<Site>, path: &Path);

    /// Should the exploration end?
    fn satisfied(&self) -> bool {
        false
    }
}

/// Statistics of an exploration.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// States visited.
    pub states: u64,
    /// Crashes tried.
    pub failure_points: u64,
    /// Recoveries run to their end.
    pub recoveries: u64,
    /// Recoveries that an eager checker would have run from the same crashes.
    pub eager_states: BigUint,
    /// The limit that was hit, if one was.
    pub limit: Option<Limit>,
}

/// Why an exploration ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Too many states.
    States,
    /// Too much memory.
    Bytes,
    /// It was asked to stop, for this reason.
    Interrupted(&'static str),
}
