// Threads meet at a barrier of Rust's standard library, whose locks were not rebuilt: whoever leads commits what all have
// made durable, whichever it is.
//@ lint: skip (about schedules)
//@ prove: skip (it reads C and C++)
//@ variant right:
//@ check: clean
//@ variant early: --cfg early
//@ check: recovery-fails
use std::arch::x86_64::{_mm_clflush, _mm_sfence};
use std::sync::{Arc, Barrier};
use std::thread;

#[link(name = "crashproof_runtime")]
unsafe extern "C" {
    fn crashproof_root(bytes: usize) -> *mut u64;
    fn crashproof_crashes() -> u32;
}

fn store(place: usize, value: u64) {
    unsafe { *(place as *mut u64) = value };
}

fn persist(place: usize) {
    unsafe {
        _mm_clflush(place as *const u8);
        _mm_sfence();
    }
}

fn main() {
    let (root, crashes) = unsafe { (crashproof_root(192) as usize, crashproof_crashes()) };
    if crashes > 0 {
        let at = |line: usize| unsafe { *((root + 64 * line) as *const u64) };
        assert!(at(2) == 0 || at(0) == 1 && at(1) == 1);
        return;
    }
    let barrier = Arc::new(Barrier::new(2));
    let threads = (0..2usize).map(|number| {
        let barrier = Arc::clone(&barrier);
        thread::spawn(move || {
            store(root + 64 * number, 1);
            if !cfg!(early) || number == 0 {
                persist(root + 64 * number);
            }
            if barrier.wait().is_leader() {
                store(root + 128, 1);
                persist(root + 128);
            }
            if cfg!(early) && number == 1 {
                persist(root + 64 * number);
            }
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().unwrap();
    }
}
