//! Condition variables, barriers and `pthread_once`, as programs call them.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_void};

use libc::timespec;

use super::order;
use super::real::interpose;
use super::scheduler::{
    Class, Key, Woken, block, block_cancellable, others_may_run, settle, synchronise, wake_all, wake_one,
};
use super::{objects, time};

type Object = *mut c_void;

fn condition_key(condition: Object) -> Key {
    Key { class: Class::Condition, address: condition as u64 }
}

/// Lets go of the mutex, waits to be called, takes the mutex again.
pub(super) unsafe fn condition_wait(condition: Object, mutex: Object, deadline: Option<u64>) -> c_int {
    synchronise();
    let unlocked = objects::mutex_unlock(mutex as u64);
    if unlocked != 0 {
        return unlocked;
    }
    let woken = block_cancellable(condition_key(condition), deadline);
    if matches!(woken, Woken::Called) {
        order::synchronised(condition as u64);
    }
    let locked = objects::mutex_lock(mutex as u64, None);
    match woken {
        Woken::Cancelled => super::create::end_cancelled(),
        Woken::TimedOut => libc::ETIMEDOUT,
        Woken::Called => locked,
    }
}

unsafe fn timed_wait(condition: Object, mutex: Object, clock: c_int, at: *const timespec) -> c_int {
    match time::deadline(clock, at) {
        Ok(moment) => condition_wait(condition, mutex, Some(moment)),
        Err(error) => error,
    }
}

/// A barrier: how many it wants, how many came, how often it opened.
#[derive(Clone, Copy)]
struct Barrier {
    wanted: u32,
    came: u32,
    opened: u64,
}

static mut BARRIERS: BTreeMap<u64, Barrier> = BTreeMap::new();

/// A barrier that was initialised before `main`: glibc keeps the count at offset 8.
unsafe fn barrier_at(address: u64) -> &'static mut Barrier {
    BARRIERS.entry(address).or_insert_with(|| {
        let volatile = !crashproof_protocol::abi::is_pm(address);
        let wanted = if volatile { ((address + 8) as *const u32).read_unaligned() } else { 1 };
        Barrier { wanted: wanted.max(1), came: 0, opened: 0 }
    })
}

/// A `pthread_once` that runs now, or one in PM that has run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Once {
    Running,
    Done,
}

static mut ONCES: BTreeMap<u64, Once> = BTreeMap::new();

/// What glibc writes into a `pthread_once_t` when it is done.
const ONCE_DONE: c_int = 2;

/// While a once's function runs. If it does not return (an exception, cancellation), somebody else may try.
struct OnceGuard {
    control: u64,
    result: Option<Once>,
}

impl Drop for OnceGuard {
    fn drop(&mut self) {
        unsafe {
            match self.result {
                Some(done) => ONCES.insert(self.control, done),
                None => ONCES.remove(&self.control),
            };
            wake_all(Key { class: Class::Once, address: self.control });
        }
    }
}

pub(super) unsafe fn once(control: *mut c_int, function: unsafe extern "C-unwind" fn()) {
    let address = control as u64;
    let volatile = !crashproof_protocol::abi::is_pm(address);
    synchronise();
    loop {
        if volatile && *control == ONCE_DONE {
            order::synchronised(address);
            return;
        }
        match ONCES.get(&address) {
            Some(Once::Done) => return,
            Some(Once::Running) => {
                block(Key { class: Class::Once, address }, None);
            }
            None => break,
        }
    }
    order::synchronised(address);
    ONCES.insert(address, Once::Running);
    let mut guard = OnceGuard { control: address, result: None };
    function();
    settle();
    order::synchronised(address);
    if volatile {
        *control = ONCE_DONE;
    } else {
        guard.result = Some(Once::Done);
    }
    drop(guard);
    others_may_run();
}

interpose! {
    version c"GLIBC_2.3.2"
    fn pthread_cond_init(condition: Object, attributes: *const libc::pthread_condattr_t) -> c_int |real| {
        let mut clock = libc::CLOCK_REALTIME;
        if !attributes.is_null() {
            libc::pthread_condattr_getclock(attributes, &raw mut clock);
        }
        objects::condition_init(condition as u64, clock);
        if crashproof_protocol::abi::is_pm(condition as u64) { 0 } else { real()(condition, attributes) }
    }

    version c"GLIBC_2.3.2"
    fn pthread_cond_destroy(_condition: Object) -> c_int |real| {
        0
    }

    version c"GLIBC_2.3.2"
    fn pthread_cond_wait(condition: Object, mutex: Object) -> c_int |real| {
        condition_wait(condition, mutex, None)
    }

    version c"GLIBC_2.3.2"
    fn pthread_cond_timedwait(condition: Object, mutex: Object, at: *const timespec) -> c_int |real| {
        timed_wait(condition, mutex, objects::condition_clock(condition as u64), at)
    }

    fn pthread_cond_clockwait(
        condition: Object,
        mutex: Object,
        clock: c_int,
        at: *const timespec,
    ) -> c_int |real| {
        timed_wait(condition, mutex, clock, at)
    }

    version c"GLIBC_2.3.2"
    fn pthread_cond_signal(condition: Object) -> c_int |real| {
        settle();
        order::synchronised(condition as u64);
        wake_one(condition_key(condition));
        others_may_run();
        0
    }

    version c"GLIBC_2.3.2"
    fn pthread_cond_broadcast(condition: Object) -> c_int |real| {
        settle();
        order::synchronised(condition as u64);
        wake_all(condition_key(condition));
        others_may_run();
        0
    }

    fn pthread_barrier_init(barrier: Object, _attributes: *const c_void, count: c_uint) -> c_int |real| {
        if count == 0 {
            return libc::EINVAL;
        }
        BARRIERS.insert(barrier as u64, Barrier { wanted: count, came: 0, opened: 0 });
        0
    }

    fn pthread_barrier_destroy(barrier: Object) -> c_int |real| {
        match BARRIERS.get(&(barrier as u64)) {
            Some(state) if state.came > 0 => libc::EBUSY,
            _ => {
                BARRIERS.remove(&(barrier as u64));
                0
            }
        }
    }

    fn pthread_barrier_wait(barrier: Object) -> c_int |real| {
        synchronise();
        let address = barrier as u64;
        order::synchronised(address);
        let state = barrier_at(address);
        state.came += 1;
        if state.came == state.wanted {
            state.came = 0;
            state.opened += 1;
            wake_all(Key { class: Class::Barrier, address });
            others_may_run();
            return libc::PTHREAD_BARRIER_SERIAL_THREAD;
        }
        let round = state.opened;
        while BARRIERS.get(&address).is_some_and(|state| state.opened == round) {
            block(Key { class: Class::Barrier, address }, None);
        }
        order::synchronised(address);
        0
    }

    fn pthread_once(control: *mut c_int, function: unsafe extern "C-unwind" fn()) -> c_int |real| {
        once(control, function);
        0
    }

    fn call_once(control: *mut c_int, function: unsafe extern "C-unwind" fn()) |real| {
        once(control, function);
    }
}
