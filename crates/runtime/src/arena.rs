//! The functions of `crashproof.h` that allocate persistent memory, count crashes and assert.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::null;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use crashproof_protocol::{ARENA, CRASHES_ADDRESS, ROOT, exit, record};
use px86::{Kind, LINE_BYTES};

use crate::recorder::note;
use crate::session::{control, under_checker};
use crate::threads::turns::step_for_shared;

/// End of the allocated area when running without the checker; under the checker the control block holds it.
static OWN_END: AtomicU64 = AtomicU64::new(ARENA.base);
static ROOT_BYTES: AtomicU64 = AtomicU64::new(0);

/// The root object: a single object, initially zero, at the same address in every run.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn crashproof_root(bytes: usize) -> *mut c_void {
    if bytes as u64 > ROOT.bytes {
        return std::ptr::null_mut();
    }
    ROOT_BYTES.fetch_max(bytes as u64, Relaxed);
    ROOT.base as *mut c_void
}

/// The size the program expects the root object to have.
pub(crate) fn root_bytes() -> u64 {
    ROOT_BYTES.load(Relaxed)
}

/// Address and end of the next `bytes`-sized object after `end`; `None` if there is no room.
fn next_object(end: u64, bytes: usize) -> Option<(u64, u64)> {
    let address = end.max(ARENA.base);
    let next = address.checked_add(bytes.max(1) as u64)?.checked_next_multiple_of(LINE_BYTES)?;
    (next <= ARENA.end()).then_some((address, next))
}

/// Allocates zeroed persistent memory, aligned to a cache line. Allocations survive crashes; the allocator's own state
/// is never lost.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn crashproof_alloc(bytes: usize) -> *mut c_void {
    if !under_checker() {
        let grown =
            OWN_END.fetch_update(Relaxed, Relaxed, |end| next_object(end, bytes).map(|(_, next)| next));
        return grown.map_or(std::ptr::null_mut(), |address| address as *mut c_void);
    }
    step_for_shared(ARENA.base);
    let Some((address, next)) = control(|control| {
        let object = next_object(control.arena_end, bytes)?;
        control.arena_end = object.1;
        Some(object)
    }) else {
        return std::ptr::null_mut();
    };
    note(record::ARENA, address, next, null());
    address as *mut c_void
}

/// Frees memory without ever reusing it, so that a use after free shows.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn crashproof_free(_object: *mut c_void) {}

/// The number of crashes so far.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn crashproof_crashes() -> u32 {
    static ASKED: AtomicBool = AtomicBool::new(false);
    if !under_checker() {
        return 0;
    }
    let crashes = control(|control| control.crashes);
    if crashes > 0 && !ASKED.swap(true, Relaxed) {
        note(Kind::Load as u8, CRASHES_ADDRESS, crashes.into(), null());
    }
    crashes
}

/// Called by `crashproof_assert` when its condition is false.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn __crashproof_assert_failed(
    condition: *const c_char,
    file: *const c_char,
    line: u32,
    function: *const c_char,
) -> ! {
    // SAFETY: the macro passes constants.
    let text = |pointer: *const c_char| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned();
    let message =
        format!("{}:{line}: {}: assertion failed: {}\n", text(file), text(function), text(condition));
    // SAFETY: the kernel only reads the message; then the process ends.
    unsafe {
        libc::write(2, message.as_ptr().cast(), message.len());
        note(record::ASSERT, 0, line.into(), null());
        if under_checker() { libc::_exit(exit::ASSERT) } else { libc::abort() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_lines_within_the_arena() {
        assert_eq!(next_object(0, 1), Some((ARENA.base, ARENA.base + LINE_BYTES)));
        assert_eq!(next_object(ARENA.base, 0), Some((ARENA.base, ARENA.base + LINE_BYTES)));
        let (address, next) = next_object(ARENA.base + LINE_BYTES, 65).expect("room");
        assert_eq!((address, next - address), (ARENA.base + LINE_BYTES, 2 * LINE_BYTES));
        assert_eq!(next_object(ARENA.end() - LINE_BYTES, 65), None);
        assert_eq!(next_object(ARENA.base, usize::MAX), None);
    }
}
