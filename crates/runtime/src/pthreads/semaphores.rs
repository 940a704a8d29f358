//! Semaphores, including named ones.
//!
//! Named semaphores live only in the process: like all volatile memory they are lost in a crash.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::ptr::null_mut;

use crashproof_protocol::abi::is_pm;
use crashproof_protocol::steps::AccessKind;
use libc::timespec;

use super::mutexes::{Object, give_way_if, looks_at};
use super::persistent;
use crate::c_library::memory::write;
use crate::c_library::time::deadline;
use crate::callers;
use crate::cell::RunningThreadCell;
use crate::interpose::schedule_at;
use crate::own_memory;
use crate::system::fail;
use crate::threads::exploration::Lock;
use crate::threads::happens_before::synchronized_as;
use crate::threads::locks;
use crate::threads::scheduler::{Class, Key, Wait, Woken};
use crate::threads::turns::{
    end_cancelled, others_may_run, settle, step_for_lock, synchronize, synchronize_unless_exploring, wait,
    wake_one,
};

/// A named semaphore.
struct Named {
    semaphore: *mut libc::sem_t,
    unlinked: bool,
}

static NAMED: RunningThreadCell<BTreeMap<Vec<u8>, Named>> = RunningThreadCell::new(BTreeMap::new());

/// Changes the value in one step, reading glibc's representation if the semaphore was initialized before `main`. `kind`
/// is how the change appears to other threads.
///
/// # Safety
///
/// The program vouches for the semaphore.
unsafe fn with_value<R>(semaphore: Object, kind: AccessKind, change: impl FnOnce(&mut u32) -> R) -> R {
    let address = semaphore as u64;
    let one_step = persistent::one_step(address);
    let fresh = match is_pm(address) {
        true if locks::with(|locks| locks.knows_semaphore(address)) => 0,
        true => persistent::semaphore(address),
        // SAFETY: the caller vouches for it.
        false => unsafe { semaphore.cast::<u32>().read_unaligned() },
    };
    let value = || locks::with(|locks| *locks.semaphore(address, || fresh));
    let before = value();
    let result = locks::with(|locks| change(locks.semaphore(address, || fresh)));
    let changed = value() != before;
    if changed {
        synchronized_as(kind, address);
    }
    drop(one_step);
    if is_pm(address) && changed {
        persistent::set_semaphore(address, value);
    }
    result
}

/// Decrements the semaphore if its value is positive.
unsafe fn try_take(semaphore: Object) -> bool {
    let less = |value: &mut u32| value.checked_sub(1).map(|less| *value = less).is_some();
    // SAFETY: the caller vouches for it.
    unsafe { with_value(semaphore, AccessKind::Acquire, less) }
}

unsafe fn take(semaphore: Object, deadline: Result<Option<u64>, c_int>) -> c_int {
    if matches!(deadline, Ok(None)) {
        synchronize_unless_exploring();
        step_for_lock(Lock::Semaphore(semaphore as u64));
    } else {
        synchronize();
        looks_at(semaphore);
    }
    // SAFETY: the caller vouches for it.
    while !unsafe { try_take(semaphore) } {
        let deadline = match deadline {
            Ok(deadline) => deadline,
            Err(error) => return fail(error),
        };
        let key = Key { class: Class::Semaphore, address: semaphore as u64 };
        match wait(Wait::new(key, deadline).cancellable()) {
            Woken::Called => {}
            Woken::TimedOut => return fail(libc::ETIMEDOUT),
            Woken::Cancelled => end_cancelled(),
        }
    }
    0
}

/// Opens a semaphore by name, or creates one.
fn open(name: &[u8], flags: c_int, count: c_uint) -> Result<*mut libc::sem_t, c_int> {
    let known =
        NAMED.with(|named| named.get(name).filter(|named| !named.unlinked).map(|named| named.semaphore));
    match known {
        Some(_) if flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0 => Err(libc::EEXIST),
        Some(semaphore) => Ok(semaphore),
        None if flags & libc::O_CREAT == 0 => Err(libc::ENOENT),
        None => {
            let semaphore: *mut libc::sem_t = own_memory::for_program(size_of::<libc::sem_t>()).cast();
            locks::with(|locks| locks.set_semaphore(semaphore as u64, count));
            NAMED.with(|named| named.insert(name.to_vec(), Named { semaphore, unlinked: false }));
            Ok(semaphore)
        }
    }
}

/// Removes the name, which can then be reused; open semaphores stay valid.
fn unlink(name: &[u8]) -> c_int {
    NAMED.with(|all| match all.remove(name) {
        Some(named) => {
            let unnamed = [name, &(named.semaphore as u64).to_le_bytes()].concat();
            all.insert(unnamed, Named { unlinked: true, ..named });
            0
        }
        None => fail(libc::ENOENT),
    })
}

schedule_at! {
    fn sem_init(semaphore: Object, shared: c_int, count: c_uint) -> c_int, caller(rcx) |real| {
        if count > c_int::MAX as c_uint {
            return fail(libc::EINVAL);
        }
        locks::with(|locks| locks.set_semaphore(semaphore as u64, count));
        if is_pm(semaphore as u64) {
            return persistent::initialize::<12>(semaphore, |semaphore| real()(semaphore, shared, count));
        }
        0
    }

    fn sem_destroy(semaphore: Object) -> c_int, caller(rsi) |real| {
        locks::with(|locks| locks.forget_semaphore(semaphore as u64));
        0
    }

    fn sem_wait(semaphore: Object) -> c_int, caller(rsi) |real| { take(semaphore, Ok(None)) }

    fn sem_trywait(semaphore: Object) -> c_int, caller(rsi) |real| {
        synchronize();
        looks_at(semaphore);
        let taken = try_take(semaphore);
        give_way_if(!taken);
        if taken { 0 } else { fail(libc::EAGAIN) }
    }

    fn sem_timedwait(semaphore: Object, at: *const timespec) -> c_int, caller(rdx) |real| {
        take(semaphore, deadline(libc::CLOCK_REALTIME, at).map(Some))
    }

    fn sem_clockwait(semaphore: Object, clock: c_int, at: *const timespec) -> c_int, caller(rcx) |real| {
        take(semaphore, deadline(clock, at).map(Some))
    }

    fn sem_post(semaphore: Object) -> c_int, caller(rsi) |real| {
        settle();
        let full = with_value(semaphore, AccessKind::Release, |value| {
            let full = *value == c_int::MAX as u32;
            *value += u32::from(!full);
            full
        });
        if full {
            return fail(libc::EOVERFLOW);
        }
        wake_one(Key { class: Class::Semaphore, address: semaphore as u64 });
        others_may_run();
        0
    }

    fn sem_getvalue(semaphore: Object, out: *mut c_int) -> c_int, caller(rdx) |real| {
        synchronize();
        looks_at(semaphore);
        let value = with_value(semaphore, AccessKind::Sync, |value| *value as c_int);
        write(out, &raw const value, size_of::<c_int>(), callers::call_site());
        0
    }

    /// The last two arguments exist only if the semaphore may be created; otherwise they are not read.
    fn sem_open(name: *const c_char, flags: c_int, mode: c_uint, count: c_uint) -> *mut libc::sem_t, caller(r8) |real| {
        let _ = mode;
        open(CStr::from_ptr(name).to_bytes(), flags, count).unwrap_or_else(|error| {
            fail(error);
            null_mut()
        })
    }

    /// Does nothing: a semaphore lives as long as the process, since others may have it open.
    fn sem_close(_semaphore: *mut libc::sem_t) -> c_int, caller(rsi) |real| { 0 }

    fn sem_unlink(name: *const c_char) -> c_int, caller(rsi) |real| { unlink(CStr::from_ptr(name).to_bytes()) }
}
