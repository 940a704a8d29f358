//! Strict mode: whatever touches persistent memory unseen is named.
//!
//! The pool is inaccessible. The runtime's own accesses fault like all others, but their instructions are
//! known by where they are: the handler opens the page, lets the one instruction run, and closes it again.
//! So nothing in the runtime need know about this mode but two places: calls into the C library, which may
//! access PM in the runtime's name, and assembly of the program's between the two calls that announce it.
//! Whatever else faults is code that was not instrumented, or an instruction that the plugin missed. It is
//! recorded with its address and its callers, and then goes on as it would have without this mode.
//!
//! The kernel does not fault: a system call that the runtime does not interpose fails with EFAULT on PM.
//!
//! An access costs some microseconds instead of nanoseconds, so this is for finding out what a normal check
//! could not see, not for every day.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use crashproof_protocol::{POOL_BASE, POOL_BYTES, flag, reason, record};

use crate::cell::RunningThreadCell;
use crate::interpose::replace;
use crate::protection::{self, ACCESSIBLE, protect};
use crate::real::Real;
use crate::recorder::note;
use crate::system::KeptErrno;
use crate::{assembly, callers, session};

/// A few values, without allocation: signal handlers come here.
struct Few<T, const N: usize> {
    values: [T; N],
    count: usize,
}

impl<T: Copy + PartialEq, const N: usize> Few<T, N> {
    const fn new(nothing: T) -> Few<T, N> {
        Few { values: [nothing; N], count: 0 }
    }

    /// Adds a value; false if there is no room.
    fn push(&mut self, value: T) -> bool {
        let Some(slot) = self.values.get_mut(self.count) else { return false };
        *slot = value;
        self.count += 1;
        true
    }

    fn all(&self) -> &[T] {
        &self.values[..self.count]
    }
}

/// Pages that the instruction being stepped over needs; one can cross a page, and have two operands.
static STEPPED: RunningThreadCell<Few<u64, 4>> = RunningThreadCell::new(Few::new(0));
/// Where unseen accesses were, so that a loop is reported once.
static REPORTED: RunningThreadCell<Few<usize, 256>> = RunningThreadCell::new(Few::new(0));
/// What the program wants done about the two signals.
static WANTED: RunningThreadCell<[Option<libc::sigaction>; 2]> = RunningThreadCell::new([None; 2]);

const PAGE: u64 = 4096;
/// The flag of the processor that makes it stop after every instruction.
const STEP: i64 = 0x100;

/// Called when a child of the checker begins and its memory is as it should be.
pub(crate) fn start() {
    if !session::has_flag(flag::STRICT) {
        return;
    }
    // SAFETY: the handlers are for these signals.
    unsafe {
        // The first use of it loads a library, which is nothing for a signal handler.
        let mut nothing = [null_mut(); 1];
        libc::backtrace(nothing.as_mut_ptr(), 1);
        for (signal, handler) in
            [(libc::SIGSEGV, on_fault as *const () as usize), (libc::SIGTRAP, on_step as *const () as usize)]
        {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
            set_action(signal, &raw const action, null_mut());
        }
    }
    protection::start();
}

/// A register of the program where it was interrupted.
///
/// # Safety
///
/// The context is the kernel's, and nobody else refers to it.
unsafe fn register<'a>(context: *mut c_void, which: c_int) -> &'a mut i64 {
    // SAFETY: as for this function.
    unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[which as usize] }
}

unsafe extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let _errno = KeptErrno::new();
    // SAFETY: the kernel passes both.
    unsafe {
        let address = (*info).si_addr() as u64;
        let in_pool = (POOL_BASE..POOL_BASE + POOL_BYTES).contains(&address);
        let page = address / PAGE * PAGE;
        if !in_pool || !protection::is_on() || !STEPPED.with(|stepped| stepped.push(page)) {
            return pass_on(signal, info, context);
        }
        let instruction = *register(context, libc::REG_RIP) as usize;
        if !assembly::is_running() && !callers::is_runtime(instruction) {
            report(instruction, address);
        }
        protect(page, PAGE, ACCESSIBLE);
        *register(context, libc::REG_EFL) |= STEP;
    }
}

unsafe extern "C" fn on_step(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let _errno = KeptErrno::new();
    let stepped = STEPPED.with(|stepped| std::mem::replace(stepped, Few::new(0)));
    // SAFETY: the kernel passes both.
    unsafe {
        if stepped.all().is_empty() {
            return pass_on(signal, info, context);
        }
        stepped.all().iter().for_each(|page| protect(*page, PAGE, libc::PROT_NONE));
        *register(context, libc::REG_EFL) &= !STEP;
    }
}

/// Records an access that was not announced, with the calls that led to it.
fn report(instruction: usize, address: u64) {
    let known =
        |reported: &mut Few<usize, 256>| reported.all().contains(&instruction) || !reported.push(instruction);
    if REPORTED.with(known) {
        return;
    }
    let mut stack = [null_mut(); 64];
    // SAFETY: there is room for so many frames.
    let depth = unsafe { libc::backtrace(stack.as_mut_ptr(), stack.len() as c_int) }.max(0) as usize;
    let frames = stack[..depth].iter().map(|frame| *frame as usize);
    // The first are this handler's own.
    let frames = frames.skip_while(|frame| *frame != instruction).skip(1);
    note(record::UNKNOWN, address, reason::UNSEEN, callers::place(instruction));
    // The runtime called `main`, or whatever the program has called back.
    for frame in frames.take_while(|frame| !callers::is_runtime(*frame)).take(16) {
        let place = callers::site(frame);
        if !place.is_null() {
            note(record::FRAME, 0, 0, place);
        }
    }
}

/// What the program wants, or what happens to those that want nothing.
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: handlers are the program's, or pointers that it vouches for.
    unsafe {
        let wanted = WANTED.with(|wanted| wanted[usize::from(signal == libc::SIGTRAP)]);
        match wanted.map(|action| (action.sa_sigaction, action.sa_flags)) {
            None | Some((libc::SIG_DFL | libc::SIG_IGN, _)) => {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = libc::SIG_DFL;
                set_action(signal, &raw const action, null_mut());
                if signal == libc::SIGTRAP || (*info).si_code <= 0 {
                    // Nothing is going to happen again by itself.
                    libc::raise(signal);
                }
            }
            Some((handler, flags)) if flags & libc::SA_SIGINFO != 0 => {
                let handler: unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                    std::mem::transmute(handler);
                handler(signal, info, context);
            }
            Some((handler, _)) => {
                let handler: unsafe extern "C" fn(c_int) = std::mem::transmute(handler);
                handler(signal);
            }
        }
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

/// Keeps what the program wants for one of the two signals; false if it is another one.
unsafe fn keep(signal: c_int, action: Option<libc::sigaction>, old: *mut libc::sigaction) -> bool {
    // SAFETY: handlers are the program's, or pointers that it vouches for.
    unsafe {
        let index = match signal {
            libc::SIGSEGV => 0,
            libc::SIGTRAP => 1,
            _ => return false,
        };
        if !protection::is_on() {
            return false;
        }
        let before = WANTED.with(|wanted| wanted[index]);
        if !old.is_null() {
            *old = before.unwrap_or(std::mem::zeroed());
        }
        WANTED.with(|wanted| wanted[index] = action.or(before));
        true
    }
}

/// Without the two signals, which must always come through.
unsafe fn without_ours(set: *const libc::sigset_t) -> Option<libc::sigset_t> {
    // SAFETY: handlers are the program's, or pointers that it vouches for.
    unsafe {
        if !protection::is_on() || set.is_null() {
            return None;
        }
        let mut set = *set;
        libc::sigdelset(&raw mut set, libc::SIGSEGV);
        libc::sigdelset(&raw mut set, libc::SIGTRAP);
        Some(set)
    }
}

replace! {
    fn sigaction(signal: c_int, action: *const libc::sigaction, old: *mut libc::sigaction) -> c_int, caller(rcx)
    |site| {
        let wanted = (!action.is_null()).then(|| *action);
        if keep(signal, wanted, old) { 0 } else { real(signal, action, old) }
    }

    fn signal(signal: c_int, handler: usize) -> usize, caller(rdx)
    |site| {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        let mut old: libc::sigaction = std::mem::zeroed();
        if keep(signal, Some(action), &raw mut old) { old.sa_sigaction } else { real(signal, handler) }
    }
}

replace! { [sigprocmask pthread_sigmask] {
    (how: c_int, set: *const libc::sigset_t, old: *mut libc::sigset_t) -> c_int, caller(rcx)
    |site| {
        let ours = without_ours(set).filter(|_| how != libc::SIG_UNBLOCK);
        real(how, ours.as_ref().map_or(set, |ours| &raw const *ours), old)
    }
} }
