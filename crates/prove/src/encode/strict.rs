//! Strict persistency (PSan, Definitions 1 to 3) as a formula over one execution: is a store lost that happened before
//! a survivor?
//!
//! Happened-before is program order and reads-from. That something happened before a survivor is justified by a path to
//! it: every step is a variable that implies the next. Program order and reads-from together are acyclic (a load
//! precedes everything its thread does later), so no path can justify itself.

use crashproof_ordersat::Lit;
use rustc_hash::FxHashMap;

use super::{Encoder, EventRef, Left};
use crate::memory::CellId;
use crate::program::Action;

/// A store that may be lost although it happened before a survivor.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// It is.
    pub lit: Lit,
    /// Into `Encoder::events`.
    pub store: usize,
}

impl Encoder<'_> {
    /// Every store, with the literal that it is lost in an observed cell although it happened before the survivor of an
    /// observed cell. Observed are the cells that recovery reads, or all cells without recovery.
    pub fn losses(&mut self) -> Vec<Loss> {
        let observed = self.observed_cells();
        let mut survives: Vec<Vec<Lit>> = vec![Vec::new(); self.events.len()];
        // For each cell, its possible survivors: the event, or `None` for the initial value.
        let mut survivor_of: FxHashMap<CellId, Vec<Left>> = FxHashMap::default();
        for survivor in self.survivors.clone() {
            let Some(&seen) = observed.get(&survivor.cell) else { continue };
            for &(from, lit) in &survivor.from {
                let lit = self.gates.and(lit, seen);
                if let Some((event, _)) = from {
                    survives[event].push(lit);
                }
                survivor_of.entry(survivor.cell).or_default().push((from, lit));
            }
        }
        let before = self.before_survivors(&survives);
        let mut overwritten: FxHashMap<(usize, usize), Vec<Lit>> = FxHashMap::default();
        for pair in &self.overwrites {
            overwritten.entry((pair.first, pair.second)).or_default().push(pair.lit);
        }
        let mut losses = Vec::new();
        for store in self.writers() {
            let writes = self.writes(store.0);
            for (cell, here) in self.cells_of_lane(store) {
                for &(from, lit) in survivor_of.get(&cell).map_or(&[][..], Vec::as_slice) {
                    let later = match from {
                        None => writes,
                        Some((event, _)) if event == store.0 => continue,
                        Some((event, _)) => {
                            let pairs = overwritten.get(&(event, store.0)).cloned().unwrap_or_default();
                            self.gates.any(&pairs)
                        }
                    };
                    let lost = self.gates.all(&[lit, later, here, before[store.0]]);
                    if lost != self.gates.no() {
                        losses.push(Loss { lit: lost, store: store.0 });
                    }
                }
            }
        }
        losses
    }

    /// For each event, a literal that implies that it happened before a survivor, or is one.
    fn before_survivors(&mut self, survives: &[Vec<Lit>]) -> Vec<Lit> {
        let mut from_here: Vec<Lit> = (0..self.events.len()).map(|_| self.gates.fresh()).collect();
        let mut readers: Vec<Vec<(Lit, usize)>> = vec![Vec::new(); self.events.len()];
        for reads in &self.reads_from {
            if let Some((writer, _)) = reads.writer {
                readers[writer].push((reads.lit, reads.reader));
            }
        }
        for event in 0..self.events.len() {
            let next = event + 1;
            let mut ways = vec![!from_here[event]];
            if self
                .events
                .get(next)
                .is_some_and(|other| other.event.thread == self.events[event].event.thread)
            {
                ways.push(from_here[next]);
            }
            // The event itself takes part only if it is in the graph.
            let live = self.events[event].live;
            for &lit in &survives[event] {
                ways.push(lit);
            }
            for (reads, reader) in std::mem::take(&mut readers[event]) {
                let way = self.gates.all(&[reads, from_here[reader], live]);
                ways.push(way);
            }
            self.gates.clause(&ways);
        }
        for (event, lit) in from_here.iter_mut().enumerate() {
            let live = self.events[event].live;
            *lit = self.gates.and(*lit, live);
        }
        from_here
    }

    /// The persistent cells that recovery reads from before the crash, each with its condition.
    fn observed_cells(&mut self) -> FxHashMap<CellId, Lit> {
        let yes = self.gates.yes();
        let Some(recovery) = &self.program.recovery else {
            return self.survivors.iter().map(|survivor| (survivor.cell, yes)).collect();
        };
        let mut seen: FxHashMap<CellId, Vec<Lit>> = FxHashMap::default();
        let mut own: FxHashMap<CellId, Vec<Lit>> = FxHashMap::default();
        for (index, event) in recovery.events.iter().enumerate() {
            if !self.analysis.get(event.guard).contains(1) {
                continue;
            }
            let (address, reads, stores) = match event.action {
                Action::Load { address, .. } => (address, true, None),
                Action::Store { address, .. } => (address, false, Some(None)),
                Action::Rmw { address, stores, .. } => (address, true, Some(Some(stores))),
                _ => continue,
            };
            let guard = self.truth(event.guard);
            let access = self.access_at(EventRef { thread: None, index }, address);
            let stores = stores.map(|condition| condition.map_or(yes, |condition| self.truth(condition)));
            for &lane in &access.lanes {
                for &(place, here) in &access.places {
                    let cell = self.cell_of(place, lane);
                    let there = self.gates.and(guard, here);
                    if reads {
                        let overwritten = own.get(&cell).cloned().unwrap_or_default();
                        let overwritten = self.gates.any(&overwritten);
                        let first = self.gates.and(there, !overwritten);
                        seen.entry(cell).or_default().push(first);
                    }
                    if let Some(stores) = stores {
                        let stored = self.gates.and(there, stores);
                        own.entry(cell).or_default().push(stored);
                    }
                }
            }
        }
        seen.into_iter().map(|(cell, lits)| (cell, self.gates.any(&lits))).collect()
    }
}
