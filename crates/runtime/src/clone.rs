//! Forks the parked process for its next child, past the C library.
//!
//! The C library's `fork` takes locks, calls handlers, and writes to its own data on the way, before and after, in both
//! processes: each page of that is copied once more for every child. The parked process has one thread and holds no lock,
//! so nothing of it is needed. What the C library knows of its thread must stay right: the thread's number, which the
//! kernel writes where it was told to, and the list of locks that the kernel is to release.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use crate::system::raw_syscall;

/// Where the C library keeps the number of the one thread; 0 if that is not known.
static NUMBER: AtomicUsize = AtomicUsize::new(0);
/// The list of robust locks, and its length as the kernel was told.
static LOCKS: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// Called once, before there are children.
pub(crate) fn prepare() {
    let (mut number, mut locks, mut bytes) = (0_usize, 0_usize, 0_usize);
    // SAFETY: the kernel writes a word each.
    let known = unsafe {
        let place = [libc::PR_GET_TID_ADDRESS as usize, &raw mut number as usize, 0, 0, 0, 0];
        let list = [0, &raw mut locks as usize, &raw mut bytes as usize, 0, 0, 0];
        raw_syscall(libc::SYS_prctl, place) == 0 && raw_syscall(libc::SYS_get_robust_list, list) == 0
    };
    if known && locks != 0 {
        NUMBER.store(number, Relaxed);
        LOCKS[0].store(locks, Relaxed);
        LOCKS[1].store(bytes, Relaxed);
    }
}

/// Forks; as `fork` of the C library does, but that it runs no handlers and leaves `errno` alone.
///
/// # Safety
///
/// The process has one thread, which holds no lock of the C library.
#[inline(always)]
pub(crate) unsafe fn fork() -> i32 {
    let number = NUMBER.load(Relaxed);
    if number == 0 {
        // SAFETY: as for this function.
        return unsafe { libc::fork() };
    }
    let flags = (libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID | libc::SIGCHLD) as usize;
    // SAFETY: the child goes on with a copy of this stack; the kernel writes its number where the C library expects it.
    unsafe {
        let child = raw_syscall(libc::SYS_clone, [flags, 0, 0, number, 0, 0]);
        if child == 0 {
            let list = [LOCKS[0].load(Relaxed), LOCKS[1].load(Relaxed), 0, 0, 0, 0];
            raw_syscall(libc::SYS_set_robust_list, list);
        }
        child as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_knows_its_number() {
        prepare();
        // SAFETY: other threads of this test process may hold locks; the child takes none.
        let child = unsafe { fork() };
        if child == 0 {
            // SAFETY: asks only, and ends the child.
            unsafe {
                let own = raw_syscall(libc::SYS_gettid, [0; 6]) as i32;
                let place = NUMBER.load(Relaxed) as *const i32;
                let right = place.is_null() || place.read() == own;
                raw_syscall(libc::SYS_exit_group, [usize::from(!right), 0, 0, 0, 0, 0]);
            }
        }
        let mut status = 0;
        // SAFETY: the kernel writes the status of the child of this test.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }
}
