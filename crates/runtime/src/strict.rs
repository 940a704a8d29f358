//! Strict mode: whatever touches persistent memory without having been rebuilt is named, although it is followed.

use std::cell::Cell;
use std::ffi::c_int;
use std::ptr::null_mut;

use crashproof_protocol::{flag, reason, record};

use crate::cell::RunningThreadCell;
use crate::recorder::note;
use crate::{callers, session};

/// Where accesses were, so that a loop is reported once.
struct Reported {
    places: [usize; 256],
    count: usize,
}

static REPORTED: RunningThreadCell<Reported> =
    RunningThreadCell::new(Reported { places: [0; 256], count: 0 });

thread_local! {
    static REPORTING: Cell<bool> = const { Cell::new(false) };
}

/// Code that was not rebuilt touches an address; in strict mode that is reported.
pub(crate) fn touched(instruction: usize, address: u64) {
    if session::recording() && session::has_flag(flag::STRICT) {
        report(instruction, address);
    }
}

/// Records an access that could not be followed, with the calls that led to it; each place once.
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
    // SAFETY: there is room for so many frames.
    let depth = unsafe { libc::backtrace(stack.as_mut_ptr(), stack.len() as c_int) }.max(0) as usize;
    let frames = stack[..depth].iter().map(|frame| *frame as usize);
    // The first are the handler's own.
    let frames = frames.skip_while(|frame| *frame != instruction).skip(1);
    note(record::UNKNOWN, address, reason::UNSEEN, callers::place(instruction));
    // The runtime called `main`, or whatever the program has called back.
    for frame in frames.take_while(|frame| !callers::is_runtime(*frame)).take(16) {
        let place = callers::site(frame);
        if !place.is_null() {
            note(record::FRAME, 0, 0, place);
        }
    }
    REPORTING.set(false);
}
