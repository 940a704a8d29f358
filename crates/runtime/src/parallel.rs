//! Locked instructions without the checker: threads run in parallel, so atomic operations must really be atomic.
//!
//! # Safety
//!
//! The addresses are the program's, which would access them itself.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::SeqCst};

use crate::raw::{peek, poke};

/// A locked instruction on 1, 2, 4 or 8 bytes. `change` returns the new value, or `None` to store nothing.
pub(crate) unsafe fn exchange(address: u64, width: u64, change: impl Fn(u64) -> Option<u64>) -> u64 {
    // SAFETY: the program itself would access the address.
    unsafe {
        macro_rules! exchange {
            ($atomic:ident, $type:ty) => {{
                let place = $atomic::from_ptr(crate::raw::reachable(address) as *mut $type);
                let update = |old: $type| change(old.into()).map(|new| new as $type);
                let (Ok(old) | Err(old)) = place.fetch_update(SeqCst, SeqCst, update);
                old.into()
            }};
        }
        match width {
            _ if !address.is_multiple_of(width) => {
                // It may cross cache lines; only the original instruction could do that atomically.
                let old = peek(address, width);
                change(old).into_iter().for_each(|new| poke(address, width, new));
                old
            }
            1 => exchange!(AtomicU8, u8),
            2 => exchange!(AtomicU16, u16),
            4 => exchange!(AtomicU32, u32),
            _ => exchange!(AtomicU64, u64),
        }
    }
}

/// A locked instruction on 16 aligned bytes.
pub(crate) unsafe fn exchange_wide(address: u64, change: impl Fn(u128) -> Option<u128>) -> u128 {
    // SAFETY: the program itself would access the address.
    unsafe {
        let place = crate::raw::reachable(address) as *mut u128;
        // A guess; if it is wrong, the first attempt returns the actual value.
        let mut expected = 0;
        loop {
            let desired = change(expected).unwrap_or(expected);
            match compare_exchange_wide(place, expected, desired) {
                seen if seen == expected => return seen,
                seen => expected = seen,
            }
        }
    }
}

unsafe fn compare_exchange_wide(place: *mut u128, expected: u128, desired: u128) -> u128 {
    // SAFETY: the program itself would access the address.
    unsafe {
        let (mut low, mut high) = (expected as u64, (expected >> 64) as u64);
        std::arch::asm!(
            // The compiler reserves rbx.
            "xchg {new_low}, rbx",
            "lock cmpxchg16b [{place}]",
            "mov rbx, {new_low}",
            new_low = inout(reg) desired as u64 => _,
            place = in(reg) place,
            in("rcx") (desired >> 64) as u64,
            inout("rax") low,
            inout("rdx") high,
            options(nostack),
        );
        u128::from(high) << 64 | u128::from(low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_is_exchanged() {
        let mut words = [0x1111_1111_1111_1111u64; 2];
        let address = words.as_mut_ptr() as u64;
        for width in [1, 2, 4, 8] {
            // SAFETY: within the words; the second access is unaligned and crosses them.
            unsafe {
                let old = exchange(address, width, |old| Some(old + 1));
                assert_eq!(peek(address, width), old + 1);
                assert_eq!(exchange(address, width, |_| None), old + 1);
                exchange(address + 3, width, |old| Some(old ^ 1));
            }
        }
    }

    #[test]
    fn sixteen_bytes_at_once() {
        #[repr(align(16))]
        struct Wide(u128);
        let mut wide = Wide(7);
        let address = &raw mut wide as u64;
        // SAFETY: aligned, and accessible.
        unsafe {
            assert_eq!(exchange_wide(address, |old| Some(old << 100)), 7);
            assert_eq!(exchange_wide(address, |_| None), 7 << 100);
        }
        assert_eq!(wide.0, 7 << 100);
    }
}
