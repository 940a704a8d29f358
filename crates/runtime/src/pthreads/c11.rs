//! C11's mutexes and conditions, which are aliases of the pthread ones in glibc and here.
//!
//! Threads are in `create`, `call_once` in `conditions`; `tss_*` are keys, which are left to the C library.

use std::ffi::c_int;

use libc::timespec;

use super::conditions::{condition_wait, init_condition, signal};
use super::create::c11::{ERROR, result};
use super::mutexes::{
    Object, give_way_if, init_mutex, lock_mutex, looks_at, timed_lock, try_mutex, unlock_mutex,
};
use crate::c_library::time::deadline;
use crate::interpose::schedule_at;
use crate::threads::locks;
use crate::threads::turns::{
    others_may_run, settle, synchronize, synchronize_unless_exploring, wake_all, wake_one,
};

schedule_at! {
    fn mtx_init(mutex: Object, kind: c_int) -> c_int, caller(rdx) |real| {
        init_mutex(mutex, |mutex| real()(mutex, kind))
    }

    fn mtx_destroy(mutex: Object), caller(rsi) |real| {
        locks::with(|locks| locks.destroy_mutex(mutex as u64));
    }

    fn mtx_lock(mutex: Object) -> c_int, caller(rsi) |real| {
        synchronize_unless_exploring();
        result(lock_mutex(mutex, None))
    }

    fn mtx_timedlock(mutex: Object, at: *const timespec) -> c_int, caller(rdx) |real| {
        result(timed_lock(mutex, deadline(libc::CLOCK_REALTIME, at)))
    }

    fn mtx_trylock(mutex: Object) -> c_int, caller(rsi) |real| {
        synchronize();
        looks_at(mutex);
        let tried = try_mutex(mutex);
        give_way_if(tried == libc::EBUSY);
        result(tried)
    }

    fn mtx_unlock(mutex: Object) -> c_int, caller(rsi) |real| {
        settle();
        let unlocked = unlock_mutex(mutex);
        others_may_run();
        result(unlocked)
    }

    fn cnd_init(condition: Object) -> c_int, caller(rsi) |real| {
        init_condition(condition, |condition| real()(condition))
    }

    fn cnd_destroy(_condition: Object), caller(rsi) |real| {}

    fn cnd_wait(condition: Object, mutex: Object) -> c_int, caller(rdx) |real| {
        result(condition_wait(condition, mutex, None))
    }

    fn cnd_timedwait(condition: Object, mutex: Object, at: *const timespec) -> c_int, caller(rcx) |real| {
        match deadline(libc::CLOCK_REALTIME, at) {
            Ok(moment) => result(condition_wait(condition, mutex, Some(moment))),
            Err(_) => ERROR,
        }
    }

    fn cnd_signal(condition: Object) -> c_int, caller(rsi) |real| { signal(condition, wake_one) }

    fn cnd_broadcast(condition: Object) -> c_int, caller(rsi) |real| { signal(condition, wake_all) }
}
