//! Each test is run plainly by `cargo test`; `crashproof cargo test` crashes it wherever it matters and calls its recovery.

use crashproof::{Root, assert_recovered};
use engine::{Engine, Pool};

/// What the `n`-th put of a test stores.
fn entry(n: u64) -> (u64, u64) {
    ((n * 7) % 11, 1000 + n)
}

/// The first puts are there, all that came before the crash, and nothing else.
fn some_first_puts(most: u64) {
    let mut pool = Root::<Pool>::open();
    let found = Engine::open(&mut pool).scan();
    let mut expected: Vec<(u64, u64)> = (1..=most).take(found.len()).map(entry).collect();
    expected.sort();
    assert_recovered!(found == expected, "found {found:?}, expected {expected:?}");
}

fn three_puts() {
    some_first_puts(3);
}

#[crashproof::test(recover = three_puts)]
fn one_leaf() {
    let mut pool = Root::<Pool>::open();
    let mut engine = Engine::open(&mut pool);
    for n in 1..=3 {
        engine.put(entry(n).0, entry(n).1);
    }
    assert_eq!(engine.get(entry(2).0), Some(entry(2).1));
    assert_eq!(engine.get(99), None);
}

fn seven_puts() {
    some_first_puts(7);
}

#[crashproof::test(recover = seven_puts)]
fn a_split() {
    let mut pool = Root::<Pool>::open();
    let mut engine = Engine::open(&mut pool);
    for n in 1..=7 {
        engine.put(entry(n).0, entry(n).1);
    }
    assert_eq!(engine.scan().len(), 7);
}

fn old_or_new() {
    let mut pool = Root::<Pool>::open();
    let found = Engine::open(&mut pool).get(5);
    assert_recovered!(matches!(found, None | Some(1 | 2)), "found {found:?}");
}

#[crashproof::test(recover = old_or_new)]
fn a_value_is_replaced_as_a_whole() {
    let mut pool = Root::<Pool>::open();
    let mut engine = Engine::open(&mut pool);
    engine.put(5, 1);
    engine.put(5, 2);
    assert_eq!(engine.scan(), [(5, 2)]);
}

/// What has nothing to do with crashes needs no persistent memory.
#[test]
fn many_keys_in_order() {
    let mut pool = Pool::in_memory();
    let mut engine = Engine::open(&mut pool);
    for n in 0..60_u64 {
        engine.put((n * 37) % 61, n);
    }
    let keys: Vec<u64> = engine.scan().iter().map(|entry| entry.0).collect();
    let mut sorted: Vec<u64> = (0..60).map(|n| (n * 37) % 61).collect();
    sorted.sort();
    assert_eq!(keys, sorted);
}
