//! Rules of `crashproof lint`.

use crate::rules::rule::{Rule, rule};

/// All of them.
pub static RULES: &[&Rule] = &[
    &UNFLUSHED_WRITE,
    &UNLOGGED_WRITE,
    &MULTIPLE_WRITES_AT_ONCE,
    &MISSING_BARRIER,
    &MISSING_BARRIER_NESTED,
    &SPLIT_UPDATE,
    &CONCURRENT_STRANDS,
    &PUBLISH_BEFORE_PERSIST,
    &FLUSH_UNMODIFIED,
    &REDUNDANT_FLUSH,
    &EMPTY_TRANSACTION,
    &REPEATED_PERSIST,
    &LOG_UNMODIFIED,
    &EMPTY_FENCE,
];

/// A store to persistent memory is never written back.
pub static UNFLUSHED_WRITE: Rule =
    rule!("unflushed-write", Lint, Error, "a store to persistent memory is never written back", "c");

/// A store in a transaction is neither logged nor written back.
pub static UNLOGGED_WRITE: Rule =
    rule!("unlogged-write", Lint, Error, "a store in a transaction is neither logged nor written back", "c");

/// One barrier makes several stores durable, in any order.
pub static MULTIPLE_WRITES_AT_ONCE: Rule = rule!(
    "multiple-writes-at-once",
    Lint,
    Warning,
    "one barrier makes several stores durable, in any order",
    "c",
    "--model",
    "strict"
);

/// A flush is not waited for where an epoch or transaction ends.
pub static MISSING_BARRIER: Rule = rule!(
    "missing-barrier",
    Lint,
    Error,
    "missing fence: a flush is pending where an epoch or transaction ends",
    "c"
);

/// A flush is not waited for where an inner epoch or transaction ends.
pub static MISSING_BARRIER_NESTED: Rule = rule!(
    "missing-barrier-nested",
    Lint,
    Warning,
    "missing fence: a flush is pending where an inner epoch or transaction ends",
    "c"
);

/// Fields of one object become durable in different epochs.
pub static SPLIT_UPDATE: Rule =
    rule!("split-update", Lint, Warning, "fields of one object become durable in different epochs", "c");

/// Strands that nothing orders touch the same memory.
pub static CONCURRENT_STRANDS: Rule = rule!(
    "concurrent-strands",
    Lint,
    Warning,
    "strands that nothing orders touch the same memory",
    "c",
    "--model",
    "strand"
);

/// An object becomes reachable before it is durable.
pub static PUBLISH_BEFORE_PERSIST: Rule =
    rule!("publish-before-persist", Lint, Error, "an object becomes reachable before it is durable", "c");

/// Lines are written back that were not modified.
pub static FLUSH_UNMODIFIED: Rule =
    rule!("flush-unmodified", Lint, Warning, "lines are written back that were not modified", "c");

/// Data is written back again although nothing changed since.
pub static REDUNDANT_FLUSH: Rule =
    rule!("redundant-flush", Lint, Warning, "data is written back again although nothing changed since", "c");

/// A durable transaction changes nothing persistent.
pub static EMPTY_TRANSACTION: Rule =
    rule!("empty-transaction", Lint, Warning, "a durable transaction changes nothing persistent", "c");

/// One object is logged or persisted repeatedly in a transaction.
pub static REPEATED_PERSIST: Rule = rule!(
    "repeated-persist",
    Lint,
    Warning,
    "one object is logged or persisted repeatedly in a transaction",
    "c"
);

/// Memory is logged in a transaction that does not modify it.
pub static LOG_UNMODIFIED: Rule =
    rule!("log-unmodified", Lint, Warning, "memory is logged in a transaction that does not modify it", "c");

/// A fence has nothing to wait for.
pub static EMPTY_FENCE: Rule =
    rule!("empty-fence", Lint, Warning, "redundant fence: no flush or store is pending", "c");
