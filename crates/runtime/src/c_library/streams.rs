//! Streams of persistent files, and directory listings that contain such files.
//!
//! A stream of the C library reads and writes its descriptor directly, bypassing the pool. So a stream opened for a
//! followed file uses the runtime's callbacks (`fopencookie`), and `fileno` returns the descriptor. Buffered data is
//! written at the site where the program flushes or closes the stream.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use crashproof_protocol::abi::Site;

use super::determinism::open_random;
use super::memory::text_length;
use super::results::with_result;
use crate::cell::RunningThreadCell;
use crate::interpose::replace;
use crate::system::fail;
use crate::{directories, facts, files};

type Stream = *mut c_void;

/// The descriptors of followed streams, by the stream's address.
static STREAMS: RunningThreadCell<BTreeMap<usize, c_int>> = RunningThreadCell::new(BTreeMap::new());
/// The site at which the program is currently flushing or closing a stream.
static FLUSHED_AT: RunningThreadCell<*const Site> = RunningThreadCell::new(null());

/// State of a followed stream: its descriptor, and the site that opened it.
struct Cookie {
    descriptor: c_int,
    opened: *const Site,
}

impl Cookie {
    fn site(&self) -> *const Site {
        let flushed = FLUSHED_AT.get();
        if flushed.is_null() { self.opened } else { flushed }
    }
}

unsafe extern "C" fn read(cookie: *mut c_void, to: *mut c_char, bytes: usize) -> isize {
    // SAFETY: the stream's own cookie and buffer.
    unsafe {
        let cookie = &*cookie.cast::<Cookie>();
        files::read(cookie.descriptor, to.cast(), bytes, None, cookie.site()).unwrap_or(-1)
    }
}

unsafe extern "C" fn write(cookie: *mut c_void, from: *const c_char, bytes: usize) -> isize {
    // SAFETY: the stream's own cookie and buffer.
    unsafe {
        let cookie = &*cookie.cast::<Cookie>();
        // Returning 0 signals failure to the stream.
        files::write(cookie.descriptor, from.cast(), bytes, None, cookie.site())
            .map_or(0, |count| count.max(0))
    }
}

unsafe extern "C" fn seek(cookie: *mut c_void, offset: *mut i64, whence: c_int) -> c_int {
    // SAFETY: the stream's own cookie.
    unsafe {
        let position = libc::lseek((*cookie.cast::<Cookie>()).descriptor, *offset, whence);
        if position < 0 {
            return -1;
        }
        *offset = position;
        0
    }
}

unsafe extern "C" fn close(cookie: *mut c_void) -> c_int {
    // SAFETY: allocated by `open_stream`; this is its last use.
    unsafe { libc::close(Box::from_raw(cookie.cast::<Cookie>()).descriptor) }
}

#[repr(C)]
struct Functions {
    read: unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> isize,
    write: unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> isize,
    seek: unsafe extern "C" fn(*mut c_void, *mut i64, c_int) -> c_int,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> Stream;
}

/// The flags of `open` for a stream's mode.
fn flags_of(mode: &[u8]) -> c_int {
    let both = mode.contains(&b'+');
    let access = |one| if both { libc::O_RDWR } else { one };
    let more = |letter: u8, flag| if mode.contains(&letter) { flag } else { 0 };
    let flags = match mode.first() {
        Some(b'w') => access(libc::O_WRONLY) | libc::O_CREAT | libc::O_TRUNC,
        Some(b'a') => access(libc::O_WRONLY) | libc::O_CREAT | libc::O_APPEND,
        _ => access(libc::O_RDONLY),
    };
    flags | more(b'x', libc::O_EXCL) | more(b'e', libc::O_CLOEXEC)
}

/// Makes a stream for a followed descriptor.
unsafe fn stream_of(descriptor: c_int, mode: *const c_char, site: *const Site) -> Stream {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let cookie = Box::into_raw(Box::new(Cookie { descriptor, opened: site }));
        let stream = fopencookie(cookie.cast(), mode, Functions { read, write, seek, close });
        STREAMS.with(|streams| streams.insert(stream as usize, descriptor));
        stream
    }
}

unsafe fn open_stream(
    name: *const c_char,
    mode: *const c_char,
    site: *const Site,
    open: impl FnOnce() -> Stream,
) -> Stream {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        text_length(name, site);
        text_length(mode, site);
        match open_random(name) {
            None => {}
            Some(-1) => return null_mut(),
            Some(descriptor) => return libc::fdopen(descriptor, mode).cast(),
        }
        match files::open_for_stream(name, flags_of(CStr::from_ptr(mode).to_bytes()), site) {
            None => open(),
            Some(-1) => null_mut(),
            Some(descriptor) => stream_of(descriptor, mode, site),
        }
    }
}

/// Writes buffered stream data, attributed to a site in the program.
fn flushing<R>(site: *const Site, flush: impl FnOnce() -> R) -> R {
    FLUSHED_AT.set(site);
    let result = flush();
    FLUSHED_AT.set(null());
    result
}

replace! {
    fn fclose(stream: Stream) -> c_int, caller(rsi)
    |site| {
        STREAMS.with(|streams| streams.remove(&(stream as usize)));
        flushing(site, || real(stream))
    }

    fn fflush(stream: Stream) -> c_int, caller(rsi)
    |site| { flushing(site, || real(stream)) }

    fn fdopen(descriptor: c_int, mode: *const c_char) -> Stream, caller(rdx)
    |site| {
        if files::of(descriptor).is_some() { stream_of(descriptor, mode, site) } else { real(descriptor, mode) }
    }
}

replace! { [fileno fileno_unlocked] {
    (stream: Stream) -> c_int, caller(rsi)
    |_site| { STREAMS.with(|streams| streams.get(&(stream as usize)).copied()).unwrap_or_else(|| real(stream)) }
} }

replace! { [fopen fopen64] {
    (name: *const c_char, mode: *const c_char) -> Stream, caller(rdx)
    |site| { open_stream(name, mode, site, || real(name, mode)) }
} }

/// The entries of a directory that differ from those on disk.
struct Listing {
    entries: Vec<libc::dirent64>,
    next: usize,
}

/// Listings that are open, by their address.
static LISTINGS: RunningThreadCell<BTreeMap<usize, Box<Listing>>> = RunningThreadCell::new(BTreeMap::new());

fn listing<R>(directory: *mut c_void, access: impl FnOnce(&mut Listing) -> R) -> Option<R> {
    LISTINGS.with(|listings| listings.get_mut(&(directory as usize)).map(|listing| access(listing)))
}

/// Lists a directory's current entries, if they may differ from those on disk.
unsafe fn list(directory: *mut c_void, path: Option<Vec<u8>>, site: *const Site) {
    let Some(path) = path.filter(|_| !directory.is_null() && files::have_names()) else { return };
    let changes = facts::changed_names(&path, site);
    // SAFETY: a stream that was just opened.
    let next = || unsafe { libc::readdir64(directory.cast()).cast_const() };
    let is_hidden = |name: &[u8]| {
        let whole = [&path[..], b"/", name].concat();
        !name.starts_with(b".") && facts::on_disk(&whole).is_some() && facts::is_hidden(&whole, site)
    };
    let name_of = |path: &[u8]| path.rsplit(|byte| *byte == b'/').next().unwrap_or(path).to_vec();
    let mut entries: Vec<libc::dirent64> = Vec::new();
    loop {
        let entry = next();
        if entry.is_null() {
            break;
        }
        // SAFETY: an entry of the stream; only its own bytes are read, which end with its name.
        let (entry, name) = unsafe {
            let mut whole: libc::dirent64 = std::mem::zeroed();
            let length = (*entry).d_reclen as usize;
            std::ptr::copy_nonoverlapping(entry.cast::<u8>(), (&raw mut whole).cast::<u8>(), length);
            (whole, CStr::from_ptr((*entry).d_name.as_ptr()).to_bytes().to_vec())
        };
        if !changes.iter().any(|(path, _)| name_of(path) == name) && !is_hidden(&name) {
            entries.push(entry);
        }
    }
    for (number, (path, _)) in changes.iter().enumerate().filter(|(_, (_, there))| *there) {
        // SAFETY: all-zero bytes are a valid `dirent64`.
        let mut entry: libc::dirent64 = unsafe { std::mem::zeroed() };
        let is_directory = facts::on_disk(path).is_some_and(|(kind, _)| kind == libc::S_IFDIR);
        (entry.d_ino, entry.d_type) =
            (number as u64 + 1, if is_directory { libc::DT_DIR } else { libc::DT_REG });
        entry.d_reclen = size_of::<libc::dirent64>() as u16;
        for (to, from) in entry.d_name.iter_mut().zip(name_of(path)) {
            *to = from as c_char;
        }
        entries.push(entry);
    }
    LISTINGS.with(|listings| listings.insert(directory as usize, Box::new(Listing { entries, next: 0 })));
}

replace! {
    fn opendir(name: *const c_char) -> *mut c_void, caller(rsi)
    |site| {
        if directories::is_missing(name, site) {
            fail(libc::ENOENT);
            return null_mut();
        }
        let directory = real(name);
        list(directory, files::path_at(libc::AT_FDCWD, name), site);
        directory
    }

    fn closedir(directory: *mut c_void) -> c_int, caller(rsi)
    |_site| {
        LISTINGS.with(|listings| listings.remove(&(directory as usize)));
        real(directory)
    }

    fn rewinddir(directory: *mut c_void), caller(rsi)
    |_site| { if listing(directory, |listing| listing.next = 0).is_none() { real(directory) } }

    fn seekdir(directory: *mut c_void, position: i64), caller(rdx)
    |_site| {
        if listing(directory, |listing| listing.next = position.max(0) as usize).is_none() { real(directory, position) }
    }

    fn telldir(directory: *mut c_void) -> i64, caller(rsi)
    |_site| { listing(directory, |listing| listing.next as i64).unwrap_or_else(|| real(directory)) }
}

replace! { [readdir readdir64] {
    (directory: *mut c_void) -> *mut libc::dirent64, caller(rsi)
    |_site| {
        let next = |listing: &mut Listing| {
            listing.next += 1;
            listing.entries.get_mut(listing.next - 1).map_or(null_mut(), |entry| &raw mut *entry)
        };
        match listing(directory, next) {
            Some(entry) => entry,
            None => real(directory),
        }
    }
} }

type Entry = *mut libc::dirent64;

/// Reads a whole directory through `readdir`.
unsafe fn scan_directory(
    name: *const c_char,
    to: *mut *mut Entry,
    wanted: Option<unsafe extern "C" fn(*const libc::dirent64) -> c_int>,
    order: Option<unsafe extern "C" fn(*const c_void, *const c_void) -> c_int>,
    site: *const Site,
) -> c_int {
    // SAFETY: the program vouches for its pointers and functions, as it would to the C library.
    unsafe {
        let directory = libc::opendir(name);
        if directory.is_null() {
            return -1;
        }
        let mut found: Vec<Entry> = Vec::new();
        loop {
            let entry = libc::readdir64(directory);
            if entry.is_null() {
                break;
            }
            if wanted.is_none_or(|wanted| wanted(entry) != 0) {
                let bytes = (*entry).d_reclen as usize;
                let copy = libc::malloc(bytes);
                libc::memcpy(copy, entry.cast(), bytes);
                found.push(copy.cast());
            }
        }
        libc::closedir(directory);
        let list = libc::malloc((found.len() * size_of::<Entry>()).max(1)).cast::<Entry>();
        std::ptr::copy_nonoverlapping(found.as_ptr(), list, found.len());
        if let Some(order) = order {
            libc::qsort(list.cast(), found.len(), size_of::<Entry>(), Some(order));
        }
        super::memory::write(to, &raw const list, size_of_val(&list), site);
        found.len() as c_int
    }
}

replace! { [scandir scandir64] {
    (name: *const c_char, to: *mut *mut Entry, wanted: Option<unsafe extern "C" fn(*const libc::dirent64) -> c_int>,
     order: Option<unsafe extern "C" fn(*const c_void, *const c_void) -> c_int>) -> c_int, caller(r8)
    |site| {
        if !files::have_names() {
            return with_result(to, site, |to| real(name, to, wanted, order));
        }
        scan_directory(name, to, wanted, order, site)
    }
} }

replace! {
    fn fdopendir(descriptor: c_int) -> *mut c_void, caller(rsi)
    |site| {
        let path = files::path_of(descriptor);
        let directory = real(descriptor);
        list(directory, path, site);
        directory
    }
}
