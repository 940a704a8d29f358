//! The array of Jaaru's introduction: n 64-bit integers are written, each line is flushed, then a flag is set. Recovery
//! reads the flag, and the array only if the flag is set.
//!
//! An eager checker recovers from every content of every line; the lazy one need only consider the flag.

use std::collections::BTreeMap;

use crashproof_litmus::lazy::explorer::{Settings, explore};
use crashproof_litmus::lazy::observer::{Crash, Figures, Observer, Path, What};
use crashproof_litmus::lazy::subject::{Next, Program, Subject};
use px86::robust::Violation;
use px86::storage::Execution;
use px86::survive::CrashStack;
use px86::{Event, Kind, LINE_BYTES, Platform, Site, Thread};

const WORD: u64 = 8;

/// The program, for `length` integers.
pub(crate) struct Array {
    pub(crate) length: u64,
}

impl Array {
    /// The flag is on its own line, after those of the array.
    fn flag(&self) -> u64 {
        (self.length * WORD).next_multiple_of(LINE_BYTES)
    }

    fn writer(&self) -> Vec<(Kind, u64, u64)> {
        let stores = (0..self.length).map(|index| (Kind::Store, index * WORD, index + 1));
        let flushes = (0..self.length).step_by((LINE_BYTES / WORD) as usize);
        let flushes = flushes.map(|index| (Kind::Flush, index * WORD, 0));
        let commit = [(Kind::Store, self.flag(), 1), (Kind::Flush, self.flag(), 0)];
        stores.chain(flushes).chain(commit).collect()
    }

    /// Explores it with one crash.
    pub(crate) fn explore(&self) -> Explored {
        let settings = Settings {
            crashes: 1,
            platform: Platform::ADR,
            states: u64::MAX,
            bytes: usize::MAX,
            interrupt: None,
        };
        let mut counter = Counter::default();
        let figures = explore(self, &[], settings, &mut counter);
        assert_eq!(counter.failed, 0, "a flag that is set promises a whole array");
        Explored { figures, failure_points: counter.failure_points.into_values().collect() }
    }
}

/// The results.
pub(crate) struct Explored {
    pub(crate) figures: Figures,
    /// In the order of the run.
    pub(crate) failure_points: Vec<FailurePoint>,
}

/// A crash.
#[derive(Default)]
pub(crate) struct FailurePoint {
    /// Recoveries that an eager checker would run, in decimal.
    pub(crate) eager: String,
    /// Recoveries that were run.
    pub(crate) recoveries: u64,
}

impl Program for Array {
    type Subject = Running;

    fn start(&self, crashes: usize) -> Option<Running> {
        let run = if crashes == 0 { Run::Write(self.writer()) } else { Run::Recover };
        Some(Running { run, at: 0, length: self.length, flag: self.flag(), failed: false })
    }
}

#[derive(Clone)]
pub(crate) struct Running {
    run: Run,
    at: u64,
    length: u64,
    flag: u64,
    failed: bool,
}

#[derive(Clone)]
enum Run {
    Write(Vec<(Kind, u64, u64)>),
    Recover,
}

impl Subject for Running {
    fn threads(&self) -> usize {
        1
    }

    fn next(&self, _: usize) -> Next {
        let site = Site(self.at as u32);
        match &self.run {
            _ if self.failed => Next::Failed(site),
            Run::Write(steps) => match steps.get(self.at as usize) {
                Some(&(kind, address, value)) => {
                    let event = Event { thread: Thread(0), site, kind, address, width: WORD as u8, value };
                    Next::Act { event, tag: self.at as u32 }
                }
                None => Next::Done,
            },
            // First the flag, then the elements.
            Run::Recover if self.at == 0 => Next::Load { address: self.flag, width: WORD as u8, site },
            Run::Recover if self.at <= self.length => {
                Next::Load { address: (self.at - 1) * WORD, width: WORD as u8, site }
            }
            Run::Recover => Next::Done,
        }
    }

    fn exchange(&self, _: usize, _: u64) -> Option<u64> {
        None
    }

    fn advance(&mut self, _: usize, loaded: u64) {
        if let Run::Recover = self.run {
            self.failed = self.at > 0 && loaded != self.at;
            if self.at == 0 && loaded == 0 {
                self.at = self.length;
            }
        }
        self.at += 1;
    }

    fn key(&self, out: &mut Vec<u8>) -> bool {
        out.extend(self.at.to_le_bytes());
        true
    }
}

#[derive(Default)]
struct Counter {
    /// Keyed by how much had happened before the crash.
    failure_points: BTreeMap<usize, FailurePoint>,
    failed: u64,
}

fn steps_before_crash(path: &Path) -> usize {
    path.steps().iter().position(|step| step.what == What::Crashed).expect("a crash came before")
}

impl Observer for Counter {
    fn memory(&mut self, _: &Execution) {}

    fn crash(&mut self, crash: Crash) -> bool {
        let point = FailurePoint { eager: crash.stack.eager_states().to_string(), recoveries: 0 };
        self.failure_points.insert(steps_before_crash(crash.path), point);
        true
    }

    fn violation(&mut self, _: Violation, _: &mut CrashStack, _: &Path) {}

    fn recovered(&mut self, failed: Option<Site>, path: &Path) {
        self.failed += u64::from(failed.is_some());
        self.failure_points.entry(steps_before_crash(path)).or_default().recoveries += 1;
    }
}
