//! Persistent files.
//!
//! The program never gets hold of the real files. It opens a stand-in in memory with the file's size; reading, writing
//! and mapping go to the pool, where the content has the same place in every run. What the file held before the check
//! is durable content from the start. So every recovery finds exactly what survived, no recovery sees another's
//! changes, and the user's files are never modified. Sizes and names are in `facts`.
//!
//! Which files these are: those on the PM path, those that libpmem maps, and with [`flag::ALL_FILES`] all files the
//! program writes. On a PM file system `write` is durable when it returns, and mapping a file makes its size and name
//! durable (as MAP_SYNC does); on a disk ([`flag::DISK`]) nothing is durable before `fsync` and its relatives.
//!
//! A program that first reserves addresses (an inaccessible anonymous mapping) and then maps into them, as PMDK does,
//! gets the place of the most recently opened file as the reservation. Pool sets of several files mapped one after
//! another do not work this way; the verdict says so.
//!
//! Simplifications: an unmapped file can still be accessed; protections are ignored.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_long};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crashproof_protocol::abi::Site;
use crashproof_protocol::{DEFAULT_PM_PATH, MAX_PATH, PM_PATH, flag, reason};

use crate::c_library::determinism::open_random;
use crate::c_library::memory::text_length;
use crate::contents::set_size;
pub(crate) use crate::contents::{
    punch, read, resize, seek, sync, sync_all, write, write_back, written_pages,
};
pub(crate) use crate::file_table::File;
use crate::open_files::file_of;
pub(crate) use crate::open_files::{are_mentioned, closed, follow, of, places, stand_in, within_one};
use crate::real::Real;
use crate::recorder::unknown;
use crate::system::{fail, kernel};
use crate::{facts, session};

/// Resolves the path of a file on disk, without the C library's function, which is interposed.
fn canonical(path: &Path) -> Option<PathBuf> {
    static REAL: Real = Real::new("realpath\0", None);
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut found = [0u8; libc::PATH_MAX as usize];
    // SAFETY: the symbol has this type, and the buffer has room for any path.
    let real = unsafe {
        let find: unsafe extern "C" fn(*const c_char, *mut u8) -> *mut c_char =
            std::mem::transmute(REAL.get());
        find(path.as_ptr(), found.as_mut_ptr())
    };
    let end = found.iter().position(|byte| *byte == 0)?;
    (!real.is_null()).then(|| PathBuf::from(OsStr::from_bytes(&found[..end])))
}

pub(crate) fn on_pm_path(path: &[u8]) -> bool {
    let value = std::env::var_os(PM_PATH);
    let paths = value.as_ref().map_or(DEFAULT_PM_PATH.as_bytes(), |value| value.as_bytes());
    paths.split(|byte| *byte == b':').any(|prefix| match prefix {
        [] => false,
        [start @ .., b'*'] => path.starts_with(start),
        // A file may be named before it exists.
        exact if exact == path => true,
        directory => {
            // Nothing exists below a directory that does not exist.
            let real = canonical(Path::new(OsStr::from_bytes(directory)));
            real.is_some_and(|real| Path::new(OsStr::from_bytes(path)).starts_with(real))
        }
    })
}

/// May a program keep data there, or is it a system path?
fn is_ordinary(path: &[u8]) -> bool {
    // Files that emulate persistent memory are often in /dev/shm, but so are semaphores.
    let shared = path.starts_with(b"/dev/shm/") && !path.starts_with(b"/dev/shm/sem.");
    (shared || ![&b"/dev/"[..], b"/proc/", b"/sys/"].iter().any(|start| path.starts_with(start)))
        && facts::on_disk(path).is_none_or(|(kind, _)| kind == libc::S_IFREG)
}

/// Is anything on the PM path below a directory?
pub(crate) fn holds_pm_path(directory: &[u8]) -> bool {
    let value = std::env::var_os(PM_PATH);
    let paths = value.as_ref().map_or(DEFAULT_PM_PATH.as_bytes(), |value| value.as_bytes());
    let mut paths = paths.split(|byte| *byte == b':');
    paths.any(|path| path.strip_prefix(directory).is_some_and(|rest| rest.starts_with(b"/")))
}

/// Is the file with this path followed?
fn is_followed(path: &[u8], writes: bool, site: *const Site) -> bool {
    let all = session::has_flag(flag::ALL_FILES | flag::DISCOVER) || session::undoes_files();
    on_pm_path(path) || facts::is_known(path, site) || all && writes && is_ordinary(path)
}

/// The path of a descriptor's file.
pub(crate) fn path_of(descriptor: c_int) -> Option<Vec<u8>> {
    let link = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok()?;
    Some(link.as_os_str().as_bytes().to_vec())
}

/// The path that a name denotes, even if nothing exists there.
pub(crate) unsafe fn path_at(directory: c_int, name: *const c_char) -> Option<Vec<u8>> {
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
        if let Some(real) = canonical(&whole) {
            return Some(real.into_os_string().into_encoded_bytes());
        }
        let parent = canonical(whole.parent()?)?;
        Some(parent.join(whole.file_name()?).into_os_string().into_encoded_bytes())
    }
}

/// What a name denotes.
pub(crate) enum Standing {
    /// Nothing that is followed.
    Other,
    /// Nothing; what is on disk under this name does not exist now.
    Missing,
    /// A followed file.
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
        if facts::is_hidden(&path, site) {
            return Some(path);
        }
        let is_other = |(kind, _): (u32, u64)| !matches!(kind, libc::S_IFREG | libc::S_IFCHR);
        let is_other = facts::on_disk(&path).is_some_and(is_other);
        (!is_other && is_followed(&path, writes, site)).then_some(path)
    }
}

pub(crate) unsafe fn standing(directory: c_int, name: *const c_char, site: *const Site) -> Standing {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let Some(path) = followed_path(directory, name, false, site) else { return Standing::Other };
        match facts::lookup(&path, site).filter(|_| !facts::is_hidden(&path, site)) {
            Some(file) => Standing::File(file),
            None => Standing::Missing,
        }
    }
}

/// Opens with `open`; follows the file if it is persistent, or in any case with `anywhere`.
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
            // It does not survive a crash, so it is not persistent.
            return open(flags);
        }
        let there = facts::on_disk(&path);
        if facts::is_hidden(&path, site) {
            return fail(libc::ENOENT);
        }
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
            if writes && is_ordinary(&path) {
                note_written(&path);
            }
            return open(flags);
        }
        open_followed(&path, flags, site)
    }
}

/// Records a written file that is not followed: worth mentioning if no persistent memory is found.
fn note_written(path: &[u8]) {
    session::control(|control| {
        if session::recording() && control.written_outside[0] == 0 && path.len() < MAX_PATH {
            control.written_outside[..path.len()].copy_from_slice(path);
        }
    });
}

fn open_followed(path: &[u8], flags: c_int, site: *const Site) -> c_int {
    if facts::is_hidden(path, site) {
        return fail(libc::ENOENT);
    }
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
    // An empty file, whether there was one or not.
    let creates = flags & (libc::O_CREAT | libc::O_EXCL) == libc::O_CREAT;
    let unobserved = (creates && flags & libc::O_TRUNC != 0 && writes).then(facts::Unobserved::new);
    let found = facts::lookup(path, site);
    drop(unobserved);
    let file = match found {
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
    // A separate open file description, with its own position.
    let name = CString::new(format!("/proc/self/fd/{stand_in}")).expect("no zero");
    let gone = libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_DIRECT | libc::O_NOFOLLOW;
    // SAFETY: opens the runtime's own file.
    let descriptor = unsafe {
        let here = libc::AT_FDCWD as usize;
        kernel(libc::SYS_openat, [here, name.as_ptr() as usize, (flags & !gone) as usize, 0, 0, 0])
    };
    let descriptor = descriptor as c_int;
    follow(descriptor, Some(file));
    descriptor
}

/// Do the permissions of the file on disk allow this?
fn is_permitted(path: &[u8], writes: bool) -> bool {
    let Ok(path) = CString::new(path) else { return false };
    let mode = if writes { libc::R_OK | libc::W_OK } else { libc::R_OK };
    // SAFETY: asks only.
    unsafe {
        libc::syscall(libc::SYS_faccessat, libc::AT_FDCWD as c_long, path.as_ptr(), c_long::from(mode)) == 0
    }
}

/// Opens a followed file as a stream would; `None` if it is not followed.
pub(crate) unsafe fn open_for_stream(name: *const c_char, flags: c_int, site: *const Site) -> Option<c_int> {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let path = followed_path(libc::AT_FDCWD, name, writes, site)?;
        Some(open_followed(&path, flags, site))
    }
}

/// Would a stream opened under this name refer to a followed file?
pub(crate) unsafe fn is_for_stream(name: *const c_char, mode: *const c_char, site: *const Site) -> bool {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let writes =
            !mode.is_null() && CStr::from_ptr(mode).to_bytes().iter().any(|letter| b"wa+".contains(letter));
        followed_path(libc::AT_FDCWD, name, writes, site).is_some()
    }
}

/// The path of a followed file that did not exist when the check began, or no longer exists: the kernel cannot resolve
/// it.
pub(crate) unsafe fn real_path(name: *const c_char, site: *const Site) -> Option<Option<Vec<u8>>> {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let path = followed_path(libc::AT_FDCWD, name, false, site)?;
        Some(facts::lookup(&path, site).map(|_| path))
    }
}

/// Does any file's name differ from what is on disk?
pub(crate) fn have_names() -> bool {
    session::files(|tables| !crate::file_table::taken(tables).is_empty())
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

pub(crate) unsafe fn remove(directory: c_int, name: *const c_char, site: *const Site) -> Option<c_int> {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    let path = unsafe { followed_path(directory, name, true, site) }?;
    // Afterwards the name is gone, whether it was there or not.
    let unobserved = facts::Unobserved::new();
    let found = facts::lookup(&path, site);
    drop(unobserved);
    if found.is_none() {
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

/// Opens a file that is persistent memory regardless of its path.
pub(crate) unsafe fn open_anywhere(
    name: *const c_char,
    flags: c_int,
    mode: c_int,
    site: *const Site,
) -> c_int {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        open_with(libc::AT_FDCWD, name, flags, true, site, |flags| {
            let here = libc::AT_FDCWD as usize;
            kernel(libc::SYS_openat, [here, name as usize, flags as usize, mode as usize, 0, 0]) as c_int
        })
    }
}

/// Follows a descriptor the program opened itself, whatever it refers to.
pub(crate) fn adopt(descriptor: c_int, site: *const Site) -> Option<File> {
    if let Some(file) = file_of(descriptor) {
        return Some(file);
    }
    let file = facts::lookup(&path_of(descriptor)?, site)?;
    stand_in(file, site);
    follow(descriptor, Some(file));
    Some(file)
}
