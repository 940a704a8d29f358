//! The runtime's own allocator: its memory is never PM, and under the checker not part of the program's heap either.
//!
//! The runtime's allocations depend on the schedule of a run. In the program's heap they would shift the program's own
//! blocks: a mutex would have different addresses in different schedules, and the exploration, which identifies objects
//! by address, would mistake one object for two. So they come from a region that is mapped before the program starts.
//! Without the checker, and once the region is full, they come from the C library.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};

use crate::settled;

unsafe extern "C" {
    fn __libc_malloc(bytes: usize) -> *mut c_void;
    fn __libc_memalign(align: usize, bytes: usize) -> *mut c_void;
    fn __libc_free(old: *mut c_void);
}

/// Size of the region: below the limit at which the search for repeated states gives up.
pub(crate) const REGION_BYTES: usize = 64 << 20;
/// Block sizes up to this are multiples of 16 bytes, larger ones powers of two.
const SMALL: usize = 1024;
const STEP: usize = 16;
/// Larger alignments are left to the C library.
const PAGE: usize = 4096;
const CLASSES: usize = SMALL / STEP + 16;

/// State of the allocator.
struct OwnMemory {
    /// Address of the region; 0 until there is one.
    start: AtomicUsize,
    /// A try-lock, held only briefly and never waited for: a signal handler may have interrupted its holder.
    taken: AtomicBool,
    free: UnsafeCell<Free>,
}

/// Memory that is not in use.
struct Free {
    /// End of the part handed out so far.
    end: usize,
    /// The first free block of each size class; each block's first word points to the next.
    lists: [usize; CLASSES],
}

// SAFETY: `free` is accessed only by the thread that has set `taken`.
unsafe impl Sync for OwnMemory {}

#[cfg_attr(not(test), global_allocator)]
static OWN: OwnMemory = OwnMemory::new();

/// Allocates from this region from now on; it stays mapped and is zero.
pub(crate) fn use_region(start: *mut u8) {
    OWN.start.store(start as usize, Relaxed);
}

/// What was allocated so far is there to stay: children are not to inherit it page by page. What was freed of it is not
/// handed out again, so that what children allocate lies together.
pub(crate) fn settle() {
    OWN.settle();
}

/// A block of the program's own heap, zero, for what the program sees: its address is the same whatever the runtime keeps.
pub(crate) fn for_program(bytes: usize) -> *mut u8 {
    // SAFETY: any size is allowed; the memory filled was just allocated.
    unsafe {
        let block: *mut u8 = __libc_malloc(bytes).cast();
        if !block.is_null() {
            block.write_bytes(0, bytes);
        }
        block
    }
}

/// The size class for a layout, and the size of its blocks.
fn class(layout: Layout) -> Option<(usize, usize)> {
    let bytes = layout.size().max(STEP);
    if bytes <= SMALL && layout.align() <= STEP {
        let bytes = bytes.next_multiple_of(STEP);
        return Some((bytes / STEP - 1, bytes));
    }
    let bytes = bytes.max(layout.align()).max(2 * SMALL).next_power_of_two();
    let class = SMALL / STEP + (bytes / SMALL).ilog2() as usize - 1;
    (layout.align() <= PAGE && class < CLASSES).then_some((class, bytes))
}

impl OwnMemory {
    const fn new() -> OwnMemory {
        let free = Free { end: 0, lists: [0; CLASSES] };
        OwnMemory { start: AtomicUsize::new(0), taken: AtomicBool::new(false), free: UnsafeCell::new(free) }
    }

    fn holds(&self, block: *const u8) -> bool {
        let start = self.start.load(Relaxed);
        start != 0 && (start..start + REGION_BYTES).contains(&(block as usize))
    }

    /// Gives access to the free memory, unless the lock is taken.
    fn with<R>(&self, access: impl FnOnce(&mut Free) -> R) -> Option<R> {
        if self.taken.swap(true, Acquire) {
            return None;
        }
        // SAFETY: `taken` excludes all other access.
        let result = access(unsafe { &mut *self.free.get() });
        self.taken.store(false, Release);
        Some(result)
    }

    fn settle(&self) {
        let start = self.start.load(Relaxed);
        if start == 0 {
            return;
        }
        self.with(|free| {
            let end = free.end.next_multiple_of(PAGE).min(REGION_BYTES);
            // SAFETY: pages of the region; nobody else has it.
            unsafe { settled::settle(start, end) };
            *free = Free { end, lists: [0; CLASSES] };
        });
    }

    fn take(&self, layout: Layout) -> Option<*mut u8> {
        let start = self.start.load(Relaxed);
        let (class, bytes) = class(layout).filter(|_| start != 0)?;
        self.with(|free| {
            let first = free.lists[class];
            if first != 0 {
                // SAFETY: a free block of the region, large enough for the word.
                free.lists[class] = unsafe { *(first as *const usize) };
                return Some(first as *mut u8);
            }
            let at = (start + free.end).next_multiple_of(bytes.min(PAGE).next_power_of_two().max(STEP));
            // Small sizes are not powers of two, so they are aligned only to sixteen bytes.
            let at = if bytes <= SMALL { start + free.end.next_multiple_of(STEP) } else { at };
            let end = at - start + bytes;
            (end <= REGION_BYTES).then(|| {
                free.end = end;
                at as *mut u8
            })
        })
        .flatten()
    }
}

// SAFETY: blocks of the region are handed out once, with the requested size and alignment; all others are the C
// library's.
unsafe impl GlobalAlloc for OwnMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any size is allowed.
        self.take(layout).unwrap_or_else(|| unsafe {
            match layout.align() <= STEP {
                true => __libc_malloc(layout.size()).cast(),
                false => __libc_memalign(layout.align(), layout.size()).cast(),
            }
        })
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        if !self.holds(old) {
            // SAFETY: it came from the C library.
            return unsafe { __libc_free(old.cast()) };
        }
        let Some((class, _)) = class(layout) else { return };
        // If the free lists are locked, because a signal handler interrupted an allocation, the block leaks.
        let _ = self.with(|free| {
            // SAFETY: the block is free now, and large enough for the word.
            unsafe { *old.cast::<usize>() = free.lists[class] };
            free.lists[class] = old as usize;
        });
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let Ok(wanted) = Layout::from_size_align(bytes, layout.align()) else { return null_mut() };
        // It still fits in place.
        if self.holds(old) && class(layout).is_some() && class(layout) == class(wanted) {
            return old;
        }
        // SAFETY: guaranteed by the caller; the new block is distinct.
        unsafe {
            let fresh = self.alloc(wanted);
            if !fresh.is_null() {
                fresh.copy_from_nonoverlapping(old, layout.size().min(bytes));
                self.dealloc(old, layout);
            }
            fresh
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> OwnMemory {
        let own = OwnMemory::new();
        let region = Layout::from_size_align(REGION_BYTES, PAGE).expect("a layout");
        // SAFETY: the size is not zero.
        own.start.store(unsafe { std::alloc::alloc(region) } as usize, Relaxed);
        own
    }

    fn layout(bytes: usize, align: usize) -> Layout {
        Layout::from_size_align(bytes, align).expect("a layout")
    }

    #[test]
    fn blocks_do_not_overlap_and_come_back() {
        let own = own();
        let mut blocks: Vec<(usize, Layout)> = Vec::new();
        for (index, align) in (0..2000).zip([1, 8, 16, 64, 256, 4096].into_iter().cycle()) {
            let layout = layout(1 + index * 7 % 3000, align);
            // SAFETY: the size is not zero.
            let block = unsafe { own.alloc(layout) };
            assert!(own.holds(block) && (block as usize).is_multiple_of(align));
            blocks.push((block as usize, layout));
        }
        blocks.sort_unstable_by_key(|it| it.0);
        assert!(blocks.windows(2).all(|two| two[0].0 + two[0].1.size() <= two[1].0));
        let (block, layout) = blocks[7];
        // SAFETY: it was allocated with this layout, and is no longer used.
        let again = unsafe {
            own.dealloc(block as *mut u8, layout);
            own.alloc(layout)
        };
        assert_eq!(again as usize, block);
    }

    #[test]
    fn what_does_not_fit_is_the_c_librarys() {
        let own = own();
        // Not a large alignment: AddressSanitizer allocates that itself, and the C library's `free` does not know such
        // blocks.
        let large = layout(REGION_BYTES + 1, 16);
        // SAFETY: the size is not zero, and the block is freed with its own layout.
        unsafe {
            let block = own.alloc(large);
            assert!(!block.is_null() && !own.holds(block));
            own.dealloc(block, large);
        }
        // Simulates a holder of the lock.
        own.taken.store(true, Relaxed);
        // SAFETY: as above.
        unsafe {
            let block = own.alloc(layout(64, 8));
            assert!(!own.holds(block));
            own.dealloc(block, layout(64, 8));
        }
    }

    #[test]
    fn blocks_grow() {
        let own = own();
        // SAFETY: the size is not zero, and the access is within the block.
        unsafe {
            let block = own.alloc(layout(20, 8));
            block.write_bytes(7, 20);
            assert_eq!(own.realloc(block, layout(20, 8), 30), block, "there is room");
            let larger = own.realloc(block, layout(30, 8), 5000);
            assert_eq!(std::slice::from_raw_parts(larger, 20), [7; 20]);
        }
    }
}
