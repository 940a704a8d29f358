//! Which of the stores read happened after one that was lost.
//!
//! A potential crash interval (section 4.1) is emptied by two loads: one that read a store, which moves the
//! beginning of the intervals of all threads behind what happened before it (implications 4.1 and 4.3), and one
//! that read something older than some other store, which moves the end of that store's thread before it
//! (implication 4.2). So an execution is not robust exactly if it read two such stores, the lost one having
//! happened before the other. [`crate::robust::Intervals`] goes from load to load and tells the first such pair; here all
//! loads are known, and all pairs are wanted. A test compares the two.

use crate::robust::order::{Issued, Order};

/// A store that a load read, or would have read had it persisted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The store.
    pub store: Issued,
    /// Its cache line. What survives of one line is a prefix of its stores, so two stores of a line are never a
    /// violation, and which of them were read cannot be chosen apart.
    pub line: u64,
    /// The caller's name for it.
    pub name: usize,
}

/// The stores of one execution that later ones read.
#[derive(Clone, Debug, Default)]
pub struct Survivors {
    /// By thread, each in the order of issue: what happened before a store happened before all that follow it.
    threads: Vec<(u16, Vec<Candidate>)>,
}

impl Survivors {
    /// Sorts what was read.
    pub fn new(candidates: impl IntoIterator<Item = Candidate>) -> Survivors {
        let mut threads: Vec<(u16, Vec<Candidate>)> = Vec::new();
        for candidate in candidates {
            let thread = candidate.store.thread;
            match threads.iter_mut().find(|(known, _)| *known == thread) {
                Some((_, stores)) => stores.push(candidate),
                None => threads.push((thread, vec![candidate])),
            }
        }
        threads.iter_mut().for_each(|(_, stores)| stores.sort_by_key(|candidate| candidate.store.at));
        Survivors { threads }
    }

    /// Of each thread, the first store that was read and must not have survived without `lost`.
    pub fn after<'a>(&'a self, order: &'a Order, lost: &'a Candidate) -> impl Iterator<Item = &'a Candidate> {
        self.threads.iter().filter_map(move |(_, stores)| {
            let first = stores.partition_point(|read| !order.before(lost.store, read.store));
            stores[first..].iter().find(|read| read.line != lost.line)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::robust::{Clocks, Intervals, Observation, StoreRef};

    /// A small pseudo-random sequence, reproducible from the seed alone.
    fn sequence(mut state: u64) -> impl FnMut(u64) -> u64 {
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        }
    }

    /// Random executions of three threads on four lines of one location each; a load of each location, any store
    /// read. Intervals and pairs must agree on whether that is robust.
    #[test]
    fn pairs_and_intervals_agree() {
        let (mut robust, mut violations) = (0, 0);
        for seed in 0..3000 {
            let mut random = sequence(seed);
            let (mut clocks, mut order) = (Clocks::default(), Order::default());
            // Per line the stores to it, in the order they reached the cache.
            let mut lines: [Vec<Issued>; 4] = Default::default();
            for at in 0..12 {
                let (thread, line) = (random(3) as u16, random(4) as usize);
                match (random(2), lines[line].last()) {
                    (0, Some(&store)) => {
                        clocks.read(usize::from(thread), store.at);
                        order.read(thread, at, store);
                    }
                    _ => {
                        clocks.issue(usize::from(thread), at);
                        lines[line].push(Issued { thread, at });
                    }
                }
            }
            let mut intervals = Intervals::default();
            let (mut lost, mut read, mut violated) = (Vec::new(), Vec::new(), false);
            let named = |store: &Issued| {
                (StoreRef { execution: 0, tag: store.at }, clocks.stamp(store.at).expect("it was issued"))
            };
            for (line, stores) in lines.iter().enumerate() {
                let kept = random(stores.len() as u64 + 1) as usize;
                let candidate = |store: &Issued| Candidate { store: *store, line: line as u64, name: 0 };
                read.extend(kept.checked_sub(1).map(|last| candidate(&stores[last])));
                lost.extend(stores[kept..].iter().map(candidate));
                let observation = Observation {
                    read: kept.checked_sub(1).map(|last| named(&stores[last])),
                    newer: stores[kept..].iter().map(named).collect(),
                };
                violated |= intervals.observe(&observation).is_err();
            }
            let survivors = Survivors::new(read);
            let pairs = lost.iter().any(|lost| survivors.after(&order, lost).next().is_some());
            assert_eq!(pairs, violated, "seed {seed}: {lines:?}");
            *(if violated { &mut violations } else { &mut robust }) += 1;
        }
        assert!(robust > 100 && violations > 100, "{robust} robust, {violations} not");
    }
}
