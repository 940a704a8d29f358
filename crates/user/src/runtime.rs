//! The checker's runtime, if it is there: a program that `crashproof` built has it among its libraries.
//!
//! It is looked up by name, so that programs that are built without it need nothing.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The address of a function; `name` ends in zero.
fn find(name: &str) -> Option<*mut c_void> {
    assert!(name.ends_with('\0'), "a name for C");
    // SAFETY: a name that ends in zero, looked for in all libraries that are loaded.
    let found = unsafe { dlsym(null_mut(), name.as_ptr().cast()) };
    (!found.is_null()).then_some(found)
}

/// Calls a function of the runtime without arguments, if there is one.
pub(crate) fn call(name: &str) {
    if let Some(found) = find(name) {
        // SAFETY: those that are called here have this type (crashproof.h).
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn()>(found)() };
    }
}

pub(crate) fn checksum_end(matched: bool) {
    if let Some(found) = find("crashproof_checksum_end\0") {
        // SAFETY: it has this type (crashproof.h).
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int)>(found)(matched.into()) };
    }
}

pub(crate) fn crashes() -> u32 {
    // SAFETY: it has this type (crashproof.h).
    find("crashproof_crashes\0").map_or(0, |found| unsafe {
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> u32>(found)()
    })
}

/// The root object, zero at first, if the runtime is there.
pub(crate) fn root(bytes: usize) -> Option<*mut u8> {
    let found = find("crashproof_root\0")?;
    // SAFETY: it has this type (crashproof.h).
    let root = unsafe {
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn(usize) -> *mut c_void>(found)(bytes)
    };
    (!root.is_null()).then_some(root.cast())
}
