//! The registers and innermost frames of a thread of the program: enough to tell a loop that waits from one that
//! counts.
//!
//! A thread that repeats a read in the same state will go on until another thread changes what it reads, so nothing is
//! lost by not stepping it until then. One that counts its rounds gives up eventually, and what it does then must be
//! explored. State that a loop keeps outside its frames is not seen.

use std::ffi::{c_int, c_void};

use crate::callers;
use crate::session;

/// The number of frames examined.
const FRAMES: u32 = 6;
/// The most bytes examined.
const MOST_BYTES: usize = 4096;
/// Callee-saved registers, in the unwinder's numbering: rbx, rbp, r12 to r15. Everything else the program needs after a
/// call is in its frame.
const KEPT: [c_int; 6] = [3, 6, 12, 13, 14, 15];

unsafe extern "C" {
    fn _Unwind_Backtrace(each: extern "C" fn(*mut c_void, *mut c_void) -> c_int, to: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
    fn _Unwind_GetGR(context: *mut c_void, register: c_int) -> usize;
}

#[derive(Default)]
struct Frames {
    hash: usize,
    count: u32,
    /// The addresses of the innermost and the outermost of them.
    first: usize,
    last: usize,
}

impl Frames {
    fn add(&mut self, word: usize) {
        self.hash = (self.hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

extern "C" fn frame(context: *mut c_void, to: *mut c_void) -> c_int {
    const GO_ON: c_int = 0;
    const ENOUGH: c_int = 4;
    // SAFETY: the unwinder passes its context and the pointer it was given.
    unsafe {
        let frames = &mut *to.cast::<Frames>();
        let at = _Unwind_GetIP(context);
        if callers::is_runtime(at) {
            // The runtime also called `main` and the functions of threads.
            return if frames.count == 0 { GO_ON } else { ENOUGH };
        }
        frames.last = _Unwind_GetCFA(context);
        if frames.count == 0 {
            frames.first = frames.last;
            KEPT.iter().for_each(|&register| frames.add(_Unwind_GetGR(context, register)));
        }
        frames.add(at);
        frames.count += 1;
        if frames.count < FRAMES { GO_ON } else { ENOUGH }
    }
}

/// A hash of the running thread's state, as far as its innermost frames go.
pub(super) fn program_state() -> u64 {
    let mut frames = Frames::default();
    // The unwinder takes locks, which are not the program's and must not become steps.
    // SAFETY: it unwinds what the program can unwind; the callback has the right type.
    session::unfollowed(|| unsafe { _Unwind_Backtrace(frame, (&raw mut frames).cast()) });
    // SAFETY: memory between two frames of a stack is readable; no other thread runs.
    unsafe {
        let words = frames.last.saturating_sub(frames.first).min(MOST_BYTES) / 8;
        let words =
            std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<usize>(frames.first), words);
        words.iter().for_each(|word| frames.add(*word));
    }
    frames.hash as u64
}
