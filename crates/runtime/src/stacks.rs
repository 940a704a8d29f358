//! The calls that led to some events of a run, for reports.
//!
//! A check records no calls. When it has found something, it repeats the run and asks for the calls at the few events
//! that the report names, and at the end of a recovery that fails. The run is otherwise the same.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crashproof_protocol::Stack;

use crate::callers;
use crate::real::Real;
use crate::session::{self, under_checker};

/// Is anything wanted of this child?
static ON: AtomicBool = AtomicBool::new(false);

/// Called when a child of the checker begins.
pub(crate) fn start() {
    if session::wanted_stacks(|stacks| stacks.is_empty()) {
        return;
    }
    ON.store(true, Relaxed);
    // SAFETY: asks for one frame; the handlers are for these signals.
    unsafe {
        // The first use of it loads a library, which is nothing for the middle of a run.
        let mut nothing = [null_mut(); 1];
        libc::backtrace(nothing.as_mut_ptr(), 1);
        if session::wanted_stacks(|stacks| stacks.iter().any(|stack| stack.index == Stack::END)) {
            for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT] {
                set_handler(signal, on_signal as *const () as usize);
            }
        }
    }
    session::at_record(next_after(None), note);
}

/// The first wanted index after another one.
fn next_after(index: Option<u64>) -> u64 {
    session::wanted_stacks(|stacks| {
        let later = stacks.iter().map(|stack| stack.index).filter(|it| index.is_none_or(|index| *it > index));
        later.min().unwrap_or(Stack::END)
    })
}

/// Notes the calls at a record; gives the next index that is wanted.
fn note(index: u64) -> u64 {
    let mut frames = [null_mut(); 64];
    // The unwinder takes locks and calls `pthread_once`, which would be recorded if there are threads.
    // SAFETY: there is room for so many frames.
    let depth =
        session::unfollowed(|| unsafe { libc::backtrace(frames.as_mut_ptr(), frames.len() as c_int) });
    let depth = depth.max(0) as usize;
    let frames = frames[..depth].iter().map(|frame| *frame as usize);
    // The first are the runtime's own; it called `main`, too.
    let frames = frames.skip_while(|frame| callers::is_runtime(*frame));
    let frames = frames.take_while(|frame| !callers::is_runtime(*frame));
    let numbers = frames.filter_map(|frame| callers::number(callers::site(frame) as usize));
    session::wanted_stacks(|stacks| {
        if let Some(stack) = stacks.iter_mut().find(|stack| stack.index == index && stack.depth == 0) {
            for (to, number) in stack.callers.iter_mut().zip(numbers) {
                *to = number;
                stack.depth += 1;
            }
        }
    });
    next_after(Some(index))
}

/// The run ends.
pub(crate) fn note_end() {
    if ON.load(Relaxed) && under_checker() {
        note(Stack::END);
    }
}

unsafe extern "C" fn on_signal(signal: c_int, _info: *mut libc::siginfo_t, _context: *mut c_void) {
    note_end();
    // SAFETY: the default action; what raised the signal raises it again.
    unsafe { set_handler(signal, libc::SIG_DFL) };
}

unsafe fn set_handler(signal: c_int, handler: usize) {
    static REAL: Real = Real::new("sigaction\0", None);
    // SAFETY: that is its type, and the caller vouches for the handler.
    unsafe {
        let set: unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int =
            std::mem::transmute(REAL.get());
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = if handler == libc::SIG_DFL { 0 } else { libc::SA_SIGINFO | libc::SA_ONSTACK };
        set(signal, &raw const action, null_mut());
    }
}
