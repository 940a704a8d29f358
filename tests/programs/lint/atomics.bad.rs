// Places inside Rust's library are told as the call.
//@ check: skip (a fragment: it has no main)
//@ lint: publish-before-persist at key
//@ lint: publish-before-persist at next
//@ lint: unflushed-write at unflushed-write
//@ prove: skip (a fragment: it has no main)
use std::arch::x86_64::{_mm_clflush, _mm_sfence};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

#[repr(C, align(64))]
pub struct Node {
    key: u64,
    next: AtomicPtr<Node>,
}

#[unsafe(link_section = "crashproof_pm")]
static HEAD: AtomicPtr<Node> = AtomicPtr::new(std::ptr::null_mut());
#[unsafe(link_section = "crashproof_pm")]
static COUNT: AtomicU64 = AtomicU64::new(0);

fn persist<T>(at: *const T) {
    let (mut line, end) = (at as usize & !63, at as usize + size_of::<T>());
    while line < end {
        unsafe { _mm_clflush(line as *const u8) };
        line += 64;
    }
    unsafe { _mm_sfence() };
}

#[unsafe(no_mangle)]
pub fn push(node: &mut Node, key: u64) {
    node.key = key; // MARK: key
    node.next.store(HEAD.load(Ordering::Acquire), Ordering::Relaxed); // MARK: next
    HEAD.store(node, Ordering::Release);
    persist(node);
    persist(&HEAD);
}

#[unsafe(no_mangle)]
pub fn count() {
    COUNT.fetch_add(1, Ordering::SeqCst); // MARK: unflushed-write
}
