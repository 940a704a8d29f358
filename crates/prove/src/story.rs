//! A counterexample: one execution, its crash and its recovery, read off a model.
//!
//! The model is not trusted: the events are linearized independently, and failure to do so is an internal error.
//! Reported stories are first replayed through px86 ([`crate::confirm`]).

use crashproof_ordersat::Lit;
use px86::{Kind, Line};

use crate::encode::{Encoded, Encoder, EventRef, Violation, Wrong};
use crate::program::{Action, Site};

/// A failing execution.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// What goes wrong, for messages.
    pub message: String,
    /// Is it an access outside every object?
    pub outside: bool,
    /// Where.
    pub site: Site,
    /// The thread's name; `None` for recovery.
    pub thread: Option<String>,
    /// What took effect before the crash, in that order.
    pub steps: Vec<Step>,
    /// The memory observed after the crash.
    pub memory: Vec<Remains>,
    /// Recovery's reads, in order; for several recoveries, those of the last.
    pub recovery: Vec<RecoveryRead>,
    /// What each crash of recovery left changed.
    pub left: Vec<Vec<(String, String)>>,
    /// The event graph over `steps`.
    pub edges: Vec<Edge>,
    /// For lines observed after the crash: the number of `steps` before their last write-back.
    pub written_back: Vec<(Line, usize)>,
    /// The instructions issued, by thread and in program order, for px86 to replay.
    pub issued: Vec<Issued>,
}

/// An instruction that was issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The thread, by number.
    pub thread: usize,
    /// What it does, in px86's terms.
    pub event: px86::Event,
    /// What it read, if it did.
    pub read: Option<u64>,
    /// When it took effect, in the order of all effects; `None` if it had not when the crash came.
    pub effect: Option<usize>,
}

/// Something that took effect.
#[derive(Clone, Debug)]
pub struct Step {
    /// The thread, by number.
    pub thread: usize,
    /// Its name.
    pub thread_name: String,
    /// Place in program order.
    pub position: usize,
    /// Where.
    pub site: Site,
    /// What it did.
    pub effect: Effect,
    /// What was accessed or flushed, by name; empty for fences.
    pub place: String,
    /// The accessed address; 0 if there is none.
    pub address: u64,
    /// How many bytes were accessed.
    pub bytes: u8,
    /// What was read, for messages.
    pub read: String,
    /// What was written, for messages.
    pub wrote: String,
    /// For stores to lines observed after the crash: did they persist?
    pub persisted: Option<bool>,
    /// For loads: was it read from a store that was still in the thread's own buffer?
    pub forwarded: bool,
}

impl Step {
    /// The effect in words.
    pub fn what(&self) -> String {
        let (at, read, wrote) = (&self.place, &self.read, &self.wrote);
        match self.effect {
            Effect::Read(_) => format!("reads {at} = {read}"),
            Effect::Wrote(_) => format!("{at} := {wrote}"),
            Effect::WroteNonTemporal(_) => format!("{at} := {wrote}, non-temporal"),
            Effect::Exchanged(_, Some(_)) => format!("{at}: {read} becomes {wrote}, locked"),
            Effect::Exchanged(_, None) => format!("{at}: stays {read}, locked"),
            Effect::Flushed => format!("clflush {at}"),
            Effect::FlushedOpt => format!("clwb {at}"),
            Effect::StoreFence => "sfence".to_owned(),
            Effect::Fence => "mfence".to_owned(),
            Effect::Started => "starts a thread".to_owned(),
            Effect::Joined => "has waited for a thread".to_owned(),
        }
    }
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Read this.
    Read(u64),
    /// Wrote this.
    Wrote(u64),
    /// Wrote this, bypassing the cache.
    WroteNonTemporal(u64),
    /// Read the first, wrote the second, if it wrote.
    Exchanged(u64, Option<u64>),
    /// `clflush`.
    Flushed,
    /// `clflushopt`, `clwb`.
    FlushedOpt,
    /// `sfence`.
    StoreFence,
    /// `mfence`.
    Fence,
    /// Started a thread.
    Started,
    /// Waited for a thread.
    Joined,
}

/// A piece of memory after the crash.
#[derive(Clone, Debug)]
pub struct Remains {
    /// Its name.
    pub place: String,
    /// Its address.
    pub address: u64,
    /// How many bytes it has.
    pub bytes: u8,
    /// What it holds.
    pub value: u64,
    /// The value for messages.
    pub shown: String,
    /// The step that wrote it; `None` for initial content.
    pub from: Option<usize>,
    /// Steps that wrote it later and were lost.
    pub lost: Vec<usize>,
}

/// A load of recovery.
#[derive(Clone, Debug)]
pub struct RecoveryRead {
    /// Where.
    pub site: Site,
    /// What was read.
    pub place: String,
    /// Its address, if anything is there.
    pub address: Option<u64>,
    /// How many bytes it has.
    pub bytes: u8,
    /// What it held.
    pub value: u64,
    /// The value for messages.
    pub shown: String,
}

/// An edge of the event graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Into the steps.
    pub from: usize,
    /// Into the steps, or into `memory` for what survives.
    pub to: usize,
    /// What kind.
    pub kind: EdgeKind,
}

/// Kinds of edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeKind {
    /// Program order, from a step to the thread's next.
    ProgramOrder,
    /// Reads-from.
    ReadsFrom,
    /// Coherence, from a store to the next one over it.
    Coherence,
    /// From a flush to a piece of memory (into `memory`) whose line it wrote back.
    FlushBefore,
    /// From a store to what it left in memory (into `memory`).
    Survives,
}

/// The events of the model cannot be linearized: the solver or the encoding is wrong.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the solver's model is no execution")]
pub struct NoExecution;

/// The position of each node in a linearization.
fn places_in(row: &[u32]) -> Vec<usize> {
    let mut places = vec![0; row.len()];
    row.iter().enumerate().for_each(|(place, &node)| places[node as usize] = place);
    places
}

fn effect(action: &Action, read: Option<u64>, wrote: Option<u64>) -> Effect {
    match action {
        Action::Load { .. } => Effect::Read(read.unwrap_or(0)),
        Action::Store { non_temporal: true, .. } => Effect::WroteNonTemporal(wrote.unwrap_or(0)),
        Action::Store { .. } => Effect::Wrote(wrote.unwrap_or(0)),
        Action::Rmw { .. } => Effect::Exchanged(read.unwrap_or(0), wrote),
        Action::Flush { .. } => Effect::Flushed,
        Action::FlushOpt { .. } => Effect::FlushedOpt,
        Action::StoreFence => Effect::StoreFence,
        Action::Create(_) => Effect::Started,
        Action::Join(_) => Effect::Joined,
        Action::Fence | Action::Assert { .. } | Action::Unknown { .. } => Effect::Fence,
    }
}

impl Encoder<'_> {
    fn holds(&self, lit: Lit) -> bool {
        self.gates.solver.value(lit)
    }

    fn number(&self, bits: &[Lit]) -> u64 {
        bits.iter().enumerate().fold(0, |value, (bit, &lit)| value | u64::from(self.holds(lit)) << bit)
    }

    fn site_of(&self, at: EventRef) -> Site {
        let thread = match at.thread {
            Some(thread) => self.program.threads.get(thread),
            None => self.program.recovery.as_ref(),
        };
        let event = thread.and_then(|thread| thread.events.get(at.index));
        event.and_then(|event| self.program.sites.get(event.site.0 as usize)).cloned().unwrap_or_default()
    }

    /// What is wrong in the last model, and how it arises.
    pub fn counterexample(&self, violation: &Violation) -> Result<Counterexample, NoExecution> {
        let mut story = self.execution_story()?;
        story.message = match &violation.what {
            Wrong::Assertion(message) => message.clone(),
            Wrong::Outside => "an access outside every object".to_owned(),
        };
        story.outside = violation.what == Wrong::Outside;
        story.site = self.program.sites.get(violation.site.0 as usize).cloned().unwrap_or_default();
        story.thread = violation.event.thread.map(|thread| self.program.threads[thread].name.clone());
        // Events after the failure are irrelevant.
        if violation.event.thread.is_none() {
            story.recovery = self.recovery_story(violation.crashes, violation.event.index);
            story.left = self.left_story(violation.crashes);
        } else {
            story.recovery.clear();
            // In the full encoding, events before the claim need not have taken effect before the crash.
            let row = self.graph.row(|lit| self.holds(lit)).ok_or(NoExecution)?;
            story.issued = self.issued(&row, |event| self.holds(event.live), usize::MAX);
        }
        Ok(story)
    }

    /// The execution, the crash and the crash state, in the last model.
    pub fn execution_story(&self) -> Result<Counterexample, NoExecution> {
        let row = self.graph.row(|lit| self.holds(lit)).ok_or(NoExecution)?;
        let mut at_node = vec![None; row.len()];
        for (index, event) in self.events.iter().enumerate() {
            at_node[event.node as usize] = Some(index);
        }
        let place_in_row = places_in(&row);
        let mut steps = Vec::new();
        let mut step_of = vec![None; self.events.len()];
        let mut written_back = Vec::new();
        for &node in &row {
            let Some(index) = at_node[node as usize] else {
                let lines = self.moments.iter().filter(|&(_, &moment)| moment == node);
                written_back.extend(lines.map(|(&line, _)| (line, steps.len())));
                continue;
            };
            if let Some(step) = self.step(index, &place_in_row) {
                step_of[index] = Some(steps.len());
                steps.push(step);
            }
        }
        let crash = self.crash.map_or(usize::MAX, |node| place_in_row[node as usize]);
        let issued = self.issued(&row, |event| self.holds(event.executed), crash);
        let memory = self.remains(&step_of);
        let edges = self.edges(&step_of, &memory);
        let recovery = self.recovery_story(1, usize::MAX);
        Ok(Counterexample {
            message: String::new(),
            outside: false,
            site: Site::default(),
            thread: None,
            steps,
            memory,
            recovery,
            left: Vec::new(),
            edges,
            written_back,
            issued,
        })
    }

    /// An event as a step of the story; `None` if it is not executed, or is part of another step.
    fn step(&self, index: usize, place_in_row: &[usize]) -> Option<Step> {
        let event = &self.events[index];
        if !self.holds(event.executed) || !self.holds(event.guard) {
            return None;
        }
        let thread = event.event.thread.unwrap_or(0);
        let action = &self.program.threads[thread].events[event.event.index].action;
        // The write-back of a non-temporal store is part of the store's step.
        if matches!(action, Action::Store { .. }) && event.class.writes_back() {
            return None;
        }
        let places = event.access.as_ref().map(|access| access.places.as_slice()).unwrap_or_default();
        let address = places.iter().find(|&&(_, lit)| self.holds(lit)).map(|&(place, _)| place);
        let line = event.lines.iter().find(|&&(_, lit)| self.holds(lit)).map(|&(line, _)| line);
        let wrote = event.write.as_ref().filter(|(_, stores)| self.holds(*stores));
        let value = wrote.map(|(bits, _)| self.number(bits));
        let read = event.read.as_ref().map(|bits| self.number(bits));
        let bits = event.read.as_ref().or(event.write.as_ref().map(|(bits, _)| bits));
        let persisted = value.and(address).and_then(|address| {
            let moment = *self.moments.get(&Line::containing(address))?;
            Some(place_in_row[event.node as usize] < place_in_row[moment as usize])
        });
        Some(Step {
            read: read.map(|value| self.program.show(value)).unwrap_or_default(),
            wrote: value.map(|value| self.program.show(value)).unwrap_or_default(),
            forwarded: self.is_forwarded(index, place_in_row),
            thread,
            thread_name: self.program.threads[thread].name.clone(),
            position: event.position,
            site: self.site_of(event.event),
            effect: effect(action, read, value),
            place: match (address, line) {
                (Some(address), _) => self.program.name_of(address),
                (None, Some(line)) => self.line_name(line),
                (None, None) => String::new(),
            },
            address: address.unwrap_or(0),
            bytes: bits.map_or(0, |bits| (bits.len() / 8) as u8),
            persisted,
        })
    }

    /// Whether a load takes its value from a store of its own thread that is still buffered.
    fn is_forwarded(&self, reader: usize, place_in_row: &[usize]) -> bool {
        let read = place_in_row[self.events[reader].node as usize];
        let still_buffered = |writer: usize| {
            let from = &self.events[writer];
            !self.holds(from.executed) || place_in_row[from.node as usize] > read
        };
        let from_reader = self.reads_from.iter().filter(|it| it.reader == reader && self.holds(it.lit));
        let mut writers = from_reader.filter_map(|it| it.writer);
        writers.any(|(writer, _)| self.program_before(writer, reader) && still_buffered(writer))
    }

    /// The instructions issued, in program order; those that count and precede the crash in this linearization have
    /// taken effect.
    fn issued(&self, row: &[u32], counts: impl Fn(&Encoded) -> bool, crash: usize) -> Vec<Issued> {
        let place_in_row = places_in(row);
        let issued = |event: &Encoded| {
            let thread = event.event.thread?;
            let action = &self.program.threads[thread].events[event.event.index].action;
            let wrote = event.write.as_ref().filter(|(_, stores)| self.holds(*stores));
            let kind = match action {
                // px86 itself begins the write-back of a non-temporal store.
                Action::Store { .. } if event.class.writes_back() => return None,
                Action::Load { .. } => Kind::Load,
                Action::Store { non_temporal: true, .. } => Kind::NonTemporalStore,
                Action::Store { .. } => Kind::Store,
                Action::Rmw { .. } if wrote.is_some() => Kind::Rmw,
                Action::Rmw { .. } => Kind::FailedRmw,
                Action::Flush { .. } => Kind::Flush,
                Action::FlushOpt { .. } => Kind::FlushOpt,
                Action::StoreFence => Kind::StoreFence,
                _ => Kind::Fence,
            };
            if !self.holds(event.guard) {
                return None;
            }
            let read = event.read.as_ref().map(|bits| self.number(bits));
            let value = wrote.map(|(bits, _)| self.number(bits)).or(read).unwrap_or(0);
            let bits = event.read.as_ref().or(event.write.as_ref().map(|(bits, _)| bits));
            let places = event.access.iter().flat_map(|access| &access.places);
            let lines = event.lines.iter().map(|(line, lit)| (line.start(), *lit));
            let address = places.copied().chain(lines).find(|&(_, lit)| self.holds(lit));
            let place = place_in_row[event.node as usize];
            let event = px86::Event {
                address: address.map_or(0, |(address, _)| address),
                value,
                site: px86::Site(0),
                thread: px86::Thread(thread as u16),
                kind,
                width: bits.map_or(0, |bits| (bits.len() / 8) as u8),
            };
            Some((place, Issued { thread, event, read, effect: None }))
        };
        let counted = |event: &Encoded, place: usize| (counts(event) && place < crash).then_some(place);
        let all = self.events.iter().filter_map(|event| {
            let (place, issued) = issued(event)?;
            Some(Issued { effect: counted(event, place), ..issued })
        });
        all.collect()
    }

    /// A line's name: that of the first object on it.
    fn line_name(&self, line: Line) -> String {
        let on_line = |object: &&crate::program::Object| {
            let end = object.address + object.initial.len().max(1) - 1;
            Line::containing(object.address) <= line && line <= Line::containing(end)
        };
        match self.program.objects.iter().find(on_line) {
            Some(object) if object.address <= line.start() => self.program.name_of(line.start()),
            Some(object) => object.name.clone(),
            None => format!("{:#x}", line.start()),
        }
    }

    fn remains(&self, step_of: &[Option<usize>]) -> Vec<Remains> {
        self.survivors
            .iter()
            .map(|survivor| {
                let cell = self.memory.cells()[survivor.cell];
                let from =
                    survivor.from.iter().find(|&&(_, lit)| self.holds(lit)).and_then(|&(from, _)| from);
                let after = |event: usize| match from {
                    None => true,
                    Some((first, _)) => self
                        .overwrites
                        .iter()
                        .any(|pair| pair.first == first && pair.second == event && self.holds(pair.lit)),
                };
                let writers = survivor.from.iter().filter_map(|&(writer, _)| writer).filter(|&writer| {
                    let (event, _) = writer;
                    let stores = self.events[event].write.as_ref().is_some_and(|(_, lit)| self.holds(*lit));
                    let here = self.lane_is_at(writer, cell.address);
                    stores && here && from.is_none_or(|(first, _)| first != event) && after(event)
                });
                let value = self.number(&survivor.bits);
                Remains {
                    place: self.program.name_of(cell.address),
                    address: cell.address,
                    bytes: cell.bytes,
                    value,
                    shown: self.program.show(value),
                    from: from.and_then(|(event, _)| step_of[event]),
                    lost: writers.filter_map(|(event, _)| step_of[event]).collect(),
                }
            })
            .collect()
    }

    fn lane_is_at(&self, (event, lane): (usize, usize), address: u64) -> bool {
        self.events[event].access.as_ref().is_some_and(|access| {
            let offset = u64::from(access.lanes[lane].offset);
            access.places.iter().any(|&(place, lit)| place + offset == address && self.holds(lit))
        })
    }

    fn edges(&self, step_of: &[Option<usize>], memory: &[Remains]) -> Vec<Edge> {
        let mut edges = Vec::new();
        let mut last: Vec<Option<usize>> = vec![None; self.program.threads.len()];
        for (index, event) in self.events.iter().enumerate() {
            if let (Some(step), Some(thread)) = (step_of[index], event.event.thread)
                && let Some(before) = last[thread].replace(step)
            {
                edges.push(Edge { from: before, to: step, kind: EdgeKind::ProgramOrder });
            }
        }
        let both = |a: usize, b: usize| step_of[a].zip(step_of[b]);
        for reads in self.reads_from.iter().filter(|reads| self.holds(reads.lit)) {
            if let Some((from, to)) = reads.writer.and_then(|(writer, _)| both(writer, reads.reader)) {
                edges.push(Edge { from, to, kind: EdgeKind::ReadsFrom });
            }
        }
        // Only from each store to its immediate successor: the others are implied.
        let pairs: Vec<(usize, usize)> = self
            .overwrites
            .iter()
            .filter(|pair| self.holds(pair.lit))
            .filter_map(|pair| both(pair.first, pair.second))
            .collect();
        for &(from, to) in &pairs {
            if !pairs.iter().any(|&(a, b)| a == from && b != to && pairs.contains(&(b, to))) {
                edges.push(Edge { from, to, kind: EdgeKind::Coherence });
            }
        }
        for (to, remains) in memory.iter().enumerate() {
            if let Some(from) = remains.from {
                edges.push(Edge { from, to, kind: EdgeKind::Survives });
            }
            for &(event, line, lit) in &self.flush_before {
                if let Some(from) = step_of[event].filter(|_| self.holds(lit))
                    && line == Line::containing(remains.address)
                {
                    edges.push(Edge { from, to, kind: EdgeKind::FlushBefore });
                }
            }
        }
        edges.dedup();
        edges
    }

    /// The states after crashes of recovery, up to this many crashes in total.
    fn left_story(&self, crashes: usize) -> Vec<Vec<(String, String)>> {
        let mut before: Vec<(usize, u64)> =
            self.survivors.iter().map(|survivor| (survivor.cell, self.number(&survivor.bits))).collect();
        let mut all = Vec::new();
        for left in self.left.iter().take(crashes.saturating_sub(1)) {
            let now: Vec<(usize, u64)> = left.iter().map(|(cell, bits)| (*cell, self.number(bits))).collect();
            let changed = now.iter().filter(|pair| !before.contains(pair));
            let mut changed: Vec<(u64, u64)> =
                changed.map(|&(cell, value)| (self.memory.cells()[cell].address, value)).collect();
            changed.sort_unstable();
            let named = |(at, value): (u64, u64)| (self.program.name_of(at), self.program.show(value));
            all.push(changed.into_iter().map(named).collect());
            before = now;
        }
        all
    }

    fn recovery_story(&self, crashes: usize, until: usize) -> Vec<RecoveryRead> {
        self.recovery_reads
            .iter()
            .filter(|read| read.crashes == crashes && read.index < until && self.holds(read.guard))
            .map(|read| {
                let at = read.places.iter().find(|&&(_, lit)| self.holds(lit)).map(|&(place, _)| place);
                let value = self.number(&read.bits);
                RecoveryRead {
                    site: self.site_of(EventRef { thread: None, index: read.index }),
                    place: at.map_or_else(|| "nothing".to_owned(), |at| self.program.name_of(at)),
                    address: at,
                    bytes: (read.bits.len() / 8) as u8,
                    value,
                    shown: self.program.show(value),
                }
            })
            .collect()
    }
}
