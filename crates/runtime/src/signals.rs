//! The signals that the follower uses, and the program's own dispositions for them.
//!
//! The program's handlers are kept here, and called for signals that are not the runtime's.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize};

use crashproof_protocol::reason;

use crate::cell::RunningThreadCell;
use crate::interpose::replace;
use crate::real::Real;
use crate::recorder::unknown;
use crate::threads::timers;
use crate::{callers, protection, session};

/// The program's dispositions for these signals.
static WANTED: RunningThreadCell<[Option<libc::sigaction>; OURS.len()]> =
    RunningThreadCell::new([None; OURS.len()]);
/// Handlers of the runtime that run after the ones here.
static BEHIND: RunningThreadCell<[Option<libc::sigaction>; OURS.len()]> =
    RunningThreadCell::new([None; OURS.len()]);

static ON: AtomicBool = AtomicBool::new(false);

const OURS: [c_int; 3] = [libc::SIGSEGV, libc::SIGTRAP, libc::SIGSYS];

fn index(signal: c_int) -> Option<usize> {
    OURS.iter().position(|ours| *ours == signal)
}

/// Installs handlers for these signals in front of the existing ones.
pub(crate) fn take(handlers: [usize; OURS.len()]) {
    for (at, (signal, handler)) in OURS.into_iter().zip(handlers).enumerate() {
        // SAFETY: the handlers are for these signals.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_ONSTACK;
            let mut before: libc::sigaction = std::mem::zeroed();
            set_action(signal, &raw const action, &raw mut before);
            let is_handler = !matches!(before.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN);
            BEHIND.with(|behind| behind[at] = is_handler.then_some(before));
        }
    }
    ON.store(true, Relaxed);
}

/// Would `handler` be called for a signal that is not the program's?
pub(crate) fn comes_to(signal: c_int, handler: usize) -> bool {
    let Some(at) = index(signal).filter(|_| ON.load(Relaxed)) else { return false };
    let taken = WANTED.with(|wanted| {
        wanted[at].is_some_and(|wanted| !matches!(wanted.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN))
    });
    !taken && BEHIND.with(|behind| behind[at].is_some_and(|behind| behind.sa_sigaction == handler))
}

/// Does what the program's disposition demands, or the default.
///
/// # Safety
///
/// The arguments are those passed to a signal handler.
pub(crate) unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(at) = index(signal) else { return };
    let wanted = WANTED.with(|wanted| wanted[at]);
    let wanted = wanted.filter(|wanted| !matches!(wanted.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN));
    let behind = BEHIND.with(|behind| behind[at]);
    // SAFETY: handlers are the program's, or pointers it vouches for, or the runtime's own.
    unsafe {
        match wanted.or(behind).map(|action| (action.sa_sigaction, action.sa_flags)) {
            None => {
                reset(signal);
                if matches!(signal, libc::SIGTRAP | libc::SIGSYS) || (*info).si_code <= 0 {
                    // A signal sent by a process does not recur by itself.
                    libc::raise(signal);
                }
            }
            Some((handler, flags)) => {
                if flags & libc::SA_RESETHAND != 0 {
                    if wanted.is_some() {
                        WANTED.with(|wanted| wanted[at] = None);
                    } else {
                        reset(signal);
                    }
                }
                if flags & libc::SA_SIGINFO != 0 {
                    let handler: unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                        std::mem::transmute(handler);
                    handler(signal, info, context);
                } else {
                    let handler: unsafe extern "C" fn(c_int) = std::mem::transmute(handler);
                    handler(signal);
                }
            }
        }
    }
}

unsafe fn reset(signal: c_int) {
    // SAFETY: the default action runs no code.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        set_action(signal, &raw const action, null_mut());
    }
}

/// The C library's own `sigaction`.
///
/// # Safety
///
/// Handlers are for their signals; `old` is null or has room.
pub(crate) unsafe fn set_action(signal: c_int, action: *const libc::sigaction, old: *mut libc::sigaction) {
    // SAFETY: handlers are the program's, or pointers that it vouches for.
    unsafe {
        static REAL: Real = Real::new("sigaction\0", None);
        let set: unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int =
            std::mem::transmute(REAL.get());
        set(signal, action, old);
    }
}

/// Stores the program's disposition for one of these signals; `false` if it is another one.
unsafe fn keep(signal: c_int, action: Option<libc::sigaction>, old: *mut libc::sigaction) -> bool {
    let Some(at) = index(signal).filter(|_| ON.load(Relaxed)) else { return false };
    let before = WANTED.with(|wanted| wanted[at]);
    // SAFETY: `old` is null or has room; all-zero bytes are valid plain data.
    unsafe {
        if !old.is_null() {
            *old = before.unwrap_or(std::mem::zeroed());
        }
    }
    WANTED.with(|wanted| wanted[at] = action.or(before));
    true
}

/// The program's handlers for all other signals, and their flags. Read by threads whose turn it is not.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];
static FLAGS: [AtomicI32; SIGNALS] = [const { AtomicI32::new(0) }; SIGNALS];
const SIGNALS: usize = 65;

/// Delivers a signal to the program's handler. It may have interrupted a real function called by the runtime; the
/// handler's accesses are the program's own.
unsafe extern "C" fn deliver(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let (handler, flags) = (HANDLERS[signal as usize].load(Relaxed), FLAGS[signal as usize].load(Relaxed));
    // SAFETY: the kernel passes valid pointers to both; the handler is the program's.
    unsafe {
        if (*info).si_code == libc::SI_TIMER && (*info).si_value().sival_ptr as usize == timers::LOOKS {
            let machine = &*context.cast::<libc::ucontext_t>();
            let at = machine.uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
            if !protection::works_for_runtime() && !callers::is_in_runtime(at) && timers::is_stuck() {
                timers::wait_until(u64::MAX);
            }
            return;
        }
        if handler == 0 {
            return;
        }
        if flags & libc::SA_RESETHAND != 0 {
            HANDLERS[signal as usize].store(0, Relaxed);
            reset(signal);
        }
        let timer = (*info).si_code == libc::SI_TIMER || (*info).si_code == SI_KERNEL;
        let records = session::under_checker().then(session::records_seen_from_aside);
        protection::for_the_program(|| {
            if flags & libc::SA_SIGINFO != 0 {
                let handler: unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                    std::mem::transmute(handler);
                handler(signal, info, context);
            } else {
                let handler: unsafe extern "C" fn(c_int) = std::mem::transmute(handler);
                handler(signal);
            }
        });
        // Of the records made by the handler, only accesses count; it may also have left notes on volatile memory.
        let accessed =
            |records: u64| session::recorded()[records as usize..].iter().any(|it| it.event_kind().is_some());
        if timer && session::recording() && records.is_some_and(accessed) {
            note_handler();
        }
    }
}

/// Sent by the kernel, usually for a timer.
const SI_KERNEL: c_int = 0x80;

/// Reports, once, that the handler of a timer's signal touched PM.
fn note_handler() {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !TOLD.swap(true, Relaxed) {
        unknown(reason::HANDLER, std::ptr::null());
    }
}

/// Is it the program's handler for one of the other signals?
fn is_wrapped(signal: c_int, handler: usize) -> bool {
    let special = matches!(handler, libc::SIG_DFL | libc::SIG_IGN | libc::SIG_ERR);
    !special && (1..SIGNALS as c_int).contains(&signal) && index(signal).is_none()
}

/// The disposition the program believes to be in effect.
fn seen_by_program(signal: c_int, action: &mut libc::sigaction) {
    if action.sa_sigaction == deliver as *const () as usize {
        action.sa_sigaction = HANDLERS[signal as usize].load(Relaxed);
        action.sa_flags = FLAGS[signal as usize].load(Relaxed);
    }
}

/// The set without these signals, which must always be delivered.
unsafe fn without_ours(set: *const libc::sigset_t) -> Option<libc::sigset_t> {
    if !ON.load(Relaxed) || set.is_null() {
        return None;
    }
    // SAFETY: the program vouches for its set.
    unsafe {
        let mut set = *set;
        for signal in OURS {
            libc::sigdelset(&raw mut set, signal);
        }
        Some(set)
    }
}

replace! {
    fn sigaction(signal: c_int, action: *const libc::sigaction, old: *mut libc::sigaction) -> c_int, caller(rcx)
    |site| {
        let wanted = (!action.is_null()).then(|| *action);
        if keep(signal, wanted, old) {
            return 0;
        }
        let mut ours = wanted;
        if let Some(ours) = ours.as_mut().filter(|ours| is_wrapped(signal, ours.sa_sigaction)) {
            ours.sa_sigaction = deliver as *const () as usize;
            // Reset manually: until then the handler is needed.
            ours.sa_flags = (ours.sa_flags | libc::SA_SIGINFO) & !libc::SA_RESETHAND;
        }
        let mut before: libc::sigaction = std::mem::zeroed();
        let result = real(signal, ours.as_ref().map_or(std::ptr::null(), |ours| &raw const *ours), &raw mut before);
        if result == 0 {
            seen_by_program(signal, &mut before);
            if let Some(wanted) = wanted.filter(|_| (1..SIGNALS as c_int).contains(&signal)) {
                HANDLERS[signal as usize].store(wanted.sa_sigaction, Relaxed);
                FLAGS[signal as usize].store(wanted.sa_flags, Relaxed);
            }
            if !old.is_null() {
                *old = before;
            }
        }
        result
    }

    fn signal(signal: c_int, handler: usize) -> usize, caller(rdx)
    |site| {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        let mut old: libc::sigaction = std::mem::zeroed();
        if keep(signal, Some(action), &raw mut old) {
            return old.sa_sigaction;
        }
        action.sa_flags = libc::SA_RESTART;
        if libc::sigaction(signal, &raw const action, &raw mut old) == 0 { old.sa_sigaction } else { libc::SIG_ERR }
    }
}

replace! { [sigprocmask pthread_sigmask] {
    (how: c_int, set: *const libc::sigset_t, old: *mut libc::sigset_t) -> c_int, caller(rcx)
    |site| {
        let ours = without_ours(set).filter(|_| how != libc::SIG_UNBLOCK);
        real(how, ours.as_ref().map_or(set, |ours| &raw const *ours), old)
    }
} }
