//! Files that are persistent.
//!
//! The program never gets hold of them: what it opens is a stand-in in memory that has their size, and reading, writing and
//! mapping go to the pool, where a file's content has a place that stays the same in every run. What it held before the
//! check is durable content from the start. So every recovery finds what survived, none sees what another did, and the
//! user's files are never changed. Sizes and names are in `facts`.
//!
//! Which files that are: those on the PM path, those that libpmem maps, and with [`flag::ALL_FILES`] all that the program
//! writes. On a PM file system `write` is durable when it returns, and mapping a file makes its size and name durable
//! (as MAP_SYNC does); on a disk ([`flag::DISK`]) nothing is before `fsync` and its relatives.
//!
//! Programs that first reserve addresses (an inaccessible anonymous mapping) and then map into them, as
//! PMDK does, are given the place of the file they opened last as the reservation. Pool sets of several
//! files mapped one after another do not work this way; the verdict says so.
//!
//! Simplifications: an unmapped file can still be accessed; protections are ignored.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_long, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crashproof_protocol::abi::{Site, is_pm};
use crashproof_protocol::{DEFAULT_PM_PATH, MAX_PATH, PM_PATH, exit, flag, reason};
use px86::line::covered;
use px86::{Kind, LINE_BYTES};

use crate::c_library::determinism::open_random;
use crate::c_library::memory::{copy, readable, text_length};
use crate::cell::RunningThreadCell;
pub(crate) use crate::file_table::File;
use crate::file_table::{self, Descriptors, Extent, HUGE, Place};
use crate::recorder::unknown;
use crate::shadow::forget;
use crate::system::{fail, raw_syscall};
use crate::{access, facts, session};

const PAGE: u64 = 4096;

static DESCRIPTORS: RunningThreadCell<Descriptors> = RunningThreadCell::new(Descriptors::new());

/// A file that this process has opened.
#[derive(Clone, Default)]
struct Open {
    /// What stands in for it: every descriptor that the program gets is of this.
    stand_in: c_int,
    /// What holds its content, if not its own place.
    extent: Option<File>,
    /// Was it ever mapped?
    mapped: bool,
    /// Parts that were written and not written back, while it was never mapped.
    dirty: Vec<(u64, u64)>,
}

static OPEN: RunningThreadCell<BTreeMap<File, Open>> = RunningThreadCell::new(BTreeMap::new());

fn with_open<R>(file: File, access: impl FnOnce(&mut Open) -> R) -> R {
    OPEN.with(|open| access(open.entry(file).or_default()))
}

/// Where a file's content is in the pool; nowhere if its place is 0.
fn extent(file: File) -> Extent {
    let content = with_open(file, |open| open.extent).unwrap_or(file);
    session::files(|tables| file_table::extent(&tables.files[content.0]))
}

/// The places of all contents, as ranges.
pub(crate) fn places() -> Vec<(u64, u64)> {
    session::files(|tables| {
        let placed = file_table::taken(tables).iter().filter(|entry| entry.place != 0);
        placed.map(|entry| (entry.place, entry.place + entry.room)).collect()
    })
}

/// Does a text mention a file that is followed, by its name?
pub(crate) fn are_mentioned(text: &[u8]) -> bool {
    session::files(|tables| {
        let names =
            file_table::taken(tables).iter().filter(|entry| entry.place != 0).map(|entry| entry.path());
        let mut names = names.filter_map(|path| path.rsplit(|byte| *byte == b'/').next());
        names.any(|name| !name.is_empty() && text.windows(name.len()).any(|part| part == name))
    })
}

/// Is a range within the place of one file?
pub(crate) fn within_one(start: u64, bytes: u64) -> bool {
    session::files(|tables| file_table::within_one(tables, start, bytes))
}

fn on_pm_path(path: &[u8]) -> bool {
    let value = std::env::var_os(PM_PATH);
    let paths = value.as_ref().map_or(DEFAULT_PM_PATH.as_bytes(), |value| value.as_bytes());
    paths.split(|byte| *byte == b':').any(|prefix| match prefix {
        [] => false,
        [start @ .., b'*'] => path.starts_with(start),
        // A file may be named before it exists.
        exact if exact == path => true,
        directory => {
            // A directory that does not exist has nothing below it.
            let real = std::fs::canonicalize(OsStr::from_bytes(directory));
            real.is_ok_and(|real| PathBuf::from(OsStr::from_bytes(path)).starts_with(real))
        }
    })
}

/// May a program keep data there, or does the path belong to the system?
fn is_ordinary(path: &[u8]) -> bool {
    ![&b"/dev/"[..], b"/proc/", b"/sys/"].iter().any(|start| path.starts_with(start))
        && facts::on_disk(path).is_none_or(|(kind, _)| kind == libc::S_IFREG)
}

/// Is what has this path followed?
fn is_followed(path: &[u8], writes: bool, site: *const Site) -> bool {
    let all = session::has_flag(flag::ALL_FILES | flag::DISCOVER);
    on_pm_path(path) || facts::is_known(path, site) || all && writes && is_ordinary(path)
}

fn on_disk_medium() -> bool {
    session::has_flag(flag::DISK)
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

/// What a name stands for.
pub(crate) enum Standing {
    /// Nothing that is followed.
    Other,
    /// Nothing, or not what is on disk under it.
    Missing,
    /// This file.
    File(File),
}

/// The path of something that is followed.
unsafe fn followed_path(
    directory: c_int,
    name: *const c_char,
    writes: bool,
    site: *const Site,
) -> Option<Vec<u8>> {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        if name.is_null() || *name == 0 {
            return None;
        }
        let path = path_at(directory, name)?;
        let is_other = |(kind, _): (u32, u64)| !matches!(kind, libc::S_IFREG | libc::S_IFCHR);
        let is_other = facts::on_disk(&path).is_some_and(is_other);
        (!is_other && is_followed(&path, writes, site)).then_some(path)
    }
}

/// What a name stands for.
pub(crate) unsafe fn standing(directory: c_int, name: *const c_char, site: *const Site) -> Standing {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let Some(path) = followed_path(directory, name, false, site) else { return Standing::Other };
        match facts::lookup(&path, site) {
            Some(file) => Standing::File(file),
            None => Standing::Missing,
        }
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

/// The file that a descriptor is open for, if it is no directory.
fn file_of(descriptor: c_int) -> Option<File> {
    of(descriptor).filter(|file| with_open(*file, |open| open.stand_in != 0))
}

/// What stands in for a file in this process. Which size it has depends on the crash.
pub(crate) fn stand_in(file: File, site: *const Site) -> c_int {
    let known = with_open(file, |open| open.stand_in);
    if known != 0 {
        return known;
    }
    let (size, extent) = facts::size(file, site);
    // SAFETY: descriptors of the runtime's own.
    let stand_in = unsafe {
        let made = libc::memfd_create(c"file".as_ptr(), libc::MFD_CLOEXEC);
        libc::syscall(libc::SYS_ftruncate, c_long::from(made), size);
        // Out of the way: programs expect the lowest numbers.
        let moved =
            raw_syscall(libc::SYS_fcntl, [made as usize, libc::F_DUPFD_CLOEXEC as usize, 100, 0, 0, 0])
                as c_int;
        if moved >= 0 {
            libc::syscall(libc::SYS_close, c_long::from(made));
        }
        if moved >= 0 { moved } else { made }
    };
    with_open(file, |open| (open.stand_in, open.extent) = (stand_in, extent));
    stand_in
}

/// Opens by way of `open`; follows what is persistent, or anything with `anywhere`.
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
        let Some(path) = path else { return open(flags) };
        if flags & libc::O_TMPFILE == libc::O_TMPFILE {
            // Gone after a crash, so it is not persistent.
            return open(flags);
        }
        let there = facts::on_disk(&path);
        if there.is_some_and(|(kind, _)| kind == libc::S_IFDIR) {
            let descriptor = open(flags);
            let all = session::has_flag(flag::ALL_FILES);
            let directory = if all || on_pm_path(&path) {
                facts::directory(&path, site)
            } else {
                facts::known_directory(&path)
            };
            if descriptor >= 0
                && let Some(directory) = directory
            {
                follow(descriptor, Some(directory));
            }
            return descriptor;
        }
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        if !anywhere && !is_followed(&path, writes, site) {
            return open(flags);
        }
        open_followed(&path, flags, site)
    }
}

/// Opens a file that is followed.
fn open_followed(path: &[u8], flags: c_int, site: *const Site) -> c_int {
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
    let file = match facts::lookup(path, site) {
        Some(_) if flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0 => return fail(libc::EEXIST),
        Some(file) => {
            let is_base = session::files(|tables| facts::is_base(&tables.files[file.0]));
            if is_base && !is_permitted(path, writes) {
                return fail(libc::EACCES);
            }
            file
        }
        None if flags & libc::O_CREAT == 0 => return fail(libc::ENOENT),
        None => {
            let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0).max(1);
            if facts::on_disk(&path[..end]).is_none() {
                return fail(libc::ENOENT);
            }
            let Some(file) = facts::create(path, site) else { return fail(libc::ENOSPC) };
            file
        }
    };
    let stand_in = stand_in(file, site);
    if flags & libc::O_TRUNC != 0 && writes {
        set_size(file, 0, site);
    }
    // A description of its own, with a position of its own.
    let name = CString::new(format!("/proc/self/fd/{stand_in}")).expect("no zero");
    let gone = libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_DIRECT | libc::O_NOFOLLOW;
    // SAFETY: opens what the runtime made.
    let descriptor = unsafe {
        libc::syscall(libc::SYS_openat, libc::AT_FDCWD as c_long, name.as_ptr(), (flags & !gone) as c_long)
    };
    let descriptor = descriptor as c_int;
    follow(descriptor, Some(file));
    descriptor
}

/// May the file on disk be opened like this?
fn is_permitted(path: &[u8], writes: bool) -> bool {
    let Ok(path) = CString::new(path) else { return false };
    let mode = if writes { libc::R_OK | libc::W_OK } else { libc::R_OK };
    // SAFETY: asks only.
    unsafe {
        libc::syscall(libc::SYS_faccessat, libc::AT_FDCWD as c_long, path.as_ptr(), c_long::from(mode)) == 0
    }
}

/// Opens a file that is followed as a stream would; none if it is not.
pub(crate) unsafe fn open_for_stream(name: *const c_char, flags: c_int, site: *const Site) -> Option<c_int> {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let path = followed_path(libc::AT_FDCWD, name, writes, site)?;
        Some(open_followed(&path, flags, site))
    }
}

fn size_of_file(descriptor: c_int) -> u64 {
    // SAFETY: the structure may be zero; the kernel fills it in.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        if libc::fstat(descriptor, &raw mut status) == 0 { status.st_size as u64 } else { 0 }
    }
}

/// Gives a file another size. What it loses is gone; if that is all, its new content goes elsewhere, so that a crash finds
/// the old size with the old content.
fn set_size(file: File, size: u64, site: *const Site) {
    let (stand_in, before, mapped) = with_open(file, |open| (open.stand_in, open.extent, open.mapped));
    let old = size_of_file(stand_in);
    if size == old {
        return;
    }
    let mut extent_now = before;
    if size == 0 && !mapped {
        extent_now = facts::new_extent(file, before, site).or(before);
        with_open(file, |open| {
            open.extent = extent_now;
            open.dirty.clear();
        });
    } else if size < old && extent(file).place != 0 {
        erase(extent(file), size, old, site);
    } else if size < old {
        place(file, old);
        erase(extent(file), size, old, site);
    }
    // SAFETY: changes the stand-in's size.
    unsafe { libc::syscall(libc::SYS_ftruncate, c_long::from(stand_in), size) };
    facts::set_size(file, size, extent_now, site);
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
                if (0..width).any(|at| *((first + at) as *const u8) != 0) {
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
fn stored_content(start: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    (start / PAGE..(start + bytes).div_ceil(PAGE))
        .map(|page| page * PAGE)
        .filter_map(|page| session::image_holds(page, PAGE).then_some((page, PAGE)))
}

/// Begins to write back what was written of a range.
fn flush_written(start: u64, bytes: u64, site: *const Site) {
    // What still waits in this thread's store buffer was written too.
    // SAFETY: reads nothing.
    unsafe { access::before_read_range(start, 0, site) };
    for (page, bytes) in written_pages(start, bytes) {
        covered(page, bytes).for_each(|line| access::flush_implied(line.start(), site));
    }
}

/// Writes back what was written of a range, and waits: `msync`.
pub(crate) fn write_back(start: u64, bytes: u64, site: *const Site) {
    flush_written(start, bytes, site);
    let all: Vec<File> = OPEN.with(|open| open.keys().copied().collect());
    let within = |file: &File| {
        let Extent { place, room } = extent(*file);
        (place..place + room).contains(&start)
    };
    if let Some(file) = all.into_iter().find(within) {
        facts::write_back_file(file, site);
    }
    access::fence(Kind::StoreFence, site);
}

/// Gives a file's content its place, and what it has on disk.
fn place(file: File, bytes: u64) -> Option<u64> {
    let (stand_in, other) = with_open(file, |open| (open.stand_in, open.extent));
    let size = size_of_file(stand_in);
    let content = other.unwrap_or(file);
    match session::files(|tables| file_table::place(tables, content, bytes.max(size))) {
        Place::Known(start) => Some(start),
        Place::New(start) => {
            let base = session::files(|tables| {
                let entry = &tables.files[file.0];
                (other.is_none() && facts::is_base(entry)).then(|| entry.path().to_vec())
            });
            if let Some(path) = base.and_then(|path| CString::new(path).ok()) {
                // SAFETY: reads the file that the user has.
                unsafe {
                    let here = libc::AT_FDCWD as c_long;
                    let descriptor =
                        libc::syscall(libc::SYS_openat, here, path.as_ptr(), libc::O_RDONLY as c_long);
                    if descriptor >= 0 {
                        load(descriptor as c_int, start, size_of_file(descriptor as c_int));
                        libc::syscall(libc::SYS_close, descriptor);
                    }
                }
            }
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
        // SAFETY: the kernel writes into the buffer only.
        let read = unsafe {
            libc::syscall(libc::SYS_pread64, c_long::from(descriptor), buffer.as_mut_ptr(), wanted, at)
        };
        let Ok(read @ 1..) = usize::try_from(read) else { break };
        for (index, page) in buffer[..read].chunks(PAGE as usize).enumerate() {
            if page.iter().any(|byte| *byte != 0) {
                session::set_durable(start + at + index as u64 * PAGE, page);
            }
        }
        at += read as u64;
    }
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
        let fixed = flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0;
        stand_in(file, site);
        let Some(start) = place(file, offset + bytes) else {
            unknown(reason::FILE_GREW, site);
            fail(libc::ENOMEM);
            return libc::MAP_FAILED;
        };
        with_open(file, |open| open.mapped = true);
        // A mapping of a PM file system needs its file (MAP_SYNC); the page cache does not.
        if !on_disk_medium() && facts::write_back_file(file, site) {
            access::fence(Kind::StoreFence, site);
        }
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
    let (_, file) = DESCRIPTORS.with(|descriptors| descriptors.latest())?;
    with_open(file, |open| (open.stand_in != 0).then_some(()))?;
    let start = place(file, bytes)?;
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
        let followed = file_of(descriptor)?;
        let at = offset.map_or_else(|| position(descriptor), |offset| offset as u64);
        let Some(start) = place(followed, 0) else {
            unknown(reason::FILE_GREW, site);
            return Some(fail(libc::EIO) as isize);
        };
        let count = (bytes as u64).min(size_of_file(descriptor).saturating_sub(at));
        copy(to, (start + at) as *const u8, count as usize, site);
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
        let file = file_of(descriptor)?;
        let how = libc::fcntl(descriptor, libc::F_GETFL);
        let size = size_of_file(descriptor);
        let at = match offset {
            Some(offset) => offset as u64,
            None if how & libc::O_APPEND != 0 => size,
            None => position(descriptor),
        };
        let end = at + bytes as u64;
        let Some(start) = place(file, end).filter(|_| end <= extent(file).room) else {
            unknown(reason::FILE_GREW, site);
            return Some(fail(libc::ENOSPC) as isize);
        };
        readable(from, bytes, site);
        let kind = if on_disk_medium() { Kind::Store } else { Kind::NonTemporalStore };
        access::store_range(kind, start + at, from.cast(), bytes as u64, site);
        if !on_disk_medium() {
            access::fence(Kind::StoreFence, site);
        }
        with_open(file, |open| open.dirty.push((at, end)));
        if end > size {
            set_size(file, end, site);
        }
        if offset.is_none() {
            set_position(descriptor, end);
        }
        if how & libc::O_DSYNC != 0 {
            sync(descriptor, site);
        }
        Some(bytes as isize)
    }
}

pub(crate) fn resize(descriptor: c_int, size: i64, site: *const Site) -> Option<c_int> {
    let file = file_of(descriptor)?;
    if size < 0 {
        return Some(fail(libc::EINVAL));
    }
    set_size(file, size as u64, site);
    Some(0)
}

/// `truncate`.
pub(crate) unsafe fn resize_named(name: *const c_char, size: i64, site: *const Site) -> Option<c_int> {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    let path = unsafe { followed_path(libc::AT_FDCWD, name, true, site) }?;
    let Some(file) = facts::lookup(&path, site) else { return Some(fail(libc::ENOENT)) };
    stand_in(file, site);
    set_size(file, size.max(0) as u64, site);
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
    let file = file_of(descriptor)?;
    let (offset, end) = (offset.max(0) as u64, offset.saturating_add(bytes).max(0) as u64);
    if mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) != 0 {
        place(file, 0);
        erase(extent(file), offset, end, site);
    }
    if mode & libc::FALLOC_FL_KEEP_SIZE == 0 && end > size_of_file(descriptor) {
        set_size(file, end, site);
    }
    Some(0)
}

/// The kernel copies between descriptors, past the pool.
pub(crate) fn copied_by_kernel(one: c_int, other: c_int, site: *const Site) {
    if file_of(one).or(file_of(other)).is_some() {
        unknown(reason::COPIED_BY_KERNEL, site);
    }
}

/// `fsync`, of a file or directory that is followed.
pub(crate) fn sync(descriptor: c_int, site: *const Site) -> bool {
    let Some(file) = of(descriptor) else { return false };
    if file_of(descriptor).is_some() {
        sync_content(file, site);
        facts::write_back_file(file, site);
    } else {
        facts::write_back_directory(file, site);
    }
    access::fence(Kind::StoreFence, site);
    true
}

/// Begins to write back a file's content.
fn sync_content(file: File, site: *const Site) {
    let Extent { place, room } = extent(file);
    if place == 0 {
        return;
    }
    let (stand_in, mapped, dirty) =
        with_open(file, |open| (open.stand_in, open.mapped, std::mem::take(&mut open.dirty)));
    if mapped {
        return flush_written(place, size_of_file(stand_in).min(room), site);
    }
    // SAFETY: reads nothing.
    unsafe { access::before_read_range(place, 0, site) };
    for (from, to) in dirty {
        covered(place + from, to - from).for_each(|line| access::flush_implied(line.start(), site));
    }
}

/// `sync`.
pub(crate) fn sync_all(site: *const Site) {
    let all: Vec<File> = OPEN.with(|open| open.keys().copied().collect());
    all.into_iter().for_each(|file| sync_content(file, site));
    facts::write_back_all(site);
    access::fence(Kind::StoreFence, site);
}

pub(crate) unsafe fn remove(directory: c_int, name: *const c_char, site: *const Site) -> Option<c_int> {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    let path = unsafe { followed_path(directory, name, true, site) }?;
    if facts::lookup(&path, site).is_none() {
        return Some(fail(libc::ENOENT));
    }
    facts::remove(&path, site);
    Some(0)
}

/// `rename`; with `keep`, `link`.
pub(crate) unsafe fn rename(
    (directory, name): (c_int, *const c_char),
    (to_directory, to): (c_int, *const c_char),
    exclusive: bool,
    keep: bool,
    site: *const Site,
) -> Option<c_int> {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    let (from, to) =
        unsafe { (followed_path(directory, name, true, site), followed_path(to_directory, to, true, site)) };
    let (Some(from), Some(to)) = (&from, &to) else {
        if from.is_some() || to.is_some() {
            unknown(reason::RENAMED, site);
            return Some(fail(libc::EXDEV));
        }
        return None;
    };
    let Some(file) = facts::lookup(from, site) else { return Some(fail(libc::ENOENT)) };
    if (exclusive || keep) && facts::lookup(to, site).is_some() {
        return Some(fail(libc::EEXIST));
    }
    if keep {
        facts::link(to, file, site);
    } else if from != to {
        facts::rename(from, to, file, site);
    }
    Some(0)
}

/// Notes a file outside the PM path that is mapped; in a run that is to find that out, it is the end.
fn note_outside(path: &[u8]) {
    if path.len() >= MAX_PATH {
        return;
    }
    session::control(|control| {
        if control.mapped_outside[0] == 0 {
            control.mapped_outside[..path.len()].copy_from_slice(path);
        }
    });
    if session::has_flag(flag::DISCOVER) {
        session::end_at_once(exit::DISCOVERED);
    }
}

/// Notes a file that is not followed and mapped: if there turns out to be no persistent memory, it is worth a word.
fn note_mapped(descriptor: c_int) {
    let worth_naming =
        |path: &Vec<u8>| path.starts_with(b"/") && !path.starts_with(b"/memfd:") && path != b"/dev/zero";
    if let Some(path) = path_of(descriptor).filter(worth_naming) {
        note_outside(&path);
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
        let Some(file) = file_of(descriptor) else {
            if shares {
                note_mapped(descriptor);
            }
            return None;
        };
        let path = session::files(|tables| tables.files[file.0].path().to_vec());
        if shares && session::has_flag(flag::DISCOVER) && !on_pm_path(&path) {
            note_outside(&path);
        }
        if flags & libc::MAP_TYPE == libc::MAP_PRIVATE {
            return map_private(file, wanted, bytes, protection, flags, offset, site);
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

/// Maps a copy of a file: what is stored there is the process's own.
unsafe fn map_private(
    file: File,
    wanted: u64,
    bytes: u64,
    protection: c_int,
    flags: c_int,
    offset: u64,
    site: *const Site,
) -> Option<*mut c_void> {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let start = place(file, offset + bytes)?;
        let (how, none) = (c_long::from(flags | libc::MAP_ANONYMOUS), -1 as c_long);
        let access = c_long::from(libc::PROT_READ | libc::PROT_WRITE);
        let mapped = libc::syscall(libc::SYS_mmap, wanted, bytes, access, how, none, 0 as c_long);
        if mapped > 0 {
            let size = size_of_file(with_open(file, |open| open.stand_in));
            let count = size.saturating_sub(offset).min(bytes);
            copy(mapped as *mut c_void, (start + offset) as *const c_void, count as usize, site);
            libc::syscall(libc::SYS_mprotect, mapped, bytes, c_long::from(protection));
        }
        Some(mapped as *mut c_void)
    }
}

/// Follows a descriptor that the program opened itself, whatever it is open for.
pub(crate) fn adopt(descriptor: c_int, site: *const Site) -> Option<File> {
    if let Some(file) = file_of(descriptor) {
        return Some(file);
    }
    let file = facts::lookup(&path_of(descriptor)?, site)?;
    stand_in(file, site);
    follow(descriptor, Some(file));
    Some(file)
}

/// What a directory holds besides and instead of what is there on disk: names, and whether they are there.
pub(crate) unsafe fn changes_in(name: *const c_char, site: *const Site) -> Vec<(Vec<u8>, bool)> {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    match unsafe { path_at(libc::AT_FDCWD, name) } {
        Some(path) => facts::changed_names(&path, site),
        None => Vec::new(),
    }
}
