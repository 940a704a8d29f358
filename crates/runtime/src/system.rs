//! System calls, `errno`, and ending the process, independent of the rest of the runtime.

use std::ffi::c_int;

use crashproof_protocol::exit;

/// Ends the process with a message about a problem that is not the program's fault.
#[cold]
pub(crate) fn give_up(what: &str) -> ! {
    let text = format!("crashproof runtime: {what}\n");
    write_error(&text);
    // SAFETY: ends the process.
    unsafe { libc::_exit(exit::UNSUPPORTED) }
}

/// Writes to standard error, bypassing the C library.
pub(crate) fn write_error(text: &str) {
    // SAFETY: the kernel only reads the text.
    unsafe { raw_syscall(libc::SYS_write, [2, text.as_ptr() as usize, text.len(), 0, 0, 0]) };
}

/// A system call that does not change `errno`; a negative result is an error.
///
/// # Safety
///
/// As for the system call.
pub(crate) unsafe fn raw_syscall(number: i64, arguments: [usize; 6]) -> isize {
    let result;
    // SAFETY: the instruction changes only the named registers; the caller vouches for the call.
    unsafe {
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
    }
    result
}

/// The same, but failures set `errno` as in the C library. For the runtime's own calls: the C library's `syscall` is
/// interposed, and attributes calls on files to the program.
///
/// # Safety
///
/// As for the system call.
pub(crate) unsafe fn kernel(number: i64, arguments: [usize; 6]) -> isize {
    // SAFETY: as for this function.
    let result = unsafe { raw_syscall(number, arguments) };
    if (-4095..0).contains(&result) { fail(-result as c_int) as isize } else { result }
}

/// The kernel's process id; the program sees another (see `c_library::determinism`).
pub(crate) fn own_process() -> i32 {
    // SAFETY: the call takes no arguments.
    unsafe { raw_syscall(libc::SYS_getpid, [0; 6]) as i32 }
}

/// The kernel's id of the calling thread.
pub(crate) fn own_thread() -> i32 {
    // SAFETY: the call takes no arguments.
    unsafe { raw_syscall(libc::SYS_gettid, [0; 6]) as i32 }
}

pub(crate) fn errno() -> c_int {
    // SAFETY: the C library's pointer is valid in every thread.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn set_errno(error: c_int) {
    // SAFETY: the C library's pointer is valid in every thread.
    unsafe { *libc::__errno_location() = error };
}

/// How functions of the C library fail: they set `errno` and return -1.
pub(crate) fn fail(error: c_int) -> c_int {
    set_errno(error);
    -1
}

/// Restores `errno` when dropped: the runtime's side activities must not be visible to the program.
pub(crate) struct KeptErrno(c_int);

impl KeptErrno {
    pub(crate) fn new() -> KeptErrno {
        KeptErrno(errno())
    }
}

impl Drop for KeptErrno {
    fn drop(&mut self) {
        set_errno(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errno_is_kept() {
        set_errno(libc::EAGAIN);
        {
            let _kept = KeptErrno::new();
            assert_eq!(fail(libc::ENOENT), -1);
            assert_eq!(errno(), libc::ENOENT);
        }
        assert_eq!(errno(), libc::EAGAIN);
    }

    #[test]
    fn raw_calls_leave_errno_alone() {
        set_errno(0);
        // SAFETY: closing a descriptor that cannot exist fails.
        let result = unsafe { raw_syscall(libc::SYS_close, [usize::MAX, 0, 0, 0, 0, 0]) };
        assert_eq!((result, errno()), (-(libc::EBADF as isize), 0));
        assert_eq!(own_process(), std::process::id() as i32);
    }
}
