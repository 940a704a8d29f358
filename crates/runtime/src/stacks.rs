//! Call stacks at selected events of a run, for reports.
//!
//! A check records no call stacks. When it has found something, it repeats the run and requests the stacks at the few
//! events the report names, and at the end of a failing recovery. The run is otherwise identical.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crashproof_protocol::Stack;

use crate::callers;
use crate::real::Real;
use crate::session::{self, under_checker};

/// Are any stacks requested from this child?
static ON: AtomicBool = AtomicBool::new(false);

/// Called when a child of the checker begins.
pub(crate) fn start() {
    if session::wanted_stacks(|stacks| stacks.is_empty()) {
        return;
    }
    ON.store(true, Relaxed);
    // SAFETY: unwinds one frame; the handler is for this signal.
    unsafe {
        // The first unwinding loads a library, which must not happen in the middle of a run.
        let mut nothing = [null_mut(); 1];
        libc::backtrace(nothing.as_mut_ptr(), 1);
        if session::wanted_stacks(|stacks| stacks.iter().any(|stack| stack.index == Stack::END)) {
            // Faults are handled already: code that was not rebuilt is followed by them, and `faults` sees the others.
            set_handler(libc::SIGABRT, on_signal as *const () as usize);
        }
    }
    session::at_record(next_after(None), note);
}

/// The first requested index after another one.
fn next_after(index: Option<u64>) -> u64 {
    session::wanted_stacks(|stacks| {
        let later = stacks.iter().map(|stack| stack.index).filter(|it| index.is_none_or(|index| *it > index));
        later.min().unwrap_or(Stack::END)
    })
}

/// Records the call stack at a record; returns the next requested index.
fn note(index: u64) -> u64 {
    let mut frames = [null_mut(); 64];
    // The unwinder takes locks and calls `pthread_once`, which would be recorded if there are threads.
    // SAFETY: the buffer has room for that many frames.
    let depth =
        session::unfollowed(|| unsafe { libc::backtrace(frames.as_mut_ptr(), frames.len() as c_int) });
    let depth = depth.max(0) as usize;
    let frames = frames[..depth].iter().map(|frame| *frame as usize);
    // The innermost frames are the runtime's own; so is the caller of `main`.
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

/// Called when the run ends.
pub(crate) fn note_end() {
    if ON.load(Relaxed) && under_checker() {
        note(Stack::END);
    }
}

unsafe extern "C" fn on_signal(signal: c_int, _info: *mut libc::siginfo_t, _context: *mut c_void) {
    note_end();
    // SAFETY: restores the default action; the instruction raises the signal again.
    unsafe { set_handler(signal, libc::SIG_DFL) };
}

unsafe fn set_handler(signal: c_int, handler: usize) {
    static REAL: Real = Real::new("sigaction\0", None);
    // SAFETY: the symbol has this type, and the caller vouches for the handler.
    unsafe {
        let set: unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int =
            std::mem::transmute(REAL.get());
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = if handler == libc::SIG_DFL { 0 } else { libc::SA_SIGINFO | libc::SA_ONSTACK };
        set(signal, &raw const action, null_mut());
    }
}
