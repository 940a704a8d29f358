//! Mappings of persistent files at addresses the program chose (`MAP_FIXED`).
//!
//! The content is in the pool as usual; the program's address range is mapped without access rights. Every access there
//! faults and is followed, even from rebuilt code, as if it had been to the pool.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};

use crashproof_protocol::abi::is_pm;

/// A range of addresses, and where its content is in the pool.
struct Window {
    start: AtomicU64,
    end: AtomicU64,
    pool: AtomicU64,
}

const MOST: usize = 64;

static WINDOWS: [Window; MOST] =
    [const { Window { start: AtomicU64::new(0), end: AtomicU64::new(0), pool: AtomicU64::new(0) } }; MOST];
/// Signal handlers may read the windows at any time, so each is complete before it is counted. Assembly reads it, too: it
/// is not 0 from the first mapping on.
pub(crate) static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The window that an argument of the function of the C library that runs now points into, counted from 1; 0 if none.
static CALLED_WITH: AtomicUsize = AtomicUsize::new(0);

/// Adds a mapping; `false` if there are too many.
pub(crate) fn add(start: u64, bytes: u64, pool: u64) -> bool {
    remove(start, bytes);
    let count = COUNT.load(Relaxed);
    let free = WINDOWS[..count].iter().position(|window| window.end.load(Relaxed) == 0).unwrap_or(count);
    let Some(window) = WINDOWS.get(free) else { return false };
    window.start.store(start, Relaxed);
    window.pool.store(pool, Relaxed);
    window.end.store(start + bytes, Release);
    COUNT.store(count.max(free + 1), Release);
    true
}

/// Removes the mappings within a range.
pub(crate) fn remove(start: u64, bytes: u64) {
    for window in &WINDOWS[..COUNT.load(Relaxed)] {
        if window.start.load(Relaxed) >= start && window.end.load(Relaxed) <= start + bytes {
            window.end.store(0, Release);
        }
    }
}

/// Which mapping an address is in.
#[inline]
fn position(address: u64) -> Option<usize> {
    let count = COUNT.load(Acquire);
    if count == 0 {
        return None;
    }
    let holds = |window: &Window| address < window.end.load(Acquire) && address >= window.start.load(Relaxed);
    WINDOWS[..count].iter().position(holds)
}

/// The pool address for an address in such a mapping.
#[inline]
pub(crate) fn pool_address(address: u64) -> Option<u64> {
    let window = &WINDOWS[position(address)?];
    Some(address - window.start.load(Relaxed) + window.pool.load(Relaxed))
}

/// The same, but any other address is returned unchanged.
#[inline]
pub(crate) fn in_pool(address: u64) -> u64 {
    pool_address(address).unwrap_or(address)
}

/// Is the address in persistent memory, wherever the program mapped that?
#[inline]
pub(crate) fn is_persistent(address: u64) -> bool {
    is_pm(in_pool(address))
}

/// A function of the C library, which works on the pool. Addresses that it returns are in the mapping that its arguments
/// pointed into.
pub(crate) struct Call {
    outer: usize,
}

impl Call {
    /// A call with these arguments.
    pub(crate) fn with(arguments: &[u64]) -> Call {
        let window = arguments.iter().find_map(|&argument| position(argument)).map_or(0, |at| at + 1);
        Call { outer: CALLED_WITH.swap(window, Relaxed) }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        CALLED_WITH.store(self.outer, Relaxed);
    }
}

/// The address by which the program knows a place in the pool, if the function that runs was called with such ones.
pub(crate) fn in_program(address: u64) -> u64 {
    let Some(window) = CALLED_WITH.load(Relaxed).checked_sub(1).map(|at| &WINDOWS[at]) else {
        return address;
    };
    let start = window.start.load(Relaxed);
    let place = address.wrapping_sub(window.pool.load(Relaxed));
    // Functions also return the end of what they were given.
    if place <= window.end.load(Relaxed).wrapping_sub(start) { start + place } else { address }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stand_for_places_in_the_pool() {
        assert!(add(0x6000_0000_0000, 0x2000, 1 << 44));
        assert_eq!(pool_address(0x6000_0000_1008), Some((1 << 44) + 0x1008));
        assert_eq!(pool_address(0x6000_0000_2000), None);
        assert_eq!(in_pool(5), 5);
        assert_eq!(in_program((1 << 44) + 8), (1 << 44) + 8, "no call");
        let call = Call::with(&[7, 0x6000_0000_1000]);
        assert_eq!(in_program((1 << 44) + 8), 0x6000_0000_0008);
        assert_eq!(in_program(0), 0);
        drop(call);
        assert_eq!(in_program((1 << 44) + 8), (1 << 44) + 8);
        remove(0x6000_0000_0000, 0x2000);
        assert_eq!(pool_address(0x6000_0000_1008), None);
    }
}
