//! A search needs no process: everything recovery may do after a crash of a program in memory.

use std::collections::BTreeSet;
use std::sync::Mutex;

use crashproof_protocol::{ARENA, Record};
use px86::{Kind, Platform};

use crate::crash::{History, RecordKinds};
use crate::search::{
    Incomplete, Judgement, Observer, Plan, Recording, Recovered, Search, Settings, Shared, Worker,
};
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

    fn ran(&self, _: &[Record], _: RecordKinds, _: usize) {}

    fn wants_all(&self) -> bool {
        true
    }

    fn ended(&self, recovered: &Recovered) -> Judgement {
        let Ending::Exit(code) = recovered.outcome.ending else { panic!("nobody kills it") };
        let values = recovered.reads.iter().map(|read| read.value).collect();
        self.0.lock().expect("no panic").insert((values, code));
        Judgement::default()
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

/// Stores data, then a flag that says it is complete; `flushed` says whether the data is flushed before.
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

/// The limits of a search in these tests.
fn settings() -> Settings {
    Settings {
        platform: Platform::ADR,
        crashes: 1,
        max_per_crash: None,
        max_recoveries: None,
        max_time: None,
        memory: 1 << 30,
        exhaustive: false,
        shards: None,
        limits: RunLimits { max_records: 1000, max_run_seconds: 1, max_cpu_seconds: 1 },
        history: true,
    }
}

/// Everything recovery was seen to do, and the final state.
fn explored(settings: Settings, records: &[Record], recover: fn(&mut Memory) -> i32) -> (Behaviors, Shared) {
    let seen = Seen::default();
    let search = Search::new(settings, &seen);
    let history = History::of(records);
    let recording = Recording { records, history: &history, schedule: Schedule::default() };
    let mut subject = InMemory::new(records.to_vec(), recover);
    Plan::Everything.carry_out(Worker::new(&search, &mut subject, recording), 0, 1).expect("it runs");
    if search.settings.max_per_crash.is_none() && search.settings.memory == 1 << 30 {
        assert!(Worker::new(&search, &mut subject, recording).knows_everything().expect("it runs"));
    }
    let shared = search.into_shared();
    (seen.0.into_inner().expect("no panic").into_iter().collect(), shared)
}

/// What recoveries read, and how they ended.
type Behaviors = Vec<(Vec<u64>, i32)>;

/// Everything recovery may do, and how many recoveries were run to find out.
fn search(flushed: bool) -> (Behaviors, u64) {
    let (seen, shared) = explored(settings(), &run(flushed), recover);
    (seen, shared.statistics.recoveries)
}

/// A list that grows at its head, each node on a line of its own; some are flushed late.
fn list(nodes: u64) -> Vec<Record> {
    let mut records = Vec::new();
    for number in 1..=nodes {
        let node = ARENA.base + 64 * number;
        records.push(event(Kind::Store, node, number - 1));
        records.push(event(Kind::Store, node + 8, number * 3));
        records.extend(persist(node).into_iter().filter(|_| number % 60 != 0));
        records.push(event(Kind::Store, DATA, number));
        records.extend(persist(DATA));
    }
    records
}

/// Walks the list, up to a node that is missing.
fn walk_list(memory: &mut Memory) -> i32 {
    let mut at = memory.read(DATA);
    while at != 0 {
        let node = ARENA.base + 64 * at;
        let (next, value) = (memory.read(node), memory.read(node + 8));
        if value != at * 3 {
            return 1;
        }
        at = next;
    }
    0
}

#[test]
fn a_tree_within_little_memory_finds_the_same() {
    let records = list(300);
    let (all, unbounded) = explored(settings(), &records, walk_list);
    assert!(!unbounded.dropped && unbounded.tree.drops() == 0);
    for kilobytes in [256, 400] {
        let bounded = Settings { memory: kilobytes << 10, ..settings() };
        let (seen, shared) = explored(bounded, &records, walk_list);
        assert_eq!(seen, all, "{kilobytes} KB");
        assert!(shared.dropped, "{kilobytes} KB are little");
        assert_eq!(shared.tree.behaviors(), unbounded.tree.behaviors(), "each counts once");
    }
}

/// Sixteen lines that are flushed together.
fn epoch() -> Vec<Record> {
    let line = |number: u64| ARENA.base + 64 * (1 + number);
    let mut records = vec![event(Kind::Store, DATA, 1)];
    records.extend(persist(DATA));
    records.extend((0..16).map(|number| event(Kind::Store, line(number), 1)));
    records.extend((0..16).flat_map(|number| persist(line(number))));
    records
}

/// Ends with a mask of the lines that survived, if it has one of these forms.
fn survivors(memory: &mut Memory) -> i32 {
    if memory.read(DATA) == 0 {
        return 0;
    }
    (0..16).fold(0, |kept, number| kept | (memory.read(ARENA.base + 64 * (1 + number)) as i32) << number)
}

#[test]
fn corners_come_before_everything_else() {
    let limited = Settings { max_per_crash: Some(100), ..settings() };
    let seen = Limited::default();
    let search = Search::new(limited, &seen);
    let records = epoch();
    let history = History::of(&records);
    let recording = Recording { records: &records, history: &history, schedule: Schedule::default() };
    let mut subject = InMemory::new(records.clone(), survivors);
    Plan::Everything.carry_out(Worker::new(&search, &mut subject, recording), 0, 1).expect("it runs");
    drop(search.into_shared());
    let endings: BTreeSet<i32> =
        seen.0.0.into_inner().expect("no panic").into_iter().map(|it| it.1).collect();
    assert!(endings.contains(&0xffff) && endings.contains(&0), "nothing lost, everything lost");
    for line in 0..16 {
        assert!(endings.contains(&(0xffff & !(1 << line))), "line {line} alone lost");
        assert!(endings.contains(&(1 << line)), "line {line} alone kept");
        assert!(endings.contains(&((1 << line) - 1)), "a crash in the middle");
    }
}

/// An epoch of sixteen lines for each number; the number comes first.
fn epochs(numbers: u64) -> Vec<Record> {
    let mut records = Vec::new();
    for number in 1..=numbers {
        records.push(event(Kind::Store, DATA, number));
        records.extend(persist(DATA));
        let line = |of: u64| ARENA.base + 64 * (16 * number + of);
        records.extend((0..16).map(|of| event(Kind::Store, line(of), 1)));
        records.extend((0..16).map(|of| event(Kind::FlushOpt, line(of), 0)));
        records.push(event(Kind::StoreFence, 0, 0));
    }
    records
}

/// Ends with the number of the last epoch and a mask of its lines that survived.
fn survivors_of_epoch(memory: &mut Memory) -> i32 {
    let number = memory.read(DATA);
    let kept = |of: u64| (memory.read(ARENA.base + 64 * (16 * number + of)) as i32) << of;
    if number == 0 { 0 } else { (0..16).map(kept).sum::<i32>() | (number as i32) << 16 }
}

/// How recoveries of the epochs end within these limits, and the final state.
fn limited_epochs(numbers: u64, limits: Settings) -> (BTreeSet<i32>, Shared) {
    let seen = Limited::default();
    let search = Search::new(limits, &seen);
    let records = epochs(numbers);
    let history = History::of(&records);
    let recording = Recording { records: &records, history: &history, schedule: Schedule::default() };
    let mut subject = InMemory::new(records.clone(), survivors_of_epoch);
    Plan::Everything.carry_out(Worker::new(&search, &mut subject, recording), 0, 1).expect("it runs");
    let shared = search.into_shared();
    (seen.0.0.into_inner().expect("no panic").into_iter().map(|it| it.1).collect(), shared)
}

#[test]
fn under_a_limit_every_crash_point_comes_before_any_in_depth() {
    const NUMBERS: u64 = 40;
    let (endings, shared) =
        limited_epochs(NUMBERS, Settings { max_recoveries: Some(3 * NUMBERS), ..settings() });
    for number in 1..=NUMBERS as i32 {
        let (none, all) = (number << 16, number << 16 | 0xffff);
        assert!(endings.contains(&none) && endings.contains(&all), "both at epoch {number}");
    }
    assert!(shared.stopped && shared.statistics.recoveries == 3 * NUMBERS);
    assert!(shared.coverage.stages[0] >= NUMBERS && shared.coverage.stages[2] < NUMBERS);
}

#[test]
fn single_lines_at_all_crash_points_come_before_the_rest() {
    const NUMBERS: u64 = 5;
    let most = Some(NUMBERS * (2 + 32 + 15 + 3));
    let (endings, _) = limited_epochs(NUMBERS, Settings { max_recoveries: most, ..settings() });
    for number in 1..=NUMBERS as i32 {
        for line in 0..16 {
            let of = |mask: i32| number << 16 | mask;
            assert!(endings.contains(&of(1 << line)), "epoch {number}, line {line} alone kept");
            assert!(endings.contains(&of(0xffff & !(1 << line))), "epoch {number}, line {line} alone lost");
            assert!(endings.contains(&of((1 << line) - 1)), "epoch {number}, a crash in the middle");
        }
    }
}

#[test]
fn a_run_too_long_for_its_limit_is_crashed_all_over() {
    const NUMBERS: u64 = 600;
    let (endings, _) = limited_epochs(NUMBERS, Settings { max_recoveries: Some(40), ..settings() });
    let last = endings.iter().map(|ending| ending >> 16).max();
    assert!(last > Some(NUMBERS as i32 / 2), "{last:?}");
}

#[test]
fn a_limit_that_is_not_hit_changes_nothing() {
    let ample = |settings: Settings| Settings { max_recoveries: Some(1_000_000), ..settings };
    let records = list(300);
    let (all, unlimited) = explored(settings(), &records, walk_list);
    for kilobytes in [256, 1 << 20] {
        let bounded = Settings { memory: kilobytes << 10, ..settings() };
        let (seen, shared) = explored(ample(bounded), &records, walk_list);
        assert_eq!(seen, all, "{kilobytes} KB");
        assert_eq!(shared.statistics.failure_points, unlimited.statistics.failure_points);
        assert_eq!(shared.tree.behaviors(), unlimited.tree.behaviors());
    }
    // Several turns each.
    let twelve: Vec<Record> =
        epochs(3).into_iter().filter(|it| it.address() < DATA + 64 * 64 && !is_last(it)).collect();
    let (all, unlimited) = explored(settings(), &twelve, survivors_of_epoch);
    let (seen, limited) = explored(ample(settings()), &twelve, survivors_of_epoch);
    assert_eq!(seen, all);
    assert_eq!(limited.statistics.recoveries, unlimited.statistics.recoveries);
}

/// Does it concern one of the last six lines of an epoch?
fn is_last(record: &Record) -> bool {
    record.address() > DATA && (record.address() - DATA) / 64 % 16 >= 10
}

/// Like [`Seen`], but limits are expected.
#[derive(Default)]
struct Limited(Seen);

impl Observer for Limited {
    fn is_interrupted(&self) -> bool {
        false
    }

    fn incomplete(&self, why: Incomplete) {
        assert!(matches!(why, Incomplete::PerCrash(_) | Incomplete::Recoveries(_)), "{why:?}");
    }

    fn crashed(&self, _: usize) {}

    fn ran(&self, _: &[Record], _: RecordKinds, _: usize) {}

    fn wants_all(&self) -> bool {
        true
    }

    fn ended(&self, recovered: &Recovered) -> Judgement {
        self.0.ended(recovered)
    }

    fn sampled(&self, _: &Recovered, _: &[u32]) {}

    fn next_crash_point(&self, _: usize, _: usize) {}

    fn distrusted_checksum(&self, _: u32) {}
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
