//! Lets a program under test change files without changing the real ones: writes to covered directories go to memory.
//!
//! Each directory is covered by an overlay whose upper layer is in an unnamed in-memory file system. Everything else is
//! read-only. All changes disappear with the last process, however it ends.

#![allow(unsafe_code, reason = "mounts are made with system calls")]

use std::ffi::{CStr, CString, OsString};
use std::io::{Error, Result};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Converts the result of a system call.
pub(crate) fn call(answer: i64) -> Result<i64> {
    if answer < 0 { Err(Error::last_os_error()) } else { Ok(answer) }
}

/// Maximum number of covered directories.
const MOST: usize = 64;

/// Directories to cover, and the initial working directory.
pub(crate) struct Directories {
    paths: Vec<PathBuf>,
    covered: Vec<Covered>,
    /// Directories that cannot be covered because something is mounted below them; they stay writable.
    open: Vec<CString>,
    current: CString,
}

/// A directory to cover.
struct Covered {
    path: CString,
    mode: u32,
    owner: (u32, u32),
    upper: CString,
    work: CString,
    options: CString,
}

/// Where the file system for changes is mounted temporarily.
const PLACE: &CStr = c"/sys";

/// Where file systems are mounted.
fn mount_points() -> Vec<PathBuf> {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let lines = table.split(|byte| *byte == b'\n');
    let points = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    points.map(|name| PathBuf::from(OsString::from_vec(unescaped(name)))).collect()
}

/// Decodes `\040` and other escapes.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, more)) = rest.split_first() {
        let digits = more
            .get(..3)
            .filter(|digits| first == b'\\' && digits.iter().all(|it| (b'0'..=b'7').contains(it)));
        match digits {
            Some(digits) => {
                plain.push(digits.iter().fold(0_u8, |number, digit| number << 3 | (digit - b'0')));
                rest = &more[3..];
            }
            None => {
                plain.push(first);
                rest = more;
            }
        }
    }
    plain
}

/// Is it a path without user files, or one that cannot be covered?
fn is_special(path: &Path) -> bool {
    let below = |root: &str| path.starts_with(root);
    path == Path::new("/")
        || below("/proc")
        || below("/sys")
        || below("/dev") && !below("/dev/shm")
        || below("/run")
}

/// The topmost directory above this one that belongs to the user and can be covered: programs also write next to their
/// working directory.
fn widest(path: &Path, mounts: &[PathBuf]) -> PathBuf {
    // SAFETY: a query without side effects.
    let user = unsafe { libc::geteuid() };
    let usable = |path: &&Path| {
        let own = path.metadata().is_ok_and(|about| about.uid() == user);
        own && !is_special(path) && !has_mounts_below(path, mounts)
    };
    path.ancestors().skip(1).take_while(usable).last().unwrap_or(path).to_owned()
}

fn has_mounts_below(path: &Path, mounts: &[PathBuf]) -> bool {
    mounts.iter().any(|mount| mount != path && mount.starts_with(path))
}

impl Default for Directories {
    fn default() -> Directories {
        let here = std::env::current_dir().unwrap_or_else(|_| "/".into());
        let current = CString::new(here.as_os_str().as_bytes()).unwrap_or_default();
        Directories { paths: Vec::new(), covered: Vec::new(), open: Vec::new(), current }
    }
}

impl Directories {
    /// The directories that programs write to: the working directory, the home directory, temporary directories and
    /// `more`.
    pub(crate) fn find(more: &[PathBuf]) -> Directories {
        let mut found = Directories::default();
        let mounts = mount_points();
        let usual = ["/tmp", "/var/tmp", "/dev/shm"].map(PathBuf::from);
        let mut wanted: Vec<PathBuf> = std::env::current_dir().into_iter().collect();
        wanted.extend(std::env::var_os("HOME").map(PathBuf::from));
        wanted.push(std::env::temp_dir());
        wanted.extend(usual);
        wanted.extend_from_slice(more);
        let existing = wanted.iter().filter_map(|path| path.canonicalize().ok()).filter(|path| path.is_dir());
        let mut paths: Vec<PathBuf> = Vec::new();
        for path in existing.filter(|path| !is_special(path)) {
            if has_mounts_below(&path, &mounts) {
                found.open.extend(CString::new(path.as_os_str().as_bytes()));
            } else {
                paths.push(widest(&path, &mounts));
            }
        }
        paths.sort();
        paths.dedup_by(|inner, outer| inner.starts_with(outer));
        paths.truncate(MOST);
        for (number, path) in paths.iter().enumerate() {
            found.covered.extend(Covered::new(number, path));
        }
        found.paths = paths;
        found
    }

    /// Enters the working directory again, by name, which now denotes the covered one.
    pub(crate) fn enter_current(&self) -> Result<()> {
        // SAFETY: the kernel only reads the path.
        call(unsafe { libc::chdir(self.current.as_ptr()) }.into()).map(drop)
    }
}

impl Covered {
    fn new(number: usize, path: &Path) -> Option<Covered> {
        let about = path.metadata().ok()?;
        let place = PLACE.to_str().ok()?;
        let name = |kind: &str| CString::new(format!("{place}/{number}{kind}")).ok();
        let options = format!("lowerdir=.,upperdir={place}/{number}u,workdir={place}/{number}w,userxattr");
        Some(Covered {
            path: CString::new(path.as_os_str().as_bytes()).ok()?,
            mode: about.mode() & 0o7777,
            owner: (about.uid(), about.gid()),
            upper: name("u")?,
            work: name("w")?,
            options: CString::new(options).ok()?,
        })
    }

    /// Covers the directory.
    fn mount(&self) -> Result<()> {
        // SAFETY: the kernel only reads the names.
        unsafe {
            call(libc::mkdir(self.upper.as_ptr(), 0o700).into())?;
            call(libc::mkdir(self.work.as_ptr(), 0o700).into())?;
            // Only root can set the owner; the user's own directories already have the right one.
            libc::chown(self.upper.as_ptr(), self.owner.0, self.owner.1);
            call(libc::chmod(self.upper.as_ptr(), self.mode).into())?;
            // Relative, so that no character of the path can be mistaken for an option.
            call(libc::chdir(self.path.as_ptr()).into())?;
            let (kind, here) = (c"overlay".as_ptr(), c".".as_ptr());
            call(libc::mount(kind, here, kind, libc::MS_NODEV, self.options.as_ptr().cast()).into())?;
        }
        Ok(())
    }
}

/// Covers the directories in a separate mount namespace, and makes everything else read-only. Only makes system calls.
pub(crate) fn mount_private(directories: &Directories) -> Result<()> {
    // SAFETY: the kernel only reads the names; mounts change only for this process and its children.
    unsafe {
        let none = std::ptr::null();
        call(libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast()).into())?;
        for directory in &directories.open {
            let path = directory.as_ptr();
            libc::mount(path, path, none, libc::MS_BIND | libc::MS_REC, none.cast());
        }
        set_read_only(c"/", true)?;
        for directory in &directories.open {
            // Directories mounted read-only outside remain so.
            let _ = set_read_only(directory, false);
        }
        let tmpfs = c"tmpfs".as_ptr();
        call(libc::mount(tmpfs, PLACE.as_ptr(), tmpfs, libc::MS_NODEV, c"mode=700".as_ptr().cast()).into())?;
        for directory in &directories.covered {
            if directory.mount().is_err() {
                // It remains as it is outside: better than a program that cannot write.
                let path = directory.path.as_ptr();
                libc::mount(path, path, none, libc::MS_BIND | libc::MS_REC, none.cast());
                let _ = set_read_only(&directory.path, false);
            }
        }
        call(libc::umount2(PLACE.as_ptr(), libc::MNT_DETACH).into())?;
    }
    Ok(())
}

/// Makes everything below a path read-only, or writable again.
fn set_read_only(path: &CStr, read_only: bool) -> Result<()> {
    const READ_ONLY: u64 = 1;
    const RECURSIVE: i32 = 0x8000;
    let attributes = if read_only { [READ_ONLY, 0, 0, 0] } else { [0, READ_ONLY, 0, 0] };
    let size = size_of_val(&attributes);
    // SAFETY: the kernel only reads the path and the attributes: bits to set, bits to clear, propagation, user namespace.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            RECURSIVE,
            attributes.as_ptr(),
            size,
        )
    };
    call(answer).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_mount_points_are_escaped() {
        assert_eq!(unescaped(b"/a\\040b\\134"), b"/a b\\");
        assert_eq!(unescaped(b"/a\\9"), b"/a\\9");
    }

    #[test]
    fn directories_within_others_are_covered_once() {
        let found = Directories::find(&[]);
        for (at, path) in found.paths.iter().enumerate() {
            assert!(!found.paths[..at].iter().any(|outer| path.starts_with(outer)), "{path:?}");
        }
    }

    #[test]
    fn mounts_below_a_directory() {
        let mounts = [PathBuf::from("/"), PathBuf::from("/a/b")];
        assert!(has_mounts_below(Path::new("/a"), &mounts));
        assert!(!has_mounts_below(Path::new("/a/b"), &mounts));
        assert!(!has_mounts_below(Path::new("/a/bc"), &mounts));
    }
}
