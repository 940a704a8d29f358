//! Memory operations that are surely nobody else's.
//!
//! The runtime's `memcpy` stands before the C library's, for itself too: what the compiler turns
//! `ptr::copy` into would come back here and be recorded again. So whatever touches PM inside the runtime
//! goes through these.

use std::arch::asm;

/// Copies; the ranges may overlap.
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) {
    let overlaps_from_below = (from as usize) < to as usize && (to as usize) < from as usize + bytes;
    if overlaps_from_below {
        asm!("std", "rep movsb", "cld",
            inout("rdi") to.wrapping_add(bytes).wrapping_sub(1) => _,
            inout("rsi") from.wrapping_add(bytes).wrapping_sub(1) => _,
            inout("rcx") bytes => _);
    } else {
        asm!("rep movsb",
            inout("rdi") to => _, inout("rsi") from => _, inout("rcx") bytes => _,
            options(nostack, preserves_flags));
    }
}

/// Sets every byte.
pub(crate) unsafe fn fill(to: *mut u8, byte: u8, bytes: usize) {
    asm!("rep stosb",
        inout("rdi") to => _, in("al") byte, inout("rcx") bytes => _,
        options(nostack, preserves_flags));
}

/// Reads up to eight bytes as a number.
#[inline(always)]
pub(crate) unsafe fn peek_odd(address: *const u8, width: u64) -> u64 {
    let mut value = 0;
    for at in 0..width {
        value |= u64::from(address.add(at as usize).read_volatile()) << (8 * at);
    }
    value
}

/// Writes up to eight bytes of a number.
#[inline(always)]
pub(crate) unsafe fn poke_odd(address: *mut u8, width: u64, value: u64) {
    for at in 0..width {
        address.add(at as usize).write_volatile((value >> (8 * at)) as u8);
    }
}

/// Length of a string.
pub(crate) unsafe fn length(text: *const u8) -> usize {
    let mut length = 0;
    while text.add(length).read_volatile() != 0 {
        length += 1;
    }
    length
}

/// Length of a string that may end without a zero after `most` bytes.
pub(crate) unsafe fn length_within(text: *const u8, most: usize) -> usize {
    let mut length = 0;
    while length < most && text.add(length).read_volatile() != 0 {
        length += 1;
    }
    length
}
