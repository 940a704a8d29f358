//! Two numbers on lines of their own.
#![no_std]
use core::arch::x86_64::{_mm_clflush, _mm_sfence};
use number::number;

#[repr(C, align(64))]
pub struct Pair {
    pub left: u64,
    pad: [u64; 7],
    pub right: u64,
}

/// Stores both; the first is never flushed.
pub fn store(pair: &mut Pair) {
    pair.left = number!(); // MARK: lost
    pair.right = 1;
    // SAFETY: the line is the pair's.
    unsafe {
        _mm_clflush((&raw const pair.right).cast());
        _mm_sfence();
    }
}
