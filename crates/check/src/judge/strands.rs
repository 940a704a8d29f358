//! Strands and epochs of a recorded run that depend on each other (DeepMC, section 4.4).
//!
//! A region (a strand, or an epoch) is what a thread does between two markers. One region precedes another if its
//! thread passes a *barrier* after its end and the other begins after that: a join marker, or a fence outside any
//! region. A fence inside a strand orders only the strand's own stores. "After" means happens-before: program order,
//! creating and joining threads, locks and the like, and, outside regions, reading what another thread stored. All
//! other regions are concurrent, even two of one thread: that is what strands are for. Concurrent regions must neither
//! write the same byte, nor may one read what the other wrote.
//!
//! Shadow memory keeps, for every byte of PM written by a region, the last region that wrote it. As in race detection
//! the last one suffices: ordering with respect to it implies ordering with respect to its predecessors.

use std::collections::BTreeMap;

use crashproof_findings::Place;
use crashproof_protocol::{Record, record, sync};
use px86::{Kind, LINE_BYTES, Line};
use rustc_hash::FxHashMap;

use crate::subject::{Sites, in_user_code, same_place};

/// What the program promises about its regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Model {
    /// Regions are strands: concurrent unless joined.
    Strand,
    /// Regions are epochs: consecutive epochs of a thread need a barrier between them.
    Epoch,
}

impl Model {
    fn begins(self, kind: u8) -> bool {
        kind == if self == Model::Strand { record::STRAND_BEGIN } else { record::EPOCH_BEGIN }
    }

    fn ends(self, kind: u8) -> bool {
        kind == if self == Model::Strand { record::STRAND_END } else { record::EPOCH_END }
    }

    /// The name of a region in this model.
    pub fn region(self) -> &'static str {
        match self {
            Model::Strand => "strand",
            Model::Epoch => "epoch",
        }
    }
}

/// How two regions violate the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Conflict {
    /// Both write the same memory.
    WriteAfterWrite,
    /// One reads what the other wrote.
    ReadAfterWrite,
    /// There is no barrier between two epochs of a thread, the first of which stored something.
    NoBarrier,
}

/// Two regions that may run concurrently but should not.
#[derive(Clone, Debug)]
pub struct Dependence {
    /// The model violated.
    pub model: Model,
    /// How it is violated.
    pub conflict: Conflict,
    /// The store of the earlier region; for [`Conflict::NoBarrier`] its last one.
    pub first: Place,
    /// The access of the later region; for [`Conflict::NoBarrier`] its beginning.
    pub second: Place,
    /// Where the two regions begin.
    pub begins: [Place; 2],
    /// How often it was seen.
    pub count: u64,
}

/// The number of barriers that each thread is known to have passed.
type Clock = Vec<u64>;

fn known(clock: &Clock, thread: u16) -> u64 {
    clock.get(usize::from(thread)).copied().unwrap_or(0)
}

fn join(clock: &mut Clock, other: &Clock) {
    if clock.len() < other.len() {
        clock.resize(other.len(), 0);
    }
    for (mine, theirs) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(*theirs);
    }
}

struct Region {
    thread: u16,
    begin: u32,
    /// What its thread knew at its beginning.
    clock: Clock,
    /// The number of barriers its thread had passed at its end; `None` while it runs.
    ended: Option<u64>,
    /// Its last store.
    stored: Option<u32>,
}

#[derive(Default)]
struct Thread {
    clock: Clock,
    /// The current region and the nesting depth of markers: an inner region is part of the outer one.
    inside: Option<usize>,
    depth: u32,
    /// The previous region.
    before: Option<usize>,
}

/// The last region that wrote each byte of a line, from 1 (0 for none), and the site.
struct Shadow {
    region: [u32; LINE_BYTES as usize],
    site: [u32; LINE_BYTES as usize],
}

struct Analysis {
    model: Model,
    threads: Vec<Thread>,
    regions: Vec<Region>,
    shadow: FxHashMap<Line, Box<Shadow>>,
    /// The clock of each synchronization object at its last use.
    objects: FxHashMap<u64, Clock>,
    /// The clock of the last writer of a word outside regions; only while there are several threads.
    words: FxHashMap<u64, (u16, Clock)>,
    /// By the sites of the two accesses: the sites of the two beginnings, and the number of occurrences.
    found: BTreeMap<(Conflict, u32, u32), ([u32; 2], u64)>,
}

impl Analysis {
    fn new(model: Model) -> Analysis {
        Analysis {
            model,
            threads: Vec::new(),
            regions: Vec::new(),
            shadow: FxHashMap::default(),
            objects: FxHashMap::default(),
            words: FxHashMap::default(),
            found: BTreeMap::new(),
        }
    }

    fn thread(&mut self, number: u16) -> &mut Thread {
        let index = usize::from(number);
        if self.threads.len() <= index {
            self.threads.resize_with(index + 1, Thread::default);
        }
        &mut self.threads[index]
    }

    /// May the two regions run concurrently?
    fn concurrent(&self, first: usize, second: usize) -> bool {
        let (first, second) = (&self.regions[first], &self.regions[second]);
        first.ended.is_none_or(|passed| known(&second.clock, first.thread) <= passed)
    }

    fn note(&mut self, conflict: Conflict, sites: [u32; 2], regions: [usize; 2]) {
        let begins = regions.map(|region| self.regions[region].begin);
        self.found.entry((conflict, sites[0], sites[1])).or_insert((begins, 0)).1 += 1;
    }

    fn begin(&mut self, record: &Record) {
        let number = self.regions.len();
        let thread = self.thread(record.thread());
        thread.depth += 1;
        if thread.depth > 1 {
            return;
        }
        thread.inside = Some(number);
        let before = thread.before;
        let clock = thread.clock.clone();
        let region = Region { thread: record.thread(), begin: record.site, clock, ended: None, stored: None };
        self.regions.push(region);
        if self.model == Model::Epoch
            && let Some(before) = before
            && let Some(stored) = self.regions[before].stored
            && self.concurrent(before, number)
        {
            self.note(Conflict::NoBarrier, [stored, record.site], [before, number]);
        }
    }

    fn end(&mut self, record: &Record) {
        let number = record.thread();
        let thread = self.thread(number);
        // An end without a beginning has no effect.
        thread.depth = thread.depth.saturating_sub(1);
        if thread.depth == 0
            && let Some(region) = thread.inside.take()
        {
            thread.before = Some(region);
            let passed = known(&thread.clock, number);
            self.regions[region].ended = Some(passed);
        }
    }

    fn barrier(&mut self, number: u16) {
        let thread = self.thread(number);
        if thread.inside.is_none() {
            let index = usize::from(number);
            if thread.clock.len() <= index {
                thread.clock.resize(index + 1, 0);
            }
            thread.clock[index] += 1;
        }
    }

    fn learn(&mut self, number: u16, clock: &Clock) {
        join(&mut self.thread(number).clock, clock);
    }

    fn synchronized(&mut self, record: &Record) {
        if record.value & sync::SAW != 0
            && let Some(known) = self.objects.get(&sync::object(record.value)).cloned()
        {
            self.learn(record.thread(), &known);
        }
        if record.value & sync::CHANGED != 0 {
            let known = self.thread(record.thread()).clock.clone();
            self.objects.insert(sync::object(record.value), known);
        }
    }

    fn store(&mut self, record: &Record) {
        let Some(region) = self.thread(record.thread()).inside else {
            if self.threads.len() > 1 {
                let clock = self.thread(record.thread()).clock.clone();
                self.words.insert(record.address() / 8, (record.thread(), clock));
            }
            self.forget(record);
            return;
        };
        self.regions[region].stored = Some(record.site);
        self.compare(record, region, Conflict::WriteAfterWrite);
        let (start, end) = range(record);
        let shadow = self.shadow.entry(Line::containing(record.address())).or_insert_with(|| {
            Box::new(Shadow { region: [0; LINE_BYTES as usize], site: [0; LINE_BYTES as usize] })
        });
        shadow.region[start..end].fill(region as u32 + 1);
        shadow.site[start..end].fill(record.site);
    }

    /// A store outside regions replaces what a region stored there.
    fn forget(&mut self, record: &Record) {
        let (start, end) = range(record);
        if let Some(shadow) = self.shadow.get_mut(&Line::containing(record.address())) {
            shadow.region[start..end].fill(0);
        }
    }

    fn load(&mut self, record: &Record) {
        match self.thread(record.thread()).inside {
            Some(region) => self.compare(record, region, Conflict::ReadAfterWrite),
            None => {
                if let Some((writer, clock)) = self.words.get(&(record.address() / 8))
                    && *writer != record.thread()
                {
                    let clock = clock.clone();
                    self.learn(record.thread(), &clock);
                }
            }
        }
    }

    /// Checks an access of a region against the last writers of its bytes.
    fn compare(&mut self, record: &Record, region: usize, conflict: Conflict) {
        let Some(shadow) = self.shadow.get(&Line::containing(record.address())) else { return };
        let (start, end) = range(record);
        let mut met = (0, 0);
        for byte in start..end {
            let last = (shadow.region[byte], shadow.site[byte]);
            // Most accesses have a single writer.
            if last.0 != 0 && last != met && last.0 as usize - 1 != region {
                met = last;
                if self.concurrent(last.0 as usize - 1, region) {
                    self.note(conflict, [last.1, record.site], [last.0 as usize - 1, region]);
                    return;
                }
            }
        }
    }

    fn step(&mut self, record: &Record) {
        match record.kind() {
            kind if self.model.begins(kind) => self.begin(record),
            kind if self.model.ends(kind) => self.end(record),
            record::STRAND_JOIN => self.barrier(record.thread()),
            record::SYNC => self.synchronized(record),
            record::SPAWN => {
                let clock = self.thread(record.thread()).clock.clone();
                self.learn(record.value as u16, &clock);
            }
            record::JOIN => {
                let clock = self.thread(record.value as u16).clock.clone();
                self.learn(record.thread(), &clock);
            }
            _ => {}
        }
        let Some(kind) = record.event_kind() else { return };
        if matches!(kind, Kind::Load | Kind::FailedRmw | Kind::Rmw) {
            self.load(record);
        }
        // A locked instruction fences what precedes it, and publishes that with itself.
        if kind.fences() {
            self.barrier(record.thread());
        }
        if kind.stores() {
            self.store(record);
        }
    }
}

/// The bytes of its line that a record covers.
fn range(record: &Record) -> (usize, usize) {
    let start = (record.address() % LINE_BYTES) as usize;
    (start, (start + usize::from(record.width())).min(LINE_BYTES as usize))
}

/// All dependences of a recorded run, each pair of places once. None is missed: every region is compared with the last
/// writers of everything it touches.
pub(crate) fn dependences(records: &[Record], model: Model, sites: &Sites) -> Vec<Dependence> {
    let mut analysis = Analysis::new(model);
    for record in records {
        analysis.step(record);
    }
    let place = |site: u32| in_user_code(sites.get(site));
    let found = analysis.found.into_iter().map(|((conflict, first, second), (begins, count))| Dependence {
        model,
        conflict,
        first: place(first),
        second: place(second),
        begins: begins.map(place),
        count,
    });
    // One place in the source is several sites if its function was inlined more than once.
    let mut all = Vec::new();
    merge(&mut all, found.collect());
    all
}

/// Adds the dependences of another schedule.
pub(crate) fn merge(all: &mut Vec<Dependence>, more: Vec<Dependence>) {
    for dependence in more {
        let same = |known: &&mut Dependence| {
            known.conflict == dependence.conflict
                && same_place(&known.first, &dependence.first)
                && same_place(&known.second, &dependence.second)
        };
        match all.iter_mut().find(same) {
            Some(known) => known.count += dependence.count,
            None => all.push(dependence),
        }
    }
}

/// Does a recorded run mark any region of the model?
pub(crate) fn any_marked(records: &[Record], model: Model) -> bool {
    records.iter().any(|record| model.begins(record.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: u64 = 0x1000;

    fn at(kind: u8, address: u64, thread: u16, site: u32) -> Record {
        let width = if kind < 9 { 8 } else { 0 };
        Record::new(kind, address, width, 0, thread, site)
    }

    fn store(address: u64, thread: u16, site: u32) -> Record {
        at(Kind::Store as u8, address, thread, site)
    }

    fn load(address: u64, thread: u16, site: u32) -> Record {
        at(Kind::Load as u8, address, thread, site)
    }

    fn fence(thread: u16) -> Record {
        at(Kind::StoreFence as u8, 0, thread, 90)
    }

    /// A strand of one thread around some accesses.
    fn strand(thread: u16, accesses: &[Record]) -> Vec<Record> {
        let mut records = vec![at(record::STRAND_BEGIN, 0, thread, 80)];
        records.extend_from_slice(accesses);
        records.push(at(record::STRAND_END, 0, thread, 81));
        records
    }

    fn conflicts(model: Model, records: &[Record]) -> Vec<(Conflict, u32, u32)> {
        let mut analysis = Analysis::new(model);
        records.iter().for_each(|record| analysis.step(record));
        analysis.found.into_keys().collect()
    }

    fn strands(parts: &[Vec<Record>]) -> Vec<(Conflict, u32, u32)> {
        conflicts(Model::Strand, &parts.concat())
    }

    #[test]
    fn strands_of_one_thread_are_concurrent() {
        let first = strand(0, &[store(X, 0, 1)]);
        assert_eq!(
            strands(&[first.clone(), strand(0, &[store(X, 0, 2)])]),
            [(Conflict::WriteAfterWrite, 1, 2)]
        );
        assert_eq!(
            strands(&[first.clone(), strand(0, &[load(X + 4, 0, 2)])]),
            [(Conflict::ReadAfterWrite, 1, 2)]
        );
        assert_eq!(strands(&[first.clone(), strand(0, &[store(X + 8, 0, 2)])]), []);
        // A strand does not conflict with itself.
        assert_eq!(strands(&[strand(0, &[store(X, 0, 1), load(X, 0, 2), store(X, 0, 3)])]), []);
    }

    #[test]
    fn joins_and_outer_fences_order_strands() {
        let (first, second) = (strand(0, &[store(X, 0, 1)]), strand(0, &[store(X, 0, 2)]));
        let joined = vec![at(record::STRAND_JOIN, 0, 0, 82)];
        assert_eq!(strands(&[first.clone(), joined, second.clone()]), []);
        assert_eq!(strands(&[first.clone(), vec![fence(0)], second.clone()]), []);
        // A fence inside of a strand is the strand's own.
        let fenced = strand(0, &[fence(0), store(X, 0, 2)]);
        assert_eq!(strands(&[first, fenced]), [(Conflict::WriteAfterWrite, 1, 2)]);
    }

    #[test]
    fn threads_are_ordered_by_what_they_wait_for() {
        let spawn = vec![Record::new(record::SPAWN, 0, 0, 1, 0, 0)];
        let (first, second) = (strand(0, &[store(X, 0, 1)]), strand(1, &[store(X, 1, 2)]));
        let fenced = vec![fence(0)];
        // A lock alone does not persist anything; a fence before it does.
        let both = sync::SAW | sync::CHANGED;
        let lock = |thread| vec![Record::new(record::SYNC, 0, 0, sync::value(77, both), thread, 0)];
        let waw = [(Conflict::WriteAfterWrite, 1, 2)];
        let run = |parts: &[Vec<Record>]| strands(&[vec![spawn.clone()], parts.to_vec()].concat());
        assert_eq!(run(&[first.clone(), second.clone()]), waw);
        assert_eq!(run(&[first.clone(), fenced.clone(), second.clone()]), waw);
        assert_eq!(run(&[first.clone(), lock(0), lock(1), second.clone()]), waw);
        assert_eq!(run(&[first.clone(), fenced.clone(), lock(0), lock(1), second.clone()]), []);
        // So does passing a message through persistent memory.
        let message = vec![store(X + 512, 0, 5), load(X + 512, 1, 6)];
        assert_eq!(run(&[first.clone(), fenced.clone(), message.clone(), second.clone()]), []);
        assert_eq!(run(&[first, message, second]), waw);
    }

    #[test]
    fn the_last_writer_of_every_byte_counts() {
        let half = Record::new(Kind::Store as u8, X + 4, 4, 0, 0, 2);
        let half_load = |address, site| Record::new(Kind::Load as u8, address, 4, 0, 0, site);
        let parts = [
            strand(0, &[store(X, 0, 1)]),
            vec![fence(0)],
            strand(0, &[half]),
            // The first strand is ordered before this one, the second is not.
            strand(0, &[half_load(X, 3), half_load(X + 4, 4)]),
        ];
        assert_eq!(strands(&parts), [(Conflict::ReadAfterWrite, 2, 4)]);
    }

    #[test]
    fn epochs_want_a_barrier_between_them() {
        let epoch = |accesses: &[Record]| {
            let mut records = vec![at(record::EPOCH_BEGIN, 0, 0, 80)];
            records.extend_from_slice(accesses);
            records.push(at(record::EPOCH_END, 0, 0, 81));
            records
        };
        let run = |parts: &[Vec<Record>]| conflicts(Model::Epoch, &parts.concat());
        let (first, second) = (epoch(&[store(X, 0, 1)]), epoch(&[store(X + 64, 0, 2)]));
        assert_eq!(run(&[first.clone(), second.clone()]), [(Conflict::NoBarrier, 1, 80)]);
        assert_eq!(run(&[first, vec![fence(0)], second.clone()]), []);
        assert_eq!(run(&[epoch(&[load(X, 0, 1)]), second]), []);
    }
}
