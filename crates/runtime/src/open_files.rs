//! The persistent files this process has open, and their stand-ins.

use std::collections::BTreeMap;
use std::ffi::c_int;

use crashproof_protocol::abi::Site;
use crashproof_protocol::flag;

use crate::cell::RunningThreadCell;
use crate::file_table::{self, Descriptors, Extent, File};
use crate::system::{kernel, raw_syscall};
use crate::{facts, session};

pub(crate) static DESCRIPTORS: RunningThreadCell<Descriptors> = RunningThreadCell::new(Descriptors::new());

/// A file this process has opened.
#[derive(Clone, Default)]
pub(crate) struct Open {
    /// The stand-in: all descriptors that the program gets refer to it.
    pub(crate) stand_in: c_int,
    /// The extent that holds its content, if not its own.
    pub(crate) extent: Option<File>,
    /// Has it ever been mapped?
    pub(crate) mapped: bool,
    /// Has it ever been mapped privately? Later stores to it may show there or not.
    pub(crate) copied: bool,
    /// Ranges written but not written back, while it has never been mapped.
    pub(crate) dirty: Vec<(u64, u64)>,
}

pub(crate) static OPEN: RunningThreadCell<BTreeMap<File, Open>> = RunningThreadCell::new(BTreeMap::new());

pub(crate) fn with_open<R>(file: File, access: impl FnOnce(&mut Open) -> R) -> R {
    OPEN.with(|open| access(open.entry(file).or_default()))
}

/// Where a file's content is in the pool; nowhere if its place is 0.
pub(crate) fn extent(file: File) -> Extent {
    let content = with_open(file, |open| open.extent).unwrap_or(file);
    session::files(|tables| file_table::extent(&tables.files[content.0]))
}

/// The places of all contents, as ranges.
pub(crate) fn places() -> Vec<(u64, u64)> {
    session::files(|tables| {
        let placed = file_table::taken(tables).iter().filter(|entry| entry.place != 0);
        placed.map(|entry| (entry.place, entry.place + entry.used.min(entry.room))).collect()
    })
}

/// Does a text mention a followed file by name?
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

pub(crate) fn on_disk_medium() -> bool {
    session::has_flag(flag::DISK)
}

/// The file that a descriptor is open for.
pub(crate) fn of(descriptor: c_int) -> Option<File> {
    DESCRIPTORS.with(|descriptors| descriptors.file(descriptor))
}

/// Records that a descriptor is open for a file, or for none.
pub(crate) fn follow(descriptor: c_int, file: Option<File>) {
    DESCRIPTORS.with(|descriptors| descriptors.follow(descriptor, file));
}

/// Records that descriptors `first` to `last` are closed.
pub(crate) fn closed(first: usize, last: usize) {
    DESCRIPTORS.with(|descriptors| descriptors.close(first, last));
}

/// The file that a descriptor is open for, unless it is a directory.
pub(crate) fn file_of(descriptor: c_int) -> Option<File> {
    of(descriptor).filter(|file| with_open(*file, |open| open.stand_in != 0))
}

/// The stand-in for a file in this process. Its size depends on the crash.
pub(crate) fn stand_in(file: File, site: *const Site) -> c_int {
    let known = with_open(file, |open| open.stand_in);
    if known != 0 {
        return known;
    }
    let (size, extent) = facts::size(file, site);
    // SAFETY: the runtime's own descriptors.
    let stand_in = unsafe {
        let made = libc::memfd_create(c"file".as_ptr(), libc::MFD_CLOEXEC);
        kernel(libc::SYS_ftruncate, [made as usize, size as usize, 0, 0, 0, 0]);
        // Moved out of the way: programs expect the lowest numbers.
        let moved =
            raw_syscall(libc::SYS_fcntl, [made as usize, libc::F_DUPFD_CLOEXEC as usize, 100, 0, 0, 0])
                as c_int;
        if moved >= 0 {
            kernel(libc::SYS_close, [made as usize, 0, 0, 0, 0, 0]);
        }
        if moved >= 0 { moved } else { made }
    };
    with_open(file, |open| (open.stand_in, open.extent) = (stand_in, extent));
    stand_in
}

/// Has a stand-in been written to directly? The runtime keeps contents elsewhere.
pub(crate) fn any_written_raw() -> bool {
    let stand_ins: Vec<c_int> = OPEN.with(|open| open.values().map(|open| open.stand_in).collect());
    stand_ins.into_iter().filter(|stand_in| *stand_in > 0).any(|stand_in| {
        let mut bytes = [0u8; 4096];
        // SAFETY: queries, and a read into the buffer.
        unsafe {
            let mut at =
                raw_syscall(libc::SYS_lseek, [stand_in as usize, 0, libc::SEEK_DATA as usize, 0, 0, 0]);
            while at >= 0 {
                let into = [stand_in as usize, bytes.as_mut_ptr() as usize, bytes.len(), at as usize, 0, 0];
                let length = raw_syscall(libc::SYS_pread64, into);
                if length > 0 && bytes[..length as usize].iter().any(|byte| *byte != 0) {
                    return true;
                }
                let behind = at as usize + length.max(1) as usize;
                at = raw_syscall(
                    libc::SYS_lseek,
                    [stand_in as usize, behind, libc::SEEK_DATA as usize, 0, 0, 0],
                );
            }
        }
        false
    })
}

pub(crate) fn size_of_file(descriptor: c_int) -> u64 {
    // SAFETY: all-zero bytes are valid; the kernel fills the structure in.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        if libc::fstat(descriptor, &raw mut status) == 0 { status.st_size as u64 } else { 0 }
    }
}

/// Where a descriptor reads or writes next.
pub(crate) fn position(descriptor: c_int) -> u64 {
    // SAFETY: a query without side effects.
    unsafe { kernel(libc::SYS_lseek, [descriptor as usize, 0, libc::SEEK_CUR as usize, 0, 0, 0]) as u64 }
}

pub(crate) fn set_position(descriptor: c_int, position: u64) {
    // SAFETY: moves only the position.
    unsafe {
        kernel(libc::SYS_lseek, [descriptor as usize, position as usize, libc::SEEK_SET as usize, 0, 0, 0])
    };
}
