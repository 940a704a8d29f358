//! Mappings of persistent files, including files recognized as persistent because they are mapped.

use std::ffi::{c_int, c_void};

use crashproof_protocol::abi::{Site, is_pm};
use crashproof_protocol::{MAX_PATH, exit, flag, reason};

use crate::c_library::memory::copy;
use crate::contents::{changes, place};
use crate::file_table::{File, HUGE};
use crate::files::{on_pm_path, path_of};
use crate::open_files::{DESCRIPTORS, extent, file_of, on_disk_medium, size_of_file, stand_in, with_open};
use crate::recorder::unknown;
use crate::system::{fail, kernel};
use crate::{facts, fixed, mapped, session};

/// Maps a file at its place in the pool, regardless of the requested address.
pub(crate) unsafe fn map(
    file: File,
    wanted: u64,
    bytes: u64,
    protection: c_int,
    flags: c_int,
    offset: u64,
    site: *const Site,
) -> *mut c_void {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let fixed = flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0;
        let stand_in = stand_in(file, site);
        let Some(start) = place(file, offset + bytes) else {
            unknown(reason::FILE_GREW, site);
            fail(libc::ENOMEM);
            return libc::MAP_FAILED;
        };
        with_open(file, |open| open.mapped = true);
        changes(file, site);
        session::files(|tables| tables.files[file.0].mapped = 1);
        // A mapping on a PM file system needs its file to be durable (MAP_SYNC); one in the page cache does not.
        if !on_disk_medium() {
            facts::settle_file(file, site);
        }
        if fixed && is_pm(wanted) {
            mapped::remove(wanted, bytes);
        }
        mapped::add(stand_in, start, start + offset, bytes, protection);
        if fixed && wanted != start + offset {
            return map_fixed(wanted, bytes, flags, start + offset, site);
        }
        if offset + bytes > extent(file).room {
            unknown(reason::FILE_GREW, site);
            fail(libc::ENOMEM);
            return libc::MAP_FAILED;
        }
        (start + offset) as *mut c_void
    }
}

/// Maps part of the pool at the address the program demands.
unsafe fn map_fixed(wanted: u64, bytes: u64, flags: c_int, pool: u64, site: *const Site) -> *mut c_void {
    let length = bytes.next_multiple_of(4096);
    let kept = flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE);
    let how = kept | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let none = libc::PROT_NONE as usize;
    // SAFETY: the program asks for existing mappings there to be replaced.
    let mapped = unsafe {
        kernel(libc::SYS_mmap, [wanted as usize, length as usize, none, how as usize, usize::MAX, 0])
    };
    if mapped > 0 && (is_pm(wanted) || !fixed::add(wanted, length, pool)) {
        unknown(reason::SECOND_PLACE, site);
    }
    mapped as *mut c_void
}

/// Addresses for a program that wants to map into them: the place of the most recently opened file.
fn reserve(bytes: u64) -> Option<u64> {
    let (_, file) = DESCRIPTORS.with(|descriptors| descriptors.latest())?;
    with_open(file, |open| (open.stand_in != 0).then_some(()))?;
    let start = place(file, bytes)?;
    (bytes <= extent(file).room).then_some(start)
}

/// Records a mapped file outside the PM path: the first one, or this one `instead`.
fn note_outside(path: &[u8], instead: bool) {
    if path.len() >= MAX_PATH {
        return;
    }
    session::control(|control| {
        if control.mapped_outside[0] == 0 || instead {
            control.mapped_outside.fill(0);
            control.mapped_outside[..path.len()].copy_from_slice(path);
        }
    });
}

/// Is a descriptor open for writing?
fn is_writable(descriptor: c_int) -> bool {
    // SAFETY: a query without side effects.
    let how = unsafe { libc::fcntl(descriptor, libc::F_GETFL) };
    how >= 0 && how & libc::O_ACCMODE != libc::O_RDONLY
}

/// Records a mapped file that is not followed: worth mentioning if no persistent memory is found.
fn note_mapped(descriptor: c_int) {
    let worth_naming =
        |path: &Vec<u8>| path.starts_with(b"/") && !path.starts_with(b"/memfd:") && path != b"/dev/zero";
    if let Some(path) = path_of(descriptor).filter(worth_naming) {
        note_outside(&path, false);
    }
}

/// `mmap`, if PM is involved.
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
                mapped::remove(wanted, bytes);
                return Some(wanted as *mut c_void);
            }
            if !fixed && protection == libc::PROT_NONE && bytes >= HUGE {
                return Some(reserve(bytes)? as *mut c_void);
            }
            return None;
        }
        let shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
        let Some(file) = file_of(descriptor) else {
            if shared && protection & libc::PROT_WRITE != 0 {
                note_mapped(descriptor);
            }
            return None;
        };
        // A file open for writing is data, even if this mapping only reads it (and `pwrite` writes it).
        if shared && session::has_flag(flag::DISCOVER) && is_writable(descriptor) {
            let path = session::files(|tables| tables.files[file.0].path().to_vec());
            if !on_pm_path(&path) {
                note_outside(&path, true);
                session::end_at_once(exit::DISCOVERED);
            }
        }
        let is_mapped = with_open(file, |open| open.mapped);
        if !shared && is_mapped && protection & libc::PROT_WRITE == 0 {
            // What is never written shows what the file holds: another view of it.
            let flags = flags & !libc::MAP_TYPE | libc::MAP_SHARED;
            let view = map(file, wanted, bytes, protection, flags, offset, site);
            if view != libc::MAP_FAILED {
                mapped::mark_view();
            }
            return Some(view);
        }
        if !shared {
            // Stores through a mapping cannot be noticed as changes of the file.
            with_open(file, |open| open.copied = true);
            if is_mapped {
                changes(file, site);
            }
            return map_private(file, wanted, bytes, protection, flags, offset, site);
        }
        Some(map(file, wanted, bytes, protection, flags, offset, site))
    }
}

/// Maps a copy of a file: stores there stay private to the process.
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
        let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        // Of what stands in for it: behind its end there is nothing, and the kernel says so.
        let of = with_open(file, |open| open.stand_in) as usize;
        let how = [wanted as usize, bytes as usize, access, flags as usize, of, offset as usize];
        let mapped = kernel(libc::SYS_mmap, how);
        if mapped > 0 {
            let size = size_of_file(with_open(file, |open| open.stand_in));
            let _unchecked = mapped::Unchecked::new();
            let count = size.saturating_sub(offset).min(bytes);
            copy(mapped as *mut c_void, (start + offset) as *const c_void, count as usize, site);
            kernel(libc::SYS_mprotect, [mapped as usize, bytes as usize, protection as usize, 0, 0, 0]);
        }
        Some(mapped as *mut c_void)
    }
}
