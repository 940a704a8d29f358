//! After a crash: the possible contents of each line, and how reading narrows them down.
//!
//! Jaaru keeps for each line the interval in which it was last written back, and refines it by the store that each load
//! reads from (Figures 9 and 10). We keep the same knowledge as the list of the line's possible crash states: for each
//! execution so far, how many of its stores to the line survive. Reading a value retains the states that agree with it.
//! A list rather than an interval, because states are distinguished by the *values* they show, and the same value may
//! come from several places; [`CrashStack::interval`] returns Jaaru's interval.

use num_bigint::BigUint;
use rustc_hash::FxHashMap;

use crate::storage::{CachedStore, Execution, LineHistory, Seq};
use crate::{LINE_BYTES, Line};

/// One crash state of a line: for each execution, how many of its stores to the line survive, oldest first.
pub type LineState = Vec<u32>;

/// The store from which a byte was read after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    /// The execution, counted from the first.
    pub execution: usize,
    /// The store's place in that execution's history of the line.
    pub store: usize,
}

/// The crash states still possible for a line, as of some number of executions.
#[derive(Clone, Debug)]
struct Known {
    executions: usize,
    states: Vec<LineState>,
}

/// When a line was last written back in the latest execution that stored to it (Jaaru's interval).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// At or after this moment.
    pub begin: Seq,
    /// Before this moment; `None` if it may have been at any later time.
    pub end: Option<Seq>,
}

/// The executions that crashed, oldest first, and what loads since have revealed about them.
#[derive(Clone, Debug, Default)]
pub struct CrashStack {
    /// Contents before the first execution; zero where absent.
    initial: FxHashMap<Line, [u8; LINE_BYTES as usize]>,
    executions: Vec<Execution>,
    known: FxHashMap<Line, Known>,
}

impl CrashStack {
    /// Sets bytes as they are before the first execution.
    pub fn set_initial(&mut self, address: u64, bytes: &[u8]) {
        for (at, &byte) in (address..).zip(bytes) {
            let line = self.initial.entry(Line::containing(at)).or_insert([0; LINE_BYTES as usize]);
            line[(at % LINE_BYTES) as usize] = byte;
        }
    }

    /// `execution` crashes now: whatever it had not certainly written back may be lost.
    pub fn crash(&mut self, execution: Execution) {
        self.executions.push(execution);
    }

    /// The executions that crashed, oldest first.
    pub fn executions(&self) -> &[Execution] {
        &self.executions
    }

    /// The possible crash states of `line`, given everything read so far.
    ///
    /// Never empty: every value read came from somewhere.
    pub fn states(&mut self, line: Line) -> &[LineState] {
        let known =
            self.known.entry(line).or_insert_with(|| Known { executions: 0, states: vec![LineState::new()] });
        for execution in &self.executions[known.executions..] {
            let (certain, all) =
                execution.line(line).map_or((0, 0), |history| (history.certain(), history.stores().len()));
            known.states = known
                .states
                .iter()
                .flat_map(|state| {
                    (certain..=all).map(|cut| {
                        let mut longer = state.clone();
                        longer.push(cut as u32);
                        longer
                    })
                })
                .collect();
        }
        known.executions = self.executions.len();
        &known.states
    }

    /// Keeps only the crash states of `line` that satisfy `keep`.
    pub fn retain(&mut self, line: Line, mut keep: impl FnMut(&CrashStack, &LineState) -> bool) {
        let mut states = self.states(line).to_vec();
        states.retain(|state| keep(self, state));
        debug_assert!(!states.is_empty(), "a load reads one of the possible values");
        self.known.insert(line, Known { executions: self.executions.len(), states });
    }

    /// The content of `width` bytes at `address` in a crash state of their line.
    pub fn value(&self, address: u64, width: u8, state: &LineState) -> u64 {
        let line = Line::containing(address);
        let mut bytes = [0; 8];
        if let Some(initial) = self.initial.get(&line) {
            let start = (address % LINE_BYTES) as usize;
            let width = usize::from(width);
            bytes[..width].copy_from_slice(&initial[start..start + width]);
        }
        for (execution, &cut) in self.executions.iter().zip(state) {
            for store in surviving(execution, line, cut) {
                store.event.overlay(address, width, |byte, value| bytes[byte] = value);
            }
        }
        u64::from_le_bytes(bytes)
    }

    /// The store that left the byte at `address` in a crash state of its line; `None` if no execution stored it.
    pub fn source(&self, address: u64, state: &LineState) -> Option<Source> {
        let line = Line::containing(address);
        (0..self.executions.len().min(state.len())).rev().find_map(|execution| {
            let stores = surviving(&self.executions[execution], line, state[execution]);
            let store = stores.iter().rposition(|store| store.event.covers(address))?;
            Some(Source { execution, store })
        })
    }

    /// The store a [`Source`] names.
    pub fn store(&self, address: u64, source: Source) -> &CachedStore {
        let history = self.executions[source.execution].line(Line::containing(address));
        &history.expect("a source names a store of the line").stores()[source.store]
    }

    /// The different values that `width` bytes at `address` may have, where only the bytes of `mask`
    /// (0xff each) matter. Sorted.
    pub fn options(&mut self, address: u64, width: u8, mask: u64) -> Vec<u64> {
        let states = self.states(Line::containing(address)).to_vec();
        let mut values: Vec<u64> =
            states.iter().map(|state| self.value(address, width, state) & mask).collect();
        values.sort_unstable();
        values.dedup();
        values
    }

    /// A load saw `value` in the bytes of `mask`: keep the crash states that agree.
    pub fn refine(&mut self, address: u64, width: u8, mask: u64, value: u64) {
        self.retain(Line::containing(address), |stack, state| {
            stack.value(address, width, state) & mask == value & mask
        });
    }

    /// When `line` was last written back in the latest execution, given what was read so far.
    pub fn interval(&mut self, line: Line) -> Option<Interval> {
        let latest = self.executions.len().checked_sub(1)?;
        let cuts: Vec<usize> = self.states(line).iter().map(|state| state[latest] as usize).collect();
        let history = self.executions[latest].line(line)?;
        let (first, last) = (*cuts.iter().min()?, *cuts.iter().max()?);
        let begin = match first.checked_sub(1) {
            Some(store) => history.stores()[store].at.max(history.written_back()),
            None => history.written_back(),
        };
        Some(Interval { begin, end: history.stores().get(last).map(|store| store.at) })
    }

    /// In how many states an eager checker would run recovery: the product over all lines of the stores
    /// that may have been the last to survive. What was read since the crash does not change it.
    pub fn eager_states(&self) -> BigUint {
        self.executions
            .iter()
            .flat_map(Execution::lines)
            .map(|(_, history)| BigUint::from(LineHistory::eager_contents(history)))
            .product()
    }
}

fn surviving(execution: &Execution, line: Line, cut: u32) -> &[CachedStore] {
    execution.line(line).map_or(&[], |history| &history.stores()[..cut as usize])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, Kind, Site, Thread};

    const X: u64 = 0;
    const Y: u64 = 8;

    fn store(execution: &mut Execution, address: u64, width: u8, value: u64) {
        let event = Event { address, value, site: Site(0), thread: Thread(0), kind: Kind::Store, width };
        execution.commit_store(&event, 0);
    }

    fn flush(execution: &mut Execution, address: u64) {
        let event =
            Event { address, value: 0, site: Site(0), thread: Thread(0), kind: Kind::Flush, width: 0 };
        execution.commit_flush(&event);
    }

    /// Jaaru's Figure 2: y=1; x=2; clflush; y=3; x=4; y=5; x=6 on one line.
    fn figure_2() -> CrashStack {
        let mut execution = Execution::default();
        store(&mut execution, Y, 8, 1);
        store(&mut execution, X, 8, 2);
        flush(&mut execution, X);
        for (address, value) in [(Y, 3), (X, 4), (Y, 5), (X, 6)] {
            store(&mut execution, address, 8, value);
        }
        let mut stack = CrashStack::default();
        stack.crash(execution);
        stack
    }

    #[test]
    fn figure_2_x_may_be_two_four_or_six() {
        let mut stack = figure_2();
        assert_eq!(stack.options(X, 8, u64::MAX), [2, 4, 6]);
        assert_eq!(stack.interval(Line(0)), Some(Interval { begin: 3, end: None }));
    }

    #[test]
    fn figure_3_reading_x_refines_y() {
        let mut stack = figure_2();
        stack.refine(X, 8, u64::MAX, 4);
        assert_eq!(stack.interval(Line(0)), Some(Interval { begin: 5, end: Some(7) }));
        assert_eq!(stack.options(Y, 8, u64::MAX), [3, 5]);
        stack.refine(Y, 8, u64::MAX, 3);
        assert_eq!(stack.states(Line(0)).len(), 1);
    }

    #[test]
    fn bytes_of_mixed_size_stores_are_told_apart() {
        let mut execution = Execution::default();
        store(&mut execution, X, 8, 0x0101_0101_0101_0101);
        store(&mut execution, X + 3, 2, 0xffff);
        let mut stack = CrashStack::default();
        stack.set_initial(X, &[9; 8]);
        stack.crash(execution);
        assert_eq!(
            stack.options(X, 8, u64::MAX),
            [0x0101_0101_0101_0101, 0x0101_01ff_ff01_0101, 0x0909_0909_0909_0909]
        );
        let state = vec![2];
        assert_eq!(stack.source(X + 4, &state), Some(Source { execution: 0, store: 1 }));
        assert_eq!(stack.source(X + 5, &state), Some(Source { execution: 0, store: 0 }));
    }

    #[test]
    fn a_second_crash_may_uncover_the_first_executions_stores() {
        let mut first = Execution::default();
        store(&mut first, X, 8, 1);
        let mut stack = CrashStack::default();
        stack.crash(first);
        let mut second = Execution::default();
        store(&mut second, X, 8, 2);
        stack.crash(second);
        assert_eq!(stack.options(X, 8, u64::MAX), [0, 1, 2]);
        stack.refine(X, 8, u64::MAX, 1);
        assert_eq!(stack.states(Line(0)), [vec![1, 0]]);
    }

    #[test]
    fn what_recovery_read_stays_known_after_the_next_crash() {
        let mut first = Execution::default();
        store(&mut first, X, 8, 1);
        let mut stack = CrashStack::default();
        stack.crash(first);
        stack.refine(X, 8, u64::MAX, 1);
        let mut second = Execution::default();
        store(&mut second, X, 8, 2);
        stack.crash(second);
        assert_eq!(stack.options(X, 8, u64::MAX), [1, 2]);
    }

    #[test]
    fn eager_states_of_the_papers_array() {
        let mut execution = Execution::default();
        for index in 0..64 {
            store(&mut execution, 8 * index, 8, index + 1);
        }
        let mut stack = CrashStack::default();
        stack.crash(execution);
        assert_eq!(stack.eager_states(), BigUint::from(9u64.pow(8)));
    }
}
