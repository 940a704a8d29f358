//! The shared memory, and in which mode this process is.

use std::ffi::CStr;
use std::ptr::null_mut;

use crashproof_protocol::{
    CONTROL_BYTES, Control, ENVIRONMENT, PATCHES_OFFSET, POOL_BASE, POOL_BYTES, Patch, Record, TRACE_BYTES,
    VERSION, exit, fd, mode,
};
use px86::LINE_BYTES;

use crate::{heap, process, raw};

/// See [`mode`]. Written before `main` only.
pub(crate) static mut MODE: u32 = mode::PASS;
/// The control block; null if not under the checker.
pub(crate) static mut CONTROL: *mut Control = null_mut();
static mut TRACE: *mut Record = null_mut();
/// Which bytes of each line this child has touched; one word a line. Recovery only.
pub(crate) static mut SHADOW: *mut u64 = null_mut();
/// The image, mapped so that writes reach it: for content that is durable from the start.
static mut IMAGE: *mut u8 = null_mut();
/// Is the program run by the checker, now or once it is parked?
pub(crate) static mut UNDER_CHECKER: bool = false;

/// Ends the process with a message: something is wrong that the program is not to blame for.
pub(crate) fn give_up(what: &str) -> ! {
    let text = format!("crashproof runtime: {what}\n");
    unsafe {
        libc::write(2, text.as_ptr().cast(), text.len());
        libc::_exit(exit::UNSUPPORTED);
    }
}

unsafe fn map(address: u64, bytes: u64, flags: i32, descriptor: i32) -> *mut u8 {
    let fixed = if address == 0 { 0 } else { libc::MAP_FIXED_NOREPLACE };
    let pointer = libc::mmap(
        address as *mut _,
        bytes as usize,
        libc::PROT_READ | libc::PROT_WRITE,
        flags | fixed | libc::MAP_NORESERVE,
        descriptor,
        0,
    );
    if pointer == libc::MAP_FAILED {
        give_up(&format!("cannot map {bytes} bytes at {address:#x}: {}", std::io::Error::last_os_error()));
    }
    pointer.cast()
}

/// Maps everything; called before any other code of the program.
pub(crate) fn start() {
    static mut STARTED: bool = false;
    unsafe {
        if STARTED {
            return;
        }
        STARTED = true;
        let name = format!("{ENVIRONMENT}\0");
        let value = libc::getenv(CStr::from_bytes_with_nul(name.as_bytes()).expect("ends in zero").as_ptr());
        if value.is_null() {
            map(POOL_BASE, POOL_BYTES, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
            return;
        }
        if CStr::from_ptr(value).to_bytes() != VERSION.to_string().as_bytes() {
            give_up("this program was built with another version of crashproof; build it again");
        }
        UNDER_CHECKER = true;
        CONTROL = map(0, CONTROL_BYTES, libc::MAP_SHARED, fd::CONTROL).cast();
        TRACE = map(0, TRACE_BYTES, libc::MAP_SHARED, fd::TRACE).cast();
        IMAGE = map(0, POOL_BYTES, libc::MAP_SHARED, fd::IMAGE);
        map(POOL_BASE, POOL_BYTES, libc::MAP_PRIVATE, fd::IMAGE);
        let shadow_bytes = POOL_BYTES / LINE_BYTES * 8;
        SHADOW = map(0, shadow_bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1).cast();
    }
}

/// Writes content that is durable from the start; before `main`, or for files as they are found.
pub(crate) unsafe fn set_durable(address: u64, bytes: &[u8]) {
    if IMAGE.is_null() {
        raw::copy(address as *mut u8, bytes.as_ptr(), bytes.len());
    } else {
        raw::copy(IMAGE.add((address - POOL_BASE) as usize), bytes.as_ptr(), bytes.len());
    }
}

/// Does the image hold anything but zeros in a range of whole words?
pub(crate) unsafe fn image_holds(address: u64, bytes: u64) -> bool {
    let start = IMAGE.add((address - POOL_BASE) as usize).cast::<u64>();
    !IMAGE.is_null() && (0..bytes as usize / 8).any(|word| *start.add(word) != 0)
}

/// Makes this process the child the checker asked for.
pub(crate) unsafe fn become_child() {
    let control = &mut *CONTROL;
    control.records = 0;
    control.threads = 1;
    MODE = control.mode;
    heap::start();
    process::start();
    let patches: *const Patch = CONTROL.cast::<u8>().add(PATCHES_OFFSET as usize).cast();
    for index in 0..control.patches as usize {
        let patch = &*patches.add(index);
        raw::copy(patch.address as *mut u8, patch.bytes.as_ptr(), patch.bytes.len());
    }
}

/// Appends a record to the trace.
#[inline(always)]
pub(crate) unsafe fn append(record: Record) {
    let control = &mut *CONTROL;
    let index = control.records;
    if index >= control.max_records {
        too_much_work();
    }
    TRACE.add(index as usize).write(record);
    control.records = index + 1;
}

#[cold]
fn too_much_work() -> ! {
    unsafe { libc::_exit(exit::TOO_MUCH_WORK) }
}
