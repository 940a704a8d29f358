// Threads of Rust's standard library, which wait on futexes: a producer and a consumer, and all that goes
// with them.
//@ prove: skip (it reads C and C++)
//@ variant fixed: --cfg fixed
//@ flags check: --schedules 8
//@ check: clean
//@ lint: unknown (PM passed to the unknown function `<std::sys::thread::unix::Thread>::new`: add its source, or describe it with --api)
//@ variant plain:
//@ flags check: --schedules 8
//@ check: recovery-fails at recovery-fails
//@ lint: unflushed-write at recovery-fails (known wrong: memory handed to a thread is not followed)

use std::arch::asm;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, Once, RwLock, mpsc};
use std::thread;
use std::time::Duration;

#[link(name = "crashproof_runtime")]
unsafe extern "C" {
    fn crashproof_root(bytes: usize) -> *mut Cell;
    fn crashproof_crashes() -> u32;
}

const CELLS: usize = 3;

#[repr(C, align(128))]
struct Cell {
    value: u64,
    apart: [u64; 7],
    valid: u64,
}

fn persist(place: *const u64) {
    unsafe {
        asm!("clwb [{0}]", in(reg) place);
        asm!("sfence");
    }
}

fn main() {
    let cells = unsafe { crashproof_root(size_of::<Cell>() * CELLS) } as usize;
    let cell = move |index: usize| unsafe { &mut *(cells as *mut Cell).add(index) };
    if unsafe { crashproof_crashes() } > 0 {
        for index in 0..CELLS {
            if cell(index).valid == 1 {
                assert_eq!(cell(index).value, index as u64 + 1);
            }
        }
        return;
    }
    let shared = Arc::new((Mutex::new(0), Condvar::new()));
    let producer = {
        let shared = shared.clone();
        thread::spawn(move || {
            for index in 0..CELLS {
                cell(index).value = index as u64 + 1; // MARK: recovery-fails
                if cfg!(fixed) {
                    persist(&cell(index).value);
                }
                *shared.0.lock().unwrap() += 1;
                shared.1.notify_one();
            }
        })
    };
    let consumer = {
        let shared = shared.clone();
        thread::spawn(move || {
            for index in 0..CELLS {
                let produced = shared.0.lock().unwrap();
                drop(shared.1.wait_while(produced, |produced| *produced <= index).unwrap());
                cell(index).valid = 1;
                persist(&cell(index).valid);
            }
            7
        })
    };
    producer.join().unwrap();
    assert_eq!(consumer.join().unwrap(), 7);

    static ONCE: Once = Once::new();
    static RAN: AtomicU32 = AtomicU32::new(0);
    let (barrier, lock) = (Barrier::new(3), RwLock::new(0));
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for number in 0..3u32 {
            let (sender, barrier, lock) = (sender.clone(), &barrier, &lock);
            scope.spawn(move || {
                ONCE.call_once(|| {
                    RAN.fetch_add(1, Ordering::Relaxed);
                });
                barrier.wait();
                *lock.write().unwrap() += number;
                thread::sleep(Duration::from_millis(10));
                let _ = *lock.read().unwrap();
                sender.send(number).unwrap();
            });
        }
        drop(sender);
        assert_eq!(receiver.iter().sum::<u32>(), 3);
    });
    assert_eq!(RAN.load(Ordering::Relaxed), 1);
    let (_guard, result) =
        shared.1.wait_timeout(shared.0.lock().unwrap(), Duration::from_secs(3600)).unwrap();
    assert!(result.timed_out());
    thread::park_timeout(Duration::from_secs(3600));
}
