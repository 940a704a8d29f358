//! The crash: the content of each cell that is observed afterwards, and why it is possible.

use crashproof_ordersat::{Lit, NodeId};
use px86::Line;
use rustc_hash::FxHashMap;

use super::threads::accessed;
use super::{Encoder, EventRef, LaneRef, Survivor};
use crate::blast::fresh_within;
use crate::memory::CellId;
use crate::words::{MOST_VALUES, union};

impl Encoder<'_> {
    /// The persistent cells observed after the crash.
    fn observed(&self) -> Vec<CellId> {
        let mut observed = vec![self.settings.observe_all; self.memory.cells().len()];
        if let Some(recovery) = &self.program.recovery {
            for (index, event) in recovery.events.iter().enumerate() {
                let reads = matches!(
                    event.action,
                    crate::program::Action::Load { .. } | crate::program::Action::Rmw { .. }
                );
                let Some((address, bytes)) = accessed(&event.action, |term| self.program.terms.width(term))
                else {
                    continue;
                };
                if !reads || !self.analysis.get(event.guard).contains(1) {
                    continue;
                }
                for place in self.analysis.places(address, bytes) {
                    for &lane in self.lanes(EventRef { thread: None, index }) {
                        observed[self.cell_of(place, lane)] = true;
                    }
                }
            }
        }
        let cells = self.memory.cells();
        (0..cells.len()).filter(|&cell| observed[cell] && cells[cell].persistent).collect()
    }

    /// The time of a line's last write-back; with a persistent cache, that of the crash.
    fn moment(&mut self, line: Line) -> NodeId {
        let (graph, crash) = (&mut self.graph, &mut self.crash);
        let survives = self.platform.cache_survives(line);
        let node = || if survives { *crash.get_or_insert_with(|| graph.node()) } else { graph.node() };
        *self.moments.entry(line).or_insert_with(node)
    }

    /// Every line's last write-back precedes the crash. Only relevant if some line's content is that at the crash.
    fn moments_before_crash(&mut self) {
        let Some(crash) = self.crash else { return };
        let mut moments: Vec<NodeId> = self.moments.values().copied().filter(|&node| node != crash).collect();
        moments.sort_unstable();
        moments.into_iter().for_each(|moment| self.graph.always(moment, crash));
    }

    pub(super) fn survivors(&mut self) {
        let mut by_cell: FxHashMap<CellId, Vec<(LaneRef, Lit)>> = FxHashMap::default();
        for writer in self.writers() {
            for (cell, here) in self.cells_of_lane(writer) {
                by_cell.entry(cell).or_default().push((writer, here));
            }
        }
        for cell in self.observed() {
            let writers = by_cell.remove(&cell).unwrap_or_default();
            self.survivor(cell, &writers);
        }
        self.moments_before_crash();
        for event in 0..self.events.len() {
            if self.gates.solver.stopped().is_some() {
                return;
            }
            if !self.events[event].class.writes_back() {
                continue;
            }
            for (line, here) in self.events[event].lines.clone() {
                let moment = self.moments.get(&line).copied();
                let Some(moment) = moment.filter(|&moment| Some(moment) != self.crash) else { continue };
                let executed = self.events[event].executed;
                let lit = self.gates.and(executed, here);
                self.graph.edge(lit, self.events[event].node, moment);
                self.flush_before.push((event, line, lit));
            }
        }
    }

    fn survivor(&mut self, cell: CellId, writers: &[((usize, usize), Lit)]) {
        let content = self.memory.cells()[cell];
        if writers.is_empty() {
            let (bits, yes) = (self.initial_bits(cell), self.gates.yes());
            self.survivors.push(Survivor { cell, bits, from: vec![(None, yes)] });
            return;
        }
        let moment = self.moment(content.line());
        let bits = self.surviving_bits(cell, writers);
        let mut from = Vec::new();
        let initially = self.gates.fresh();
        let initial_bits = self.initial_bits(cell);
        self.gates.equal_if(initially, &bits, &initial_bits);
        let source = self.initial_source(cell);
        self.graph.read(initially, source, moment);
        from.push((None, initially));
        for &(writer, here) in writers {
            let lit = self.gates.fresh();
            let (writes, executed) = (self.writes(writer.0), self.events[writer.0].executed);
            for needed in [here, writes, executed] {
                self.gates.implies(&[lit], needed);
            }
            let value = &self.events[writer.0].write.as_ref().expect("a store").0;
            let value = Self::slice(value, self.lane(writer)).to_vec();
            self.gates.equal_if(lit, &bits, &value);
            let source = self.source(writer.0, writer.1);
            self.graph.read(lit, source, moment);
            from.push((Some(writer), lit));
        }
        let stores: Vec<(usize, Lit)> =
            from.iter().filter_map(|&(writer, lit)| writer.map(|writer| (writer.0, lit))).collect();
        let mut some = self.ladders(&stores, moment);
        some.push(initially);
        self.gates.clause(&some);
        self.survivors.push(Survivor { cell, bits, from });
    }

    /// Unconstrained bits for the possible contents of a cell: its initial content, or what one of these stores wrote.
    fn surviving_bits(&mut self, cell: CellId, writers: &[(LaneRef, Lit)]) -> Vec<Lit> {
        let content = self.memory.cells()[cell];
        let width = 8 * usize::from(content.bytes);
        let mut words = vec![self.initial_bits(cell)];
        for &(writer, _) in writers {
            let value = &self.events[writer.0].write.as_ref().expect("a store").0;
            words.push(Self::slice(value, self.lane(writer)).to_vec());
        }
        let few = words.iter().try_fold(Vec::new(), |known, word| {
            let values = union(&known, &self.gates.choices(word)?);
            let yes = self.gates.yes();
            (values.len() <= MOST_VALUES)
                .then(|| values.into_iter().map(|value| (value, yes)).collect::<Vec<_>>())
        });
        if let Some(few) = few.filter(|few| few.len() > 1) {
            let values: Vec<u64> = few.into_iter().map(|(value, _)| value).collect();
            return self.gates.choice(&values, width);
        }
        let (yes, no) = (self.gates.yes(), self.gates.no());
        let (mut may, mut must) = (0, u64::MAX);
        for (bit, &lit) in words.iter().flat_map(|word| word.iter().enumerate()) {
            if lit != no {
                may |= 1 << bit;
            }
            if lit != yes {
                must &= !(1 << bit);
            }
        }
        fresh_within(&mut self.gates, may, must, width)
    }
}
