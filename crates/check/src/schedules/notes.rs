//! A run's notes about its steps, as steps for the exploration and as units for cuts.
//!
//! A step is what one decision triggers. A unit is finer: a thread's own actions in a step and every instruction that
//! leaves its buffer in the meantime are separate units, because a crash may come between them, and because a buffered
//! instruction is ordered only after its issue and after what it may not overtake, not after what its thread did since.

use crashproof_protocol::Record;
use crashproof_protocol::steps::{Actor, Note, is_choice, is_entry, is_spurious, kind, thread_of};
use px86::order::preserved;
use px86::{Class, Line, Platform};
use rustc_hash::FxHashMap;

use super::happens_before::Step;
use super::unseen::Unseen;

/// Actions that a crash precedes or follows as a whole, unless they settle nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unit {
    /// As a step, for the order.
    pub(crate) step: Step,
    /// Its records, by their place in the trace.
    pub(crate) records: Vec<usize>,
    /// Does it make a store certain that could be lost before?
    pub(crate) settles: bool,
}

/// A run, step by step.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    pub(crate) steps: Vec<Step>,
    pub(crate) units: Vec<Unit>,
    /// For each record, whether it makes something certain.
    pub(crate) settling: Vec<bool>,
    /// Threads continued spinning because no other thread could run.
    pub(crate) retried: bool,
    /// A thread waited with a timeout for another one to end.
    pub(crate) timed_out: bool,
    /// A thread that counts its rounds was treated as waiting.
    pub(crate) counted: bool,
    /// There were too many to process.
    pub(crate) cut_off: bool,
    /// Volatile accesses unknown to the exploration, in pairs of which one is a store.
    pub(crate) unseen: Vec<Unseen>,
    /// Sites where a thread waits for another one through volatile memory, unseen by the exploration.
    pub(crate) spins: Vec<u32>,
    /// Not all of those were followed.
    pub(crate) unfollowed: bool,
}

/// An instruction that has left a buffer.
#[derive(Clone, Copy)]
struct Left {
    actor: Actor,
    key: (Class, Option<Line>),
    step: usize,
    unit: usize,
}

#[derive(Default)]
struct Reader {
    out: Steps,
    /// The step and the unit that let a thread continue, until it does.
    enabled_by: FxHashMap<u16, Vec<(usize, usize)>>,
    issued_by: FxHashMap<Actor, (usize, usize)>,
    left: FxHashMap<u16, Vec<Left>>,
    /// The last step and unit of each thread itself.
    last: FxHashMap<u16, (usize, usize)>,
    /// The unit that the running step's own records belong to.
    own: usize,
    /// The first of two accesses; the second follows in the next note.
    unseen: Option<Note>,
}

impl Steps {
    /// Reads the notes of a run with these records.
    pub(crate) fn read(notes: &[Note], records: &[Record], platform: &Platform) -> Steps {
        let first = notes.iter().position(|note| note.kind == kind::STEP).unwrap_or(notes.len());
        let mut reader = Reader::default();
        // Everything before there were several threads.
        reader.out.units.push(Unit::default());
        for note in &notes[..first] {
            if note.kind == kind::ENABLES {
                reader.enabled_by.entry(note.address as u16).or_default().push((usize::MAX, 0));
            }
        }
        let prelude = notes.get(first).map_or(records.len(), |note| note.record as usize);
        reader.out.units[0].records.extend(0..prelude.min(records.len()));
        let mut at = first;
        while at < notes.len() {
            let next = notes[at + 1..].iter().position(|note| note.kind == kind::STEP);
            let end = next.map_or(notes.len(), |next| at + 1 + next);
            let last_record = notes.get(end).map_or(records.len(), |note| note.record as usize);
            reader.step(&notes[at..end], records, last_record.min(records.len()));
            at = end;
        }
        reader.out.find_settling(records, platform);
        reader.out
    }

    /// The decisions that were taken.
    pub(crate) fn decisions(&self) -> Vec<Actor> {
        self.steps.iter().map(|step| step.actor).collect()
    }

    /// Determines which units settle something. Everything before there were several threads, and everything the last
    /// thread does after joining all others, is ordered with everything else; the original run shows all those crashes.
    fn find_settling(&mut self, records: &[Record], platform: &Platform) {
        let mut pending: FxHashMap<u16, bool> = FxHashMap::default();
        let mut settles = vec![false; records.len()];
        for (index, record) in records.iter().enumerate() {
            let Some(event) = record.event() else { continue };
            let pending = pending.entry(record.thread()).or_default();
            settles[index] = event.kind == px86::Kind::Flush
                || event.kind.fences() && *pending
                || event.kind.stores() && platform.cache_survives(Line::containing(event.address));
            *pending = event.kind.needs_fence() || *pending && !event.kind.fences();
        }
        for unit in &mut self.units[1..] {
            unit.settles = unit.records.iter().any(|&record| settles[record]);
        }
        self.settling = settles;
    }
}

impl Reader {
    fn step(&mut self, notes: &[Note], records: &[Record], last_record: usize) {
        let actor = notes[0].actor;
        let thread = thread_of(actor);
        let number = self.out.steps.len();
        self.own = self.out.units.len();
        let mut step = Step { actor, ..Step::default() };
        let mut unit = Unit { step: Step { actor, after: vec![0], ..Step::default() }, ..Unit::default() };
        // A thread's choice comes after its previous actions and before its next ones; so does a spurious wakeup.
        let chooses = is_choice(actor) || is_spurious(actor);
        if chooses && let Some(&(last_step, last_unit)) = self.last.get(&thread) {
            step.after.push(last_step);
            unit.step.after.push(last_unit);
        }
        if !is_entry(actor) {
            for (by_step, by_unit) in self.enabled_by.remove(&thread).unwrap_or_default() {
                step.after.extend((by_step != usize::MAX).then_some(by_step));
                unit.step.after.push(by_unit);
            }
        }
        self.out.units.push(unit);
        self.out.steps.push(step);
        let mut claimed = Vec::new();
        // The unit that accesses of an actor belong to.
        let mut unit_of: FxHashMap<Actor, usize> = FxHashMap::default();
        unit_of.insert(actor, self.own);
        for note in notes {
            match note.kind {
                kind::ENABLED => self.out.steps[number].enabled.push(note.actor),
                kind::ENABLES => {
                    self.enabled_by.entry(note.address as u16).or_default().push((number, self.own));
                }
                kind::ISSUED => {
                    self.issued_by.insert(note.address, (number, self.own));
                }
                kind::FENCED => {
                    for left in self.left.entry(thread).or_default().drain(..) {
                        self.out.steps[number].after.push(left.step);
                        self.out.units[self.own].step.after.push(left.unit);
                    }
                }
                kind::JOINED => {
                    if let Some(&(step, unit)) = self.last.get(&(note.address as u16)) {
                        self.out.steps[number].after.push(step);
                        self.out.units[self.own].step.after.push(unit);
                    }
                }
                kind::EFFECT => {
                    let record = (note.bytes != 0).then_some(note.record as usize);
                    claimed.extend(record);
                    let unit = self.effect(note.address, number, record, records);
                    unit_of.insert(note.address, unit);
                }
                // Nonzero width: the thread counts its rounds, and was nonetheless treated as waiting.
                kind::RETRIED if note.bytes != 0 => self.out.counted = true,
                kind::RETRIED => self.out.retried = true,
                kind::TIMED_OUT => self.out.timed_out = true,
                kind::SPINS => self.out.spins.push(note.site),
                kind::UNFOLLOWED => self.out.unfollowed = true,
                kind::UNSEEN_FIRST => self.unseen = Some(*note),
                kind::UNSEEN_SECOND => {
                    self.out.unseen.extend(self.unseen.take().map(|first| Unseen::new(&first, note, number)));
                }
                _ => {
                    let Some(access) = note.access() else { continue };
                    self.out.steps[number].accesses.push(access);
                    let unit = unit_of.get(&note.actor).copied().unwrap_or(self.own);
                    self.out.units[unit].step.accesses.push(access);
                }
            }
        }
        let first_record = notes[0].record as usize;
        let own = (first_record..last_record).filter(|record| !claimed.contains(record));
        let own_unit = self.own;
        self.out.units[own_unit].records.extend(own);
        if chooses {
            self.enabled_by.entry(thread).or_default().push((number, own_unit));
        }
        if !is_entry(actor) {
            self.last.insert(thread, (number, own_unit));
        }
    }

    /// An instruction leaves its buffer in step `number`: creates its unit.
    fn effect(&mut self, actor: Actor, number: usize, record: Option<usize>, records: &[Record]) -> usize {
        let event = record.and_then(|record| records.get(record)).and_then(Record::event);
        // Stores to volatile memory have no record.
        let key = event.map_or((Class::Write, None), |event| event.order_key());
        let is_step = self.out.steps[number].actor == actor;
        let unit = if is_step {
            self.own
        } else {
            self.out.units.push(Unit::default());
            self.out.units.len() - 1
        };
        let mut after = vec![0];
        if let Some(&(step, unit)) = self.issued_by.get(&actor) {
            after.push(unit);
            if is_step {
                self.out.steps[number].after.push(step);
            }
        }
        let left = self.left.entry(thread_of(actor)).or_default();
        for earlier in left.iter().filter(|earlier| earlier.actor < actor && preserved(earlier.key, key)) {
            after.push(earlier.unit);
            if is_step && earlier.step != number {
                self.out.steps[number].after.push(earlier.step);
            }
        }
        left.push(Left { actor, key, step: number, unit });
        let into = &mut self.out.units[unit];
        into.step.actor = actor;
        into.step.after.extend(after);
        into.records.extend(record);
        unit
    }
}
