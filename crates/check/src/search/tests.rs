//! A search needs no process: everything recovery may do after a crash of a program in memory.

use std::collections::BTreeSet;
use std::sync::Mutex;

use crashproof_protocol::{ARENA, Record};
use px86::{Kind, Platform};

use crate::crash::History;
use crate::search::{Incomplete, Observer, Plan, Recording, Recovered, Search, Settings, Worker};
use crate::subject::{Ending, InMemory, Memory, RunLimits, Schedule};

const DATA: u64 = ARENA.base;
const DONE: u64 = ARENA.base + 64;

/// What recoveries read, and how they ended.
#[derive(Default)]
struct Seen(Mutex<BTreeSet<(Vec<u64>, i32)>>);

impl Observer for Seen {
    fn is_interrupted(&self) -> bool {
        false
    }

    fn incomplete(&self, why: Incomplete) {
        panic!("{why:?}");
    }

    fn crashed(&self, _: usize) {}

    fn ran(&self, _: &[Record], _: usize) {}

    fn ended(&self, recovered: &Recovered) -> bool {
        let Ending::Exit(code) = recovered.outcome.ending else { panic!("nobody kills it") };
        let values = recovered.reads.iter().map(|read| read.value).collect();
        self.0.lock().expect("no panic").insert((values, code));
        false
    }

    fn sampled(&self, _: &Recovered, _: &[u32]) {}

    fn next_crash_point(&self, _: usize, _: usize) {}

    fn distrusted_checksum(&self, _: u32) {}
}

fn event(kind: Kind, address: u64, value: u64) -> Record {
    Record::new(kind as u8, address, if kind.stores() { 8 } else { 0 }, value, 0, 1)
}

fn persist(address: u64) -> [Record; 2] {
    [event(Kind::FlushOpt, address, 0), event(Kind::StoreFence, 0, 0)]
}

/// Stores data, then says that it is done; `flushed` says whether the data is flushed before.
fn run(flushed: bool) -> Vec<Record> {
    let mut records = vec![event(Kind::Store, DATA, 7)];
    records.extend(persist(DATA).into_iter().filter(|_| flushed));
    records.push(event(Kind::Store, DONE, 1));
    records.extend(persist(DONE));
    records
}

fn recover(memory: &mut Memory) -> i32 {
    i32::from(memory.read(DONE) == 1 && memory.read(DATA) != 7)
}

/// All that recovery may do, and how many recoveries were run to find out.
fn search(flushed: bool) -> (Vec<(Vec<u64>, i32)>, u64) {
    let seen = Seen::default();
    let settings = Settings {
        platform: Platform::ADR,
        crashes: 1,
        max_per_crash: None,
        max_recoveries: None,
        max_time: None,
        limits: RunLimits { max_records: 1000, max_run_seconds: 1, max_cpu_seconds: 1 },
        history: true,
    };
    let search = Search::new(settings, &seen);
    let records = run(flushed);
    let history = History::of(&records);
    let recording = Recording { records: &records, history: &history, schedule: Schedule::default() };
    let mut subject = InMemory::new(records.clone(), recover);
    Plan::Everything.carry_out(Worker::new(&search, &mut subject, recording), 0, 1).expect("it runs");
    assert!(Worker::new(&search, &mut subject, recording).knows_everything().expect("it runs"));
    let recoveries = search.into_shared().statistics.recoveries;
    (seen.0.into_inner().expect("no panic").into_iter().collect(), recoveries)
}

#[test]
fn a_missing_flush_lets_recovery_see_the_one_without_the_other() {
    let (seen, recoveries) = search(false);
    assert_eq!(seen, [(vec![0], 0), (vec![1, 0], 1), (vec![1, 7], 0)]);
    assert_eq!(recoveries, 3, "one for each behavior");
}

#[test]
fn with_the_flush_recovery_sees_both_or_neither() {
    let (seen, recoveries) = search(true);
    assert_eq!(seen, [(vec![0], 0), (vec![1, 7], 0)]);
    assert_eq!(recoveries, 2);
}
