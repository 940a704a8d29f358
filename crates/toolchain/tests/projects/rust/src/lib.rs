//! PM operations as Rust code writes them.

use std::arch::asm;
use std::arch::x86_64::{__m128i, _mm_clflush, _mm_clmulepi64_si128, _mm_mfence, _mm_sfence, _mm_stream_si64};
use std::sync::atomic::{AtomicU64, Ordering};

extern "C" {
    fn test_pm() -> *mut u8;
}

#[repr(C)]
pub struct Record {
    pub value: u64,
    pub count: AtomicU64,
    pub bytes: [u8; 32],
}

pub fn record() -> &'static mut Record {
    unsafe { &mut *test_pm().cast::<Record>() }
}

#[inline(never)]
pub fn intrinsics(r: &mut Record) {
    r.value = 5;
    unsafe {
        _mm_clflush((r as *const Record).cast());
        _mm_sfence();
        _mm_stream_si64((&raw mut r.value).cast(), 6);
        _mm_mfence();
    }
    r.count.fetch_add(1, Ordering::SeqCst);
    r.bytes = [7; 32];
}

/// Does what not all processors can, and says nothing of it: its callers have looked.
///
/// # Safety
///
/// The processor must have `pclmulqdq`.
#[inline(never)]
pub unsafe fn carryless(a: __m128i, b: __m128i) -> __m128i {
    unsafe { _mm_clmulepi64_si128::<0>(a, b) }
}

#[inline(never)]
pub fn assembly(r: &mut Record) -> u64 {
    let at: *mut u64 = &raw mut r.value;
    let mut old: u64 = 1;
    unsafe {
        asm!("clwb [{0}]", in(reg) at);
        asm!("lock xadd qword ptr [{0}], {1}", in(reg) at, inout(reg) old);
        asm!("movnti [{0} + 8], {1}", in(reg) at, in(reg) 9u64);
        asm!("sfence", options(nostack));
        asm!("mov ({0}), {1}", in(reg) at, out(reg) old, options(att_syntax));
    }
    old
}

/// ```
/// assert_eq!(small::double(2), 4);
/// ```
pub fn double(x: u64) -> u64 {
    x * 2
}
