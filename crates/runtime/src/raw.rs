//! Memory operations that never reenter the runtime.
//!
//! The runtime interposes `memcpy`, even for itself, so the calls that the compiler generates for `ptr::copy` would be
//! recorded again. All accesses to PM inside the runtime therefore go through this module.
//!
//! # Safety
//!
//! Every function requires pointers that are valid for its reads and writes.

use std::arch::asm;

use crashproof_protocol::{ALIAS_OFFSET, POOL_BASE, POOL_BYTES};

use crate::fixed;

/// Where the runtime accesses an address: the pool at its alias, everything else in place. AddressSanitizer's shadow
/// extends into the window in front of the pool.
#[inline(always)]
pub(crate) const fn reachable(address: u64) -> u64 {
    address + if address.wrapping_sub(POOL_BASE) < POOL_BYTES { ALIAS_OFFSET } else { 0 }
}

/// The same for a pointer.
#[inline(always)]
pub(crate) fn reachable_pointer<T>(pointer: *const T) -> *const T {
    reachable(pointer as u64) as *const T
}

/// The inverse of [`reachable`].
#[inline(always)]
pub(crate) const fn original(address: u64) -> u64 {
    let place = address.wrapping_sub(POOL_BASE + ALIAS_OFFSET);
    if place < POOL_BYTES { POOL_BASE + place } else { address }
}

/// An argument or result of a real function: pointers to PM become pointers to its alias and back, everything else is
/// unchanged (method lookup tries the second trait only if the first does not apply to the type).
pub(crate) struct Argument<T>(pub(crate) T);

pub(crate) trait MovesPointer {
    type Pointer;
    fn there(&self) -> Self::Pointer;
    fn back(&self) -> Self::Pointer;
    /// The place in the pool that a pointer of the program means.
    fn in_pool(&self) -> Self::Pointer;
    /// The inverse of that, for results.
    fn in_program(&self) -> Self::Pointer;
}

impl<T> MovesPointer for Argument<*const T> {
    type Pointer = *const T;

    #[inline(always)]
    fn there(&self) -> *const T {
        reachable(fixed::in_pool(self.0 as u64)) as *const T
    }

    #[inline(always)]
    fn back(&self) -> *const T {
        original(self.0 as u64) as *const T
    }

    #[inline(always)]
    fn in_pool(&self) -> *const T {
        fixed::in_pool(self.0 as u64) as *const T
    }

    #[inline(always)]
    fn in_program(&self) -> *const T {
        fixed::in_program(self.0 as u64) as *const T
    }
}

impl<T> MovesPointer for Argument<*mut T> {
    type Pointer = *mut T;

    #[inline(always)]
    fn there(&self) -> *mut T {
        reachable(fixed::in_pool(self.0 as u64)) as *mut T
    }

    #[inline(always)]
    fn back(&self) -> *mut T {
        original(self.0 as u64) as *mut T
    }

    #[inline(always)]
    fn in_pool(&self) -> *mut T {
        fixed::in_pool(self.0 as u64) as *mut T
    }

    #[inline(always)]
    fn in_program(&self) -> *mut T {
        fixed::in_program(self.0 as u64) as *mut T
    }
}

pub(crate) trait LeavesArgument {
    type Value;
    fn there(&self) -> Self::Value;
    fn back(&self) -> Self::Value;
    fn in_program(&self) -> Self::Value;
}

impl<T: Copy> LeavesArgument for &Argument<T> {
    type Value = T;

    #[inline(always)]
    fn there(&self) -> T {
        self.0
    }

    #[inline(always)]
    fn back(&self) -> T {
        self.0
    }

    #[inline(always)]
    fn in_program(&self) -> T {
        self.0
    }
}

/// Copies; the ranges may overlap.
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) {
    let (to, from) = (reachable(to as u64) as *mut u8, reachable_pointer(from));
    let overlaps_from_below = (from as usize) < to as usize && (to as usize) < from as usize + bytes;
    if overlaps_from_below {
        // SAFETY: copies from the last byte down, within both ranges; the direction flag is cleared again.
        unsafe {
            asm!("std", "rep movsb", "cld",
                inout("rdi") to.wrapping_add(bytes).wrapping_sub(1) => _,
                inout("rsi") from.wrapping_add(bytes).wrapping_sub(1) => _,
                inout("rcx") bytes => _);
        }
    } else {
        // SAFETY: copies within both ranges.
        unsafe {
            asm!("rep movsb",
                inout("rdi") to => _, inout("rsi") from => _, inout("rcx") bytes => _,
                options(nostack, preserves_flags));
        }
    }
}

pub(crate) unsafe fn fill(to: *mut u8, byte: u8, bytes: usize) {
    let to = reachable(to as u64) as *mut u8;
    // SAFETY: stores within the range.
    unsafe {
        asm!("rep stosb",
            inout("rdi") to => _, in("al") byte, inout("rcx") bytes => _,
            options(nostack, preserves_flags));
    }
}

/// Reads a number of `width` bytes, 1 to 8.
#[inline(always)]
pub(crate) unsafe fn peek(address: u64, width: u64) -> u64 {
    // SAFETY: as for this function.
    unsafe { peek_there(reachable(address), width) }
}

/// The same for PM.
#[inline(always)]
pub(crate) unsafe fn peek_pm(address: u64, width: u64) -> u64 {
    // SAFETY: as for this function.
    unsafe { peek_there(address + ALIAS_OFFSET, width) }
}

#[inline(always)]
unsafe fn peek_there(address: u64, width: u64) -> u64 {
    // SAFETY: all of these read `width` bytes.
    unsafe {
        match width {
            8 => (address as *const u64).read_unaligned(),
            4 => u64::from((address as *const u32).read_unaligned()),
            2 => u64::from((address as *const u16).read_unaligned()),
            1 => u64::from((address as *const u8).read()),
            _ => {
                let byte = |at: u64| u64::from(((address + at) as *const u8).read_volatile());
                (0..width).fold(0, |value, at| value | byte(at) << (8 * at))
            }
        }
    }
}

/// Writes a number of `width` bytes, 1 to 8.
#[inline(always)]
pub(crate) unsafe fn poke(address: u64, width: u64, value: u64) {
    // SAFETY: as for this function.
    unsafe { poke_there(reachable(address), width, value) }
}

/// The same for PM.
#[inline(always)]
pub(crate) unsafe fn poke_pm(address: u64, width: u64, value: u64) {
    // SAFETY: as for this function.
    unsafe { poke_there(address + ALIAS_OFFSET, width, value) }
}

#[inline(always)]
unsafe fn poke_there(address: u64, width: u64, value: u64) {
    // SAFETY: all of these write `width` bytes.
    unsafe {
        match width {
            8 => (address as *mut u64).write_unaligned(value),
            4 => (address as *mut u32).write_unaligned(value as u32),
            2 => (address as *mut u16).write_unaligned(value as u16),
            1 => (address as *mut u8).write(value as u8),
            _ => (0..width)
                .for_each(|at| ((address + at) as *mut u8).write_volatile((value >> (8 * at)) as u8)),
        }
    }
}

/// A byte of any memory.
#[inline(always)]
pub(crate) unsafe fn byte_at<T>(start: *const T, at: usize) -> u8 {
    // SAFETY: the caller vouches for the byte.
    unsafe {
        let place = fixed::in_pool(start.cast::<u8>().wrapping_add(at) as u64);
        reachable_pointer(place as *const u8).read_volatile()
    }
}

/// The length of a string that may end without a zero after `limit` bytes.
pub(crate) unsafe fn length_within(text: *const u8, limit: usize) -> usize {
    let mut length = 0;
    // SAFETY: the string extends to its zero or the limit.
    while length < limit && unsafe { byte_at(text, length) } != 0 {
        length += 1;
    }
    length
}

pub(crate) unsafe fn length(text: *const u8) -> usize {
    // SAFETY: the string ends in a zero.
    unsafe { length_within(text, usize::MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_copies_are_moves() {
        for (to, from) in [(0, 3), (3, 0), (2, 2), (8, 0)] {
            let mut bytes: Vec<u8> = (0..16).collect();
            let mut expected = bytes.clone();
            expected.copy_within(from..from + 8, to);
            // SAFETY: both ranges are within the vector.
            unsafe { copy(bytes.as_mut_ptr().add(to), bytes.as_ptr().add(from), 8) };
            assert_eq!(bytes, expected);
        }
    }

    #[test]
    fn numbers_of_every_width() {
        let mut bytes = [0xaau8; 10];
        for width in 1..=8 {
            let value = 0x0807_0605_0403_0201 & (u64::MAX >> (64 - 8 * width));
            let address = bytes.as_mut_ptr() as u64 + 1;
            // SAFETY: at most nine bytes from the first on.
            unsafe {
                fill(bytes.as_mut_ptr(), 0xaa, 10);
                poke(address, width, value);
                assert_eq!(peek(address, width), value);
            }
            assert_eq!((bytes[0], bytes[width as usize + 1]), (0xaa, 0xaa));
        }
    }

    #[test]
    fn strings_end() {
        // SAFETY: the text has a zero.
        unsafe {
            assert_eq!(length(c"text".as_ptr().cast()), 4);
            assert_eq!(length_within(c"text".as_ptr().cast(), 2), 2);
        }
    }
}
