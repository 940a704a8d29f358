//! The functions of `crashproof.h`.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::null;

use crashproof_protocol::{ARENA, CRASHES_ADDRESS, ROOT, exit, record};
use px86::Kind;

use crate::access;
use crate::session::{CONTROL, UNDER_CHECKER};

/// End of what is allocated when the program does not run under the checker.
static mut OWN_END: u64 = ARENA.base;
static mut ROOT_BYTES: u64 = 0;
static mut FREE_CALLS: u64 = 0;

unsafe fn end() -> *mut u64 {
    if UNDER_CHECKER { &raw mut (*CONTROL).arena_end } else { &raw mut OWN_END }
}

/// The root object: one place, zero until first written, always at the same address.
#[unsafe(no_mangle)]
unsafe extern "C" fn crashproof_root(bytes: usize) -> *mut c_void {
    if bytes as u64 > ROOT.bytes {
        return std::ptr::null_mut();
    }
    ROOT_BYTES = ROOT_BYTES.max(bytes as u64);
    ROOT.base as *mut c_void
}

/// How large the program thinks the root object is.
pub(crate) unsafe fn root_bytes() -> u64 {
    ROOT_BYTES
}

/// Allocates zeroed persistent memory, aligned to a cache line. What is allocated stays allocated across
/// crashes; the allocator itself never loses anything.
#[unsafe(no_mangle)]
unsafe extern "C" fn crashproof_alloc(bytes: usize) -> *mut c_void {
    let end = end();
    if *end == 0 {
        *end = ARENA.base;
    }
    let address = *end;
    let next = (address + bytes.max(1) as u64).next_multiple_of(px86::LINE_BYTES);
    if next > ARENA.end() {
        return std::ptr::null_mut();
    }
    *end = next;
    access::note(record::ARENA, address, next, null());
    address as *mut c_void
}

/// Gives memory back. It is not used again, so that a use after free shows.
#[unsafe(no_mangle)]
unsafe extern "C" fn crashproof_free(_object: *mut c_void) {
    FREE_CALLS += 1;
}

/// How many crashes there have been.
#[unsafe(no_mangle)]
unsafe extern "C" fn crashproof_crashes() -> u32 {
    if !UNDER_CHECKER {
        return 0;
    }
    let crashes = (*CONTROL).crashes;
    static mut ASKED: bool = false;
    if crashes > 0 && !ASKED {
        ASKED = true;
        access::note(Kind::Load as u8, CRASHES_ADDRESS, u64::from(crashes), null());
    }
    crashes
}

/// Called by `crashproof_assert` when its condition is false.
#[unsafe(no_mangle)]
unsafe extern "C" fn __crashproof_assert_failed(
    condition: *const c_char,
    file: *const c_char,
    line: u32,
    function: *const c_char,
) -> ! {
    let text = |pointer: *const c_char| CStr::from_ptr(pointer).to_string_lossy().into_owned();
    let message =
        format!("{}:{line}: {}: assertion failed: {}\n", text(file), text(function), text(condition));
    libc::write(2, message.as_ptr().cast(), message.len());
    access::note(record::ASSERT, 0, u64::from(line), null());
    if UNDER_CHECKER { libc::_exit(exit::ASSERT) } else { libc::abort() }
}
