//! libpmem2: sources, configurations, mappings, and the functions that a mapping provides.
//!
//! A mapping is persistent memory regardless of the file's path, unless it is private or anonymous.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use crate::interpose::provide;
use crate::session::recording;
use crate::{files, mappings, pmem};

/// Error codes, negative as the functions return them.
mod error {
    pub(super) const INVALID_FILE_HANDLE: i32 = -100_004;
    pub(super) const INVALID_FILE_TYPE: i32 = -100_005;
    pub(super) const MAP_RANGE: i32 = -100_006;
    pub(super) const GRANULARITY_NOT_SET: i32 = -100_008;
    pub(super) const OFFSET_OUT_OF_RANGE: i32 = -100_010;
    pub(super) const OFFSET_UNALIGNED: i32 = -100_011;
    pub(super) const LENGTH_UNALIGNED: i32 = -100_015;
    pub(super) const SOURCE_EMPTY: i32 = -100_018;
    pub(super) const INVALID_SHARING_VALUE: i32 = -100_019;
    pub(super) const FILE_DESCRIPTOR_NOT_SET: i32 = -100_035;
}

const CACHE_LINE: c_int = 1;
const PAGE: c_int = 2;
const PAGE_BYTES: usize = 4096;

pub(crate) struct Source {
    /// -1 for anonymous memory.
    descriptor: c_int,
    bytes: usize,
}

pub(crate) struct Config {
    offset: usize,
    length: usize,
    granularity: Option<c_int>,
    private: bool,
}

pub(crate) struct Map {
    address: *mut c_void,
    length: usize,
    granularity: c_int,
}

fn refuse(what: &str, error: c_int) -> c_int {
    pmem::complain(what);
    error
}

fn system_error() -> c_int {
    let error = std::io::Error::last_os_error();
    pmem::complain(&error.to_string());
    -error.raw_os_error().unwrap_or(libc::EIO)
}

unsafe fn give<T>(to: *mut *mut T, value: T) -> c_int {
    // SAFETY: the program vouches for its pointers, as it would to libpmem2.
    unsafe {
        *to = Box::into_raw(Box::new(value));
        0
    }
}

unsafe fn take<T>(from: *mut *mut T) -> Option<T> {
    // SAFETY: the program vouches for its pointers, as it would to libpmem2.
    unsafe {
        let pointer = std::mem::replace(&mut *from, null_mut());
        (!pointer.is_null()).then(|| *Box::from_raw(pointer))
    }
}

unsafe fn new_map(map: *mut *mut Map, config: &Config, source: &Source) -> c_int {
    // SAFETY: the program vouches for its pointers, as it would to libpmem2.
    unsafe {
        let Some(wanted) = config.granularity else {
            return refuse(
                "please define the max granularity requested for the mapping",
                error::GRANULARITY_NOT_SET,
            );
        };
        if source.bytes == 0 {
            return refuse("the source has no content", error::SOURCE_EMPTY);
        }
        let length =
            if config.length == 0 { source.bytes.saturating_sub(config.offset) } else { config.length };
        if length == 0 || config.offset + length > source.bytes {
            return refuse("mapping larger than file size", error::MAP_RANGE);
        }
        if !length.is_multiple_of(PAGE_BYTES) && config.length != 0 {
            return refuse("length is not a multiple of the page size", error::LENGTH_UNALIGNED);
        }
        if !config.offset.is_multiple_of(PAGE_BYTES) {
            return refuse("offset is not a multiple of the page size", error::OFFSET_UNALIGNED);
        }
        let persistent = recording() && !config.private && source.descriptor >= 0;
        let site = std::ptr::null();
        let file = if persistent { files::adopt(source.descriptor, site) } else { None };
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let address = match file {
            Some(file) => {
                let (length, offset) = (length as u64, config.offset as u64);
                mappings::map(file, 0, length, protection, libc::MAP_SHARED, offset, site)
            }
            None => {
                let sharing = match (config.private, source.descriptor) {
                    (_, -1) => libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    (true, _) => libc::MAP_PRIVATE,
                    _ => libc::MAP_SHARED,
                };
                libc::mmap(null_mut(), length, protection, sharing, source.descriptor, config.offset as i64)
            }
        };
        if address == libc::MAP_FAILED {
            return system_error();
        }
        let granularity = if file.is_some() { CACHE_LINE } else { wanted.min(PAGE) };
        give(map, Map { address, length, granularity })
    }
}

provide! {
    fn pmem2_source_from_fd(source: *mut *mut Source, descriptor: c_int) -> c_int, caller(rdx)
    |_site| {
        let mut status: libc::stat = std::mem::zeroed();
        if descriptor < 0 || libc::fstat(descriptor, &raw mut status) != 0 {
            return refuse("invalid file descriptor", error::INVALID_FILE_HANDLE);
        }
        if status.st_mode & libc::S_IFMT == libc::S_IFDIR {
            return refuse("not a file", error::INVALID_FILE_TYPE);
        }
        give(source, Source { descriptor, bytes: status.st_size as usize })
    }

    fn pmem2_source_from_anon(source: *mut *mut Source, bytes: usize) -> c_int, caller(rdx)
    |_site| { give(source, Source { descriptor: -1, bytes }) }

    fn pmem2_source_size(source: *const Source, bytes: *mut usize) -> c_int, caller(rdx)
    |_site| {
        let mut status: libc::stat = std::mem::zeroed();
        let from_file = (*source).descriptor >= 0 && libc::fstat((*source).descriptor, &raw mut status) == 0;
        *bytes = if from_file { status.st_size as usize } else { (*source).bytes };
        0
    }

    fn pmem2_source_alignment(source: *const Source, alignment: *mut usize) -> c_int, caller(rdx)
    |_site| { let _ = source; *alignment = PAGE_BYTES; 0 }

    fn pmem2_source_get_fd(source: *const Source, descriptor: *mut c_int) -> c_int, caller(rdx)
    |_site| {
        if (*source).descriptor < 0 {
            return refuse("the source is not a file", error::FILE_DESCRIPTOR_NOT_SET);
        }
        *descriptor = (*source).descriptor;
        0
    }

    fn pmem2_source_delete(source: *mut *mut Source) -> c_int, caller(rsi)
    |_site| { let _ = take(source); 0 }

    fn pmem2_config_new(config: *mut *mut Config) -> c_int, caller(rsi)
    |_site| { give(config, Config { offset: 0, length: 0, granularity: None, private: false }) }

    fn pmem2_config_delete(config: *mut *mut Config) -> c_int, caller(rsi)
    |_site| { let _ = take(config); 0 }

    fn pmem2_config_set_offset(config: *mut Config, offset: usize) -> c_int, caller(rdx)
    |_site| {
        if i64::try_from(offset).is_err() {
            return refuse("offset is greater than INT64_MAX", error::OFFSET_OUT_OF_RANGE);
        }
        (*config).offset = offset;
        0
    }

    fn pmem2_config_set_length(config: *mut Config, length: usize) -> c_int, caller(rdx)
    |_site| { (*config).length = length; 0 }

    fn pmem2_config_set_sharing(config: *mut Config, kind: c_int) -> c_int, caller(rdx)
    |_site| {
        if !(0..=1).contains(&kind) {
            return refuse("unknown sharing value", error::INVALID_SHARING_VALUE);
        }
        (*config).private = kind == 1;
        0
    }

    fn pmem2_config_set_protection(config: *mut Config, protection: c_uint) -> c_int, caller(rdx)
    |_site| { let _ = (config, protection); 0 }

    fn pmem2_config_set_required_store_granularity(config: *mut Config, granularity: c_int) -> c_int, caller(rdx)
    |_site| { (*config).granularity = Some(granularity); 0 }

    fn pmem2_map_new(map: *mut *mut Map, config: *const Config, source: *const Source) -> c_int, caller(rcx)
    |_site| { new_map(map, &*config, &*source) }

    fn pmem2_map_delete(map: *mut *mut Map) -> c_int, caller(rsi)
    |_site| {
        if let Some(old) = take(map) {
            libc::munmap(old.address, old.length);
        }
        0
    }

    fn pmem2_map_get_address(map: *mut Map) -> *mut c_void, caller(rsi)
    |_site| { (*map).address }

    fn pmem2_map_get_size(map: *mut Map) -> usize, caller(rsi)
    |_site| { (*map).length }

    fn pmem2_map_get_store_granularity(map: *mut Map) -> c_int, caller(rsi)
    |_site| { (*map).granularity }

    fn pmem2_get_persist_fn(map: *mut Map) -> *const c_void, caller(rsi)
    |_site| { let _ = map; pmem::pmem_persist as *const c_void }

    fn pmem2_get_flush_fn(map: *mut Map) -> *const c_void, caller(rsi)
    |_site| { let _ = map; pmem::pmem_flush as *const c_void }

    fn pmem2_get_drain_fn(map: *mut Map) -> *const c_void, caller(rsi)
    |_site| { let _ = map; pmem::pmem_drain as *const c_void }

    fn pmem2_get_memmove_fn(map: *mut Map) -> *const c_void, caller(rsi)
    |_site| { let _ = map; pmem::pmem_memmove as *const c_void }

    fn pmem2_get_memcpy_fn(map: *mut Map) -> *const c_void, caller(rsi)
    |_site| { let _ = map; pmem::pmem_memcpy as *const c_void }

    fn pmem2_get_memset_fn(map: *mut Map) -> *const c_void, caller(rsi)
    |_site| { let _ = map; pmem::pmem_memset as *const c_void }

    fn pmem2_deep_flush(map: *mut Map, start: *mut c_void, bytes: usize) -> c_int, caller(rcx)
    |site| { let _ = map; pmem::persist(start, bytes, site); 0 }

    fn pmem2_errormsg() -> *const c_char, caller(rdi)
    |_site| { pmem::message() }

    fn pmem2_err_to_errno(error: c_int) -> c_int, caller(rsi)
    |_site| { if error > -100_000 { -error } else { libc::EINVAL } }

    /// Prints the error, without the formatted text.
    fn pmem2_perror(format: *const c_char), caller(rsi)
    |_site| {
        let _ = format;
        let text = CStr::from_ptr(pmem::message()).to_string_lossy() + "\n";
        libc::write(2, text.as_ptr().cast(), text.len());
    }
}
