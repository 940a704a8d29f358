//! A model of the formula, taken through px86 before anybody is shown it.
//!
//! The encoding restates px86's machine as axioms. An execution that the machine does not permit is an internal error,
//! not a counterexample.

use crashproof_ordersat::{Lit, NodeId};
use px86::replay::{Claimed, replay};
use px86::{Event, Kind, Line, Site, Thread};

use crate::encode::{Encoded, Encoder};
use crate::program::Action;
use crate::values::initial_byte;

impl Encoder<'_> {
    /// Is the last model an execution of px86's machine?
    pub fn is_execution(&self) -> bool {
        self.graph.row(|lit| self.holds(lit)).is_some_and(|row| self.is_possible(&row))
    }

    /// Does px86's machine permit the execution of the last model, whose nodes are in this order, and what its crash
    /// leaves? Accesses that the encoding does not follow (outside of every object, across lines) are not judged: a
    /// verdict never rests on what comes after them.
    pub(crate) fn is_possible(&self, row: &[NodeId]) -> bool {
        let mut place = vec![0; row.len()];
        row.iter().enumerate().for_each(|(at, &node)| place[node as usize] = at);
        let crash = self.crash.map_or(row.len(), |node| place[node as usize]);
        let mut threads: Vec<Vec<Claimed>> = vec![Vec::new(); self.program.threads.len()];
        for event in self.events.iter().filter(|event| self.holds(event.guard)) {
            let thread = event.event.thread.unwrap_or(0);
            let action = &self.program.threads[thread].events[event.event.index].action;
            // The model begins the write-back of a non-temporal store by itself.
            if matches!(action, Action::Store { .. }) && event.class.writes_back() {
                continue;
            }
            let Some((claimed, exchanged)) = self.claimed(event, action, thread) else { return true };
            let at = place[event.node as usize];
            let effect = Some(at).filter(|&at| at < crash && self.holds(event.executed));
            threads[thread].push(Claimed { event: claimed, exchanged, effect });
        }
        let survivors = self.survivors.iter().map(|survivor| {
            let cell = self.memory.cells()[survivor.cell];
            (cell.address, cell.bytes, self.number(&survivor.bits))
        });
        let survivors: Vec<(u64, u8, u64)> = survivors.collect();
        replay(&self.platform, &threads, |at| initial_byte(self.program, at), &survivors).is_ok()
    }

    /// An event as px86 knows it, and what it read if it is a locked instruction. None if it is not judged.
    fn claimed(&self, event: &Encoded, action: &Action, thread: usize) -> Option<(Event, Option<u64>)> {
        let value = event.write.as_ref().filter(|(_, stores)| self.holds(*stores));
        let value = value.map(|(bits, _)| self.number(bits));
        let read = event.read.as_ref().map(|bits| self.number(bits));
        let kind = match action {
            Action::Load { .. } => Kind::Load,
            Action::Store { non_temporal: true, .. } => Kind::NonTemporalStore,
            Action::Store { .. } => Kind::Store,
            Action::Rmw { .. } if value.is_some() => Kind::Rmw,
            Action::Rmw { .. } => Kind::FailedRmw,
            Action::Flush { .. } => Kind::Flush,
            Action::FlushOpt { .. } => Kind::FlushOpt,
            Action::StoreFence => Kind::StoreFence,
            _ => Kind::Fence,
        };
        let there = |lit: Lit| self.holds(lit);
        let (mut address, mut width) = (0, 0);
        if let Some(access) = &event.access {
            address = access.places.iter().find(|place| there(place.1))?.0;
            width = access.lanes.iter().map(|lane| lane.bytes).sum();
            if px86::line::crosses(address, u64::from(width)) {
                return None;
            }
        } else if event.class.writes_back() {
            // A flush of what belongs to no object writes nothing back.
            let line = event.lines.iter().find(|line| there(line.1)).map_or(Line(0), |line| line.0);
            address = line.start();
        }
        let value = if kind == Kind::Load { read } else { value }.unwrap_or(0);
        let event = Event { address, value, site: Site(0), thread: Thread(thread as u16), kind, width };
        Some((event, read.filter(|_| kind.class() == Kind::Rmw.class())))
    }
}
