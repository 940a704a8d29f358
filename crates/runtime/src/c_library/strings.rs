//! Strings, and parsing numbers. Wide strings are in `wide`; `strtold` is not interposed.
//!
//! # Safety
//!
//! Every function requires pointers that the program vouches for, as it would to the C library.

use std::ffi::{c_char, c_double, c_float, c_int, c_long};
use std::ptr::null_mut;

use crashproof_protocol::abi::{Site, is_pm};

use super::heap;
use super::memory::{compare, fill, readable, scan, search, text_length, text_length_within, write};
use crate::cell::RunningThreadCell;
use crate::fixed;
use crate::interpose::{interpose, replace};
use crate::raw::{self, byte_at};
use crate::real::Real;
use crate::text::{continues_number, same_byte, same_letter};

type Text = *const c_char;

/// Makes a string ready for reading up to the first `byte` in it, or to its end.
unsafe fn text_until(text: Text, byte: c_int, site: *const Site) {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe { scan([text], usize::MAX, site, |at| [0, byte as u8].contains(&byte_at(text, at))) };
}

/// The first byte of a string that is (`inside`) or is not in the set, or its end; string and set are then ready for
/// reading.
unsafe fn span(text: Text, set: Text, inside: bool, site: *const Site) -> usize {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let length = text_length(set, site);
        scan([text], usize::MAX, site, |at| {
            let byte = byte_at(text, at);
            byte == 0 || (0..length).any(|member| byte_at(set, member) == byte) != inside
        })
        .unwrap_or(0)
    }
}

unsafe fn duplicate(text: Text, length: usize, site: *const Site) -> *mut c_char {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let fresh: *mut c_char = heap::allocate_for(site, length + 1).cast();
        if !fresh.is_null() {
            write(fresh, text, length, site);
            fill(fresh.add(length), 0, 1, site);
        }
        fresh
    }
}

/// The next token from `*rest`; its end is overwritten with a zero.
unsafe fn token(
    text: *mut c_char,
    delimiters: Text,
    rest: *mut *mut c_char,
    site: *const Site,
) -> *mut c_char {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let from = if text.is_null() { *rest } else { text };
        if from.is_null() {
            return null_mut();
        }
        let start = from.add(span(from, delimiters, true, site));
        if byte_at(start, 0) == 0 {
            *rest = start;
            return null_mut();
        }
        let end = start.add(span(start, delimiters, false, site));
        *rest = end;
        if byte_at(end, 0) != 0 {
            fill(end, 0, 1, site);
            *rest = end.add(1);
        }
        start
    }
}

/// `strncpy`; returns the length of the copied text.
unsafe fn copy_padded(to: *mut c_char, from: Text, bytes: usize, site: *const Site) -> usize {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let length = text_length_within(from, bytes, site);
        write(to, from, length, site);
        fill(to.add(length), 0, bytes - length, site);
        length
    }
}

unsafe fn append(to: *mut c_char, from: Text, most: usize, site: *const Site) {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let end = to.add(text_length(to, site));
        let length = text_length_within(from, most, site);
        write(end, from, length, site);
        fill(end.add(length), 0, 1, site);
    }
}

unsafe fn decimal(text: Text, end: *mut *mut c_char) -> c_long {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        static STRTOL: Real = Real::new("strtol\0", None);
        let parse: unsafe extern "C" fn(Text, *mut *mut c_char, c_int) -> c_long =
            std::mem::transmute(STRTOL.get());
        parse(text, end, 10)
    }
}

unsafe fn fraction(text: Text, end: *mut *mut c_char) -> c_double {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        static STRTOD: Real = Real::new("strtod\0", None);
        let parse: unsafe extern "C" fn(Text, *mut *mut c_char) -> c_double =
            std::mem::transmute(STRTOD.get());
        parse(text, end)
    }
}

/// Parses a number with `parse`, which writes where it stopped.
unsafe fn number<T>(
    text: Text,
    end: *mut *mut c_char,
    site: *const Site,
    parse: impl Fn(*mut *mut c_char) -> T,
) -> T {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let mut ended = null_mut();
        scan([text], usize::MAX, site, |at| !continues_number(at, |at| byte_at(text, at)));
        let value = parse(&raw mut ended);
        ended = fixed::in_program(raw::original(ended as u64)) as *mut c_char;
        if !end.is_null() {
            write(end, &raw const ended, size_of_val(&ended), site);
        }
        value
    }
}

/// Where `strtok` continues.
static TOKEN_REST: RunningThreadCell<*mut c_char> = RunningThreadCell::new(null_mut());

interpose! {
    fn strlen(text: Text) -> usize, pm(text = "rdi"), caller(rsi)
    |site| { text_length(text, site) }

    fn strnlen(text: Text, most: usize) -> usize, pm(text = "rdi"), caller(rdx)
    |site| { text_length_within(text, most, site) }

    fn strcpy(to: *mut c_char, from: Text) -> *mut c_char, pm(to = "rdi", from = "rsi"), caller(rdx)
    |site| { let length = text_length(from, site); write(to, from, length + 1, site); to }

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

    fn strstr(hay: Text, needle: Text) -> *mut c_char, pm(hay = "rdi", needle = "rsi"), caller(rdx)
    |site| {
        let length = text_length(needle, site);
        search(hay, None, needle, length, site, same_byte);
        real(hay, needle)
    }

    fn strcasestr(hay: Text, needle: Text) -> *mut c_char, pm(hay = "rdi", needle = "rsi"), caller(rdx)
    |site| {
        let length = text_length(needle, site);
        search(hay, None, needle, length, site, same_letter);
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

    fn strtod(text: Text, end: *mut *mut c_char) -> c_double, pm(text = "rdi", end = "rsi"), caller(rdx)
    |site| { number(text, end, site, |end| real(text, end)) }

    fn strtof(text: Text, end: *mut *mut c_char) -> c_float, pm(text = "rdi", end = "rsi"), caller(rdx)
    |site| { number(text, end, site, |end| real(text, end)) }

    fn atoi(text: Text) -> c_int, pm(text = "rdi"), caller(rsi)
    |site| { number(text, null_mut(), site, |end| decimal(text, end)) as c_int }

    fn atof(text: Text) -> c_double, pm(text = "rdi"), caller(rsi)
    |site| { number(text, null_mut(), site, |end| fraction(text, end)) }

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

interpose! { [stpcpy __stpcpy] {
    (to: *mut c_char, from: Text) -> *mut c_char, pm(to = "rdi", from = "rsi"), caller(rdx)
    |site| { let length = text_length(from, site); write(to, from, length + 1, site); to.add(length) }
} }

interpose! { [strchr index strchrnul] {
    (text: Text, byte: c_int) -> *mut c_char, pm(text = "rdi"), caller(rdx)
    |site| {
        text_until(text, byte, site);
        real(text, byte)
    }
} }

interpose! { [strrchr rindex] {
    (text: Text, byte: c_int) -> *mut c_char, pm(text = "rdi"), caller(rdx)
    |site| { text_length(text, site); real(text, byte) }
} }

replace! { [strndup __strndup] {
    (text: Text, most: usize) -> *mut c_char, caller(rdx)
    |site| {
        let text = fixed::in_pool(text as u64) as Text;
        if is_pm(text as u64) || heap::is_persistent() {
            let length = text_length_within(text, most, site);
            return duplicate(text, length, site);
        }
        real(text, most)
    }
} }

replace! { [strdup __strdup] {
    (text: Text) -> *mut c_char, caller(rsi)
    |site| {
        let text = fixed::in_pool(text as u64) as Text;
        if is_pm(text as u64) || heap::is_persistent() {
            let length = text_length(text, site);
            return duplicate(text, length, site);
        }
        real(text)
    }
} }

interpose! { [strtol strtoll strtoul strtoull __isoc23_strtol __isoc23_strtoll __isoc23_strtoul __isoc23_strtoull] {
    (text: Text, end: *mut *mut c_char, base: c_int) -> c_long, pm(text = "rdi", end = "rsi"), caller(rcx)
    |site| { number(text, end, site, |end| real(text, end, base)) }
} }

interpose! { [atol atoll] {
    (text: Text) -> c_long, pm(text = "rdi"), caller(rsi)
    |site| { number(text, null_mut(), site, |end| decimal(text, end)) }
} }

// These keep their position between calls, so the arguments need not reveal that the string is in PM.
replace! {
    fn strtok(text: *mut c_char, set: Text) -> *mut c_char, caller(rdx)
    |site| {
        let mut rest = TOKEN_REST.get();
        let found = token(text, set, &raw mut rest, site);
        TOKEN_REST.set(rest);
        found
     }

    fn strsep(rest: *mut *mut c_char, set: Text) -> *mut c_char, caller(rdx)
    |site| {
        readable(rest, size_of::<Text>(), site);
        let start = *rest;
        if start.is_null() {
            return start;
        }
        let end = start.add(span(start, set, false, site));
        let last = byte_at(end, 0) == 0;
        let next = if last { null_mut() } else { end.add(1) };
        if !last {
            fill(end, 0, 1, site);
        }
        write(rest, &raw const next, size_of_val(&next), site);
        start
    }
}

replace! { [strtok_r __strtok_r] {
    (text: *mut c_char, set: Text, rest: *mut *mut c_char) -> *mut c_char, caller(rcx)
    |site| { token(text, set, rest, site) }
} }
