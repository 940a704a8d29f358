//! Preserved program order: edges, and which events must have been executed before others.
//!
//! px86's table alone determines which pairs are ordered. This module expresses that with few edges: edges implied by
//! others are left out, and edges of an event that may not happen must not transitively order what precedes it before
//! what follows it, unless those are ordered anyway.

use crashproof_ordersat::Lit;
use crashproof_ordersat::closure::Closure;
use px86::order::{CLASSES, PRESERVED};
use px86::{Class, Order};

use super::threads::{Check, ThreadNodes};
use super::{CrashEncoding, Encoder};

impl Encoder<'_> {
    pub(super) fn program_order(&mut self, threads: &[ThreadNodes]) {
        let mut order = Closure::new(self.graph.nodes());
        for thread in threads {
            self.thread_order(thread, &mut order);
        }
        let mut ends = Vec::new();
        for thread in threads {
            ends.push(self.execution(thread));
        }
        for thread in threads {
            for &(create, child) in &thread.creates {
                self.start(create, &threads[child], &mut order);
            }
            for &(join, child) in &thread.joins {
                self.end(join, &threads[child], &ends[child], &mut order);
            }
        }
        self.order = order;
    }

    /// Does the table order the first before the second? The literal is the condition.
    fn preserved(&mut self, a: usize, b: usize) -> Lit {
        let (first, second) = (&self.events[a], &self.events[b]);
        match PRESERVED[first.class as usize][second.class as usize] {
            Order::Always => self.gates.yes(),
            Order::Never => self.gates.no(),
            Order::SameLine => {
                let mut common = Vec::new();
                for &(line, here) in &first.lines {
                    for &(other, there) in &second.lines {
                        if line == other {
                            common.push((here, there));
                        }
                    }
                }
                let both: Vec<Lit> = common.into_iter().map(|(a, b)| self.gates.and(a, b)).collect();
                self.gates.any(&both)
            }
        }
    }

    /// If this event does not happen, could edges through it order what the table does not?
    fn carries(&self, thread: &[usize], at: usize) -> bool {
        let class = self.events[thread[at]].class as usize;
        let mut before = [false; CLASSES.len()];
        let mut after = [false; CLASSES.len()];
        thread[..at].iter().for_each(|&event| before[self.events[event].class as usize] = true);
        thread[at + 1..].iter().for_each(|&event| after[self.events[event].class as usize] = true);
        let count = CLASSES.len();
        (0..count).any(|a| {
            before[a]
                && PRESERVED[a][class] != Order::Never
                && (0..count).any(|c| {
                    after[c] && PRESERVED[class][c] != Order::Never && PRESERVED[a][c] != Order::Always
                })
        })
    }

    fn thread_order(&mut self, thread: &ThreadNodes, order: &mut Closure) {
        let events = &thread.events;
        let yes = self.gates.yes();
        // Unconditional edges, nearest first, so that most of the others are implied.
        let hollow: Vec<bool> = (0..events.len())
            .map(|at| self.events[events[at]].guard != yes && self.carries(events, at))
            .collect();
        for later in 0..events.len() {
            if self.gates.solver.stopped().is_some() {
                return;
            }
            for earlier in (0..later).rev() {
                let (a, b) = (events[earlier], events[later]);
                let (from, to) = (self.events[a].node, self.events[b].node);
                if hollow[earlier] || order.before(from as usize, to as usize) {
                    continue;
                }
                if self.preserved(a, b) == yes {
                    self.graph.always(from, to);
                    order.insert(from as usize, to as usize, |_, _| {});
                }
            }
        }
        for earlier in 0..events.len() {
            let a = events[earlier];
            let guard = if hollow[earlier] { self.events[a].guard } else { yes };
            let mut reached: Vec<usize> = Vec::new();
            for &b in &events[earlier + 1..] {
                let (from, to) = (self.events[a].node as usize, self.events[b].node as usize);
                if order.before(from, to) || reached.iter().any(|&near| order.before(near, to)) {
                    continue;
                }
                let preserved = self.preserved(a, b);
                if preserved == self.gates.no() {
                    continue;
                }
                let lit = self.gates.and(guard, preserved);
                self.graph.edge(lit, from as u32, to as u32);
                if preserved == yes {
                    reached.push(to);
                }
            }
        }
    }

    /// Which events must have been executed if later ones are. Returns, for each class, the literal that all events of
    /// the class were executed.
    pub(super) fn execution(&mut self, thread: &ThreadNodes) -> [Option<Lit>; CLASSES.len()] {
        let yes = self.gates.yes();
        let mut all: [Option<Lit>; CLASSES.len()] = [None; CLASSES.len()];
        let mut checks = thread.checks.iter().peekable();
        for at in 0..=thread.events.len() {
            while let Some((_, check)) = checks.next_if(|(before, _)| *before == at) {
                self.check_before_crash(*check, &all);
            }
            let Some(&event) = thread.events.get(at) else { break };
            let (class, executed) = (self.events[event].class, self.events[event].executed);
            for (earlier, &done) in all.iter().enumerate() {
                if let Some(done) = done
                    && PRESERVED[earlier][class as usize] == Order::Always
                {
                    self.gates.implies(&[executed], done);
                }
            }
            for &earlier in &thread.events[..at] {
                let pair = PRESERVED[self.events[earlier].class as usize][class as usize];
                if pair == Order::SameLine {
                    let same = self.preserved(earlier, event);
                    let (guard, done) = (self.events[earlier].guard, self.events[earlier].executed);
                    if same != self.gates.no() {
                        self.gates.implies(&[executed, same, guard], done);
                    }
                }
            }
            let guard = self.events[event].guard;
            let chained = PRESERVED[class as usize][class as usize] == Order::Always;
            all[class as usize] = Some(if guard == yes && chained {
                executed
            } else {
                let done = self.gates.fresh();
                if let Some(before) = all[class as usize] {
                    self.gates.implies(&[done], before);
                }
                self.gates.implies(&[done, guard], executed);
                done
            });
        }
        all
    }

    /// A claim is checked when the thread reaches it: after everything that a load there would follow.
    fn check_before_crash(&mut self, check: Check, all: &[Option<Lit>; CLASSES.len()]) {
        if self.settings.crash == CrashEncoding::Full {
            return;
        }
        let lit = match check {
            Check::Violation(at) => self.violations[at].lit,
            Check::Limit(at) => self.limits[at].lit,
        };
        let reached = self.gates.fresh();
        self.gates.implies(&[reached], lit);
        for (earlier, &done) in all.iter().enumerate() {
            if let Some(done) = done
                && PRESERVED[earlier][Class::Read as usize] == Order::Always
            {
                self.gates.implies(&[reached], done);
            }
        }
        match check {
            Check::Violation(at) => self.violations[at].lit = reached,
            Check::Limit(at) => self.limits[at].lit = reached,
        }
    }

    /// Nothing of a thread happens before it is started.
    fn start(&mut self, create: usize, child: &ThreadNodes, order: &mut Closure) {
        let (created, executed) = (self.events[create].node, self.events[create].executed);
        for &event in &child.events {
            let (node, done) = (self.events[event].node, self.events[event].executed);
            self.gates.implies(&[done], executed);
            if !order.before(created as usize, node as usize) {
                self.graph.always(created, node);
                order.insert(created as usize, node as usize, |_, _| {});
            }
        }
    }

    /// Everything a thread does has taken effect before it is joined.
    fn end(
        &mut self,
        join: usize,
        child: &ThreadNodes,
        all: &[Option<Lit>; CLASSES.len()],
        order: &mut Closure,
    ) {
        let (joined, executed) = (self.events[join].node, self.events[join].executed);
        for &done in all.iter().flatten() {
            self.gates.implies(&[executed], done);
        }
        for &event in child.events.iter().rev() {
            let node = self.events[event].node;
            if !order.before(node as usize, joined as usize) {
                self.graph.always(node, joined);
                order.insert(node as usize, joined as usize, |_, _| {});
            }
        }
    }
}
