//! Mutexes, read-write locks and spin locks.

use std::ffi::{c_int, c_void};

use crashproof_protocol::abi::is_pm;
use libc::timespec;

use crate::c_library::time::deadline;
use crate::interpose::schedule;
use crate::threads::happens_before::synchronized;
use crate::threads::locks::{self, Access, Attempt, Mutex, MutexKind, Release};
use crate::threads::running;
use crate::threads::scheduler::{Class, Key, Wait, Woken};
use crate::threads::turns::{give_way, others_may_run, settle, synchronize, wait, wake_all, wake_one};

unsafe extern "C" {
    fn pthread_mutexattr_gettype(attributes: *const libc::pthread_mutexattr_t, kind: *mut c_int) -> c_int;
}

pub(super) type Object = *mut c_void;

/// A mutex that nothing is known of. One in volatile memory is as its bytes say it was initialized: glibc keeps the
/// kind at offset 16.
///
/// # Safety
///
/// The program says that there is a mutex.
unsafe fn fresh_mutex(address: u64) -> Mutex {
    const ROBUST: u32 = 16;
    if is_pm(address) {
        return Mutex::new(MutexKind::Normal, false);
    }
    // SAFETY: a mutex is larger than that.
    let kind = unsafe { ((address + 16) as *const u32).read_unaligned() };
    Mutex::new(MutexKind::of((kind & 3) as c_int), kind & ROBUST != 0)
}

/// Takes the mutex if it is free; `EBUSY` if not.
///
/// # Safety
///
/// The program says that there is a mutex. The same for all functions that take one.
pub(super) unsafe fn try_mutex(mutex: Object) -> c_int {
    let address = mutex as u64;
    // SAFETY: there is a mutex.
    let fresh = || unsafe { fresh_mutex(address) };
    match locks::with(|locks| locks.take_mutex(address, running::number(), fresh)) {
        Attempt::Taken(result) => {
            synchronized(address);
            result
        }
        Attempt::Nested => 0,
        Attempt::Busy => libc::EBUSY,
        Attempt::Refused(error) => error,
    }
}

/// Takes the mutex, waits for it if need be.
pub(super) unsafe fn lock_mutex(mutex: Object, deadline: Option<u64>) -> c_int {
    let address = mutex as u64;
    loop {
        // SAFETY: there is a mutex.
        let result = unsafe { try_mutex(mutex) };
        if result != libc::EBUSY {
            return result;
        }
        if locks::with(|locks| locks.mutex_deadlocks(address, running::number())) {
            return libc::EDEADLK;
        }
        if wait(Wait::new(Key { class: Class::Mutex, address }, deadline)) == Woken::TimedOut {
            return libc::ETIMEDOUT;
        }
    }
}

pub(super) unsafe fn unlock_mutex(mutex: Object) -> c_int {
    let address = mutex as u64;
    // SAFETY: there is a mutex.
    let fresh = || unsafe { fresh_mutex(address) };
    let me = running::number();
    let key = Key { class: Class::Mutex, address };
    match locks::with(|locks| locks.release_mutex(address, me, !is_pm(address), fresh)) {
        Err(error) => return error,
        Ok(Release::Nested) => {}
        Ok(Release::Free) => {
            synchronized(address);
            wake_one(key);
        }
        Ok(Release::Lost) => {
            synchronized(address);
            wake_all(key);
        }
    }
    0
}

/// What is known of a mutex in volatile memory is in its bytes, which the C library initializes.
pub(super) fn init_mutex(mutex: Object, kind: MutexKind, robust: bool) {
    locks::with(|locks| match is_pm(mutex as u64) {
        true => locks.set_mutex(mutex as u64, Mutex::new(kind, robust)),
        false => locks.forget_mutex(mutex as u64),
    });
}

/// A loop around a function that does not wait must not keep others from running.
pub(super) fn give_way_if(busy: bool) {
    if busy {
        give_way();
    }
}

/// A free mutex is taken even if the deadline is no time at all, as POSIX wants it.
unsafe fn timed_lock(mutex: Object, deadline: Result<u64, c_int>) -> c_int {
    synchronize();
    // SAFETY: there is a mutex.
    match unsafe { (try_mutex(mutex), deadline) } {
        // SAFETY: there is a mutex.
        (libc::EBUSY, Ok(moment)) => unsafe { lock_mutex(mutex, Some(moment)) },
        (libc::EBUSY, Err(error)) => error,
        (result, _) => result,
    }
}

fn try_rw(lock: Object, access: Access) -> c_int {
    match locks::with(|locks| locks.take_rw(lock as u64, running::number(), access)) {
        Attempt::Taken(_) => {
            synchronized(lock as u64);
            0
        }
        _ => libc::EBUSY,
    }
}

/// A function that does not wait.
fn try_rw_once(lock: Object, access: Access) -> c_int {
    synchronize();
    let result = try_rw(lock, access);
    give_way_if(result != 0);
    result
}

fn lock_rw(lock: Object, access: Access, deadline: Result<Option<u64>, c_int>, class: Class) -> c_int {
    let deadline = match deadline {
        Ok(deadline) => deadline,
        Err(error) => return error,
    };
    synchronize();
    let key = Key { class, address: lock as u64 };
    while try_rw(lock, access) != 0 {
        if class == Class::RwLock && locks::with(|locks| locks.owner(key)) == Some(running::number()) {
            return libc::EDEADLK;
        }
        if wait(Wait::new(key, deadline)) == Woken::TimedOut {
            return libc::ETIMEDOUT;
        }
    }
    0
}

fn unlock_rw(lock: Object, class: Class) -> c_int {
    settle();
    if let Some(free) = locks::with(|locks| locks.release_rw(lock as u64)) {
        synchronized(lock as u64);
        if free {
            wake_all(Key { class, address: lock as u64 });
        }
    }
    others_may_run();
    0
}

fn destroy_rw(lock: Object) -> c_int {
    if locks::with(|locks| locks.rw_is_held(lock as u64)) { libc::EBUSY } else { 0 }
}

schedule! {
    fn pthread_mutex_init(mutex: Object, attributes: *const libc::pthread_mutexattr_t) -> c_int |real| {
        let (mut kind, mut robust) = (libc::PTHREAD_MUTEX_NORMAL, libc::PTHREAD_MUTEX_STALLED);
        if !attributes.is_null() {
            pthread_mutexattr_gettype(attributes, &raw mut kind);
            libc::pthread_mutexattr_getrobust(attributes, &raw mut robust);
        }
        init_mutex(mutex, MutexKind::of(kind), robust == libc::PTHREAD_MUTEX_ROBUST);
        if is_pm(mutex as u64) { 0 } else { real()(mutex, attributes) }
    }

    fn pthread_mutex_destroy(mutex: Object) -> c_int |real| {
        locks::with(|locks| locks.destroy_mutex(mutex as u64))
    }

    fn pthread_mutex_lock(mutex: Object) -> c_int |real| {
        synchronize();
        lock_mutex(mutex, None)
    }

    fn pthread_mutex_trylock(mutex: Object) -> c_int |real| {
        synchronize();
        let result = try_mutex(mutex);
        give_way_if(result == libc::EBUSY);
        result
    }

    fn pthread_mutex_timedlock(mutex: Object, at: *const timespec) -> c_int |real| {
        timed_lock(mutex, deadline(libc::CLOCK_REALTIME, at))
    }

    fn pthread_mutex_clocklock(mutex: Object, clock: c_int, at: *const timespec) -> c_int |real| {
        timed_lock(mutex, deadline(clock, at))
    }

    fn pthread_mutex_unlock(mutex: Object) -> c_int |real| {
        settle();
        let result = unlock_mutex(mutex);
        others_may_run();
        result
    }

    fn pthread_mutex_consistent(mutex: Object) -> c_int |real| {
        locks::with(|locks| locks.make_consistent(mutex as u64))
    }

    fn pthread_rwlock_init(lock: Object, attributes: *const c_void) -> c_int |real| {
        locks::with(|locks| locks.forget_rw(lock as u64));
        if is_pm(lock as u64) { 0 } else { real()(lock, attributes) }
    }

    fn pthread_rwlock_destroy(lock: Object) -> c_int |real| { destroy_rw(lock) }

    fn pthread_rwlock_rdlock(lock: Object) -> c_int |real| {
        lock_rw(lock, Access::Read, Ok(None), Class::RwLock)
    }

    fn pthread_rwlock_wrlock(lock: Object) -> c_int |real| {
        lock_rw(lock, Access::Write, Ok(None), Class::RwLock)
    }

    fn pthread_rwlock_tryrdlock(lock: Object) -> c_int |real| { try_rw_once(lock, Access::Read) }

    fn pthread_rwlock_trywrlock(lock: Object) -> c_int |real| { try_rw_once(lock, Access::Write) }

    fn pthread_rwlock_timedrdlock(lock: Object, at: *const timespec) -> c_int |real| {
        lock_rw(lock, Access::Read, deadline(libc::CLOCK_REALTIME, at).map(Some), Class::RwLock)
    }

    fn pthread_rwlock_timedwrlock(lock: Object, at: *const timespec) -> c_int |real| {
        lock_rw(lock, Access::Write, deadline(libc::CLOCK_REALTIME, at).map(Some), Class::RwLock)
    }

    fn pthread_rwlock_clockrdlock(lock: Object, clock: c_int, at: *const timespec) -> c_int |real| {
        lock_rw(lock, Access::Read, deadline(clock, at).map(Some), Class::RwLock)
    }

    fn pthread_rwlock_clockwrlock(lock: Object, clock: c_int, at: *const timespec) -> c_int |real| {
        lock_rw(lock, Access::Write, deadline(clock, at).map(Some), Class::RwLock)
    }

    fn pthread_rwlock_unlock(lock: Object) -> c_int |real| { unlock_rw(lock, Class::RwLock) }

    fn pthread_spin_init(lock: Object, _shared: c_int) -> c_int |real| {
        locks::with(|locks| locks.forget_rw(lock as u64));
        0
    }

    fn pthread_spin_destroy(lock: Object) -> c_int |real| { destroy_rw(lock) }

    fn pthread_spin_lock(lock: Object) -> c_int |real| {
        lock_rw(lock, Access::Write, Ok(None), Class::SpinLock)
    }

    fn pthread_spin_trylock(lock: Object) -> c_int |real| { try_rw_once(lock, Access::Write) }

    fn pthread_spin_unlock(lock: Object) -> c_int |real| { unlock_rw(lock, Class::SpinLock) }
}
