//! Creates, ends and joins threads.
//!
//! Real threads are always created joinable, and a thread counts as ended only when the kernel has removed it, so that
//! the C library reuses stacks and heaps in the same order in every run. The destructor of a key detects the end of a
//! thread: by then its function, its C++ destructors and the destructors of the program's keys have run.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crashproof_protocol::steps::kind;
use crashproof_protocol::{flag, reason, record};
use libc::{pthread_attr_t, pthread_t, timespec};

use crate::c_library::memory::write;
use crate::c_library::time;
use crate::cell::RunningThreadCell;
use crate::interpose::schedule;
use crate::real::Real;
use crate::recorder::{note, unknown};
use crate::system::give_up;
use crate::threads::baton::Baton;
use crate::threads::buffers::{current, drain, scheduler, volatile_fence};
use crate::threads::happens_before::synchronized;
use crate::threads::memory::Atomic;
use crate::threads::running;
use crate::threads::scheduler::{Key, Wait, Woken};
use crate::threads::step_notes::{self, exploring};
use crate::threads::timers;
use crate::threads::turns::{
    baton_of, cancel, end_cancelled, first_turn, give_way, leave, others_may_run, real_join,
    reap_if_detached, send_signal, settle, synchronize, wait,
};
use crate::threads::unseen_accesses::{follow_from, wanted};
use crate::{callers, faults, processes, session};

unsafe extern "C" {
    fn pthread_attr_getdetachstate(attributes: *const pthread_attr_t, state: *mut c_int) -> c_int;
}

/// A thread's function.
#[derive(Clone, Copy)]
pub(super) enum Function {
    Posix(unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void),
    C11(unsafe extern "C-unwind" fn(*mut c_void) -> c_int),
}

struct Start {
    baton: Arc<Baton>,
    function: Function,
    argument: *mut c_void,
}

/// Were threads created before `main`? Children do not have them.
static EARLY_THREADS: AtomicBool = AtomicBool::new(false);

/// Called when a child starts; makes the verdict UNKNOWN if it lacks threads.
pub(crate) fn note_early_threads() {
    if EARLY_THREADS.load(Ordering::Relaxed) {
        unknown(reason::EARLY_THREADS, std::ptr::null());
    }
}

static EXIT_KEY: RunningThreadCell<Option<libc::pthread_key_t>> = RunningThreadCell::new(None);

/// The C library's rounds of destructors; ours is the last one.
const ROUNDS: u32 = 4;

/// Called when a thread's keys are destroyed, in every round.
extern "C" fn at_exit(value: *mut c_void) {
    let rounds = current(|thread| {
        thread.exit_rounds += 1;
        thread.exit_rounds
    });
    match EXIT_KEY.get().filter(|_| rounds < ROUNDS) {
        // SAFETY: the key was created.
        Some(key) => unsafe {
            libc::pthread_setspecific(key, value);
        },
        None => leave(),
    }
}

fn exit_key() -> libc::pthread_key_t {
    if let Some(key) = EXIT_KEY.get() {
        return key;
    }
    let mut key = 0;
    // SAFETY: the destructor stays valid as long as the process.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(at_exit)) } != 0 {
        give_up("no key left for the end of threads");
    }
    EXIT_KEY.set(Some(key));
    // The thread that creates the first thread is itself the first.
    arm_exit_key();
    key
}

/// Arranges for the end of the running thread to be detected.
fn arm_exit_key() {
    const NOT_NULL: *const c_void = std::ptr::dangling();
    // SAFETY: the key was created; its value is never read.
    unsafe { libc::pthread_setspecific(exit_key(), NOT_NULL) };
}

/// # Safety
///
/// `start` is the box that `create` made for this thread.
unsafe extern "C-unwind" fn run(start: *mut c_void) -> *mut c_void {
    // SAFETY: the box belongs to this thread now. It is never freed: the thread may end without returning.
    let start = unsafe { &*start.cast::<Start>() };
    faults::give_alternate_stack();
    first_turn(&start.baton);
    arm_exit_key();
    follow_from(match start.function {
        Function::Posix(function) => function as usize,
        Function::C11(function) => function as usize,
    });
    // SAFETY: the program vouches for its function.
    unsafe {
        match start.function {
            Function::Posix(function) => function(start.argument),
            Function::C11(function) => function(start.argument) as isize as *mut c_void,
        }
    }
}

type Create = unsafe extern "C-unwind" fn(
    *mut pthread_t,
    *const pthread_attr_t,
    unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void,
    *mut c_void,
) -> c_int;

fn real_create() -> Create {
    static REAL: Real = Real::new("pthread_create\0", None);
    // SAFETY: the symbol has this type.
    unsafe { std::mem::transmute(REAL.get()) }
}

/// A thread that creates another is no longer alone: from here on it is followed, if it was not rebuilt.
fn follow_caller() {
    if wanted()
        && let Some(caller) = callers::outer_caller()
    {
        follow_from(caller);
    }
}

/// # Safety
///
/// As for `pthread_create`.
unsafe fn create(
    handle: *mut pthread_t,
    attributes: *const pthread_attr_t,
    function: Function,
    argument: *mut c_void,
) -> c_int {
    static REFUSED: AtomicBool = AtomicBool::new(false);
    if session::has_flag(flag::REFUSE_FIRST_THREAD) && !REFUSED.swap(true, Ordering::Relaxed) {
        return libc::EAGAIN;
    }
    if processes::several() {
        unknown(reason::THREADS_OF_CHILD, std::ptr::null());
    }
    if timers::any() {
        // Which thread receives the signal is unspecified.
        unknown(reason::TIMER, std::ptr::null());
    }
    exit_key();
    settle();
    volatile_fence(std::ptr::null());
    let Some(number) = scheduler(|scheduler| scheduler.add()) else { return libc::EAGAIN };
    let start = Box::into_raw(Box::new(Start { baton: baton_of(number), function, argument }));
    let (mut new, mut detached) = (0, libc::PTHREAD_CREATE_JOINABLE);
    // SAFETY: the program vouches for its attributes; `run` gets the argument it expects.
    let result = unsafe {
        // A copy of the attributes, made joinable; it shares the original's pointers.
        let mut copy = attributes.as_ref().copied();
        if let Some(copy) = &mut copy {
            pthread_attr_getdetachstate(copy, &raw mut detached);
            libc::pthread_attr_setdetachstate(copy, libc::PTHREAD_CREATE_JOINABLE);
        }
        let attributes = copy.as_ref().map_or(std::ptr::null(), |copy| &raw const *copy);
        real_create()(&raw mut new, attributes, run, start.cast())
    };
    if result != 0 {
        scheduler(|scheduler| scheduler.undo_add());
        // SAFETY: no thread was created that could use it.
        drop(unsafe { Box::from_raw(start) });
        return result;
    }
    scheduler(|scheduler| {
        let thread = scheduler.thread(number);
        thread.handle = new;
        thread.detached = detached == libc::PTHREAD_CREATE_DETACHED;
    });
    session::control(|control| control.threads += 1);
    note(record::SPAWN, 0, number.into(), std::ptr::null());
    {
        // The handle may be in persistent memory, where the new thread must find it: its first step comes later.
        let _atomic = Atomic::begin();
        // SAFETY: the program vouches for the handle.
        unsafe { write(handle, &raw const new, size_of::<pthread_t>(), callers::call_site()) };
    }
    running::set_concurrent(true);
    if exploring() {
        // Thread numbers depend on the order of creation.
        synchronized(&raw const EARLY_THREADS as u64);
        step_notes::note(kind::ENABLES, number.into());
        follow_caller();
    }
    others_may_run();
    0
}

/// How long to wait for a thread to end.
enum Patience {
    Endless,
    Until(u64),
    None,
}

/// Waits for a thread to end; the real thread is then gone and joined.
///
/// # Safety
///
/// `value` is null or has room for the result.
unsafe fn join(handle: pthread_t, value: *mut *mut c_void, patience: Patience) -> c_int {
    synchronize();
    let Some(number) = scheduler(|scheduler| scheduler.find(handle)) else { return libc::ESRCH };
    if number == running::number() {
        return libc::EDEADLK;
    }
    if scheduler(|scheduler| scheduler.thread(number).detached) {
        return libc::EINVAL;
    }
    while !scheduler(|scheduler| scheduler.thread(number).has_ended()) {
        let deadline = match patience {
            Patience::Endless => None,
            Patience::Until(moment) => Some(moment),
            Patience::None => return libc::EBUSY,
        };
        match wait(Wait::new(Key::thread(number), deadline).cancellable()) {
            Woken::Called => {}
            Woken::TimedOut => return libc::ETIMEDOUT,
            Woken::Cancelled => end_cancelled(),
        }
    }
    // SAFETY: the real thread is joinable and has ended.
    let result = unsafe { real_join(handle, value) };
    scheduler(|scheduler| scheduler.forget(number));
    note(record::JOIN, 0, number.into(), std::ptr::null());
    step_notes::note(kind::JOINED, number.into());
    if exploring() && scheduler(|scheduler| scheduler.all_joined()) {
        drain(running::number());
        running::set_concurrent(false);
    }
    result
}

/// Waits until an instant.
unsafe fn join_until(handle: pthread_t, value: *mut *mut c_void, moment: Result<u64, c_int>) -> c_int {
    match moment {
        // SAFETY: as for `join`.
        Ok(moment) => unsafe { join(handle, value, Patience::Until(moment)) },
        Err(error) => error,
    }
}

fn detach(handle: pthread_t) -> c_int {
    synchronize();
    let Some(number) = scheduler(|scheduler| scheduler.find(handle)) else { return libc::ESRCH };
    let detached =
        |thread: &mut crate::threads::scheduler::Thread| std::mem::replace(&mut thread.detached, true);
    if scheduler(|scheduler| detached(scheduler.thread(number))) {
        return libc::EINVAL;
    }
    if scheduler(|scheduler| scheduler.thread(number).has_ended()) {
        reap_if_detached(number);
    }
    0
}

/// Written without the macro, because threads that start before `main` must be noticed.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn pthread_create(
    handle: *mut pthread_t,
    attributes: *const pthread_attr_t,
    function: unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the program vouches for its arguments.
    unsafe {
        if session::recording() {
            return create(handle, attributes, Function::Posix(function), argument);
        }
        if session::under_checker() {
            EARLY_THREADS.store(true, Ordering::Relaxed);
        }
        real_create()(handle, attributes, function, argument)
    }
}

/// Converts an error number to C11's result.
pub(super) mod c11 {
    use std::ffi::c_int;

    pub(crate) const SUCCESS: c_int = 0;
    const BUSY: c_int = 1;
    pub(crate) const ERROR: c_int = 2;
    const NO_MEMORY: c_int = 3;
    const TIMED_OUT: c_int = 4;

    pub(crate) fn result(error: c_int) -> c_int {
        match error {
            0 => SUCCESS,
            libc::EBUSY => BUSY,
            libc::ENOMEM => NO_MEMORY,
            libc::ETIMEDOUT => TIMED_OUT,
            _ => ERROR,
        }
    }
}

schedule! {
    fn thrd_create(
        handle: *mut pthread_t,
        function: unsafe extern "C-unwind" fn(*mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int |real| {
        c11::result(create(handle, std::ptr::null(), Function::C11(function), argument))
    }

    fn pthread_join(handle: pthread_t, value: *mut *mut c_void) -> c_int |real| {
        join(handle, value, Patience::Endless)
    }

    fn thrd_join(handle: pthread_t, value: *mut c_int) -> c_int |real| {
        let mut result = null_mut();
        if join(handle, &raw mut result, Patience::Endless) != 0 {
            return c11::ERROR;
        }
        if !value.is_null() {
            *value = result as isize as c_int;
        }
        c11::SUCCESS
    }

    fn pthread_tryjoin_np(handle: pthread_t, value: *mut *mut c_void) -> c_int |real| {
        join(handle, value, Patience::None)
    }

    fn pthread_timedjoin_np(handle: pthread_t, value: *mut *mut c_void, at: *const timespec) -> c_int |real| {
        join_until(handle, value, time::deadline(libc::CLOCK_REALTIME, at))
    }

    fn pthread_clockjoin_np(
        handle: pthread_t,
        value: *mut *mut c_void,
        clock: c_int,
        at: *const timespec,
    ) -> c_int |real| {
        join_until(handle, value, time::deadline(clock, at))
    }

    fn pthread_detach(handle: pthread_t) -> c_int |real| { detach(handle) }

    fn thrd_detach(handle: pthread_t) -> c_int |real| {
        if detach(handle) == 0 { c11::SUCCESS } else { c11::ERROR }
    }

    fn pthread_cancel(handle: pthread_t) -> c_int |real| {
        synchronize();
        let Some(number) = scheduler(|scheduler| scheduler.find(handle)) else { return libc::ESRCH };
        cancel(number);
        // Only waiting functions and `pthread_testcancel` check for cancellation; file I/O does not.
        unknown(reason::CANCEL, std::ptr::null());
        0
    }

    fn pthread_kill(handle: pthread_t, signal: c_int) -> c_int |real| {
        let number = scheduler(|scheduler| scheduler.find(handle));
        match number.filter(|&number| signal != 0 && number != running::number() && running::concurrent()) {
            Some(number) if scheduler(|scheduler| !scheduler.thread(number).has_ended()) => {
                unknown(reason::SIGNAL, std::ptr::null());
                send_signal(number, signal);
                0
            }
            _ => real()(handle, signal),
        }
    }

    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int |real| {
        // PTHREAD_CANCEL_DISABLE is 1.
        let before = current(|thread| std::mem::replace(&mut thread.cancel.disabled, state == 1));
        if !old.is_null() {
            *old = c_int::from(before);
        }
        0
    }

    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int |real| {
        // PTHREAD_CANCEL_ASYNCHRONOUS is 1.
        if kind == 1 {
            unknown(reason::CANCEL, std::ptr::null());
        }
        if !old.is_null() {
            *old = 0;
        }
        0
    }

    fn pthread_testcancel() |real| {
        if current(|thread| thread.cancel.is_due()) {
            end_cancelled();
        }
    }

    fn sched_yield() -> c_int |real| {
        give_way();
        0
    }

    fn thrd_yield() |real| { give_way(); }
}
