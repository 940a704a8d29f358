//! Rules of `crashproof prove`.

use crate::rules::rule::{Rule, rule};

/// All of them.
pub static RULES: &[&Rule] = &[&CLAIM_VIOLATED, &ACCESS_OUTSIDE, &NOT_ROBUST];

/// An assertion that some execution makes false.
pub static CLAIM_VIOLATED: Rule =
    rule!("claim-violated", Prove, Error, "an assertion is false in some schedule, or after some crash", "c");

/// An access that can miss every object.
pub static ACCESS_OUTSIDE: Rule = rule!(
    "access-outside",
    Prove,
    Error,
    "an access can miss every object in some schedule, or after some crash",
    "c"
);

/// A crash that leaves what no run goes through.
pub static NOT_ROBUST: Rule = rule!(
    "not-robust",
    Prove,
    Error,
    "a crash can leave a memory that no run without a crash goes through",
    "c",
    "--robust"
);
