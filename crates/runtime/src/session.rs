//! The shared memory, and in which mode this process is.

use std::ffi::CStr;
use std::ptr::null_mut;

use crashproof_protocol::{
    CONTROL_BYTES, Control, ENVIRONMENT, IDLE_READS_OF_RECORDING, IDLE_READS_OF_RECOVERY, PATCHES_OFFSET,
    POOL_BASE, POOL_BYTES, Patch, Record, TRACE_BYTES, VERSION, exit, fd, flag, mode,
};
use px86::LINE_BYTES;

use crate::{heap, process, raw, strict};

/// See [`mode`]. Written before `main` only.
pub(crate) static mut MODE: u32 = mode::PASS;
/// The control block; null if not under the checker.
pub(crate) static mut CONTROL: *mut Control = null_mut();
/// The trace, and where in it to write.
static mut WHOLE_TRACE: *mut u8 = null_mut();
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
        WHOLE_TRACE = map(0, TRACE_BYTES, libc::MAP_SHARED, fd::TRACE);
        TRACE = WHOLE_TRACE.cast();
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

/// What the image holds in a range: what this process began with.
pub(crate) unsafe fn image_bytes(address: u64, bytes: u64) -> &'static [u8] {
    std::slice::from_raw_parts(IMAGE.add((address - POOL_BASE) as usize), bytes as usize)
}

/// What was recorded so far.
pub(crate) unsafe fn trace() -> &'static [Record] {
    std::slice::from_raw_parts(TRACE, (*CONTROL).records as usize)
}

/// Does the checker assume that caches survive?
pub(crate) unsafe fn has_persistent_caches() -> bool {
    UNDER_CHECKER && (*CONTROL).flags & flag::EADR != 0
}

/// Does the image hold anything but zeros in a range of whole words?
pub(crate) unsafe fn image_holds(address: u64, bytes: u64) -> bool {
    let start = IMAGE.add((address - POOL_BASE) as usize).cast::<u64>();
    !IMAGE.is_null() && (0..bytes as usize / 8).any(|word| *start.add(word) != 0)
}

/// Goes to where the next child, and whoever tells of its end, is to write. What the checker keeps before that is not
/// for children to change, however wild their stores.
pub(crate) unsafe fn find_trace() {
    static mut PROTECTED: u64 = 0;
    let kept = (*CONTROL).trace_start;
    if kept != PROTECTED {
        let protect = |bytes: u64, how| libc::mprotect(WHOLE_TRACE.cast(), bytes as usize, how);
        protect(PROTECTED.max(kept), libc::PROT_READ | libc::PROT_WRITE);
        protect(kept, libc::PROT_READ);
        PROTECTED = kept;
        TRACE = WHOLE_TRACE.add(kept as usize).cast();
    }
}

/// Makes this process the child the checker asked for.
pub(crate) unsafe fn become_child() {
    let control = &mut *CONTROL;
    control.records = 0;
    control.threads = 1;
    control.points = 0;
    READY = 0;
    MODE = control.mode;
    PATIENCE = if MODE == mode::RECOVER { IDLE_READS_OF_RECOVERY } else { IDLE_READS_OF_RECORDING };
    READS_LEFT = PATIENCE;
    heap::start();
    process::start();
    crate::threads::begin();
    let patches: *const Patch = CONTROL.cast::<u8>().add(PATCHES_OFFSET as usize).cast();
    for index in 0..control.patches as usize {
        let patch = &*patches.add(index);
        raw::copy(patch.address as *mut u8, patch.bytes.as_ptr(), patch.bytes.len());
    }
    strict::start();
}

/// Records that fit into the part of the trace whose memory is there.
static mut READY: u64 = 0;

/// How many reads in a row may bring nothing new.
static mut PATIENCE: u64 = u64::MAX;
/// How many of them are left.
static mut READS_LEFT: u64 = u64::MAX;

/// PM is read. A loop that reads the same again and again leaves no records, and would never end.
#[inline(always)]
pub(crate) unsafe fn count_read() {
    READS_LEFT = READS_LEFT.wrapping_sub(1);
    if READS_LEFT == 0 {
        too_much_work();
    }
}

/// Appends a record to the trace.
#[inline(always)]
pub(crate) unsafe fn append(record: Record) {
    let control = &mut *CONTROL;
    let index = control.records;
    if index >= READY {
        more_trace(index);
    }
    TRACE.add(index as usize).write(record);
    READS_LEFT = PATIENCE;
    control.records = index + 1;
}

/// Appends a record, unless the trace ends in the same one: a loop that waits reads the same again and again.
#[inline(always)]
pub(crate) unsafe fn append_once(record: Record) {
    let records = (*CONTROL).records;
    if records == 0 || *TRACE.add(records as usize - 1) != record {
        append(record);
    }
}

/// Gets memory for more of the trace: more each time, since a fault for every page would cost more than
/// recording does.
#[cold]
#[inline(never)]
unsafe fn more_trace(index: u64) {
    const FIRST: u64 = 128;
    const MOST: u64 = 1 << 16;
    let most = (*CONTROL).max_records;
    if index >= most {
        too_much_work();
    }
    let count = index.clamp(FIRST, MOST);
    READY = (index + count).min(most);
    if index > 0 {
        let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
        let start = (TRACE.add(index as usize) as usize).next_multiple_of(page);
        let end = (TRACE.add((index + count) as usize) as usize).next_multiple_of(page);
        // If the kernel does not know this, pages come one by one.
        let error = *libc::__errno_location();
        libc::madvise(start as *mut _, end - start, libc::MADV_POPULATE_WRITE);
        *libc::__errno_location() = error;
    }
}

/// Ends the process: it does not come to an end by itself.
#[cold]
pub(crate) fn too_much_work() -> ! {
    // Not through the C library's function, which would let store buffers run out into a full trace.
    unsafe {
        (*CONTROL).ended = 1;
        std::arch::asm!("syscall", in("rax") libc::SYS_exit_group, in("rdi") exit::TOO_MUCH_WORK, options(noreturn))
    }
}
