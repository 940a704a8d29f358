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
use crashproof_protocol::{DEFAULT_PM_PATH, MAX_FILES, MAX_PATH, PM_PATH, reason, record};
use px86::line::covered;
use px86::{Kind, LINE_BYTES};

use crate::c_library::determinism::open_random;
use crate::c_library::memory::{copy, readable, text_length};
use crate::cell::RunningThreadCell;
pub(crate) use crate::file_table::File;
use crate::file_table::{self, Descriptors, Extent, HUGE, Place};
use crate::recorder::{note, unknown};
use crate::shadow::forget;
use crate::system::{fail, raw_syscall};
use crate::{access, raw, session};

const PAGE: u64 = 4096;

static DESCRIPTORS: RunningThreadCell<Descriptors> = RunningThreadCell::new(Descriptors::new());

/// Where a file is in the pool; nowhere if its place is 0.
fn extent(file: File) -> Extent {
    session::files(|table| file_table::extent(&table[file.0]))
}

fn is_absent(file: File) -> bool {
    session::control(|control| control.files_absent >> file.0 & 1 != 0)
}

fn set_absent(file: File, absent: bool, site: *const Site) {
    session::control(|control| {
        control.files_absent = control.files_absent & !(1 << file.0) | u64::from(absent) << file.0;
    });
    note(record::FILE, file.0 as u64, u64::from(!absent), site);
}

/// The places of all files, as ranges.
pub(crate) fn places() -> Vec<(u64, u64)> {
    (0..MAX_FILES).map(|file| extent(File(file))).map(|file| (file.place, file.place + file.room)).collect()
}

/// Is any file on the PM path mapped?
pub(crate) fn any_mapped() -> bool {
    places().iter().any(|(start, end)| start < end)
}

/// Is a range within the place of one file?
pub(crate) fn within_one(start: u64, bytes: u64) -> bool {
    session::files(|table| file_table::within_one(table, start, bytes))
}

fn find(path: &[u8]) -> Option<File> {
    session::files(|table| file_table::find(table, path))
}

fn find_or_add(path: &[u8]) -> Option<File> {
    session::files(|table| file_table::find_or_add(table, path))
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
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        text_length(name, std::ptr::null());
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
}

/// The file that a name stands for, if it is one of the table.
pub(crate) unsafe fn named(directory: c_int, name: *const c_char) -> Option<File> {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        if name.is_null() {
            return None;
        }
        find(&path_at(directory, name)?)
    }
}

/// The file that a descriptor is open for.
pub(crate) fn of(descriptor: c_int) -> Option<File> {
    DESCRIPTORS.with(|descriptors| descriptors.file(descriptor))
}

/// A descriptor is open for a file from now on, or for none.
pub(crate) fn follow(descriptor: c_int, file: Option<File>) {
    DESCRIPTORS.with(|descriptors| descriptors.follow(descriptor, file));
}

/// Descriptors from `first` to `last` are closed.
pub(crate) fn closed(first: usize, last: usize) {
    DESCRIPTORS.with(|descriptors| descriptors.close(first, last));
}

/// The file that a descriptor is open for, if it has a place.
fn placed(descriptor: c_int) -> Option<Extent> {
    of(descriptor).map(extent).filter(|file| file.place != 0)
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
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        if !name.is_null()
            && let Some(descriptor) = open_random(name)
        {
            return descriptor;
        }
        let path = if name.is_null() { None } else { path_at(directory, name) };
        let Some(path) = path.filter(|path| anywhere || on_pm_path(path)) else { return open(flags) };
        if flags & libc::O_TMPFILE == libc::O_TMPFILE {
            // Gone after a crash, so it is not persistent.
            return open(flags);
        }
        let known = find(&path);
        let absent = known.is_some_and(is_absent);
        if absent && flags & libc::O_CREAT == 0 {
            return fail(libc::ENOENT);
        }
        let existed = on_disk(name, directory);
        let placed = known.filter(|file| extent(*file).place != 0);
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
        let Some(file) = find_or_add(&path) else {
            unknown(reason::TOO_MANY_FILES, site);
            return descriptor;
        };
        if !existed {
            session::files(|table| table[file.0].created = 1);
        }
        if !existed || absent {
            set_absent(file, false, site);
        }
        if placed.is_some() && (absent || flags & libc::O_TRUNC != 0) {
            erase(extent(file), 0, u64::MAX, site);
        }
        follow(descriptor, Some(file));
        descriptor
    }
}

/// A file is opened as a stream. The C library reads and writes it by itself, so what is in the pool of it would
/// not be seen, and what is written would outlast every crash.
pub(crate) unsafe fn note_stream(name: *const c_char, mode: *const c_char, site: *const Site) {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let Some(path) = path_at(libc::AT_FDCWD, name).filter(|path| on_pm_path(path)) else { return };
        let only_reads = CStr::from_ptr(mode).to_bytes().first() == Some(&b'r')
            && !CStr::from_ptr(mode).to_bytes().contains(&b'+');
        let in_pool = find(&path).is_some_and(|file| extent(file).place != 0);
        if !only_reads || in_pool {
            unknown(reason::STREAM, site);
        }
    }
}

/// Whether a file is on disk, even if the program is not to see it.
unsafe fn on_disk(name: *const c_char, directory: c_int) -> bool {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        libc::syscall(libc::SYS_faccessat, c_long::from(directory), name, c_long::from(libc::F_OK)) == 0
    }
}

fn size_of_file(descriptor: c_int) -> u64 {
    // SAFETY: the structure may be zero; the kernel fills it in.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        if libc::fstat(descriptor, &raw mut status) == 0 { status.st_size as u64 } else { 0 }
    }
}

/// Takes away a file's content between two offsets. The lines that hold something are overwritten; of the
/// others it is enough that what they held before the crash no longer matters.
fn erase(file: Extent, from: u64, to: u64, site: *const Site) {
    let Extent { place, room } = file;
    let (from, to) = (place + from.min(room), place + to.min(room));
    for (start, bytes) in written_pages(place, room).chain(stored_content(place, room)) {
        let (begin, end) = (start.max(from), (start + bytes).min(to));
        for line in covered(begin, end.saturating_sub(begin)) {
            let first = line.start().max(begin);
            let width = (line.start() + LINE_BYTES).min(end) - first;
            // SAFETY: the file has this part of the pool, which is mapped.
            unsafe {
                if (0..width).any(|at| raw::byte_at(first as *const u8, at as usize) != 0) {
                    access::fill(first, 0, width, site);
                    access::flush_implied(first, site);
                }
            }
        }
    }
    let (first, last) = (from.next_multiple_of(LINE_BYTES), to / LINE_BYTES * LINE_BYTES);
    if first < last {
        forget(first, last - first);
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
    let first_there = raw::reachable(start) / PAGE;
    let count = (start + bytes).div_ceil(PAGE) - first;
    let mut map = vec![0u8; count as usize * 8];
    if let Ok(file) = std::fs::File::open("/proc/self/pagemap") {
        let _ = std::os::unix::fs::FileExt::read_at(&file, &mut map, first_there * 8);
    }
    (0..count).filter_map(move |page| {
        let entry = u64::from_le_bytes(map[page as usize * 8..][..8].try_into().expect("eight bytes"));
        let written = entry & SWAPPED != 0 || entry & PRESENT != 0 && entry & OF_FILE == 0;
        written.then_some(((first + page) * PAGE, PAGE))
    })
}

/// The parts of a range that the image holds anything for, as ranges of whole pages.
fn stored_content(start: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    (start / PAGE..(start + bytes).div_ceil(PAGE))
        .map(|page| page * PAGE)
        .filter_map(|page| session::image_holds(page, PAGE).then_some((page, PAGE)))
}

/// Writes back what was written of a range, and waits: `msync`.
pub(crate) fn write_back(start: u64, bytes: u64, site: *const Site) {
    // What still waits in this thread's store buffer was written too.
    // SAFETY: reads nothing.
    unsafe { access::before_read_range(start, 0, site) };
    for (page, bytes) in written_pages(start, bytes) {
        covered(page, bytes).for_each(|line| access::flush_implied(line.start(), site));
    }
    access::fence(Kind::StoreFence, site);
}

/// Gives a file its place, and the content it has on disk.
fn place(file: File, descriptor: c_int, bytes: u64) -> Option<u64> {
    let size = size_of_file(descriptor);
    match session::files(|table| file_table::place(table, file, bytes.max(size))) {
        Place::Known(start) => Some(start),
        Place::New(start) => {
            load(descriptor, start, size);
            Some(start)
        }
        Place::None => None,
    }
}

/// Makes what a file holds on disk durable content.
fn load(descriptor: c_int, start: u64, size: u64) {
    let mut buffer = vec![0u8; 1 << 20];
    let mut at = 0;
    while at < size {
        // Holes need not be read.
        // SAFETY: moves the position, which is restored below.
        let data = unsafe { libc::lseek(descriptor, at as i64, libc::SEEK_DATA) };
        match u64::try_from(data) {
            Ok(data) => at = data,
            Err(_) => break,
        }
        let wanted = buffer.len().min((size - at) as usize);
        // What is on disk, not what `pread` and `syscall` give for a file that has a place.
        let into = [descriptor as usize, buffer.as_mut_ptr() as usize, wanted, at as usize, 0, 0];
        // SAFETY: the kernel writes into the buffer only.
        let read = unsafe { raw_syscall(libc::SYS_pread64, into) };
        let Ok(read @ 1..) = usize::try_from(read) else { break };
        for (index, page) in buffer[..read].chunks(PAGE as usize).enumerate() {
            if page.iter().any(|byte| *byte != 0) {
                session::set_durable(start + at + index as u64 * PAGE, page);
            }
        }
        at += read as u64;
    }
    // SAFETY: moves the position only.
    unsafe { libc::lseek(descriptor, 0, libc::SEEK_SET) };
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
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let position = position(descriptor);
        let fixed = flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0;
        let Some(start) = place(file, descriptor, offset + bytes) else {
            fail(libc::ENOMEM);
            return libc::MAP_FAILED;
        };
        set_position(descriptor, position);
        if fixed && wanted != start + offset {
            // The program gets what it wants, as ordinary memory.
            unknown(reason::SECOND_PLACE, site);
            let protection = c_long::from(libc::PROT_READ | libc::PROT_WRITE);
            let (flags, descriptor) = (c_long::from(flags), c_long::from(descriptor));
            return libc::syscall(libc::SYS_mmap, wanted, bytes, protection, flags, descriptor, offset)
                as *mut c_void;
        }
        if offset + bytes > extent(file).room {
            unknown(reason::FILE_GREW, site);
            fail(libc::ENOMEM);
            return libc::MAP_FAILED;
        }
        (start + offset) as *mut c_void
    }
}

/// Addresses for a program that wants to map into them: the place of the file it opened last.
fn reserve(bytes: u64) -> Option<u64> {
    let (descriptor, file) = DESCRIPTORS.with(|descriptors| descriptors.latest())?;
    let start = place(file, descriptor, bytes)?;
    (bytes <= extent(file).room).then_some(start)
}

/// Where a descriptor reads or writes next.
fn position(descriptor: c_int) -> u64 {
    // SAFETY: asks only.
    unsafe { libc::lseek(descriptor, 0, libc::SEEK_CUR) as u64 }
}

fn set_position(descriptor: c_int, position: u64) {
    // SAFETY: moves the position only.
    unsafe { libc::lseek(descriptor, position as i64, libc::SEEK_SET) };
}

/// Reads by descriptor from a file that has a place.
pub(crate) unsafe fn read(
    descriptor: c_int,
    to: *mut c_void,
    bytes: usize,
    offset: Option<i64>,
    site: *const Site,
) -> Option<isize> {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let file = placed(descriptor)?;
        let at = offset.map_or_else(|| position(descriptor), |offset| offset as u64);
        let count = (bytes as u64).min(size_of_file(descriptor).saturating_sub(at));
        copy(to, (file.place + at) as *const u8, count as usize, site);
        if offset.is_none() {
            set_position(descriptor, at + count);
        }
        Some(count as isize)
    }
}

/// Writes by descriptor to a file that has a place.
pub(crate) unsafe fn write(
    descriptor: c_int,
    from: *const c_void,
    bytes: usize,
    offset: Option<i64>,
    site: *const Site,
) -> Option<isize> {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let file = placed(descriptor)?;
        let at = offset.map_or_else(|| position(descriptor), |offset| offset as u64);
        let end = at + bytes as u64;
        if end > file.room {
            return Some(fail(libc::ENOSPC) as isize);
        }
        if end > size_of_file(descriptor) {
            libc::syscall(libc::SYS_ftruncate, c_long::from(descriptor), end);
        }
        readable(from, bytes, site);
        access::store_range(Kind::NonTemporalStore, file.place + at, from.cast(), bytes as u64, site);
        if offset.is_none() {
            set_position(descriptor, end);
        }
        Some(bytes as isize)
    }
}

pub(crate) fn resize(descriptor: c_int, size: i64, site: *const Site) -> Option<c_int> {
    let file = placed(descriptor)?;
    if size < 0 || size as u64 >= size_of_file(descriptor) {
        return None;
    }
    erase(file, size as u64, u64::MAX, site);
    Some(0)
}

/// `fallocate`: holes and zeroes in a file that has a place are the pool's business.
pub(crate) fn punch(
    descriptor: c_int,
    mode: c_int,
    offset: i64,
    bytes: i64,
    site: *const Site,
) -> Option<c_int> {
    let file = placed(descriptor)?;
    if mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) == 0 {
        return None;
    }
    erase(file, offset.max(0) as u64, offset.saturating_add(bytes).max(0) as u64, site);
    Some(0)
}

/// The kernel copies between descriptors, past the pool.
pub(crate) fn copied_by_kernel(one: c_int, other: c_int, site: *const Site) {
    if placed(one).or(placed(other)).is_some() {
        unknown(reason::COPIED_BY_KERNEL, site);
    }
}

/// `fsync`, of a file that has a place.
pub(crate) fn sync(descriptor: c_int, site: *const Site) -> bool {
    let file = placed(descriptor);
    if let Some(file) = file {
        write_back(file.place, file.room, site);
    }
    file.is_some()
}

pub(crate) unsafe fn remove(directory: c_int, name: *const c_char, site: *const Site) -> Option<c_int> {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let file = named(directory, name)?;
        if is_absent(file) {
            return Some(fail(libc::ENOENT));
        }
        // It stays on disk for crashes before this moment.
        set_absent(file, true, site);
        Some(0)
    }
}

pub(crate) unsafe fn is_missing(directory: c_int, name: *const c_char) -> bool {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe { named(directory, name).is_some_and(is_absent) }
}

/// Notes a file outside the PM path that is mapped: if there turns out to be no persistent memory, it is worth a word.
fn note_outside(descriptor: c_int) {
    let worth_naming = |path: &Vec<u8>| {
        let is_file = path.starts_with(b"/") && !path.starts_with(b"/memfd:") && path != b"/dev/zero";
        is_file && path.len() < MAX_PATH
    };
    if let Some(path) = path_of(descriptor).filter(worth_naming) {
        session::control(|control| {
            if control.mapped_outside[0] == 0 {
                control.mapped_outside[..path.len()].copy_from_slice(&path);
            }
        });
    }
}

/// `mmap`, where PM is concerned.
pub(crate) unsafe fn map_anything(
    wanted: u64,
    bytes: u64,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: u64,
    site: *const Site,
) -> Option<*mut c_void> {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
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
}

/// Opens a file that is persistent memory wherever it is.
pub(crate) unsafe fn open_anywhere(
    name: *const c_char,
    flags: c_int,
    mode: c_int,
    site: *const Site,
) -> c_int {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        open_with(libc::AT_FDCWD, name, flags, true, site, |flags| {
            libc::syscall(libc::SYS_openat, libc::AT_FDCWD as c_long, name, flags as c_long, mode as c_long)
                as c_int
        })
    }
}

/// Follows a descriptor that the program opened itself, whatever it is open for.
pub(crate) fn adopt(descriptor: c_int) -> Option<File> {
    if let Some(file) = of(descriptor) {
        return Some(file);
    }
    let file = find_or_add(&path_of(descriptor)?)?;
    follow(descriptor, Some(file));
    Some(file)
}
