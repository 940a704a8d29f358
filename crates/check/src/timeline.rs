//! The recorded run, replayed through the model up to any moment, and the places to crash.

use std::collections::BTreeSet;

use crashproof_protocol::{ARENA, HEAP_CLASSES, Record, record};
use num_bigint::BigUint;
use px86::storage::{CachedStore, Execution};
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
    /// Files that do not exist now, although a run left them on disk; a bit each.
    pub(crate) files_absent: u64,
    /// Ends of the heap's size classes now.
    pub(crate) heap_ends: [u64; HEAP_CLASSES],
    /// Was anything stored since the last crash?
    written: bool,
    platform: Platform,
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
            files_absent: 0,
            heap_ends: [0; HEAP_CLASSES],
            written: false,
            platform,
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
        self.at += 1;
        let Some(event) = next.event() else {
            match next.kind {
                record::ARENA => self.arena_end = next.value,
                record::FILE if next.value == 0 => self.files_absent |= 1 << next.address,
                record::FILE => self.files_absent &= !(1 << next.address),
                record::HEAP => self.heap_ends[next.address as usize] = next.value,
                _ => {}
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
            // Recorded runs let instructions take effect as they are issued.
            Kind::FlushOpt => self.execution.commit_flush_opt(&event, self.execution.now()),
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
