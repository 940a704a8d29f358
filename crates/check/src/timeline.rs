//! The recorded run, replayed through the model up to any moment, and the places to crash.

use std::collections::BTreeSet;

use crashproof_protocol::{ARENA, Record, record};
use num_bigint::BigUint;
use px86::storage::{CachedStore, Execution, Seq};
use px86::{Kind, Line, Platform};

/// A run, somewhere in its course.
pub(crate) struct Timeline {
    execution: Execution,
    /// Records that have taken effect.
    pub(crate) at: usize,
    /// Lines of which something may be lost.
    open: BTreeSet<Line>,
    /// End of the arena now.
    pub(crate) arena_end: u64,
    /// Was anything stored since the last crash?
    written: bool,
    platform: Platform,
    moments: Moments,
}

/// The model's moment for each length of the trace, since there is more than one thread: a `clflushopt` may
/// have waited in a store buffer, and counts from when it was issued.
#[derive(Default)]
struct Moments {
    /// Length of the trace when the first thread was created.
    first: usize,
    moments: Vec<Seq>,
}

impl Moments {
    /// The moment when the trace was `length` long; none from before there were threads.
    fn at(&self, length: u64) -> Option<Seq> {
        self.moments.get(usize::try_from(length).ok()?.checked_sub(self.first)?).copied()
    }
}

/// Something that became certain and belongs into the image.
pub(crate) type Persisted = Vec<CachedStore>;

impl Timeline {
    pub(crate) fn new(platform: Platform, arena_end: u64) -> Timeline {
        Timeline {
            execution: Execution::new(platform),
            at: 0,
            open: BTreeSet::new(),
            arena_end: arena_end.max(ARENA.base),
            written: false,
            platform,
            moments: Moments::default(),
        }
    }

    pub(crate) fn execution(&self) -> &Execution {
        &self.execution
    }

    pub(crate) fn open_lines(&self) -> &BTreeSet<Line> {
        &self.open
    }

    /// Is this a place to crash: does the next record make something certain, or is it the end, with
    /// something stored since the last crash?
    pub(crate) fn is_crash_point(&self, records: &[Record]) -> bool {
        if !self.written {
            return false;
        }
        let Some(next) = records.get(self.at) else { return true };
        let thread = px86::Thread(next.thread);
        match next.event_kind() {
            Some(Kind::Flush) => self.open.contains(&Line::containing(next.address)),
            Some(Kind::StoreFence | Kind::Fence | Kind::FailedRmw) => {
                self.execution.fence_would_persist(thread)
            }
            Some(Kind::Rmw) => self.execution.exchange_would_persist(thread),
            Some(Kind::Store | Kind::NonTemporalStore) => self.platform == Platform::Eadr,
            _ => false,
        }
    }

    /// The crash at this moment has been dealt with.
    pub(crate) fn crashed(&mut self) {
        self.written = false;
    }

    /// Lets the next record take effect; gives out what became certain.
    pub(crate) fn advance(&mut self, next: &Record) -> Persisted {
        let persisted = self.take_effect(next);
        if next.kind == record::SPAWN && self.moments.moments.is_empty() {
            self.moments.first = self.at;
            self.moments.moments.push(self.execution.now());
        } else if !self.moments.moments.is_empty() {
            self.moments.moments.push(self.execution.now());
        }
        persisted
    }

    fn take_effect(&mut self, next: &Record) -> Persisted {
        self.at += 1;
        let Some(event) = next.event() else {
            if next.kind == record::ARENA {
                self.arena_end = next.value;
            }
            return Persisted::new();
        };
        let thread = event.thread;
        let fences = matches!(event.kind, Kind::StoreFence | Kind::Fence | Kind::Rmw | Kind::FailedRmw);
        let mut settled: Vec<Line> = Vec::new();
        if fences {
            settled.extend(self.execution.pending(thread).iter().map(|pending| pending.0));
            self.execution.fence(thread);
        }
        match event.kind {
            Kind::Store | Kind::NonTemporalStore | Kind::Rmw => {
                let line = Line::containing(event.address);
                self.execution.commit_store(&event, self.at as u32 - 1);
                self.open.insert(line);
                self.written = true;
                if self.platform == Platform::Eadr {
                    settled.push(line);
                }
            }
            Kind::Flush => {
                self.execution.commit_flush(&event);
                settled.push(Line::containing(event.address));
            }
            Kind::FlushOpt => {
                // A thread that is alone lets instructions take effect as it issues them.
                let issued = self.moments.at(event.value).unwrap_or(self.execution.now());
                self.execution.commit_flush_opt(&event, issued);
            }
            Kind::Load | Kind::StoreFence | Kind::Fence | Kind::FailedRmw => {}
        }
        settled.sort_unstable();
        settled.dedup();
        let mut persisted = Persisted::new();
        for line in settled {
            persisted.extend(self.execution.forget_certain(line));
            if self.execution.line(line).is_none_or(|history| history.stores().is_empty()) {
                self.open.remove(&line);
            }
        }
        persisted
    }

    /// In how many states an eager checker would recover if the crash came now.
    pub(crate) fn eager_states(&self) -> BigUint {
        self.open
            .iter()
            .filter_map(|&line| self.execution.line(line))
            .map(|history| BigUint::from(history.eager_contents()))
            .product()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, thread: u16, value: u64, width: u8) -> Record {
        Record { address: ARENA.base, value, site: 0, thread, kind, width }
    }

    /// Thread 1 issues its write-back, thread 0 stores, the write-back takes effect and is fenced: it may
    /// have happened before the store.
    #[test]
    fn a_write_back_counts_from_when_it_was_issued() {
        let run = |issued| {
            let mut timeline = Timeline::new(Platform::Adr, 0);
            for next in [
                record(record::SPAWN, 0, 1, 0),
                record(Kind::Store as u8, 0, 7, 8),
                record(Kind::FlushOpt as u8, 1, issued, 0),
                record(Kind::StoreFence as u8, 1, 0, 0),
            ] {
                timeline.advance(&next);
            }
            timeline.open_lines().len()
        };
        assert_eq!(run(1), 1, "issued before the store: it may be lost");
        assert_eq!(run(2), 0, "issued after it: it is safe");
    }
}
