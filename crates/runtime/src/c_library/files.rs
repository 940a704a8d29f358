//! Files by descriptor and by name, and mappings; see `files`.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

use crashproof_protocol::abi::{Site, is_pm};
use crashproof_protocol::reason;

use super::determinism::open_random;
use super::memory::text_length;
use super::results::with_result;
use crate::files;
use crate::interpose::replace;
use crate::recorder::unknown;
use crate::system::fail;

type Status = *mut libc::stat;

// Functions of address space take addresses as numbers: the window itself is meant, not its alias.

const PAGE: u64 = 4096;

/// A copy of a descriptor is open for the same file.
fn follow_copy(descriptor: c_int, copy: c_int) -> c_int {
    files::follow(copy, files::of(descriptor));
    copy
}

unsafe fn open_stream(
    name: *const c_char,
    mode: *const c_char,
    site: *const Site,
    open: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        text_length(name, site);
        text_length(mode, site);
        files::note_stream(name, mode, site);
        match open_random(name) {
            None => open(),
            Some(-1) => null_mut(),
            Some(descriptor) => libc::fdopen(descriptor, mode).cast(),
        }
    }
}

replace! {
    fn close(descriptor: c_int) -> c_int, caller(rsi)
    |_site| { files::follow(descriptor, None); real(descriptor) }

    fn close_range(first: u32, last: u32, flags: c_int) -> c_int, caller(rcx)
    |_site| {
        files::closed(first as usize, last as usize);
        real(first, last, flags)
    }

    fn closefrom(first: c_int), caller(rsi)
    |_site| {
        files::closed(first.max(0) as usize, usize::MAX);
        real(first)
    }

    fn dup(descriptor: c_int) -> c_int, caller(rsi)
    |_site| { follow_copy(descriptor, real(descriptor)) }

    fn dup2(descriptor: c_int, wanted: c_int) -> c_int, caller(rdx)
    |_site| { follow_copy(descriptor, real(descriptor, wanted)) }

    fn dup3(descriptor: c_int, wanted: c_int, flags: c_int) -> c_int, caller(rcx)
    |_site| { follow_copy(descriptor, real(descriptor, wanted, flags)) }

    fn fcntl(descriptor: c_int, command: c_int, argument: usize) -> c_int, caller(rcx)
    |_site| {
        let answer = real(descriptor, command, argument);
        let copies = matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC);
        if copies { follow_copy(descriptor, answer) } else { answer }
    }

    fn fcntl64(descriptor: c_int, command: c_int, argument: usize) -> c_int, caller(rcx)
    |_site| { libc::fcntl(descriptor, command, argument) }

    fn munmap(start: usize, bytes: usize) -> c_int, caller(rdx)
    |_site| { if is_pm(start as u64) { 0 } else { real(start, bytes) } }

    fn mprotect(start: usize, bytes: usize, protection: c_int) -> c_int, caller(rcx)
    |_site| { if is_pm(start as u64) { 0 } else { real(start, bytes, protection) } }

    fn msync(start: usize, bytes: usize, flags: c_int) -> c_int, caller(rcx)
    |site| {
        if !is_pm(start as u64) {
            return real(start, bytes, flags);
        }
        if !(start as u64).is_multiple_of(PAGE) {
            return fail(libc::EINVAL);
        }
        if flags & libc::MS_SYNC != 0 {
            files::write_back(start as u64, bytes as u64, site);
        }
        0
    }

    fn mremap(start: usize, bytes: usize, wanted: usize, flags: c_int, to: usize) -> *mut c_void, caller(r9)
    |site| {
        if !is_pm(start as u64) {
            return real(start, bytes, wanted, flags, to);
        }
        if flags & libc::MREMAP_FIXED == 0 && files::within_one(start as u64, wanted as u64) {
            return start as *mut c_void;
        }
        unknown(reason::FILE_GREW, site);
        fail(libc::ENOMEM);
        libc::MAP_FAILED
    }

    fn unlinkat(directory: c_int, name: *const c_char, flags: c_int) -> c_int, caller(rcx)
    |site| { files::remove(directory, name, site).unwrap_or_else(|| real(directory, name, flags)) }

    fn rename(from: *const c_char, to: *const c_char) -> c_int, caller(rdx)
    |site| {
        if files::named(libc::AT_FDCWD, from).or(files::named(libc::AT_FDCWD, to)).is_some() {
            unknown(reason::RENAMED, site);
            return fail(libc::EXDEV);
        }
        real(from, to)
    }

    fn access(name: *const c_char, mode: c_int) -> c_int, caller(rdx)
    |_site| { if files::is_missing(libc::AT_FDCWD, name) { fail(libc::ENOENT) } else { real(name, mode) } }

    fn faccessat(directory: c_int, name: *const c_char, mode: c_int, flags: c_int) -> c_int, caller(r8)
    |_site| { if files::is_missing(directory, name) { fail(libc::ENOENT) } else { real(directory, name, mode, flags) } }

    /// What Rust's standard library asks.
    fn statx(directory: c_int, name: *const c_char, flags: c_int, mask: u32, status: *mut libc::statx) -> c_int, caller(r9)
    |site| {
        if files::is_missing(directory, name) { return fail(libc::ENOENT); }
        with_result(status, site, |status| real(directory, name, flags, mask, status))
    }
}

replace! { [open open64] {
    (name: *const c_char, flags: c_int, mode: c_int) -> c_int, caller(rcx)
    |site| { files::open_with(libc::AT_FDCWD, name, flags, false, site, |flags| real(name, flags, mode)) }
} }

replace! { [__open_2 __open64_2] {
    (name: *const c_char, flags: c_int) -> c_int, caller(rdx)
    |site| { files::open_with(libc::AT_FDCWD, name, flags, false, site, |flags| real(name, flags)) }
} }

replace! { [openat openat64] {
    (directory: c_int, name: *const c_char, flags: c_int, mode: c_int) -> c_int, caller(r8)
    |site| { files::open_with(directory, name, flags, false, site, |flags| real(directory, name, flags, mode)) }
} }

replace! { [creat creat64] {
    (name: *const c_char, mode: c_int) -> c_int, caller(rdx)
    |_site| { libc::open(name, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode) }
} }

replace! { [mmap mmap64] {
    (wanted: usize, bytes: usize, protection: c_int, flags: c_int, descriptor: c_int, offset: i64) -> *mut c_void,
        caller(stack)
    |site| {
        match files::map_anything(wanted as u64, bytes as u64, protection, flags, descriptor, offset as u64, site) {
            Some(address) => address,
            None => real(wanted, bytes, protection, flags, descriptor, offset),
        }
    }
} }

replace! { [madvise posix_madvise] {
    (start: usize, bytes: usize, advice: c_int) -> c_int, caller(rcx)
    |_site| { if is_pm(start as u64) { 0 } else { real(start, bytes, advice) } }
} }

replace! { [ftruncate ftruncate64] {
    (descriptor: c_int, size: i64) -> c_int, caller(rdx)
    |site| { files::resize(descriptor, size, site).unwrap_or_else(|| real(descriptor, size)) }
} }

replace! { [fallocate fallocate64] {
    (descriptor: c_int, mode: c_int, offset: i64, bytes: i64) -> c_int, caller(r8)
    |site| {
        files::punch(descriptor, mode, offset, bytes, site).unwrap_or_else(|| real(descriptor, mode, offset, bytes))
    }
} }

replace! { [sendfile sendfile64] {
    (to: c_int, from: c_int, offset: *mut i64, bytes: usize) -> isize, caller(r8)
    |site| { files::copied_by_kernel(to, from, site); real(to, from, offset, bytes) }
} }

replace! { [splice copy_file_range] {
    (from: c_int, at: *mut i64, to: c_int, to_at: *mut i64, bytes: usize, flags: u32) -> isize, caller(stack)
    |site| { files::copied_by_kernel(to, from, site); real(from, at, to, to_at, bytes, flags) }
} }

replace! { [fsync fdatasync] {
    (descriptor: c_int) -> c_int, caller(rsi)
    |site| { if files::sync(descriptor, site) { 0 } else { real(descriptor) } }
} }

// Also removes directories; those are never in the table.
replace! { [unlink remove] {
    (name: *const c_char) -> c_int, caller(rsi)
    |site| { files::remove(libc::AT_FDCWD, name, site).unwrap_or_else(|| real(name)) }
} }

replace! { [stat stat64 lstat lstat64] {
    (name: *const c_char, status: Status) -> c_int, caller(rdx)
    |site| {
        if files::is_missing(libc::AT_FDCWD, name) { return fail(libc::ENOENT); }
        text_length(name, site);
        with_result(status, site, |status| real(name, status))
    }
} }

replace! { [fstatat fstatat64] {
    (directory: c_int, name: *const c_char, status: Status, flags: c_int) -> c_int, caller(r8)
    |site| {
        if files::is_missing(directory, name) { return fail(libc::ENOENT); }
        text_length(name, site);
        with_result(status, site, |status| real(directory, name, status, flags))
    }
} }

replace! { [fopen fopen64] {
    (name: *const c_char, mode: *const c_char) -> *mut c_void, caller(rdx)
    |site| { open_stream(name, mode, site, || real(name, mode)) }
} }
