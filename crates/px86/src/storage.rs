//! One execution's cache: what reached it, in which order, and what has certainly been written back.
//!
//! This is Jaaru's second phase (Figure 8): instructions leave the store buffer and take effect here. The
//! cache keeps every store of a line in order, and for each line the moment up to which it has certainly
//! been written back, the lower end of Jaaru's write-back interval. The upper end is chosen after a crash,
//! in [`crate::survive`].

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::buffer::{Entry, Forwarded};
pub use crate::event::Seq;
use crate::{Event, Kind, Line, Platform, Thread};

/// A store that reached the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CachedStore {
    /// When it reached the cache.
    pub at: Seq,
    /// The engine's name for it.
    pub tag: u32,
    /// The store.
    pub event: Event,
}

/// The stores of one line, oldest first, and how many of them are safe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LineHistory {
    stores: Vec<CachedStore>,
    /// Everything that reached the cache up to this moment is in persistent memory.
    written_back: Seq,
}

impl LineHistory {
    /// All stores to the line in the order they reached the cache.
    pub fn stores(&self) -> &[CachedStore] {
        &self.stores
    }

    /// How many of [`Self::stores`] have certainly persisted.
    pub fn certain(&self) -> usize {
        self.stores.partition_point(|store| store.at <= self.written_back)
    }

    /// The moment of the last certain write-back.
    pub fn written_back(&self) -> Seq {
        self.written_back
    }

    /// The number of different contents the line may have after a crash now, as counted by an eager checker: one for
    /// each store that may be the last to survive.
    pub fn eager_contents(&self) -> usize {
        self.stores.len() - self.certain() + 1
    }

    fn write_back(&mut self, moment: Seq) {
        self.written_back = self.written_back.max(moment);
    }
}

/// The effect of a thread's earlier instructions on its flushes.
#[derive(Clone, Debug, Default)]
struct ThreadState {
    /// When the last fence completed: no later `clflushopt` takes effect before.
    fenced: Seq,
    /// For each line, when the thread's last store or `clflush` to it took effect.
    touched: FxHashMap<Line, Seq>,
    /// Write-backs begun and not yet certain: the line, and up to which moment they cover its stores.
    pending: Vec<(Line, Seq)>,
}

/// The cache of one execution, from its start (or the last crash) on.
#[derive(Clone, Debug, Default)]
pub struct Execution {
    platform: Platform,
    now: Seq,
    lines: BTreeMap<Line, LineHistory>,
    threads: BTreeMap<Thread, ThreadState>,
}

impl Execution {
    /// An execution in which nothing has happened yet.
    pub fn new(platform: Platform) -> Execution {
        Execution { platform, ..Execution::default() }
    }

    /// The present moment.
    pub fn now(&self) -> Seq {
        self.now
    }

    /// Every line that was stored to or flushed, with its history.
    pub fn lines(&self) -> impl Iterator<Item = (Line, &LineHistory)> {
        self.lines.iter().map(|(&line, history)| (line, history))
    }

    /// The history of a line, if it has one.
    pub fn line(&self, line: Line) -> Option<&LineHistory> {
        self.lines.get(&self.platform.unit(line))
    }

    /// The write-backs that `thread` has begun and not yet completed by a fence.
    pub fn pending(&self, thread: Thread) -> &[(Line, Seq)] {
        self.threads.get(&thread).map_or(&[], |state| &state.pending)
    }

    /// Forgets the stores of a line that have certainly persisted, and returns them, oldest first. The remaining ones
    /// may be lost; a line without any is forgotten entirely.
    ///
    /// For long runs: if the content of persistent memory is kept elsewhere, only the open stores are needed. The
    /// execution can then no longer tell what it read, or how often an eager checker would run recovery.
    pub fn forget_certain(&mut self, line: Line) -> Vec<CachedStore> {
        let line = self.platform.unit(line);
        let Some(history) = self.lines.get_mut(&line) else { return Vec::new() };
        let certain = history.certain();
        let forgotten = history.stores.drain(..certain).collect();
        if history.stores.is_empty() {
            self.lines.remove(&line);
        }
        forgotten
    }

    /// The bytes of a load that stores of this execution supply; the tags say which.
    pub fn read(&self, address: u64, width: u8) -> Forwarded {
        let mut seen = Forwarded::default();
        let Some(history) = self.line(Line::containing(address)) else { return seen };
        let wanted = u64::MAX >> (64 - 8 * u32::from(width));
        for store in history.stores.iter().rev() {
            store.event.overlay(address, width, |byte, value| {
                if seen.tags[byte].is_none() {
                    seen.value |= u64::from(value) << (8 * byte);
                    seen.mask |= 0xff << (8 * byte);
                    seen.tags[byte] = Some(store.tag);
                }
            });
            if seen.mask == wanted {
                break;
            }
        }
        seen
    }

    /// Would letting `event` take effect make any store certain that may still be lost?
    ///
    /// Crashing just before such an event, and at the end, shows every state that any crash can leave: until then the
    /// set of possible states only grows (Jaaru, "Injecting failures"). With persistent caches, a store makes the
    /// previous content unreachable.
    pub fn would_persist(&self, event: &Event) -> bool {
        match event.kind {
            Kind::Flush => {
                let line = Line::containing(event.address);
                let open = |history: &LineHistory| history.certain() < history.stores.len();
                self.platform.domain(line).is_flushed_by(event) && self.line(line).is_some_and(open)
            }
            kind => {
                kind.fences() && self.fence_would_persist(event.thread)
                    || kind.stores() && self.platform.cache_survives(Line::containing(event.address))
            }
        }
    }

    /// Would a fence of `thread` make any store certain that may still be lost?
    pub fn fence_would_persist(&self, thread: Thread) -> bool {
        self.pending(thread).iter().any(|(line, moment)| {
            self.lines.get(line).is_some_and(|history| {
                history.stores.get(history.certain()).is_some_and(|store| store.at <= *moment)
            })
        })
    }

    /// Lets an entry that left its store buffer take effect.
    pub fn commit(&mut self, entry: &Entry) {
        let event = &entry.event;
        match event.kind {
            Kind::Store | Kind::NonTemporalStore => self.commit_store(event, entry.tag),
            // A locked instruction is a fence, and then a store.
            Kind::Rmw => {
                self.fence(event.thread);
                self.commit_store(event, entry.tag);
            }
            Kind::Flush => self.commit_flush(event),
            Kind::FlushOpt => self.commit_flush_opt(event, entry.issued),
            Kind::StoreFence | Kind::Fence | Kind::FailedRmw => self.fence(event.thread),
            Kind::Load => {}
        }
    }

    /// A store reaches the cache. A non-temporal one begins its own write-back.
    pub fn commit_store(&mut self, event: &Event, tag: u32) {
        let line = self.platform.unit(Line::containing(event.address));
        let at = self.tick();
        let history = self.lines.entry(line).or_default();
        history.stores.push(CachedStore { at, tag, event: *event });
        if self.platform.cache_survives(line) {
            history.write_back(at);
        }
        let thread = self.threads.entry(event.thread).or_default();
        thread.touched.insert(line, at);
        if event.kind.write_back().is_some() && self.platform.domain(line).writes_past_cache() {
            thread.pending.push((line, at));
        }
    }

    /// `clflush` takes effect: the line is written back now.
    pub fn commit_flush(&mut self, event: &Event) {
        let line = self.platform.unit(Line::containing(event.address));
        let at = self.tick();
        if !self.platform.domain(line).is_flushed_by(event) {
            return;
        }
        self.lines.entry(line).or_default().write_back(at);
        self.threads.entry(event.thread).or_default().touched.insert(line, at);
    }

    /// `clflushopt` or `clwb` takes effect: a write-back begins that the thread's next fence completes.
    ///
    /// It may have happened as early as the last instruction it cannot overtake: when it was issued, the
    /// thread's last fence, its last store or `clflush` to the line.
    pub fn commit_flush_opt(&mut self, event: &Event, issued: Seq) {
        let line = self.platform.unit(Line::containing(event.address));
        if !self.platform.domain(line).is_flushed_by(event) {
            return;
        }
        let thread = self.threads.entry(event.thread).or_default();
        let touched = thread.touched.get(&line).copied().unwrap_or(0);
        thread.pending.push((line, issued.max(touched).max(thread.fenced)));
    }

    /// A fence (`sfence`, `mfence` or a locked instruction) of `thread` completes, and with it every
    /// write-back the thread had begun.
    pub fn fence(&mut self, thread: Thread) {
        let at = self.tick();
        let state = self.threads.entry(thread).or_default();
        state.fenced = at;
        for (line, moment) in state.pending.drain(..) {
            self.lines.entry(line).or_default().write_back(moment);
        }
    }

    /// Advances time without any effect.
    pub fn pass(&mut self) -> Seq {
        self.tick()
    }

    fn tick(&mut self) -> Seq {
        self.now += 1;
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Site;

    const X: u64 = 0;
    const Y: u64 = 64;

    fn event(kind: Kind, thread: u16, address: u64, value: u64) -> Event {
        let width = if kind.stores() { 8 } else { 0 };
        Event { address, value, site: Site(0), thread: Thread(thread), kind, width }
    }

    fn certain(execution: &Execution, address: u64) -> usize {
        execution.line(Line::containing(address)).map_or(0, LineHistory::certain)
    }

    #[test]
    fn clflush_makes_earlier_stores_certain() {
        let mut execution = Execution::default();
        execution.commit_store(&event(Kind::Store, 0, X, 1), 0);
        assert_eq!(certain(&execution, X), 0);
        execution.commit_flush(&event(Kind::Flush, 1, X, 0));
        execution.commit_store(&event(Kind::Store, 0, X, 2), 1);
        assert_eq!(certain(&execution, X), 1);
    }

    #[test]
    fn clflushopt_counts_only_through_a_fence_of_its_own_thread() {
        let mut execution = Execution::default();
        execution.commit_store(&event(Kind::Store, 0, X, 1), 0);
        execution.commit_flush_opt(&event(Kind::FlushOpt, 0, X, 0), 0);
        execution.fence(Thread(1));
        assert_eq!(certain(&execution, X), 0);
        assert!(execution.fence_would_persist(Thread(0)));
        execution.fence(Thread(0));
        assert_eq!(certain(&execution, X), 1);
    }

    #[test]
    fn clflushopt_may_have_happened_when_it_was_issued() {
        let mut execution = Execution::default();
        // Issued by thread 1 at moment 0, before thread 0's store reached the cache.
        execution.commit_store(&event(Kind::Store, 0, X, 1), 0);
        execution.commit_flush_opt(&event(Kind::FlushOpt, 1, X, 0), 0);
        execution.fence(Thread(1));
        assert_eq!(certain(&execution, X), 0);
    }

    #[test]
    fn a_non_temporal_store_is_certain_after_the_next_fence() {
        let mut execution = Execution::default();
        execution.commit_store(&event(Kind::NonTemporalStore, 0, Y, 1), 0);
        assert_eq!(certain(&execution, Y), 0);
        execution.fence(Thread(0));
        assert_eq!(certain(&execution, Y), 1);
    }

    #[test]
    fn with_eadr_the_cache_is_safe() {
        let mut execution = Execution::new(Platform::EADR);
        execution.commit_store(&event(Kind::Store, 0, X, 1), 0);
        assert_eq!(certain(&execution, X), 1);
        assert_eq!(execution.line(Line::containing(X)).unwrap().eager_contents(), 1);
    }
}
