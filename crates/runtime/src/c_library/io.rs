//! Input to PM and output from PM.
//!
//! The kernel and the C library's streams access the program's buffers unseen. Input to PM goes to volatile memory
//! first and is stored from there; output from PM is recorded as read beforehand. Descriptors of PM files go to the
//! pool (see `files`).
//!
//! # Safety
//!
//! Every function requires pointers that the program vouches for, as it would to the C library.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

use crashproof_protocol::abi::{Site, is_pm};
use libc::{iovec, msghdr, sockaddr, socklen_t};

use super::memory::{copy, fill, readable, text_length, write};
use super::waiting::{others_first_for, others_may_wait_for};
use crate::interpose::{interpose, replace};
use crate::{files, fixed, raw};

type Stream = *mut c_void;

/// How long a call on a socket with these flags waits: forever or not at all.
fn patience(flags: c_int) -> c_int {
    if flags & libc::MSG_DONTWAIT != 0 { 0 } else { -1 }
}

/// Reads up to `bytes` with `input`, by way of volatile memory if the destination is PM.
unsafe fn receive(
    to: *mut c_void,
    bytes: usize,
    site: *const Site,
    input: impl FnOnce(*mut c_void) -> isize,
) -> isize {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let to = fixed::in_pool(to as u64) as *mut c_void;
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

/// Reads into several buffers with `input`, which gets volatile buffers.
unsafe fn receive_parts(
    parts: *const iovec,
    count: usize,
    site: *const Site,
    input: impl FnOnce(*const iovec) -> isize,
) -> isize {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let parts = std::slice::from_raw_parts(parts, count);
        if !parts.iter().any(|part| is_pm(fixed::in_pool(part.iov_base as u64))) {
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

/// Makes several buffers ready for reading; returns them in a form the kernel can read.
unsafe fn readable_parts(parts: *const iovec, count: usize, site: *const Site) -> Vec<iovec> {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let there = |part: &iovec| {
            readable(part.iov_base.cast_const(), part.iov_len, site);
            let there = raw::reachable(fixed::in_pool(part.iov_base as u64)) as *mut c_void;
            iovec { iov_base: there, iov_len: part.iov_len }
        };
        std::slice::from_raw_parts(parts, count).iter().map(there).collect()
    }
}

/// Copies between two lists of buffers within the process; returns the number of bytes copied.
unsafe fn copy_parts(
    to: *const iovec,
    to_count: usize,
    from: *const iovec,
    from_count: usize,
    site: *const Site,
) -> isize {
    // SAFETY: the program vouches for its pointers, as it would to the kernel.
    unsafe {
        let mut sources = std::slice::from_raw_parts(from, from_count).iter().copied();
        let mut source = sources.next();
        let mut copied = 0;
        for part in std::slice::from_raw_parts(to, to_count) {
            let mut done = 0;
            while done < part.iov_len
                && let Some(left) = &mut source
            {
                let bytes = left.iov_len.min(part.iov_len - done);
                copy(part.iov_base.byte_add(done), left.iov_base.cast_const(), bytes, site);
                left.iov_base = left.iov_base.byte_add(bytes);
                left.iov_len -= bytes;
                done += bytes;
                if left.iov_len == 0 {
                    source = sources.next();
                }
            }
            copied += done;
        }
        copied as isize
    }
}

/// Calls `one` for each buffer with its offset in the PM file; `None` if the descriptor is not of a PM file.
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
                others_first_for(descriptor, -1);
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
            _ => {
                others_first_for(descriptor, -1);
                receive_parts(parts, count as usize, site, |parts| real(descriptor, parts, count))
            }
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
            others_may_wait_for(descriptor);
            real(descriptor, from, bytes)
        })
    }

    fn writev(descriptor: c_int, parts: *const iovec, count: c_int) -> isize, caller(rcx)
    |site| {
        let to_file = |part: &iovec, at| files::write(descriptor, part.iov_base, part.iov_len, at, site);
        match each_part(parts, count as usize, None, to_file) {
            Some(bytes) if files::of(descriptor).is_some() => bytes,
            _ => {
                let parts = readable_parts(parts, count as usize, site);
                others_may_wait_for(descriptor);
                real(descriptor, parts.as_ptr(), count)
            }
        }
    }

    fn pwritev(descriptor: c_int, parts: *const iovec, count: c_int, offset: i64) -> isize, caller(r8)
    |site| {
        let to_file = |part: &iovec, at| files::write(descriptor, part.iov_base, part.iov_len, at, site);
        match each_part(parts, count as usize, Some(offset), to_file) {
            Some(bytes) if files::of(descriptor).is_some() => bytes,
            _ => {
                let parts = readable_parts(parts, count as usize, site);
                real(descriptor, parts.as_ptr(), count, offset)
            }
        }
    }

    fn pwritev2(descriptor: c_int, parts: *const iovec, count: c_int, offset: i64, how: c_int) -> isize, caller(r9)
    |site| {
        let at = (offset >= 0).then_some(offset);
        let to_file = |part: &iovec, at| files::write(descriptor, part.iov_base, part.iov_len, at, site);
        match each_part(parts, count as usize, at, to_file) {
            Some(bytes) if files::of(descriptor).is_some() => {
                if how & (libc::RWF_DSYNC | libc::RWF_SYNC) != 0 {
                    files::sync(descriptor, site);
                }
                bytes
            }
            _ => {
                let parts = readable_parts(parts, count as usize, site);
                real(descriptor, parts.as_ptr(), count, offset, how)
            }
        }
    }

    fn preadv2(descriptor: c_int, parts: *const iovec, count: c_int, offset: i64, how: c_int) -> isize, caller(r9)
    |site| {
        let at = (offset >= 0).then_some(offset);
        let from_file = |part: &iovec, at| files::read(descriptor, part.iov_base, part.iov_len, at, site);
        match each_part(parts, count as usize, at, from_file) {
            Some(bytes) if files::of(descriptor).is_some() => bytes,
            _ => receive_parts(parts, count as usize, site, |parts| real(descriptor, parts, count, offset, how)),
        }
    }

    fn recvmsg(socket: c_int, message: *mut msghdr, flags: c_int) -> isize, caller(rcx)
    |site| {
        let (parts, count) = ((*message).msg_iov, (*message).msg_iovlen);
        others_first_for(socket, patience(flags));
        let received = receive_parts(parts, count, site, |volatile| {
            (*message).msg_iov = volatile.cast_mut();
            real(socket, message, flags)
        });
        (*message).msg_iov = parts;
        received
    }

    fn sendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> isize, caller(rcx)
    |site| {
        let mut parts = readable_parts((*message).msg_iov, (*message).msg_iovlen, site);
        let message = msghdr { msg_iov: parts.as_mut_ptr(), ..*message };
        others_may_wait_for(socket);
        real(socket, &raw const message, flags)
    }

    fn process_vm_writev(process: libc::pid_t, local: *const iovec, local_count: usize, remote: *const iovec, remote_count: usize, flags: usize) -> isize, caller(stack)
    |site| {
        if process == libc::getpid() && flags == 0 {
            copy_parts(remote, remote_count, local, local_count, site)
        } else {
            let local = readable_parts(local, local_count, site);
            real(process, local.as_ptr(), local_count, remote, remote_count, flags)
        }
    }

    fn process_vm_readv(process: libc::pid_t, local: *const iovec, local_count: usize, remote: *const iovec, remote_count: usize, flags: usize) -> isize, caller(stack)
    |site| {
        if process == libc::getpid() && flags == 0 {
            copy_parts(local, local_count, remote, remote_count, site)
        } else {
            receive_parts(local, local_count, site, |local| real(process, local, local_count, remote, remote_count, flags))
        }
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

// The C library may reallocate the buffer, so it works on a volatile one.
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

replace! {
    fn recv(socket: c_int, to: *mut c_void, bytes: usize, flags: c_int) -> isize, caller(r8)
    |site| {
        others_first_for(socket, patience(flags));
        receive(to, bytes, site, |to| real(socket, to, bytes, flags))
    }

    fn __recv_chk(socket: c_int, to: *mut c_void, bytes: usize, room: usize, flags: c_int) -> isize, caller(r9)
    |site| {
        others_first_for(socket, patience(flags));
        receive(to, bytes, site, |to| real(socket, to, bytes, room, flags))
    }

    fn recvfrom(socket: c_int, to: *mut c_void, bytes: usize, flags: c_int, from: *mut sockaddr, size: *mut socklen_t) -> isize, caller(stack)
    |site| {
        others_first_for(socket, patience(flags));
        receive(to, bytes, site, |to| real(socket, to, bytes, flags, from, size))
    }

    fn send(socket: c_int, from: *const c_void, bytes: usize, flags: c_int) -> isize, caller(r8)
    |site| {
        readable(from, bytes, site);
        others_may_wait_for(socket);
        real(socket, from, bytes, flags)
    }

    fn sendto(socket: c_int, from: *const c_void, bytes: usize, flags: c_int, to: *const sockaddr, size: socklen_t) -> isize, caller(stack)
    |site| {
        readable(from, bytes, site);
        others_may_wait_for(socket);
        real(socket, from, bytes, flags, to, size)
    }
}

interpose! {
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
