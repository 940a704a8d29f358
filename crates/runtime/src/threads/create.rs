//! Beginning and ending threads.
//!
//! Real threads are always created joinable, and a thread counts as ended only when the kernel has no trace
//! of it left: so the C library reuses stacks and heaps in the same order in every run. The end of a thread
//! is noticed by the destructor of a key: by then its function, its C++ destructors and the destructors of
//! the program's keys have run.

use std::ffi::{c_int, c_void};

use crashproof_protocol::{reason, record};
use libc::{pthread_attr_t, pthread_t, timespec};

use super::real::interpose;
use super::scheduler::{
    CONCURRENT, CURRENT, Class, EARLY_THREADS, Key, Woken, block_cancellable, current, first_turn, give_way,
    leave, others_may_run, scheduler, settle, synchronise, unsupported,
};
use super::{memory, time};
use crate::{access, session};

unsafe extern "C" {
    fn pthread_attr_getdetachstate(attributes: *const pthread_attr_t, state: *mut c_int) -> c_int;
}

/// The function of a thread.
#[derive(Clone, Copy)]
pub(super) enum Function {
    Posix(unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void),
    C11(unsafe extern "C-unwind" fn(*mut c_void) -> c_int),
}

struct Start {
    number: u16,
    function: Function,
    argument: *mut c_void,
}

static mut EXIT_KEY: Option<libc::pthread_key_t> = None;

/// The rounds of destructors that the C library makes; the last one is ours.
const ROUNDS: u32 = 4;

/// Called when a thread's keys are destroyed, in every round.
unsafe extern "C" fn at_exit(start: *mut c_void) {
    let thread = current();
    thread.exit_rounds += 1;
    if let (Some(key), true) = (EXIT_KEY, thread.exit_rounds < ROUNDS) {
        libc::pthread_setspecific(key, start);
        return;
    }
    leave();
}

unsafe fn exit_key() -> libc::pthread_key_t {
    if let Some(key) = EXIT_KEY {
        return key;
    }
    let mut key = 0;
    if libc::pthread_key_create(&raw mut key, Some(at_exit)) != 0 {
        session::give_up("no key left for the end of threads");
    }
    EXIT_KEY = Some(key);
    // Whoever creates the first thread is the first thread.
    libc::pthread_setspecific(key, NOT_NULL);
    key
}

const NOT_NULL: *const c_void = std::ptr::dangling();

unsafe extern "C-unwind" fn run(start: *mut c_void) -> *mut c_void {
    let start = start.cast::<Start>().read();
    first_turn(start.number);
    libc::pthread_setspecific(exit_key(), NOT_NULL);
    match start.function {
        Function::Posix(function) => function(start.argument),
        Function::C11(function) => function(start.argument) as isize as *mut c_void,
    }
}

type Create = unsafe extern "C-unwind" fn(
    *mut pthread_t,
    *const pthread_attr_t,
    unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void,
    *mut c_void,
) -> c_int;

unsafe fn create(
    real: Create,
    handle: *mut pthread_t,
    attributes: *const pthread_attr_t,
    function: Function,
    argument: *mut c_void,
) -> c_int {
    exit_key();
    settle();
    memory::volatile_fence(std::ptr::null());
    let Some(number) = scheduler().add() else { return libc::EAGAIN };
    // It lives as long as the thread may need it: for ever, and is small.
    let start = Box::into_raw(Box::new(Start { number, function, argument }));
    // A copy of the attributes that says joinable; it shares what the original points to.
    let mut copy: pthread_attr_t;
    let mut detached = libc::PTHREAD_CREATE_JOINABLE;
    let mut given = attributes;
    if !attributes.is_null() {
        copy = attributes.read();
        pthread_attr_getdetachstate(&raw const copy, &raw mut detached);
        libc::pthread_attr_setdetachstate(&raw mut copy, libc::PTHREAD_CREATE_JOINABLE);
        given = &raw const copy;
    }
    let mut new = 0;
    let result = real(&raw mut new, given, run, start.cast());
    if result != 0 {
        scheduler().undo_add();
        drop(Box::from_raw(start));
        return result;
    }
    let thread = scheduler().thread(number);
    thread.handle = new;
    thread.detached = detached == libc::PTHREAD_CREATE_DETACHED;
    *handle = new;
    (*session::CONTROL).threads += 1;
    access::note(record::SPAWN, 0, u64::from(number), std::ptr::null());
    CONCURRENT = true;
    others_may_run();
    0
}

/// How long to wait for a thread's end.
enum Patience {
    Endless,
    Until(u64),
    None,
}

/// Waits for a thread to end; the real one is then gone, and joined.
unsafe fn join(handle: pthread_t, value: *mut *mut c_void, patience: Patience) -> c_int {
    synchronise();
    let Some(number) = scheduler().find(handle) else { return libc::ESRCH };
    if number == CURRENT {
        return libc::EDEADLK;
    }
    if scheduler().thread(number).detached {
        return libc::EINVAL;
    }
    while !scheduler().has_ended(number) {
        let deadline = match patience {
            Patience::Endless => None,
            Patience::Until(moment) => Some(moment),
            Patience::None => return libc::EBUSY,
        };
        match block_cancellable(Key { class: Class::Thread, address: u64::from(number) }, deadline) {
            Woken::Called => {}
            Woken::TimedOut => return libc::ETIMEDOUT,
            Woken::Cancelled => end_cancelled(),
        }
    }
    let result = real_join(handle, value);
    scheduler().forget(number);
    access::note(record::JOIN, 0, u64::from(number), std::ptr::null());
    result
}

unsafe fn real_join(handle: pthread_t, value: *mut *mut c_void) -> c_int {
    static REAL: super::real::Real = super::real::Real::new("pthread_join\0", None);
    let real: unsafe extern "C-unwind" fn(pthread_t, *mut *mut c_void) -> c_int =
        std::mem::transmute(REAL.get());
    real(handle, value)
}

/// A thread is really gone; if nobody will join it, its stack is given back now.
pub(super) unsafe fn reap_if_detached(number: u16) {
    let thread = scheduler().thread(number);
    if thread.detached {
        real_join(thread.handle, std::ptr::null_mut());
        scheduler().forget(number);
    }
}

/// The running thread was cancelled: it unwinds and ends.
pub(super) unsafe fn end_cancelled() -> ! {
    unsafe extern "C-unwind" {
        fn pthread_exit(value: *mut c_void) -> !;
    }
    const CANCELED: *mut c_void = -1isize as *mut c_void;
    current().cancel.disabled = true;
    pthread_exit(CANCELED)
}

/// Written out, because threads that begin before `main` must be noticed.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_create(
    handle: *mut pthread_t,
    attributes: *const pthread_attr_t,
    function: unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    if super::managed() {
        return create(real_create(), handle, attributes, Function::Posix(function), argument);
    }
    EARLY_THREADS |= session::UNDER_CHECKER;
    real_create()(handle, attributes, function, argument)
}

unsafe fn real_create() -> Create {
    static REAL: super::real::Real = super::real::Real::new("pthread_create\0", None);
    std::mem::transmute(REAL.get())
}

interpose! {
    fn thrd_create(
        handle: *mut pthread_t,
        function: unsafe extern "C-unwind" fn(*mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int |real| {
        match create(real_create(), handle, std::ptr::null(), Function::C11(function), argument) {
            0 => super::c11::SUCCESS,
            libc::ENOMEM => super::c11::NO_MEMORY,
            _ => super::c11::ERROR,
        }
    }

    fn pthread_join(handle: pthread_t, value: *mut *mut c_void) -> c_int |real| {
        join(handle, value, Patience::Endless)
    }

    fn thrd_join(handle: pthread_t, value: *mut c_int) -> c_int |real| {
        let mut result = std::ptr::null_mut();
        if join(handle, &raw mut result, Patience::Endless) != 0 {
            return super::c11::ERROR;
        }
        if !value.is_null() {
            *value = result as isize as c_int;
        }
        super::c11::SUCCESS
    }

    fn pthread_tryjoin_np(handle: pthread_t, value: *mut *mut c_void) -> c_int |real| {
        join(handle, value, Patience::None)
    }

    fn pthread_timedjoin_np(handle: pthread_t, value: *mut *mut c_void, at: *const timespec) -> c_int |real| {
        match time::deadline(libc::CLOCK_REALTIME, at) {
            Ok(moment) => join(handle, value, Patience::Until(moment)),
            Err(error) => error,
        }
    }

    fn pthread_clockjoin_np(
        handle: pthread_t,
        value: *mut *mut c_void,
        clock: c_int,
        at: *const timespec,
    ) -> c_int |real| {
        match time::deadline(clock, at) {
            Ok(moment) => join(handle, value, Patience::Until(moment)),
            Err(error) => error,
        }
    }

    fn pthread_detach(handle: pthread_t) -> c_int |real| {
        synchronise();
        detach(handle)
    }

    fn thrd_detach(handle: pthread_t) -> c_int |real| {
        synchronise();
        if detach(handle) == 0 { super::c11::SUCCESS } else { super::c11::ERROR }
    }

    fn pthread_cancel(handle: pthread_t) -> c_int |real| {
        synchronise();
        let Some(number) = scheduler().find(handle) else { return libc::ESRCH };
        let cancel = &mut scheduler().thread(number).cancel;
        cancel.requested = true;
        if !cancel.disabled {
            scheduler().wake_cancelled(number);
        }
        // Only waiting functions and pthread_testcancel look; reading and writing files do not.
        unsupported(reason::CANCEL);
        0
    }

    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int |real| {
        let cancel = &mut current().cancel;
        if !old.is_null() {
            *old = c_int::from(cancel.disabled);
        }
        // PTHREAD_CANCEL_DISABLE is 1.
        cancel.disabled = state == 1;
        0
    }

    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int |real| {
        // PTHREAD_CANCEL_ASYNCHRONOUS is 1.
        if kind == 1 {
            unsupported(reason::CANCEL);
        }
        if !old.is_null() {
            *old = 0;
        }
        0
    }

    fn pthread_testcancel() |real| {
        let cancel = current().cancel;
        if cancel.requested && !cancel.disabled {
            end_cancelled();
        }
    }

    fn sched_yield() -> c_int |real| {
        give_way();
        0
    }

    fn thrd_yield() |real| {
        give_way();
    }

    /// The process ends: what waits in store buffers takes effect all the same.
    fn _exit(status: c_int) |real| {
        memory::drain_all();
        crate::process::note_end();
        real()(status);
    }

    fn _Exit(status: c_int) |real| {
        memory::drain_all();
        crate::process::note_end();
        real()(status);
    }
}

unsafe fn detach(handle: pthread_t) -> c_int {
    let Some(number) = scheduler().find(handle) else { return libc::ESRCH };
    if std::mem::replace(&mut scheduler().thread(number).detached, true) {
        return libc::EINVAL;
    }
    if scheduler().has_ended(number) {
        reap_if_detached(number);
    }
    0
}

/// Runs after the program's own exit handlers.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_END: extern "C" fn() = {
    extern "C" fn at_end() {
        if super::managed() {
            unsafe { memory::drain_all() };
        }
    }
    at_end
};
