//! Mutexes, read-write locks and spin locks.

use std::ffi::{c_int, c_void};

use crashproof_protocol::abi::is_pm;
use libc::timespec;

use super::persistent;
use crate::c_library::time::deadline;
use crate::interpose::schedule_at;
use crate::threads::exploration::Lock;
use crate::threads::happens_before::{synchronized, synchronized_as};
use crate::threads::locks::{self, Access, Attempt, Mutex, MutexKind, Release, RwLock};
use crate::threads::running;
use crate::threads::scheduler::{Class, Key, Wait, Woken};
use crate::threads::step_notes::exploring;
use crate::threads::turns::{
    give_way, others_may_run, settle, settle_stores, step_for_lock, synchronize,
    synchronize_unless_exploring, wait, wake_all, wake_one,
};
use crashproof_protocol::steps::AccessKind;

pub(super) type Object = *mut c_void;

/// A mutex seen for the first time. In volatile memory its bytes say how it was initialized: glibc keeps the kind at
/// offset 16.
///
/// # Safety
///
/// The program vouches for the mutex.
unsafe fn fresh_mutex(address: u64) -> Mutex {
    const ROBUST: u32 = 16;
    if is_pm(address) {
        return persistent::mutex(address);
    }
    // SAFETY: a mutex is larger than that.
    let kind = unsafe { ((address + 16) as *const u32).read_unaligned() };
    Mutex::new(MutexKind::of((kind & 3) as c_int), kind & ROBUST != 0)
}

/// The initial state of a mutex not seen before.
unsafe fn fresh_if_unknown(address: u64) -> Mutex {
    match locks::with(|locks| locks.knows_mutex(address)) {
        true => Mutex::new(MutexKind::Normal, false),
        // SAFETY: the caller vouches for the mutex.
        false => unsafe { fresh_mutex(address) },
    }
}

/// Takes the mutex if it is free; `EBUSY` if not.
///
/// # Safety
///
/// The program vouches for the mutex, here and in all functions that take one.
pub(super) unsafe fn try_mutex(mutex: Object) -> c_int {
    let address = mutex as u64;
    let one_step = persistent::one_step(address);
    // SAFETY: the caller vouches for the mutex.
    let fresh = unsafe { fresh_if_unknown(address) };
    let attempt = locks::with(|locks| locks.take_mutex(address, running::number(), || fresh));
    if matches!(attempt, Attempt::Taken(_)) {
        synchronized_as(AccessKind::Acquire, address);
    }
    drop(one_step);
    match attempt {
        Attempt::Taken(result) => {
            if is_pm(address) {
                persistent::mutex_taken(address);
            }
            result
        }
        Attempt::Nested => {
            if is_pm(address) {
                persistent::mutex_nested(address);
            }
            0
        }
        Attempt::Busy => libc::EBUSY,
        Attempt::Refused(error) => error,
    }
}

/// Takes the mutex, waiting for it if necessary.
pub(super) unsafe fn lock_mutex(mutex: Object, deadline: Option<u64>) -> c_int {
    if deadline.is_none() {
        step_for_lock(Lock::Mutex(mutex as u64));
    }
    // SAFETY: the caller vouches for the mutex.
    unsafe { lock_mutex_in_step(mutex, deadline) }
}

/// The same, inside a step already begun for it.
pub(super) unsafe fn lock_mutex_in_step(mutex: Object, deadline: Option<u64>) -> c_int {
    let address = mutex as u64;
    loop {
        // SAFETY: the caller vouches for the mutex.
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
    // SAFETY: the caller vouches for the mutex.
    let fresh = unsafe { fresh_if_unknown(address) };
    let me = running::number();
    let key = Key { class: Class::Mutex, address };
    if is_pm(address) {
        // Before another thread can take it.
        match locks::with(|locks| locks.mutex_release(address, me)) {
            Some(Ok(release)) => persistent::mutex_released(address, release),
            Some(Err(_)) => {}
            None => persistent::mutex_released(address, Release::Free),
        }
    }
    match locks::with(|locks| locks.release_mutex(address, me, || fresh)) {
        Err(error) => return error,
        Ok(Release::Nested) => {}
        Ok(Release::Free) => {
            synchronized_as(AccessKind::Release, address);
            wake_one(key);
        }
        Ok(Release::Lost) => {
            synchronized_as(AccessKind::Release, address);
            wake_all(key);
        }
    }
    0
}

/// The state of a mutex is in its bytes, which the C library initializes.
pub(super) fn init_mutex(mutex: Object, init: impl FnOnce(Object) -> c_int) -> c_int {
    locks::with(|locks| locks.forget_mutex(mutex as u64));
    if is_pm(mutex as u64) { persistent::initialize::<40>(mutex, init) } else { init(mutex) }
}

/// Records that a non-blocking function tries to take a lock: the outcome depends on everything others do to it.
pub(super) fn looks_at(lock: Object) {
    if exploring() {
        synchronized(lock as u64);
    }
}

/// A loop around a non-blocking function must not keep others from running.
pub(super) fn give_way_if(busy: bool) {
    if busy {
        give_way();
    }
}

/// Takes a free mutex even if the deadline is invalid, as POSIX requires.
pub(super) unsafe fn timed_lock(mutex: Object, deadline: Result<u64, c_int>) -> c_int {
    synchronize();
    looks_at(mutex);
    // SAFETY: the caller vouches for the mutex.
    match unsafe { (try_mutex(mutex), deadline) } {
        // SAFETY: the caller vouches for the mutex.
        (libc::EBUSY, Ok(moment)) => unsafe { lock_mutex(mutex, Some(moment)) },
        (libc::EBUSY, Err(error)) => error,
        (result, _) => result,
    }
}

fn try_rw(lock: Object, access: Access, class: Class) -> c_int {
    let address = lock as u64;
    let spins = class == Class::SpinLock;
    let one_step = persistent::one_step(address);
    let fresh = match is_pm(address) && !locks::with(|locks| locks.knows_rw(address)) {
        true => persistent::rw_lock(address, spins),
        false => RwLock::default(),
    };
    let attempt = locks::with(|locks| locks.take_rw(address, running::number(), access, fresh));
    if matches!(attempt, Attempt::Taken(_)) {
        synchronized_as(AccessKind::Acquire, address);
    }
    drop(one_step);
    match attempt {
        Attempt::Taken(_) => {
            if is_pm(address) {
                persistent::rw_taken(address, spins, access);
            }
            0
        }
        _ => libc::EBUSY,
    }
}

/// Tries once, without waiting.
fn try_rw_once(lock: Object, access: Access, class: Class) -> c_int {
    synchronize();
    looks_at(lock);
    let result = try_rw(lock, access, class);
    give_way_if(result != 0);
    result
}

fn lock_rw(lock: Object, access: Access, deadline: Result<Option<u64>, c_int>, class: Class) -> c_int {
    let deadline = match deadline {
        Ok(deadline) => deadline,
        Err(error) => return error,
    };
    if deadline.is_none() {
        synchronize_unless_exploring();
        step_for_lock(match access {
            Access::Read => Lock::Shared(lock as u64),
            Access::Write => Lock::Exclusive(lock as u64),
        });
    } else {
        synchronize();
        looks_at(lock);
    }
    let key = Key { class, address: lock as u64 };
    while try_rw(lock, access, class) != 0 {
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
    match class {
        // A plain store releases it: the C library has no fence there.
        Class::SpinLock => settle_stores(),
        _ => settle(),
    }
    if is_pm(lock as u64) {
        // Before another thread can take it.
        persistent::rw_released(lock as u64, class == Class::SpinLock);
    }
    if let Some(free) = locks::with(|locks| locks.release_rw(lock as u64)) {
        synchronized_as(AccessKind::Release, lock as u64);
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

schedule_at! {
    fn pthread_mutex_init(mutex: Object, attributes: *const libc::pthread_mutexattr_t) -> c_int, caller(rdx) |real| {
        init_mutex(mutex, |mutex| real()(mutex, attributes))
    }

    fn pthread_mutex_destroy(mutex: Object) -> c_int, caller(rsi) |real| {
        locks::with(|locks| locks.destroy_mutex(mutex as u64))
    }

    fn pthread_mutex_lock(mutex: Object) -> c_int, caller(rsi) |real| {
        synchronize_unless_exploring();
        lock_mutex(mutex, None)
    }

    fn pthread_mutex_trylock(mutex: Object) -> c_int, caller(rsi) |real| {
        synchronize();
        looks_at(mutex);
        let result = try_mutex(mutex);
        give_way_if(result == libc::EBUSY);
        result
    }

    fn pthread_mutex_timedlock(mutex: Object, at: *const timespec) -> c_int, caller(rdx) |real| {
        timed_lock(mutex, deadline(libc::CLOCK_REALTIME, at))
    }

    fn pthread_mutex_clocklock(mutex: Object, clock: c_int, at: *const timespec) -> c_int, caller(rcx) |real| {
        timed_lock(mutex, deadline(clock, at))
    }

    fn pthread_mutex_unlock(mutex: Object) -> c_int, caller(rsi) |real| {
        settle();
        let result = unlock_mutex(mutex);
        others_may_run();
        result
    }

    fn pthread_mutex_consistent(mutex: Object) -> c_int, caller(rsi) |real| {
        locks::with(|locks| locks.make_consistent(mutex as u64))
    }

    fn pthread_rwlock_init(lock: Object, attributes: *const c_void) -> c_int, caller(rdx) |real| {
        locks::with(|locks| locks.forget_rw(lock as u64));
        let init = |lock| real()(lock, attributes);
        if is_pm(lock as u64) { persistent::initialize::<56>(lock, init) } else { init(lock) }
    }

    fn pthread_rwlock_destroy(lock: Object) -> c_int, caller(rsi) |real| { destroy_rw(lock) }

    fn pthread_rwlock_rdlock(lock: Object) -> c_int, caller(rsi) |real| {
        lock_rw(lock, Access::Read, Ok(None), Class::RwLock)
    }

    fn pthread_rwlock_wrlock(lock: Object) -> c_int, caller(rsi) |real| {
        lock_rw(lock, Access::Write, Ok(None), Class::RwLock)
    }

    fn pthread_rwlock_tryrdlock(lock: Object) -> c_int, caller(rsi) |real| { try_rw_once(lock, Access::Read, Class::RwLock) }

    fn pthread_rwlock_trywrlock(lock: Object) -> c_int, caller(rsi) |real| { try_rw_once(lock, Access::Write, Class::RwLock) }

    fn pthread_rwlock_timedrdlock(lock: Object, at: *const timespec) -> c_int, caller(rdx) |real| {
        lock_rw(lock, Access::Read, deadline(libc::CLOCK_REALTIME, at).map(Some), Class::RwLock)
    }

    fn pthread_rwlock_timedwrlock(lock: Object, at: *const timespec) -> c_int, caller(rdx) |real| {
        lock_rw(lock, Access::Write, deadline(libc::CLOCK_REALTIME, at).map(Some), Class::RwLock)
    }

    fn pthread_rwlock_clockrdlock(lock: Object, clock: c_int, at: *const timespec) -> c_int, caller(rcx) |real| {
        lock_rw(lock, Access::Read, deadline(clock, at).map(Some), Class::RwLock)
    }

    fn pthread_rwlock_clockwrlock(lock: Object, clock: c_int, at: *const timespec) -> c_int, caller(rcx) |real| {
        lock_rw(lock, Access::Write, deadline(clock, at).map(Some), Class::RwLock)
    }

    fn pthread_rwlock_unlock(lock: Object) -> c_int, caller(rsi) |real| { unlock_rw(lock, Class::RwLock) }

    fn pthread_spin_init(lock: Object, shared: c_int) -> c_int, caller(rdx) |real| {
        locks::with(|locks| locks.forget_rw(lock as u64));
        let init = |lock| real()(lock, shared);
        if is_pm(lock as u64) { persistent::initialize::<4>(lock, init) } else { 0 }
    }

    fn pthread_spin_destroy(lock: Object) -> c_int, caller(rsi) |real| { destroy_rw(lock) }

    fn pthread_spin_lock(lock: Object) -> c_int, caller(rsi) |real| {
        lock_rw(lock, Access::Write, Ok(None), Class::SpinLock)
    }

    fn pthread_spin_trylock(lock: Object) -> c_int, caller(rsi) |real| { try_rw_once(lock, Access::Write, Class::SpinLock) }

    fn pthread_spin_unlock(lock: Object) -> c_int, caller(rsi) |real| { unlock_rw(lock, Class::SpinLock) }
}
