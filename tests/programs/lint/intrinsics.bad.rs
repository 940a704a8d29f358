// Rust with intrinsics: one store is flushed, one is not.
//@ check: skip (a fragment: it has no main)
//@ lint: unflushed-write at unflushed-write
//@ prove: skip (a fragment: it has no main)
#![crate_type = "lib"]
use std::arch::x86_64::{_mm_clflush, _mm_sfence};
#[repr(C, align(64))]
pub struct Counter { pub value: u64, pad: [u64; 7], pub shadow: u64 }
fn persist<T>(at: *const T) { unsafe { _mm_clflush(at.cast()); _mm_sfence(); } }
pub fn bump(counter: &mut Counter) {
    counter.value += 1;
    persist(&counter.value);
    counter.shadow = 7; // MARK: unflushed-write
}
