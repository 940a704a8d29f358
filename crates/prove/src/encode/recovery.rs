//! Recovery: sequential code over what survived. No orders are needed: memory is followed as terms.

use crashproof_ordersat::Lit;
use rustc_hash::FxHashMap;

use super::{Access, Encoder, EventRef, Limit, RecoveryLoad, Violation, Wrong};
use crate::memory::CellId;
use crate::program::{Action, Event};

impl Encoder<'_> {
    pub(super) fn recovery(&mut self) {
        let Some(recovery) = &self.program.recovery else { return };
        let mut memory: FxHashMap<CellId, Vec<Lit>> =
            self.survivors.iter().map(|survivor| (survivor.cell, survivor.bits.clone())).collect();
        for (index, event) in recovery.events.iter().enumerate() {
            if !self.analysis.get(event.guard).contains(1) {
                continue;
            }
            let guard = self.truth(event.guard);
            self.recovery_event(&mut memory, EventRef { thread: None, index }, event, guard);
        }
    }

    fn recovery_event(
        &mut self,
        memory: &mut FxHashMap<CellId, Vec<Lit>>,
        at: EventRef,
        event: &Event,
        guard: Lit,
    ) {
        match &event.action {
            Action::Load { address, result } => {
                let access = self.recovery_access(at, event, *address, guard);
                let bits = self.look(memory, &access);
                self.note_read(at, guard, &bits, &access);
                self.blaster.bind(&mut self.gates, *result, bits);
            }
            Action::Store { address, value, .. } => {
                let access = self.recovery_access(at, event, *address, guard);
                let value = self.bits(*value);
                self.put(memory, &access, guard, &value);
            }
            Action::Rmw { address, old, new, stores } => {
                let access = self.recovery_access(at, event, *address, guard);
                let bits = self.look(memory, &access);
                self.note_read(at, guard, &bits, &access);
                self.blaster.bind(&mut self.gates, *old, bits);
                let (new, stores) = (self.bits(*new), self.truth(*stores));
                let happens = self.gates.and(guard, stores);
                self.put(memory, &access, happens, &new);
            }
            Action::Assert { condition, message } => {
                let condition = self.truth(*condition);
                let lit = self.gates.and(guard, !condition);
                if lit != self.gates.no() {
                    let what = Wrong::Assertion(message.clone());
                    self.violations.push(Violation { lit, what, event: at, site: event.site });
                }
            }
            Action::Unknown { reason } => {
                self.limits.push(Limit { lit: guard, reason: reason.clone(), event: at, site: event.site });
            }
            // Alone, and not crashed again: flushes and fences show recovery nothing.
            Action::Flush { .. }
            | Action::FlushOpt { .. }
            | Action::StoreFence
            | Action::Fence
            | Action::Create(_)
            | Action::Join(_) => {}
        }
    }

    fn note_read(&mut self, at: EventRef, guard: Lit, bits: &[Lit], access: &Access) {
        let (bits, places) = (bits.to_vec(), access.places.clone());
        self.recovery_reads.push(RecoveryLoad { index: at.index, guard, bits, places });
    }

    fn recovery_access(
        &mut self,
        at: EventRef,
        event: &Event,
        address: crate::term::Term,
        guard: Lit,
    ) -> Access {
        let access = self.access_at(at, address);
        let inside: Vec<Lit> = access.places.iter().map(|&(_, lit)| lit).collect();
        let inside = self.gates.any(&inside);
        let lit = self.gates.and(guard, !inside);
        if lit != self.gates.no() {
            self.violations.push(Violation { lit, what: Wrong::Outside, event: at, site: event.site });
        }
        access
    }

    fn look(&mut self, memory: &FxHashMap<CellId, Vec<Lit>>, access: &Access) -> Vec<Lit> {
        let mut bits = Vec::new();
        for &lane in &access.lanes {
            let mut seen: Option<Vec<Lit>> = None;
            for &(place, here) in &access.places {
                let cell = self.cell_of(place, lane);
                let content = memory.get(&cell).cloned().unwrap_or_else(|| self.initial_bits(cell));
                seen = Some(match seen {
                    None => content,
                    Some(other) => self.mux(here, &content, &other),
                });
            }
            bits.extend(seen.unwrap_or_else(|| vec![self.gates.no(); 8 * usize::from(lane.bytes)]));
        }
        bits
    }

    fn put(
        &mut self,
        memory: &mut FxHashMap<CellId, Vec<Lit>>,
        access: &Access,
        happens: Lit,
        value: &[Lit],
    ) {
        for &lane in &access.lanes {
            for &(place, here) in &access.places {
                let cell = self.cell_of(place, lane);
                let old = memory.get(&cell).cloned().unwrap_or_else(|| self.initial_bits(cell));
                let stored = self.gates.and(happens, here);
                let new = self.mux(stored, Self::slice(value, lane), &old);
                memory.insert(cell, new);
            }
        }
    }
}
