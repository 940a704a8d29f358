//! Potential crash intervals and the rule that narrows them (PSan, sections 4.3, 4.4 and Figure 10).

use std::collections::BTreeMap;

use crate::robust::clocks::Stamp;

/// A store of some execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StoreRef {
    /// The execution, counted from the first.
    pub execution: usize,
    /// The engine's name for the store.
    pub tag: u32,
}

/// What a load after a crash revealed.
#[derive(Clone, Debug)]
pub struct Observation<'a> {
    /// The store that was read, with its stamp; `None` if the value is older than all executions.
    pub read: Option<(StoreRef, &'a Stamp)>,
    /// The stores to the location that would have been read instead, had they persisted: in each thread of
    /// the same execution the first one that is newer, and the first one of each thread of every later
    /// execution that crashed.
    pub newer: Vec<(StoreRef, &'a Stamp)>,
}

/// No strictly persistent execution agrees with what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Violation {
    /// The store that was lost, although it happened before `survived`.
    pub lost: StoreRef,
    /// The store that persisted.
    pub survived: StoreRef,
}

/// Where a thread of an equivalent strictly persistent execution stopped: at or after its store number
/// `begin`, before its store number `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Interval {
    begin: u32,
    /// The read store that moved `begin` here.
    begin_store: Option<StoreRef>,
    end: Option<(u32, StoreRef)>,
}

/// The potential crash intervals of every execution and thread.
#[derive(Clone, Debug, Default)]
pub struct Intervals {
    threads: BTreeMap<(usize, usize), Interval>,
}

impl Intervals {
    /// Narrows the intervals by what a load revealed (rule LOAD-PREV). On a violation the intervals are
    /// left as they were, so that the analysis can go on as if the load had read something else.
    pub fn observe(&mut self, observation: &Observation) -> Result<(), Violation> {
        let mut next = self.clone();
        // Implications 4.1 and 4.3: the store that was read, and all that happened before it, executed.
        if let Some((read, stamp)) = observation.read {
            for (thread, clock) in stamp.before.entries() {
                let interval = next.threads.entry((read.execution, thread)).or_default();
                if clock > interval.begin {
                    interval.begin = clock;
                    interval.begin_store = Some(read);
                }
                if let (Some((end, lost)), Some(survived)) = (interval.end, interval.begin_store)
                    && interval.begin >= end
                {
                    return Err(Violation { lost, survived });
                }
            }
        }
        // Implication 4.2: no newer store executed.
        for &(newer, stamp) in &observation.newer {
            let interval = next.threads.entry((newer.execution, stamp.thread)).or_default();
            let clock = stamp.clock();
            if interval.end.is_none_or(|(end, _)| clock < end) {
                interval.end = Some((clock, newer));
            }
            if let (true, Some(survived)) = (interval.begin >= clock, interval.begin_store) {
                return Err(Violation { lost: newer, survived });
            }
        }
        *self = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::robust::Clocks;

    const X1: u32 = 1;
    const Y1: u32 = 2;
    const X2: u32 = 3;
    const Y2: u32 = 4;

    fn store(execution: usize, tag: u32) -> StoreRef {
        StoreRef { execution, tag }
    }

    fn observation<'a>(clocks: &'a Clocks, read: Option<u32>, newer: &[u32]) -> Observation<'a> {
        let stamped = |tag| (store(0, tag), clocks.stamp(tag).unwrap());
        Observation { read: read.map(stamped), newer: newer.iter().copied().map(stamped).collect() }
    }

    /// x=1; y=1; x=2; y=2 in one thread.
    fn figure_2() -> Clocks {
        let mut clocks = Clocks::default();
        [X1, Y1, X2, Y2].into_iter().for_each(|tag| clocks.issue(0, tag));
        clocks
    }

    #[test]
    fn figure_2_reading_the_old_x_and_the_new_y_is_a_violation() {
        let clocks = figure_2();
        let mut intervals = Intervals::default();
        assert_eq!(intervals.observe(&observation(&clocks, Some(X1), &[X2])), Ok(()));
        // Too new (Figure 12).
        let violation = Violation { lost: store(0, X2), survived: store(0, Y2) };
        assert_eq!(intervals.observe(&observation(&clocks, Some(Y2), &[])), Err(violation));
        // The analysis goes on with the store that fits.
        assert_eq!(intervals.observe(&observation(&clocks, Some(Y1), &[Y2])), Ok(()));
    }

    #[test]
    fn figure_2_the_other_way_round_reads_a_store_that_is_too_old() {
        let clocks = figure_2();
        let mut intervals = Intervals::default();
        assert_eq!(intervals.observe(&observation(&clocks, Some(Y2), &[])), Ok(()));
        let violation = Violation { lost: store(0, X2), survived: store(0, Y2) };
        assert_eq!(intervals.observe(&observation(&clocks, Some(X1), &[X2])), Err(violation));
    }

    #[test]
    fn figure_6_threads_progress_independently() {
        let mut clocks = Clocks::default();
        clocks.issue(0, X1);
        clocks.issue(1, Y1);
        let mut intervals = Intervals::default();
        assert_eq!(intervals.observe(&observation(&clocks, None, &[X1])), Ok(()));
        assert_eq!(intervals.observe(&observation(&clocks, Some(Y1), &[])), Ok(()));
    }

    #[test]
    fn figure_7_what_was_read_before_storing_must_have_persisted() {
        let mut clocks = Clocks::default();
        clocks.issue(0, X1);
        clocks.read(1, X1);
        clocks.issue(1, Y1);
        let mut intervals = Intervals::default();
        assert_eq!(intervals.observe(&observation(&clocks, None, &[X1])), Ok(()));
        let violation = Violation { lost: store(0, X1), survived: store(0, Y1) };
        assert_eq!(intervals.observe(&observation(&clocks, Some(Y1), &[])), Err(violation));
    }

    /// e1: x=1; y=1. e2: r=x reads the initial value; y=2. e3: s=y reads y=1.
    #[test]
    fn figure_8_constraints_outlive_the_next_crash() {
        let mut first = Clocks::default();
        first.issue(0, X1);
        first.issue(0, Y1);
        let mut second = Clocks::default();
        second.issue(0, Y2);
        let mut intervals = Intervals::default();
        let x1 = (store(0, X1), first.stamp(X1).unwrap());
        let y1 = (store(0, Y1), first.stamp(Y1).unwrap());
        let y2 = (store(1, Y2), second.stamp(Y2).unwrap());
        assert_eq!(intervals.observe(&Observation { read: None, newer: vec![x1] }), Ok(()));
        let violation = Violation { lost: x1.0, survived: y1.0 };
        assert_eq!(intervals.observe(&Observation { read: Some(y1), newer: vec![y2] }), Err(violation));
    }
}
