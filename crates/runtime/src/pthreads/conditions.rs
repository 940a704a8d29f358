//! Condition variables, barriers, `pthread_once`, and its equivalent for local statics of C++.

use std::ffi::{c_int, c_uint, c_void};

use crashproof_protocol::abi::is_pm;
use libc::timespec;

use super::mutexes::{Object, lock_mutex, lock_mutex_in_step, unlock_mutex};
use super::persistent::{self, ONCE_DONE};
use crate::c_library::time::deadline;
use crate::interpose::schedule_at;
use crate::threads::buffers::volatile_fence;
use crate::threads::exploration::{Lock, Need};
use crate::threads::happens_before::synchronized;
use crate::threads::locks::{self, Once};
use crate::threads::scheduler::{Class, Key, Wait, Woken};
use crate::threads::step_notes::exploring;
use crate::threads::turns::{
    end_cancelled, needs_next, others_may_run, settle, synchronize, volatile_changed, wait, wake_all,
    wake_one,
};

fn condition_key(condition: Object) -> Key {
    Key { class: Class::Condition, address: condition as u64 }
}

/// Releases the mutex, waits to be signaled, and takes the mutex again.
///
/// # Safety
///
/// The program vouches for the condition variable and the mutex.
pub(super) unsafe fn condition_wait(condition: Object, mutex: Object, deadline: Option<u64>) -> c_int {
    synchronize();
    // SAFETY: the caller vouches for the mutex.
    let unlocked = unsafe { unlock_mutex(mutex) };
    if unlocked != 0 {
        return unlocked;
    }
    // Once signaled it continues as soon as it can have the mutex: that is one step.
    let one_step = exploring() && deadline.is_none();
    if exploring() {
        synchronized(condition as u64);
    }
    if one_step {
        needs_next(Need::lock(Lock::Mutex(mutex as u64)));
    }
    let woken = wait(Wait::new(condition_key(condition), deadline).cancellable());
    if woken == Woken::Called && !exploring() {
        synchronized(condition as u64);
    }
    // SAFETY: the caller vouches for the mutex.
    let locked = unsafe {
        if one_step && woken == Woken::Called {
            volatile_fence(std::ptr::null());
            lock_mutex_in_step(mutex, None)
        } else {
            lock_mutex(mutex, None)
        }
    };
    match woken {
        Woken::Cancelled => end_cancelled(),
        Woken::TimedOut => libc::ETIMEDOUT,
        Woken::Called => locked,
    }
}

pub(super) fn signal(condition: Object, wake: fn(Key)) -> c_int {
    settle();
    synchronized(condition as u64);
    wake(condition_key(condition));
    others_may_run();
    0
}

unsafe fn timed_wait(condition: Object, mutex: Object, clock: c_int, at: *const timespec) -> c_int {
    // SAFETY: as for `condition_wait`, with a valid time.
    unsafe {
        match deadline(clock, at) {
            Ok(moment) => condition_wait(condition, mutex, Some(moment)),
            Err(error) => error,
        }
    }
}

/// The clock is stored in the condition variable, which the C library initializes.
pub(super) fn init_condition(condition: Object, init: impl FnOnce(Object) -> c_int) -> c_int {
    if is_pm(condition as u64) { persistent::initialize::<48>(condition, init) } else { init(condition) }
}

/// The clock of a condition variable's deadlines: glibc keeps it at offset 36.
unsafe fn clock_of(condition: Object) -> c_int {
    const MONOTONIC: u32 = 2;
    let flags = match is_pm(condition as u64) {
        true => persistent::condition_flags(condition as u64),
        // SAFETY: a condition variable is larger than that.
        false => unsafe { condition.byte_add(36).cast::<u32>().read_unaligned() },
    };
    if flags & MONOTONIC != 0 { libc::CLOCK_MONOTONIC } else { libc::CLOCK_REALTIME }
}

/// Guards a running once-function. If it does not return (an exception, cancellation), another thread may try.
struct OnceGuard {
    control: u64,
    done: bool,
}

impl Drop for OnceGuard {
    fn drop(&mut self) {
        if is_pm(self.control) {
            persistent::set_once(self.control, false, self.done);
        }
        locks::with(|locks| locks.set_once(self.control, None));
        wake_all(Key { class: Class::Once, address: self.control });
    }
}

/// # Safety
///
/// The program vouches for the `pthread_once_t` and the function.
unsafe fn once(control: *mut c_int, function: unsafe extern "C-unwind" fn()) {
    let address = control as u64;
    let volatile = !is_pm(address);
    synchronize();
    loop {
        let one_step = persistent::one_step(address);
        let done = match volatile {
            // SAFETY: the caller vouches for it.
            true => (unsafe { *control }) as u32 == ONCE_DONE,
            false => persistent::once_is_done(address),
        };
        if done {
            synchronized(address);
            return;
        }
        if !volatile && persistent::once_was_running(address) {
            // It never finishes.
            locks::with(|locks| locks.set_once(address, Some(Once::Running)));
        }
        if locks::with(|locks| locks.once(address)).is_none() {
            synchronized(address);
            locks::with(|locks| locks.set_once(address, Some(Once::Running)));
            break;
        }
        drop(one_step);
        wait(Wait::new(Key { class: Class::Once, address }, None));
    }
    if !volatile {
        persistent::set_once(address, true, false);
    }
    let mut guard = OnceGuard { control: address, done: false };
    // SAFETY: the program vouches for it.
    unsafe { function() };
    settle();
    synchronized(address);
    if volatile {
        // SAFETY: the caller vouches for it.
        unsafe { *control = ONCE_DONE as c_int };
    }
    guard.done = true;
    drop(guard);
    others_may_run();
}

/// Called before a local static of C++ is initialized: returns whether this thread must do it. The first byte of the
/// guard, which compiled code checks, says that it is initialized.
///
/// # Safety
///
/// The program vouches for the guard.
unsafe fn acquire_guard(guard: *mut u64) -> bool {
    let address = guard as u64;
    synchronize();
    loop {
        // SAFETY: the caller vouches for the guard.
        let done = unsafe { guard.cast::<u8>().read_volatile() } != 0;
        if done || locks::with(|locks| locks.once(address)).is_none() {
            synchronized(address);
            if !done {
                locks::with(|locks| locks.set_once(address, Some(Once::Running)));
            }
            return !done;
        }
        wait(Wait::new(Key { class: Class::Once, address }, None));
    }
}

/// The static has been initialized, or an exception interrupted that.
///
/// # Safety
///
/// As for [`acquire_guard`].
unsafe fn leave_guard(guard: *mut u64, made: bool) {
    let address = guard as u64;
    settle();
    synchronized(address);
    // SAFETY: the caller vouches for the guard.
    unsafe { guard.write_volatile(made.into()) };
    if made {
        volatile_changed(address, 1);
    }
    drop(OnceGuard { control: address, done: made });
    others_may_run();
}

/// Waits until a barrier opens; returns the result of `pthread_barrier_wait`.
unsafe fn pass_barrier(address: u64) -> c_int {
    synchronize();
    let one_step = persistent::one_step(address);
    synchronized(address);
    let persistent = is_pm(address);
    let fresh = match persistent && !locks::with(|locks| locks.knows_barrier(address)) {
        true => persistent::barrier(address),
        false if persistent => (1, 0),
        // SAFETY: it was initialized before `main`: glibc keeps the count at offset 8.
        false => (unsafe { ((address + 8) as *const u32).read_unaligned() }, 0),
    };
    let key = Key { class: Class::Barrier, address };
    let arrived = locks::with(|locks| locks.arrive(address, || fresh));
    drop(one_step);
    if persistent {
        persistent::set_barrier(address, || locks::with(|locks| locks.came(address)));
    }
    let Some(round) = arrived else {
        wake_all(key);
        others_may_run();
        return libc::PTHREAD_BARRIER_SERIAL_THREAD;
    };
    while locks::with(|locks| locks.is_closed(address, round)) {
        wait(Wait::new(key, None));
    }
    synchronized(address);
    0
}

schedule_at! {
    version c"GLIBC_2.3.2"
    fn pthread_cond_init(condition: Object, attributes: *const libc::pthread_condattr_t) -> c_int, caller(rdx) |real| {
        init_condition(condition, |condition| real()(condition, attributes))
    }

    version c"GLIBC_2.3.2"
    fn pthread_cond_destroy(_condition: Object) -> c_int, caller(rsi) |real| { 0 }

    version c"GLIBC_2.3.2"
    fn pthread_cond_wait(condition: Object, mutex: Object) -> c_int, caller(rdx) |real| {
        condition_wait(condition, mutex, None)
    }

    version c"GLIBC_2.3.2"
    fn pthread_cond_timedwait(condition: Object, mutex: Object, at: *const timespec) -> c_int, caller(rcx) |real| {
        timed_wait(condition, mutex, clock_of(condition), at)
    }

    fn pthread_cond_clockwait(condition: Object, mutex: Object, clock: c_int, at: *const timespec) -> c_int, caller(r8) |real| {
        timed_wait(condition, mutex, clock, at)
    }

    version c"GLIBC_2.3.2"
    fn pthread_cond_signal(condition: Object) -> c_int, caller(rsi) |real| { signal(condition, wake_one) }

    version c"GLIBC_2.3.2"
    fn pthread_cond_broadcast(condition: Object) -> c_int, caller(rsi) |real| { signal(condition, wake_all) }

    fn pthread_barrier_init(barrier: Object, attributes: *const c_void, count: c_uint) -> c_int, caller(rcx) |real| {
        if count == 0 {
            return libc::EINVAL;
        }
        locks::with(|locks| locks.set_barrier(barrier as u64, count));
        if is_pm(barrier as u64) {
            return persistent::initialize::<20>(barrier, |barrier| real()(barrier, attributes, count));
        }
        0
    }

    fn pthread_barrier_destroy(barrier: Object) -> c_int, caller(rsi) |real| {
        locks::with(|locks| locks.destroy_barrier(barrier as u64))
    }

    fn pthread_barrier_wait(barrier: Object) -> c_int, caller(rsi) |real| { pass_barrier(barrier as u64) }

    fn pthread_once(control: *mut c_int, function: unsafe extern "C-unwind" fn()) -> c_int, caller(rdx) |real| {
        once(control, function);
        0
    }

    fn __cxa_guard_acquire(guard: *mut u64) -> c_int, caller(rsi) |real| {
        if is_pm(guard as u64) {
            return real()(guard);
        }
        acquire_guard(guard).into()
    }

    fn __cxa_guard_release(guard: *mut u64), caller(rsi) |real| {
        if is_pm(guard as u64) {
            return real()(guard);
        }
        leave_guard(guard, true);
    }

    fn __cxa_guard_abort(guard: *mut u64), caller(rsi) |real| {
        if is_pm(guard as u64) {
            return real()(guard);
        }
        leave_guard(guard, false);
    }

    fn call_once(control: *mut c_int, function: unsafe extern "C-unwind" fn()), caller(rdx) |real| {
        once(control, function);
    }
}
