//! Counters: cells written only by locked instructions that all add the same number.
//!
//! The value such an instruction finds is the number of earlier ones. That follows from reads-from and coherence, but
//! only by a pigeonhole argument, for which resolution needs exponentially long proofs. So it is encoded explicitly:
//! the instructions ordered before it are counted in unary (Bailleux and Boufkhad's totalizer), and it reads the count.
//! This excludes no execution.

use std::collections::BTreeMap;

use crashproof_ordersat::Lit;
use rustc_hash::FxHashMap;

use super::Encoder;
use crate::memory::CellId;
use crate::program::Action;
use crate::term::{Binary, Node, Term};

/// With fewer instructions coherence suffices; with more, counting costs more than it gains.
const WORTHWHILE: std::ops::RangeInclusive<usize> = 3..=32;

impl Encoder<'_> {
    /// Defines what the instructions on every counter read.
    pub(super) fn counters(&mut self) {
        let mut writers: BTreeMap<CellId, Vec<(usize, usize)>> = BTreeMap::new();
        for writer in self.writers() {
            for (cell, _) in self.cells_of_lane(writer) {
                writers.entry(cell).or_default().push(writer);
            }
        }
        let before: FxHashMap<(usize, usize), Lit> =
            self.overwrites.iter().map(|pair| ((pair.first, pair.second), pair.lit)).collect();
        for (cell, writers) in writers {
            let thread = |&(event, _): &(usize, usize)| self.events[event].event.thread;
            let several = writers.iter().any(|writer| thread(writer) != thread(&writers[0]));
            if !several || !WORTHWHILE.contains(&writers.len()) {
                continue;
            }
            let Some(step) = self.step_of(&writers) else { continue };
            let Some(initial) = self.known_initial(cell) else { continue };
            let mut counts: Vec<(usize, Vec<Lit>)> = Vec::new();
            for &(event, _) in &writers {
                if self.gates.solver.stopped().is_some() {
                    return;
                }
                let others = writers.iter().filter(|(other, _)| *other != event);
                let earlier: Vec<Lit> =
                    others.filter_map(|(other, _)| before.get(&(*other, event)).copied()).collect();
                let counted = self.totalizer(&earlier);
                self.reads_count(event, &counted, initial, step);
                counts.push((event, counted));
            }
            for (first, fewer) in &counts {
                for (second, more) in &counts {
                    if let Some(&in_turn) = before.get(&(*first, *second)) {
                        self.counts_on(in_turn, fewer, more);
                    }
                }
            }
        }
    }

    /// The number that all of these instructions add, if that is all they do.
    fn step_of(&self, writers: &[(usize, usize)]) -> Option<u64> {
        let mut steps = writers.iter().map(|&(event, _)| self.adds(event));
        let first = steps.next()??;
        steps.all(|step| step == Some(first)).then_some(first)
    }

    /// The number that a locked addition adds to the single cell it certainly accesses; a compare-and-exchange is an
    /// addition if it stores its expected value plus a constant.
    fn adds(&self, event: usize) -> Option<u64> {
        let encoded = &self.events[event];
        let access = encoded.access.as_ref()?;
        let [(_, here)] = access.places.as_slice() else { return None };
        if *here != self.gates.yes() || access.lanes.len() != 1 || encoded.read.is_none() {
            return None;
        }
        let thread = &self.program.threads[encoded.event.thread?];
        let Action::Rmw { old, new, stores, .. } = thread.events[encoded.event.index].action else {
            return None;
        };
        let terms = &self.program.terms;
        let plus = |base: Term| match terms.node(new) {
            Node::Binary(Binary::Add, left, right) if left == base => terms.constant(right),
            Node::Binary(Binary::Sub, left, right) if left == base => {
                terms.constant(right).map(u64::wrapping_neg)
            }
            _ => None,
        };
        let expected = match terms.node(stores) {
            Node::Binary(Binary::Equal, left, right) if left == old => Some(right),
            Node::Binary(Binary::Equal, left, right) if right == old => Some(left),
            _ => None,
        };
        plus(old).or_else(|| plus(expected?)).filter(|&step| step != 0)
    }

    fn known_initial(&mut self, cell: CellId) -> Option<u64> {
        let bits = self.initial_bits(cell);
        let (yes, no) = (self.gates.yes(), self.gates.no());
        bits.iter().rev().try_fold(0, |number, &bit| match bit {
            _ if bit == yes => Some(number << 1 | 1),
            _ if bit == no => Some(number << 1),
            _ => None,
        })
    }

    /// If the event writes, it reads the initial number plus a step per counted instruction.
    fn reads_count(&mut self, event: usize, counted: &[Lit], initial: u64, step: u64) {
        let writes = self.writes(event);
        let read = self.events[event].read.clone().expect("a locked instruction reads");
        let mask = if read.len() == 64 { u64::MAX } else { (1 << read.len()) - 1 };
        for count in 0..=counted.len() {
            let reached = if count == 0 { self.gates.yes() } else { counted[count - 1] };
            let passed = counted.get(count).copied().unwrap_or(self.gates.no());
            let number = initial.wrapping_add(step.wrapping_mul(count as u64)) & mask;
            let is = self.gates.is(&read, number);
            self.gates.clause(&[!writes, !reached, passed, is]);
        }
    }

    /// If the first instruction precedes the second, the second one's count is larger by at least one.
    fn counts_on(&mut self, in_turn: Lit, fewer: &[Lit], more: &[Lit]) {
        let no = self.gates.no();
        let at_least = |count: usize| more.get(count).copied().unwrap_or(no);
        self.gates.clause(&[!in_turn, at_least(0)]);
        for (count, &reached) in fewer.iter().enumerate() {
            self.gates.clause(&[!in_turn, !reached, at_least(count + 1)]);
        }
    }

    /// Unary count: literals for at least one true, at least two true, and so on.
    fn totalizer(&mut self, lits: &[Lit]) -> Vec<Lit> {
        if lits.len() < 2 {
            return lits.to_vec();
        }
        let (left, right) = lits.split_at(lits.len() / 2);
        let (left, right) = (self.totalizer(left), self.totalizer(right));
        let sums: Vec<Lit> = (0..lits.len()).map(|_| self.gates.fresh()).collect();
        let (yes, no) = (self.gates.yes(), self.gates.no());
        let reached = |count: &[Lit], at: usize| if at == 0 { yes } else { count[at - 1] };
        let passed = |count: &[Lit], at: usize| count.get(at).copied().unwrap_or(no);
        for one in 0..=left.len() {
            for two in 0..=right.len() {
                let both = [!reached(&left, one), !reached(&right, two), reached(&sums, one + two)];
                self.gates.clause(&both);
                let neither = [passed(&left, one), passed(&right, two), !passed(&sums, one + two)];
                self.gates.clause(&neither);
            }
        }
        sums
    }
}
