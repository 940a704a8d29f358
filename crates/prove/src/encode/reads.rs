//! Reads-from and coherence.

use crashproof_ordersat::{Lit, NodeId};
use px86::Order;
use px86::order::PRESERVED;
use rustc_hash::FxHashMap;

use super::{CrashEncoding, Encoder, Overwrites, ReadsFrom};
use crate::memory::CellId;

impl Encoder<'_> {
    /// For every lane of every load, which stores it may read.
    pub(super) fn reads(&mut self) {
        let writers = self.writers();
        let mut by_cell: FxHashMap<CellId, Vec<(usize, usize)>> = FxHashMap::default();
        for &writer in &writers {
            for (cell, _) in self.cells_of_lane(writer) {
                by_cell.entry(cell).or_default().push(writer);
            }
        }
        for reader in 0..self.events.len() {
            if self.gates.solver.stopped().is_some() {
                return;
            }
            if self.events[reader].read.is_none() {
                continue;
            }
            for lane in 0..self.access(reader).lanes.len() {
                let mut candidates: Vec<(usize, usize)> = self
                    .cells_of_lane((reader, lane))
                    .iter()
                    .flat_map(|(cell, _)| by_cell.get(cell).into_iter().flatten().copied())
                    .filter(|&(writer, _)| writer != reader)
                    .collect();
                candidates.sort_unstable();
                candidates.dedup();
                self.lane_reads(reader, lane, &candidates);
            }
        }
    }

    fn lane_reads(&mut self, reader: usize, lane: usize, candidates: &[(usize, usize)]) {
        let yes = self.gates.yes();
        // The thread's own preceding stores, which the load sees even while they are buffered.
        let own: Vec<(usize, usize)> =
            candidates.iter().copied().filter(|&(writer, _)| self.program_before(writer, reader)).collect();
        // Stores that are certainly seen, or overwritten by what is seen.
        let sure: Vec<(usize, usize)> = candidates
            .iter()
            .copied()
            .filter(|&writer| {
                (self.program_before(writer.0, reader) || self.surely_before(writer.0, reader))
                    && self.issues(writer.0) == yes
                    && self.same(writer, (reader, lane)) == yes
            })
            .collect();
        let hidden = |encoder: &Self, writer: usize| {
            sure.iter().any(|&(later, _)| {
                later != writer
                    && (encoder.surely_before(writer, later) || encoder.program_before(writer, later))
            })
        };
        let live = self.events[reader].live;
        let mut some = vec![!live];
        let mut possible: Vec<(usize, Lit)> = Vec::new();
        for &writer in candidates {
            let impossible = self.surely_before(reader, writer.0)
                || self.program_before(reader, writer.0)
                || hidden(self, writer.0);
            if !impossible && let Some(lit) = self.reads_from(reader, lane, writer, &own) {
                if self.program_before(writer.0, reader) {
                    some.push(lit);
                } else {
                    possible.push((writer.0, lit));
                }
            }
        }
        let node = self.events[reader].node;
        some.extend(self.ladders(&possible, node));
        if sure.is_empty() {
            some.push(self.reads_initial(reader, lane, &own));
        }
        self.gates.clause(&some);
        for &(writer, _) in &own {
            if !self.surely_before(writer, reader) {
                self.graph.apart(self.events[reader].node, self.events[writer].node);
            }
        }
    }

    /// Orders every store, under its literal, before `node`, and returns literals of which one is true if one of these
    /// is.
    ///
    /// The stores of one thread are ordered: a reader of the third or a later one comes after the third. So there is a
    /// literal for each "this or a later one", and the order refers to those. An order that excludes all stores from
    /// some point on is then learned as one literal rather than a list.
    pub(super) fn ladders(&mut self, stores: &[(usize, Lit)], node: NodeId) -> Vec<Lit> {
        let mut tops = Vec::new();
        let mut above: Option<(usize, Lit)> = None;
        for &(store, lit) in stores.iter().rev() {
            let step = match above {
                Some((later, top)) if self.in_turn(store, later) => self.gates.or(lit, top),
                _ => {
                    tops.extend(above.map(|(_, top)| top));
                    lit
                }
            };
            let from = self.events[store].node;
            if !self.node_surely_before(from, node) {
                self.graph.edge(step, from, node);
            }
            above = Some((store, step));
        }
        tops.extend(above.map(|(_, top)| top));
        tops
    }

    /// Does everything that follows the second also follow the first, even if the first does not happen? In that case,
    /// nothing may precede the first that does not precede the second.
    fn in_turn(&self, a: usize, b: usize) -> bool {
        let class = self.events[a].class;
        let mut before = PRESERVED.iter().map(|row| row[class as usize]);
        self.surely_before(a, b)
            || self.program_before(a, b)
                && class == self.events[b].class
                && PRESERVED[class as usize][class as usize] == Order::Always
                && before.all(|order| order != Order::SameLine)
    }

    fn reads_from(
        &mut self,
        reader: usize,
        lane: usize,
        writer: (usize, usize),
        own: &[(usize, usize)],
    ) -> Option<Lit> {
        let same = self.same(writer, (reader, lane));
        if same == self.gates.no() {
            return None;
        }
        let lit = self.gates.fresh();
        let internal = self.program_before(writer.0, reader);
        let written = if internal { self.issues(writer.0) } else { self.writes(writer.0) };
        let live = self.events[reader].live;
        for needed in [same, written, live] {
            self.gates.implies(&[lit], needed);
        }
        let read = Self::slice(self.events[reader].read.as_ref().expect("a load"), self.lane((reader, lane)));
        let value = Self::slice(&self.events[writer.0].write.as_ref().expect("a store").0, self.lane(writer));
        let (read, value) = (read.to_vec(), value.to_vec());
        self.gates.equal_if(lit, &read, &value);
        let source = self.source(writer.0, writer.1);
        let to = self.events[reader].node;
        self.graph.read(lit, source, to);
        if !internal && self.settings.crash == CrashEncoding::Full {
            let (reads, wrote) = (self.events[reader].executed, self.events[writer.0].executed);
            self.gates.implies(&[reads, lit], wrote);
        }
        self.not_past_own(lit, reader, lane, Some(writer.0), own);
        self.reads_from.push(ReadsFrom { lit, reader, lane, writer: Some(writer) });
        Some(lit)
    }

    fn reads_initial(&mut self, reader: usize, lane: usize, own: &[(usize, usize)]) -> Lit {
        let lit = self.gates.fresh();
        let live = self.events[reader].live;
        self.gates.implies(&[lit], live);
        let node = self.events[reader].node;
        let at = self.lane((reader, lane));
        let read = Self::slice(self.events[reader].read.as_ref().expect("a load"), at).to_vec();
        let cells = self.cells_of_lane((reader, lane));
        // A load outside every object reads anything; that is already a violation.
        for (cell, here) in cells {
            let reads = self.gates.and(lit, here);
            if reads == self.gates.no() {
                continue;
            }
            let content = self.initial_bits(cell);
            self.gates.equal_if(reads, &read, &content);
            let source = self.initial_source(cell);
            self.graph.read(reads, source, node);
        }
        self.not_past_own(lit, reader, lane, None, own);
        self.reads_from.push(ReadsFrom { lit, reader, lane, writer: None });
        lit
    }

    /// A load does not see past its thread's own stores: those between it and the store it reads, if that is also its
    /// own; otherwise none of them may still be buffered.
    fn not_past_own(
        &mut self,
        lit: Lit,
        reader: usize,
        lane: usize,
        writer: Option<usize>,
        own: &[(usize, usize)],
    ) {
        let internal = writer.is_some_and(|writer| self.program_before(writer, reader));
        for &between in own {
            if writer == Some(between.0) {
                continue;
            }
            let hides = match writer {
                Some(writer) if internal => self.program_before(writer, between.0),
                Some(_) => false,
                None => true,
            };
            let (issued, same) = (self.issues(between.0), self.same(between, (reader, lane)));
            if same == self.gates.no() {
                continue;
            }
            if hides {
                let no = self.gates.no();
                self.gates.implies(&[lit, issued, same], no);
            } else if !internal {
                // In both encodings of the crash: a load before the crash did not miss a store that was in its own
                // thread's buffer.
                let (reads, executed) = (self.events[reader].executed, self.events[between.0].executed);
                self.gates.implies(&[lit, reads, issued, same], executed);
            }
        }
    }

    /// The order of stores to one location, as far as one of them is read.
    pub(super) fn coherence(&mut self) {
        let writers = self.writers();
        let mut by_cell: FxHashMap<CellId, Vec<(usize, usize)>> = FxHashMap::default();
        for &writer in &writers {
            for (cell, here) in self.cells_of_lane(writer) {
                by_cell.entry(cell).or_default().push(writer);
                // Every write overwrites the initial value.
                if let Some(&source) = self.initial_sources.get(&cell) {
                    let writes = self.writes(writer.0);
                    let lit = self.gates.and(writes, here);
                    if lit != self.gates.no() {
                        self.graph.overwrite(lit, source, self.events[writer.0].node);
                    }
                }
            }
        }
        let mut pairs: Vec<((usize, usize), (usize, usize))> = Vec::new();
        for sharers in by_cell.values() {
            for (at, &a) in sharers.iter().enumerate() {
                for &b in &sharers[at + 1..] {
                    if a.0 != b.0 {
                        pairs.push((a.min(b), a.max(b)));
                    }
                }
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        for (a, b) in pairs {
            if self.gates.solver.stopped().is_some() {
                return;
            }
            self.ordered_pair(a, b);
        }
    }

    fn ordered_pair(&mut self, a: (usize, usize), b: (usize, usize)) {
        let (source_a, source_b) = (self.events[a.0].sources[a.1], self.events[b.0].sources[b.1]);
        if source_a.is_none() && source_b.is_none() {
            return;
        }
        let (writes_a, writes_b, same) = (self.writes(a.0), self.writes(b.0), self.same(a, b));
        let both = self.gates.and(writes_a, writes_b);
        let both = self.gates.and(both, same);
        if both == self.gates.no() {
            return;
        }
        let first = self.surely_before(a.0, b.0) || self.program_before(a.0, b.0);
        let second = self.surely_before(b.0, a.0) || self.program_before(b.0, a.0);
        let (node_a, node_b) = (self.events[a.0].node, self.events[b.0].node);
        let (a_then_b, b_then_a) = match (first, second) {
            (true, _) => (both, self.gates.no()),
            (_, true) => (self.gates.no(), both),
            _ if both == self.gates.yes() => {
                let order = self.gates.fresh();
                (order, !order)
            }
            _ => {
                let (one, other) = (self.gates.fresh(), self.gates.fresh());
                for lit in [one, other] {
                    self.gates.implies(&[lit], both);
                }
                self.gates.clause(&[!both, one, other]);
                self.gates.clause(&[!one, !other]);
                (one, other)
            }
        };
        for (lit, source, from, to, first, second) in
            [(a_then_b, source_a, node_a, node_b, a.0, b.0), (b_then_a, source_b, node_b, node_a, b.0, a.0)]
        {
            if lit == self.gates.no() {
                continue;
            }
            if !self.surely_before(first, second) {
                self.graph.edge(lit, from, to);
            }
            if let Some(source) = source {
                self.graph.overwrite(lit, source, to);
            }
            self.overwrites.push(Overwrites { lit, first, second });
        }
    }
}
