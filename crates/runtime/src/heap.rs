//! The heap: persistent memory with `--pm-heap`, as if libvmmalloc were used; else the C library's.
//!
//! What instrumented code allocates comes from the pool. What uninstrumented libraries allocate stays
//! volatile, since nobody sees what they store there; that includes memory that members of `std::string` and
//! the like get for themselves inside libstdc++.
//!
//! The allocator keeps nothing in PM: the pool is divided among size classes, so that an address tells its
//! size, and all that is known of a class after a crash is how far it has been handed out. What was free
//! before the crash is lost, but never handed out twice.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use crashproof_protocol::{HEAP, HEAP_CLASSES, flag, record};

use crate::real::Slot;
use crate::{access, callers, libc_memory, session};

unsafe extern "C" {
    fn __libc_malloc(bytes: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, bytes: usize) -> *mut c_void;
    fn __libc_realloc(old: *mut c_void, bytes: usize) -> *mut c_void;
    fn __libc_memalign(align: usize, bytes: usize) -> *mut c_void;
    fn __libc_free(old: *mut c_void);
}

/// What the runtime itself allocates never is PM.
struct Volatile;

#[global_allocator]
static OWN: Volatile = Volatile;

unsafe impl GlobalAlloc for Volatile {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= 16 {
            __libc_malloc(layout.size()).cast()
        } else {
            __libc_memalign(layout.align(), layout.size()).cast()
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= 16 {
            return __libc_calloc(1, layout.size()).cast();
        }
        let fresh = self.alloc(layout);
        if !fresh.is_null() {
            fresh.write_bytes(0, layout.size());
        }
        fresh
    }

    unsafe fn dealloc(&self, old: *mut u8, _layout: Layout) {
        __libc_free(old.cast());
    }
}

/// How much of the pool each class has.
const CLASS_BYTES: u64 = HEAP.bytes / HEAP_CLASSES as u64;

/// The sizes: sixteens up to 128, four to each doubling up to 512 KiB, then doublings.
static SIZES: [u64; HEAP_CLASSES] = {
    let mut sizes = [0; HEAP_CLASSES];
    let mut class = 0;
    while class < HEAP_CLASSES {
        sizes[class] = match class {
            0..8 => 16 * (class as u64 + 1),
            8..56 => (32 << ((class - 8) / 4)) * (5 + (class as u64 - 8) % 4),
            _ => 1 << (20 + class - 56),
        };
        class += 1;
    }
    sizes
};

/// Whether the heap is PM in this process.
static mut IS_PM: bool = false;
/// What was given back, by class.
static mut FREE: [Vec<u64>; HEAP_CLASSES] = [const { Vec::new() }; HEAP_CLASSES];

/// Called when a child begins.
pub(crate) unsafe fn start() {
    IS_PM = (*session::CONTROL).flags & flag::PM_HEAP != 0;
}

fn is_ours(block: *const c_void) -> bool {
    HEAP.contains(block as u64)
}

fn class_of(block: *const c_void) -> usize {
    ((block as u64 - HEAP.base) / CLASS_BYTES) as usize
}

/// How large a block is.
fn block_bytes(block: *const c_void) -> u64 {
    SIZES[class_of(block)]
}

/// A block and whether it was never handed out before, and so is zero.
unsafe fn take(bytes: usize, align: usize) -> Option<(*mut c_void, bool)> {
    // Blocks of a power of two are aligned to their size.
    let wanted = if align > 16 { bytes.max(align).next_power_of_two() } else { bytes.max(1) };
    let class = SIZES.iter().position(|size| *size >= wanted as u64)?;
    if let Some(block) = FREE[class].pop() {
        return Some((block as *mut c_void, false));
    }
    let base = HEAP.base + class as u64 * CLASS_BYTES;
    let end = &mut (*session::CONTROL).heap_ends[class];
    let block = (*end).max(base);
    let next = block + SIZES[class];
    if next > base + CLASS_BYTES {
        return None;
    }
    *end = next;
    access::note(record::HEAP, class as u64, next, std::ptr::null());
    Some((block as *mut c_void, true))
}

unsafe fn out_of_memory() -> *mut c_void {
    *libc::__errno_location() = libc::ENOMEM;
    null_mut()
}

/// Does the call that returns there get PM?
unsafe fn wants_pm(caller: usize) -> bool {
    IS_PM && access::recording() && callers::is_instrumented(caller)
}

unsafe fn allocate(bytes: usize, align: usize) -> *mut c_void {
    take(bytes, align).map_or_else(|| out_of_memory(), |(block, _)| block)
}

unsafe extern "C" fn malloc_from(bytes: usize, caller: usize) -> *mut c_void {
    if wants_pm(caller) { allocate(bytes, 16) } else { __libc_malloc(bytes) }
}

unsafe extern "C" fn calloc_from(count: usize, bytes: usize, caller: usize) -> *mut c_void {
    if !wants_pm(caller) {
        return __libc_calloc(count, bytes);
    }
    let Some(bytes) = count.checked_mul(bytes) else { return out_of_memory() };
    let Some((block, fresh)) = take(bytes, 16) else { return out_of_memory() };
    if !fresh {
        libc_memory::fill(block, 0, bytes, callers::site(caller));
    }
    block
}

unsafe extern "C" fn realloc_from(old: *mut c_void, bytes: usize, caller: usize) -> *mut c_void {
    if !is_ours(old) {
        return if old.is_null() { malloc_from(bytes, caller) } else { __libc_realloc(old, bytes) };
    }
    let size = block_bytes(old);
    if bytes as u64 <= size && bytes as u64 > size / 2 {
        return old;
    }
    let fresh = allocate(bytes, 16);
    if !fresh.is_null() {
        libc_memory::copy(fresh, old, bytes.min(size as usize), callers::site(caller));
        free(old);
    }
    fresh
}

unsafe extern "C" fn memalign_from(align: usize, bytes: usize, caller: usize) -> *mut c_void {
    if wants_pm(caller) { allocate(bytes, align) } else { __libc_memalign(align, bytes) }
}

unsafe extern "C" fn posix_memalign_from(
    to: *mut *mut c_void,
    align: usize,
    bytes: usize,
    caller: usize,
) -> c_int {
    if !align.is_power_of_two() || align < size_of::<usize>() {
        return libc::EINVAL;
    }
    let fresh = memalign_from(align, bytes, caller);
    if fresh.is_null() {
        return libc::ENOMEM;
    }
    libc_memory::write(to, &raw const fresh, size_of::<usize>(), callers::site(caller));
    0
}

unsafe extern "C" fn reallocarray_from(
    old: *mut c_void,
    count: usize,
    bytes: usize,
    caller: usize,
) -> *mut c_void {
    match count.checked_mul(bytes) {
        Some(bytes) => realloc_from(old, bytes, caller),
        None => out_of_memory(),
    }
}

/// Functions that pass the return address on to what does their work.
macro_rules! pass_caller {
    ($($name:ident($($ty:ty),*) -> $ret:ty, caller($caller:ident) => $body:ident;)*) => { $(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name($(_: $ty),*) -> $ret {
            std::arch::naked_asm!(crate::real::enter!($caller), body = sym $body)
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
}

#[unsafe(no_mangle)]
unsafe extern "C" fn valloc(bytes: usize) -> *mut c_void {
    __libc_memalign(4096, bytes)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pvalloc(bytes: usize) -> *mut c_void {
    __libc_memalign(4096, bytes.next_multiple_of(4096))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn free(old: *mut c_void) {
    if is_ours(old) {
        // In a child that is not followed the block just stays.
        if access::recording() {
            FREE[class_of(old)].push(old as u64);
        }
    } else {
        __libc_free(old);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    static REAL: Slot = Slot::new("malloc_usable_size\0");
    if is_ours(block) {
        return block_bytes(block) as usize;
    }
    let real: unsafe extern "C" fn(*mut c_void) -> usize = std::mem::transmute(REAL.get());
    real(block)
}

/// C++'s `operator new` and `new[]`. They are libstdc++'s business except in a PM heap; out of memory there,
/// libstdc++ throws.
macro_rules! operator_new {
    ($($name:ident($bytes:ident $(, $align:ident)? $(; $nothrow:ident)?), caller($caller:ident);)*) => { $(
        const _: () = {
            unsafe extern "C-unwind" fn body(
                $bytes: usize, $($align: usize,)? $($nothrow: *const c_void,)? caller: usize
            ) -> *mut c_void {
                static REAL: Slot = Slot::new(concat!(stringify!($name), "\0"));
                if wants_pm(caller) {
                    let align = 16 $(.max($align))?;
                    if let Some((block, _)) = take($bytes, align) {
                        return block;
                    }
                }
                let real: unsafe extern "C-unwind" fn(usize $(, operator_new!(@usize $align))? $(, operator_new!(@pointer $nothrow))?) -> *mut c_void =
                    std::mem::transmute(REAL.get());
                real($bytes $(, $align)? $(, $nothrow)?)
            }

            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            unsafe extern "C" fn $name() -> *mut c_void {
                std::arch::naked_asm!(crate::real::enter!($caller), body = sym body)
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
