//! Ends a recovery as soon as no code of the program is left to run, without waiting for the C library.
//!
//! What follows the runtime's own place in `exit` are the ends of the libraries that the runtime needs, and the flushing of
//! streams: in a process that is to end, mostly nothing at all, and a good part of the time that a short recovery takes. It is
//! left out if no other library could have something to do there, and no stream holds anything.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize};

use crate::real::Real;
use crate::system::raw_syscall;

/// Libraries that have nothing to do at the end; the program itself has no name.
const QUIET: [&[u8]; 10] = [
    b"linux-vdso",
    b"libcrashproof_runtime",
    b"libc.so",
    b"libgcc_s.so",
    b"libm.so",
    b"libpthread.so",
    b"libdl.so",
    b"librt.so",
    b"ld-linux",
    b"ld.so",
];

/// Not an exit code.
const UNKNOWN: i32 = -1;
/// What the program ends with, as far as it said.
static STATUS: AtomicI32 = AtomicI32::new(UNKNOWN);
/// Where the loader's list of modules begins, and how many there are; 0 if there is anything that is not quiet.
static MODULES: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Where the C library keeps the first of its streams, if that is standard error while there are no others.
static STREAMS: AtomicUsize = AtomicUsize::new(0);
static READY: AtomicBool = AtomicBool::new(false);

/// An entry of the loader's list of modules.
#[repr(C)]
struct Module {
    address: usize,
    name: *const c_char,
    dynamic: *const c_void,
    next: *const Module,
}

/// The loader's description of itself, for debuggers.
#[repr(C)]
struct Debug {
    version: c_int,
    map: *const Module,
}

unsafe extern "C" {
    static stdin: *mut libc::FILE;
    static stdout: *mut libc::FILE;
    static stderr: *mut libc::FILE;
    fn __fpending(stream: *mut libc::FILE) -> usize;
}

fn modules(first: usize) -> impl Iterator<Item = &'static Module> {
    // SAFETY: entries of the loader's list, which stay while the process ends.
    let at = |module: *const Module| unsafe { module.as_ref() };
    std::iter::successors(at(first as *const Module), move |module| at(module.next))
}

fn is_quiet(module: &Module) -> bool {
    // SAFETY: the loader's names end in zero.
    let path = unsafe { CStr::from_ptr(module.name) }.to_bytes();
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    name.is_empty() || QUIET.iter().any(|quiet| name.starts_with(quiet))
}

/// Called once, before there are children.
pub(crate) fn prepare() {
    // SAFETY: the loader exports this structure, the C library this pointer; streams are only compared.
    unsafe {
        let debug = libc::dlsym(libc::RTLD_DEFAULT, c"_r_debug".as_ptr()).cast::<Debug>();
        let streams = libc::dlsym(libc::RTLD_DEFAULT, c"_IO_list_all".as_ptr()).cast::<*mut libc::FILE>();
        if debug.is_null() || streams.is_null() || *streams != stderr || stdin.is_null() {
            return;
        }
        let first = (*debug).map as usize;
        if modules(first).all(is_quiet) {
            MODULES.store(first, Relaxed);
            COUNT.store(modules(first).count(), Relaxed);
            STREAMS.store(streams as usize, Relaxed);
            READY.store(true, Relaxed);
            // The first is the program.
            PLAIN.store(modules(first).next().is_some_and(|program| is_plain(program)), Relaxed);
        }
    }
}

/// Functions registered to run at exit since the program was parked.
static EXIT_HANDLERS: AtomicUsize = AtomicUsize::new(0);
/// Does the program itself have no destructors?
static PLAIN: AtomicBool = AtomicBool::new(false);

/// Counts functions to call at exit: C++ destructors, and those registered with `atexit`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn __cxa_atexit(
    function: *const c_void,
    argument: *mut c_void,
    object: *const c_void,
) -> c_int {
    static REAL: Real = Real::new("__cxa_atexit\0", None);
    EXIT_HANDLERS.fetch_add(1, Relaxed);
    // SAFETY: that is its type; the arguments are the caller's.
    unsafe {
        let real: unsafe extern "C" fn(*const c_void, *mut c_void, *const c_void) -> c_int =
            std::mem::transmute(REAL.get());
        real(function, argument, object)
    }
}

/// The same for the older function.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn on_exit(function: *const c_void, argument: *mut c_void) -> c_int {
    static REAL: Real = Real::new("on_exit\0", None);
    EXIT_HANDLERS.fetch_add(1, Relaxed);
    // SAFETY: as above.
    unsafe {
        let real: unsafe extern "C" fn(*const c_void, *mut c_void) -> c_int = std::mem::transmute(REAL.get());
        real(function, argument)
    }
}

/// Will no function of the program run after `main`?
pub(crate) fn has_no_exit_handlers() -> bool {
    PLAIN.load(Relaxed) && EXIT_HANDLERS.load(Relaxed) == 0
}

/// Does a module end with nothing but the compiler's own function, and an empty `_fini`?
///
/// # Safety
///
/// An entry of the loader's list.
unsafe fn is_plain(module: &Module) -> bool {
    const END: i64 = 0;
    const FINI: i64 = 13;
    const FINI_ARRAY_BYTES: i64 = 28;
    /// `endbr64; sub $8, %rsp; add $8, %rsp; ret`, the first of which old compilers leave out.
    const EMPTY: [u8; 13] = [0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83, 0xec, 8, 0x48, 0x83, 0xc4, 8, 0xc3];
    let mut entry = module.dynamic.cast::<[i64; 2]>();
    // SAFETY: the dynamic section ends with an entry of its own, and functions are as long as they are.
    unsafe {
        while !entry.is_null() && (*entry)[0] != END {
            let [tag, value] = *entry;
            let plain = match tag {
                FINI_ARRAY_BYTES => value <= 8,
                FINI => {
                    let code = module.address.wrapping_add(value as usize) as *const u8;
                    std::slice::from_raw_parts(code, 9) == &EMPTY[4..]
                        || std::slice::from_raw_parts(code, EMPTY.len()) == EMPTY
                }
                _ => true,
            };
            if !plain {
                return false;
            }
            entry = entry.add(1);
        }
        !entry.is_null()
    }
}

/// The program's `main` returned this, or it called `exit`.
pub(crate) fn ends_with(status: c_int) {
    STATUS.store(status & 0xff, Relaxed);
}

/// Is nothing left to run, and nothing left to write?
pub(crate) fn is_possible() -> bool {
    if !READY.load(Relaxed) || STATUS.load(Relaxed) == UNKNOWN {
        return false;
    }
    // SAFETY: the C library's own pointers and streams.
    let nothing_written = unsafe {
        let first = STREAMS.load(Relaxed) as *const *mut libc::FILE;
        *first == stderr && __fpending(stdout) == 0 && __fpending(stderr) == 0
    };
    nothing_written && modules(MODULES.load(Relaxed)).count() == COUNT.load(Relaxed)
}

/// Ends the process.
pub(crate) fn end() -> ! {
    loop {
        // SAFETY: the call does not come back.
        unsafe { raw_syscall(libc::SYS_exit_group, [STATUS.load(Relaxed) as usize, 0, 0, 0, 0, 0]) };
    }
}
