//! Threads and synchronization as programs call them: POSIX, C11, semaphores, futexes.
//!
//! Each function does under the scheduler what the C library's would do: see `threads`.

mod c11;
mod conditions;
pub(crate) mod create;
pub(crate) mod futex;
mod mutexes;
mod persistent;
mod semaphores;
