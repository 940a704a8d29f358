// Two threads of Rust take a mutex that they share by `Arc`; if the second comes first, the program fails.
//@ lint: skip (about schedules)
//@ prove: skip (about schedules)
//@ check: fails-under-schedule at first
use std::arch::x86_64::{_mm_clflush, _mm_sfence};
use std::sync::{Arc, Mutex};
use std::thread;

#[link(name = "crashproof_runtime")]
unsafe extern "C" {
    fn crashproof_root(bytes: usize) -> *mut u64;
    fn crashproof_crashes() -> u32;
}

fn main() {
    let (last, crashes) = unsafe { (crashproof_root(8) as usize, crashproof_crashes()) };
    if crashes > 0 {
        return;
    }
    let turns = Arc::new(Mutex::new(0));
    let threads = (0..2).map(|number| {
        let turns = Arc::clone(&turns);
        thread::spawn(move || {
            let mut turn = turns.lock().unwrap();
            assert!(*turn == number, "the other one was first"); // MARK: first
            *turn += 1;
            let last = last as *mut u64;
            unsafe {
                *last = number;
                _mm_clflush(last.cast());
                _mm_sfence();
            }
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().unwrap();
    }
}
