//! Which stores an execution made and what happened before each: the recorded run as the robustness analysis needs it.
//!
//! A store is identified by the place in the trace at which it took effect. What happens before it is determined when
//! it is issued (PSan, Figure 3); if it waited in a store buffer, the trace says when that was.

use std::collections::VecDeque;

use crashproof_protocol::{Record, record, sync};
use px86::robust::{Issued, Order};
use px86::{Kind, LINE_BYTES, Line};
use rustc_hash::{FxHashMap, FxHashSet};

/// No store: the content from before the run.
const NOBODY: u32 = u32::MAX;

/// One execution's stores.
pub(crate) struct History<'a> {
    pub(crate) records: &'a [Record],
    pub(crate) order: Order,
    /// The stores to each line, by their places in the trace.
    lines: FxHashMap<Line, Vec<u32>>,
    /// When buffered stores were issued; all others were issued when they took effect.
    issued: FxHashMap<u32, u32>,
    /// Stores the program declares may be lost at any time.
    tolerated: FxHashSet<u32>,
}

impl<'a> History<'a> {
    /// An empty history, for checks that never consult it.
    pub(crate) fn unknown() -> History<'static> {
        History {
            records: &[],
            order: Order::default(),
            lines: FxHashMap::default(),
            issued: FxHashMap::default(),
            tolerated: FxHashSet::default(),
        }
    }

    pub(crate) fn of(records: &'a [Record]) -> History<'a> {
        let mut history = History { records, ..History::unknown() };
        let threads = records.iter().any(|record| record.kind() == record::SPAWN);
        let mut readers = threads.then(Readers::default);
        // Nesting depth of tolerating brackets per thread.
        let mut tolerating: FxHashMap<u16, u32> = FxHashMap::default();
        for (at, record) in records.iter().enumerate() {
            let at = at as u32;
            match record.kind() {
                record::TOLERATE_BEGIN => *tolerating.entry(record.thread()).or_default() += 1,
                record::TOLERATE_END => {
                    let depth = tolerating.entry(record.thread()).or_default();
                    *depth = depth.saturating_sub(1);
                }
                _ => {}
            }
            let tolerated = tolerating.get(&record.thread()).is_some_and(|depth| *depth > 0);
            if let Some(readers) = &mut readers {
                readers.follow(&mut history, at, record, tolerated);
            }
            if record.event_kind().is_some_and(Kind::stores) {
                history.lines.entry(Line::containing(record.address())).or_default().push(at);
                if tolerated && !history.issued.contains_key(&at) {
                    history.tolerated.insert(at);
                }
            }
        }
        history
    }

    /// The thread that issued a store, and when.
    pub(crate) fn issued(&self, store: u32) -> Issued {
        let at = self.issued.get(&store).copied().unwrap_or(store);
        Issued { thread: self.records[store as usize].thread(), at }
    }

    pub(crate) fn is_tolerated(&self, store: u32) -> bool {
        self.tolerated.contains(&store)
    }

    /// The last stores before place `before` of the trace to the bytes of a line selected by `wanted`.
    pub(crate) fn last_writers(&self, line: Line, mut wanted: u64, before: u32) -> Vec<u32> {
        let mut writers = Vec::new();
        let Some(stores) = self.lines.get(&line) else { return writers };
        for &store in stores[..stores.partition_point(|store| *store < before)].iter().rev() {
            let record = &self.records[store as usize];
            let bits = bits(record.address(), record.width());
            if bits & wanted != 0 {
                writers.push(store);
                wanted &= !bits;
                if wanted == 0 {
                    break;
                }
            }
        }
        writers
    }

    /// The last store to a line before place `before` of the trace.
    pub(crate) fn last_store(&self, line: Line, before: u32) -> Option<u32> {
        let stores = self.lines.get(&line)?;
        Some(stores[stores.partition_point(|store| *store < before).checked_sub(1)?])
    }
}

/// The bytes of its line that an access covers, a bit each; it does not cross the line.
pub(crate) fn bits(address: u64, width: u8) -> u64 {
    (u64::MAX >> (64 - u32::from(width.clamp(1, 64)))) << (address % LINE_BYTES)
}

/// State for finding the store that a load of a multithreaded run read from.
#[derive(Default)]
struct Readers {
    /// The last store to each byte.
    writers: FxHashMap<Line, [u32; LINE_BYTES as usize]>,
    /// Each thread's buffered stores: the record of the issue, its place, and whether the store is tolerated.
    waiting: FxHashMap<u16, VecDeque<(Record, u32, bool)>>,
    /// The last change of each synchronizing object: the thread, and when.
    changed: FxHashMap<u64, (u16, u32)>,
}

impl Readers {
    fn follow(&mut self, history: &mut History, at: u32, record: &Record, tolerated: bool) {
        let thread = record.thread();
        match record.kind() {
            record::SPAWN => history.order.spawn(thread, record.value as u16, at),
            record::JOIN => history.order.join(thread, record.value as u16, at),
            record::SYNC => self.synchronized(history, at, record),
            record::ISSUE => {
                self.waiting.entry(thread).or_default().push_back((*record, at, tolerated));
            }
            _ => {}
        }
        match record.event_kind() {
            Some(Kind::Load) => self.read(history, at, record),
            Some(kind) if kind.stores() => {
                self.leaves(history, at, record);
                let start = (record.address() % LINE_BYTES) as usize;
                let line = Line::containing(record.address());
                let writers = self.writers.entry(line).or_insert([NOBODY; LINE_BYTES as usize]);
                writers[start..start + usize::from(record.width())].fill(at);
            }
            _ => {}
        }
    }

    fn synchronized(&mut self, history: &mut History, at: u32, record: &Record) {
        if record.value & sync::SAW != 0
            && let Some(&(other, then)) = self.changed.get(&sync::object(record.value))
        {
            history.order.synchronize(record.thread(), at, other, then);
        }
        if record.value & sync::CHANGED != 0 {
            self.changed.insert(sync::object(record.value), (record.thread(), at));
        }
    }

    /// A store takes effect; if it was buffered, its issue is now known. Of equal stores the oldest leaves the buffer
    /// first.
    fn leaves(&mut self, history: &mut History, at: u32, store: &Record) {
        let Some(waiting) = self.waiting.get_mut(&store.thread()) else { return };
        let same = |issued: &Record| {
            (issued.address(), issued.width(), issued.value, issued.site)
                == (store.address(), store.width(), store.value, store.site)
        };
        if let Some(index) = waiting.iter().position(|(issued, ..)| same(issued)) {
            let (_, issued, tolerated) = waiting.remove(index).expect("it was just found");
            history.issued.insert(at, issued);
            if tolerated {
                history.tolerated.insert(at);
            }
        }
    }

    fn read(&self, history: &mut History, at: u32, load: &Record) {
        let waiting = self.waiting.get(&load.thread());
        let Some(writers) = self.writers.get(&Line::containing(load.address())) else { return };
        let mut known = NOBODY;
        for address in load.address()..load.address() + u64::from(load.width()) {
            // A thread learns nothing new from its own buffer.
            let own = |(store, ..): &(Record, u32, bool)| {
                (store.address()..store.address() + u64::from(store.width())).contains(&address)
            };
            if waiting.is_some_and(|waiting| waiting.iter().any(own)) {
                continue;
            }
            let writer = writers[(address % LINE_BYTES) as usize];
            if writer != NOBODY && writer != known {
                known = writer;
                let issued = history.issued(writer);
                history.order.read(load.thread(), at, issued);
            }
        }
    }
}
