//! Directories the program creates and removes among persistent files.
//!
//! A directory's existence is a name in its parent directory (see `facts`): a crash may lose it, and recovery finds
//! what existed at the crash. On disk a directory is created once and never removed, so that every recovery that needs
//! it finds it; while it does not exist, `facts` hides it. During recovery all directories are treated this way: its
//! changes must not be visible to the next recovery.
//!
//! Simplification: a directory that contains persistent files cannot be renamed; the verdict says so.

use std::ffi::{CString, c_char, c_int};

use crashproof_protocol::abi::Site;
use crashproof_protocol::{flag, reason};

use crate::c_library::memory::{copy, text_length};
use crate::file_table;
use crate::files::{holds_pm_path, on_pm_path, path_at};
use crate::recorder::unknown;
use crate::system::{errno, fail};
use crate::{facts, session};

/// Are changes to the directory with this path followed?
fn is_followed(path: &[u8]) -> bool {
    let all = session::has_flag(flag::ALL_FILES | flag::DISCOVER) || session::undoes_files();
    all || facts::is_followed_directory(path) || on_pm_path(path) || holds_pm_path(path)
}

/// `mkdir`; `None` if the directory is not followed.
pub(crate) unsafe fn make(
    directory: c_int,
    name: *const c_char,
    mode: u32,
    site: *const Site,
) -> Option<c_int> {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    let path = unsafe { path_at(directory, name) }.filter(|path| is_followed(path))?;
    let is_there = facts::is_directory(&path, site);
    if !is_there && facts::is_hidden(facts::parent(&path), site) {
        return Some(fail(libc::ENOENT));
    }
    if is_there
        || facts::on_disk(&path).is_some_and(|(kind, _)| kind != libc::S_IFDIR)
        || facts::lookup(&path, site).is_some()
    {
        return Some(fail(libc::EEXIST));
    }
    Some(if facts::make_directory(&path, mode, site) { 0 } else { -1 })
}

/// `rmdir`; `None` if the directory is not followed.
pub(crate) unsafe fn remove(directory: c_int, name: *const c_char, site: *const Site) -> Option<c_int> {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    let path = unsafe { path_at(directory, name) }.filter(|path| is_followed(path))?;
    if facts::is_hidden(&path, site) {
        return Some(fail(libc::ENOENT));
    }
    if !facts::is_directory(&path, site) {
        return None;
    }
    if !is_empty(&path) {
        return Some(fail(libc::ENOTEMPTY));
    }
    facts::remove(&path, site);
    Some(0)
}

/// Is a directory empty, as the program sees it?
fn is_empty(path: &[u8]) -> bool {
    let Ok(path) = CString::new(path) else { return true };
    let mut count = 0;
    // SAFETY: reads a directory with the functions the program would use, which hide what does not exist.
    unsafe {
        let directory = libc::opendir(path.as_ptr());
        while !directory.is_null() && !libc::readdir64(directory).is_null() {
            count += 1;
        }
        if !directory.is_null() {
            libc::closedir(directory);
        }
    }
    // `.` and `..`.
    count <= 2
}

/// `rename` of a directory; `None` if it is not a followed directory.
pub(crate) unsafe fn rename(
    (directory, name): (c_int, *const c_char),
    (to_directory, to): (c_int, *const c_char),
    site: *const Site,
) -> Option<c_int> {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    let (from, to) = unsafe { (path_at(directory, name)?, path_at(to_directory, to)?) };
    if !facts::is_directory(&from, site) || !(is_followed(&from) || is_followed(&to)) {
        return None;
    }
    if !is_empty(&from) {
        if session::files(|tables| file_table::has_below(tables, &from)) || session::undoes_files() {
            unknown(reason::RENAMED, site);
        }
        return None;
    }
    if facts::is_directory(&to, site) && !is_empty(&to) {
        return Some(fail(libc::ENOTEMPTY));
    }
    let made = facts::make_directory(&to, 0o777, site);
    facts::remove(&from, site);
    Some(if made { 0 } else { -1 })
}

/// Does a directory not exist now, although it is on disk?
pub(crate) unsafe fn is_missing(name: *const c_char, site: *const Site) -> bool {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        !name.is_null() && path_at(libc::AT_FDCWD, name).is_some_and(|path| facts::is_hidden(&path, site))
    }
}

/// Creates something under a temporary name, `ending` bytes before the end of the template: digits replace the `X`s,
/// the same in every run.
pub(crate) unsafe fn make_temporary(
    template: *mut c_char,
    ending: c_int,
    site: *const Site,
    make: impl Fn(*const c_char) -> c_int,
) -> c_int {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let length = text_length(template, site);
        let Some(start) = length.checked_sub(6 + ending.max(0) as usize) else { return fail(libc::EINVAL) };
        let mut name = vec![0u8; length + 1];
        copy(name.as_mut_ptr(), template, length, site);
        for number in 0..10_000_000_u32 {
            for (place, digit) in (0..6).zip(format!("{number:06}").bytes().rev()) {
                name[start + 5 - place] = digit;
            }
            let made = make(name.as_ptr().cast());
            if made >= 0 || errno() != libc::EEXIST {
                copy(template.add(start), name[start..].as_ptr(), 6, site);
                return made;
            }
        }
        fail(libc::EEXIST)
    }
}
