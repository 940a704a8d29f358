//! The threads: the kind of each event, whether it happens, and its possible targets.

use crashproof_ordersat::Lit;
use px86::{Class, Kind, Line};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    Access, CROSSES_LINE, CrashEncoding, Encoded, Encoder, EventRef, GOES_ANYWHERE, Limit, Violation, Wrong,
};
use crate::memory::{CellId, Footprint, Lane, Memory};
use crate::program::{Action, Event};
use crate::term::Term;
use crate::values::initial_byte;

/// The nodes of a thread, and the threads it starts and joins.
#[derive(Debug, Default)]
pub(super) struct ThreadNodes {
    /// Into `Encoder::events`, in program order.
    pub(super) events: Vec<usize>,
    /// Events that start a thread.
    pub(super) creates: Vec<(usize, usize)>,
    /// Events that join one.
    pub(super) joins: Vec<(usize, usize)>,
    /// Claims and limits that count only if the thread reaches them before the crash, with the number of preceding
    /// `events`.
    pub(super) checks: Vec<(usize, Check)>,
}

/// Into `Encoder::violations` or `Encoder::limits`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Check {
    Violation(usize),
    Limit(usize),
}

/// The width and address of an access.
pub(super) fn accessed(action: &Action, width: impl Fn(Term) -> u8) -> Option<(Term, u8)> {
    match *action {
        Action::Load { address, result: value }
        | Action::Store { address, value, .. }
        | Action::Rmw { address, old: value, .. } => Some((address, width(value) / 8)),
        _ => None,
    }
}

/// An event's effect on memory; empty for flushes and fences.
#[derive(Default)]
pub(super) struct Touched {
    pub(super) access: Option<Access>,
    /// What it reads.
    pub(super) read: Option<Vec<Lit>>,
    /// What it writes, and whether it does.
    pub(super) write: Option<(Vec<Lit>, Lit)>,
}

impl Encoder<'_> {
    /// Finds the possible targets of accesses, divides memory into cells, and determines which cells are private to a
    /// thread.
    pub(super) fn cut_memory(&mut self) {
        let program = self.program;
        let mut footprints: Vec<Footprint> = Vec::new();
        let mut owners = Vec::new();
        let threads = program.threads.iter().enumerate().map(|(index, thread)| (Some(index), thread));
        for (thread, code) in threads.chain(program.recovery.iter().map(|code| (None, code))) {
            for (index, event) in code.events.iter().enumerate() {
                let Some((address, bytes)) = accessed(&event.action, |term| program.terms.width(term)) else {
                    continue;
                };
                // Events that cannot happen do not divide memory.
                let happens = self.analysis.get(event.guard).contains(1);
                let places = if happens { self.analysis.places(address, bytes) } else { Vec::new() };
                footprints.push((places, bytes));
                owners.push(EventRef { thread, index });
            }
        }
        let persistent = |address: u64| {
            program.objects.iter().any(|object| {
                object.persistent
                    && address.checked_sub(object.address).is_some_and(|at| at < object.initial.len())
            })
        };
        let (memory, lanes) = Memory::new(&footprints, persistent);
        self.memory = memory;
        self.private = vec![None; self.memory.cells().len()];
        let mut shared = vec![false; self.memory.cells().len()];
        for ((event, lanes), (places, _)) in owners.iter().zip(&lanes).zip(&footprints) {
            let Some(thread) = event.thread else { continue };
            for &place in places {
                for &lane in lanes {
                    let cell = self.cell_of(place, lane);
                    match self.private[cell] {
                        Some(owner) if owner != thread => shared[cell] = true,
                        _ => self.private[cell] = Some(thread),
                    }
                }
            }
        }
        for (private, shared) in self.private.iter_mut().zip(shared) {
            if shared {
                *private = None;
            }
        }
        self.lanes_of = owners.into_iter().zip(lanes).collect();
    }

    /// Terms that are used directly or indirectly.
    fn used(&self) -> FxHashSet<Term> {
        let program = self.program;
        let mut stack = Vec::new();
        let recovery = program.recovery.iter();
        for event in program.threads.iter().chain(recovery).flat_map(|thread| &thread.events) {
            stack.push(event.guard);
            match event.action {
                Action::Load { address, .. } | Action::Flush { address } | Action::FlushOpt { address } => {
                    stack.push(address);
                }
                Action::Store { address, value, .. } => stack.extend([address, value]),
                Action::Rmw { address, old, new, stores } => stack.extend([address, old, new, stores]),
                Action::Assert { condition, .. } => stack.push(condition),
                _ => {}
            }
        }
        let mut used = FxHashSet::default();
        while let Some(term) = stack.pop() {
            if used.insert(term) {
                stack.extend(program.terms.operands(term));
            }
        }
        used
    }

    /// Walks all threads. A created thread exists if the event that creates it happens.
    pub(super) fn threads(&mut self) -> Vec<ThreadNodes> {
        let program = self.program;
        let used = self.used();
        let mut exists: Vec<Lit> = program
            .threads
            .iter()
            .map(|thread| if thread.created { self.gates.no() } else { self.gates.yes() })
            .collect();
        let mut done: Vec<Option<ThreadNodes>> = program.threads.iter().map(|_| None).collect();
        // A thread is walked once the condition for its existence is known.
        let mut order: Vec<usize> =
            (0..program.threads.len()).filter(|&thread| !program.threads[thread].created).collect();
        let mut next = 0;
        while next < order.len() {
            let thread = order[next];
            next += 1;
            let nodes = self.thread(thread, exists[thread], &used);
            for &(event, child) in &nodes.creates {
                exists[child] = self.events[event].guard;
                if !order.contains(&child) {
                    order.push(child);
                }
            }
            done[thread] = Some(nodes);
        }
        done.into_iter().map(Option::unwrap_or_default).collect()
    }

    fn thread(&mut self, thread: usize, exists: Lit, used: &FxHashSet<Term>) -> ThreadNodes {
        let program = self.program;
        let mut nodes = ThreadNodes::default();
        // The content of the thread's private cells at this point.
        let mut own: FxHashMap<CellId, Vec<Lit>> = FxHashMap::default();
        for (index, event) in program.threads[thread].events.iter().enumerate() {
            let at = EventRef { thread: Some(thread), index };
            if !self.analysis.get(event.guard).contains(1) {
                continue;
            }
            let guard = self.truth(event.guard);
            let guard = self.gates.and(guard, exists);
            if guard == self.gates.no() {
                continue;
            }
            self.event(&mut nodes, &mut own, used, at, event, guard);
        }
        nodes
    }

    fn event(
        &mut self,
        nodes: &mut ThreadNodes,
        own: &mut FxHashMap<CellId, Vec<Lit>>,
        used: &FxHashSet<Term>,
        at: EventRef,
        event: &Event,
        guard: Lit,
    ) {
        match &event.action {
            Action::Load { address, result } => {
                let access = self.access_at(at, *address);
                self.check_outside(nodes, &access, at, event, guard);
                if !used.contains(result) && !self.settings.keep_all_reads {
                    return;
                }
                if let Some(bits) = self.own_content(own, &access, at) {
                    self.blaster.bind(&mut self.gates, *result, bits);
                    if !self.settings.keep_all_reads {
                        return;
                    }
                }
                let read = self.bits(*result);
                let touched = Touched { access: Some(access), read: Some(read), write: None };
                self.push(nodes, at, Kind::Load, guard, touched);
            }
            Action::Store { address, value, non_temporal } => {
                let access = self.access_at(at, *address);
                self.check_outside(nodes, &access, at, event, guard);
                let value = self.bits(*value);
                self.store_own(own, &access, at, guard, &value);
                let yes = self.gates.yes();
                let kind = if *non_temporal { Kind::NonTemporalStore } else { Kind::Store };
                let touched = Touched { access: Some(access), read: None, write: Some((value, yes)) };
                self.push(nodes, at, kind, guard, touched);
                if let Some(write_back) = kind.write_back() {
                    self.flush(nodes, at, write_back, guard, *address);
                }
            }
            Action::Rmw { address, old, new, stores } => {
                let access = self.access_at(at, *address);
                self.check_outside(nodes, &access, at, event, guard);
                let mine = self.own_content(own, &access, at);
                if let Some(bits) = &mine {
                    self.blaster.bind(&mut self.gates, *old, bits.clone());
                }
                let read = self.bits(*old);
                let (new, stores) = (self.bits(*new), self.truth(*stores));
                let happens = self.gates.and(guard, stores);
                self.store_own(own, &access, at, happens, &new);
                let read = (mine.is_none() || self.settings.keep_all_reads).then_some(read);
                let touched = Touched { access: Some(access), read, write: Some((new, stores)) };
                self.push(nodes, at, Kind::Rmw, guard, touched);
            }
            Action::Flush { address } => self.flush(nodes, at, Kind::Flush, guard, *address),
            Action::FlushOpt { address } => self.flush(nodes, at, Kind::FlushOpt, guard, *address),
            Action::StoreFence => self.push(nodes, at, Kind::StoreFence, guard, Touched::default()),
            Action::Fence => self.push(nodes, at, Kind::Fence, guard, Touched::default()),
            Action::Create(child) => {
                nodes.creates.push((self.events.len(), child.0));
                self.push(nodes, at, Kind::Fence, guard, Touched::default());
            }
            Action::Join(child) => {
                nodes.joins.push((self.events.len(), child.0));
                self.push(nodes, at, Kind::Fence, guard, Touched::default());
            }
            Action::Assert { condition, message } => {
                let condition = self.truth(*condition);
                let lit = self.gates.and(guard, !condition);
                self.violation(nodes, lit, Wrong::Assertion(message.clone()), at, event);
            }
            Action::Unknown { reason } => self.limit(nodes, guard, reason.clone(), at, event),
        }
    }

    fn violation(&mut self, nodes: &mut ThreadNodes, lit: Lit, what: Wrong, at: EventRef, event: &Event) {
        if lit != self.gates.no() {
            nodes.checks.push((nodes.events.len(), Check::Violation(self.violations.len())));
            self.violations.push(Violation { lit, what, event: at, site: event.site, crashes: 0 });
        }
    }

    fn limit(&mut self, nodes: &mut ThreadNodes, lit: Lit, reason: String, at: EventRef, event: &Event) {
        if lit != self.gates.no() {
            nodes.checks.push((nodes.events.len(), Check::Limit(self.limits.len())));
            self.limits.push(Limit { lit, reason, event: at, site: event.site });
        }
    }

    /// The possible targets of an access.
    pub(super) fn access_at(&mut self, at: EventRef, address: Term) -> Access {
        let lanes = self.lanes_of[&at].clone();
        let bytes = lanes.iter().map(|lane| lane.bytes).sum();
        let places = self.analysis.places(address, bytes);
        let only = places.len() == 1 && !self.analysis.can_miss(&places, address);
        let places = places.into_iter().map(|place| (place, self.is_at(address, place, only))).collect();
        Access { address, places, lanes }
    }

    /// An access outside every object is a violation; one that may cross a line is not modeled.
    fn check_outside(
        &mut self,
        nodes: &mut ThreadNodes,
        access: &Access,
        at: EventRef,
        event: &Event,
        guard: Lit,
    ) {
        if self.goes_anywhere(access) {
            self.limit(nodes, guard, GOES_ANYWHERE.to_owned(), at, event);
            return;
        }
        let inside: Vec<Lit> = access.places.iter().map(|&(_, lit)| lit).collect();
        let inside = self.gates.any(&inside);
        let lit = self.gates.and(guard, !inside);
        self.violation(nodes, lit, Wrong::Outside, at, event);
        if let Some(lit) = self.crosses_line(access) {
            let lit = self.gates.and(guard, lit);
            let reason = CROSSES_LINE.to_owned();
            self.limit(nodes, lit, reason, at, event);
        }
    }

    /// Whether an access has too many possible targets to follow.
    pub(super) fn goes_anywhere(&self, access: &Access) -> bool {
        let bytes = access.lanes.iter().map(|lane| lane.bytes).sum();
        self.analysis.goes_anywhere(access.address, bytes)
    }

    pub(super) fn crosses_line(&mut self, access: &Access) -> Option<Lit> {
        let bytes: u8 = access.lanes.iter().map(|lane| lane.bytes).sum();
        let crossing: Vec<Lit> = access
            .places
            .iter()
            .filter(|(place, _)| px86::line::crosses(*place, u64::from(bytes)))
            .map(|&(_, lit)| lit)
            .collect();
        (!crossing.is_empty()).then(|| self.gates.any(&crossing))
    }

    /// What a load sees if all its possible targets are private to its thread.
    fn own_content(
        &mut self,
        own: &FxHashMap<CellId, Vec<Lit>>,
        access: &Access,
        at: EventRef,
    ) -> Option<Vec<Lit>> {
        let thread = at.thread;
        let mut bits = Vec::new();
        for &lane in &access.lanes {
            let mut seen: Option<Vec<Lit>> = None;
            for &(place, here) in &access.places {
                let cell = self.cell_of(place, lane);
                if self.private[cell] != thread {
                    return None;
                }
                let content = own.get(&cell).cloned().unwrap_or_else(|| self.initial_bits(cell));
                seen = Some(match seen {
                    None => content,
                    Some(other) => self.mux(here, &content, &other),
                });
            }
            // There is nothing here: the access is out of bounds, and what it reads does not matter.
            bits.extend(seen.unwrap_or_else(|| vec![self.gates.no(); 8 * usize::from(lane.bytes)]));
        }
        Some(bits)
    }

    fn store_own(
        &mut self,
        own: &mut FxHashMap<CellId, Vec<Lit>>,
        access: &Access,
        at: EventRef,
        happens: Lit,
        value: &[Lit],
    ) {
        for &lane in &access.lanes {
            for &(place, here) in &access.places {
                let cell = self.cell_of(place, lane);
                if self.private[cell] != at.thread {
                    continue;
                }
                let old = own.get(&cell).cloned().unwrap_or_else(|| self.initial_bits(cell));
                let stored = self.gates.and(happens, here);
                let new = self.mux(stored, Self::slice(value, lane), &old);
                own.insert(cell, new);
            }
        }
    }

    pub(super) fn mux(&mut self, condition: Lit, a: &[Lit], b: &[Lit]) -> Vec<Lit> {
        self.gates.mux_word(condition, a, b)
    }

    /// The initial content of a cell. Unknown bits are unconstrained, but the same for all readers.
    pub(super) fn initial_bits(&mut self, cell: CellId) -> Vec<Lit> {
        if let Some(bits) = self.open_cells.get(&cell) {
            return bits.clone();
        }
        let content = self.memory.cells()[cell];
        let mut bits = Vec::new();
        let mut open = false;
        for at in content.address..content.address + u64::from(content.bytes) {
            let byte = initial_byte(self.program, at);
            open |= byte.is_none();
            bits.extend((0..8).map(|bit| match byte {
                Some(byte) => self.gates.constant(byte >> bit & 1 == 1),
                None => self.gates.fresh(),
            }));
        }
        if open {
            self.open_cells.insert(cell, bits.clone());
        }
        bits
    }

    pub(super) fn flush(
        &mut self,
        nodes: &mut ThreadNodes,
        at: EventRef,
        kind: Kind,
        guard: Lit,
        address: Term,
    ) {
        let lines = self.analysis.lines(address);
        let values = self.analysis.get(address).few();
        let only = lines.len() == 1
            && values.is_some_and(|values| values.iter().all(|&at| Line::containing(at) == lines[0]));
        let bits = if only { Vec::new() } else { self.bits(address) };
        let border = Line(1).start().trailing_zeros() as usize;
        let lines = lines
            .into_iter()
            .map(|line| {
                if only {
                    return (line, self.gates.yes());
                }
                if let Some(choices) = self.gates.choices(&bits) {
                    let inside = choices.into_iter().filter(|&(at, _)| Line::containing(at) == line);
                    let inside: Vec<Lit> = inside.map(|(_, lit)| lit).collect();
                    return (line, self.gates.any(&inside));
                }
                let wanted: Vec<Lit> = bits
                    .iter()
                    .enumerate()
                    .skip(border)
                    .map(|(bit, &lit)| if line.start() >> bit & 1 == 1 { lit } else { !lit })
                    .collect();
                (line, self.gates.all(&wanted))
            })
            .collect();
        self.push(nodes, at, kind, guard, Touched::default());
        self.events.last_mut().expect("just pushed").lines = lines;
    }

    pub(super) fn push(
        &mut self,
        nodes: &mut ThreadNodes,
        event: EventRef,
        kind: Kind,
        guard: Lit,
        touched: Touched,
    ) {
        let Touched { access, read, write } = touched;
        let class: Class = kind.class();
        let executed = self.gates.fresh();
        self.gates.implies(&[executed], guard);
        let live = match self.settings.crash {
            CrashEncoding::Partial => executed,
            CrashEncoding::Full => guard,
        };
        let mut lines: Vec<(Line, Lit)> = Vec::new();
        if class != Class::Fence
            && let Some(access) = &access
        {
            for &(place, lit) in &access.places {
                let line = Line::containing(place);
                match lines.iter_mut().find(|(known, _)| *known == line) {
                    Some((_, known)) => *known = self.gates.or(*known, lit),
                    None => lines.push((line, lit)),
                }
            }
        }
        let lanes = access.as_ref().map_or(0, |access: &Access| access.lanes.len());
        nodes.events.push(self.events.len());
        self.events.push(Encoded {
            event,
            class,
            node: self.graph.node(),
            guard,
            executed,
            live,
            access,
            lines,
            read,
            write,
            sources: vec![None; lanes],
            position: nodes.events.len(),
        });
    }

    /// The lanes of an access that has no encoded event.
    pub(super) fn lanes(&self, at: EventRef) -> &[Lane] {
        self.lanes_of.get(&at).map_or(&[], Vec::as_slice)
    }
}
