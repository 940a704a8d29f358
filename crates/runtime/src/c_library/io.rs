//! Input into PM and output from PM.
//!
//! The kernel and the C library's streams access the program's buffers unseen. What is read into PM goes to
//! volatile memory first and is stored from there; what is written from PM counts as read before.
//! Descriptors of PM files go to the pool (see `files`).
//!
//! # Safety
//!
//! All functions want pointers that the program vouches for, as it would to the C library.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

use crashproof_protocol::abi::{Site, is_pm};
use libc::{iovec, msghdr, sockaddr, socklen_t};

use super::memory::{copy, fill, readable, text_length, write};
use super::waiting::others_first_for;
use crate::files;
use crate::interpose::{interpose, replace};

type Stream = *mut c_void;

/// Reads `bytes` at most with `input`, into volatile memory if they are to go to PM.
unsafe fn receive(
    to: *mut c_void,
    bytes: usize,
    site: *const Site,
    input: impl FnOnce(*mut c_void) -> isize,
) -> isize {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        if !is_pm(to as u64) {
            return input(to);
        }
        let mut buffer = vec![0u8; bytes];
        let count = input(buffer.as_mut_ptr().cast());
        if count > 0 {
            write(to, buffer.as_ptr(), count as usize, site);
        }
        count
    }
}

/// Reads into several parts with `input`, which is given parts in volatile memory.
unsafe fn receive_parts(
    parts: *const iovec,
    count: usize,
    site: *const Site,
    input: impl FnOnce(*const iovec) -> isize,
) -> isize {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let parts = std::slice::from_raw_parts(parts, count);
        if !parts.iter().any(|part| is_pm(part.iov_base as u64)) {
            return input(parts.as_ptr());
        }
        let mut buffers: Vec<Vec<u8>> = parts.iter().map(|part| vec![0; part.iov_len]).collect();
        let volatile: Vec<iovec> = buffers
            .iter_mut()
            .map(|buffer| iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() })
            .collect();
        let received = input(volatile.as_ptr());
        let mut left = received.max(0) as usize;
        for (part, buffer) in parts.iter().zip(&buffers) {
            let bytes = left.min(buffer.len());
            write(part.iov_base, buffer.as_ptr(), bytes, site);
            left -= bytes;
        }
        received
    }
}

unsafe fn readable_parts(parts: *const iovec, count: usize, site: *const Site) {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        for part in std::slice::from_raw_parts(parts, count) {
            readable(part.iov_base.cast_const(), part.iov_len, site);
        }
    }
}

/// Does `one` for each part at the offsets they have in a PM file; none if it is none.
unsafe fn each_part(
    parts: *const iovec,
    count: usize,
    mut offset: Option<i64>,
    one: impl Fn(&iovec, Option<i64>) -> Option<isize>,
) -> Option<isize> {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let mut done = 0;
        for part in std::slice::from_raw_parts(parts, count) {
            let bytes = one(part, offset)?;
            if bytes < 0 {
                return Some(bytes);
            }
            done += bytes;
            offset = offset.map(|offset| offset + bytes as i64);
            if (bytes as usize) < part.iov_len {
                break;
            }
        }
        Some(done)
    }
}

replace! {
    fn read(descriptor: c_int, to: *mut c_void, bytes: usize) -> isize, caller(rcx)
    |site| {
        files::read(descriptor, to, bytes, None, site)
            .unwrap_or_else(|| {
                others_first_for(descriptor);
                receive(to, bytes, site, |to| real(descriptor, to, bytes))
            })
    }

    fn __read_chk(descriptor: c_int, to: *mut c_void, bytes: usize, room: usize) -> isize, caller(r8)
    |site| {
        files::read(descriptor, to, bytes, None, site)
            .unwrap_or_else(|| receive(to, bytes, site, |to| real(descriptor, to, bytes, room)))
    }

    fn readv(descriptor: c_int, parts: *const iovec, count: c_int) -> isize, caller(rcx)
    |site| {
        let from_file = |part: &iovec, at| files::read(descriptor, part.iov_base, part.iov_len, at, site);
        match each_part(parts, count as usize, None, from_file) {
            Some(bytes) if files::of(descriptor).is_some() => bytes,
            _ => receive_parts(parts, count as usize, site, |parts| real(descriptor, parts, count)),
        }
    }

    fn preadv(descriptor: c_int, parts: *const iovec, count: c_int, offset: i64) -> isize, caller(r8)
    |site| {
        let from_file = |part: &iovec, at| files::read(descriptor, part.iov_base, part.iov_len, at, site);
        match each_part(parts, count as usize, Some(offset), from_file) {
            Some(bytes) if files::of(descriptor).is_some() => bytes,
            _ => receive_parts(parts, count as usize, site, |parts| real(descriptor, parts, count, offset)),
        }
    }

    fn write(descriptor: c_int, from: *const c_void, bytes: usize) -> isize, caller(rcx)
    |site| {
        files::write(descriptor, from, bytes, None, site).unwrap_or_else(|| {
            readable(from, bytes, site);
            real(descriptor, from, bytes)
        })
    }

    fn writev(descriptor: c_int, parts: *const iovec, count: c_int) -> isize, caller(rcx)
    |site| {
        let to_file = |part: &iovec, at| files::write(descriptor, part.iov_base, part.iov_len, at, site);
        match each_part(parts, count as usize, None, to_file) {
            Some(bytes) if files::of(descriptor).is_some() => bytes,
            _ => {
                readable_parts(parts, count as usize, site);
                real(descriptor, parts, count)
            }
        }
    }

    fn pwritev(descriptor: c_int, parts: *const iovec, count: c_int, offset: i64) -> isize, caller(r8)
    |site| {
        let to_file = |part: &iovec, at| files::write(descriptor, part.iov_base, part.iov_len, at, site);
        match each_part(parts, count as usize, Some(offset), to_file) {
            Some(bytes) if files::of(descriptor).is_some() => bytes,
            _ => {
                readable_parts(parts, count as usize, site);
                real(descriptor, parts, count, offset)
            }
        }
    }

    fn recvmsg(socket: c_int, message: *mut msghdr, flags: c_int) -> isize, caller(rcx)
    |site| {
        let (parts, count) = ((*message).msg_iov, (*message).msg_iovlen);
        let received = receive_parts(parts, count, site, |volatile| {
            (*message).msg_iov = volatile.cast_mut();
            real(socket, message, flags)
        });
        (*message).msg_iov = parts;
        received
    }

    fn sendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> isize, caller(rcx)
    |site| {
        readable_parts((*message).msg_iov, (*message).msg_iovlen, site);
        real(socket, message, flags)
    }

    fn getline(line: *mut *mut c_char, room: *mut usize, stream: Stream) -> isize, caller(rcx)
    |site| { get_line(line, room, site, |line, room| real(line, room, stream)) }
}

replace! { [pread pread64] {
    (descriptor: c_int, to: *mut c_void, bytes: usize, offset: i64) -> isize, caller(r8)
    |site| {
        files::read(descriptor, to, bytes, Some(offset), site)
            .unwrap_or_else(|| receive(to, bytes, site, |to| real(descriptor, to, bytes, offset)))
    }
} }

replace! { [__pread_chk __pread64_chk] {
    (descriptor: c_int, to: *mut c_void, bytes: usize, offset: i64, room: usize) -> isize, caller(r9)
    |site| {
        files::read(descriptor, to, bytes, Some(offset), site)
            .unwrap_or_else(|| receive(to, bytes, site, |to| real(descriptor, to, bytes, offset, room)))
    }
} }

replace! { [pwrite pwrite64] {
    (descriptor: c_int, from: *const c_void, bytes: usize, offset: i64) -> isize, caller(r8)
    |site| {
        files::write(descriptor, from, bytes, Some(offset), site).unwrap_or_else(|| {
            readable(from, bytes, site);
            real(descriptor, from, bytes, offset)
        })
    }
} }

// The buffer is the C library's to enlarge, so it works on one that is volatile.
replace! { [getdelim __getdelim] {
    (line: *mut *mut c_char, room: *mut usize, end: c_int, stream: Stream) -> isize, caller(r8)
    |site| { get_line(line, room, site, |line, room| real(line, room, end, stream)) }
} }

unsafe fn get_line(
    line: *mut *mut c_char,
    room: *mut usize,
    site: *const Site,
    input: impl FnOnce(*mut *mut c_char, *mut usize) -> isize,
) -> isize {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let (mut old, mut old_room) = (null_mut::<c_char>(), 0usize);
        copy(&raw mut old, line, size_of_val(&old), site);
        copy(&raw mut old_room, room, size_of_val(&old_room), site);
        if !is_pm(line as u64) && !is_pm(room as u64) && !is_pm(old as u64) {
            return input(line, room);
        }
        let (mut text, mut text_room) = (null_mut::<c_char>(), 0usize);
        let length = input(&raw mut text, &raw mut text_room);
        if length >= 0 {
            if old.is_null() || old_room < length as usize + 1 {
                old = libc::realloc(old.cast(), length as usize + 1).cast();
                old_room = length as usize + 1;
                write(line, &raw const old, size_of_val(&old), site);
                write(room, &raw const old_room, size_of_val(&old_room), site);
            }
            copy(old, text, length as usize + 1, site);
        }
        libc::free(text.cast());
        length
    }
}

interpose! {
    fn recv(socket: c_int, to: *mut c_void, bytes: usize, flags: c_int) -> isize, pm(to = "rsi"), caller(r8)
    |site| { receive(to, bytes, site, |to| real(socket, to, bytes, flags)) }

    fn __recv_chk(socket: c_int, to: *mut c_void, bytes: usize, room: usize, flags: c_int) -> isize,
        pm(to = "rsi"), caller(r9)
    |site| { receive(to, bytes, site, |to| real(socket, to, bytes, room, flags)) }

    fn recvfrom(socket: c_int, to: *mut c_void, bytes: usize, flags: c_int, from: *mut sockaddr, size: *mut socklen_t) -> isize,
        pm(to = "rsi"), caller(stack)
    |site| { receive(to, bytes, site, |to| real(socket, to, bytes, flags, from, size)) }

    fn send(socket: c_int, from: *const c_void, bytes: usize, flags: c_int) -> isize, pm(from = "rsi"), caller(r8)
    |site| { readable(from, bytes, site); real(socket, from, bytes, flags) }

    fn sendto(socket: c_int, from: *const c_void, bytes: usize, flags: c_int, to: *const sockaddr, size: socklen_t) -> isize,
        pm(from = "rsi"), caller(stack)
    |site| { readable(from, bytes, site); real(socket, from, bytes, flags, to, size) }

    fn fread(to: *mut c_void, size: usize, count: usize, stream: Stream) -> usize, pm(to = "rdi"), caller(r8)
    |site| {
        let mut items = 0;
        receive(to, size * count, site, |to| {
            items = real(to, size, count, stream);
            (items * size) as isize
        });
        items
    }

    fn fwrite(from: *const c_void, size: usize, count: usize, stream: Stream) -> usize,
        pm(from = "rdi"), caller(r8)
    |site| { readable(from, size * count, site); real(from, size, count, stream) }

    fn fgets(to: *mut c_char, room: c_int, stream: Stream) -> *mut c_char, pm(to = "rdi"), caller(rcx)
    |site| { get_string(to, room, site, |to| real(to, room, stream)) }

    fn __fgets_chk(to: *mut c_char, size: usize, room: c_int, stream: Stream) -> *mut c_char,
        pm(to = "rdi"), caller(r8)
    |site| { get_string(to, room, site, |to| real(to, size, room, stream)) }

    fn fputs(text: *const c_char, stream: Stream) -> c_int, pm(text = "rdi"), caller(rdx)
    |site| { text_length(text, site); real(text, stream) }

    fn puts(text: *const c_char) -> c_int, pm(text = "rdi"), caller(rsi)
    |site| { text_length(text, site); real(text) }
}

unsafe fn get_string(
    to: *mut c_char,
    room: c_int,
    site: *const Site,
    input: impl FnOnce(*mut c_char) -> *mut c_char,
) -> *mut c_char {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let mut buffer = vec![0u8; room.max(1) as usize];
        if input(buffer.as_mut_ptr().cast()).is_null() {
            return null_mut();
        }
        let length = buffer.iter().position(|byte| *byte == 0).unwrap_or(0);
        write(to, buffer.as_ptr(), length, site);
        fill(to.add(length), 0, 1, site);
        to
    }
}
