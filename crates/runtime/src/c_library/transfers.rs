//! Kernel-side copies between descriptors, and asynchronous I/O requests.
//!
//! If a persistent file is involved, the runtime copies through the pool itself: the kernel knows only the file's
//! stand-in. Requests are completed immediately, which POSIX allows.

use std::ffi::{c_int, c_void};

use crashproof_protocol::abi::{Site, is_pm};
use crashproof_protocol::{reason, record, untracked};

use super::memory::copy;
use super::waiting::others_first_for;
use crate::files;
use crate::interpose::replace;
use crate::recorder::note;
use crate::system::{errno, fail, raw_syscall};

/// One end of a copy: a descriptor, and an offset if not the descriptor's own.
#[derive(Clone, Copy)]
struct End {
    descriptor: c_int,
    offset: *mut i64,
}

impl End {
    fn is_followed(self) -> bool {
        files::of(self.descriptor).is_some()
    }

    unsafe fn at(self, site: *const Site) -> Option<i64> {
        if self.offset.is_null() {
            return None;
        }
        let mut offset = 0i64;
        // SAFETY: the program vouches for its pointers, as it would to the C library.
        unsafe { copy(&raw mut offset, self.offset, 8, site) };
        Some(offset)
    }

    unsafe fn advance(self, bytes: isize, site: *const Site) {
        // SAFETY: the program vouches for its pointers, as it would to the C library.
        unsafe {
            if let Some(offset) = self.at(site) {
                let next = offset + bytes as i64;
                copy(self.offset, &raw const next, 8, site);
            }
        }
    }

    unsafe fn read(self, to: &mut [u8], site: *const Site) -> isize {
        // SAFETY: the buffer has room for that many bytes.
        unsafe {
            let at = self.at(site);
            let into = to.as_mut_ptr().cast::<c_void>();
            files::read(self.descriptor, into, to.len(), at, site).unwrap_or_else(|| {
                if at.is_none() {
                    others_first_for(self.descriptor, -1);
                }
                let number = if at.is_some() { libc::SYS_pread64 } else { libc::SYS_read };
                let offset = at.unwrap_or(0) as usize;
                told(raw_syscall(number, [self.descriptor as usize, into as usize, to.len(), offset, 0, 0]))
            })
        }
    }

    unsafe fn write(self, from: &[u8], site: *const Site) -> isize {
        // SAFETY: the buffer has that many bytes.
        unsafe {
            let at = self.at(site);
            let what = from.as_ptr().cast::<c_void>();
            files::write(self.descriptor, what, from.len(), at, site).unwrap_or_else(|| {
                let number = if at.is_some() { libc::SYS_pwrite64 } else { libc::SYS_write };
                let offset = at.unwrap_or(0) as usize;
                told(raw_syscall(number, [self.descriptor as usize, what as usize, from.len(), offset, 0, 0]))
            })
        }
    }
}

/// Converts the kernel's result to the C library's convention.
fn told(result: isize) -> isize {
    if result < 0 { fail(-result as c_int) as isize } else { result }
}

/// Copies up to `bytes`; `None` if no persistent file is involved.
unsafe fn transfer(from: End, to: End, bytes: usize, site: *const Site) -> Option<isize> {
    /// Per call; a pipe holds no more.
    const MOST: usize = 64 << 10;
    if !from.is_followed() && !to.is_followed() {
        return None;
    }
    let mut done = 0;
    let mut buffer = vec![0u8; bytes.min(MOST)];
    while (done as usize) < bytes {
        let wanted = buffer.len().min(bytes - done as usize);
        // SAFETY: the buffer has room; the program vouches for the rest.
        let written = unsafe {
            let read = from.read(&mut buffer[..wanted], site);
            if read <= 0 {
                return Some(if done > 0 { done } else { read });
            }
            from.advance(read, site);
            let written = to.write(&buffer[..read as usize], site);
            to.advance(written.max(0), site);
            written
        };
        if written < 0 {
            return Some(if done > 0 { done } else { written });
        }
        done += written;
        // A pipe or terminal delivers data in parts.
        if (written as usize) < wanted {
            break;
        }
    }
    Some(done)
}

replace! { [sendfile sendfile64] {
    (to: c_int, from: c_int, offset: *mut i64, bytes: usize) -> isize, caller(r8)
    |site| {
        let (from_end, to_end) =
            (End { descriptor: from, offset }, End { descriptor: to, offset: std::ptr::null_mut() });
        transfer(from_end, to_end, bytes, site).unwrap_or_else(|| real(to, from, offset, bytes))
    }
} }

replace! { [splice copy_file_range] {
    (from: c_int, at: *mut i64, to: c_int, to_at: *mut i64, bytes: usize, flags: u32) -> isize, caller(stack)
    |site| {
        let (from_end, to_end) =
            (End { descriptor: from, offset: at }, End { descriptor: to, offset: to_at });
        transfer(from_end, to_end, bytes, site).unwrap_or_else(|| real(from, at, to, to_at, bytes, flags))
    }
} }

/// An asynchronous I/O request as glibc lays it out on x86-64.
#[repr(C)]
struct Request {
    descriptor: c_int,
    operation: c_int,
    priority: c_int,
    buffer: *mut c_void,
    bytes: usize,
    notification: Notification,
    next: usize,
    absolute_priority: c_int,
    policy: c_int,
    error: c_int,
    result: isize,
    offset: i64,
    reserved: [u8; 32],
}

/// `struct sigevent`.
#[repr(C)]
struct Notification {
    value: usize,
    signal: c_int,
    how: c_int,
    rest: [u8; 48],
}

impl Notification {
    /// Does completion notify anyone? Zero-initialized requests ask for signal 0, which means no.
    fn is_any(&self) -> bool {
        match self.how {
            libc::SIGEV_NONE => false,
            libc::SIGEV_SIGNAL => self.signal != 0,
            _ => true,
        }
    }
}

const _: () = assert!(size_of::<Request>() == size_of::<libc::aiocb>() && size_of::<Notification>() == 64);

impl Request {
    /// Does it involve PM?
    unsafe fn concerns_pm(request: *const Request) -> bool {
        // SAFETY: the program vouches for its pointers, as it would to the C library.
        unsafe {
            !request.is_null()
                && (is_pm(request as u64)
                    || is_pm((*request).buffer as u64)
                    || files::of((*request).descriptor).is_some())
        }
    }

    /// Carries out a request, and stores the result in it.
    unsafe fn answer(request: *mut Request, operation: c_int, name: u64, site: *const Site) -> c_int {
        // SAFETY: the program vouches for its pointers, as it would to the C library.
        unsafe {
            if is_pm(request as u64) {
                // The C library keeps its own state in there.
                note(record::UNKNOWN, name, reason::FUNCTION, site);
            }
            let Request { descriptor, buffer, bytes, offset, notification, .. } = &*request;
            if notification.is_any() {
                note(record::UNKNOWN, name, reason::FUNCTION, site);
            }
            let mut at = *offset;
            let end = End { descriptor: *descriptor, offset: &raw mut at };
            let result = match operation {
                libc::LIO_READ => {
                    let mut volatile = vec![0u8; *bytes];
                    let read = end.read(&mut volatile, site);
                    copy(*buffer, volatile.as_ptr(), read.max(0) as usize, site);
                    read
                }
                libc::LIO_WRITE => {
                    let mut volatile = vec![0u8; *bytes];
                    copy(volatile.as_mut_ptr(), *buffer, *bytes, site);
                    end.write(&volatile, site)
                }
                libc::LIO_NOP => 0,
                _ if files::sync(*descriptor, site) => 0,
                _ => told(raw_syscall(libc::SYS_fsync, [*descriptor as usize, 0, 0, 0, 0, 0])),
            };
            (*request).error = if result < 0 { errno() } else { 0 };
            (*request).result = result;
            0
        }
    }
}

/// Any operation other than read, write and no-op.
const SYNC: c_int = -1;

replace! { [aio_read aio_read64] {
    (request: *mut Request) -> c_int, caller(rsi)
    |site| {
        if !Request::concerns_pm(request) { return real(request); }
        Request::answer(request, libc::LIO_READ, const { untracked::number("aio_read") }, site)
    }
} }

replace! { [aio_write aio_write64] {
    (request: *mut Request) -> c_int, caller(rsi)
    |site| {
        if !Request::concerns_pm(request) { return real(request); }
        Request::answer(request, libc::LIO_WRITE, const { untracked::number("aio_write") }, site)
    }
} }

replace! { [aio_fsync aio_fsync64] {
    (operation: c_int, request: *mut Request) -> c_int, caller(rdx)
    |site| {
        if !Request::concerns_pm(request) { return real(operation, request); }
        Request::answer(request, SYNC, const { untracked::number("aio_fsync") }, site)
    }
} }

replace! { [lio_listio lio_listio64] {
    (mode: c_int, requests: *const *mut Request, count: c_int, notification: *const Notification) -> c_int, caller(r8)
    |site| {
        let all = std::slice::from_raw_parts(requests, count.max(0) as usize);
        if !all.iter().any(|request| Request::concerns_pm(*request)) {
            return real(mode, requests, count, notification);
        }
        let name = const { untracked::number("lio_listio") };
        if mode == libc::LIO_NOWAIT && !notification.is_null() && (*notification).is_any() {
            note(record::UNKNOWN, name, reason::FUNCTION, site);
        }
        let mut failed = false;
        for request in all.iter().filter(|request| !request.is_null()) {
            Request::answer(*request, (**request).operation, name, site);
            failed |= (**request).error != 0;
        }
        if failed { fail(libc::EIO) } else { 0 }
    }
} }
