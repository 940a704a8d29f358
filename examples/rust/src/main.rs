//! Two copies of a counter in persistent memory, of which recovery trusts the newer one that is whole.
//!
//! Build and check it with
//!
//!     crashproof cargo build --release --manifest-path examples/rust/Cargo.toml
//!     crashproof check examples/rust/target/crashproof/x86_64-unknown-linux-gnu/release/counter

use std::arch::asm;
use std::ptr::{addr_of_mut, read_volatile, write_volatile};

unsafe extern "C" {
    fn crashproof_root(bytes: usize) -> *mut Counter;
    fn crashproof_crashes() -> u32;
}

/// A copy is whole if the check is right for the value. Each has a cache line of its own.
#[repr(C, align(64))]
struct Copy {
    value: u64,
    check: u64,
}

#[repr(C)]
struct Counter {
    copies: [Copy; 2],
}

fn checked(value: u64) -> u64 {
    value.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1_e995
}

/// Writes the line back and waits for it.
fn persist(copy: *mut Copy) {
    unsafe { asm!("clwb [{0}]", "sfence", in(reg) copy) };
}

/// The newest value that is whole.
fn read(counter: *mut Counter) -> u64 {
    let mut newest = 0;
    for index in 0..2 {
        let (value, check) = unsafe {
            let copy = addr_of_mut!((*counter).copies[index]);
            (read_volatile(addr_of_mut!((*copy).value)), read_volatile(addr_of_mut!((*copy).check)))
        };
        if check == checked(value) && value > newest {
            newest = value;
        }
    }
    newest
}

/// Overwrites the older copy; the newer one stays whole whatever happens.
fn write(counter: *mut Counter, value: u64) {
    let copy = unsafe { addr_of_mut!((*counter).copies[(value % 2) as usize]) };
    unsafe {
        write_volatile(addr_of_mut!((*copy).value), value);
        write_volatile(addr_of_mut!((*copy).check), checked(value));
    }
    persist(copy);
}

fn main() {
    let counter = unsafe { crashproof_root(size_of::<Counter>()) };
    let found = read(counter);
    assert!(found <= 5, "a value that was never written");
    if unsafe { crashproof_crashes() } > 0 {
        return;
    }
    for value in 1..=5 {
        write(counter, value);
        assert_eq!(read(counter), value);
    }
}
