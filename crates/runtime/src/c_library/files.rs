//! Files by descriptor and by name, and mappings; see `files`.

use std::ffi::{c_char, c_int, c_void};

use crashproof_protocol::abi::{Site, is_pm};
use crashproof_protocol::reason;

use super::memory::copy;
use crate::directories;
use crate::facts;
use crate::file_table::File;
use crate::files::{self, Standing};
use crate::fixed;
use crate::interpose::replace;
use crate::mapped;
use crate::mappings;
use crate::recorder::unknown;
use crate::system::fail;

// Address-space functions take addresses as numbers: they mean the window itself, not its alias.

const PAGE: u64 = 4096;

/// A duplicated descriptor refers to the same file.
fn follow_copy(descriptor: c_int, copy: c_int) -> c_int {
    files::follow(copy, files::of(descriptor));
    copy
}

/// Answers a query about a name with `about`, passing its file and the descriptor that stands in for it; `None` if the file is
/// not followed.
pub(super) unsafe fn ask(
    directory: c_int,
    name: *const c_char,
    site: *const Site,
    about: impl FnOnce(File, c_int) -> c_int,
) -> Option<c_int> {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    match unsafe { files::standing(directory, name, site) } {
        Standing::Other => None,
        Standing::Missing => Some(fail(libc::ENOENT)),
        Standing::File(file) => Some(about(file, files::stand_in(file, site))),
    }
}

replace! {
    fn close(descriptor: c_int) -> c_int, caller(rsi)
    |_site| { files::follow(descriptor, None); real(descriptor) }

    fn close_range(first: u32, last: u32, flags: c_int) -> c_int, caller(rcx)
    |_site| {
        files::closed(first as usize, last as usize);
        real(first, last, flags)
    }

    fn closefrom(first: c_int), caller(rsi)
    |_site| {
        files::closed(first.max(0) as usize, usize::MAX);
        real(first)
    }

    fn dup(descriptor: c_int) -> c_int, caller(rsi)
    |_site| { follow_copy(descriptor, real(descriptor)) }

    fn dup2(descriptor: c_int, wanted: c_int) -> c_int, caller(rdx)
    |_site| { follow_copy(descriptor, real(descriptor, wanted)) }

    fn dup3(descriptor: c_int, wanted: c_int, flags: c_int) -> c_int, caller(rcx)
    |_site| { follow_copy(descriptor, real(descriptor, wanted, flags)) }

    fn fcntl(descriptor: c_int, command: c_int, argument: usize) -> c_int, caller(rcx)
    |_site| {
        let answer = real(descriptor, command, argument);
        let copies = matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC);
        if copies { follow_copy(descriptor, answer) } else { answer }
    }

    fn fcntl64(descriptor: c_int, command: c_int, argument: usize) -> c_int, caller(rcx)
    |_site| { libc::fcntl(descriptor, command, argument) }

    fn munmap(start: usize, bytes: usize) -> c_int, caller(rdx)
    |_site| {
        if is_pm(start as u64) {
            mapped::remove(start as u64, bytes as u64);
            return 0;
        }
        fixed::remove(start as u64, bytes as u64);
        real(start, bytes)
    }

    fn mprotect(start: usize, bytes: usize, protection: c_int) -> c_int, caller(rcx)
    |site| {
        let there = fixed::in_pool(start as u64);
        if !is_pm(there) {
            return real(start, bytes, protection);
        }
        if mapped::protect(there, bytes as u64, protection) {
            unknown(reason::PRIVATE_MAPPING, site);
        }
        0
    }

    fn msync(start: usize, bytes: usize, flags: c_int) -> c_int, caller(rcx)
    |site| {
        let start = fixed::in_pool(start as u64);
        if !is_pm(start) {
            return real(start as usize, bytes, flags);
        }
        if !start.is_multiple_of(PAGE) {
            return fail(libc::EINVAL);
        }
        if flags & libc::MS_SYNC != 0 {
            files::write_back(start, bytes as u64, site);
        }
        0
    }

    fn mremap(start: usize, bytes: usize, wanted: usize, flags: c_int, to: usize) -> *mut c_void, caller(r9)
    |site| {
        if !is_pm(start as u64) {
            return real(start, bytes, wanted, flags, to);
        }
        if flags & libc::MREMAP_FIXED == 0 && files::within_one(start as u64, wanted as u64) {
            mapped::resize(start as u64, bytes as u64, wanted as u64);
            return start as *mut c_void;
        }
        unknown(reason::FILE_GREW, site);
        fail(libc::ENOMEM);
        libc::MAP_FAILED
    }

    fn unlinkat(directory: c_int, name: *const c_char, flags: c_int) -> c_int, caller(rcx)
    |site| {
        let removed = if flags & libc::AT_REMOVEDIR != 0 {
            directories::remove(directory, name, site)
        } else {
            files::remove(directory, name, site)
        };
        removed.unwrap_or_else(|| real(directory, name, flags))
    }

    fn rename(from: *const c_char, to: *const c_char) -> c_int, caller(rdx)
    |site| {
        let here = libc::AT_FDCWD;
        directories::rename((here, from), (here, to), site)
            .or_else(|| files::rename((here, from), (here, to), false, false, site))
            .unwrap_or_else(|| real(from, to))
    }

    fn renameat(from: c_int, name: *const c_char, to: c_int, new: *const c_char) -> c_int, caller(r8)
    |site| {
        directories::rename((from, name), (to, new), site)
            .or_else(|| files::rename((from, name), (to, new), false, false, site))
            .unwrap_or_else(|| real(from, name, to, new))
    }

    fn renameat2(from: c_int, name: *const c_char, to: c_int, new: *const c_char, flags: u32) -> c_int, caller(r9)
    |site| {
        if flags & libc::RENAME_EXCHANGE != 0 {
            unknown(reason::RENAMED, site);
        }
        let exclusive = flags & libc::RENAME_NOREPLACE != 0;
        directories::rename((from, name), (to, new), site)
            .or_else(|| files::rename((from, name), (to, new), exclusive, false, site))
            .unwrap_or_else(|| real(from, name, to, new, flags))
    }

    fn link(from: *const c_char, to: *const c_char) -> c_int, caller(rdx)
    |site| {
        let here = libc::AT_FDCWD;
        files::rename((here, from), (here, to), false, true, site).unwrap_or_else(|| real(from, to))
    }

    fn linkat(from: c_int, name: *const c_char, to: c_int, new: *const c_char, flags: c_int) -> c_int, caller(r9)
    |site| {
        files::rename((from, name), (to, new), false, true, site).unwrap_or_else(|| real(from, name, to, new, flags))
    }

    /// A followed file has neither holes nor ranges without data.
    fn lseek(descriptor: c_int, offset: i64, whence: c_int) -> i64, caller(rcx)
    |_site| { files::seek(descriptor, offset, whence).unwrap_or_else(|| real(descriptor, offset, whence)) }

    fn lseek64(descriptor: c_int, offset: i64, whence: c_int) -> i64, caller(rcx)
    |_site| { files::seek(descriptor, offset, whence).unwrap_or_else(|| real(descriptor, offset, whence)) }

    fn faccessat(directory: c_int, name: *const c_char, mode: c_int, flags: c_int) -> c_int, caller(r8)
    |site| { ask(directory, name, site, |_, _| 0).unwrap_or_else(|| real(directory, name, mode, flags)) }

    fn chmod(name: *const c_char, mode: libc::mode_t) -> c_int, caller(rdx)
    |site| { ask(libc::AT_FDCWD, name, site, |_, _| 0).unwrap_or_else(|| real(name, mode)) }

    fn fchmodat(directory: c_int, name: *const c_char, mode: libc::mode_t, flags: c_int) -> c_int, caller(r8)
    |site| { ask(directory, name, site, |_, _| 0).unwrap_or_else(|| real(directory, name, mode, flags)) }

    fn utimensat(directory: c_int, name: *const c_char, times: *const libc::timespec, flags: c_int) -> c_int, caller(r8)
    |site| { ask(directory, name, site, |_, _| 0).unwrap_or_else(|| real(directory, name, times, flags)) }

    fn sync(), caller(rdi)
    |site| { files::sync_all(site) }

    fn syncfs(descriptor: c_int) -> c_int, caller(rsi)
    |site| { let _ = descriptor; files::sync_all(site); 0 }

    fn posix_fallocate(descriptor: c_int, offset: i64, bytes: i64) -> c_int, caller(rcx)
    |site| { files::punch(descriptor, 0, offset, bytes, site).unwrap_or_else(|| real(descriptor, offset, bytes)) }

    fn posix_fallocate64(descriptor: c_int, offset: i64, bytes: i64) -> c_int, caller(rcx)
    |site| { files::punch(descriptor, 0, offset, bytes, site).unwrap_or_else(|| real(descriptor, offset, bytes)) }
}

replace! { [chown lchown] {
    (name: *const c_char, owner: libc::uid_t, group: libc::gid_t) -> c_int, caller(rcx)
    |site| { ask(libc::AT_FDCWD, name, site, |_, _| 0).unwrap_or_else(|| real(name, owner, group)) }
} }

replace! { [utime utimes] {
    (name: *const c_char, times: *const c_void) -> c_int, caller(rdx)
    |site| { ask(libc::AT_FDCWD, name, site, |_, _| 0).unwrap_or_else(|| real(name, times)) }
} }

replace! { [access euidaccess eaccess] {
    (name: *const c_char, mode: c_int) -> c_int, caller(rdx)
    |site| { ask(libc::AT_FDCWD, name, site, |_, _| 0).unwrap_or_else(|| real(name, mode)) }
} }

replace! { [truncate truncate64] {
    (name: *const c_char, size: i64) -> c_int, caller(rdx)
    |site| { files::resize_named(name, size, site).unwrap_or_else(|| real(name, size)) }
} }

replace! { [open open64] {
    (name: *const c_char, flags: c_int, mode: c_int) -> c_int, caller(rcx)
    |site| { files::open_with(libc::AT_FDCWD, name, flags, false, site, |flags| real(name, flags, mode)) }
} }

replace! { [__open_2 __open64_2] {
    (name: *const c_char, flags: c_int) -> c_int, caller(rdx)
    |site| { files::open_with(libc::AT_FDCWD, name, flags, false, site, |flags| real(name, flags)) }
} }

replace! { [openat openat64] {
    (directory: c_int, name: *const c_char, flags: c_int, mode: c_int) -> c_int, caller(r8)
    |site| { files::open_with(directory, name, flags, false, site, |flags| real(directory, name, flags, mode)) }
} }

replace! { [creat creat64] {
    (name: *const c_char, mode: c_int) -> c_int, caller(rdx)
    |site| {
        let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
        files::open_with(libc::AT_FDCWD, name, flags, false, site, |_| real(name, mode))
    }
} }

replace! { [mmap mmap64] {
    (wanted: usize, bytes: usize, protection: c_int, flags: c_int, descriptor: c_int, offset: i64) -> *mut c_void,
        caller(stack)
    |site| {
        match mappings::map_anything(wanted as u64, bytes as u64, protection, flags, descriptor, offset as u64, site) {
            Some(address) => address,
            None => real(wanted, bytes, protection, flags, descriptor, offset),
        }
    }
} }

replace! { [madvise posix_madvise] {
    (start: usize, bytes: usize, advice: c_int) -> c_int, caller(rcx)
    |_site| { if is_pm(fixed::in_pool(start as u64)) { 0 } else { real(start, bytes, advice) } }
} }

replace! { [ftruncate ftruncate64] {
    (descriptor: c_int, size: i64) -> c_int, caller(rdx)
    |site| { files::resize(descriptor, size, site).unwrap_or_else(|| real(descriptor, size)) }
} }

replace! { [fallocate fallocate64] {
    (descriptor: c_int, mode: c_int, offset: i64, bytes: i64) -> c_int, caller(r8)
    |site| {
        files::punch(descriptor, mode, offset, bytes, site).unwrap_or_else(|| real(descriptor, mode, offset, bytes))
    }
} }

replace! { [fsync fdatasync] {
    (descriptor: c_int) -> c_int, caller(rsi)
    |site| { if files::sync(descriptor, site) { 0 } else { real(descriptor) } }
} }

/// Creates a file under a temporary name.
unsafe fn make_temporary(template: *mut c_char, ending: c_int, flags: c_int, site: *const Site) -> c_int {
    let how = flags & !libc::O_ACCMODE | libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        // A name that is taken makes it try another one.
        let _unobserved = facts::Unobserved::new();
        let open = |name| {
            files::open_with(libc::AT_FDCWD, name, how, false, site, |how| libc::open(name, how, 0o600))
        };
        directories::make_temporary(template, ending, site, open)
    }
}

replace! {
    fn mkdtemp(template: *mut c_char) -> *mut c_char, caller(rsi)
    |site| {
        let made = directories::make_temporary(template, 0, site, |name| libc::mkdir(name, 0o700));
        if made == 0 { template } else { std::ptr::null_mut() }
    }

    fn mkdir(name: *const c_char, mode: libc::mode_t) -> c_int, caller(rdx)
    |site| { directories::make(libc::AT_FDCWD, name, mode, site).unwrap_or_else(|| real(name, mode)) }

    fn mkdirat(directory: c_int, name: *const c_char, mode: libc::mode_t) -> c_int, caller(rcx)
    |site| { directories::make(directory, name, mode, site).unwrap_or_else(|| real(directory, name, mode)) }

    fn rmdir(name: *const c_char) -> c_int, caller(rsi)
    |site| { directories::remove(libc::AT_FDCWD, name, site).unwrap_or_else(|| real(name)) }

    fn chdir(name: *const c_char) -> c_int, caller(rsi)
    |site| { if directories::is_missing(name, site) { fail(libc::ENOENT) } else { real(name) } }

    fn unlink(name: *const c_char) -> c_int, caller(rsi)
    |site| { files::remove(libc::AT_FDCWD, name, site).unwrap_or_else(|| real(name)) }

    fn remove(name: *const c_char) -> c_int, caller(rsi)
    |site| {
        directories::remove(libc::AT_FDCWD, name, site)
            .or_else(|| files::remove(libc::AT_FDCWD, name, site))
            .unwrap_or_else(|| real(name))
    }
}

replace! { [mkstemp mkstemp64] {
    (template: *mut c_char) -> c_int, caller(rsi)
    |site| { make_temporary(template, 0, 0, site) }
} }

replace! { [mkostemp mkostemp64] {
    (template: *mut c_char, flags: c_int) -> c_int, caller(rdx)
    |site| { make_temporary(template, 0, flags, site) }
} }

replace! { [mkstemps mkstemps64] {
    (template: *mut c_char, ending: c_int) -> c_int, caller(rdx)
    |site| { make_temporary(template, ending, 0, site) }
} }

/// `realpath`, into memory that the program supplies or that is allocated for it.
unsafe fn find_path(
    name: *const c_char,
    to: *mut c_char,
    site: *const Site,
    find: impl FnOnce(*mut c_char) -> *mut c_char,
) -> *mut c_char {
    const ROOM: usize = libc::PATH_MAX as usize;
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        if name.is_null() {
            return find(to);
        }
        let mut found = match files::real_path(name, site) {
            Some(Some(path)) => path,
            Some(None) => {
                fail(libc::ENOENT);
                return std::ptr::null_mut();
            }
            None if !is_pm(to as u64) => return find(to),
            None => {
                let mut here = vec![0u8; ROOM];
                if find(here.as_mut_ptr().cast()).is_null() {
                    return std::ptr::null_mut();
                }
                here.truncate(here.iter().position(|byte| *byte == 0).unwrap_or(0));
                here
            }
        };
        found.push(0);
        let to = if to.is_null() { libc::malloc(found.len()).cast() } else { to };
        if !to.is_null() {
            copy(to, found.as_ptr(), found.len(), site);
        }
        to
    }
}

replace! {
    fn realpath(name: *const c_char, to: *mut c_char) -> *mut c_char, caller(rdx)
    |site| { find_path(name, to, site, |to| real(name, to)) }

    fn __realpath_chk(name: *const c_char, to: *mut c_char, room: usize) -> *mut c_char, caller(rcx)
    |site| { find_path(name, to, site, |to| real(name, to, room)) }

    fn canonicalize_file_name(name: *const c_char) -> *mut c_char, caller(rsi)
    |site| { find_path(name, std::ptr::null_mut(), site, |_| real(name)) }
}
