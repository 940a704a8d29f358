//! Rules of `crashproof check`.

use crate::rules::rule::{Rule, rule};

/// All of them.
pub static RULES: &[&Rule] = &[
    &RECOVERY_FAILS,
    &RECOVERY_FAILS_NOTHING_LOST,
    &FAILS_UNDER_SCHEDULE,
    &DEADLOCK,
    &LOST_WAKEUP,
    &DATA_RACE,
    &PERSISTENCY_RACE,
    &FAILS_WITHOUT_CRASH,
    &VOLATILE_POINTER,
    &MISSING_FLUSH,
    &FLUSH_CLEAN_LINE,
    &FLUSH_REPEATED,
    &FENCE_NOTHING_PENDING,
    &DEPENDENT_STRANDS,
    &DEPENDENT_EPOCHS,
    &MISSING_BARRIER_BETWEEN_EPOCHS,
];

/// Recovery fails if a store is lost.
pub static RECOVERY_FAILS: Rule =
    rule!("recovery-fails", Check, Error, "recovery fails if a store is lost in a crash", "c");

/// Recovery fails although nothing is lost.
pub static RECOVERY_FAILS_NOTHING_LOST: Rule = rule!(
    "recovery-fails-nothing-lost",
    Check,
    Error,
    "recovery fails after a crash, although nothing stored so far is lost",
    "c"
);

/// The program fails without any crash, under some schedule.
pub static FAILS_UNDER_SCHEDULE: Rule = rule!(
    "fails-under-schedule",
    Check,
    Error,
    "the program fails without any crash if its threads run in another order",
    "c",
    "--schedules",
    "20"
);

/// Under some schedule no thread can go on.
pub static DEADLOCK: Rule =
    rule!("deadlock", Check, Error, "under some schedule all threads wait for each other", "c");

/// Under some schedule a thread waits for a signal that came before.
pub static LOST_WAKEUP: Rule = rule!(
    "lost-wakeup",
    Check,
    Error,
    "under some schedule a thread waits for a signal that came before",
    "c"
);

/// Two plain accesses that nothing orders.
pub static DATA_RACE: Rule = rule!(
    "data-race",
    Check,
    Warning,
    "two threads access the same persistent memory without atomics or locks, and one stores",
    "c"
);

/// A plain store that recovery may read in part.
pub static PERSISTENCY_RACE: Rule = rule!(
    "persistency-race",
    Check,
    Warning,
    "recovery may read a plain store before it is surely written back (--persistency-races)",
    "c",
    "--persistency-races"
);

/// The program crashes by itself.
pub static FAILS_WITHOUT_CRASH: Rule =
    rule!("fails-without-crash", Check, Error, "the program crashes without any power failure", "c");

/// A pointer that means nothing in the next run.
pub static VOLATILE_POINTER: Rule = rule!(
    "volatile-pointer",
    Check,
    Error,
    "recovery follows a pointer to volatile memory or code that was kept in persistent memory",
    "c"
);

/// A store that can be lost while a later one survives.
pub static MISSING_FLUSH: Rule =
    rule!("missing-flush", Check, Error, "a store can be lost in a crash that a later store survives", "c");

/// A flush of a clean line.
pub static FLUSH_CLEAN_LINE: Rule = rule!(
    "flush-clean-line",
    Check,
    Warning,
    "flushes a cache line that was not stored to since it was last written back",
    "c"
);

/// A second flush of a line.
pub static FLUSH_REPEATED: Rule = rule!(
    "flush-repeated",
    Check,
    Warning,
    "flushes a cache line again before anything new was stored to it",
    "c"
);

/// A fence with nothing to wait for.
pub static FENCE_NOTHING_PENDING: Rule =
    rule!("fence-nothing-pending", Check, Warning, "redundant fence: no flush or store is pending", "c");

/// Concurrent strands on the same memory.
pub static DEPENDENT_STRANDS: Rule = rule!(
    "dependent-strands",
    Check,
    Error,
    "two strands that may persist at the same time use the same memory",
    "c",
    "--model",
    "strand"
);

/// Concurrent epochs on the same memory.
pub static DEPENDENT_EPOCHS: Rule = rule!(
    "dependent-epochs",
    Check,
    Error,
    "two epochs that may persist at the same time use the same memory",
    "c",
    "--model",
    "epoch"
);

/// Two epochs without a barrier.
pub static MISSING_BARRIER_BETWEEN_EPOCHS: Rule = rule!(
    "missing-barrier-between-epochs",
    Check,
    Error,
    "an epoch begins before what the last one stored is persistent",
    "c",
    "--model",
    "epoch"
);
