//! Threads of the checked program: one runs at a time, and a seed determines which.
//!
//! Under the checker a thread is a real pthread that waits for its turn, which is passed on as a baton. Everything that
//! could make two runs differ is determined here, solely by the seed in the control block and the program's behavior:
//! which thread runs, which one gets a mutex, when store buffers drain, when a timeout fires. So a run can be repeated,
//! and recovery remains a function of what it reads.
//!
//! | module | what it does |
//! |---|---|
//! | `running` | which thread runs |
//! | `baton` | passing the turn from one real thread to another |
//! | `strategy` | the choices: round robin, random, PCT |
//!  `scheduler` | the threads, what they wait for, which runs next: plain data |
//! | `state` | the scheduler of this process |
//! | `step_notes` | notes about the steps of a run |
//!  `program_state` | distinguishes a loop that waits from one that counts |
//! | `exploration` | a run that follows the checker's decisions: plain data |
//!  `decisions` | follows them, and records every step |
//!  `buffers` | store buffers, and when their entries take effect |
//! | `happens_before` | what orders threads besides PM |
//! | `timers` | timers that send signals, by the program's clock |
//! | `unseen_accesses` | accesses of volatile memory that the exploration does not see |
//!  `locks` | the state of mutexes and other objects, outside the program's bytes: plain data |
//! | `turns` | switching, waiting and waking, deadlocks |
//! | `memory` | accesses to PM while there are several threads |
//!
//! The functions that programs call are in `pthreads`. While only one thread is alive none of this has a cost:
//! [`running::concurrent`] is false, and accesses to PM take the short path. Without the checker every function
//! forwards to the C library's.

pub(crate) mod baton;
pub(crate) mod buffers;
pub(crate) mod decisions;
pub(crate) mod exploration;
pub(crate) mod happens_before;
pub(crate) mod locks;
pub(crate) mod memory;
pub(crate) mod program_state;
pub(crate) mod running;
pub(crate) mod scheduler;
pub(crate) mod state;
pub(crate) mod step_notes;
pub(crate) mod strategy;
pub(crate) mod timers;
pub(crate) mod turns;
pub(crate) mod unseen_accesses;
