//! Whether an access to PM is to be recorded, and where it is.

use std::ffi::c_int;

use crashproof_protocol::abi::Site;

use super::moved;
use crate::{assembly, callers, protection, session};

/// Is what touches PM now to go unrecorded?
pub(crate) fn is_announced() -> bool {
    !session::recording() || protection::works_for_runtime()
}

/// Where an instruction is in the program. What the runtime does with the program's pointers it does for the innermost
/// call from rebuilt code, or from any code if there is none.
pub(crate) fn place(instruction: usize) -> *const Site {
    let instruction = moved::original(instruction);
    if !callers::is_in_runtime(instruction) {
        return assembly::site().unwrap_or_else(|| callers::place(instruction));
    }
    let mut frames = [std::ptr::null_mut(); 64];
    // SAFETY: there is room for so many frames.
    let depth = unsafe { libc::backtrace(frames.as_mut_ptr(), frames.len() as c_int) }.max(0) as usize;
    let frames =
        frames[..depth].iter().map(|frame| *frame as usize).skip_while(|frame| *frame != instruction);
    let mut outside = frames.filter(|frame| !callers::is_in_runtime(*frame));
    let first = outside.next();
    let found = first.into_iter().chain(outside).find(|frame| callers::is_instrumented(*frame)).or(first);
    found.map_or(std::ptr::null(), callers::site)
}
