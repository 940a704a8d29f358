//! Mutexes, read-write locks and spin locks, as programs call them.

use std::ffi::{c_int, c_void};

use libc::timespec;

use super::objects::{self, Access, MutexKind};
use super::real::interpose;
use super::scheduler::{Class, give_way, others_may_run, settle, synchronise};
use super::time;

unsafe extern "C" {
    fn pthread_mutexattr_gettype(attributes: *const libc::pthread_mutexattr_t, kind: *mut c_int) -> c_int;
}

type Object = *mut c_void;

unsafe fn lock(mutex: Object, deadline: Option<u64>) -> c_int {
    synchronise();
    objects::mutex_lock(mutex as u64, deadline)
}

/// A free mutex is taken even if the deadline is no time at all, as POSIX wants it.
unsafe fn timed_lock(mutex: Object, deadline: Result<u64, c_int>) -> c_int {
    synchronise();
    match (objects::mutex_try(mutex as u64), deadline) {
        (libc::EBUSY, Ok(moment)) => objects::mutex_lock(mutex as u64, Some(moment)),
        (libc::EBUSY, Err(error)) => error,
        (result, _) => result,
    }
}

unsafe fn rw(lock: Object, access: Access, deadline: Option<u64>) -> c_int {
    synchronise();
    objects::rw_lock(lock as u64, access, deadline, Class::RwLock)
}

unsafe fn timed_rw(lock: Object, access: Access, deadline: Result<u64, c_int>) -> c_int {
    match deadline {
        Ok(moment) => rw(lock, access, Some(moment)),
        Err(error) => error,
    }
}

fn is_pm(object: Object) -> bool {
    crashproof_protocol::abi::is_pm(object as u64)
}

interpose! {
    fn pthread_mutex_init(mutex: Object, attributes: *const libc::pthread_mutexattr_t) -> c_int |real| {
        let (mut kind, mut robust) = (libc::PTHREAD_MUTEX_NORMAL, libc::PTHREAD_MUTEX_STALLED);
        if !attributes.is_null() {
            pthread_mutexattr_gettype(attributes, &raw mut kind);
            libc::pthread_mutexattr_getrobust(attributes, &raw mut robust);
        }
        objects::mutex_init(mutex as u64, MutexKind::of(kind), robust == libc::PTHREAD_MUTEX_ROBUST);
        if is_pm(mutex) { 0 } else { real()(mutex, attributes) }
    }

    fn pthread_mutex_destroy(mutex: Object) -> c_int |real| {
        objects::mutex_destroy(mutex as u64)
    }

    fn pthread_mutex_lock(mutex: Object) -> c_int |real| {
        lock(mutex, None)
    }

    fn pthread_mutex_trylock(mutex: Object) -> c_int |real| {
        synchronise();
        let result = objects::mutex_try(mutex as u64);
        if result == libc::EBUSY {
            // A loop around it must not keep the owner from running.
            give_way();
        }
        result
    }

    fn pthread_mutex_timedlock(mutex: Object, at: *const timespec) -> c_int |real| {
        timed_lock(mutex, time::deadline(libc::CLOCK_REALTIME, at))
    }

    fn pthread_mutex_clocklock(mutex: Object, clock: c_int, at: *const timespec) -> c_int |real| {
        timed_lock(mutex, time::deadline(clock, at))
    }

    fn pthread_mutex_unlock(mutex: Object) -> c_int |real| {
        settle();
        let result = objects::mutex_unlock(mutex as u64);
        others_may_run();
        result
    }

    fn pthread_mutex_consistent(mutex: Object) -> c_int |real| {
        objects::mutex_consistent(mutex as u64)
    }

    fn pthread_rwlock_init(lock: Object, attributes: *const c_void) -> c_int |real| {
        objects::rw_init(lock as u64);
        if is_pm(lock) { 0 } else { real()(lock, attributes) }
    }

    fn pthread_rwlock_destroy(lock: Object) -> c_int |real| {
        objects::rw_destroy(lock as u64)
    }

    fn pthread_rwlock_rdlock(lock: Object) -> c_int |real| {
        rw(lock, Access::Read, None)
    }

    fn pthread_rwlock_wrlock(lock: Object) -> c_int |real| {
        rw(lock, Access::Write, None)
    }

    fn pthread_rwlock_tryrdlock(lock: Object) -> c_int |real| {
        synchronise();
        let result = objects::rw_try(lock as u64, Access::Read);
        if result != 0 {
            give_way();
        }
        result
    }

    fn pthread_rwlock_trywrlock(lock: Object) -> c_int |real| {
        synchronise();
        let result = objects::rw_try(lock as u64, Access::Write);
        if result != 0 {
            give_way();
        }
        result
    }

    fn pthread_rwlock_timedrdlock(lock: Object, at: *const timespec) -> c_int |real| {
        timed_rw(lock, Access::Read, time::deadline(libc::CLOCK_REALTIME, at))
    }

    fn pthread_rwlock_timedwrlock(lock: Object, at: *const timespec) -> c_int |real| {
        timed_rw(lock, Access::Write, time::deadline(libc::CLOCK_REALTIME, at))
    }

    fn pthread_rwlock_clockrdlock(lock: Object, clock: c_int, at: *const timespec) -> c_int |real| {
        timed_rw(lock, Access::Read, time::deadline(clock, at))
    }

    fn pthread_rwlock_clockwrlock(lock: Object, clock: c_int, at: *const timespec) -> c_int |real| {
        timed_rw(lock, Access::Write, time::deadline(clock, at))
    }

    fn pthread_rwlock_unlock(lock: Object) -> c_int |real| {
        settle();
        objects::rw_unlock(lock as u64, Class::RwLock);
        others_may_run();
        0
    }

    fn pthread_spin_init(lock: Object, _shared: c_int) -> c_int |real| {
        objects::rw_init(lock as u64);
        0
    }

    fn pthread_spin_destroy(lock: Object) -> c_int |real| {
        objects::rw_destroy(lock as u64)
    }

    fn pthread_spin_lock(lock: Object) -> c_int |real| {
        synchronise();
        objects::rw_lock(lock as u64, Access::Write, None, Class::SpinLock)
    }

    fn pthread_spin_trylock(lock: Object) -> c_int |real| {
        synchronise();
        let result = objects::rw_try(lock as u64, Access::Write);
        if result != 0 {
            give_way();
        }
        result
    }

    fn pthread_spin_unlock(lock: Object) -> c_int |real| {
        settle();
        objects::rw_unlock(lock as u64, Class::SpinLock);
        others_may_run();
        0
    }
}
