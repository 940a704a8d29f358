//! Wide strings; see `memory`.
//!
//! # Safety
//!
//! Every function requires pointers that the program vouches for, as it would to the C library.

use std::ffi::{c_double, c_int, c_long};
use std::ptr::null_mut;

use crashproof_protocol::abi::Site;

use super::heap;
use super::memory::{copy, readable, write};
use crate::interpose::interpose;
use crate::{fixed, raw};

type Wide = libc::wchar_t;
type Text = *const Wide;

const WIDTH: usize = size_of::<Wide>();

unsafe fn at(text: Text, index: usize) -> Wide {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe { text.add(index).read_volatile() }
}

/// The first character at which `stop` returns true, or `most` if there is none before; everything up to there is then
/// ready for reading.
unsafe fn scan(text: Text, most: usize, site: *const Site, stop: impl Fn(Wide) -> bool) -> usize {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let mut index = 0;
        while index < most {
            readable(text.wrapping_add(index), WIDTH, site);
            if stop(at(text, index)) {
                return index;
            }
            index += 1;
        }
        most
    }
}

/// The length of a string, which is then ready for reading including its terminator.
unsafe fn length(text: Text, site: *const Site) -> usize {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe { scan(text, usize::MAX, site, |character| character == 0) }
}

unsafe fn length_within(text: Text, most: usize, site: *const Site) -> usize {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe { scan(text, most, site, |character| character == 0) }
}

unsafe fn fill(to: *mut Wide, character: Wide, count: usize, site: *const Site) {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        for index in 0..count {
            write(to.add(index), &raw const character, WIDTH, site);
        }
    }
}

/// Makes ready for reading the characters that decide the order of two ranges.
unsafe fn compare(one: Text, other: Text, most: usize, ends_at_zero: bool, site: *const Site) {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        for index in 0..most {
            readable(one.wrapping_add(index), WIDTH, site);
            readable(other.wrapping_add(index), WIDTH, site);
            if at(one, index) != at(other, index) || ends_at_zero && at(one, index) == 0 {
                return;
            }
        }
    }
}

/// Copies at most `most` characters of a string and pads with zeros; returns the number of non-zero ones.
unsafe fn copy_padded(to: *mut Wide, from: Text, most: usize, site: *const Site) -> usize {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let count = length_within(from, most, site);
        write(to, from, count * WIDTH, site);
        fill(to.add(count), 0, most - count, site);
        count
    }
}

unsafe fn append(to: *mut Wide, from: Text, most: usize, site: *const Site) {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let end = to.add(length(to, site));
        let count = length_within(from, most, site);
        write(end, from, count * WIDTH, site);
        fill(end.add(count), 0, 1, site);
    }
}

/// Parses a number with `parse`, which writes where it stopped.
unsafe fn number<T>(text: Text, end: *mut Text, site: *const Site, parse: impl Fn(*mut Text) -> T) -> T {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        length(text, site);
        let mut last: Text = null_mut();
        let value = parse(&raw mut last);
        last = fixed::in_program(raw::original(last as u64)) as Text;
        if !end.is_null() {
            write(end, &raw const last, size_of_val(&last), site);
        }
        value
    }
}

interpose! {
    fn wmempcpy(to: *mut Wide, from: Text, count: usize) -> *mut Wide, pm(to = "rdi", from = "rsi"), caller(rcx)
    |site| { copy(to, from, count * WIDTH, site); to.add(count) }

    fn wmemset(to: *mut Wide, character: Wide, count: usize) -> *mut Wide, pm(to = "rdi"), caller(rcx)
    |site| { fill(to, character, count, site); to }

    fn __wmemset_chk(to: *mut Wide, character: Wide, count: usize, room: usize) -> *mut Wide,
        pm(to = "rdi"), caller(r8)
    |site| { if count > room { return real(to, character, count, room); } fill(to, character, count, site); to }

    fn wmemcmp(one: Text, other: Text, count: usize) -> c_int, pm(one = "rdi", other = "rsi"), caller(rcx)
    |site| { compare(one, other, count, false, site); real(one, other, count) }

    fn wmemchr(text: Text, character: Wide, count: usize) -> *mut Wide, pm(text = "rdi"), caller(rcx)
    |site| { scan(text, count, site, |it| it == character); real(text, character, count) }

    fn wcslen(text: Text) -> usize, pm(text = "rdi"), caller(rsi)
    |site| { length(text, site) }

    fn wcsnlen(text: Text, most: usize) -> usize, pm(text = "rdi"), caller(rdx)
    |site| { length_within(text, most, site) }

    fn wcscpy(to: *mut Wide, from: Text) -> *mut Wide, pm(to = "rdi", from = "rsi"), caller(rdx)
    |site| { let count = length(from, site); write(to, from, (count + 1) * WIDTH, site); to }

    fn __wcscpy_chk(to: *mut Wide, from: Text, room: usize) -> *mut Wide,
        pm(to = "rdi", from = "rsi"), caller(rcx)
    |site| {
        let count = length(from, site);
        if count >= room { return real(to, from, room); }
        write(to, from, (count + 1) * WIDTH, site);
        to
    }

    fn wcpcpy(to: *mut Wide, from: Text) -> *mut Wide, pm(to = "rdi", from = "rsi"), caller(rdx)
    |site| { let count = length(from, site); write(to, from, (count + 1) * WIDTH, site); to.add(count) }

    fn wcsncpy(to: *mut Wide, from: Text, most: usize) -> *mut Wide, pm(to = "rdi", from = "rsi"), caller(rcx)
    |site| { copy_padded(to, from, most, site); to }

    fn __wcsncpy_chk(to: *mut Wide, from: Text, most: usize, room: usize) -> *mut Wide,
        pm(to = "rdi", from = "rsi"), caller(r8)
    |site| { if most > room { return real(to, from, most, room); } copy_padded(to, from, most, site); to }

    fn wcpncpy(to: *mut Wide, from: Text, most: usize) -> *mut Wide, pm(to = "rdi", from = "rsi"), caller(rcx)
    |site| { to.add(copy_padded(to, from, most, site)) }

    fn wcscat(to: *mut Wide, from: Text) -> *mut Wide, pm(to = "rdi", from = "rsi"), caller(rdx)
    |site| { append(to, from, usize::MAX, site); to }

    fn __wcscat_chk(to: *mut Wide, from: Text, room: usize) -> *mut Wide,
        pm(to = "rdi", from = "rsi"), caller(rcx)
    |site| {
        if length(to, site) + length(from, site) >= room { return real(to, from, room); }
        append(to, from, usize::MAX, site);
        to
    }

    fn wcsncat(to: *mut Wide, from: Text, most: usize) -> *mut Wide, pm(to = "rdi", from = "rsi"), caller(rcx)
    |site| { append(to, from, most, site); to }

    fn wcscmp(one: Text, other: Text) -> c_int, pm(one = "rdi", other = "rsi"), caller(rdx)
    |site| { compare(one, other, usize::MAX, true, site); real(one, other) }

    fn wcsncmp(one: Text, other: Text, most: usize) -> c_int, pm(one = "rdi", other = "rsi"), caller(rcx)
    |site| { compare(one, other, most, true, site); real(one, other, most) }

    fn wcsncasecmp(one: Text, other: Text, most: usize) -> c_int, pm(one = "rdi", other = "rsi"), caller(rcx)
    |site| { length_within(one, most, site); length_within(other, most, site); real(one, other, most) }

    fn wcschr(text: Text, character: Wide) -> *mut Wide, pm(text = "rdi"), caller(rdx)
    |site| { scan(text, usize::MAX, site, |it| it == character || it == 0); real(text, character) }

    fn wcsrchr(text: Text, character: Wide) -> *mut Wide, pm(text = "rdi"), caller(rdx)
    |site| { length(text, site); real(text, character) }

    fn wcsstr(text: Text, part: Text) -> *mut Wide, pm(text = "rdi", part = "rsi"), caller(rdx)
    |site| { length(text, site); length(part, site); real(text, part) }

    fn wcspbrk(text: Text, set: Text) -> *mut Wide, pm(text = "rdi", set = "rsi"), caller(rdx)
    |site| { length(text, site); length(set, site); real(text, set) }

    fn wcsdup(text: Text) -> *mut Wide, pm(text = "rdi"), caller(rsi)
    |site| {
        let bytes = (length(text, site) + 1) * WIDTH;
        let fresh: *mut Wide = heap::allocate_for(site, bytes).cast();
        if fresh.is_null() { return null_mut(); }
        write(fresh, text, bytes, site);
        fresh
    }

    fn wcstod(text: Text, end: *mut Text) -> c_double, pm(text = "rdi", end = "rsi"), caller(rdx)
    |site| { number(text, end, site, |end| real(text, end)) }
}

interpose! { [wmemcpy wmemmove] {
    (to: *mut Wide, from: Text, count: usize) -> *mut Wide, pm(to = "rdi", from = "rsi"), caller(rcx)
    |site| { copy(to, from, count * WIDTH, site); to }
} }

interpose! { [__wmemcpy_chk __wmemmove_chk] {
    (to: *mut Wide, from: Text, count: usize, room: usize) -> *mut Wide,
        pm(to = "rdi", from = "rsi"), caller(r8)
    |site| { if count > room { return real(to, from, count, room); } copy(to, from, count * WIDTH, site); to }
} }

interpose! { [wcscasecmp wcscoll] {
    (one: Text, other: Text) -> c_int, pm(one = "rdi", other = "rsi"), caller(rdx)
    |site| { length(one, site); length(other, site); real(one, other) }
} }

interpose! { [wcsspn wcscspn] {
    (text: Text, set: Text) -> usize, pm(text = "rdi", set = "rsi"), caller(rdx)
    |site| { length(text, site); length(set, site); real(text, set) }
} }

interpose! { [wcstol wcstoul] {
    (text: Text, end: *mut Text, base: c_int) -> c_long, pm(text = "rdi", end = "rsi"), caller(rcx)
    |site| { number(text, end, site, |end| real(text, end, base)) }
} }
