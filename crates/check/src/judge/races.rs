//! Data races on persistent memory: two unordered plain accesses to the same bytes by different threads, one of them a
//! store.
//!
//! Happens-before is that of C and C++: program order, creating and joining threads, locks and the like, and atomic or
//! `volatile` accesses, each of which releases what its thread did before and acquires what it reads from (as on x86).
//! Uses vector clocks and, for every word, the last plain accesses of each thread (FastTrack; Flanagan and Freund, PLDI
//! 2009, without its shortcuts: runs are short). A compiler may tear, repeat or invent such a store, so a crash may
//! leave anything, even if it is flushed.
//!
//! Only rebuilt code says which accesses are atomic; accesses by other code, and by copying library functions, are not
//! considered.

use std::collections::BTreeMap;

use crashproof_findings::Place;
use crashproof_protocol::{Record, record, sync};
use px86::Kind;
use px86::line::words;
use rustc_hash::FxHashMap;

use crate::subject::{Sites, in_user_code, same_place};

/// Two unordered plain accesses.
#[derive(Clone, Debug)]
pub struct DataRace {
    /// The one that came first in the run that showed it.
    pub first: Place,
    /// The other one.
    pub second: Place,
    /// Whether each of them is a store.
    pub stores: [bool; 2],
    /// Their threads.
    pub threads: [u16; 2],
    /// How many schedules showed it.
    pub count: u64,
}

/// How far each thread had come, as known to one thread.
#[derive(Clone, Default)]
struct Clock(Vec<u32>);

impl Clock {
    fn of(&self, thread: u16) -> u32 {
        self.0.get(usize::from(thread)).copied().unwrap_or(0)
    }

    fn advance(&mut self, thread: u16) {
        let index = usize::from(thread);
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        self.0[index] += 1;
    }

    fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
    }
}

/// A plain access to a word: which bytes, when, and the site.
#[derive(Clone, Copy)]
struct Plain {
    thread: u16,
    at: u32,
    bytes: u8,
    site: u32,
    stores: bool,
}

/// A buffered store: if it is atomic, the clock of its thread at the issue.
struct Issued {
    address: u64,
    width: u8,
    released: Option<Clock>,
}

/// Pairs of sites, each with whether it stores, and their threads.
type Found = BTreeMap<[(u32, bool); 2], [u16; 2]>;

struct Analysis<'a> {
    sites: &'a Sites,
    threads: Vec<Clock>,
    /// The clock of each synchronization object at its last use, and of each word at its last atomic store.
    objects: FxHashMap<u64, Clock>,
    words: FxHashMap<u64, Clock>,
    plain: FxHashMap<u64, Vec<Plain>>,
    waiting: FxHashMap<u16, Vec<Issued>>,
    found: Found,
}

impl<'a> Analysis<'a> {
    fn new(sites: &'a Sites) -> Analysis<'a> {
        Analysis {
            sites,
            threads: Vec::new(),
            objects: FxHashMap::default(),
            words: FxHashMap::default(),
            plain: FxHashMap::default(),
            waiting: FxHashMap::default(),
            found: Found::new(),
        }
    }

    fn clock(&mut self, thread: u16) -> &mut Clock {
        let index = usize::from(thread);
        while self.threads.len() <= index {
            let mut clock = Clock::default();
            clock.advance(self.threads.len() as u16);
            self.threads.push(clock);
        }
        &mut self.threads[index]
    }

    /// Everything the thread has done so far becomes visible to threads that see what it does now.
    fn release(&mut self, thread: u16) -> Clock {
        let clock = self.clock(thread);
        let released = clock.clone();
        clock.advance(thread);
        released
    }

    fn acquire(&mut self, thread: u16, known: Option<Clock>) {
        if let Some(known) = known {
            self.clock(thread).join(&known);
        }
    }

    fn access(&mut self, record: &Record, stores: bool) {
        let thread = record.thread();
        let now = self.clock(thread).clone();
        let site = record.site;
        for piece in words(record.address(), record.width().into()) {
            let word = piece.address / 8;
            let bytes = (((1u16 << piece.width) - 1) << (piece.address % 8)) as u8;
            let known = self.plain.entry(word).or_default();
            for other in known.iter() {
                let conflicts =
                    other.thread != thread && other.bytes & bytes != 0 && (stores || other.stores);
                if conflicts && other.at > now.of(other.thread) {
                    let pair = [(other.site, other.stores), (site, stores)];
                    self.found.entry(pair).or_insert([other.thread, thread]);
                }
            }
            let mine = Plain { thread, at: now.of(thread), bytes, site, stores };
            let same =
                |other: &&mut Plain| (other.thread, other.bytes, other.stores) == (thread, bytes, stores);
            match known.iter_mut().find(same) {
                Some(last) => *last = mine,
                None => known.push(mine),
            }
        }
    }

    fn stored(&mut self, record: &Record, released: &Clock) {
        for piece in words(record.address(), record.width().into()) {
            self.words.insert(piece.address / 8, released.clone());
        }
    }

    fn saw(&mut self, record: &Record) {
        for piece in words(record.address(), record.width().into()) {
            let known = self.words.get(&(piece.address / 8)).cloned();
            self.acquire(record.thread(), known);
        }
    }

    fn step(&mut self, record: &Record) {
        let thread = record.thread();
        match record.kind() {
            record::SYNC => {
                let object = sync::object(record.value);
                if record.value & sync::SAW != 0 {
                    let known = self.objects.get(&object).cloned();
                    self.acquire(thread, known);
                }
                if record.value & sync::CHANGED != 0 {
                    let mut released = self.release(thread);
                    // A lock with several holders: the next thread to take it has seen all that released it.
                    if let Some(before) = self.objects.get(&object) {
                        released.join(before);
                    }
                    self.objects.insert(object, released);
                }
            }
            record::SPAWN => {
                let released = self.release(thread);
                self.acquire(record.value as u16, Some(released));
            }
            record::JOIN => {
                let ended = self.release(record.value as u16);
                self.acquire(thread, Some(ended));
            }
            record::ISSUE => self.issues(record),
            _ => match record.event_kind() {
                Some(Kind::Load) if self.sites.is_plain(record.site) => self.access(record, false),
                Some(Kind::Load | Kind::FailedRmw) => self.saw(record),
                Some(Kind::Rmw) => {
                    self.saw(record);
                    let released = self.release(thread);
                    self.stored(record, &released);
                }
                Some(kind) if kind.stores() => self.takes_effect(record),
                _ => {}
            },
        }
    }

    fn issues(&mut self, record: &Record) {
        let plain = self.sites.is_plain(record.site);
        if plain {
            self.access(record, true);
        }
        let released = (!plain).then(|| self.release(record.thread()));
        let (address, width) = (record.address(), record.width());
        self.waiting.entry(record.thread()).or_default().push(Issued { address, width, released });
    }

    fn takes_effect(&mut self, record: &Record) {
        let waiting = self.waiting.entry(record.thread()).or_default();
        let same = |issued: &Issued| (issued.address, issued.width) == (record.address(), record.width());
        let issued = waiting.iter().position(same).map(|index| waiting.remove(index));
        let released = match issued {
            Some(issued) => issued.released,
            None if self.sites.is_plain(record.site) => {
                self.access(record, true);
                None
            }
            None => Some(self.release(record.thread())),
        };
        if let Some(released) = released {
            self.stored(record, &released);
        }
    }
}

/// The happens-before order of a run, record by record.
pub(crate) struct Ordered<'a>(Analysis<'a>);

impl<'a> Ordered<'a> {
    pub(crate) fn new(sites: &'a Sites) -> Ordered<'a> {
        Ordered(Analysis::new(sites))
    }

    pub(crate) fn step(&mut self, record: &Record) {
        self.0.step(record);
    }

    /// The current time of a thread.
    pub(crate) fn now(&mut self, thread: u16) -> u32 {
        self.0.clock(thread).of(thread)
    }

    /// Did a thread's action happen before another thread's next one?
    pub(crate) fn is_before(&mut self, (thread, at): (u16, u32), other: u16) -> bool {
        thread == other || at <= self.0.clock(other).of(thread)
    }
}

/// All data races of a recorded run, each pair of places once.
pub(crate) fn races(records: &[Record], sites: &Sites) -> Vec<DataRace> {
    let found = pairs(records, sites);
    let place = |site: u32| in_user_code(sites.get(site));
    let mut all = Vec::new();
    let races = found.into_iter().map(|([first, second], threads)| DataRace {
        first: place(first.0),
        second: place(second.0),
        stores: [first.1, second.1],
        threads,
        count: 1,
    });
    merge(&mut all, races.collect());
    all.iter_mut().for_each(|race| race.count = 1);
    all
}

fn pairs(records: &[Record], sites: &Sites) -> Found {
    let mut analysis = Analysis::new(sites);
    records.iter().for_each(|record| analysis.step(record));
    analysis.found
}

/// Adds the races of another schedule; the two accesses may come in either order.
pub(crate) fn merge(all: &mut Vec<DataRace>, more: Vec<DataRace>) {
    for race in more {
        let pair = |one: &DataRace, first: &Place, second: &Place| {
            same_place(&one.first, first) && same_place(&one.second, second)
        };
        let known = all
            .iter_mut()
            .find(|known| pair(known, &race.first, &race.second) || pair(known, &race.second, &race.first));
        match known {
            Some(known) => known.count += race.count,
            None => all.push(race),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crashproof_protocol::abi::{FLAG_ATOMIC, kind};

    const X: u64 = 0x1000;
    const FLAG: u64 = 0x1040;

    /// Site 1 is a plain load, 2 a plain store, 3 an atomic load, 4 an atomic store.
    fn sites() -> Sites {
        let tags = [
            u32::from(kind::LOAD),
            u32::from(kind::STORE),
            u32::from(kind::LOAD) | FLAG_ATOMIC,
            u32::from(kind::STORE) | FLAG_ATOMIC,
        ];
        let lines = tags.iter().enumerate().map(|(index, tag)| {
            let number = index + 1;
            format!("{number}\t{tag}\t{number}\t1\ta.c\tf\t\n")
        });
        Sites::parse(&lines.collect::<String>())
    }

    fn at(kind: u8, address: u64, thread: u16, site: u32) -> Record {
        Record::new(kind, address, 8, 1, thread, site)
    }

    fn count(records: &[Record]) -> usize {
        pairs(records, &sites()).len()
    }

    fn spawn(thread: u16) -> Record {
        Record::new(record::SPAWN, 0, 0, thread.into(), 0, 0)
    }

    #[test]
    fn plain_accesses_of_two_threads_race() {
        let (store, load) = (at(Kind::Store as u8, X, 1, 2), at(Kind::Load as u8, X, 2, 1));
        assert_eq!(count(&[spawn(1), spawn(2), store, load]), 1);
        assert_eq!(count(&[spawn(1), spawn(2), load, store]), 1);
        let other = at(Kind::Load as u8, X, 1, 1);
        assert_eq!(count(&[spawn(1), spawn(2), load, other]), 0, "nobody stores");
        let elsewhere = at(Kind::Load as u8, X + 8, 2, 1);
        assert_eq!(count(&[spawn(1), spawn(2), store, elsewhere]), 0);
    }

    #[test]
    fn creating_joining_and_locks_order() {
        let (store, load) = (at(Kind::Store as u8, X, 0, 2), at(Kind::Load as u8, X, 1, 1));
        assert_eq!(count(&[store, spawn(1), load]), 0);
        let join = Record::new(record::JOIN, 0, 0, 1, 0, 0);
        assert_eq!(count(&[spawn(1), load, join, store]), 0);
        assert_eq!(count(&[spawn(1), load, store]), 1);
        let lock =
            |thread| Record::new(record::SYNC, 0, 0, sync::value(0x77, sync::SAW | sync::CHANGED), thread, 0);
        assert_eq!(count(&[spawn(1), lock(0), store, lock(0), lock(1), load]), 0);
        assert_eq!(count(&[spawn(1), lock(0), lock(0), store, lock(1), load]), 1, "after it was given back");
    }

    #[test]
    fn an_atomic_store_releases_from_when_it_was_issued() {
        let publish = [at(Kind::Store as u8, X, 1, 2), at(Kind::Store as u8, FLAG, 1, 4)];
        let consume = [at(Kind::Load as u8, FLAG, 2, 3), at(Kind::Load as u8, X, 2, 1)];
        let run = |middle: &[Record]| {
            let mut records = vec![spawn(1), spawn(2)];
            records.extend_from_slice(middle);
            count(&records)
        };
        assert_eq!(run(&[publish[0], publish[1], consume[0], consume[1]]), 0);
        assert_eq!(run(&[publish[1], publish[0], consume[0], consume[1]]), 1, "stored after the flag");
        let issued = at(record::ISSUE, FLAG, 1, 4);
        assert_eq!(run(&[issued, publish[0], publish[1], consume[0], consume[1]]), 1, "it only waited");
        assert_eq!(run(&[publish[0], issued, publish[1], consume[0], consume[1]]), 0);
    }
}
