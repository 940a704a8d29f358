//! Condition variables, barriers and `pthread_once`.

use std::ffi::{c_int, c_uint, c_void};

use crashproof_protocol::abi::is_pm;
use libc::timespec;

use super::mutexes::{Object, lock_mutex, unlock_mutex};
use crate::c_library::time::deadline;
use crate::interpose::schedule;
use crate::threads::happens_before::synchronized;
use crate::threads::locks::{self, Once};
use crate::threads::scheduler::{Class, Key, Wait, Woken};
use crate::threads::turns::{end_cancelled, others_may_run, settle, synchronize, wait, wake_all, wake_one};

fn condition_key(condition: Object) -> Key {
    Key { class: Class::Condition, address: condition as u64 }
}

/// Lets go of the mutex, waits to be called, takes the mutex again.
///
/// # Safety
///
/// The program says that there are a condition variable and a mutex.
pub(super) unsafe fn condition_wait(condition: Object, mutex: Object, deadline: Option<u64>) -> c_int {
    synchronize();
    // SAFETY: there is a mutex.
    let unlocked = unsafe { unlock_mutex(mutex) };
    if unlocked != 0 {
        return unlocked;
    }
    let woken = wait(Wait::new(condition_key(condition), deadline).cancellable());
    if woken == Woken::Called {
        synchronized(condition as u64);
    }
    // SAFETY: there is a mutex.
    let locked = unsafe { lock_mutex(mutex, None) };
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
    // SAFETY: as for `condition_wait`, and there is a time.
    unsafe {
        match deadline(clock, at) {
            Ok(moment) => condition_wait(condition, mutex, Some(moment)),
            Err(error) => error,
        }
    }
}

/// Of a condition variable in volatile memory the clock is in its bytes, which the C library initializes.
pub(super) fn init_condition(condition: Object, clock: c_int) {
    if is_pm(condition as u64) {
        locks::with(|locks| locks.set_clock(condition as u64, clock));
    }
}

/// By which clock a condition variable's deadlines go: glibc keeps that at offset 36.
unsafe fn clock_of(condition: Object) -> c_int {
    const MONOTONIC: u32 = 2;
    if is_pm(condition as u64) {
        return locks::with(|locks| locks.clock(condition as u64));
    }
    // SAFETY: a condition variable is larger than that.
    let flags = unsafe { condition.byte_add(36).cast::<u32>().read_unaligned() };
    if flags & MONOTONIC != 0 { libc::CLOCK_MONOTONIC } else { libc::CLOCK_REALTIME }
}

/// What glibc writes into a `pthread_once_t` when it is done.
const ONCE_DONE: c_int = 2;

/// While a once's function runs. If it does not return (an exception, cancellation), another thread may try.
struct OnceGuard {
    control: u64,
    result: Option<Once>,
}

impl Drop for OnceGuard {
    fn drop(&mut self) {
        locks::with(|locks| locks.set_once(self.control, self.result));
        wake_all(Key { class: Class::Once, address: self.control });
    }
}

/// # Safety
///
/// The program says that there is a `pthread_once_t`, and vouches for the function.
unsafe fn once(control: *mut c_int, function: unsafe extern "C-unwind" fn()) {
    let address = control as u64;
    let volatile = !is_pm(address);
    synchronize();
    loop {
        // SAFETY: there is one.
        if volatile && unsafe { *control } == ONCE_DONE {
            synchronized(address);
            return;
        }
        match locks::with(|locks| locks.once(address)) {
            Some(Once::Done) => return,
            Some(Once::Running) => {
                wait(Wait::new(Key { class: Class::Once, address }, None));
            }
            None => break,
        }
    }
    synchronized(address);
    locks::with(|locks| locks.set_once(address, Some(Once::Running)));
    let mut guard = OnceGuard { control: address, result: None };
    // SAFETY: the program vouches for it.
    unsafe { function() };
    settle();
    synchronized(address);
    if volatile {
        // SAFETY: there is one.
        unsafe { *control = ONCE_DONE };
    } else {
        guard.result = Some(Once::Done);
    }
    drop(guard);
    others_may_run();
}

/// Waits until a barrier opens; gives what `pthread_barrier_wait` returns.
unsafe fn pass_barrier(address: u64) -> c_int {
    synchronize();
    synchronized(address);
    // SAFETY: one that was initialized before `main`: glibc keeps the count at offset 8.
    let fresh = || if is_pm(address) { 1 } else { unsafe { ((address + 8) as *const u32).read_unaligned() } };
    let key = Key { class: Class::Barrier, address };
    let Some(round) = locks::with(|locks| locks.arrive(address, fresh)) else {
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

schedule! {
    version c"GLIBC_2.3.2"
    fn pthread_cond_init(condition: Object, attributes: *const libc::pthread_condattr_t) -> c_int |real| {
        let mut clock = libc::CLOCK_REALTIME;
        if !attributes.is_null() {
            libc::pthread_condattr_getclock(attributes, &raw mut clock);
        }
        init_condition(condition, clock);
        if is_pm(condition as u64) { 0 } else { real()(condition, attributes) }
    }

    version c"GLIBC_2.3.2"
    fn pthread_cond_destroy(_condition: Object) -> c_int |real| { 0 }

    version c"GLIBC_2.3.2"
    fn pthread_cond_wait(condition: Object, mutex: Object) -> c_int |real| {
        condition_wait(condition, mutex, None)
    }

    version c"GLIBC_2.3.2"
    fn pthread_cond_timedwait(condition: Object, mutex: Object, at: *const timespec) -> c_int |real| {
        timed_wait(condition, mutex, clock_of(condition), at)
    }

    fn pthread_cond_clockwait(condition: Object, mutex: Object, clock: c_int, at: *const timespec) -> c_int |real| {
        timed_wait(condition, mutex, clock, at)
    }

    version c"GLIBC_2.3.2"
    fn pthread_cond_signal(condition: Object) -> c_int |real| { signal(condition, wake_one) }

    version c"GLIBC_2.3.2"
    fn pthread_cond_broadcast(condition: Object) -> c_int |real| { signal(condition, wake_all) }

    fn pthread_barrier_init(barrier: Object, _attributes: *const c_void, count: c_uint) -> c_int |real| {
        if count == 0 {
            return libc::EINVAL;
        }
        locks::with(|locks| locks.set_barrier(barrier as u64, count));
        0
    }

    fn pthread_barrier_destroy(barrier: Object) -> c_int |real| {
        locks::with(|locks| locks.destroy_barrier(barrier as u64))
    }

    fn pthread_barrier_wait(barrier: Object) -> c_int |real| { pass_barrier(barrier as u64) }

    fn pthread_once(control: *mut c_int, function: unsafe extern "C-unwind" fn()) -> c_int |real| {
        once(control, function);
        0
    }

    fn call_once(control: *mut c_int, function: unsafe extern "C-unwind" fn()) |real| {
        once(control, function);
    }
}
