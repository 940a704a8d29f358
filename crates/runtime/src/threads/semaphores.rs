//! Semaphores, named ones too, as programs call them.
//!
//! Named semaphores live in the process only: like everything in memory they are gone after a crash.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use libc::timespec;

use super::order;
use super::real::interpose;
use super::scheduler::{
    Class, Key, Woken, block_cancellable, give_way, others_may_run, settle, synchronise, wake_one,
};
use super::{create, time};

type Object = *mut c_void;

static mut VALUES: BTreeMap<u64, u32> = BTreeMap::new();

/// A semaphore with a name, and how often it is open.
struct Named {
    semaphore: *mut libc::sem_t,
    opened: u32,
    unlinked: bool,
}

static mut NAMED: BTreeMap<Vec<u8>, Named> = BTreeMap::new();

/// The value; of a semaphore that was initialised before `main`, as glibc keeps it.
unsafe fn value(semaphore: Object) -> &'static mut u32 {
    VALUES.entry(semaphore as u64).or_insert_with(|| {
        if crashproof_protocol::abi::is_pm(semaphore as u64) {
            0
        } else {
            semaphore.cast::<u32>().read_unaligned()
        }
    })
}

fn failed(error: c_int) -> c_int {
    unsafe { *libc::__errno_location() = error };
    -1
}

/// Takes one; none if there is none to take.
unsafe fn try_take(semaphore: Object) -> Option<()> {
    let value = value(semaphore);
    *value = value.checked_sub(1)?;
    order::synchronised(semaphore as u64);
    Some(())
}

unsafe fn take(semaphore: Object, deadline: Result<Option<u64>, c_int>) -> c_int {
    synchronise();
    while try_take(semaphore).is_none() {
        let deadline = match deadline {
            Ok(deadline) => deadline,
            Err(error) => return failed(error),
        };
        let key = Key { class: Class::Semaphore, address: semaphore as u64 };
        match block_cancellable(key, deadline) {
            Woken::Called => {}
            Woken::TimedOut => return failed(libc::ETIMEDOUT),
            Woken::Cancelled => create::end_cancelled(),
        }
    }
    0
}

interpose! {
    fn sem_init(semaphore: Object, _shared: c_int, count: c_uint) -> c_int |real| {
        if count > c_int::MAX as c_uint {
            return failed(libc::EINVAL);
        }
        VALUES.insert(semaphore as u64, count);
        0
    }

    fn sem_destroy(semaphore: Object) -> c_int |real| {
        VALUES.remove(&(semaphore as u64));
        0
    }

    fn sem_wait(semaphore: Object) -> c_int |real| {
        take(semaphore, Ok(None))
    }

    fn sem_trywait(semaphore: Object) -> c_int |real| {
        synchronise();
        match try_take(semaphore) {
            Some(()) => 0,
            None => {
                give_way();
                failed(libc::EAGAIN)
            }
        }
    }

    fn sem_timedwait(semaphore: Object, at: *const timespec) -> c_int |real| {
        take(semaphore, time::deadline(libc::CLOCK_REALTIME, at).map(Some))
    }

    fn sem_clockwait(semaphore: Object, clock: c_int, at: *const timespec) -> c_int |real| {
        take(semaphore, time::deadline(clock, at).map(Some))
    }

    fn sem_post(semaphore: Object) -> c_int |real| {
        settle();
        let value = value(semaphore);
        if *value == c_int::MAX as u32 {
            return failed(libc::EOVERFLOW);
        }
        *value += 1;
        order::synchronised(semaphore as u64);
        wake_one(Key { class: Class::Semaphore, address: semaphore as u64 });
        others_may_run();
        0
    }

    fn sem_getvalue(semaphore: Object, out: *mut c_int) -> c_int |real| {
        synchronise();
        *out = *value(semaphore) as c_int;
        0
    }

    /// The last two arguments are there only if the semaphore may be created; else they are not looked at.
    fn sem_open(name: *const c_char, flags: c_int, mode: c_uint, count: c_uint) -> *mut libc::sem_t |real| {
        let key = CStr::from_ptr(name).to_bytes().to_vec();
        let _ = mode;
        match NAMED.get_mut(&key).filter(|named| !named.unlinked) {
            Some(_) if flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0 => {
                failed(libc::EEXIST);
                std::ptr::null_mut()
            }
            Some(named) => {
                named.opened += 1;
                named.semaphore
            }
            None if flags & libc::O_CREAT == 0 => {
                failed(libc::ENOENT);
                std::ptr::null_mut()
            }
            None => {
                let semaphore = Box::into_raw(Box::new(std::mem::zeroed::<libc::sem_t>()));
                VALUES.insert(semaphore as u64, count);
                NAMED.insert(key, Named { semaphore, opened: 1, unlinked: false });
                semaphore
            }
        }
    }

    fn sem_close(semaphore: *mut libc::sem_t) -> c_int |real| {
        if let Some(named) = NAMED.values_mut().find(|named| named.semaphore == semaphore) {
            named.opened = named.opened.saturating_sub(1);
        }
        0
    }

    fn sem_unlink(name: *const c_char) -> c_int |real| {
        let key = CStr::from_ptr(name).to_bytes();
        match NAMED.remove(key) {
            Some(mut named) => {
                // Whoever has it open keeps it; the name can be used again.
                named.unlinked = true;
                let unnamed = [key, &(named.semaphore as u64).to_le_bytes()].concat();
                NAMED.insert(unnamed, named);
                0
            }
            None => failed(libc::ENOENT),
        }
    }
}
