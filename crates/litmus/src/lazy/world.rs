//! A state of a run: the program, the store buffers, the cache, and the possible results of earlier crashes.

use px86::buffer::{Entry, StoreBuffer};
use px86::robust::{Clocks, Intervals, Observation, StoreRef, Violation};
use px86::storage::{Execution, LineHistory};
use px86::survive::{CrashStack, LineState, Source};
use px86::{Event, Kind, Line, Platform, Site, Thread};

use crate::lazy::observer::{Happened, Past, Path, What};
use crate::lazy::subject::{Next, Subject};

/// A state of a run.
#[derive(Clone)]
pub(super) struct World<S> {
    pub(super) subject: S,
    pub(super) buffers: Vec<StoreBuffer>,
    pub(super) execution: Execution,
    pub(super) clocks: Clocks,
    pub(super) stack: CrashStack,
    pub(super) past: Vec<Past>,
    pub(super) intervals: Intervals,
    pub(super) crashes: usize,
    /// Was anything stored since the last crash point? Before the first one, a crash is due anyway.
    pub(super) written: bool,
    pub(super) path: Path,
}

/// What may happen next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Choice {
    /// The thread's next instruction runs.
    Run(usize),
    /// A buffered entry takes effect.
    Leave(usize, usize),
}

impl<S: Subject> World<S> {
    pub(super) fn new(subject: S, stack: CrashStack, platform: &Platform) -> World<S> {
        World {
            buffers: vec![StoreBuffer::default(); subject.threads()],
            subject,
            execution: Execution::new(platform.clone()),
            clocks: Clocks::default(),
            stack,
            past: Vec::new(),
            intervals: Intervals::default(),
            crashes: 0,
            written: true,
            path: Path::default(),
        }
    }

    pub(super) fn note(&mut self, thread: usize, site: Site, what: What) {
        self.path.push(Happened { thread, site, what });
    }

    /// Performs everything that needs no choice.
    pub(super) fn settle(&mut self) {
        loop {
            let mut changed = false;
            for thread in 0..self.buffers.len() {
                while self.run_quietly(thread) || self.leave_quietly(thread) {
                    changed = true;
                }
            }
            if !changed {
                return;
            }
        }
    }

    fn run_quietly(&mut self, thread: usize) -> bool {
        match self.subject.next(thread) {
            Next::Act { event, .. } if event.kind == Kind::Fence => {
                let quiet = self.buffers[thread].is_empty()
                    && !self.execution.fence_would_persist(Thread(thread as u16));
                if quiet {
                    self.fence(thread, event.site);
                }
                quiet
            }
            Next::Act { event, tag } => {
                if event.kind.stores() {
                    self.clocks.issue(thread, tag);
                }
                self.buffers[thread].push(Entry { event, issued: self.execution.now(), tag });
                self.subject.advance(thread, 0);
                true
            }
            Next::Load { address, width, site } if self.buffers.len() == 1 => {
                let Some(value) = self.certain_value(thread, address, width) else { return false };
                self.load(thread, address, width, site, value, None);
                true
            }
            _ => false,
        }
    }

    pub(super) fn fence(&mut self, thread: usize, site: Site) {
        self.execution.fence(Thread(thread as u16));
        self.subject.advance(thread, 0);
        self.note(thread, site, What::Fenced);
    }

    /// The moment a `clflushopt` counts from is settled when it may leave, and a fence that completes
    /// nothing does nothing.
    fn leave_quietly(&mut self, thread: usize) -> bool {
        let quiet = self.buffers[thread].ready().find(|&index| {
            let entry = self.buffers[thread].get(index).expect("a ready entry");
            match entry.event.kind {
                Kind::FlushOpt => true,
                Kind::StoreFence | Kind::Flush => !self.execution.would_persist(&entry.event),
                _ => false,
            }
        });
        quiet.map(|index| self.leave(thread, index)).is_some()
    }

    pub(super) fn leave(&mut self, thread: usize, index: usize) {
        let entry = self.buffers[thread].remove(index);
        self.execution.commit(&entry);
        self.written |= entry.event.kind.stores();
        let what = match entry.event.kind {
            Kind::StoreFence => What::Fenced,
            Kind::Flush | Kind::FlushOpt => What::Flushed,
            _ => What::Cached(entry.event.value),
        };
        self.note(thread, entry.event.site, what);
    }

    /// The bytes of a load that this execution supplies: value, and a mask of what is missing.
    pub(super) fn own_bytes(&self, thread: usize, address: u64, width: u8) -> (u64, u64) {
        let wanted = u64::MAX >> (64 - 8 * u32::from(width));
        let buffered = self.buffers[thread].forward(address, width);
        let cached = self.execution.read(address, width);
        let value = buffered.value | cached.value & !buffered.mask;
        (value, wanted & !(buffered.mask | cached.mask))
    }

    /// The value of a load if there is only one it can have, and only one way to have it.
    fn certain_value(&mut self, thread: usize, address: u64, width: u8) -> Option<u64> {
        let (own, missing) = self.own_bytes(thread, address, width);
        if missing == 0 {
            return Some(own);
        }
        match &self.branches(address, width, missing)[..] {
            [only] if self.past.is_empty() => Some(own | only.value),
            _ => None,
        }
    }

    /// The different ways in which the bytes of `missing` may have come through the crashes.
    pub(super) fn branches(&mut self, address: u64, width: u8, missing: u64) -> Vec<Branch> {
        let states = self.stack.states(Line::containing(address)).to_vec();
        let mut branches: Vec<Branch> = Vec::new();
        for state in states {
            let mut sources = [None; 8];
            for (byte, source) in sources.iter_mut().enumerate().take(usize::from(width)) {
                if missing >> (8 * byte) & 0xff != 0 {
                    *source = self.stack.source(address + byte as u64, &state);
                }
            }
            match branches.iter_mut().find(|branch| branch.sources == sources) {
                Some(branch) => branch.states.push(state),
                None => {
                    let value = self.stack.value(address, width, &state) & missing;
                    branches.push(Branch { value, sources, states: vec![state] });
                }
            }
        }
        branches
    }

    /// Completes a load with a value; `branch` says what that means for persistent memory.
    pub(super) fn load(
        &mut self,
        thread: usize,
        address: u64,
        width: u8,
        site: Site,
        value: u64,
        branch: Option<&Branch>,
    ) {
        self.learn(thread, address, width, branch);
        self.subject.advance(thread, value);
        let buffered = self.buffers[thread].forward(address, width).mask != 0;
        self.note(thread, site, if buffered { What::Forwarded(value) } else { What::Read(value) });
    }

    /// What reading says about what happened before, and about what survived.
    fn learn(&mut self, thread: usize, address: u64, width: u8, branch: Option<&Branch>) {
        let buffered = self.buffers[thread].forward(address, width);
        let cached = self.execution.read(address, width);
        for (in_buffer, in_cache) in buffered.tags.iter().zip(&cached.tags) {
            if let Some(tag) = in_buffer.or(*in_cache) {
                self.clocks.read(thread, tag);
            }
        }
        if let Some(branch) = branch {
            self.stack.retain(Line::containing(address), |_, state| branch.states.contains(state));
        }
    }

    /// Carries out the locked instruction that is next; the buffer is empty.
    pub(super) fn exchange(&mut self, thread: usize, old: u64, branch: Option<&Branch>) {
        let Next::Exchange { address, width, site, tag } = self.subject.next(thread) else {
            unreachable!("only locked instructions exchange");
        };
        self.learn(thread, address, width, branch);
        let new = self.subject.exchange(thread, old);
        let kind = if new.is_some() { Kind::Rmw } else { Kind::FailedRmw };
        let event =
            Event { address, value: new.unwrap_or(0), site, thread: Thread(thread as u16), kind, width };
        if kind.stores() {
            self.clocks.issue(thread, tag);
            self.written = true;
        }
        self.execution.commit(&Entry { event, issued: self.execution.now(), tag });
        self.subject.advance(thread, old);
        self.note(thread, site, What::Exchanged(old, new));
    }

    pub(super) fn choices(&self) -> Vec<Choice> {
        let mut choices = Vec::new();
        for (thread, buffer) in self.buffers.iter().enumerate() {
            choices.extend(buffer.ready().map(|index| Choice::Leave(thread, index)));
            match self.subject.next(thread) {
                Next::Load { .. } => choices.push(Choice::Run(thread)),
                Next::Exchange { .. } | Next::Act { .. } if buffer.is_empty() => {
                    choices.push(Choice::Run(thread))
                }
                _ => {}
            }
        }
        choices
    }

    /// Would the choice make anything certain?
    pub(super) fn persists(&self, choice: Choice) -> bool {
        match choice {
            Choice::Leave(thread, index) => self.buffers[thread]
                .get(index)
                .is_some_and(|entry| self.execution.would_persist(&entry.event)),
            Choice::Run(thread) => match self.subject.next(thread) {
                Next::Exchange { address, width, site, .. } => {
                    let (kind, thread) = (Kind::Rmw, Thread(thread as u16));
                    self.execution.would_persist(&Event { address, value: 0, site, thread, kind, width })
                }
                Next::Act { event, .. } => self.execution.would_persist(&event),
                _ => false,
            },
        }
    }

    pub(super) fn failed(&self) -> Option<(usize, Site)> {
        (0..self.buffers.len()).find_map(|thread| match self.subject.next(thread) {
            Next::Failed(site) => Some((thread, site)),
            _ => None,
        })
    }

    /// What a load that read through `branch` revealed, byte by byte, each store once.
    pub(super) fn observe(&mut self, address: u64, width: u8, branch: &Branch) -> Result<(), Violation> {
        let mut seen: Vec<Option<Source>> = Vec::new();
        for byte in 0..u64::from(width) {
            let source = branch.sources[byte as usize];
            if seen.contains(&source) {
                continue;
            }
            seen.push(source);
            let observation = observation(&self.stack, &self.past, address + byte, source);
            self.intervals.observe(&observation)?;
        }
        Ok(())
    }

    /// Bytes that determine what may still happen and what may still be observed.
    pub(super) fn key(&self) -> Option<Box<[u8]>> {
        let mut key = Vec::new();
        if !self.subject.key(&mut key) {
            return None;
        }
        let number = |key: &mut Vec<u8>, value: u64| key.extend(value.to_le_bytes());
        let stamp = |key: &mut Vec<u8>, tag: u32| {
            if let Some(stamp) = self.clocks.stamp(tag) {
                for (thread, clock) in stamp.before.entries() {
                    key.extend((thread as u16).to_le_bytes());
                    key.extend(clock.to_le_bytes());
                }
            }
            key.push(0xff);
        };
        for (line, history) in self.execution.lines() {
            number(&mut key, line.0);
            for store in relevant_stores(history) {
                number(&mut key, u64::from(store.tag));
                number(&mut key, store.event.value);
                stamp(&mut key, store.tag);
            }
            number(&mut key, history.eager_contents() as u64);
        }
        for (thread, buffer) in self.buffers.iter().enumerate() {
            let covered = |line: Line, moment: u64| {
                let Some(history) = self.execution.line(line) else { return 0 };
                // Counted from the end, so that what is certain anyway does not count.
                let uncovered = history.stores().iter().rev().take_while(|store| store.at > moment).count();
                uncovered.min(history.eager_contents()) as u64
            };
            for entry in buffer.entries() {
                number(&mut key, u64::from(entry.tag));
                number(&mut key, entry.event.value);
                if entry.event.kind == Kind::FlushOpt {
                    number(&mut key, covered(Line::containing(entry.event.address), entry.issued));
                }
                stamp(&mut key, entry.tag);
            }
            let mut pending: Vec<(Line, u64)> = self
                .execution
                .pending(Thread(thread as u16))
                .iter()
                .map(|&(line, moment)| (line, covered(line, moment)))
                .collect();
            pending.sort_unstable();
            pending.dedup();
            number(&mut key, u64::MAX);
            for (line, covered) in pending {
                number(&mut key, line.0);
                number(&mut key, covered);
            }
            for (thread, clock) in self.clocks.now(thread).entries() {
                number(&mut key, (thread as u64) << 32 | u64::from(clock));
            }
            number(&mut key, u64::MAX);
        }
        Some(key.into_boxed_slice())
    }
}

/// The stores of a line that can still be read or survive: those not certainly overwritten for good.
fn relevant_stores(history: &LineHistory) -> impl Iterator<Item = &px86::storage::CachedStore> {
    let certain = history.certain();
    let stores = history.stores();
    let overwritten = move |index: usize| {
        let event = &stores[index].event;
        stores[index + 1..certain]
            .iter()
            .any(|later| later.event.address == event.address && later.event.width == event.width)
    };
    stores
        .iter()
        .enumerate()
        .filter(move |(index, _)| *index >= certain || !overwritten(*index))
        .map(|(_, store)| store)
}

/// One way in which the bytes of a load may have come through the crashes.
pub(super) struct Branch {
    pub(super) value: u64,
    sources: [Option<Source>; 8],
    pub(super) states: Vec<LineState>,
}

/// What reading the byte at `address` from `source` reveals.
pub(super) fn observation<'a>(
    stack: &CrashStack,
    past: &'a [Past],
    address: u64,
    source: Option<Source>,
) -> Observation<'a> {
    let stamped = |execution: usize, tag: u32| {
        let stamp = past[execution].clocks.stamp(tag).expect("every store was stamped when issued");
        (StoreRef { execution, tag }, stamp)
    };
    let read = source.map(|source| stamped(source.execution, stack.store(address, source).tag));
    let first = source.map_or(0, |source| source.execution);
    let mut newer: Vec<(StoreRef, &px86::robust::Stamp)> = Vec::new();
    for (execution, past) in past.iter().enumerate().skip(first) {
        let line = stack.executions()[execution].line(Line::containing(address));
        let stores = line.map_or(&[][..], LineHistory::stores);
        let after = match source {
            Some(source) if source.execution == execution => source.store + 1,
            _ => 0,
        };
        let cached = stores[after..].iter().map(|store| (&store.event, store.tag));
        let waiting = past.waiting.iter().map(|entry| (&entry.event, entry.tag));
        for (event, tag) in cached.chain(waiting) {
            let (store, stamp) = if event.covers(address) { stamped(execution, tag) } else { continue };
            // The first in each thread is enough: an interval that ends before it ends before the others.
            let earlier = newer.iter_mut().find(|(known, known_stamp)| {
                known.execution == execution && known_stamp.thread == stamp.thread
            });
            match earlier {
                Some(known) if known.1.clock() > stamp.clock() => *known = (store, stamp),
                Some(_) => {}
                None => newer.push((store, stamp)),
            }
        }
    }
    Observation { read, newer }
}
