//! Queues and linear searches (`search.h`), and conversions that advance a pointer of the caller's; see `memory`.
//!
//! # Safety
//!
//! Every function requires pointers that the program vouches for, as it would to the C library.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

use crashproof_protocol::abi::{Site, is_pm};

use super::memory::{readable, text_length, write};
use crate::interpose::{interpose, replace};
use crate::raw;

type Same = unsafe extern "C" fn(*const c_void, *const c_void) -> c_int;
type Wide = libc::wchar_t;
/// A queue element: pointers to the next one and the previous one.
type Element = *mut [*mut c_void; 2];

const NEXT: usize = 0;
const BEFORE: usize = 1;

/// Reads a pointer from PM or volatile memory.
unsafe fn word<T>(place: *const T, site: *const Site) -> *mut c_void {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        readable(place, size_of::<usize>(), site);
        raw::peek(place as u64, 8) as *mut c_void
    }
}

unsafe fn link(element: *mut c_void, side: usize, to: *mut c_void, site: *const Site) {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        write((&raw mut (*(element as Element))[side]).cast::<u8>(), &raw const to, size_of::<usize>(), site)
    };
}

unsafe fn linked(element: *mut c_void, side: usize, site: *const Site) -> *mut c_void {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe { word(&raw const (*(element as Element))[side], site) }
}

/// Finds the element that equals a key, and how many elements there are. The comparison gets pointers into the array.
unsafe fn find(
    key: *const c_void,
    start: *mut c_void,
    count: *mut usize,
    size: usize,
    same: Same,
    site: *const Site,
) -> (*mut c_void, usize) {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let count = word(count, site) as usize;
        let mut elements = (0..count).map(|index| start.byte_add(index * size));
        (elements.find(|element| same(key, *element) == 0).unwrap_or(null_mut()), count)
    }
}

// Always interposed: a queue in PM may be reached through volatile elements, and vice versa.
replace! {
    fn insque(element: *mut c_void, before: *mut c_void), caller(rdx)
    |site| {
        if before.is_null() {
            link(element, NEXT, null_mut(), site);
            return link(element, BEFORE, null_mut(), site);
        }
        let next = linked(before, NEXT, site);
        link(before, NEXT, element, site);
        if !next.is_null() {
            link(next, BEFORE, element, site);
        }
        link(element, NEXT, next, site);
        link(element, BEFORE, before, site);
    }

    fn remque(element: *mut c_void), caller(rsi)
    |site| {
        let (next, before) = (linked(element, NEXT, site), linked(element, BEFORE, site));
        if !next.is_null() {
            link(next, BEFORE, before, site);
        }
        if !before.is_null() {
            link(before, NEXT, next, site);
        }
    }
}

interpose! {
    fn lfind(key: *const c_void, start: *mut c_void, count: *mut usize, size: usize, same: Same) -> *mut c_void,
        pm(start = "rsi", count = "rdx"), caller(r9)
    |site| { find(key, start, count, size, same, site).0 }

    fn lsearch(key: *const c_void, start: *mut c_void, count: *mut usize, size: usize, same: Same) -> *mut c_void,
        pm(start = "rsi", count = "rdx"), caller(r9)
    |site| {
        let (found, number) = find(key, start, count, size, same, site);
        if !found.is_null() {
            return found;
        }
        let end = start.byte_add(number * size);
        readable(key, size, site);
        write(end, key, size, site);
        let more = number + 1;
        write(count, &raw const more, size_of::<usize>(), site);
        end
    }
}

/// Converts the string at `*from` and advances that pointer. `convert` returns the number of units written, excluding
/// the terminator.
unsafe fn convert<T: Copy + Default>(
    to: *mut T,
    from: *mut *const c_void,
    room: usize,
    state: *mut u64,
    site: *const Site,
    convert: impl FnOnce(*mut T, *mut *const c_void, *mut u64) -> usize,
) -> usize {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let mut start = word(from, site).cast_const();
        let mut kept = 0u64;
        if !state.is_null() {
            readable(state, 8, site);
            kept = raw::peek(state as u64, 8);
        }
        let state_here = if state.is_null() { null_mut() } else { &raw mut kept };
        if to.is_null() {
            return convert(null_mut(), &raw mut start, state_here);
        }
        let mut text = vec![T::default(); room];
        let count = convert(text.as_mut_ptr(), &raw mut start, state_here);
        let written = if count == usize::MAX { 0 } else { (count + usize::from(start.is_null())).min(room) };
        write(to, text.as_ptr(), written * size_of::<T>(), site);
        write(from, &raw const start, size_of::<usize>(), site);
        if !state.is_null() {
            write(state, &raw const kept, 8, site);
        }
        count
    }
}

interpose! {
    fn mbsrtowcs(to: *mut Wide, from: *mut *const c_void, room: usize, state: *mut u64) -> usize,
        pm(to = "rdi", from = "rsi", state = "rcx"), caller(r8)
    |site| {
        text_length(word(from, site).cast::<c_char>(), site);
        convert(to, from, room, state, site, |to, from, state| real(to, from, room, state))
    }

    fn wcsrtombs(to: *mut c_char, from: *mut *const c_void, room: usize, state: *mut u64) -> usize,
        pm(to = "rdi", from = "rsi", state = "rcx"), caller(r8)
    |site| {
        let text = word(from, site).cast::<Wide>();
        let mut length = 0;
        loop {
            readable(text.add(length), size_of::<Wide>(), site);
            if text.add(length).read_volatile() == 0 { break; }
            length += 1;
        }
        convert(to, from, room, state, site, |to, from, state| real(to, from, room, state))
    }

    /// Splits a wide string in place.
    fn wcstok(text: *mut Wide, set: *const Wide, rest: *mut *mut Wide) -> *mut Wide,
        pm(text = "rdi", set = "rsi", rest = "rdx"), caller(rcx)
    |site| {
        let character = |place: *const Wide| {
            readable(place, size_of::<Wide>(), site);
            place.read_volatile()
        };
        let separates = |wanted: Wide| {
            (0..).map(|at| character(set.add(at))).take_while(|it| *it != 0).any(|it| it == wanted)
        };
        let keep = |place: *mut Wide| write(rest, &raw const place, size_of::<usize>(), site);
        let mut start = if text.is_null() { word(rest, site).cast::<Wide>() } else { text };
        if start.is_null() {
            return null_mut();
        }
        while character(start) != 0 && separates(character(start)) {
            start = start.add(1);
        }
        if character(start) == 0 {
            keep(null_mut());
            return null_mut();
        }
        let mut end = start;
        while character(end) != 0 && !separates(character(end)) {
            end = end.add(1);
        }
        if character(end) == 0 {
            keep(null_mut());
        } else {
            write(end, &raw const NOTHING, size_of::<Wide>(), site);
            keep(end.add(1));
        }
        start
    }
}

static NOTHING: Wide = 0;

/// What `random_r` keeps between calls, as glibc lays it out.
#[repr(C)]
#[derive(Clone, Copy)]
struct RandomData {
    front: *mut i32,
    rear: *mut i32,
    state: *mut i32,
    kind: c_int,
    degree: c_int,
    separation: c_int,
    end: *mut i32,
}

/// The words of a state, starting with the one before it, which holds its kind.
impl RandomData {
    unsafe fn read(place: *const RandomData, site: *const Site) -> RandomData {
        // SAFETY: the program vouches for its pointers, as it would to the C library.
        unsafe {
            readable(place, size_of::<RandomData>(), site);
            place.read_unaligned()
        }
    }

    /// The same data, with all pointers moved to a state elsewhere.
    fn moved(&self, state: *mut i32) -> RandomData {
        let by = |pointer: *mut i32| {
            if pointer.is_null() {
                pointer
            } else {
                state.wrapping_byte_offset(pointer as isize - self.state as isize)
            }
        };
        RandomData { front: by(self.front), rear: by(self.rear), state, end: by(self.end), ..*self }
    }
}

/// Calls a function on volatile copies of a random state, and stores what changed.
unsafe fn with_random_state<R>(
    data: *mut RandomData,
    site: *const Site,
    call: impl FnOnce(*mut RandomData) -> R,
) -> R {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let before = RandomData::read(data, site);
        if before.state.is_null() {
            return call(data);
        }
        // The word before the state holds its kind.
        let words = before.degree.max(0) as usize + 1;
        let place = before.state.wrapping_sub(1);
        readable(place, words * 4, site);
        let old: Vec<i32> = (0..words).map(|at| place.add(at).read_unaligned()).collect();
        let mut state = old.clone();
        let mut here = before.moved(state.as_mut_ptr().add(1));
        let result = call(&raw mut here);
        for at in (0..words).filter(|at| state[*at] != old[*at]) {
            write(place.add(at), &raw const state[at], 4, site);
        }
        let after = here.moved(before.state);
        write(data, &raw const after, size_of::<RandomData>(), site);
        result
    }
}

/// Is a random state, or anything it points to, in PM?
unsafe fn concerns_pm(data: *const RandomData) -> bool {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe { is_pm(data as u64) || is_pm((&raw const (*data).state).read_unaligned() as u64) }
}

replace! {
    fn random_r(data: *mut RandomData, result: *mut i32) -> c_int, caller(rdx)
    |site| {
        if !concerns_pm(data) && !is_pm(result as u64) {
            return real(data, result);
        }
        let mut number = 0i32;
        let status = with_random_state(data, site, |data| real(data, &raw mut number));
        write(result, &raw const number, 4, site);
        status
    }

    fn srandom_r(seed: u32, data: *mut RandomData) -> c_int, caller(rdx)
    |site| {
        if !concerns_pm(data) {
            return real(seed, data);
        }
        with_random_state(data, site, |data| real(seed, data))
    }
}
