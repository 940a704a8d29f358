//! Passing the turn from one real thread to another.

use std::ptr::null;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where a thread waits for its turn.
pub(super) struct Baton(AtomicU32);

const EMPTY: u32 = 0;
const HERE: u32 = 1;

impl Baton {
    pub(super) const fn new() -> Baton {
        Baton(AtomicU32::new(EMPTY))
    }

    /// Gives the turn to the thread that waits, or will wait, here.
    pub(super) fn pass(&self) {
        self.0.store(HERE, Ordering::Release);
        unsafe { raw_futex(&self.0, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) };
    }

    /// Waits for the turn.
    pub(super) fn wait(&self) {
        while self.0.compare_exchange(HERE, EMPTY, Ordering::Acquire, Ordering::Relaxed).is_err() {
            unsafe { raw_futex(&self.0, libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, EMPTY) };
        }
    }
}

unsafe fn raw_futex(word: &AtomicU32, operation: i32, value: u32) {
    let arguments = [word.as_ptr() as usize, operation as usize, value as usize, null::<()>() as usize, 0, 0];
    raw_syscall(libc::SYS_futex, arguments);
}

/// A system call that leaves `errno` alone; a negative result is an error.
pub(super) unsafe fn raw_syscall(number: i64, arguments: [usize; 6]) -> isize {
    let result;
    std::arch::asm!(
        "syscall",
        inlateout("rax") number as isize => result,
        in("rdi") arguments[0],
        in("rsi") arguments[1],
        in("rdx") arguments[2],
        in("r10") arguments[3],
        in("r8") arguments[4],
        in("r9") arguments[5],
        lateout("rcx") _,
        lateout("r11") _,
        options(nostack),
    );
    result
}
