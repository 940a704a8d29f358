//! Recovery: sequential code on what survived. No orders are needed: memory is tracked as terms.
//!
//! If recovery may crash, too ([`Settings::crashes`](super::Settings)), it is encoded once per crash, each time on the
//! crash state left by the previous one. It runs alone, so its stores reach memory in program order, and a line keeps a
//! prefix of the stores to it: at least what was certainly written back. As for threads, px86's table determines which
//! of its events took effect.

use crashproof_ordersat::Lit;
use px86::{Kind, Line};
use rustc_hash::FxHashMap;

use super::threads::{ThreadNodes, Touched};
use super::{Access, Encoder, EventRef, GOES_ANYWHERE, Limit, RecoveryLoad, Violation, Wrong};
use crate::blast::Blaster;
use crate::memory::CellId;
use crate::program::{Action, Event};

/// The content of each cell.
type Contents = FxHashMap<CellId, Vec<Lit>>;

/// One run of recovery.
struct Pass {
    /// The number of crashes before it.
    crashes: usize,
    memory: Contents,
    /// Its effects on memory, if it crashes in turn.
    effects: Option<ThreadNodes>,
}

impl Encoder<'_> {
    pub(super) fn recovery(&mut self) {
        let Some(recovery) = &self.program.recovery else { return };
        let mut survivors: Contents =
            self.survivors.iter().map(|survivor| (survivor.cell, survivor.bits.clone())).collect();
        let threads = self.events.len();
        let mut kept = None;
        for crashes in 1..=self.settings.crashes {
            if crashes > 1 {
                // Recovery reads different values in each run.
                let before = std::mem::replace(&mut self.blaster, Blaster::new(&self.program.terms));
                kept.get_or_insert(before);
            }
            let effects = (crashes < self.settings.crashes).then(ThreadNodes::default);
            let mut pass = Pass { crashes, memory: survivors.clone(), effects };
            for (index, event) in recovery.events.iter().enumerate() {
                if !self.analysis.get(event.guard).contains(1) {
                    continue;
                }
                let guard = self.truth(event.guard);
                self.recovery_event(&mut pass, EventRef { thread: None, index }, event, guard);
            }
            if let Some(effects) = pass.effects {
                survivors = self.left_of(survivors, &effects);
                self.left.push(survivors.iter().map(|(&cell, bits)| (cell, bits.clone())).collect());
                self.events.truncate(threads);
            }
        }
        if let Some(first) = kept {
            self.blaster = first;
        }
    }

    /// The crash state after a crash of recovery.
    fn left_of(&mut self, found: Contents, effects: &ThreadNodes) -> Contents {
        self.execution(effects);
        let stores: Vec<usize> =
            effects.events.iter().copied().filter(|&event| self.events[event].write.is_some()).collect();
        let mut persisted: Vec<Lit> = Vec::new();
        for (at, &store) in stores.iter().enumerate() {
            let (executed, issued) = (self.events[store].executed, self.issues(store));
            let lit = self.gates.fresh();
            for needed in [executed, issued] {
                self.gates.implies(&[lit], needed);
            }
            // A line persists in order.
            for (earlier, &before) in stores[..at].iter().zip(&persisted) {
                let (same, issued) = (self.share_line(*earlier, store), self.issues(*earlier));
                if same != self.gates.no() {
                    self.gates.implies(&[lit, same, issued], before);
                }
            }
            for (line, here) in self.lines_of(store) {
                if self.platform.cache_survives(line) {
                    self.gates.implies(&[executed, issued, here], lit);
                }
            }
            persisted.push(lit);
        }
        // Everything written back has persisted.
        for &flush in &effects.events {
            if !self.events[flush].class.writes_back() {
                continue;
            }
            let executed = self.events[flush].executed;
            for (&store, &lit) in stores.iter().zip(&persisted).filter(|&(&store, _)| store < flush) {
                let (same, issued) = (self.share_line(store, flush), self.issues(store));
                if same != self.gates.no() {
                    self.gates.implies(&[executed, same, issued], lit);
                }
            }
        }
        let mut left = found;
        for (&store, &lit) in stores.iter().zip(&persisted) {
            let (access, value) = (self.access(store).clone(), self.events[store].write.clone());
            let (value, _) = value.expect("a store");
            for &lane in &access.lanes {
                for &(place, here) in &access.places {
                    let cell = self.cell_of(place, lane);
                    let Some(old) = left.get(&cell).cloned() else { continue };
                    let stored = self.gates.and(lit, here);
                    let new = self.mux(stored, Self::slice(&value, lane), &old);
                    left.insert(cell, new);
                }
            }
        }
        left
    }

    /// The lines that a store may go to.
    fn lines_of(&self, event: usize) -> Vec<(Line, Lit)> {
        match &self.events[event].access {
            Some(access) => {
                access.places.iter().map(|&(place, here)| (Line::containing(place), here)).collect()
            }
            None => self.events[event].lines.clone(),
        }
    }

    fn share_line(&mut self, a: usize, b: usize) -> Lit {
        let (first, second) = (self.lines_of(a), self.lines_of(b));
        let mut common = Vec::new();
        for &(line, here) in &first {
            for &(other, there) in &second {
                if line == other {
                    common.push(self.gates.and(here, there));
                }
            }
        }
        self.gates.any(&common)
    }

    fn recovery_event(&mut self, pass: &mut Pass, at: EventRef, event: &Event, guard: Lit) {
        match &event.action {
            Action::Load { address, result } => {
                let access = self.recovery_access(pass, at, event, *address, guard);
                let bits = self.look(&pass.memory, &access);
                self.note_read(pass, at, guard, &bits, &access);
                self.blaster.bind(&mut self.gates, *result, bits);
            }
            Action::Store { address, value, non_temporal } => {
                let access = self.recovery_access(pass, at, event, *address, guard);
                let value = self.bits(*value);
                self.put(&mut pass.memory, &access, guard, &value);
                let kind = if *non_temporal { Kind::NonTemporalStore } else { Kind::Store };
                let yes = self.gates.yes();
                let touched = Touched { access: Some(access), read: None, write: Some((value, yes)) };
                if let Some(nodes) = &mut pass.effects {
                    self.push(nodes, at, kind, guard, touched);
                    if let Some(write_back) = kind.write_back() {
                        self.flush(nodes, at, write_back, guard, *address);
                    }
                }
            }
            Action::Rmw { address, old, new, stores } => {
                let access = self.recovery_access(pass, at, event, *address, guard);
                let bits = self.look(&pass.memory, &access);
                self.note_read(pass, at, guard, &bits, &access);
                self.blaster.bind(&mut self.gates, *old, bits);
                let (new, stores) = (self.bits(*new), self.truth(*stores));
                let happens = self.gates.and(guard, stores);
                self.put(&mut pass.memory, &access, happens, &new);
                let touched = Touched { access: Some(access), read: None, write: Some((new, stores)) };
                if let Some(nodes) = &mut pass.effects {
                    self.push(nodes, at, Kind::Rmw, guard, touched);
                }
            }
            Action::Assert { condition, message } => {
                let condition = self.truth(*condition);
                let lit = self.gates.and(guard, !condition);
                if lit != self.gates.no() {
                    let what = Wrong::Assertion(message.clone());
                    let crashes = pass.crashes;
                    self.violations.push(Violation { lit, what, event: at, site: event.site, crashes });
                }
            }
            Action::Unknown { reason } => {
                self.limits.push(Limit { lit: guard, reason: reason.clone(), event: at, site: event.site });
            }
            // Recovery runs alone: flushes and fences are invisible to it, but affect the state after it crashes.
            Action::Flush { address } => self.recovery_flush(pass, at, Kind::Flush, guard, *address),
            Action::FlushOpt { address } => self.recovery_flush(pass, at, Kind::FlushOpt, guard, *address),
            Action::StoreFence => self.recovery_fence(pass, at, Kind::StoreFence, guard),
            Action::Fence | Action::Create(_) | Action::Join(_) => {
                self.recovery_fence(pass, at, Kind::Fence, guard);
            }
        }
    }

    fn recovery_flush(
        &mut self,
        pass: &mut Pass,
        at: EventRef,
        kind: Kind,
        guard: Lit,
        address: crate::term::Term,
    ) {
        if let Some(nodes) = &mut pass.effects {
            self.flush(nodes, at, kind, guard, address);
        }
    }

    fn recovery_fence(&mut self, pass: &mut Pass, at: EventRef, kind: Kind, guard: Lit) {
        if let Some(nodes) = &mut pass.effects {
            self.push(nodes, at, kind, guard, Touched::default());
        }
    }

    fn note_read(&mut self, pass: &Pass, at: EventRef, guard: Lit, bits: &[Lit], access: &Access) {
        let (bits, places) = (bits.to_vec(), access.places.clone());
        let crashes = pass.crashes;
        self.recovery_reads.push(RecoveryLoad { index: at.index, crashes, guard, bits, places });
    }

    fn recovery_access(
        &mut self,
        pass: &Pass,
        at: EventRef,
        event: &Event,
        address: crate::term::Term,
        guard: Lit,
    ) -> Access {
        let access = self.access_at(at, address);
        if self.goes_anywhere(&access) {
            let (reason, site) = (GOES_ANYWHERE.to_owned(), event.site);
            self.limits.push(Limit { lit: guard, reason, event: at, site });
            return access;
        }
        let inside: Vec<Lit> = access.places.iter().map(|&(_, lit)| lit).collect();
        let inside = self.gates.any(&inside);
        let lit = self.gates.and(guard, !inside);
        if lit != self.gates.no() {
            let (what, crashes) = (Wrong::Outside, pass.crashes);
            self.violations.push(Violation { lit, what, event: at, site: event.site, crashes });
        }
        access
    }

    fn look(&mut self, memory: &Contents, access: &Access) -> Vec<Lit> {
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

    fn put(&mut self, memory: &mut Contents, access: &Access, happens: Lit, value: &[Lit]) {
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
