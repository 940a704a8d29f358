//! Strict mode: reports code that was not rebuilt and touches persistent memory, even though it is followed.

use std::cell::Cell;
use std::ffi::c_int;
use std::ptr::null_mut;

use crashproof_protocol::{flag, reason, record};

use crate::cell::RunningThreadCell;
use crate::recorder::note;
use crate::{callers, session};

/// Places already reported, so that a loop is reported once.
struct Reported {
    places: [usize; 256],
    count: usize,
}

static REPORTED: RunningThreadCell<Reported> =
    RunningThreadCell::new(Reported { places: [0; 256], count: 0 });

thread_local! {
    static REPORTING: Cell<bool> = const { Cell::new(false) };
}

/// Called when code that was not rebuilt touches an address; reported in strict mode.
pub(crate) fn touched(instruction: usize, address: u64) {
    if session::recording() && session::has_flag(flag::STRICT) {
        report(instruction, address);
    }
}

/// Reports an access that could not be followed, with its call stack, once per place.
pub(crate) fn report(instruction: usize, address: u64) {
    let is_new = REPORTED.with(|reported| {
        let count = reported.count;
        if reported.places[..count].contains(&instruction) || count == reported.places.len() {
            return false;
        }
        reported.places[count] = instruction;
        reported.count += 1;
        true
    });
    if !is_new || REPORTING.replace(true) {
        return;
    }
    let mut stack = [null_mut(); 64];
    // SAFETY: the buffer has room for that many frames.
    let depth = unsafe { libc::backtrace(stack.as_mut_ptr(), stack.len() as c_int) }.max(0) as usize;
    let frames = stack[..depth].iter().map(|frame| *frame as usize);
    // The innermost frames are the handler's own.
    let frames = frames.skip_while(|frame| *frame != instruction).skip(1);
    note(record::UNKNOWN, address, reason::UNSEEN, callers::place(instruction));
    // Ends at the runtime, which called `main` or a callback.
    for frame in frames.take_while(|frame| !callers::is_runtime(*frame)).take(16) {
        let place = callers::site(frame);
        if !place.is_null() {
            note(record::FRAME, 0, 0, place);
        }
    }
    REPORTING.set(false);
}
