use std::sync::atomic::{AtomicU64, Ordering};
use std::arch::x86_64::{_mm_clflush, _mm_sfence};

unsafe extern "C" {
    fn crashproof_root(bytes: usize) -> *mut Log;
    fn crashproof_crashes() -> u32;
}

#[repr(C, align(64))]
struct Entry { key: u64, value: u64, pad: [u64; 6], name: [u8; 64] }

#[repr(C, align(64))]
struct Log { len: AtomicU64, entries: [Entry; 4] }

fn persist<T>(p: &T) {
    let start = p as *const T as usize;
    let mut at = start & !63;
    while at < start + size_of::<T>() { unsafe { _mm_clflush(at as *const u8) }; at += 64; }
    unsafe { _mm_sfence() };
}

fn append(log: &mut Log, key: u64, value: u64) {
    let n = log.len.load(Ordering::Relaxed) as usize;
    let e = &mut log.entries[n];
    e.key = key;
    e.value = value;
    e.name[..8].copy_from_slice(&key.to_le_bytes());
    persist(&e.key);
    log.len.store(n as u64 + 1, Ordering::Release);
    persist(&log.len);
}

fn main() {
    let log = unsafe { &mut *crashproof_root(size_of::<Log>()) };
    if unsafe { crashproof_crashes() } > 0 {
        let n = log.len.load(Ordering::Acquire);
        for i in 0..n as usize {
            assert_eq!(log.entries[i].value, 7 + i as u64);
            assert_eq!(log.entries[i].name[0], 1 + i as u8);
        }
        return;
    }
    for i in 0..3 { append(log, 1 + i, 7 + i); }
}
