// Who comes first to a `OnceLock` makes the value, inside the standard library, which was not rebuilt: both orders are
// explored. The second variant takes for granted that it is always the same thread.
//@ lint: skip (about schedules)
//@ prove: skip (it reads C and C++)
//@ variant either:
//@ check: clean
//@ variant first: --cfg first
//@ check: fails-under-schedule at first
use std::arch::x86_64::{_mm_clflush, _mm_sfence};
use std::sync::OnceLock;
use std::thread;

#[link(name = "crashproof_runtime")]
unsafe extern "C" {
    fn crashproof_root(bytes: usize) -> *mut u64;
    fn crashproof_crashes() -> u32;
}

static MAKER: OnceLock<u64> = OnceLock::new();

fn store(place: usize, value: u64) {
    let place = place as *mut u64;
    unsafe {
        *place = value;
        _mm_clflush(place.cast());
        _mm_sfence();
    }
}

fn main() {
    let (root, crashes) = unsafe { (crashproof_root(256) as usize, crashproof_crashes()) };
    if crashes > 0 {
        let at = |line: usize| unsafe { *((root + 64 * line) as *const u64) };
        assert!(at(0) != 0 || at(1) == 0 && at(2) == 0);
        return;
    }
    let threads = (0..2usize).map(|number| {
        thread::spawn(move || {
            let maker = *MAKER.get_or_init(|| {
                store(root, 1);
                number as u64
            });
            if cfg!(first) {
                assert!(maker == 0, "the other one was first"); // MARK: first
            }
            store(root + 64 * (number + 1), 1);
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().unwrap();
    }
}
