//! The progress of a running check, and a way to end it early.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

use crashproof_findings::Finding;

use crate::subject::Interrupt;

/// Shared with a running check through [`crate::Options::monitor`].
#[derive(Debug, Default)]
pub struct Monitor {
    events: AtomicU64,
    at: AtomicU64,
    places: AtomicU64,
    recoveries: AtomicU64,
    behaviors: AtomicU64,
    findings: AtomicU64,
    interrupt: Interrupt,
    out_of_time: AtomicBool,
    listener: Mutex<Option<Sender<Finding>>>,
}

/// The progress of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// PM events of the run being crashed; 0 while it is being recorded.
    pub events: u64,
    /// How far into that run crash points have been tried.
    pub at: u64,
    /// Crash points tried so far.
    pub places: u64,
    /// Recoveries run.
    pub recoveries: u64,
    /// Distinct behaviors explored.
    pub behaviors: u64,
    /// Failures found.
    pub findings: u64,
}

impl Monitor {
    /// The progress so far.
    pub fn progress(&self) -> Progress {
        Progress {
            events: self.events.load(Relaxed),
            at: self.at.load(Relaxed),
            places: self.places.load(Relaxed),
            recoveries: self.recoveries.load(Relaxed),
            behaviors: self.behaviors.load(Relaxed),
            findings: self.findings.load(Relaxed),
        }
    }

    /// Ends the check as soon as possible; its report contains the findings so far.
    pub fn cancel(&self) {
        self.interrupt.set();
    }

    /// The time is up: ends the check if its first run has not been recorded yet.
    pub(crate) fn end_recording(&self) {
        if self.events.load(Relaxed) == 0 {
            self.out_of_time.store(true, Relaxed);
            self.cancel();
        }
    }

    pub(crate) fn ran_out_of_time(&self) -> bool {
        self.out_of_time.load(Relaxed)
    }

    /// Sends findings to `listener` from now on, when each is first met. They are not final: a simpler way to the same
    /// failure may follow, and the report may merge several.
    pub fn listen(&self, listener: Sender<Finding>) {
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
    }

    /// Sends a finding, if there is a listener.
    pub(crate) fn found(&self, finding: impl FnOnce() -> Finding) {
        if let Some(listener) = &*self.listener.lock().unwrap_or_else(PoisonError::into_inner) {
            // The listener may have hung up.
            let _ = listener.send(finding());
        }
    }

    /// Should the check end?
    pub fn cancelled(&self) -> bool {
        self.interrupt.is_set()
    }

    /// The flag that ends the check when set.
    pub(crate) fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    /// A run has been recorded.
    pub(crate) fn recorded(&self, events: usize) {
        self.events.store(events as u64, Relaxed);
        self.at.store(0, Relaxed);
    }

    /// A crash point has been tried, this far into the run.
    pub(crate) fn crashed(&self, at: usize, findings: usize) {
        self.places.fetch_add(1, Relaxed);
        self.at.fetch_max(at as u64, Relaxed);
        self.findings.store(findings as u64, Relaxed);
    }

    /// A recovery has been run.
    pub(crate) fn recovered(&self, behaviors: usize, findings: usize) {
        self.recoveries.fetch_add(1, Relaxed);
        self.behaviors.store(behaviors as u64, Relaxed);
        self.findings.store(findings as u64, Relaxed);
    }
}
