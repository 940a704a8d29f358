//! Rules of `crashproof lint`.

use crate::rules::Rule;

/// All of them.
pub static RULES: &[&Rule] = &[];
