//! Strict mode: whatever touches persistent memory unseen is named.
//!
//! The pool is inaccessible. The runtime's own accesses fault like all others, but their instructions are
//! known by where they are: the handler opens the page, lets the one instruction run, and closes it again.
//! So nothing in the runtime need know about this mode but two places: calls into the C library, which may
//! access PM in the runtime's name, and assembly of the program's between the two calls that announce it.
//! Whatever else faults is code that was not instrumented, or an instruction that the plugin missed. It is
//! recorded with its address and its callers, and then goes on as it would have without this mode.
//!
//! The kernel does not fault: a system call that the runtime does not stand before fails with EFAULT on PM.
//!
//! An access costs some microseconds instead of nanoseconds, so this is for finding out what a normal check
//! could not see, not for every day.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use crashproof_protocol::{POOL_BASE, POOL_BYTES, flag, reason, record};

use crate::real::replace;
use crate::{abi, access, callers, session};

/// Is it on?
static mut ON: bool = false;
/// Is the pool accessible, because the C library works for the runtime?
static mut OPEN: bool = false;
/// Pages that the instruction being stepped over needs; one can cross a page, and have two operands.
static mut STEPPED: [u64; 4] = [0; 4];
static mut STEPPED_COUNT: usize = 0;
/// Where unseen accesses were, so that a loop is told once.
static mut TOLD: [usize; 256] = [0; 256];
static mut TOLD_COUNT: usize = 0;
/// What the program wants done about the two signals.
static mut PROGRAMS: [Option<libc::sigaction>; 2] = [None; 2];

const PAGE: u64 = 4096;
/// The flag of the processor that makes it stop after every instruction.
const STEP: i64 = 0x100;

unsafe fn protect(address: u64, bytes: u64, protection: c_int) {
    // Not by the C library's function, before which the runtime stands.
    let failed = libc::syscall(libc::SYS_mprotect, address, bytes, protection);
    if failed != 0 {
        session::give_up("cannot protect the pool (strict mode)");
    }
}

const ACCESSIBLE: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// Called when a child of the checker begins and its memory is as it should be.
pub(crate) unsafe fn start() {
    if (*session::CONTROL).flags & flag::STRICT == 0 {
        return;
    }
    ON = true;
    // The first use of it loads a library, which is nothing for a signal handler.
    let mut nothing = [null_mut(); 1];
    libc::backtrace(nothing.as_mut_ptr(), 1);
    for (signal, handler) in
        [(libc::SIGSEGV, on_fault as *const () as usize), (libc::SIGTRAP, on_step as *const () as usize)]
    {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        set_action(signal, &raw const action);
    }
    protect(POOL_BASE, POOL_BYTES, libc::PROT_NONE);
}

/// The pool is accessible while this lives.
pub(crate) struct Opened(bool);

impl Opened {
    #[inline(always)]
    pub(crate) unsafe fn new() -> Opened {
        let needed = ON && !OPEN;
        if needed {
            OPEN = true;
            protect(POOL_BASE, POOL_BYTES, ACCESSIBLE);
        }
        Opened(needed)
    }
}

impl Drop for Opened {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0 {
            unsafe {
                OPEN = false;
                let error = *libc::__errno_location();
                protect(POOL_BASE, POOL_BYTES, libc::PROT_NONE);
                *libc::__errno_location() = error;
            }
        }
    }
}

/// Ends the mode for this process: it is none of the checker's any more.
pub(crate) unsafe fn stop() {
    if ON {
        ON = false;
        protect(POOL_BASE, POOL_BYTES, ACCESSIBLE);
    }
}

unsafe extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let address = (*info).si_addr() as u64;
    let in_pool = (POOL_BASE..POOL_BASE + POOL_BYTES).contains(&address);
    if !in_pool || !ON || STEPPED_COUNT == STEPPED.len() {
        return pass_on(signal, info, context);
    }
    let error = *libc::__errno_location();
    let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
    let instruction = registers[libc::REG_RIP as usize] as usize;
    if !abi::in_announced_assembly() && !callers::is_runtime(instruction) {
        tell(instruction, address);
    }
    STEPPED[STEPPED_COUNT] = address / PAGE * PAGE;
    STEPPED_COUNT += 1;
    protect(address / PAGE * PAGE, PAGE, ACCESSIBLE);
    registers[libc::REG_EFL as usize] |= STEP;
    *libc::__errno_location() = error;
}

unsafe extern "C" fn on_step(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    if STEPPED_COUNT == 0 {
        return pass_on(signal, info, context);
    }
    let error = *libc::__errno_location();
    for page in &STEPPED[..STEPPED_COUNT] {
        protect(*page, PAGE, libc::PROT_NONE);
    }
    STEPPED_COUNT = 0;
    let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
    registers[libc::REG_EFL as usize] &= !STEP;
    *libc::__errno_location() = error;
}

/// Records an access that nobody announced, with the calls that led to it.
unsafe fn tell(instruction: usize, address: u64) {
    if TOLD[..TOLD_COUNT].contains(&instruction) || TOLD_COUNT == TOLD.len() {
        return;
    }
    TOLD[TOLD_COUNT] = instruction;
    TOLD_COUNT += 1;
    let mut stack = [null_mut(); 64];
    let depth = libc::backtrace(stack.as_mut_ptr(), stack.len() as c_int).max(0) as usize;
    let frames = stack[..depth].iter().map(|frame| *frame as usize);
    // The first are this handler's own.
    let frames = frames.skip_while(|frame| *frame != instruction).skip(1);
    access::note(record::UNKNOWN, address, reason::UNSEEN, callers::place(instruction));
    // The runtime called `main`, or whatever the program has called back.
    for frame in frames.take_while(|frame| !callers::is_runtime(*frame)).take(16) {
        let place = callers::site(frame);
        if !place.is_null() {
            access::note(record::FRAME, 0, 0, place);
        }
    }
}

/// What the program wants, or what happens to those that want nothing.
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let wanted = PROGRAMS[usize::from(signal == libc::SIGTRAP)];
    match wanted.map(|action| (action.sa_sigaction, action.sa_flags)) {
        None | Some((libc::SIG_DFL | libc::SIG_IGN, _)) => {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = libc::SIG_DFL;
            set_action(signal, &raw const action);
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

unsafe fn set_action(signal: c_int, action: *const libc::sigaction) {
    let set = libc::dlsym(libc::RTLD_NEXT, c"sigaction".as_ptr());
    let set: unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int =
        std::mem::transmute(set);
    set(signal, action, null_mut());
}

/// Keeps what the program wants for one of the two signals; false if it is another one.
unsafe fn keep(signal: c_int, action: Option<libc::sigaction>, old: *mut libc::sigaction) -> bool {
    let index = match signal {
        libc::SIGSEGV => 0,
        libc::SIGTRAP => 1,
        _ => return false,
    };
    if !ON {
        return false;
    }
    if !old.is_null() {
        *old = PROGRAMS[index].unwrap_or(std::mem::zeroed());
    }
    if action.is_some() {
        PROGRAMS[index] = action;
    }
    true
}

/// Without the two signals, which must always come through.
unsafe fn without_ours(set: *const libc::sigset_t) -> Option<libc::sigset_t> {
    if !ON || set.is_null() {
        return None;
    }
    let mut set = *set;
    libc::sigdelset(&raw mut set, libc::SIGSEGV);
    libc::sigdelset(&raw mut set, libc::SIGTRAP);
    Some(set)
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

    fn sigprocmask(how: c_int, set: *const libc::sigset_t, old: *mut libc::sigset_t) -> c_int, caller(rcx)
    |site| {
        let ours = without_ours(set).filter(|_| how != libc::SIG_UNBLOCK);
        real(how, ours.as_ref().map_or(set, |ours| &raw const *ours), old)
    }

    fn pthread_sigmask(how: c_int, set: *const libc::sigset_t, old: *mut libc::sigset_t) -> c_int, caller(rcx)
    |site| {
        let ours = without_ours(set).filter(|_| how != libc::SIG_UNBLOCK);
        real(how, ours.as_ref().map_or(set, |ours| &raw const *ours), old)
    }
}
