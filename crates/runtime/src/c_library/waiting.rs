//! Calls that wait for input: of several threads only one runs, and it must not keep the others from running while it
//! waits. Others come first, until all of them wait, too; then the call may.

use std::ffi::{c_int, c_void};

use libc::{sockaddr, socklen_t};

use crate::interpose::replace;
use crate::threads::running;
use crate::threads::turns::give_way;

/// Before a call that waits until `ready` is not 0.
pub(crate) fn others_first(ready: impl FnOnce() -> c_int) {
    if running::concurrent() && ready() == 0 {
        give_way();
    }
}

/// Before a call that waits for a descriptor.
pub(crate) fn others_first_for(descriptor: c_int) {
    others_first(|| {
        let mut wanted = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
        // SAFETY: asks only; by the system call, since the function is interposed.
        unsafe { libc::syscall(libc::SYS_poll, &raw mut wanted, 1usize, 0usize) as c_int }
    });
}

replace! {
    fn epoll_wait(poll: c_int, events: *mut c_void, most: c_int, timeout: c_int) -> c_int, caller(r8)
    |_site| {
        if timeout != 0 {
            others_first_for(poll);
        }
        real(poll, events, most, timeout)
    }

    fn epoll_pwait(poll: c_int, events: *mut c_void, most: c_int, timeout: c_int, mask: *const c_void) -> c_int, caller(r9)
    |_site| {
        if timeout != 0 {
            others_first_for(poll);
        }
        real(poll, events, most, timeout, mask)
    }

    fn accept(socket: c_int, from: *mut sockaddr, size: *mut socklen_t) -> c_int, caller(rcx)
    |_site| { others_first_for(socket); real(socket, from, size) }

    fn accept4(socket: c_int, from: *mut sockaddr, size: *mut socklen_t, flags: c_int) -> c_int, caller(r8)
    |_site| { others_first_for(socket); real(socket, from, size, flags) }
}
