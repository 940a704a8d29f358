//! The C library's memory and string functions, on PM.
//!
//! The C library is not instrumented: what its functions read and write in PM would go unseen. These stand
//! before them. What a function writes becomes stores; what it must look at for its result counts as read.
//!
//! How far a function looks mostly depends on what it finds. It is taken to look at whole words: which
//! bytes count as read next must follow from what was read before, or the checker could not tell one
//! recovery from another. That may be up to seven bytes more than needed, which costs time at most.
//!
//! Wide-character functions are in `libc_wide`. `strtold` is not here.

use std::ffi::{c_char, c_double, c_float, c_int, c_long, c_longlong, c_ulong, c_ulonglong, c_void};
use std::ptr::null_mut;

use crashproof_protocol::abi::{Site, is_pm};
use px86::Kind;

use crate::real::{Slot, interpose, replace};
use crate::{access, raw};

type Text = *const c_char;
type Order = unsafe extern "C" fn(*const c_void, *const c_void) -> c_int;
type OrderWith = unsafe extern "C" fn(*const c_void, *const c_void, *mut c_void) -> c_int;

/// Makes a range ready for reading, if it is in PM.
pub(crate) unsafe fn readable<T>(start: *const T, bytes: usize, site: *const Site) {
    if is_pm(start as u64) {
        access::before_read_range(start as u64, bytes as u64, site);
    }
}

/// Writes, as stores if it is to PM; the source is ready for reading.
pub(crate) unsafe fn write<T, U>(to: *mut T, from: *const U, bytes: usize, site: *const Site) {
    if is_pm(to as u64) {
        access::store_range(Kind::Store, to as u64, from.cast(), bytes as u64, site);
    } else {
        raw::copy(to.cast(), from.cast(), bytes);
    }
}

/// Copies from anywhere to anywhere.
pub(crate) unsafe fn copy<T, U>(to: *mut T, from: *const U, bytes: usize, site: *const Site) {
    readable(from, bytes, site);
    write(to, from, bytes, site);
}

/// Sets every byte, anywhere.
pub(crate) unsafe fn fill<T>(to: *mut T, byte: c_int, bytes: usize, site: *const Site) {
    if is_pm(to as u64) {
        access::fill(to as u64, byte as u8, bytes as u64, site);
    } else {
        raw::fill(to.cast(), byte as u8, bytes);
    }
}

/// Looks for the first place at which `stop` says so, word by word, in several ranges alike; none if there
/// is none among the first `most`. Everything up to there is then ready for reading.
unsafe fn scan<const N: usize>(
    starts: [*const c_char; N],
    most: usize,
    site: *const Site,
    stop: impl Fn(usize) -> bool,
) -> Option<usize> {
    let aligned = starts.into_iter().find(|&start| is_pm(start as u64)).unwrap_or(starts[0]) as usize;
    let mut known = 0;
    while known < most {
        let word = (8 - aligned.wrapping_add(known) % 8).min(most - known);
        for start in starts {
            readable(start.wrapping_add(known), word, site);
        }
        if let Some(found) = (known..known + word).find(|&at| stop(at)) {
            return Some(found);
        }
        known += word;
    }
    None
}

/// A byte, wherever it is.
unsafe fn byte_at<T>(start: *const T, at: usize) -> u8 {
    start.cast::<u8>().add(at).read_volatile()
}

/// The length of a string, which is then ready for reading with its end.
pub(crate) unsafe fn text_length(text: Text, site: *const Site) -> usize {
    text_length_within(text, usize::MAX, site)
}

/// The length of a string, or `most` if that is less; ready for reading.
pub(crate) unsafe fn text_length_within(text: Text, most: usize, site: *const Site) -> usize {
    scan([text], most, site, |at| byte_at(text, at) == 0).unwrap_or(most)
}

/// Makes ready for reading what shows the order of two ranges.
unsafe fn compare<T>(
    one: *const T,
    other: *const T,
    most: usize,
    site: *const Site,
    same: impl Fn(u8, u8) -> bool,
) {
    scan([one.cast(), other.cast()], most, site, |at| !same(byte_at(one, at), byte_at(other, at)));
}

fn same_letter(one: u8, other: u8) -> bool {
    one.eq_ignore_ascii_case(&other) && one != 0
}

fn same_byte(one: u8, other: u8) -> bool {
    one == other && one != 0
}

/// Makes a string ready for reading up to the first `byte` in it, or to its end.
unsafe fn text_until(text: Text, byte: c_int, site: *const Site) {
    scan([text], usize::MAX, site, |at| [0, byte as u8].contains(&byte_at(text, at)));
}

/// Makes a range ready for reading up to the end of the first place that equals a needle.
unsafe fn search(
    hay: Text,
    most: usize,
    needle: Text,
    length: usize,
    site: *const Site,
    same: impl Fn(u8, u8) -> bool,
) {
    let matches = |at: usize| {
        at + 1 >= length && (0..length).all(|k| same(byte_at(hay, at + 1 - length + k), byte_at(needle, k)))
    };
    let is_text = most == usize::MAX;
    scan([hay], most, site, |at| matches(at) || is_text && byte_at(hay, at) == 0);
}

/// Makes ready for reading what a number at the start of a text may consist of.
unsafe fn number_text(text: Text, site: *const Site) {
    let blank = |byte: u8| byte.is_ascii_whitespace() || byte == 11;
    scan([text], usize::MAX, site, |at| {
        let byte = byte_at(text, at);
        let leading = blank(byte) && (0..at).all(|before| blank(byte_at(text, before)));
        !(leading || byte.is_ascii_alphanumeric() || b"+-._()".contains(&byte))
    });
}

/// The first byte of a string that is in the set (`inside`) or is not, or its end; and the set are ready.
unsafe fn span(text: Text, set: Text, inside: bool, site: *const Site) -> usize {
    let length = text_length(set, site);
    scan([text], usize::MAX, site, |at| {
        let byte = byte_at(text, at);
        byte == 0 || (0..length).any(|member| byte_at(set, member) == byte) != inside
    })
    .unwrap_or(0)
}

unsafe fn duplicate(text: Text, length: usize, site: *const Site) -> *mut c_char {
    let fresh: *mut c_char = libc::malloc(length + 1).cast();
    if !fresh.is_null() {
        write(fresh, text, length, site);
        fill(fresh.add(length), 0, 1, site);
    }
    fresh
}

/// The next token from `*rest` on; its end is overwritten with a zero.
unsafe fn token(
    text: *mut c_char,
    delimiters: Text,
    rest: *mut *mut c_char,
    site: *const Site,
) -> *mut c_char {
    let from = if text.is_null() { *rest } else { text };
    if from.is_null() {
        return null_mut();
    }
    let start = from.add(span(from, delimiters, true, site));
    if *start == 0 {
        *rest = start;
        return null_mut();
    }
    let end = start.add(span(start, delimiters, false, site));
    *rest = end;
    if *end != 0 {
        fill(end, 0, 1, site);
        *rest = end.add(1);
    }
    start
}

static mut TOKEN_REST: *mut c_char = null_mut();

interpose! {
    fn memcpy(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void,
        pm(to = "rdi", from = "rsi"), caller(rcx)
    |site| { copy(to, from, bytes, site); to }

    fn memmove(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void,
        pm(to = "rdi", from = "rsi"), caller(rcx)
    |site| { copy(to, from, bytes, site); to }

    fn mempcpy(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void,
        pm(to = "rdi", from = "rsi"), caller(rcx)
    |site| { copy(to, from, bytes, site); to.add(bytes) }

    fn __mempcpy(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void,
        pm(to = "rdi", from = "rsi"), caller(rcx)
    |site| { copy(to, from, bytes, site); to.add(bytes) }

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

    fn bzero(to: *mut c_void, bytes: usize), pm(to = "rdi"), caller(rdx)
    |site| { fill(to, 0, bytes, site) }

    fn explicit_bzero(to: *mut c_void, bytes: usize), pm(to = "rdi"), caller(rdx)
    |site| { fill(to, 0, bytes, site) }

    fn memcmp(one: *const c_void, other: *const c_void, bytes: usize) -> c_int,
        pm(one = "rdi", other = "rsi"), caller(rcx)
    |site| {
        compare(one, other, bytes, site, |one, other| one == other);
        real(one, other, bytes)
    }

    fn bcmp(one: *const c_void, other: *const c_void, bytes: usize) -> c_int,
        pm(one = "rdi", other = "rsi"), caller(rcx)
    |site| {
        compare(one, other, bytes, site, |one, other| one == other);
        real(one, other, bytes)
    }

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
        search(hay.cast(), bytes, needle.cast(), length, site, |one, other| one == other);
        real(hay, bytes, needle, length)
    }

    fn strlen(text: Text) -> usize, pm(text = "rdi"), caller(rsi)
    |site| { text_length(text, site) }

    fn strnlen(text: Text, most: usize) -> usize, pm(text = "rdi"), caller(rdx)
    |site| { text_length_within(text, most, site) }

    fn strcpy(to: *mut c_char, from: Text) -> *mut c_char, pm(to = "rdi", from = "rsi"), caller(rdx)
    |site| { let length = text_length(from, site); write(to, from, length + 1, site); to }

    fn stpcpy(to: *mut c_char, from: Text) -> *mut c_char, pm(to = "rdi", from = "rsi"), caller(rdx)
    |site| { let length = text_length(from, site); write(to, from, length + 1, site); to.add(length) }

    fn __stpcpy(to: *mut c_char, from: Text) -> *mut c_char, pm(to = "rdi", from = "rsi"), caller(rdx)
    |site| { let length = text_length(from, site); write(to, from, length + 1, site); to.add(length) }

    fn strncpy(to: *mut c_char, from: Text, bytes: usize) -> *mut c_char,
        pm(to = "rdi", from = "rsi"), caller(rcx)
    |site| { copy_padded(to, from, bytes, site); to }

    fn stpncpy(to: *mut c_char, from: Text, bytes: usize) -> *mut c_char,
        pm(to = "rdi", from = "rsi"), caller(rcx)
    |site| { to.add(copy_padded(to, from, bytes, site)) }

    fn strcat(to: *mut c_char, from: Text) -> *mut c_char, pm(to = "rdi", from = "rsi"), caller(rdx)
    |site| { append(to, from, usize::MAX, site); to }

    fn strncat(to: *mut c_char, from: Text, most: usize) -> *mut c_char,
        pm(to = "rdi", from = "rsi"), caller(rcx)
    |site| { append(to, from, most, site); to }

    fn strcmp(one: Text, other: Text) -> c_int, pm(one = "rdi", other = "rsi"), caller(rdx)
    |site| {
        compare(one, other, usize::MAX, site, same_byte);
        real(one, other)
    }

    fn strncmp(one: Text, other: Text, most: usize) -> c_int,
        pm(one = "rdi", other = "rsi"), caller(rcx)
    |site| {
        compare(one, other, most, site, same_byte);
        real(one, other, most)
    }

    fn strcasecmp(one: Text, other: Text) -> c_int, pm(one = "rdi", other = "rsi"), caller(rdx)
    |site| {
        compare(one, other, usize::MAX, site, same_letter);
        real(one, other)
    }

    fn strncasecmp(one: Text, other: Text, most: usize) -> c_int,
        pm(one = "rdi", other = "rsi"), caller(rcx)
    |site| {
        compare(one, other, most, site, same_letter);
        real(one, other, most)
    }

    fn strcoll(one: Text, other: Text) -> c_int, pm(one = "rdi", other = "rsi"), caller(rdx)
    |site| { text_length(one, site); text_length(other, site); real(one, other) }

    fn strchr(text: Text, byte: c_int) -> *mut c_char, pm(text = "rdi"), caller(rdx)
    |site| {
        text_until(text, byte, site);
        real(text, byte)
    }

    fn index(text: Text, byte: c_int) -> *mut c_char, pm(text = "rdi"), caller(rdx)
    |site| {
        text_until(text, byte, site);
        real(text, byte)
    }

    fn strchrnul(text: Text, byte: c_int) -> *mut c_char, pm(text = "rdi"), caller(rdx)
    |site| {
        text_until(text, byte, site);
        real(text, byte)
    }

    fn strrchr(text: Text, byte: c_int) -> *mut c_char, pm(text = "rdi"), caller(rdx)
    |site| { text_length(text, site); real(text, byte) }

    fn rindex(text: Text, byte: c_int) -> *mut c_char, pm(text = "rdi"), caller(rdx)
    |site| { text_length(text, site); real(text, byte) }

    fn strstr(hay: Text, needle: Text) -> *mut c_char, pm(hay = "rdi", needle = "rsi"), caller(rdx)
    |site| {
        let length = text_length(needle, site);
        search(hay, usize::MAX, needle, length, site, same_byte);
        real(hay, needle)
    }

    fn strcasestr(hay: Text, needle: Text) -> *mut c_char, pm(hay = "rdi", needle = "rsi"), caller(rdx)
    |site| {
        let length = text_length(needle, site);
        search(hay, usize::MAX, needle, length, site, same_letter);
        real(hay, needle)
    }

    fn strspn(text: Text, set: Text) -> usize, pm(text = "rdi", set = "rsi"), caller(rdx)
    |site| { span(text, set, true, site) }

    fn strcspn(text: Text, set: Text) -> usize, pm(text = "rdi", set = "rsi"), caller(rdx)
    |site| { span(text, set, false, site) }

    fn strpbrk(text: Text, set: Text) -> *mut c_char, pm(text = "rdi", set = "rsi"), caller(rdx)
    |site| {
        span(text, set, false, site);
        real(text, set)
    }

    fn strdup(text: Text) -> *mut c_char, pm(text = "rdi"), caller(rsi)
    |site| { let length = text_length(text, site); duplicate(text, length, site) }

    fn __strdup(text: Text) -> *mut c_char, pm(text = "rdi"), caller(rsi)
    |site| { let length = text_length(text, site); duplicate(text, length, site) }

    fn strndup(text: Text, most: usize) -> *mut c_char, pm(text = "rdi"), caller(rdx)
    |site| { let length = text_length_within(text, most, site); duplicate(text, length, site) }

    fn strtol(text: Text, end: *mut *mut c_char, base: c_int) -> c_long, pm(text = "rdi", end = "rsi"), caller(rcx)
    |site| { number(text, end, site, |end| real(text, end, base)) }

    fn strtoll(text: Text, end: *mut *mut c_char, base: c_int) -> c_longlong, pm(text = "rdi", end = "rsi"), caller(rcx)
    |site| { number(text, end, site, |end| real(text, end, base)) }

    fn strtoul(text: Text, end: *mut *mut c_char, base: c_int) -> c_ulong, pm(text = "rdi", end = "rsi"), caller(rcx)
    |site| { number(text, end, site, |end| real(text, end, base)) }

    fn strtoull(text: Text, end: *mut *mut c_char, base: c_int) -> c_ulonglong, pm(text = "rdi", end = "rsi"), caller(rcx)
    |site| { number(text, end, site, |end| real(text, end, base)) }

    // What <stdlib.h> of C23 calls them.
    fn __isoc23_strtol(text: Text, end: *mut *mut c_char, base: c_int) -> c_long, pm(text = "rdi", end = "rsi"), caller(rcx)
    |site| { number(text, end, site, |end| real(text, end, base)) }

    fn __isoc23_strtoll(text: Text, end: *mut *mut c_char, base: c_int) -> c_longlong, pm(text = "rdi", end = "rsi"), caller(rcx)
    |site| { number(text, end, site, |end| real(text, end, base)) }

    fn __isoc23_strtoul(text: Text, end: *mut *mut c_char, base: c_int) -> c_ulong, pm(text = "rdi", end = "rsi"), caller(rcx)
    |site| { number(text, end, site, |end| real(text, end, base)) }

    fn __isoc23_strtoull(text: Text, end: *mut *mut c_char, base: c_int) -> c_ulonglong, pm(text = "rdi", end = "rsi"), caller(rcx)
    |site| { number(text, end, site, |end| real(text, end, base)) }

    fn strtod(text: Text, end: *mut *mut c_char) -> c_double, pm(text = "rdi", end = "rsi"), caller(rdx)
    |site| { number(text, end, site, |end| real(text, end)) }

    fn strtof(text: Text, end: *mut *mut c_char) -> c_float, pm(text = "rdi", end = "rsi"), caller(rdx)
    |site| { number(text, end, site, |end| real(text, end)) }

    fn atoi(text: Text) -> c_int, pm(text = "rdi"), caller(rsi)
    |site| { number(text, null_mut(), site, |end| decimal(text, end)) as c_int }

    fn atol(text: Text) -> c_long, pm(text = "rdi"), caller(rsi)
    |site| { number(text, null_mut(), site, |end| decimal(text, end)) }

    fn atoll(text: Text) -> c_longlong, pm(text = "rdi"), caller(rsi)
    |site| { number(text, null_mut(), site, |end| decimal(text, end)) }

    fn atof(text: Text) -> c_double, pm(text = "rdi"), caller(rsi)
    |site| { number(text, null_mut(), site, |end| fraction(text, end)) }

    fn qsort(start: *mut c_void, count: usize, size: usize, order: Order),
        pm(start = "rdi"), caller(r8)
    |site| { sort(start.cast(), count, size, site, |one, other| order(one, other) <= 0) }

    fn qsort_r(start: *mut c_void, count: usize, size: usize, order: OrderWith, with: *mut c_void),
        pm(start = "rdi"), caller(r9)
    |site| { sort(start.cast(), count, size, site, |one, other| order(one, other, with) <= 0) }

    // What the compiler calls where _FORTIFY_SOURCE knows the room there is.
    fn __memcpy_chk(to: *mut c_void, from: *const c_void, bytes: usize, room: usize) -> *mut c_void,
        pm(to = "rdi", from = "rsi"), caller(r8)
    |site| { if bytes > room { return real(to, from, bytes, room); } copy(to, from, bytes, site); to }

    fn __memmove_chk(to: *mut c_void, from: *const c_void, bytes: usize, room: usize) -> *mut c_void,
        pm(to = "rdi", from = "rsi"), caller(r8)
    |site| { if bytes > room { return real(to, from, bytes, room); } copy(to, from, bytes, site); to }

    fn __mempcpy_chk(to: *mut c_void, from: *const c_void, bytes: usize, room: usize) -> *mut c_void,
        pm(to = "rdi", from = "rsi"), caller(r8)
    |site| { if bytes > room { return real(to, from, bytes, room); } copy(to, from, bytes, site); to.add(bytes) }

    fn __memset_chk(to: *mut c_void, byte: c_int, bytes: usize, room: usize) -> *mut c_void,
        pm(to = "rdi"), caller(r8)
    |site| { if bytes > room { return real(to, byte, bytes, room); } fill(to, byte, bytes, site); to }

    fn __explicit_bzero_chk(to: *mut c_void, bytes: usize, room: usize), pm(to = "rdi"), caller(rcx)
    |site| { if bytes > room { return real(to, bytes, room); } fill(to, 0, bytes, site) }

    fn __strcpy_chk(to: *mut c_char, from: Text, room: usize) -> *mut c_char,
        pm(to = "rdi", from = "rsi"), caller(rcx)
    |site| {
        let length = text_length(from, site);
        if length >= room { return real(to, from, room); }
        write(to, from, length + 1, site);
        to
    }

    fn __stpcpy_chk(to: *mut c_char, from: Text, room: usize) -> *mut c_char,
        pm(to = "rdi", from = "rsi"), caller(rcx)
    |site| {
        let length = text_length(from, site);
        if length >= room { return real(to, from, room); }
        write(to, from, length + 1, site);
        to.add(length)
    }

    fn __strncpy_chk(to: *mut c_char, from: Text, bytes: usize, room: usize) -> *mut c_char,
        pm(to = "rdi", from = "rsi"), caller(r8)
    |site| { if bytes > room { return real(to, from, bytes, room); } copy_padded(to, from, bytes, site); to }

    fn __stpncpy_chk(to: *mut c_char, from: Text, bytes: usize, room: usize) -> *mut c_char,
        pm(to = "rdi", from = "rsi"), caller(r8)
    |site| {
        if bytes > room { return real(to, from, bytes, room); }
        to.add(copy_padded(to, from, bytes, site))
    }

    fn __strcat_chk(to: *mut c_char, from: Text, room: usize) -> *mut c_char,
        pm(to = "rdi", from = "rsi"), caller(rcx)
    |site| {
        if raw::length(to.cast()) + raw::length(from.cast()) >= room { return real(to, from, room); }
        append(to, from, usize::MAX, site);
        to
    }

    fn __strncat_chk(to: *mut c_char, from: Text, most: usize, room: usize) -> *mut c_char,
        pm(to = "rdi", from = "rsi"), caller(r8)
    |site| {
        if raw::length(to.cast()) + raw::length_within(from.cast(), most) >= room {
            return real(to, from, most, room);
        }
        append(to, from, most, site);
        to
    }
}

// These keep their place in a string between calls: the arguments need not tell that it is in PM.
replace! {
    fn strtok_r(text: *mut c_char, set: Text, rest: *mut *mut c_char) -> *mut c_char, caller(rcx)
    |site| { token(text, set, rest, site) }

    fn __strtok_r(text: *mut c_char, set: Text, rest: *mut *mut c_char) -> *mut c_char, caller(rcx)
    |site| { token(text, set, rest, site) }

    fn strtok(text: *mut c_char, set: Text) -> *mut c_char, caller(rdx)
    |site| { token(text, set, &raw mut TOKEN_REST, site) }

    fn strsep(rest: *mut *mut c_char, set: Text) -> *mut c_char, caller(rdx)
    |site| {
        readable(rest, size_of::<Text>(), site);
        let start = *rest;
        if start.is_null() {
            return start;
        }
        let end = start.add(span(start, set, false, site));
        let next = if *end == 0 { null_mut() } else { end.add(1) };
        if *end != 0 {
            fill(end, 0, 1, site);
        }
        write(rest, &raw const next, size_of_val(&next), site);
        start
    }
}

/// `strncpy`; returns how far the text went.
unsafe fn copy_padded(to: *mut c_char, from: Text, bytes: usize, site: *const Site) -> usize {
    let length = text_length_within(from, bytes, site);
    write(to, from, length, site);
    fill(to.add(length), 0, bytes - length, site);
    length
}

unsafe fn append(to: *mut c_char, from: Text, most: usize, site: *const Site) {
    let end = to.add(text_length(to, site));
    let length = text_length_within(from, most, site);
    write(end, from, length, site);
    fill(end.add(length), 0, 1, site);
}

unsafe fn decimal(text: Text, end: *mut *mut c_char) -> c_long {
    static STRTOL: Slot = Slot::new("strtol\0");
    let parse: unsafe extern "C" fn(Text, *mut *mut c_char, c_int) -> c_long =
        std::mem::transmute(STRTOL.get());
    parse(text, end, 10)
}

unsafe fn fraction(text: Text, end: *mut *mut c_char) -> c_double {
    static STRTOD: Slot = Slot::new("strtod\0");
    let parse: unsafe extern "C" fn(Text, *mut *mut c_char) -> c_double = std::mem::transmute(STRTOD.get());
    parse(text, end)
}

/// Reads a number from a text with `parse`, which writes where it ended.
unsafe fn number<T>(
    text: Text,
    end: *mut *mut c_char,
    site: *const Site,
    parse: impl Fn(*mut *mut c_char) -> T,
) -> T {
    let mut ended = null_mut();
    number_text(text, site);
    let value = parse(&raw mut ended);
    if !end.is_null() {
        write(end, &raw const ended, size_of_val(&ended), site);
    }
    value
}

/// Sorts elements in PM: finds their order first, which moves none, then stores those that move.
///
/// Merging is stable and its comparisons do not depend on chance. The order may contradict itself, as it
/// can after a crash; then the result is some permutation.
unsafe fn sort(
    start: *mut u8,
    count: usize,
    size: usize,
    site: *const Site,
    in_order: impl Fn(*const c_void, *const c_void) -> bool,
) {
    let element = |index: usize| -> *const c_void { start.add(index * size).cast() };
    let mut order: Vec<usize> = (0..count).collect();
    let mut merged = Vec::with_capacity(count);
    let mut run = 1;
    while run < count {
        merged.clear();
        for pair in order.chunks(2 * run) {
            let (mut left, mut right) = pair.split_at(run.min(pair.len()));
            while let ([one, ..], [other, ..]) = (left, right) {
                let from = if in_order(element(*one), element(*other)) { &mut left } else { &mut right };
                merged.push(from[0]);
                *from = &from[1..];
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(&mut order, &mut merged);
        run *= 2;
    }
    readable(start, count * size, site);
    let mut before = vec![0u8; count * size];
    raw::copy(before.as_mut_ptr(), start, count * size);
    for (to, from) in order.into_iter().enumerate().filter(|(to, from)| to != from) {
        write(start.add(to * size), before.as_ptr().add(from * size), size, site);
    }
}
