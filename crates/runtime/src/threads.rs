//! Threads of the checked program: one runs at a time, and a seed decides which.
//!
//! Under the checker a thread is a real pthread that waits for its turn; the baton goes from hand to hand.
//! Everything that could make two runs differ is decided here, by the seed in the control block and by what
//! the program does, and by nothing else: which thread runs, who gets a mutex, whose store buffer gives
//! something to the cache, when a timeout fires. So a run can be repeated, and recovery stays a function of
//! what it reads.
//!
//! | module | what it does |
//! |---|---|
//! | `running` | which thread runs |
//! | `baton` | passing the turn from one real thread to another |
//! | `strategy` | the choices: round robin, random, PCT |
//! | `scheduler` | the threads, what they wait for, whose turn is next: plain data |
//! | `state` | the scheduler of this process |
//! | `step_notes` | notes about the steps of a run |
//! | `program_state` | what tells a loop that waits from one that counts |
//! | `exploration` | a run that follows the checker's decisions: plain data |
//! | `decisions` | follows them, and notes every step |
//! | `buffers` | store buffers, and when what they hold takes effect |
//! | `happens_before` | what orders threads besides PM |
//! | `timers` | timers that send signals, by the program's clock |
//! | `unseen_accesses` | accesses of volatile memory that the exploration does not see |
//! | `locks` | what mutexes and the rest hold, beside the program's bytes: plain data |
//! | `turns` | switching, waiting and waking, deadlocks |
//! | `memory` | accesses to PM while there are several threads |
//!
//! The functions that programs call are in `pthreads`. While one thread is alive none of this is in the way:
//! [`running::concurrent`] is false, and accesses to PM take the short path. Without the checker every function goes to
//! the C library's.

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
