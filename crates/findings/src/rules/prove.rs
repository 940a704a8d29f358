//! Rules of `crashproof prove`.

use crate::rules::Rule;

/// All of them.
pub static RULES: &[&Rule] = &[];
