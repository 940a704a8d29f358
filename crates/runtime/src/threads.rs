//! Threads of the checked program: one runs at a time, and a seed decides which.
//!
//! Under the checker a thread is a real pthread that waits for its turn; the baton goes from hand to hand.
//! Everything that could make two runs differ is decided here, by the seed in the control block and by what
//! the program does, and by nothing else: which thread runs, who gets a mutex, whose store buffer gives
//! something to the cache, when a timeout fires. So a run can be had again, and recovery stays a function of
//! what it reads.
//!
//! | module | what it does |
//! |---|---|
//! | `scheduler` | the threads, whose turn it is, waiting and waking, deadlocks |
//! | `strategy` | the choices: round robin, random, PCT |
//! | `baton` | passing the turn from one real thread to another |
//! | `memory` | accesses to PM while there are several threads: store buffers, loads that are recorded |
//! | `objects` | mutexes, conditions and the rest: what they hold, beside the program's bytes |
//! | `time` | the program's clock, which moves only when everybody waits, and sleeping |
//! | `real` | the C library's functions behind the interposed ones |
//! | `create` | `pthread_create`, `pthread_join`, cancellation |
//! | `locks`, `waits`, `semaphores`, `c11`, `futex` | the functions that programs call |
//!
//! While one thread is alive none of this is in the way: [`CONCURRENT`] is false, and accesses to PM take
//! the short path. Without the checker every function goes to the C library's.

mod baton;
mod c11;
mod create;
mod futex;
mod locks;
pub(crate) mod memory;
mod objects;
mod order;
mod real;
mod scheduler;
mod semaphores;
mod strategy;
mod time;
mod waits;

pub(crate) use scheduler::{CONCURRENT, CURRENT, begin, locked, sync};

/// The process ends: what waits in store buffers takes effect.
pub(crate) unsafe fn settle() {
    memory::drain_all();
}

/// Does the scheduler decide, or does the program run on its own?
#[inline(always)]
fn managed() -> bool {
    crate::access::recording()
}
