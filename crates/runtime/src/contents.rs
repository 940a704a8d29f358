//! The contents of persistent files: where they are in the pool, access by descriptor, and when they become durable.

use std::ffi::{CString, c_int, c_void};

use crashproof_protocol::abi::Site;
use crashproof_protocol::{flag, reason, record};
use px86::line::{covered, words};
use px86::{Kind, LINE_BYTES};

use crate::c_library::memory::{copy, readable};
use crate::file_table::{self, Extent, File, Place};
use crate::open_files::{
    OPEN, extent, file_of, of, on_disk_medium, position, set_position, size_of_file, with_open,
};
use crate::recorder::{note, unknown};
use crate::shadow::forget;
use crate::system::{fail, kernel, raw_syscall};
use crate::threads::running;
use crate::{access, facts, mapped, raw, session};

const PAGE: u64 = 4096;

/// Changes a file's size. Truncated content stays in place until the file grows over it again, so that a crash finds
/// the old size with the old content. If nothing remains, new content goes to a new extent.
pub(crate) fn set_size(file: File, size: u64, site: *const Site) {
    let (stand_in, before, mapped) = with_open(file, |open| (open.stand_in, open.extent, open.mapped));
    let old = size_of_file(stand_in);
    if size == old {
        return;
    }
    changes(file, site);
    if size == 0 && !mapped {
        let extent = facts::new_extent(file, before, site).or(before);
        with_open(file, |open| {
            open.extent = extent;
            open.dirty.clear();
        });
    }
    if size > old {
        erase_behind(file, old, size, site);
    }
    note_size(file, size, site);
}

/// A file is about to change. Whether private mappings of it show that is unspecified.
pub(crate) fn changes(file: File, site: *const Site) {
    if with_open(file, |open| open.copied) {
        unknown(reason::PRIVATE_MAPPING, site);
    }
}

/// Records a file's new size.
pub(crate) fn note_size(file: File, size: u64, site: *const Site) {
    let (stand_in, extent, mapped) = with_open(file, |open| (open.stand_in, open.extent, open.mapped));
    // SAFETY: changes only the stand-in's size.
    unsafe { kernel(libc::SYS_ftruncate, [stand_in as usize, size as usize, 0, 0, 0, 0]) };
    mapped::resized();
    facts::set_size(file, size, extent, site);
    if mapped && !on_disk_medium() {
        facts::settle_file(file, site);
    }
}

/// Erases what a file held past its end, either before it was truncated or because a crash preserved content without
/// the size, so that it is gone when the file grows. A recovery erases the same range no matter how far others have
/// used the file, and whether or not they placed it.
pub(crate) fn erase_behind(file: File, from: u64, to: u64, site: *const Site) {
    let used = extent(file).used;
    if session::recovering() {
        place(file, to);
    }
    let content = Extent { used, ..extent(file) };
    if content.place != 0 {
        erase(content, from, to, site);
    }
}

/// Erases a file's content between two offsets. Lines that hold something are overwritten; for the others it suffices
/// that their content before the crash no longer matters.
pub(crate) fn erase(file: Extent, from: u64, to: u64, site: *const Site) {
    let Extent { place, room, used } = file;
    let (from, to) = (place + from.min(room), place + to.min(room));
    if from >= to {
        return;
    }
    let _unchecked = mapped::Unchecked::new();
    let pages = from / PAGE * PAGE;
    // Nothing beyond was ever stored.
    let bytes = to.min(place + used).saturating_sub(pages);
    let mut any = false;
    for (start, bytes) in written_pages(pages, bytes).chain(stored_content(pages, bytes)) {
        let (begin, end) = (start.max(from), (start + bytes).min(to));
        for line in covered(begin, end.saturating_sub(begin)) {
            let first = line.start().max(begin);
            let width = (line.start() + LINE_BYTES).min(end) - first;
            // SAFETY: this part of the pool belongs to the file, and is mapped.
            unsafe {
                if words(first, width).any(|word| raw::peek(word.address, word.width.into()) != 0) {
                    access::fill(first, 0, width, site);
                    access::flush_implied(first, site);
                    any = true;
                }
            }
        }
    }
    let (first, last) = (from.next_multiple_of(LINE_BYTES), to / LINE_BYTES * LINE_BYTES);
    if first < last {
        forget(first, last - first);
    }
    if any {
        access::fence(Kind::StoreFence, site);
    }
}

/// The pages of a range that this process has written, as ranges. Reads the page map: a page of a private mapping of
/// the image is anonymous once it has been written.
pub(crate) fn written_pages(start: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    const PRESENT: u64 = 1 << 63;
    const SWAPPED: u64 = 1 << 62;
    const OF_FILE: u64 = 1 << 61;
    /// Pages asked for at a time: a file may be large and nearly empty.
    const AT_ONCE: u64 = 1 << 17;
    let first = start / PAGE;
    let first_there = raw::reachable(start) / PAGE;
    let count = (start + bytes).div_ceil(PAGE) - first;
    let file = std::fs::File::open("/proc/self/pagemap").ok();
    (0..count).step_by(AT_ONCE as usize).flat_map(move |from| {
        let mut map = vec![0u8; (count - from).min(AT_ONCE) as usize * 8];
        if let Some(file) = &file {
            let _ = std::os::unix::fs::FileExt::read_at(file, &mut map, (first_there + from) * 8);
        }
        let written = |entry: &[u8; 8]| {
            let entry = u64::from_le_bytes(*entry);
            entry & SWAPPED != 0 || entry & PRESENT != 0 && entry & OF_FILE == 0
        };
        let pages: Vec<u64> = (from..)
            .zip(map.as_chunks().0)
            .filter(|(_, entry)| written(entry))
            .map(|(page, _)| page)
            .collect();
        pages.into_iter().map(move |page| ((first + page) * PAGE, PAGE))
    })
}

/// The parts of a range for which the image holds anything, as ranges of whole pages.
pub(crate) fn stored_content(start: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let pages = start / PAGE * PAGE;
    session::image_parts(pages, (start + bytes).next_multiple_of(PAGE) - pages)
        .flat_map(|(start, bytes)| (start..start + bytes).step_by(PAGE as usize))
        .filter_map(|page| session::image_holds(page, PAGE).then_some((page, PAGE)))
}

/// Begins to write back the written pages of a range.
pub(crate) fn flush_written(start: u64, bytes: u64, site: *const Site) {
    // Stores still in this thread's store buffer count as written, too.
    // SAFETY: reads nothing.
    unsafe { access::before_read_range(start, 0, site) };
    for (page, bytes) in written_pages(start, bytes) {
        covered(page, bytes).for_each(|line| access::flush_implied(line.start(), site));
    }
}

/// Writes back the written pages of a range, and waits: `msync`.
pub(crate) fn write_back(start: u64, bytes: u64, site: *const Site) {
    session::control(|control| control.synced = 1);
    flush_written(start, bytes, site);
    let all: Vec<File> = OPEN.with(|open| open.keys().copied().collect());
    let within = |file: &File| {
        let Extent { place, room, .. } = extent(*file);
        (place..place + room).contains(&start)
    };
    if let Some(file) = all.into_iter().find(within) {
        facts::write_back_file(file, site);
    }
    access::fence(Kind::StoreFence, site);
}

/// Assigns a file's content its place in the pool, and loads it from disk.
pub(crate) fn place(file: File, bytes: u64) -> Option<u64> {
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
                // SAFETY: only reads the user's file.
                unsafe {
                    let (here, how) = (libc::AT_FDCWD as usize, libc::O_RDONLY as usize);
                    let opened = [here, path.as_ptr() as usize, how, 0, 0, 0];
                    let descriptor = kernel(libc::SYS_openat, opened);
                    if descriptor >= 0 {
                        load(descriptor as c_int, start, size_of_file(descriptor as c_int));
                        kernel(libc::SYS_close, [descriptor as usize, 0, 0, 0, 0, 0]);
                    }
                }
            }
            Some(start)
        }
        Place::None => None,
    }
}

/// Makes a file's content on disk the durable content.
pub(crate) fn load(descriptor: c_int, start: u64, size: u64) {
    let mut buffer = vec![0u8; 1 << 20];
    let mut at = 0;
    while at < size {
        // Holes need not be read.
        // SAFETY: moves the position, which is restored below.
        let data = unsafe {
            kernel(libc::SYS_lseek, [descriptor as usize, at as usize, libc::SEEK_DATA as usize, 0, 0, 0])
        };
        match u64::try_from(data) {
            Ok(data) => at = data,
            Err(_) => break,
        }
        let wanted = buffer.len().min((size - at) as usize);
        // Reads the disk directly: `pread` and `syscall` return the pool's content for a file with a place.
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
}

/// Reads by descriptor from a file that has a place in the pool.
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
        let _unchecked = mapped::Unchecked::new();
        copy(to, (start + at) as *const u8, count as usize, site);
        if offset.is_none() {
            set_position(descriptor, at + count);
        }
        Some(count as isize)
    }
}

/// Writes by descriptor to a file that has a place in the pool.
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
            if session::undoes_files() {
                // All files a recovery writes are in the pool, and there is no room for all of them.
                return Some(fail(libc::ENOSPC) as isize);
            }
            unknown(reason::FILE_GREW, site);
            return Some(fail(libc::ENOSPC) as isize);
        };
        readable(from, bytes, site);
        changes(file, site);
        if at > size {
            erase_behind(file, size, at, site);
        }
        // A discovery run must not mistake this for the program's own stores.
        let cached = on_disk_medium() || session::has_flag(flag::DISCOVER);
        let kind = if cached { Kind::Store } else { Kind::NonTemporalStore };
        let whole = on_disk_medium();
        if whole {
            // The kernel does not write a page back while it copies into it.
            note(record::WRITE, 0, 1, site);
        }
        let unchecked = mapped::Unchecked::new();
        access::store_range(kind, start + at, from.cast(), bytes as u64, site);
        drop(unchecked);
        if whole {
            if running::concurrent() {
                access::fence(Kind::Fence, site);
            }
            note(record::WRITE, 0, 0, site);
        }
        if !cached {
            access::fence(Kind::StoreFence, site);
        }
        with_open(file, |open| open.dirty.push((at, end)));
        if end > size {
            note_size(file, end, site);
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

/// `fallocate`: holes and zeroed ranges of a file with a place are handled in the pool.
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
        changes(file, site);
        place(file, 0);
        erase(extent(file), offset, end, site);
    }
    if mode & libc::FALLOC_FL_KEEP_SIZE == 0 && end > size_of_file(descriptor) {
        set_size(file, end, site);
    }
    Some(0)
}

/// `lseek` for data and holes: the whole file is data.
pub(crate) fn seek(descriptor: c_int, offset: i64, whence: c_int) -> Option<i64> {
    if !matches!(whence, libc::SEEK_DATA | libc::SEEK_HOLE) {
        return None;
    }
    file_of(descriptor)?;
    let size = size_of_file(descriptor) as i64;
    if offset < 0 || offset >= size {
        return Some(i64::from(fail(libc::ENXIO)));
    }
    let found = if whence == libc::SEEK_DATA { offset } else { size };
    set_position(descriptor, found as u64);
    Some(found)
}

/// `fsync` of a followed file or directory.
pub(crate) fn sync(descriptor: c_int, site: *const Site) -> bool {
    let Some(file) = of(descriptor) else { return false };
    session::control(|control| control.synced = 1);
    let any = if file_of(descriptor).is_some() {
        let content = sync_content(file, site);
        facts::write_back_file(file, site) || content
    } else {
        facts::write_back_directory(file, site)
    };
    // An `fsync` that finds nothing to write is not a redundancy worth reporting.
    if any {
        access::fence(Kind::StoreFence, site);
    }
    true
}

/// Begins to write back a file's content, and returns whether there was any.
pub(crate) fn sync_content(file: File, site: *const Site) -> bool {
    let Extent { place, room, .. } = extent(file);
    if place == 0 {
        return false;
    }
    let (stand_in, mapped, dirty) =
        with_open(file, |open| (open.stand_in, open.mapped, std::mem::take(&mut open.dirty)));
    if mapped {
        flush_written(place, size_of_file(stand_in).min(room), site);
        return true;
    }
    let any = !dirty.is_empty();
    // SAFETY: reads nothing.
    unsafe { access::before_read_range(place, 0, site) };
    for (from, to) in dirty {
        covered(place + from, to - from).for_each(|line| access::flush_implied(line.start(), site));
    }
    any
}

/// `sync`.
pub(crate) fn sync_all(site: *const Site) {
    let all: Vec<File> = OPEN.with(|open| open.keys().copied().collect());
    for file in all {
        sync_content(file, site);
    }
    facts::write_back_all(site);
    access::fence(Kind::StoreFence, site);
}
