//! C11's mutexes and conditions. glibc's are its pthread ones by another name, and so are ours.
//!
//! Threads are in `create`, `call_once` in `waits`; `tss_*` are keys, which stay the C library's.

use std::ffi::{c_int, c_void};

use libc::timespec;

use super::objects::{self, MutexKind};
use super::real::interpose;
use super::scheduler::{Class, Key, give_way, others_may_run, settle, synchronise, wake_all, wake_one};
use super::{time, waits};

type Object = *mut c_void;

pub(super) const SUCCESS: c_int = 0;
pub(super) const BUSY: c_int = 1;
pub(super) const ERROR: c_int = 2;
pub(super) const NO_MEMORY: c_int = 3;
pub(super) const TIMED_OUT: c_int = 4;

/// A kind of mutex in C11.
const RECURSIVE: c_int = 1;

fn result(error: c_int) -> c_int {
    match error {
        0 => SUCCESS,
        libc::EBUSY => BUSY,
        libc::ENOMEM => NO_MEMORY,
        libc::ETIMEDOUT => TIMED_OUT,
        _ => ERROR,
    }
}

interpose! {
    fn mtx_init(mutex: Object, kind: c_int) -> c_int |real| {
        let is_recursive = kind & RECURSIVE != 0;
        let kind_here = if is_recursive { MutexKind::Recursive } else { MutexKind::Normal };
        objects::mutex_init(mutex as u64, kind_here, false);
        if crashproof_protocol::abi::is_pm(mutex as u64) { SUCCESS } else { real()(mutex, kind) }
    }

    fn mtx_destroy(mutex: Object) |real| {
        objects::mutex_destroy(mutex as u64);
    }

    fn mtx_lock(mutex: Object) -> c_int |real| {
        synchronise();
        result(objects::mutex_lock(mutex as u64, None))
    }

    fn mtx_timedlock(mutex: Object, at: *const timespec) -> c_int |real| {
        synchronise();
        match time::deadline(libc::CLOCK_REALTIME, at) {
            Ok(moment) => result(objects::mutex_lock(mutex as u64, Some(moment))),
            Err(_) => ERROR,
        }
    }

    fn mtx_trylock(mutex: Object) -> c_int |real| {
        synchronise();
        let tried = objects::mutex_try(mutex as u64);
        if tried == libc::EBUSY {
            give_way();
        }
        result(tried)
    }

    fn mtx_unlock(mutex: Object) -> c_int |real| {
        settle();
        let unlocked = objects::mutex_unlock(mutex as u64);
        others_may_run();
        result(unlocked)
    }

    fn cnd_init(condition: Object) -> c_int |real| {
        objects::condition_init(condition as u64, libc::CLOCK_REALTIME);
        if crashproof_protocol::abi::is_pm(condition as u64) { SUCCESS } else { real()(condition) }
    }

    fn cnd_destroy(_condition: Object) |real| {}

    fn cnd_wait(condition: Object, mutex: Object) -> c_int |real| {
        result(waits::condition_wait(condition, mutex, None))
    }

    fn cnd_timedwait(condition: Object, mutex: Object, at: *const timespec) -> c_int |real| {
        match time::deadline(libc::CLOCK_REALTIME, at) {
            Ok(moment) => result(waits::condition_wait(condition, mutex, Some(moment))),
            Err(_) => ERROR,
        }
    }

    fn cnd_signal(condition: Object) -> c_int |real| {
        settle();
        wake_one(Key { class: Class::Condition, address: condition as u64 });
        others_may_run();
        SUCCESS
    }

    fn cnd_broadcast(condition: Object) -> c_int |real| {
        settle();
        wake_all(Key { class: Class::Condition, address: condition as u64 });
        others_may_run();
        SUCCESS
    }
}
