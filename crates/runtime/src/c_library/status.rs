//! What files say about themselves.
//!
//! Of a followed file, the size is that of its stand-in. The stand-in is made anew in each run, so its number and its
//! times would differ from run to run; programs that keep or compare them (libpmemobj copies the time into its pool)
//! would not be repeatable. They get others, which depend only on the file.

use std::ffi::{c_char, c_int};

use crashproof_protocol::abi::Site;

use super::files::ask;
use super::memory::{text_length, write};
use super::time;
use crate::file_table::File;
use crate::interpose::replace;
use crate::open_files::file_of;
use crate::system::{fail, raw_syscall};

type Status = *mut libc::stat;
type ExtendedStatus = *mut libc::statx;

/// What kind of file it is, and who may access it.
const MODE: u16 = (libc::S_IFREG | libc::S_IRUSR | libc::S_IWUSR) as u16;

/// The number of a followed file; ordinary ones have others, since theirs are smaller or on other devices.
fn number(file: File) -> u64 {
    (1 << 32) + file.0 as u64
}

/// Writes an answer to where the program wants it. All of it, which does not depend on what was there before.
unsafe fn answer<T>(to: *mut T, site: *const Site, ask: impl FnOnce(*mut T) -> c_int) -> c_int {
    let mut here = std::mem::MaybeUninit::<T>::zeroed();
    let result = ask(here.as_mut_ptr());
    if result == 0 {
        // SAFETY: the program vouches for its pointers, as it would to the C library.
        unsafe { write(to, here.as_ptr(), size_of::<T>(), site) };
    }
    result
}

/// The status of a stand-in, as that of its file; `status` is volatile.
unsafe fn of_stand_in(file: File, descriptor: c_int, status: Status) -> c_int {
    // SAFETY: the caller vouches for the room; the structure is the kernel's own on this machine.
    unsafe {
        let answer = raw_syscall(libc::SYS_fstat, [descriptor as usize, status as usize, 0, 0, 0, 0]);
        if answer < 0 {
            return fail(-answer as c_int);
        }
        ((*status).st_ino, (*status).st_nlink) = (number(file), 1);
        (*status).st_mode = MODE.into();
        let seconds = time::beginning();
        ((*status).st_atime, (*status).st_atime_nsec) = (seconds, 0);
        ((*status).st_mtime, (*status).st_mtime_nsec) = (seconds, 0);
        ((*status).st_ctime, (*status).st_ctime_nsec) = (seconds, 0);
    }
    0
}

/// The same for `statx`.
unsafe fn extended_of_stand_in(file: File, descriptor: c_int, mask: u32, status: ExtendedStatus) -> c_int {
    // SAFETY: as above.
    unsafe {
        let name = c"".as_ptr() as usize;
        let flags = libc::AT_EMPTY_PATH as usize;
        let arguments = [descriptor as usize, name, flags, mask as usize, status as usize, 0];
        let answer = raw_syscall(libc::SYS_statx, arguments);
        if answer < 0 {
            return fail(-answer as c_int);
        }
        ((*status).stx_ino, (*status).stx_nlink) = (number(file), 1);
        (*status).stx_mode = MODE;
        let times = [
            &raw mut (*status).stx_atime,
            &raw mut (*status).stx_btime,
            &raw mut (*status).stx_ctime,
            &raw mut (*status).stx_mtime,
        ];
        for time in times {
            ((*time).tv_sec, (*time).tv_nsec) = (time::beginning(), 0);
        }
    }
    0
}

replace! { [fstat fstat64] {
    (descriptor: c_int, status: Status) -> c_int, caller(rdx)
    |site| {
        answer(status, site, |status| match file_of(descriptor) {
            Some(file) => of_stand_in(file, descriptor, status),
            None => real(descriptor, status),
        })
    }
} }

replace! { [stat stat64 lstat lstat64] {
    (name: *const c_char, status: Status) -> c_int, caller(rdx)
    |site| {
        text_length(name, site);
        by_name(libc::AT_FDCWD, name, status, site)
            .unwrap_or_else(|| answer(status, site, |status| real(name, status)))
    }
} }

replace! { [fstatat fstatat64] {
    (directory: c_int, name: *const c_char, status: Status, flags: c_int) -> c_int, caller(r8)
    |site| {
        if text_length(name, site) == 0
            && flags & libc::AT_EMPTY_PATH != 0
            && let Some(file) = file_of(directory)
        {
            return answer(status, site, |status| of_stand_in(file, directory, status));
        }
        by_name(directory, name, status, site)
            .unwrap_or_else(|| answer(status, site, |status| real(directory, name, status, flags)))
    }
} }

// Called by programs built against an older C library.
replace! { [__xstat __xstat64 __lxstat __lxstat64] {
    (version: c_int, name: *const c_char, status: Status) -> c_int, caller(rcx)
    |site| {
        text_length(name, site);
        by_name(libc::AT_FDCWD, name, status, site)
            .unwrap_or_else(|| answer(status, site, |status| real(version, name, status)))
    }
} }

replace! { [__fxstat __fxstat64] {
    (version: c_int, descriptor: c_int, status: Status) -> c_int, caller(rcx)
    |site| {
        answer(status, site, |status| match file_of(descriptor) {
            Some(file) => of_stand_in(file, descriptor, status),
            None => real(version, descriptor, status),
        })
    }
} }

replace! {
    /// Rust's standard library uses this.
    fn statx(directory: c_int, name: *const c_char, flags: c_int, mask: u32, status: ExtendedStatus) -> c_int, caller(r9)
    |site| {
        if !name.is_null()
            && text_length(name, site) == 0
            && flags & libc::AT_EMPTY_PATH != 0
            && let Some(file) = file_of(directory)
        {
            return answer(status, site, |status| extended_of_stand_in(file, directory, mask, status));
        }
        let about = |file, descriptor| {
            answer(status, site, |status| extended_of_stand_in(file, descriptor, mask, status))
        };
        ask(directory, name, site, about)
            .unwrap_or_else(|| answer(status, site, |status| real(directory, name, flags, mask, status)))
    }
}

/// The status of a followed file by its name.
unsafe fn by_name(directory: c_int, name: *const c_char, status: Status, site: *const Site) -> Option<c_int> {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        ask(directory, name, site, |file, descriptor| {
            answer(status, site, |status| of_stand_in(file, descriptor, status))
        })
    }
}
