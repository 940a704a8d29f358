//! Threads and synchronization as programs call them: POSIX, C11, semaphores, futexes.
//!
//! Each function implements the C library's behavior under the scheduler: see `threads`.

mod c11;
mod conditions;
pub(crate) mod create;
pub(crate) mod futex;
mod mutexes;
mod persistent;
mod semaphores;
