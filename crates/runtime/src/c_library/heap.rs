//! The heap: persistent memory with `--pm-heap`, as with libvmmalloc; otherwise the C library's.
//!
//! Allocations by the program and its own libraries come from the pool (see `size_classes`), whether or not they were
//! rebuilt, and so do those that the C++ library makes for them with `new`, such as the text of a `std::string`. Fresh
//! memory holds a pattern, as in a pool that was used before, except that blocks so large that glibc would map them
//! individually are zero. Freed memory is overwritten with another pattern by ordinary stores. What the C library
//! allocates for itself stays volatile, and so do exceptions.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use crashproof_protocol::abi::Site;
use crashproof_protocol::{HEAP, fault, fill, flag, record};

use super::memory::{copy, fill, write};
use crate::cell::RunningThreadCell;
use crate::interpose::enter;
use crate::real::Real;
use crate::recorder::note;
use crate::session::{self, recording};
use crate::size_classes::{Block, FreeBlocks, MAPPED, Misuse, base, block_bytes};
use crate::system::{set_errno, write_error};
use crate::threads::happens_before;
use crate::threads::step_notes::exploring;
use crate::{access, callers};

unsafe extern "C" {
    fn __libc_malloc(bytes: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, bytes: usize) -> *mut c_void;
    fn __libc_realloc(old: *mut c_void, bytes: usize) -> *mut c_void;
    fn __libc_memalign(align: usize, bytes: usize) -> *mut c_void;
    fn __libc_free(old: *mut c_void);
}

static FREE: RunningThreadCell<FreeBlocks> = RunningThreadCell::new(FreeBlocks::new());

fn is_ours(block: *const c_void) -> bool {
    HEAP.contains(block as u64)
}

/// Takes a block from the persistent heap.
fn take(bytes: usize, align: usize) -> Option<Block> {
    let before = session::control(|control| control.heap_ends);
    let block = FREE.with(|free| {
        session::control(|control| free.take(bytes, align, control.layout, &mut control.heap_ends))
    })?;
    if let Some(class) = block.fresh {
        let end = session::control(|control| control.heap_ends[class]);
        fill_fresh(before[class].max(base(class)), end);
        note(record::HEAP, class as u64, end, std::ptr::null());
    } else {
        happens_before::reused(block.address);
    }
    Some(block)
}

/// The layout of the heap's size classes in this check.
fn layout() -> u32 {
    session::control(|control| control.layout)
}

/// The byte fresh memory is filled with, if not zero.
fn fresh_byte(bytes: u64) -> Option<u8> {
    session::control(|control| fill::fresh(control.fill)).filter(|_| bytes < MAPPED)
}

/// The end of a size class has moved: writes its initial content into the image, page by page. All runs write the same,
/// so it does not matter which comes first.
fn fill_fresh(from: u64, end: u64) {
    const PAGE: u64 = 4096;
    let Some(byte) = fresh_byte(end - from) else { return };
    let mut page = from.next_multiple_of(PAGE);
    while page < end {
        if !session::image_holds(page, PAGE) {
            session::set_durable(page, &[byte; PAGE as usize]);
        }
        page += PAGE;
    }
}

/// Aborts on a double free or a foreign pointer, as glibc does.
#[cold]
fn stop(misuse: Misuse, block: *const c_void, caller: usize) -> ! {
    let what = match misuse {
        Misuse::Twice => fault::DOUBLE_FREE,
        Misuse::NoBlock => fault::INVALID_FREE,
    };
    let site = callers::number(callers::site(caller) as usize).unwrap_or(0);
    write_error(&format!("{}{what} {:x} {site}\n", fault::LINE, block as u64));
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}

fn out_of_memory() -> *mut c_void {
    set_errno(libc::ENOMEM);
    null_mut()
}

/// Does the caller with this return address get PM?
fn wants_pm(caller: usize) -> bool {
    recording() && session::has_flag(flag::PM_HEAP) && callers::is_of_program(caller)
}

/// The same for `new`, which the C++ library uses for strings and containers of the program; the buffers of its streams
/// and what it keeps of locales are arrays.
fn wants_pm_from_new(caller: usize, function: &str) -> bool {
    let for_program = || function.starts_with("_Znw") && callers::is_of_cpp_library(caller);
    recording() && session::has_flag(flag::PM_HEAP) && (callers::is_of_program(caller) || for_program())
}

/// Is it an array of the C++ library's own? Its `new[]` would come back here as `new`.
fn is_array_of_cpp_library(caller: usize, function: &str) -> bool {
    recording()
        && session::has_flag(flag::PM_HEAP)
        && function.starts_with("_Zna")
        && callers::is_of_cpp_library(caller)
}

/// Must functions of the C library that allocate what they return use [`allocate_for`]?
pub(super) fn is_persistent() -> bool {
    session::has_flag(flag::PM_HEAP)
}

/// What `malloc` returns to the program at this call of a function of the C library.
pub(super) fn allocate_for(site: *const Site, bytes: usize) -> *mut c_void {
    let persistent = recording() && is_persistent() && callers::is_site_of_program(site);
    // SAFETY: any size is allowed.
    if persistent { allocate(bytes, 16) } else { unsafe { __libc_malloc(bytes) } }
}

fn allocate(bytes: usize, align: usize) -> *mut c_void {
    take(bytes, align).map_or_else(out_of_memory, |block| block.address as *mut c_void)
}

unsafe extern "C" fn malloc_from(bytes: usize, caller: usize) -> *mut c_void {
    // SAFETY: sizes are the program's to choose, and blocks are ones that it was given.
    unsafe { if wants_pm(caller) { allocate(bytes, 16) } else { __libc_malloc(bytes) } }
}

unsafe extern "C" fn calloc_from(count: usize, bytes: usize, caller: usize) -> *mut c_void {
    // SAFETY: sizes are the program's to choose, and blocks are ones that it was given.
    unsafe {
        if !wants_pm(caller) {
            return __libc_calloc(count, bytes);
        }
        let Some(bytes) = count.checked_mul(bytes) else { return out_of_memory() };
        let Some(block) = take(bytes, 16) else { return out_of_memory() };
        let address = block.address as *mut c_void;
        let size = block_bytes(block.address, layout());
        if block.fresh.is_none() || fresh_byte(size).is_some() {
            fill(address, 0, bytes, callers::site(caller));
        }
        address
    }
}

unsafe extern "C" fn realloc_from(old: *mut c_void, bytes: usize, caller: usize) -> *mut c_void {
    // SAFETY: sizes are the program's to choose, and blocks are ones that it was given.
    unsafe {
        if !is_ours(old) {
            return match old.is_null() {
                true => malloc_from(bytes, caller),
                false if keeps(old) => {
                    let fresh = __libc_malloc(bytes);
                    if !fresh.is_null() {
                        let held = malloc_usable_size(old).min(bytes);
                        std::ptr::copy_nonoverlapping(old.cast::<u8>(), fresh.cast(), held);
                    }
                    fresh
                }
                false => __libc_realloc(old, bytes),
            };
        }
        let size = block_bytes(old as u64, layout());
        if bytes as u64 <= size && bytes as u64 > size / 2 {
            return old;
        }
        let fresh = allocate(bytes, 16);
        if !fresh.is_null() {
            copy(fresh, old, bytes.min(size as usize), callers::site(caller));
            free_from(old, caller);
        }
        fresh
    }
}

unsafe extern "C" fn memalign_from(align: usize, bytes: usize, caller: usize) -> *mut c_void {
    // SAFETY: sizes are the program's to choose, and blocks are ones that it was given.
    unsafe { if wants_pm(caller) { allocate(bytes, align) } else { __libc_memalign(align, bytes) } }
}

unsafe extern "C" fn posix_memalign_from(
    to: *mut *mut c_void,
    align: usize,
    bytes: usize,
    caller: usize,
) -> c_int {
    // SAFETY: sizes are the program's to choose, and blocks are ones that it was given.
    unsafe {
        if !align.is_power_of_two() || align < size_of::<usize>() {
            return libc::EINVAL;
        }
        let fresh = memalign_from(align, bytes, caller);
        if fresh.is_null() {
            return libc::ENOMEM;
        }
        write(to, &raw const fresh, size_of::<usize>(), callers::site(caller));
        0
    }
}

unsafe extern "C" fn reallocarray_from(
    old: *mut c_void,
    count: usize,
    bytes: usize,
    caller: usize,
) -> *mut c_void {
    // SAFETY: sizes are the program's to choose, and blocks are ones that it was given.
    unsafe {
        match count.checked_mul(bytes) {
            Some(bytes) => realloc_from(old, bytes, caller),
            None => out_of_memory(),
        }
    }
}

/// A block that the C library has allocated and filled for the program, as the program would have got it from its heap.
pub(super) unsafe fn handed_over(block: *mut c_void, bytes: usize, site: *const Site) -> *mut c_void {
    if !recording() || !is_persistent() || !callers::is_site_of_program(site) {
        return block;
    }
    let fresh = allocate(bytes, 16);
    // SAFETY: the block holds that many bytes, and has no other owner.
    unsafe {
        if !fresh.is_null() {
            copy(fresh, block, bytes, site);
        }
        __libc_free(block);
    }
    fresh
}

/// Functions that pass their return address on to a shared implementation.
macro_rules! pass_caller {
    ($($name:ident($($ty:ty),*) -> $ret:ty, caller($caller:ident) => $body:ident;)*) => { $(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        unsafe extern "C" fn $name($(_: $ty),*) -> $ret {
            std::arch::naked_asm!(enter!($caller), body = sym $body)
        }
    )* };
}

pass_caller! {
    malloc(usize) -> *mut c_void, caller(rsi) => malloc_from;
    calloc(usize, usize) -> *mut c_void, caller(rdx) => calloc_from;
    realloc(*mut c_void, usize) -> *mut c_void, caller(rdx) => realloc_from;
    reallocarray(*mut c_void, usize, usize) -> *mut c_void, caller(rcx) => reallocarray_from;
    memalign(usize, usize) -> *mut c_void, caller(rdx) => memalign_from;
    aligned_alloc(usize, usize) -> *mut c_void, caller(rdx) => memalign_from;
    posix_memalign(*mut *mut c_void, usize, usize) -> c_int, caller(rcx) => posix_memalign_from;
    free(*mut c_void) -> (), caller(rsi) => free_from;
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn valloc(bytes: usize) -> *mut c_void {
    // SAFETY: sizes are the program's to choose, and blocks are ones that it was given.
    unsafe { __libc_memalign(4096, bytes) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn pvalloc(bytes: usize) -> *mut c_void {
    // SAFETY: sizes are the program's to choose, and blocks are ones that it was given.
    unsafe { __libc_memalign(4096, bytes.next_multiple_of(4096)) }
}

/// Must a freed volatile block be kept, rather than reused? While schedules are explored it must: another thread that
/// got the same address would seem to depend on this one, but only in one order of the two, and the other order would
/// wrongly count as explored.
unsafe fn keeps(block: *mut c_void) -> bool {
    /// Beyond this many bytes, blocks are reused anyway.
    const MOST: usize = 256 << 20;
    static KEPT: AtomicUsize = AtomicUsize::new(0);
    // The size glibc keeps in front of a block. `malloc_usable_size` will not do: looking that function up frees
    // memory.
    // SAFETY: the program vouches that it is a block.
    let bytes = || unsafe { block.cast::<usize>().sub(1).read() } & !7;
    exploring() && KEPT.fetch_add(bytes(), Relaxed) < MOST
}

unsafe extern "C" fn free_from(old: *mut c_void, caller: usize) {
    // SAFETY: sizes are the program's to choose, and blocks are ones that it was given.
    unsafe {
        if !is_ours(old) {
            if old.is_null() || !keeps(old) {
                __libc_free(old);
            }
            return;
        }
        // A child that is not followed simply leaks the block.
        if !recording() {
            return;
        }
        let address = old as u64;
        // As under the allocator's lock: the block must not be reallocated while this thread still stores to it.
        access::begin_exchange();
        let given_back = FREE.with(|free| {
            session::control(|control| free.give_back(address, control.layout, &control.heap_ends))
        });
        if let Err(misuse) = given_back {
            stop(misuse, old, caller);
        }
        let size = block_bytes(address, layout());
        let byte = session::control(|control| fill::freed(control.fill)).filter(|_| size < MAPPED);
        if let Some(byte) = byte {
            fill(old, byte.into(), size as usize, callers::site(caller));
        }
        happens_before::freed(address);
        access::end_exchange(false);
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    // SAFETY: sizes are the program's to choose, and blocks are ones that it was given.
    unsafe {
        static REAL: Real = Real::new("malloc_usable_size\0", None);
        if is_ours(block) {
            return block_bytes(block as u64, layout()) as usize;
        }
        let real: unsafe extern "C" fn(*mut c_void) -> usize = std::mem::transmute(REAL.get());
        real(block)
    }
}

/// C++'s `operator new` and `new[]`. libstdc++ handles them, except in a PM heap; when that is full, libstdc++ throws.
macro_rules! operator_new {
    ($($name:ident($bytes:ident $(, $align:ident)? $(; $nothrow:ident)?), caller($caller:ident);)*) => { $(
        const _: () = {
            unsafe extern "C-unwind" fn body(
                $bytes: usize, $($align: usize,)? $($nothrow: *const c_void,)? caller: usize
            ) -> *mut c_void {
                static REAL: Real = Real::new(concat!(stringify!($name), "\0"), None);
                if wants_pm_from_new(caller, stringify!($name)) {
                    let align = 16 $(.max($align))?;
                    if let Some(block) = take($bytes, align) {
                        return block.address as *mut c_void;
                    }
                }
                // SAFETY: any size is allowed; libstdc++ defines this symbol with this type.
                unsafe {
                    if is_array_of_cpp_library(caller, stringify!($name)) {
                        let block = __libc_memalign(16 $(.max($align))?, $bytes);
                        if !block.is_null() {
                            return block;
                        }
                    }
                    let real: unsafe extern "C-unwind" fn(
                        usize $(, operator_new!(@usize $align))? $(, operator_new!(@pointer $nothrow))?
                    ) -> *mut c_void = std::mem::transmute(REAL.get());
                    real($bytes $(, $align)? $(, $nothrow)?)
                }
            }

            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[unsafe(naked)]
            unsafe extern "C" fn $name() -> *mut c_void {
                std::arch::naked_asm!(enter!($caller), body = sym body)
            }
        };
    )* };
    (@usize $_:ident) => { usize };
    (@pointer $_:ident) => { *const c_void };
}

operator_new! {
    _Znwm(bytes), caller(rsi);
    _Znam(bytes), caller(rsi);
    _ZnwmRKSt9nothrow_t(bytes; nothrow), caller(rdx);
    _ZnamRKSt9nothrow_t(bytes; nothrow), caller(rdx);
    _ZnwmSt11align_val_t(bytes, align), caller(rdx);
    _ZnamSt11align_val_t(bytes, align), caller(rdx);
    _ZnwmSt11align_val_tRKSt9nothrow_t(bytes, align; nothrow), caller(rcx);
    _ZnamSt11align_val_tRKSt9nothrow_t(bytes, align; nothrow), caller(rcx);
}
