//! Jaaru's Explore (Figure 11), over all schedules.
//!
//! # What is chosen
//!
//! Which thread's load or locked instruction runs next, and which buffered store, `clflush` or fence takes
//! effect next; after a crash also which store a load reads from. Everything else touches only a thread's
//! own buffer, or (a `clflushopt`) has an effect that does not depend on when it happens, and is done at
//! once. A program of one thread has no choices of the first kind but for non-temporal stores.
//!
//! # Where it crashes
//!
//! Just before an operation that makes something certain, if anything was stored since the last crash was
//! tried, and at the end. Until then what may survive only grows.
//!
//! # When it has been here before
//!
//! If the subject can say what determines its future, schedules that lead to the same state (program,
//! buffers, what each line may hold, what happened before what) are followed once.

use std::rc::Rc;

use num_bigint::BigUint;
use px86::buffer::{Entry, StoreBuffer};
use px86::robust::{Clocks, Intervals, Observation, StoreRef, Violation};
use px86::storage::{Execution, LineHistory};
use px86::survive::{CrashStack, LineState, Source};
use px86::{Event, Kind, Line, Platform, Site, Thread};
use rustc_hash::FxHashSet;

use crate::lazy::subject::{Next, Program, Subject};

/// How to explore.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many crashes in a row.
    pub crashes: usize,
    /// The persistence domain of each line.
    pub platform: Platform,
    /// How many states to visit before giving up.
    pub states: u64,
    /// How many bytes to remember of visited states before giving up.
    pub bytes: usize,
}

/// Something that took effect, for telling the story.
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
    /// A check of the program's own failed.
    Failed,
    /// The power failed.
    Crashed,
}

/// The way to here, newest first, shared between the branches that have it in common.
#[derive(Clone, Debug, Default)]
pub struct Path(Option<Rc<(Happened, Path)>>);

impl Path {
    fn push(&mut self, happened: Happened) {
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

/// What wants to know what the explorer meets.
pub trait Observer {
    /// The cache changed, before any crash.
    fn memory(&mut self, execution: &Execution);

    /// A crash. Should recovery be explored from here?
    fn crash(&mut self, crash: Crash) -> bool;

    /// A load of the first recovery may read from a store that no strictly persistent execution would
    /// have left; `stack` is what may be left of the crash if it does.
    fn violation(&mut self, violation: Violation, stack: &mut CrashStack, path: &Path);

    /// Recovery ended; `failed` says where a check of its own failed, if one did.
    fn recovered(&mut self, failed: Option<Site>, path: &Path);

    /// Has it seen enough?
    fn satisfied(&self) -> bool {
        false
    }
}

/// Figures about an exploration.
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
}

/// Explores `program` from `memory` (addresses and bytes; all else is zero) and reports to `observer`.
pub fn explore<P: Program>(
    program: &P,
    memory: &[(u64, Vec<u8>)],
    settings: Settings,
    observer: &mut impl Observer,
) -> Figures {
    let mut stack = CrashStack::default();
    for (address, bytes) in memory {
        stack.set_initial(*address, bytes);
    }
    let mut figures = Figures::default();
    let Some(subject) = program.start(0) else { return figures };
    let mut visited: FxHashSet<Box<[u8]>> = FxHashSet::default();
    let mut visited_bytes = 0;
    let mut work = vec![World::new(subject, stack, &settings)];
    while let Some(mut world) = work.pop() {
        if figures.states == settings.states {
            figures.limit = Some(Limit::States);
            break;
        }
        if visited_bytes > settings.bytes {
            figures.limit = Some(Limit::Bytes);
            break;
        }
        if observer.satisfied() {
            break;
        }
        world.settle();
        if world.crashes == 0 {
            if let Some(key) = world.key() {
                let bytes = key.len() + 32;
                if !visited.insert(key) {
                    continue;
                }
                visited_bytes += bytes;
            }
            observer.memory(&world.execution);
        }
        figures.states += 1;
        let mut explorer =
            Explorer { program, settings: &settings, observer, figures: &mut figures, work: &mut work };
        explorer.step(world);
    }
    figures
}

/// One moment of one run.
#[derive(Clone)]
struct World<S> {
    subject: S,
    buffers: Vec<StoreBuffer>,
    execution: Execution,
    clocks: Clocks,
    stack: CrashStack,
    past: Vec<Past>,
    intervals: Intervals,
    crashes: usize,
    /// Was anything stored since the last crash was tried? Before the first crash, a crash is due anyway.
    written: bool,
    path: Path,
}

/// What may happen next.
#[derive(Clone, Copy, Debug)]
enum Choice {
    /// The thread's next instruction runs.
    Run(usize),
    /// A buffered entry takes effect.
    Leave(usize, usize),
}

impl<S: Subject> World<S> {
    fn new(subject: S, stack: CrashStack, settings: &Settings) -> World<S> {
        World {
            buffers: vec![StoreBuffer::default(); subject.threads()],
            subject,
            execution: Execution::new(settings.platform.clone()),
            clocks: Clocks::default(),
            stack,
            past: Vec::new(),
            intervals: Intervals::default(),
            crashes: 0,
            written: true,
            path: Path::default(),
        }
    }

    fn note(&mut self, thread: usize, site: Site, what: What) {
        self.path.push(Happened { thread, site, what });
    }

    /// Does whatever needs no choice.
    fn settle(&mut self) {
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

    fn fence(&mut self, thread: usize, site: Site) {
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

    fn leave(&mut self, thread: usize, index: usize) {
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
    fn own_bytes(&self, thread: usize, address: u64, width: u8) -> (u64, u64) {
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
    fn branches(&mut self, address: u64, width: u8, missing: u64) -> Vec<Branch> {
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
    fn load(
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
    fn exchange(&mut self, thread: usize, old: u64, branch: Option<&Branch>) {
        let Next::Exchange { address, width, site, tag } = self.subject.next(thread) else {
            unreachable!("only locked instructions exchange");
        };
        self.learn(thread, address, width, branch);
        let new = self.subject.exchange(thread, old);
        self.execution.fence(Thread(thread as u16));
        if let Some(value) = new {
            self.clocks.issue(thread, tag);
            let thread = Thread(thread as u16);
            self.execution.commit_store(&Event { address, value, site, thread, kind: Kind::Rmw, width }, tag);
            self.written = true;
        }
        self.subject.advance(thread, old);
        self.note(thread, site, What::Exchanged(old, new));
    }

    fn choices(&self) -> Vec<Choice> {
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
    fn persists(&self, choice: Choice) -> bool {
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

    fn failed(&self) -> Option<(usize, Site)> {
        (0..self.buffers.len()).find_map(|thread| match self.subject.next(thread) {
            Next::Failed(site) => Some((thread, site)),
            _ => None,
        })
    }

    /// What a load that read through `branch` revealed, byte by byte, each store once.
    fn observe(&mut self, address: u64, width: u8, branch: &Branch) -> Result<(), Violation> {
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
    fn key(&self) -> Option<Box<[u8]>> {
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
            for store in mattering(history) {
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
fn mattering(history: &LineHistory) -> impl Iterator<Item = &px86::storage::CachedStore> {
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
struct Branch {
    value: u64,
    sources: [Option<Source>; 8],
    states: Vec<LineState>,
}

/// What reading the byte at `address` from `source` reveals.
pub fn observation<'a>(
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

struct Explorer<'a, P: Program, O> {
    program: &'a P,
    settings: &'a Settings,
    observer: &'a mut O,
    figures: &'a mut Figures,
    work: &'a mut Vec<World<P::Subject>>,
}

impl<P: Program, O: Observer> Explorer<'_, P, O> {
    /// Tries everything that may come next in a settled world.
    fn step(&mut self, mut world: World<P::Subject>) {
        let failed = world.failed();
        let choices = if failed.is_some() { Vec::new() } else { world.choices() };
        if choices.is_empty() {
            if let Some((thread, site)) = failed {
                world.note(thread, site, What::Failed);
            }
            if world.crashes > 0 {
                self.figures.recoveries += 1;
                self.observer.recovered(failed.map(|(_, site)| site), &world.path);
            }
            if world.written {
                self.crash(&world);
            }
            return;
        }
        let mut crashed = false;
        for choice in choices {
            let persists = world.persists(choice);
            if persists && world.written && !crashed {
                self.crash(&world);
                crashed = true;
            }
            let mut next = world.clone();
            next.written &= !persists;
            match choice {
                Choice::Leave(thread, index) => {
                    next.leave(thread, index);
                    self.work.push(next);
                }
                Choice::Run(thread) => self.run(next, thread),
            }
        }
    }

    fn run(&mut self, mut world: World<P::Subject>, thread: usize) {
        match world.subject.next(thread) {
            Next::Load { address, width, site } => {
                self.branch(world, thread, address, width, |world, value, branch| {
                    world.load(thread, address, width, site, value, branch);
                })
            }
            Next::Exchange { address, width, .. } => {
                self.branch(world, thread, address, width, |world, old, branch| {
                    world.exchange(thread, old, branch);
                });
            }
            Next::Act { event, .. } => {
                world.fence(thread, event.site);
                self.work.push(world);
            }
            Next::Done | Next::Failed(_) => {}
        }
    }

    /// Follows a load into every value it may give.
    fn branch(
        &mut self,
        mut world: World<P::Subject>,
        thread: usize,
        address: u64,
        width: u8,
        complete: impl Fn(&mut World<P::Subject>, u64, Option<&Branch>),
    ) {
        let (own, missing) = world.own_bytes(thread, address, width);
        if missing == 0 {
            complete(&mut world, own, None);
            self.work.push(world);
            return;
        }
        for branch in world.branches(address, width, missing) {
            let mut next = world.clone();
            // Litmus robustness is judged on the first recovery; deeper ones only look for failures.
            if next.crashes == 1
                && let Err(violation) = next.observe(address, width, &branch)
            {
                let mut stack = next.stack.clone();
                stack.retain(Line::containing(address), |_, state| branch.states.contains(state));
                self.observer.violation(violation, &mut stack, &next.path);
            }
            complete(&mut next, own | branch.value, Some(&branch));
            self.work.push(next);
        }
    }

    /// The power fails here.
    fn crash(&mut self, world: &World<P::Subject>) {
        if world.crashes == self.settings.crashes {
            return;
        }
        self.figures.failure_points += 1;
        let mut stack = world.stack.clone();
        stack.crash(world.execution.clone());
        self.figures.eager_states += stack.eager_states();
        let waiting = world
            .buffers
            .iter()
            .flat_map(StoreBuffer::entries)
            .filter(|entry| entry.event.kind.stores())
            .copied()
            .collect();
        let mut past = world.past.clone();
        past.push(Past { clocks: Rc::new(world.clocks.clone()), waiting: Rc::new(waiting) });
        let crashes = world.crashes + 1;
        let mut path = world.path.clone();
        path.push(Happened { thread: 0, site: Site(0), what: What::Crashed });
        let recover = self.observer.crash(Crash { crashes, stack: &mut stack, past: &past, path: &path });
        if !recover {
            return;
        }
        let Some(subject) = self.program.start(crashes) else { return };
        let fresh = World::new(subject, stack, self.settings);
        self.work.push(World {
            past,
            crashes,
            path,
            written: false,
            intervals: world.intervals.clone(),
            ..fresh
        });
    }
}
