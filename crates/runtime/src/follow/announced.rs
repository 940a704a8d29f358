//! Whether an access to PM must be recorded, and for which place.

use std::ffi::c_int;

use crashproof_protocol::abi::Site;

use super::moved;
use crate::{assembly, callers, protection, session};

/// Should PM accesses go unrecorded at the moment?
pub(crate) fn is_announced() -> bool {
    !session::recording() || protection::works_for_runtime()
}

/// The place of an instruction. What the runtime does with the program's pointers is attributed to the innermost call
/// from rebuilt code, or from any code if there is none.
pub(crate) fn place(instruction: usize) -> *const Site {
    let instruction = moved::original(instruction);
    if !callers::is_in_runtime(instruction) {
        return assembly::site().unwrap_or_else(|| callers::place(instruction));
    }
    let mut frames = [std::ptr::null_mut(); 64];
    // SAFETY: the buffer has room for that many frames.
    let depth = unsafe { libc::backtrace(frames.as_mut_ptr(), frames.len() as c_int) }.max(0) as usize;
    let frames =
        frames[..depth].iter().map(|frame| *frame as usize).skip_while(|frame| *frame != instruction);
    let mut outside = frames.filter(|frame| !callers::is_in_runtime(*frame));
    let first = outside.next();
    let found = first.into_iter().chain(outside).find(|frame| callers::is_instrumented(*frame)).or(first);
    found.map_or(std::ptr::null(), callers::site)
}
