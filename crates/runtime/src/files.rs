//! Files that are persistent memory.
//!
//! A file on the PM path gets a place in the pool when it is first mapped, and keeps it in every run; all
//! its mappings are that place. What it held before the check is durable content from the start. The file
//! on disk only has its size: what the program stores stays in the pool, so every recovery finds what
//! survived and none sees what another did. Reading and writing by descriptor goes to the pool too, once
//! the file has a place.
//!
//! Programs that first reserve addresses (an inaccessible anonymous mapping) and then map into them, as
//! PMDK does, are given the place of the file they opened last as the reservation. Pool sets of several
//! files mapped one after another do not work this way; the verdict says so.
//!
//! Simplifications: an unmapped file can still be accessed; protections are ignored; a file that shrinks
//! loses its content but not its size; `write` counts as non-temporal stores.

use std::ffi::{CStr, OsStr, c_char, c_int, c_long, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crashproof_protocol::abi::{Site, is_pm};
use crashproof_protocol::{
    DEFAULT_PM_PATH, FILES, FILES_OFFSET, MAX_FILES, MAX_PATH, PM_PATH, PmFile, reason, record,
};
use px86::{Kind, LINE_BYTES};

use crate::real::replace;
use crate::{access, determinism, libc_memory, raw, session};

const HUGE: u64 = 2 << 20;
const GIANT: u64 = 1 << 30;
const PAGE: u64 = 4096;

/// Descriptors that can be followed.
const DESCRIPTORS: usize = 4096;
/// Which file a descriptor is open for: its place in the table, and one; 0 if it is none of them.
static mut OPEN: [u8; DESCRIPTORS] = [0; DESCRIPTORS];
/// The descriptor opened last.
static mut LATEST: c_int = -1;

/// A file, by its place in the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct File(usize);

unsafe fn fail(error: c_int) -> c_int {
    *libc::__errno_location() = error;
    -1
}

unsafe fn unknown(why: u64, site: *const Site) {
    access::note(record::UNKNOWN, 0, why, site);
}

unsafe fn entry(file: File) -> &'static mut PmFile {
    let table = session::CONTROL.cast::<u8>().add(FILES_OFFSET as usize).cast::<PmFile>();
    &mut *table.add(file.0)
}

fn all() -> impl Iterator<Item = File> {
    (0..MAX_FILES).map(File)
}

impl File {
    unsafe fn is_absent(self) -> bool {
        (*session::CONTROL).files_absent >> self.0 & 1 != 0
    }

    unsafe fn set_absent(self, absent: bool, site: *const Site) {
        let set = &mut (*session::CONTROL).files_absent;
        *set = *set & !(1 << self.0) | u64::from(absent) << self.0;
        access::note(record::FILE, self.0 as u64, u64::from(!absent), site);
    }

    unsafe fn path(self) -> &'static [u8] {
        CStr::from_bytes_until_nul(&entry(self).path).map_or(&[], CStr::to_bytes)
    }
}

/// The places of all files, as ranges.
pub(crate) unsafe fn places() -> Vec<(u64, u64)> {
    all().map(|file| entry(file)).map(|file| (file.place, file.place + file.room)).collect()
}

/// The file with this path; a new entry of the table if `add`. None if the table is full.
unsafe fn find(path: &[u8], add: bool) -> Option<File> {
    for file in all() {
        let known = file.path();
        if known == path {
            return Some(file);
        }
        if known.is_empty() {
            if !add || path.len() >= MAX_PATH {
                return None;
            }
            let fresh = entry(file);
            raw::copy(fresh.path.as_mut_ptr(), path.as_ptr(), path.len());
            return Some(file);
        }
    }
    None
}

fn on_pm_path(path: &[u8]) -> bool {
    let value = std::env::var_os(PM_PATH);
    let paths = value.as_ref().map_or(DEFAULT_PM_PATH.as_bytes(), |value| value.as_bytes());
    paths.split(|byte| *byte == b':').any(|prefix| match prefix {
        [] => false,
        [start @ .., b'*'] => path.starts_with(start),
        directory => {
            // A directory that does not exist has nothing below it.
            let real = std::fs::canonicalize(OsStr::from_bytes(directory));
            real.is_ok_and(|real| PathBuf::from(OsStr::from_bytes(path)).starts_with(real))
        }
    })
}

/// The path of what a descriptor is open for.
fn path_of(descriptor: c_int) -> Option<Vec<u8>> {
    let link = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok()?;
    Some(link.as_os_str().as_bytes().to_vec())
}

/// The path a name stands for, even if nothing is there.
unsafe fn path_at(directory: c_int, name: *const c_char) -> Option<Vec<u8>> {
    libc_memory::text_length(name, std::ptr::null());
    let name = PathBuf::from(OsStr::from_bytes(CStr::from_ptr(name).to_bytes()));
    let base = match directory {
        _ if name.is_absolute() => PathBuf::new(),
        libc::AT_FDCWD => std::env::current_dir().ok()?,
        directory => std::fs::read_link(format!("/proc/self/fd/{directory}")).ok()?,
    };
    let whole = base.join(name);
    if let Ok(real) = std::fs::canonicalize(&whole) {
        return Some(real.into_os_string().into_encoded_bytes());
    }
    let parent = std::fs::canonicalize(whole.parent()?).ok()?;
    Some(parent.join(whole.file_name()?).into_os_string().into_encoded_bytes())
}

/// The file that a name stands for, if it is one of the table.
unsafe fn named(directory: c_int, name: *const c_char) -> Option<File> {
    if name.is_null() {
        return None;
    }
    find(&path_at(directory, name)?, false)
}

/// The file that a descriptor is open for.
pub(crate) unsafe fn of(descriptor: c_int) -> Option<File> {
    let number = *OPEN.get(usize::try_from(descriptor).ok()?)?;
    Some(File(usize::from(number).checked_sub(1)?))
}

unsafe fn follow(descriptor: c_int, file: Option<File>) {
    if let Some(slot) = usize::try_from(descriptor).ok().and_then(|at| OPEN.get_mut(at)) {
        *slot = file.map_or(0, |file| file.0 as u8 + 1);
        if file.is_some() {
            LATEST = descriptor;
        }
    }
}

/// Opens by way of `open`, which is given the flags; follows what is on the PM path, or anything with
/// `anywhere`.
pub(crate) unsafe fn open_with(
    directory: c_int,
    name: *const c_char,
    flags: c_int,
    anywhere: bool,
    site: *const Site,
    open: impl Fn(c_int) -> c_int,
) -> c_int {
    if !name.is_null()
        && let Some(descriptor) = determinism::open_random(name)
    {
        return descriptor;
    }
    let path = if name.is_null() { None } else { path_at(directory, name) };
    let Some(path) = path.filter(|path| anywhere || on_pm_path(path)) else { return open(flags) };
    if flags & libc::O_TMPFILE == libc::O_TMPFILE {
        // Gone after a crash, so it is not persistent.
        return open(flags);
    }
    let known = find(&path, false);
    let absent = known.is_some_and(|file| file.is_absent());
    if absent && flags & libc::O_CREAT == 0 {
        return fail(libc::ENOENT);
    }
    let existed = on_disk(name, directory);
    let placed = known.filter(|file| entry(*file).place != 0);
    let mut real_flags = flags;
    if absent {
        real_flags &= !libc::O_EXCL;
    }
    if placed.is_some() {
        real_flags &= !libc::O_TRUNC;
    }
    let descriptor = open(real_flags);
    if descriptor < 0 {
        return descriptor;
    }
    let metadata = std::fs::metadata(format!("/proc/self/fd/{descriptor}"));
    if metadata.is_ok_and(|metadata| metadata.is_dir()) {
        return descriptor;
    }
    let Some(file) = find(&path, true) else {
        unknown(reason::TOO_MANY_FILES, site);
        return descriptor;
    };
    if !existed {
        entry(file).created = 1;
    }
    if !existed || absent {
        file.set_absent(false, site);
    }
    if placed.is_some() && (absent || flags & libc::O_TRUNC != 0) {
        erase(file, 0, u64::MAX, site);
    }
    follow(descriptor, Some(file));
    descriptor
}

/// A file is opened as a stream. The C library reads and writes it by itself, so what is in the pool of it would
/// not be seen, and what is written would outlast every crash.
pub(crate) unsafe fn note_stream(name: *const c_char, mode: *const c_char, site: *const Site) {
    let Some(path) = path_at(libc::AT_FDCWD, name).filter(|path| on_pm_path(path)) else { return };
    let only_reads = CStr::from_ptr(mode).to_bytes().first() == Some(&b'r')
        && !CStr::from_ptr(mode).to_bytes().contains(&b'+');
    let in_pool = find(&path, false).is_some_and(|file| entry(file).place != 0);
    if !only_reads || in_pool {
        unknown(reason::STREAM, site);
    }
}

/// Whether a file is on disk, even if the program is not to see it.
unsafe fn on_disk(name: *const c_char, directory: c_int) -> bool {
    libc::syscall(libc::SYS_faccessat, c_long::from(directory), name, c_long::from(libc::F_OK)) == 0
}

unsafe fn size_of_file(descriptor: c_int) -> u64 {
    let mut status: libc::stat = std::mem::zeroed();
    if libc::fstat(descriptor, &raw mut status) == 0 { status.st_size as u64 } else { 0 }
}

/// Takes away a file's content between two offsets. The lines that hold something are overwritten; of the
/// others it is enough that what they held before the crash no longer matters.
unsafe fn erase(file: File, from: u64, to: u64, site: *const Site) {
    let (place, room) = (entry(file).place, entry(file).room);
    let (from, to) = (place + from.min(room), place + to.min(room));
    for (start, bytes) in written_pages(place, room).chain(stored_content(place, room)) {
        let (begin, end) = (start.max(from), (start + bytes).min(to));
        for line in (begin / LINE_BYTES * LINE_BYTES..end).step_by(LINE_BYTES as usize) {
            let first = line.max(begin);
            let width = (line + LINE_BYTES).min(end) - first;
            let held = (0..width).any(|k| *((first + k) as *const u8) != 0);
            if held {
                access::fill(first, 0, width, site);
                access::flush_implied(first, site);
            }
        }
    }
    let (first, last) = (from.next_multiple_of(LINE_BYTES), to / LINE_BYTES * LINE_BYTES);
    if first < last {
        access::forget(first, last - first);
    }
    access::fence(Kind::StoreFence, site);
}

/// The pages of a range that this process has written, as ranges. Reads the page map: in a private mapping
/// of the image, a page that is anonymous is one that was written.
pub(crate) fn written_pages(start: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    const PRESENT: u64 = 1 << 63;
    const SWAPPED: u64 = 1 << 62;
    const OF_FILE: u64 = 1 << 61;
    let first = start / PAGE;
    let count = (start + bytes).div_ceil(PAGE) - first;
    let mut map = vec![0u8; count as usize * 8];
    if let Ok(file) = std::fs::File::open("/proc/self/pagemap") {
        let _ = std::os::unix::fs::FileExt::read_at(&file, &mut map, first * 8);
    }
    (0..count).filter_map(move |page| {
        let entry = u64::from_le_bytes(map[page as usize * 8..][..8].try_into().expect("eight bytes"));
        let written = entry & SWAPPED != 0 || entry & PRESENT != 0 && entry & OF_FILE == 0;
        written.then_some(((first + page) * PAGE, PAGE))
    })
}

/// The parts of a range that the image holds anything for, as ranges of whole pages.
unsafe fn stored_content(start: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    (start / PAGE..(start + bytes).div_ceil(PAGE))
        .map(|page| page * PAGE)
        .filter_map(|page| session::image_holds(page, PAGE).then_some((page, PAGE)))
}

/// Writes back what was written of a range, and waits: `msync`.
pub(crate) unsafe fn write_back(start: u64, bytes: u64, site: *const Site) {
    // What still waits in this thread's store buffer was written too.
    access::before_read_range(start, 0, site);
    for (page, bytes) in written_pages(start, bytes) {
        for line in (page..page + bytes).step_by(LINE_BYTES as usize) {
            access::flush_implied(line, site);
        }
    }
    access::fence(Kind::StoreFence, site);
}

/// How much room a file gets: enough to grow a little.
fn room_for(bytes: u64) -> u64 {
    if bytes >= GIANT { bytes.next_multiple_of(GIANT) } else { (2 * bytes).next_multiple_of(32 * HUGE) }
}

/// Gives a file its place, and the content it has on disk.
unsafe fn place(file: File, descriptor: c_int, bytes: u64) -> Option<u64> {
    let known = entry(file);
    if known.place != 0 {
        return Some(known.place);
    }
    let taken = all().map(|other| entry(other).place + entry(other).room).max().unwrap_or(0);
    let size = size_of_file(descriptor);
    let room = room_for(bytes.max(size));
    let align = if room >= GIANT { GIANT } else { HUGE };
    let start = taken.max(FILES.base).next_multiple_of(align);
    if start + room > FILES.end() {
        return None;
    }
    known.place = start;
    known.room = room;
    load(descriptor, start, size);
    Some(start)
}

/// Makes what a file holds on disk durable content.
unsafe fn load(descriptor: c_int, start: u64, size: u64) {
    let mut buffer = vec![0u8; 1 << 20];
    let mut at = 0;
    while at < size {
        // Holes need not be read.
        let data = libc::lseek(descriptor, at as i64, libc::SEEK_DATA);
        match u64::try_from(data) {
            Ok(data) => at = data,
            Err(_) => break,
        }
        let read = libc::syscall(
            libc::SYS_pread64,
            c_long::from(descriptor),
            buffer.as_mut_ptr(),
            buffer.len().min((size - at) as usize),
            at,
        );
        let Ok(read @ 1..) = usize::try_from(read) else { break };
        for (index, page) in buffer[..read].chunks(PAGE as usize).enumerate() {
            if page.iter().any(|byte| *byte != 0) {
                session::set_durable(start + at + index as u64 * PAGE, page);
            }
        }
        at += read as u64;
    }
    libc::lseek(descriptor, 0, libc::SEEK_SET);
}

/// Maps a file: its place, whatever was asked for.
pub(crate) unsafe fn map(
    file: File,
    wanted: u64,
    bytes: u64,
    flags: c_int,
    descriptor: c_int,
    offset: u64,
    site: *const Site,
) -> *mut c_void {
    let position = libc::lseek(descriptor, 0, libc::SEEK_CUR);
    let fixed = flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0;
    let Some(start) = place(file, descriptor, offset + bytes) else {
        fail(libc::ENOMEM);
        return libc::MAP_FAILED;
    };
    libc::lseek(descriptor, position, libc::SEEK_SET);
    if fixed && wanted != start + offset {
        // The program gets what it wants, as ordinary memory.
        unknown(reason::SECOND_PLACE, site);
        let protection = c_long::from(libc::PROT_READ | libc::PROT_WRITE);
        let (flags, descriptor) = (c_long::from(flags), c_long::from(descriptor));
        return libc::syscall(libc::SYS_mmap, wanted, bytes, protection, flags, descriptor, offset)
            as *mut c_void;
    }
    if offset + bytes > entry(file).room {
        unknown(reason::FILE_GREW, site);
        fail(libc::ENOMEM);
        return libc::MAP_FAILED;
    }
    (start + offset) as *mut c_void
}

/// Addresses for a program that wants to map into them: the place of the file it opened last.
unsafe fn reserve(bytes: u64) -> Option<u64> {
    let file = of(LATEST)?;
    let start = place(file, LATEST, bytes)?;
    (bytes <= entry(file).room).then_some(start)
}

/// Reads by descriptor from a file that has a place.
pub(crate) unsafe fn read(
    descriptor: c_int,
    to: *mut c_void,
    bytes: usize,
    offset: Option<i64>,
    site: *const Site,
) -> Option<isize> {
    let file = of(descriptor).filter(|file| entry(*file).place != 0)?;
    let at = offset.unwrap_or_else(|| libc::lseek(descriptor, 0, libc::SEEK_CUR)) as u64;
    let count = (bytes as u64).min(size_of_file(descriptor).saturating_sub(at));
    libc_memory::copy(to, (entry(file).place + at) as *const u8, count as usize, site);
    if offset.is_none() {
        libc::lseek(descriptor, (at + count) as i64, libc::SEEK_SET);
    }
    Some(count as isize)
}

/// Writes by descriptor to a file that has a place.
pub(crate) unsafe fn write(
    descriptor: c_int,
    from: *const c_void,
    bytes: usize,
    offset: Option<i64>,
    site: *const Site,
) -> Option<isize> {
    let file = of(descriptor).filter(|file| entry(*file).place != 0)?;
    let at = offset.unwrap_or_else(|| libc::lseek(descriptor, 0, libc::SEEK_CUR)) as u64;
    let end = at + bytes as u64;
    if end > entry(file).room {
        return Some(fail(libc::ENOSPC) as isize);
    }
    if end > size_of_file(descriptor) {
        libc::syscall(libc::SYS_ftruncate, c_long::from(descriptor), end);
    }
    libc_memory::readable(from, bytes, site);
    access::store_range(Kind::NonTemporalStore, entry(file).place + at, from.cast(), bytes as u64, site);
    if offset.is_none() {
        libc::lseek(descriptor, end as i64, libc::SEEK_SET);
    }
    Some(bytes as isize)
}

unsafe fn resize(descriptor: c_int, size: i64, site: *const Site) -> Option<c_int> {
    let file = of(descriptor).filter(|file| entry(*file).place != 0)?;
    if size < 0 || size as u64 >= size_of_file(descriptor) {
        return None;
    }
    erase(file, size as u64, u64::MAX, site);
    Some(0)
}

/// `fallocate`: holes and zeroes in a file that has a place are the pool's business.
unsafe fn punch(descriptor: c_int, mode: c_int, offset: i64, bytes: i64, site: *const Site) -> Option<c_int> {
    let file = of(descriptor).filter(|file| entry(*file).place != 0)?;
    if mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) == 0 {
        return None;
    }
    erase(file, offset.max(0) as u64, offset.saturating_add(bytes).max(0) as u64, site);
    Some(0)
}

/// The kernel copies between descriptors, past the pool.
unsafe fn copied_by_kernel(one: c_int, other: c_int, site: *const Site) {
    let placed = |descriptor| of(descriptor).is_some_and(|file| entry(file).place != 0);
    if placed(one) || placed(other) {
        unknown(reason::COPIED_BY_KERNEL, site);
    }
}

unsafe fn sync(descriptor: c_int, site: *const Site) -> bool {
    match of(descriptor).map(|file| entry(file)).filter(|file| file.place != 0) {
        Some(file) => {
            write_back(file.place, file.room, site);
            true
        }
        None => false,
    }
}

unsafe fn remove(directory: c_int, name: *const c_char, site: *const Site) -> Option<c_int> {
    let file = named(directory, name)?;
    if file.is_absent() {
        return Some(fail(libc::ENOENT));
    }
    // It stays on disk for crashes before this moment.
    file.set_absent(true, site);
    Some(0)
}

unsafe fn is_missing(directory: c_int, name: *const c_char) -> bool {
    named(directory, name).is_some_and(|file| file.is_absent())
}

type Status = *mut libc::stat;

replace! {
    fn open(name: *const c_char, flags: c_int, mode: c_int) -> c_int, caller(rcx)
    |site| { open_with(libc::AT_FDCWD, name, flags, false, site, |flags| real(name, flags, mode)) }

    fn open64(name: *const c_char, flags: c_int, mode: c_int) -> c_int, caller(rcx)
    |site| { open_with(libc::AT_FDCWD, name, flags, false, site, |flags| real(name, flags, mode)) }

    fn __open_2(name: *const c_char, flags: c_int) -> c_int, caller(rdx)
    |site| { open_with(libc::AT_FDCWD, name, flags, false, site, |flags| real(name, flags)) }

    fn __open64_2(name: *const c_char, flags: c_int) -> c_int, caller(rdx)
    |site| { open_with(libc::AT_FDCWD, name, flags, false, site, |flags| real(name, flags)) }

    fn openat(directory: c_int, name: *const c_char, flags: c_int, mode: c_int) -> c_int, caller(r8)
    |site| { open_with(directory, name, flags, false, site, |flags| real(directory, name, flags, mode)) }

    fn openat64(directory: c_int, name: *const c_char, flags: c_int, mode: c_int) -> c_int, caller(r8)
    |site| { open_with(directory, name, flags, false, site, |flags| real(directory, name, flags, mode)) }

    fn creat(name: *const c_char, mode: c_int) -> c_int, caller(rdx)
    |_site| { libc::open(name, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode) }

    fn creat64(name: *const c_char, mode: c_int) -> c_int, caller(rdx)
    |_site| { libc::open(name, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode) }

    fn close(descriptor: c_int) -> c_int, caller(rsi)
    |_site| { follow(descriptor, None); real(descriptor) }

    fn close_range(first: u32, last: u32, flags: c_int) -> c_int, caller(rcx)
    |_site| {
        let end = DESCRIPTORS.min((last as usize).saturating_add(1));
        OPEN[..end].iter_mut().skip(first as usize).for_each(|slot| *slot = 0);
        real(first, last, flags)
    }

    fn closefrom(first: c_int), caller(rsi)
    |_site| {
        OPEN.iter_mut().skip(first.max(0) as usize).for_each(|slot| *slot = 0);
        real(first)
    }

    fn dup(descriptor: c_int) -> c_int, caller(rsi)
    |_site| { let fresh = real(descriptor); follow(fresh, of(descriptor)); fresh }

    fn dup2(descriptor: c_int, wanted: c_int) -> c_int, caller(rdx)
    |_site| { let fresh = real(descriptor, wanted); follow(fresh, of(descriptor)); fresh }

    fn dup3(descriptor: c_int, wanted: c_int, flags: c_int) -> c_int, caller(rcx)
    |_site| { let fresh = real(descriptor, wanted, flags); follow(fresh, of(descriptor)); fresh }

    fn fcntl(descriptor: c_int, command: c_int, argument: usize) -> c_int, caller(rcx)
    |_site| {
        let answer = real(descriptor, command, argument);
        if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
            follow(answer, of(descriptor));
        }
        answer
    }

    fn fcntl64(descriptor: c_int, command: c_int, argument: usize) -> c_int, caller(rcx)
    |_site| { libc::fcntl(descriptor, command, argument) }

    fn mmap(wanted: *mut c_void, bytes: usize, protection: c_int, flags: c_int, descriptor: c_int, offset: i64) -> *mut c_void,
        caller(stack)
    |site| {
        match map_anything(wanted as u64, bytes as u64, protection, flags, descriptor, offset as u64, site) {
            Some(address) => address,
            None => real(wanted, bytes, protection, flags, descriptor, offset),
        }
    }

    fn mmap64(wanted: *mut c_void, bytes: usize, protection: c_int, flags: c_int, descriptor: c_int, offset: i64) -> *mut c_void,
        caller(stack)
    |site| {
        match map_anything(wanted as u64, bytes as u64, protection, flags, descriptor, offset as u64, site) {
            Some(address) => address,
            None => real(wanted, bytes, protection, flags, descriptor, offset),
        }
    }

    fn munmap(start: *mut c_void, bytes: usize) -> c_int, caller(rdx)
    |_site| { if is_pm(start as u64) { 0 } else { real(start, bytes) } }

    fn mprotect(start: *mut c_void, bytes: usize, protection: c_int) -> c_int, caller(rcx)
    |_site| { if is_pm(start as u64) { 0 } else { real(start, bytes, protection) } }

    fn madvise(start: *mut c_void, bytes: usize, advice: c_int) -> c_int, caller(rcx)
    |_site| { if is_pm(start as u64) { 0 } else { real(start, bytes, advice) } }

    fn posix_madvise(start: *mut c_void, bytes: usize, advice: c_int) -> c_int, caller(rcx)
    |_site| { if is_pm(start as u64) { 0 } else { real(start, bytes, advice) } }

    fn msync(start: *mut c_void, bytes: usize, flags: c_int) -> c_int, caller(rcx)
    |site| {
        if !is_pm(start as u64) {
            return real(start, bytes, flags);
        }
        if !(start as u64).is_multiple_of(PAGE) {
            return fail(libc::EINVAL);
        }
        if flags & libc::MS_SYNC != 0 {
            write_back(start as u64, bytes as u64, site);
        }
        0
    }

    fn mremap(start: *mut c_void, bytes: usize, wanted: usize, flags: c_int, to: *mut c_void) -> *mut c_void, caller(r9)
    |site| {
        if !is_pm(start as u64) {
            return real(start, bytes, wanted, flags, to);
        }
        let inside = |file: &File| {
            let entry = entry(*file);
            start as u64 >= entry.place && start as u64 + wanted as u64 <= entry.place + entry.room
        };
        if flags & libc::MREMAP_FIXED == 0 && all().any(|file| inside(&file)) {
            return start;
        }
        unknown(reason::FILE_GREW, site);
        fail(libc::ENOMEM);
        libc::MAP_FAILED
    }

    fn ftruncate(descriptor: c_int, size: i64) -> c_int, caller(rdx)
    |site| { resize(descriptor, size, site).unwrap_or_else(|| real(descriptor, size)) }

    fn ftruncate64(descriptor: c_int, size: i64) -> c_int, caller(rdx)
    |site| { resize(descriptor, size, site).unwrap_or_else(|| real(descriptor, size)) }

    fn fallocate(descriptor: c_int, mode: c_int, offset: i64, bytes: i64) -> c_int, caller(r8)
    |site| {
        punch(descriptor, mode, offset, bytes, site).unwrap_or_else(|| real(descriptor, mode, offset, bytes))
    }

    fn fallocate64(descriptor: c_int, mode: c_int, offset: i64, bytes: i64) -> c_int, caller(r8)
    |site| {
        punch(descriptor, mode, offset, bytes, site).unwrap_or_else(|| real(descriptor, mode, offset, bytes))
    }

    fn sendfile(to: c_int, from: c_int, offset: *mut i64, bytes: usize) -> isize, caller(r8)
    |site| { copied_by_kernel(to, from, site); real(to, from, offset, bytes) }

    fn sendfile64(to: c_int, from: c_int, offset: *mut i64, bytes: usize) -> isize, caller(r8)
    |site| { copied_by_kernel(to, from, site); real(to, from, offset, bytes) }

    fn splice(from: c_int, at: *mut i64, to: c_int, to_at: *mut i64, bytes: usize, flags: u32) -> isize, caller(stack)
    |site| { copied_by_kernel(to, from, site); real(from, at, to, to_at, bytes, flags) }

    fn copy_file_range(from: c_int, at: *mut i64, to: c_int, to_at: *mut i64, bytes: usize, flags: u32) -> isize, caller(stack)
    |site| { copied_by_kernel(to, from, site); real(from, at, to, to_at, bytes, flags) }

    fn fsync(descriptor: c_int) -> c_int, caller(rsi)
    |site| { if sync(descriptor, site) { 0 } else { real(descriptor) } }

    fn fdatasync(descriptor: c_int) -> c_int, caller(rsi)
    |site| { if sync(descriptor, site) { 0 } else { real(descriptor) } }

    fn unlink(name: *const c_char) -> c_int, caller(rsi)
    |site| { remove(libc::AT_FDCWD, name, site).unwrap_or_else(|| real(name)) }

    fn unlinkat(directory: c_int, name: *const c_char, flags: c_int) -> c_int, caller(rcx)
    |site| { remove(directory, name, site).unwrap_or_else(|| real(directory, name, flags)) }

    /// Also removes directories; those are never in the table.
    fn remove(name: *const c_char) -> c_int, caller(rsi)
    |site| { self::remove(libc::AT_FDCWD, name, site).unwrap_or_else(|| real(name)) }

    fn rename(from: *const c_char, to: *const c_char) -> c_int, caller(rdx)
    |site| {
        if named(libc::AT_FDCWD, from).or(named(libc::AT_FDCWD, to)).is_some() {
            unknown(reason::RENAMED, site);
            return fail(libc::EXDEV);
        }
        real(from, to)
    }

    fn access(name: *const c_char, mode: c_int) -> c_int, caller(rdx)
    |_site| { if is_missing(libc::AT_FDCWD, name) { fail(libc::ENOENT) } else { real(name, mode) } }

    fn faccessat(directory: c_int, name: *const c_char, mode: c_int, flags: c_int) -> c_int, caller(r8)
    |_site| { if is_missing(directory, name) { fail(libc::ENOENT) } else { real(directory, name, mode, flags) } }

    fn stat(name: *const c_char, status: Status) -> c_int, caller(rdx)
    |_site| { if is_missing(libc::AT_FDCWD, name) { fail(libc::ENOENT) } else { real(name, status) } }

    fn stat64(name: *const c_char, status: Status) -> c_int, caller(rdx)
    |_site| { if is_missing(libc::AT_FDCWD, name) { fail(libc::ENOENT) } else { real(name, status) } }

    fn lstat(name: *const c_char, status: Status) -> c_int, caller(rdx)
    |_site| { if is_missing(libc::AT_FDCWD, name) { fail(libc::ENOENT) } else { real(name, status) } }

    fn lstat64(name: *const c_char, status: Status) -> c_int, caller(rdx)
    |_site| { if is_missing(libc::AT_FDCWD, name) { fail(libc::ENOENT) } else { real(name, status) } }

    fn fstatat(directory: c_int, name: *const c_char, status: Status, flags: c_int) -> c_int, caller(r8)
    |_site| { if is_missing(directory, name) { fail(libc::ENOENT) } else { real(directory, name, status, flags) } }

    fn fstatat64(directory: c_int, name: *const c_char, status: Status, flags: c_int) -> c_int, caller(r8)
    |_site| { if is_missing(directory, name) { fail(libc::ENOENT) } else { real(directory, name, status, flags) } }

    /// What Rust's standard library asks.
    fn statx(directory: c_int, name: *const c_char, flags: c_int, mask: u32, status: *mut c_void) -> c_int, caller(r9)
    |_site| {
        if is_missing(directory, name) { fail(libc::ENOENT) } else { real(directory, name, flags, mask, status) }
    }
}

/// Notes a file outside the PM path that is mapped: if there turns out to be no persistent memory, it is worth a word.
unsafe fn note_outside(descriptor: c_int) {
    let worth_naming = |path: &Vec<u8>| {
        path.len() < MAX_PATH
            && path.starts_with(b"/")
            && !path.starts_with(b"/memfd:")
            && path != b"/dev/zero"
    };
    let Some(path) = path_of(descriptor).filter(worth_naming) else { return };
    if !session::CONTROL.is_null() && (*session::CONTROL).mapped_outside[0] == 0 {
        (&mut (*session::CONTROL).mapped_outside)[..path.len()].copy_from_slice(&path);
    }
}

/// `mmap`, where PM is concerned.
unsafe fn map_anything(
    wanted: u64,
    bytes: u64,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: u64,
    site: *const Site,
) -> Option<*mut c_void> {
    let anonymous = flags & libc::MAP_ANONYMOUS != 0;
    let fixed = flags & libc::MAP_FIXED != 0;
    if anonymous {
        if fixed && is_pm(wanted) {
            // Turns a mapping back into a reservation.
            return Some(wanted as *mut c_void);
        }
        if !fixed && protection == libc::PROT_NONE && bytes >= HUGE {
            return Some(reserve(bytes)? as *mut c_void);
        }
        return None;
    }
    let shares = flags & libc::MAP_TYPE != libc::MAP_PRIVATE && protection & libc::PROT_WRITE != 0;
    let Some(file) = of(descriptor) else {
        if shares {
            note_outside(descriptor);
        }
        return None;
    };
    if flags & libc::MAP_TYPE == libc::MAP_PRIVATE {
        unknown(reason::PRIVATE_MAPPING, site);
        return None;
    }
    Some(map(file, wanted, bytes, flags, descriptor, offset, site))
}

/// Opens a file that is persistent memory wherever it is.
pub(crate) unsafe fn open_anywhere(
    name: *const c_char,
    flags: c_int,
    mode: c_int,
    site: *const Site,
) -> c_int {
    open_with(libc::AT_FDCWD, name, flags, true, site, |flags| {
        libc::syscall(libc::SYS_openat, libc::AT_FDCWD as c_long, name, flags as c_long, mode as c_long)
            as c_int
    })
}

/// Follows a descriptor that the program opened itself, whatever it is open for.
pub(crate) unsafe fn adopt(descriptor: c_int) -> Option<File> {
    if let Some(file) = of(descriptor) {
        return Some(file);
    }
    let file = find(&path_of(descriptor)?, true)?;
    follow(descriptor, Some(file));
    Some(file)
}
