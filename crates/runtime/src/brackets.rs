//! Loads that may not count: those under a checksum, and those the program tolerates anything of.
//!
//! The checker ignores them when it judges robustness. What is read again after the bracket does count, so it has
//! to be recorded again: the bytes that were first touched inside are made untouched when it ends in vain, unless
//! the program has stored to them.

use crashproof_protocol::abi::Site;
use crashproof_protocol::record;

use crate::access::{self, recovering, shadow};
use crate::threads::CURRENT;

/// Open brackets, of all threads.
pub(crate) static mut DEPTH: u32 = 0;
/// The thread of each open bracket, and how much had been loaded when it began.
static mut OPEN: Vec<(u16, usize)> = Vec::new();
/// First touched by loads since the outermost began: thread, address of the line, bytes.
static mut LOADED: Vec<(u16, u64, u64)> = Vec::new();
/// Stored to since then.
static mut STORED: Vec<(u64, u64)> = Vec::new();

/// A load touched these bytes of a line first.
#[cold]
pub(crate) unsafe fn loaded(line: u64, bits: u64) {
    LOADED.push((CURRENT, line, bits));
}

/// These bytes of a line were stored to.
#[cold]
pub(crate) unsafe fn stored(line: u64, bits: u64) {
    STORED.push((line, bits));
}

unsafe fn begin(kind: u8) {
    access::note(kind, 0, 0, std::ptr::null::<Site>());
    if recovering() {
        DEPTH += 1;
        OPEN.push((CURRENT, LOADED.len()));
    }
}

unsafe fn end(kind: u8, counts: bool) {
    access::note(kind, u64::from(counts), 0, std::ptr::null::<Site>());
    let Some(index) = OPEN.iter().rposition(|(thread, _)| *thread == CURRENT) else { return };
    let (_, start) = OPEN.remove(index);
    if !counts {
        for &(_, line, bits) in LOADED[start..].iter().filter(|(thread, ..)| *thread == CURRENT) {
            let stored = STORED.iter().filter(|(at, _)| *at == line).fold(0, |all, (_, bits)| all | bits);
            *shadow(line) &= !(bits & !stored);
        }
    }
    DEPTH -= 1;
    if DEPTH == 0 {
        LOADED.clear();
        STORED.clear();
    }
}

/// The loads that follow are to be verified by a checksum.
#[unsafe(no_mangle)]
unsafe extern "C" fn crashproof_checksum_begin() {
    begin(record::CHECKSUM_BEGIN);
}

/// The checksum was compared; did it match?
#[unsafe(no_mangle)]
unsafe extern "C" fn crashproof_checksum_end(matched: i32) {
    end(record::CHECKSUM_END, matched != 0);
}

/// The loads and stores that follow may show an order that only caches make.
#[unsafe(no_mangle)]
unsafe extern "C" fn crashproof_tolerate_begin() {
    begin(record::TOLERATE_BEGIN);
}

/// They end.
#[unsafe(no_mangle)]
unsafe extern "C" fn crashproof_tolerate_end() {
    end(record::TOLERATE_END, false);
}
