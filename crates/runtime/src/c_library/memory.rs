//! Memory blocks, and the primitives the other families use where memory may be PM: read, write, copy, scan.
//!
//! # Safety
//!
//! Every function requires pointers that the program vouches for, as it would to the C library.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

use crashproof_protocol::abi::{Site, is_pm};
use crashproof_protocol::{VERIFIED_BYTES, record};
use px86::Kind;

use crate::interpose::interpose;
use crate::raw::{self, byte_at};
use crate::recorder::note;
use crate::shadow::{bracket_begins, bracket_ends};
use crate::text::{find_by_words, merge_order};
use crate::{access, callers, fixed, session, text};

type Order = unsafe extern "C" fn(*const c_void, *const c_void) -> c_int;
type OrderWith = unsafe extern "C" fn(*const c_void, *const c_void, *mut c_void) -> c_int;

/// Makes a range ready for reading, if it is in PM.
pub(crate) unsafe fn readable<T>(start: *const T, bytes: usize, site: *const Site) {
    let start = fixed::in_pool(start as u64) as *const T;
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        if is_pm(start as u64) {
            access::before_read_range(start as u64, bytes as u64, site);
        }
    }
}

/// Writes, with stores if the destination is PM; the source must be ready for reading.
pub(crate) unsafe fn write<T, U>(to: *mut T, from: *const U, bytes: usize, site: *const Site) {
    let to = fixed::in_pool(to as u64) as *mut T;
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        if is_pm(to as u64) {
            access::store_range(Kind::Store, to as u64, from.cast(), bytes as u64, site);
        } else {
            raw::copy(to.cast(), from.cast(), bytes);
        }
    }
}

/// Copies between any kinds of memory.
pub(crate) unsafe fn copy<T, U>(to: *mut T, from: *const U, bytes: usize, site: *const Site) {
    let (to, from) = (fixed::in_pool(to as u64) as *mut T, fixed::in_pool(from as u64) as *const U);
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let verified = bytes >= VERIFIED_BYTES
            && is_pm(from as u64)
            && !is_pm(to as u64)
            && session::recovering()
            && callers::verifies(site);
        if verified {
            note(record::CHECKSUM_BEGIN, 0, 0, site);
            bracket_begins();
        }
        readable(from, bytes, site);
        if verified {
            // Whether it matches shows later: the program reads again whatever it trusts.
            note(record::CHECKSUM_END, 0, 0, site);
            bracket_ends(false);
        }
        write(to, from, bytes, site);
    }
}

/// Fills memory of any kind.
pub(crate) unsafe fn fill<T>(to: *mut T, byte: c_int, bytes: usize, site: *const Site) {
    let to = fixed::in_pool(to as u64) as *mut T;
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        if is_pm(to as u64) {
            access::fill(to as u64, byte as u8, bytes as u64, site);
        } else {
            raw::fill(to.cast(), byte as u8, bytes);
        }
    }
}

/// Finds the first position at which `stop` returns true, word by word and in several ranges in parallel; `None` if
/// there is none below `limit`. Everything up to that position is then ready for reading.
pub(crate) unsafe fn scan<const N: usize>(
    starts: [*const c_char; N],
    limit: usize,
    site: *const Site,
    stop: impl Fn(usize) -> bool,
) -> Option<usize> {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let aligned = starts.into_iter().find(|&start| is_pm(start as u64)).unwrap_or(starts[0]) as usize;
        let ready =
            |at, bytes| starts.into_iter().for_each(|start| readable(start.wrapping_add(at), bytes, site));
        find_by_words(aligned, limit, ready, stop)
    }
}

/// The length of a string, which is then ready for reading including its terminator.
pub(crate) unsafe fn text_length(text: *const c_char, site: *const Site) -> usize {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe { text_length_within(text, usize::MAX, site) }
}

/// The length of a string, at most `limit`; it is then ready for reading.
pub(crate) unsafe fn text_length_within(text: *const c_char, limit: usize, site: *const Site) -> usize {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe { scan([text], limit, site, |at| byte_at(text, at) == 0).unwrap_or(limit) }
}

/// Makes ready for reading the bytes that decide the order of two ranges.
pub(crate) unsafe fn compare<T>(
    one: *const T,
    other: *const T,
    limit: usize,
    site: *const Site,
    same: impl Fn(u8, u8) -> bool,
) {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        scan([one.cast(), other.cast()], limit, site, |at| !same(byte_at(one, at), byte_at(other, at)));
    }
}

/// Makes a range ready for reading up to the end of the first match of a needle; text ends in zero.
pub(crate) unsafe fn search(
    hay: *const c_char,
    limit: Option<usize>,
    needle: *const c_char,
    length: usize,
    site: *const Site,
    same: impl Fn(u8, u8) -> bool,
) {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let (hay_at, needle_at) = (|at| byte_at(hay, at), |at| byte_at(needle, at));
        scan([hay], limit.unwrap_or(usize::MAX), site, |at| {
            text::ends_with(at, hay_at, needle_at, length, &same) || limit.is_none() && hay_at(at) == 0
        });
    }
}

/// Sorts elements in PM: determines the order without moving any, then stores those that move.
unsafe fn sort(
    start: *mut u8,
    count: usize,
    size: usize,
    site: *const Site,
    in_order: impl Fn(*const c_void, *const c_void) -> bool,
) {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let element = |index: usize| -> *const c_void { start.add(index * size).cast() };
        let order = merge_order(count, |one, other| in_order(element(one), element(other)));
        readable(start, count * size, site);
        let mut before = vec![0u8; count * size];
        raw::copy(before.as_mut_ptr(), start, count * size);
        for (to, from) in order.into_iter().enumerate().filter(|(to, from)| to != from) {
            write(start.add(to * size), before.as_ptr().add(from * size), size, site);
        }
    }
}

interpose! {
    fn bcopy(from: *const c_void, to: *mut c_void, bytes: usize),
        pm(from = "rdi", to = "rsi"), caller(rcx)
    |site| { copy(to, from, bytes, site) }

    fn memccpy(to: *mut c_void, from: *const c_void, byte: c_int, bytes: usize) -> *mut c_void,
        pm(to = "rdi", from = "rsi"), caller(r8)
    |site| {
        let found = scan([from.cast()], bytes, site, |at| byte_at(from, at) == byte as u8);
        let copied = found.map_or(bytes, |at| at + 1);
        write(to, from, copied, site);
        if found.is_some() { to.add(copied) } else { null_mut() }
    }

    fn memset(to: *mut c_void, byte: c_int, bytes: usize) -> *mut c_void,
        pm(to = "rdi"), caller(rcx)
    |site| { fill(to, byte, bytes, site); to }

    fn memchr(start: *const c_void, byte: c_int, bytes: usize) -> *mut c_void,
        pm(start = "rdi"), caller(rcx)
    |site| {
        scan([start.cast()], bytes, site, |at| byte_at(start, at) == byte as u8);
        real(start, byte, bytes)
    }

    fn memrchr(start: *const c_void, byte: c_int, bytes: usize) -> *mut c_void,
        pm(start = "rdi"), caller(rcx)
    |site| {
        readable(start, bytes, site);
        real(start, byte, bytes)
    }

    fn rawmemchr(start: *const c_void, byte: c_int) -> *mut c_void, pm(start = "rdi"), caller(rdx)
    |site| {
        scan([start.cast()], usize::MAX, site, |at| byte_at(start, at) == byte as u8);
        real(start, byte)
    }

    fn memmem(hay: *const c_void, bytes: usize, needle: *const c_void, length: usize) -> *mut c_void,
        pm(hay = "rdi", needle = "rdx"), caller(r8)
    |site| {
        readable(needle, length, site);
        search(hay.cast(), Some(bytes), needle.cast(), length, site, |one, other| one == other);
        real(hay, bytes, needle, length)
    }

    fn qsort(start: *mut c_void, count: usize, size: usize, order: Order),
        pm(start = "rdi"), caller(r8)
    |site| { sort(start.cast(), count, size, site, |one, other| order(one, other) <= 0) }

    fn qsort_r(start: *mut c_void, count: usize, size: usize, order: OrderWith, with: *mut c_void),
        pm(start = "rdi"), caller(r9)
    |site| { sort(start.cast(), count, size, site, |one, other| order(one, other, with) <= 0) }

    fn __mempcpy_chk(to: *mut c_void, from: *const c_void, bytes: usize, room: usize) -> *mut c_void,
        pm(to = "rdi", from = "rsi"), caller(r8)
    |site| { if bytes > room { return real(to, from, bytes, room); } copy(to, from, bytes, site); to.add(bytes) }

    fn __memset_chk(to: *mut c_void, byte: c_int, bytes: usize, room: usize) -> *mut c_void,
        pm(to = "rdi"), caller(r8)
    |site| { if bytes > room { return real(to, byte, bytes, room); } fill(to, byte, bytes, site); to }

    fn __explicit_bzero_chk(to: *mut c_void, bytes: usize, room: usize), pm(to = "rdi"), caller(rcx)
    |site| { if bytes > room { return real(to, bytes, room); } fill(to, 0, bytes, site) }
}

interpose! { [memcpy memmove] {
    (to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void,
        pm(to = "rdi", from = "rsi"), caller(rcx)
    |site| { copy(to, from, bytes, site); to }
} }

interpose! { [mempcpy __mempcpy] {
    (to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void,
        pm(to = "rdi", from = "rsi"), caller(rcx)
    |site| { copy(to, from, bytes, site); to.add(bytes) }
} }

interpose! { [bzero explicit_bzero] {
    (to: *mut c_void, bytes: usize), pm(to = "rdi"), caller(rdx)
    |site| { fill(to, 0, bytes, site) }
} }

interpose! { [memcmp bcmp] {
    (one: *const c_void, other: *const c_void, bytes: usize) -> c_int,
        pm(one = "rdi", other = "rsi"), caller(rcx)
    |site| {
        compare(one, other, bytes, site, |one, other| one == other);
        real(one, other, bytes)
    }
} }

interpose! { [__memcpy_chk __memmove_chk] {
    (to: *mut c_void, from: *const c_void, bytes: usize, room: usize) -> *mut c_void,
        pm(to = "rdi", from = "rsi"), caller(r8)
    |site| { if bytes > room { return real(to, from, bytes, room); } copy(to, from, bytes, site); to }
} }
