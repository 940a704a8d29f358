//! Clock vectors over stores (PSan, Figure 3).

use rustc_hash::FxHashMap;

/// For each thread, how many of its stores happened before; threads beyond the end have none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Clock(Vec<u32>);

impl Clock {
    /// How many stores of `thread` happened before.
    pub fn of(&self, thread: usize) -> u32 {
        self.0.get(thread).copied().unwrap_or(0)
    }

    /// Every thread with stores that happened before, and how many.
    pub fn entries(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.0.iter().copied().enumerate().filter(|(_, count)| *count > 0)
    }

    fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
    }

    fn tick(&mut self, thread: usize) {
        if self.0.len() <= thread {
            self.0.resize(thread + 1, 0);
        }
        self.0[thread] += 1;
    }
}

/// What is remembered of a store: who made it, and what happened before it, itself included.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The storing thread.
    pub thread: usize,
    /// The stores that happened before, this one included.
    pub before: Clock,
}

impl Stamp {
    /// The store's own clock: its place among the stores of its thread, from 1.
    pub fn clock(&self) -> u32 {
        self.before.of(self.thread)
    }
}

/// The clocks of one execution.
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    threads: Vec<Clock>,
    stores: FxHashMap<u32, Stamp>,
}

impl Clocks {
    /// `thread` issues the store called `tag`.
    pub fn issue(&mut self, thread: usize, tag: u32) {
        let clock = self.thread(thread);
        clock.tick(thread);
        let before = clock.clone();
        self.stores.insert(tag, Stamp { thread, before });
    }

    /// `thread` reads from the store called `tag`, from the cache or its own buffer.
    pub fn read(&mut self, thread: usize, tag: u32) {
        if let Some(stamp) = self.stores.get(&tag).cloned() {
            self.thread(thread).join(&stamp.before);
        }
    }

    /// The stamp of a store that was issued in this execution.
    pub fn stamp(&self, tag: u32) -> Option<&Stamp> {
        self.stores.get(&tag)
    }

    /// What happened before whatever `thread` does next.
    pub fn now(&self, thread: usize) -> Clock {
        self.threads.get(thread).cloned().unwrap_or_default()
    }

    fn thread(&mut self, thread: usize) -> &mut Clock {
        if self.threads.len() <= thread {
            self.threads.resize(thread + 1, Clock::default());
        }
        &mut self.threads[thread]
    }
}
