//! A recorded run, replayed through px86 to any point, and its crash points.

use std::collections::{BTreeMap, BTreeSet};

use crashproof_protocol::{FACTS, Record, record};
use num_bigint::BigUint;
use px86::overtake;
use px86::storage::{CachedStore, Execution, Seq};
use px86::{Domain, Kind, Line, Platform};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::subject::Durable;

/// A run at some point of its course.
pub(crate) struct Timeline {
    execution: Execution,
    /// The number of records that have taken effect.
    pub(crate) at: usize,
    /// Lines that may lose stores.
    open: BTreeSet<Line>,
    /// The same lines, for the question that every read of every walk asks.
    is_open: FxHashSet<Line>,
    /// Non-temporal stores that come later in the program but may have overtaken the next records; see
    /// [`Timeline::look_ahead`].
    early: BTreeMap<Line, Vec<CachedStore>>,
    /// Stores overtaken by those: they have not persisted, although something younger may have. Used only with
    /// persistent caches; elsewhere these stores can be lost later, too.
    overtaken: BTreeMap<Line, Vec<CachedStore>>,
    /// Non-temporal stores of a single-threaded program with persistent caches: they may still be pending, while later
    /// stores persist at once. (Without persistent caches, a line that was not written back expresses the same.)
    late: BTreeMap<Line, Vec<CachedStore>>,
    /// The current state of what is durable at once.
    pub(crate) durable: Durable,
    /// Has anything been stored since the last crash point?
    written: bool,
    /// Was a size or a name made durable at once since then?
    settled: bool,
    platform: Platform,
    /// The site of the last record, and of the next one, if any.
    last_site: u32,
    next_site: Option<u32>,
    moments: Moments,
    /// The places of the next non-temporal store and the next fence, if ahead; see [`Timeline::may_be_overtaken`].
    next_non_temporal: usize,
    next_fence: usize,
    /// The youngest store that has certainly persisted, by its place in the trace.
    certain_until: u32,
    /// Lines whose possible contents have changed; see [`Timeline::take_changed`].
    changed: Vec<Line>,
    /// Calls of `write` to files on a disk, as ranges of their stores.
    writes: Vec<std::ops::Range<u32>>,
    /// Sites whose stores are assumed to persist at once; see [`Timeline::assume`].
    assumed_sites: BTreeSet<u32>,
    /// How many of a line's open stores, oldest first, are assumed to have persisted. They still count among
    /// [`Timeline::stores`], so that numbers of surviving stores mean the same with and without assumptions.
    assumed: FxHashMap<Line, usize>,
}

/// The model's time for each length of the trace since the second thread was created: a `clflushopt` may have waited in
/// a store buffer, and counts from its issue.
#[derive(Default)]
pub(crate) struct Moments {
    /// Length of the trace when the second thread was created.
    first: usize,
    moments: Vec<Seq>,
}

impl Moments {
    /// The time at which the trace had this length; `None` before there were threads.
    pub(crate) fn at(&self, length: u64) -> Option<Seq> {
        self.moments.get(usize::try_from(length).ok()?.checked_sub(self.first)?).copied()
    }

    /// Records the time after a record took effect, with which the trace reached this length.
    pub(crate) fn after(&mut self, length: usize, record: &Record, moment: Seq) {
        if self.moments.is_empty() && record.kind() == record::SPAWN {
            self.first = length;
        } else if self.moments.is_empty() {
            return;
        }
        self.moments.push(moment);
    }
}

/// Stores that became certain and belong in the image.
pub(crate) type Persisted = Vec<CachedStore>;

impl Timeline {
    fn new(platform: &Platform, durable: Durable) -> Timeline {
        let mut platform = platform.clone();
        if platform.any_cache_survives() {
            // Names and sizes of files are kept by the kernel, not the cache.
            let facts = Line::containing(FACTS.base)..Line::containing(FACTS.end());
            platform = platform.with(facts, Domain::Adr);
        }
        Timeline {
            execution: Execution::new(platform.clone()),
            at: 0,
            open: BTreeSet::new(),
            is_open: FxHashSet::default(),
            early: BTreeMap::new(),
            overtaken: BTreeMap::new(),
            late: BTreeMap::new(),
            durable,
            written: false,
            settled: false,
            platform,
            last_site: 0,
            next_site: None,
            moments: Moments::default(),
            next_non_temporal: 0,
            next_fence: 0,
            certain_until: 0,
            writes: Vec::new(),
            changed: Vec::new(),
            assumed_sites: BTreeSet::new(),
            assumed: FxHashMap::default(),
        }
    }

    /// The start of the recorded run.
    pub(crate) fn first(platform: &Platform) -> Timeline {
        // With persistent caches, the state before the first store exists only before it.
        let written = platform.any_cache_survives();
        Timeline { written, ..Timeline::new(platform, Durable::nothing()) }
    }

    /// The start of a recovery after `before` crashed: what is durable at once carries over.
    pub(crate) fn after(platform: &Platform, before: &Timeline) -> Timeline {
        Timeline::new(platform, before.durable)
    }

    /// Lines that may lose stores, or on which stores may have persisted early.
    pub(crate) fn open_lines(&self) -> impl Iterator<Item = Line> + '_ {
        self.open_units().flat_map(|unit| self.platform.together(unit).map(Line))
    }

    /// The same, with one line for each group that survives together.
    fn open_units(&self) -> impl Iterator<Item = Line> + '_ {
        let late = self.late.keys();
        let early =
            self.early.keys().filter(|line| !self.open.contains(line) && !self.late.contains_key(line));
        self.open.iter().chain(late).chain(early).copied()
    }

    /// The lines that survive a crash together with this one.
    pub(crate) fn together(&self, line: Line) -> std::ops::Range<u64> {
        self.platform.together(line)
    }

    /// The first line of the group that survives together.
    pub(crate) fn unit(&self, line: Line) -> Line {
        self.platform.unit(line)
    }

    pub(crate) fn is_open(&self, line: Line) -> bool {
        self.is_open.contains(&self.platform.unit(line))
            || self.late.contains_key(&line)
            || self.early.contains_key(&line)
    }

    /// Do two stores to one sector belong to one `write`, so that they survive together?
    pub(crate) fn are_joined(&self, one: &CachedStore, other: &CachedStore) -> bool {
        let after = self.writes.partition_point(|write| write.start <= one.tag);
        after
            .checked_sub(1)
            .is_some_and(|at| self.writes[at].contains(&one.tag) && self.writes[at].contains(&other.tag))
    }

    /// The open stores to a line and to those that survive together with it: any number of them, oldest first, may have
    /// persisted.
    pub(crate) fn stores(&self, line: Line) -> Vec<CachedStore> {
        self.each_store(line).copied().collect()
    }

    /// The same as an iterator.
    pub(crate) fn each_store(&self, line: Line) -> impl Iterator<Item = &CachedStore> {
        let stores = self.execution.line(line).map_or(&[][..], |history| history.stores());
        let waiting = [&self.late, &self.early].into_iter().filter_map(move |stores| stores.get(&line));
        stores.iter().chain(waiting.flatten())
    }

    /// How many of [`Timeline::stores`] are assumed to have persisted.
    pub(crate) fn assumed(&self, line: Line) -> usize {
        self.assumed.get(&line).copied().unwrap_or(0)
    }

    /// From here on, stores of these sites are assumed to persist at once, together with all earlier stores to the same
    /// line. Returns those already made but not returned yet.
    pub(crate) fn assume(&mut self, sites: &BTreeSet<u32>) -> Persisted {
        self.assumed_sites.clone_from(sites);
        let lines: Vec<Line> = self.open.iter().copied().collect();
        lines.into_iter().flat_map(|line| self.assume_line(line)).collect()
    }

    /// Closes a line up to the stores assumed to have persisted, and returns them.
    fn assume_line(&mut self, line: Line) -> Persisted {
        // A sector would require closing all its lines.
        let together = self.together(line);
        if together.end - together.start > 1 {
            return Persisted::new();
        }
        let stores = self.execution.line(line).map_or(&[][..], |history| history.stores());
        let known = self.assumed(line);
        let assumed = |store: &CachedStore| self.assumed_sites.contains(&store.event.site.0);
        let Some(last) = stores[known..].iter().rposition(assumed) else { return Persisted::new() };
        let until = known + last + 1;
        let persisted = stores[known..until].to_vec();
        let all = until == stores.len();
        let youngest = persisted.last().map_or(0, |store| store.tag);
        self.certain_until = self.certain_until.max(youngest);
        self.assumed.insert(line, until);
        self.changed.push(line);
        if all {
            self.close(line);
        }
        persisted
    }

    /// Stores to a line that have not persisted, although younger ones to other lines may have, in addition to
    /// [`Timeline::stores`].
    pub(crate) fn overtaken(&self, line: Line) -> &[CachedStore] {
        self.overtaken.get(&line).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn overtakes(&self) -> bool {
        !self.overtaken.is_empty()
    }

    /// The youngest store that has certainly persisted, by its place in the trace.
    pub(crate) fn certain_until(&self) -> u32 {
        self.certain_until
    }

    /// Passes on the lines whose possible contents have changed since the last call.
    pub(crate) fn take_changed(&mut self, each: impl FnMut(Line)) {
        let platform = &self.platform;
        self.changed.drain(..).flat_map(|line| platform.together(line).map(Line)).for_each(each);
    }

    /// Is this a crash point? That is the case if something was stored since the last one, and the next record makes a
    /// store certain or the run ends.
    pub(crate) fn is_crash_point(&mut self, records: &[Record]) -> bool {
        self.next_site = records.get(self.at).map(|next| next.site);
        let next = records.get(self.at);
        // Nothing else shows that what was settled is there and what follows is not.
        let settled = self.settled && next.is_none_or(stores_fact);
        if !self.written && !settled {
            return false;
        }
        self.look_ahead(records);
        let Some(next) = next.filter(|_| !settled) else { return true };
        let Some(event) = next.event() else { return false };
        self.late_before(&event).next().is_some()
            || !self.may_wait(&event) && self.execution.would_persist(&event)
    }

    /// Does a store wait here, rather than in the runtime's buffer?
    fn may_wait(&self, event: &px86::Event) -> bool {
        self.moments.moments.is_empty() && overtake::may_wait(&self.platform, event)
    }

    /// The lines whose pending stores take effect before an instruction does.
    fn late_before(&self, event: &px86::Event) -> impl Iterator<Item = Line> {
        self.late.keys().copied().filter(|line| overtake::forces_out(event, *line))
    }

    /// Finds the non-temporal stores that may have overtaken the record about to take effect, which makes everything
    /// before it certain: a `clflush`, or a store if caches are persistent.
    ///
    /// In the recorded run of a single thread, everything takes effect in program order. That hides only one behavior:
    /// a non-temporal store need not wait for an earlier `clflush` of another line, so it may persist even if the crash
    /// precedes the `clflush`. (Runs of several threads have real buffers.)
    fn look_ahead(&mut self, records: &[Record]) {
        self.forget_early();
        if !self.moments.moments.is_empty() {
            return;
        }
        let settles = |event: &px86::Event| overtake::settles_at_once(&self.platform, event);
        let Some(next) = records.get(self.at).and_then(Record::event).filter(settles) else { return };
        if !self.may_be_overtaken(records) {
            return;
        }
        let events = (self.at as u32..).zip(&records[self.at..]);
        let events = events.filter_map(|(index, record)| record.event().map(|event| (index, event)));
        let own = events.take_while(|(_, event)| event.thread == next.thread);
        let found = overtake::overtaking(&self.platform, own);
        let now = self.execution.now() + 1;
        for (stores, into) in [(found.early, &mut self.early), (found.overtaken, &mut self.overtaken)] {
            for (tag, event) in stores {
                let at = now + u64::from(tag) - self.at as u64;
                self.changed.push(Line::containing(event.address));
                into.entry(Line::containing(event.address)).or_default().push(CachedStore { at, tag, event });
            }
        }
    }

    /// Is there a non-temporal store before the next fence that nothing may overtake? Asked at every `clflush`, so the
    /// result is cached and the run is scanned only once.
    fn may_be_overtaken(&mut self, records: &[Record]) -> bool {
        let next = |from: usize, wanted: &dyn Fn(Kind) -> bool| {
            let mut kinds = records[from..].iter().map(|record| record.event_kind().is_some_and(wanted));
            kinds.position(|found| found).map_or(records.len(), |found| from + found)
        };
        if self.next_non_temporal <= self.at {
            self.next_non_temporal = next(self.at + 1, &overtake::may_overtake);
        }
        if self.next_fence <= self.at {
            self.next_fence = next(self.at + 1, &overtake::stops_overtaking);
        }
        self.next_non_temporal < self.next_fence
    }

    /// Where a crash at this point is reported: just before this site, or at the end of the run, whose last site it is.
    pub(crate) fn next_site(&self) -> (u32, bool) {
        (self.next_site.unwrap_or(self.last_site), self.next_site.is_none())
    }

    /// The crash at this point has been handled.
    pub(crate) fn crashed(&mut self) {
        (self.written, self.settled) = (false, false);
        self.forget_early();
    }

    fn forget_early(&mut self) {
        self.changed.extend(self.early.keys().chain(self.overtaken.keys()));
        self.early.clear();
        self.overtaken.clear();
    }

    /// Lets the next record take effect; returns what became certain.
    pub(crate) fn advance(&mut self, next: &Record) -> Persisted {
        let persisted = self.take_effect(next);
        self.moments.after(self.at, next, self.execution.now());
        persisted
    }

    /// Lets the next record of a recovery take effect; adds what became certain to `persisted`.
    pub(crate) fn advance_into(&mut self, next: &Record, persisted: &mut FxHashMap<Line, Vec<CachedStore>>) {
        for store in self.advance(next) {
            persisted.entry(Line::containing(store.event.address)).or_default().push(store);
        }
    }

    fn take_effect(&mut self, next: &Record) -> Persisted {
        self.at += 1;
        self.last_site = next.site;
        let Some(event) = next.event() else {
            match next.kind() {
                record::ARENA => self.durable.arena_end = next.value,
                record::HEAP => self.durable.heap_ends[next.address() as usize] = next.value,
                record::SETTLED => return self.settle(next),
                record::WRITE if next.value != 0 => self.writes.push(self.at as u32..u32::MAX),
                record::WRITE => {
                    if let Some(last) = self.writes.last_mut() {
                        last.end = self.at as u32;
                    }
                }
                // From here on stores wait in the runtime's buffers; creating a thread always fences.
                record::SPAWN => {
                    let settled: Vec<Line> = self.late.keys().copied().collect();
                    settled.iter().for_each(|line| self.no_longer_waits(*line));
                    return self.forget(settled);
                }
                _ => {}
            }
            return Persisted::new();
        };
        let thread = event.thread;
        let mut assumed: Vec<Line> = Vec::new();
        let mut settled: Vec<Line> = self.late_before(&event).collect();
        settled.iter().for_each(|line| self.no_longer_waits(*line));
        if event.kind.fences() {
            settled.extend(self.execution.pending(thread).iter().map(|pending| pending.0));
            self.execution.fence(thread);
        }
        match event.kind {
            _ if self.may_wait(&event) => {
                let (at, tag) = (self.execution.pass(), self.at as u32 - 1);
                let line = Line::containing(event.address);
                self.changed.push(line);
                let waiting = self.late.entry(line).or_default();
                waiting.push(CachedStore { at, tag, event });
                self.written = true;
            }
            Kind::Store | Kind::NonTemporalStore | Kind::Rmw => {
                let line = self.platform.unit(Line::containing(event.address));
                self.execution.commit_store(&event, self.at as u32 - 1);
                if self.is_open.insert(line) {
                    self.open.insert(line);
                }
                self.changed.push(line);
                self.written = true;
                if self.platform.cache_survives(line) {
                    settled.push(line);
                } else if self.assumed_sites.contains(&event.site.0) {
                    assumed.push(line);
                }
            }
            Kind::Flush => {
                self.execution.commit_flush(&event);
                settled.push(self.platform.unit(Line::containing(event.address)));
            }
            Kind::FlushOpt => {
                // A single thread's instructions take effect when issued.
                let issued = self.moments.at(event.value).unwrap_or(self.execution.now());
                self.execution.commit_flush_opt(&event, issued);
            }
            Kind::Load | Kind::StoreFence | Kind::Fence | Kind::FailedRmw => {}
        }
        settled.sort_unstable();
        settled.dedup();
        let mut persisted = self.forget(settled);
        persisted.extend(assumed.into_iter().flat_map(|line| self.assume_line(line)));
        persisted
    }

    /// Makes the content of a word durable immediately, without a crash point: as if it had been durable when stored.
    fn settle(&mut self, next: &Record) -> Persisted {
        let line = self.platform.unit(Line::containing(next.address()));
        let (site, thread) = (px86::Site(next.site), px86::Thread(next.thread()));
        let kind = Kind::Flush;
        let flush = px86::Event { address: next.address(), value: 0, site, thread, kind, width: 1 };
        self.no_longer_waits(line);
        self.execution.commit_flush(&flush);
        let persisted = self.forget(vec![line]);
        let nothing_open = self.open.is_empty() && self.late.is_empty();
        self.written &= !nothing_open || self.platform.any_cache_survives();
        self.settled = true;
        persisted
    }

    fn close(&mut self, line: Line) {
        if self.is_open.remove(&line) {
            self.open.remove(&line);
        }
    }

    /// Lets the pending stores to a line take effect.
    fn no_longer_waits(&mut self, line: Line) {
        self.changed.push(line);
        for store in self.late.remove(&line).into_iter().flatten() {
            self.execution.commit_store(&store.event, store.tag);
        }
    }

    /// Closes what has become certain on these lines.
    fn forget(&mut self, settled: Vec<Line>) -> Persisted {
        let mut persisted = Persisted::new();
        for line in settled {
            self.changed.push(line);
            let certain = self.execution.forget_certain(line);
            // Stores assumed to have persisted were already returned.
            let known = self.assumed.remove(&line).unwrap_or(0);
            if known > certain.len() {
                self.assumed.insert(line, known - certain.len());
            }
            persisted.extend(certain.into_iter().skip(known));
            let youngest = persisted.last().map_or(0, |store: &CachedStore| store.tag);
            self.certain_until = self.certain_until.max(youngest);
            let left = self.execution.line(line).map_or(0, |history| history.stores().len());
            if left <= self.assumed(line) {
                self.close(line);
            }
        }
        persisted
    }

    /// The number of states in which an eager checker would run recovery if the crash came now.
    pub(crate) fn eager_states(&self) -> BigUint {
        self.open_units().map(|line| BigUint::from(self.each_store(line).count() + 1)).product()
    }
}

/// Does a record store a size or a name of a file?
fn stores_fact(record: &Record) -> bool {
    record.event_kind().is_some_and(Kind::stores) && FACTS.contains(record.address())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crashproof_protocol::ARENA;

    fn record(kind: u8, thread: u16, value: u64, width: u8) -> Record {
        Record::new(kind, ARENA.base, width, value, thread, 0)
    }

    /// Stores assumed to persist are returned once, count as persisted, and do not change how stores are counted.
    #[test]
    fn what_is_assumed_to_persist_is_certain() {
        let store = |value, site| Record::new(Kind::Store as u8, ARENA.base, 8, value, 0, site);
        let line = Line::containing(ARENA.base);
        let values = |persisted: Persisted| persisted.iter().map(|it| it.event.value).collect::<Vec<_>>();
        let mut timeline = Timeline::new(&Platform::ADR, Durable::nothing());
        timeline.advance(&store(1, 1));
        timeline.advance(&store(2, 2));
        timeline.advance(&store(3, 3));
        assert_eq!(values(timeline.assume(&BTreeSet::from([2]))), [1, 2]);
        assert_eq!(
            (timeline.stores(line).len(), timeline.assumed(line), timeline.is_open(line)),
            (3, 2, true)
        );
        assert_eq!(values(timeline.assume(&BTreeSet::from([2]))), [0; 0]);
        assert_eq!(values(timeline.advance(&store(4, 2))), [3, 4]);
        assert!(!timeline.is_open(line));
        timeline.advance(&store(5, 1));
        assert!(timeline.is_open(line));
        assert_eq!(values(timeline.advance(&record(Kind::Flush as u8, 0, 0, 0))), [5]);
        assert_eq!(
            (timeline.stores(line).len(), timeline.assumed(line), timeline.is_open(line)),
            (0, 0, false)
        );
    }

    /// Thread 1 issues its write-back, thread 0 stores, then the write-back takes effect and is fenced: it may have
    /// happened before the store.
    #[test]
    fn a_write_back_counts_from_when_it_was_issued() {
        let run = |issued| {
            let mut timeline = Timeline::new(&Platform::ADR, Durable::nothing());
            for next in [
                record(record::SPAWN, 0, 1, 0),
                record(Kind::Store as u8, 0, 7, 8),
                record(Kind::FlushOpt as u8, 1, issued, 0),
                record(Kind::StoreFence as u8, 1, 0, 0),
            ] {
                timeline.advance(&next);
            }
            timeline.open_lines().count()
        };
        assert_eq!(run(1), 1, "issued before the store: it may be lost");
        assert_eq!(run(2), 0, "issued after it: it is safe");
    }
}
