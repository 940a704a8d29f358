//! Implements libpmem by recorded events.
//!
//! Flushes are `clwb`, drains `sfence`. Copies do what libpmem does on x86: in copies of 256 bytes and more, whole
//! lines are non-temporal stores; everything else is plain stores that are flushed, unless flags choose otherwise.
//! Whatever `pmem_map_file` maps is persistent memory, whether on the PM path or not, except temporary files, which do
//! not survive a crash.
//!
//! Without the checker nothing is persistent memory, and persisting is `msync`.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crashproof_protocol::abi::{Site, is_pm};
use libc::mode_t;
use px86::line::covered;
use px86::{Kind, LINE_BYTES};

use crate::c_library::memory::{copy as copy_memory, fill, readable, write};
use crate::interpose::provide;
use crate::session::{has_persistent_caches, recording};
use crate::system::{KeptErrno, set_errno};
use crate::{access, files, fixed, mappings, raw};

/// Flags of `pmem_map_file`.
mod file {
    pub(super) const CREATE: i32 = 1;
    pub(super) const EXCLUSIVE: i32 = 2;
    pub(super) const SPARSE: i32 = 4;
    pub(super) const TEMPORARY: i32 = 8;
}

/// Flags of the copying functions.
mod memory {
    pub(super) const NO_DRAIN: u32 = 1;
    pub(super) const NON_TEMPORAL: u32 = 2;
    pub(super) const TEMPORAL: u32 = 4;
    pub(super) const COMBINE: u32 = 8;
    pub(super) const WRITE_BACK: u32 = 16;
    pub(super) const NO_FLUSH: u32 = 32;
}

/// From this many bytes on, libpmem's copies bypass the cache.
const NON_TEMPORAL_FROM: usize = 256;
/// Larger flushes first determine which pages were written.
const LARGE: u64 = 1 << 20;

/// Log levels; nothing is ever logged.
static THRESHOLDS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

/// The last error message.
static MESSAGE: Mutex<Option<CString>> = Mutex::new(None);

/// Sets the message for `pmem_errormsg`.
pub(crate) fn complain(what: &str) {
    *MESSAGE.lock().unwrap_or_else(PoisonError::into_inner) = CString::new(what).ok();
}

pub(crate) fn message() -> *const c_char {
    let message = MESSAGE.lock().unwrap_or_else(PoisonError::into_inner);
    message.as_ref().map_or(c"".as_ptr(), |text| text.as_ptr())
}

fn refuse(what: &str, error: c_int) -> *mut c_void {
    complain(what);
    set_errno(error);
    null_mut()
}

pub(crate) fn flush(start: *const c_void, bytes: usize, site: *const Site) {
    let (start, bytes) = (fixed::in_pool(start as u64), bytes as u64);
    if !recording() || !is_pm(start) || bytes == 0 {
        return;
    }
    let flush_lines = |from, bytes| {
        covered(from, bytes).for_each(|line| access::flush(Kind::FlushOpt, line.start(), site));
    };
    if bytes <= LARGE {
        return flush_lines(start, bytes);
    }
    // Stores still in this thread's store buffer count as written, too.
    // SAFETY: reads nothing.
    unsafe { access::before_read_range(start, 0, site) };
    for (page, length) in files::written_pages(start, bytes) {
        let from = page.max(start);
        flush_lines(from, (page + length).min(start + bytes) - from);
    }
}

pub(crate) fn drain(site: *const Site) {
    access::fence(Kind::StoreFence, site);
}

unsafe fn sync_file(start: *const c_void, bytes: usize) -> c_int {
    // SAFETY: the program vouches for its pointers, as it would to libpmem.
    unsafe {
        let page = start as usize & !4095;
        libc::msync(page as *mut c_void, start as usize + bytes - page, libc::MS_SYNC)
    }
}

pub(crate) unsafe fn persist(start: *const c_void, bytes: usize, site: *const Site) {
    // SAFETY: the program vouches for its pointers, as it would to libpmem.
    unsafe {
        if recording() {
            flush(start, bytes, site);
            drain(site);
        } else {
            sync_file(start, bytes);
        }
    }
}

fn is_past_cache(bytes: usize, flags: u32) -> bool {
    if flags & (memory::NON_TEMPORAL | memory::COMBINE) != 0 {
        return true;
    }
    flags & (memory::TEMPORAL | memory::WRITE_BACK | memory::NO_FLUSH) == 0 && bytes >= NON_TEMPORAL_FROM
}

/// Stores as the flags demand, with `store`, which gets a kind, an offset and a length.
unsafe fn store_flagged(
    to: *mut c_void,
    bytes: usize,
    flags: u32,
    site: *const Site,
    store: impl Fn(Kind, usize, usize),
) {
    let start = to as usize;
    let past_cache = is_past_cache(bytes, flags);
    let line = LINE_BYTES as usize;
    let whole = if past_cache { start.next_multiple_of(line)..(start + bytes) / line * line } else { 0..0 };
    if whole.is_empty() {
        store(Kind::Store, 0, bytes);
        if flags & memory::NO_FLUSH == 0 {
            flush(to, bytes, site);
        }
    } else {
        let parts =
            [(start, whole.start, false), (whole.start, whole.end, true), (whole.end, start + bytes, false)];
        for (from, end, past_cache) in parts.into_iter().filter(|(from, end, _)| from < end) {
            store(if past_cache { Kind::NonTemporalStore } else { Kind::Store }, from - start, end - from);
            if !past_cache && flags & memory::NO_FLUSH == 0 {
                flush(from as *const c_void, end - from, site);
            }
        }
    }
    if flags & (memory::NO_DRAIN | memory::NO_FLUSH) == 0 {
        drain(site);
    }
}

pub(crate) unsafe fn copy(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    flags: u32,
    site: *const Site,
) -> *mut c_void {
    // SAFETY: the program vouches for its pointers, as it would to libpmem.
    unsafe {
        if !recording() || !is_pm(to as u64) {
            copy_memory(to, from, bytes, site);
            if !recording() && flags & (memory::NO_DRAIN | memory::NO_FLUSH) == 0 {
                sync_file(to, bytes);
            }
            return to;
        }
        readable(from, bytes, site);
        let mut held = Vec::new();
        let mut source = from.cast::<u8>();
        let apart = (to as usize).abs_diff(from as usize) >= bytes;
        if !apart {
            held.resize(bytes, 0);
            raw::copy(held.as_mut_ptr(), source, bytes);
            source = held.as_ptr();
        }
        store_flagged(to, bytes, flags, site, |kind, at, length| {
            access::store_range(kind, to as u64 + at as u64, source.add(at), length as u64, site);
        });
        to
    }
}

pub(crate) unsafe fn set(
    to: *mut c_void,
    byte: c_int,
    bytes: usize,
    flags: u32,
    site: *const Site,
) -> *mut c_void {
    // SAFETY: the program vouches for its pointers, as it would to libpmem.
    unsafe {
        if !recording() || !is_pm(to as u64) {
            fill(to, byte, bytes, site);
            if !recording() && flags & (memory::NO_DRAIN | memory::NO_FLUSH) == 0 {
                sync_file(to, bytes);
            }
            return to;
        }
        let source = vec![byte as u8; bytes];
        store_flagged(to, bytes, flags, site, |kind, at, length| {
            access::store_range(kind, to as u64 + at as u64, source.as_ptr().add(at), length as u64, site);
        });
        to
    }
}

unsafe fn map_file(
    path: *const c_char,
    bytes: usize,
    flags: c_int,
    mode: mode_t,
    mapped: *mut usize,
    is_pmem: *mut c_int,
    site: *const Site,
) -> *mut c_void {
    // SAFETY: the program vouches for its pointers, as it would to libpmem.
    unsafe {
        let creates = flags & file::CREATE != 0;
        let temporary = flags & file::TEMPORARY != 0;
        if flags & !(file::CREATE | file::EXCLUSIVE | file::SPARSE | file::TEMPORARY) != 0 {
            return refuse("invalid flag specified", libc::EINVAL);
        }
        if creates == (bytes == 0) || temporary && !creates {
            return refuse("invalid combination of size and flags", libc::EINVAL);
        }
        let mut open = libc::O_RDWR | libc::O_CLOEXEC;
        if temporary {
            open |= libc::O_TMPFILE;
        } else if creates {
            open |= libc::O_CREAT;
        }
        if flags & file::EXCLUSIVE != 0 {
            open |= libc::O_EXCL;
        }
        let checked = recording();
        let descriptor = if checked {
            files::open_anywhere(path, open, mode as c_int, site)
        } else {
            libc::open(path, open, mode)
        };
        if descriptor < 0 {
            let text = CStr::from_ptr(path).to_string_lossy();
            complain(&format!("open \"{text}\": {}", std::io::Error::last_os_error()));
            return null_mut();
        }
        let mapping = map_descriptor(descriptor, bytes, flags, checked && !temporary, site);
        let errno = KeptErrno::new();
        libc::close(descriptor);
        drop(errno);
        let Some((address, length)) = mapping else { return null_mut() };
        if !mapped.is_null() {
            write(mapped, &raw const length, size_of_val(&length), site);
        }
        if !is_pmem.is_null() {
            let answer = c_int::from(is_pm(address as u64));
            write(is_pmem, &raw const answer, size_of_val(&answer), site);
        }
        address
    }
}

/// Resizes an open file and maps it.
unsafe fn map_descriptor(
    descriptor: c_int,
    bytes: usize,
    flags: c_int,
    as_pm: bool,
    site: *const Site,
) -> Option<(*mut c_void, usize)> {
    // SAFETY: the program vouches for its pointers, as it would to libpmem.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        libc::fstat(descriptor, &raw mut status);
        let mut length = status.st_size as usize;
        if flags & file::CREATE != 0 {
            length = bytes;
            // The C library's functions would take this place for the program's.
            let resized = files::resize(descriptor, bytes as i64, site);
            if resized.unwrap_or_else(|| libc::ftruncate(descriptor, bytes as i64)) != 0 {
                complain(&format!("ftruncate: {}", std::io::Error::last_os_error()));
                return None;
            }
            if flags & file::SPARSE == 0 {
                let allocated = files::punch(descriptor, 0, 0, bytes as i64, site);
                let error = allocated.unwrap_or_else(|| libc::posix_fallocate(descriptor, 0, bytes as i64));
                if error != 0 {
                    refuse("posix_fallocate", error);
                    return None;
                }
            }
        }
        if length == 0 {
            refuse("file is empty", libc::EINVAL);
            return None;
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let address = match files::of(descriptor).filter(|_| as_pm) {
            Some(file) => mappings::map(file, 0, length as u64, protection, libc::MAP_SHARED, 0, site),
            None => libc::mmap(null_mut(), length, protection, libc::MAP_SHARED, descriptor, 0),
        };
        if address == libc::MAP_FAILED {
            complain(&format!("mmap: {}", std::io::Error::last_os_error()));
            return None;
        }
        Some((address, length))
    }
}

provide! {
    fn pmem_map_file(path: *const c_char, bytes: usize, flags: c_int, mode: mode_t, mapped: *mut usize, is_pmem: *mut c_int) -> *mut c_void,
        caller(stack)
    |site| { map_file(path, bytes, flags, mode, mapped, is_pmem, site) }

    fn pmem_unmap(start: *mut c_void, bytes: usize) -> c_int, caller(rdx)
    |_site| { libc::munmap(start, bytes) }

    fn pmem_is_pmem(start: *const c_void, bytes: usize) -> c_int, caller(rdx)
    |_site| { c_int::from(recording() && is_pm(start as u64) && is_pm(start as u64 + bytes as u64)) }

    fn pmem_persist(start: *const c_void, bytes: usize), caller(rdx)
    |site| { persist(start, bytes, site) }

    fn pmem_msync(start: *const c_void, bytes: usize) -> c_int, caller(rdx)
    |site| {
        if recording() && is_pm(start as u64) {
            files::write_back(start as u64, bytes as u64, site);
            return 0;
        }
        sync_file(start, bytes)
    }

    fn pmem_has_auto_flush() -> c_int, caller(rdi)
    |_site| { c_int::from(has_persistent_caches()) }

    fn pmem_deep_drain(start: *const c_void, bytes: usize) -> c_int, caller(rdx)
    |site| { let _ = (start, bytes); drain(site); 0 }

    fn pmem_deep_persist(start: *const c_void, bytes: usize) -> c_int, caller(rdx)
    |site| { persist(start, bytes, site); 0 }

    fn pmem_drain(), caller(rdi)
    |site| { drain(site) }

    fn pmem_has_hw_drain() -> c_int, caller(rdi)
    |_site| { 0 }

    fn pmem_memset(to: *mut c_void, byte: c_int, bytes: usize, flags: c_uint) -> *mut c_void, caller(r8)
    |site| { set(to, byte, bytes, flags, site) }

    fn pmem_memset_persist(to: *mut c_void, byte: c_int, bytes: usize) -> *mut c_void, caller(rcx)
    |site| { set(to, byte, bytes, 0, site) }

    fn pmem_memset_nodrain(to: *mut c_void, byte: c_int, bytes: usize) -> *mut c_void, caller(rcx)
    |site| { set(to, byte, bytes, memory::NO_DRAIN, site) }

    fn pmem_check_version(major: c_uint, minor: c_uint) -> *const c_char, caller(rdx)
    |_site| {
        if major != 1 {
            return c"libpmem major version mismatch: crashproof provides version 1".as_ptr();
        }
        if minor > 1 {
            return c"libpmem minor version mismatch: crashproof provides version 1.1".as_ptr();
        }
        std::ptr::null()
    }

    fn pmem_errormsg() -> *const c_char, caller(rdi)
    |_site| { message() }

    fn pmem_log_set_threshold(which: c_uint, level: c_uint) -> c_int, caller(rdx)
    |_site| {
        let Some(threshold) = THRESHOLDS.get(which as usize) else { return libc::EINVAL };
        threshold.store(level, Ordering::Relaxed);
        0
    }

    fn pmem_log_get_threshold(which: c_uint, level: *mut c_uint) -> c_int, caller(rdx)
    |_site| {
        let Some(threshold) = THRESHOLDS.get(which as usize) else { return libc::EINVAL };
        *level = threshold.load(Ordering::Relaxed);
        0
    }

    fn pmem_log_set_function(function: *const c_void) -> c_int, caller(rsi)
    |_site| { let _ = function; 0 }
}

provide! { [pmem_flush pmem_deep_flush] {
    (start: *const c_void, bytes: usize), caller(rdx)
    |site| { flush(start, bytes, site) }
} }

provide! { [pmem_memmove pmem_memcpy] {
    (to: *mut c_void, from: *const c_void, bytes: usize, flags: c_uint) -> *mut c_void, caller(r8)
    |site| { copy(to, from, bytes, flags, site) }
} }

provide! { [pmem_memmove_persist pmem_memcpy_persist] {
    (to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void, caller(rcx)
    |site| { copy(to, from, bytes, 0, site) }
} }

provide! { [pmem_memmove_nodrain pmem_memcpy_nodrain] {
    (to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void, caller(rcx)
    |site| { copy(to, from, bytes, memory::NO_DRAIN, site) }
} }
