//! Tests as users write them: they pass plainly, and under `crashproof cargo test` but for the one that forgets a flush,
//! which is ignored.

use std::sync::atomic::{AtomicU64, Ordering};

use crashproof::{Root, assert_recovered, persist, persistent};

persistent! {
    /// A value, and whether it is there; each on a cache line of its own.
    struct Slot {
        value: u64,
        apart: [u64; 7],
        full: u64,
    }
}

persistent! {
    static COUNT: AtomicU64 = AtomicU64::new(0);
}

fn store(slot: &mut Slot, value: u64, flushes: bool) {
    slot.value = value;
    if flushes {
        persist(&slot.value);
    }
    slot.full = 1;
    persist(&slot.full);
}

fn recover() {
    let slot = Root::<Slot>::open();
    if slot.full == 1 {
        assert_recovered!(slot.value == 42, "a full slot has its value");
    }
    assert_recovered!(slot.apart == [0; 7]);
}

#[crashproof::test(recover = recover)]
fn a_full_slot_has_its_value() {
    let mut slot = Root::<Slot>::open();
    store(&mut slot, 42, true);
    assert_eq!((slot.value, slot.full), (42, 1));
}

#[crashproof::test(recover = self::recover)]
#[ignore = "forgets a flush: crashproof finds it"]
fn a_forgotten_flush() {
    store(&mut Root::<Slot>::open(), 42, false);
}

fn at_most_three() -> Result<(), String> {
    assert_recovered!(crashproof::tolerate(|| COUNT.load(Ordering::Acquire)) <= 3);
    Ok(())
}

#[crashproof::test(recover = at_most_three)]
fn a_persistent_static() -> Result<(), String> {
    for count in 1..=3 {
        COUNT.store(count, Ordering::Release);
        persist(&COUNT);
    }
    Ok(())
}

#[crashproof::test]
#[should_panic(expected = "in use")]
fn one_root_at_a_time() {
    let _one = Root::<Slot>::open();
    let _other = Root::<Slot>::open();
}

#[test]
fn a_checksum_scope_gives_the_result() {
    assert_eq!(crashproof::checksum(|| (7, true)), 7);
    let _ = crashproof::crashes();
}
