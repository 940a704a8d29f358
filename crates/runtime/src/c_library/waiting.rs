//! Calls that wait for input. Only one thread runs at a time, and it must not block the others while it waits: they run
//! first, and the call may block only once all of them wait, too.

use std::ffi::{c_int, c_void};

use crashproof_protocol::abi::{Site, is_pm};
use crashproof_protocol::reason;
use libc::{sockaddr, socklen_t};

use super::memory::{copy, write};
use crate::fixed;
use crate::interpose::replace;
use crate::recorder::unknown;
use crate::system::KeptErrno;
use crate::system::raw_syscall;
use crate::threads::step_notes::exploring;
use crate::threads::turns::{give_way, through_kernel, wait_for_kernel};
use crate::threads::{running, timers};

/// How long a thread waits before it lets others run again, and how often before it blocks for good.
const MILLISECONDS: c_int = 20;
const MOST_TIMES: c_int = 1000;

/// Called before a call that waits for `ready`, which takes a timeout in milliseconds; the call itself waits for at
/// most `timeout`, or forever if that is negative.
pub(crate) fn others_first(timeout: c_int, ready: impl Fn(c_int) -> bool) {
    if !running::concurrent() || timeout == 0 || ready(0) {
        return;
    }
    if running::is_watched() && !running::has_threads() {
        // It waits for input or the timer, whichever comes first, which is not deterministic.
        unknown(reason::TIMER, std::ptr::null());
        timers::leave_to_kernel();
        return;
    }
    if exploring() && timeout < 0 {
        while !ready(0) && wait_for_kernel() {}
        return;
    }
    give_way();
    if exploring() {
        // The scheduler decides which of them runs.
        return;
    }
    let times = if timeout < 0 { MOST_TIMES } else { (timeout / MILLISECONDS).min(MOST_TIMES) };
    for _ in 0..times {
        if ready(MILLISECONDS) {
            return;
        }
        give_way();
    }
}

/// Is it a pipe, a socket or the like, through which threads may communicate? Standard streams do not count.
fn is_channel(descriptor: c_int) -> bool {
    // SAFETY: plain data, which the kernel fills in.
    let mut facts: libc::stat = unsafe { std::mem::zeroed() };
    let arguments = [descriptor as usize, &raw mut facts as usize, 0, 0, 0, 0];
    // SAFETY: asks only.
    let known = descriptor > 2 && unsafe { raw_syscall(libc::SYS_fstat, arguments) } == 0;
    known && matches!(facts.st_mode & libc::S_IFMT, libc::S_IFIFO | libc::S_IFSOCK | 0)
}

/// Called before sending or receiving through a descriptor, which another thread may be waiting for.
pub(crate) fn others_may_wait_for(descriptor: c_int) {
    if running::concurrent() && is_channel(descriptor) {
        through_kernel();
    }
}

/// Called before a call that waits for a descriptor.
pub(crate) fn others_first_for(descriptor: c_int, timeout: c_int) {
    others_may_wait_for(descriptor);
    // SAFETY: asks only.
    let flags =
        unsafe { raw_syscall(libc::SYS_fcntl, [descriptor as usize, libc::F_GETFL as usize, 0, 0, 0, 0]) };
    if running::concurrent() && flags >= 0 && flags as c_int & libc::O_NONBLOCK != 0 {
        return;
    }
    others_first(timeout, |milliseconds| is_ready(descriptor, milliseconds));
}

/// Does a descriptor become readable within this many milliseconds?
fn is_ready(descriptor: c_int, timeout: c_int) -> bool {
    let mut wanted = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    // SAFETY: a query; a raw system call, because the function is interposed.
    unsafe { libc::syscall(libc::SYS_poll, &raw mut wanted, 1usize, timeout as usize) != 0 }
}

/// Calls a function with volatile memory in place of a PM argument, then stores as many bytes as it says it wrote.
pub(crate) unsafe fn through_volatile<R>(
    place: *mut c_void,
    bytes: usize,
    site: *const Site,
    call: impl FnOnce(*mut c_void) -> (R, usize),
) -> R {
    let place = fixed::in_pool(place as u64) as *mut c_void;
    if !is_pm(place as u64) {
        return call(place).0;
    }
    let mut volatile = vec![0u8; bytes];
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        copy(volatile.as_mut_ptr(), place, bytes, site);
        let (result, left) = call(volatile.as_mut_ptr().cast());
        let _errno = KeptErrno::new();
        write(place, volatile.as_ptr(), left.min(bytes), site);
        result
    }
}

/// Bytes of a `struct epoll_event`.
const EVENT: usize = 12;

unsafe fn wait_for_events(
    events: *mut c_void,
    most: c_int,
    site: *const Site,
    wait: impl FnOnce(*mut c_void) -> c_int,
) -> c_int {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        through_volatile(events, most.max(0) as usize * EVENT, site, |events| {
            let count = wait(events);
            (count, count.max(0) as usize * EVENT)
        })
    }
}

/// Accepts a connection; the peer's address and its length may go to PM.
unsafe fn accept_with(
    from: *mut sockaddr,
    size: *mut socklen_t,
    site: *const Site,
    accept: impl FnOnce(*mut sockaddr, *mut socklen_t) -> c_int,
) -> c_int {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        if from.is_null() || size.is_null() {
            return accept(from, size);
        }
        let mut room: socklen_t = 0;
        copy(&raw mut room, size, size_of::<socklen_t>(), site);
        let before = room;
        let socket = through_volatile(from.cast(), before as usize, site, |from| {
            let socket = accept(from.cast(), &raw mut room);
            (socket, if socket < 0 { 0 } else { room.min(before) as usize })
        });
        if socket >= 0 {
            write(size, &raw const room, size_of::<socklen_t>(), site);
        }
        socket
    }
}

/// Waits for descriptors; the results may go to PM.
pub(crate) unsafe fn wait_for_descriptors(
    descriptors: *mut libc::pollfd,
    count: libc::nfds_t,
    site: *const Site,
    wait: impl FnOnce(*mut libc::pollfd) -> c_int,
) -> c_int {
    let bytes = count as usize * size_of::<libc::pollfd>();
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        through_volatile(descriptors.cast(), bytes, site, |descriptors| {
            let ready = wait(descriptors.cast());
            (ready, if ready < 0 { 0 } else { bytes })
        })
    }
}

/// The same for three descriptor sets, each of which may be null.
pub(crate) unsafe fn wait_for_sets(
    sets: [*mut c_void; 3],
    site: *const Site,
    wait: impl FnOnce([*mut c_void; 3]) -> c_int,
) -> c_int {
    const BYTES: usize = size_of::<libc::fd_set>();
    let [read, written, other] = sets;
    let left = |ready: c_int| (ready, if ready < 0 { 0 } else { BYTES });
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        through_volatile(read, BYTES, site, |read| {
            left(through_volatile(written, BYTES, site, |written| {
                left(through_volatile(other, BYTES, site, |other| left(wait([read, written, other]))))
            }))
        })
    }
}

/// A time in milliseconds, rounded up; forever if there is none.
unsafe fn milliseconds(time: *const libc::timespec, site: *const Site) -> c_int {
    if time.is_null() {
        return -1;
    }
    let mut here = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe { copy(&raw mut here, time, size_of::<libc::timespec>(), site) };
    here.tv_sec.saturating_mul(1000).saturating_add((here.tv_nsec + 999_999) / 1_000_000).min(i32::MAX.into())
        as c_int
}

replace! {
    fn eventfd_write(descriptor: c_int, value: u64) -> c_int, caller(rdx)
    |_site| {
        others_may_wait_for(descriptor);
        real(descriptor, value)
    }

    fn epoll_wait(poll: c_int, events: *mut c_void, most: c_int, timeout: c_int) -> c_int, caller(r8)
    |site| {
        others_first_for(poll, timeout);
        wait_for_events(events, most, site, |events| real(poll, events, most, timeout))
    }

    fn epoll_pwait(poll: c_int, events: *mut c_void, most: c_int, timeout: c_int, mask: *const c_void) -> c_int, caller(r9)
    |site| {
        others_first_for(poll, timeout);
        wait_for_events(events, most, site, |events| real(poll, events, most, timeout, mask))
    }

    fn epoll_pwait2(poll: c_int, events: *mut c_void, most: c_int, timeout: *const libc::timespec, mask: *const c_void) -> c_int,
        caller(r9)
    |site| {
        others_first_for(poll, milliseconds(timeout, site));
        wait_for_events(events, most, site, |events| real(poll, events, most, timeout, mask))
    }

    fn ppoll(descriptors: *mut libc::pollfd, count: libc::nfds_t, timeout: *const libc::timespec, mask: *const c_void) -> c_int,
        caller(r8)
    |site| {
        let most = milliseconds(timeout, site);
        wait_for_descriptors(descriptors, count, site, |descriptors| {
            // SAFETY: the same descriptors, polled briefly.
            others_first(most, |wait| unsafe { libc::syscall(libc::SYS_poll, descriptors, count, wait as usize) != 0 });
            real(descriptors, count, timeout, mask)
        })
    }

    fn __ppoll_chk(descriptors: *mut libc::pollfd, count: libc::nfds_t, timeout: *const libc::timespec, mask: *const c_void, room: usize) -> c_int,
        caller(r9)
    |site| {
        wait_for_descriptors(descriptors, count, site, |descriptors| real(descriptors, count, timeout, mask, room))
    }

    fn __poll_chk(descriptors: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int, room: usize) -> c_int, caller(r8)
    |site| {
        wait_for_descriptors(descriptors, count, site, |descriptors| real(descriptors, count, timeout, room))
    }

    fn pselect(count: c_int, read: *mut c_void, written: *mut c_void, other: *mut c_void, timeout: *const libc::timespec, mask: *const c_void) -> c_int,
        caller(stack)
    |site| {
        wait_for_sets([read, written, other], site, |[read, written, other]| {
            real(count, read, written, other, timeout, mask)
        })
    }

    fn accept(socket: c_int, from: *mut sockaddr, size: *mut socklen_t) -> c_int, caller(rcx)
    |site| {
        others_first_for(socket, -1);
        accept_with(from, size, site, |from, size| real(socket, from, size))
    }

    fn accept4(socket: c_int, from: *mut sockaddr, size: *mut socklen_t, flags: c_int) -> c_int, caller(r8)
    |site| {
        others_first_for(socket, -1);
        accept_with(from, size, site, |from, size| real(socket, from, size, flags))
    }
}
