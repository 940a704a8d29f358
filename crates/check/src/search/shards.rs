//! The part of the crash points that a check explores, so that several machines can share a program.
//!
//! Crash points are divided in blocks, by a hash of the block and the schedule: nearby crashes lead to the same
//! recoveries, so one machine should handle them. Every crash point belongs to exactly one shard.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

/// Some shards of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shards {
    /// The total number of shards.
    pub of: u32,
    /// The shards to explore, counted from 1.
    pub taken: BTreeSet<u32>,
}

impl Shards {
    /// Does this key belong to a shard that is explored?
    pub(crate) fn takes(&self, key: impl Hash) -> bool {
        let mut hasher = FxHasher::default();
        key.hash(&mut hasher);
        // The high bits of this hash are better distributed than the low ones.
        let shard = (hasher.finish() >> 32) % u64::from(self.of.max(1));
        self.taken.contains(&(shard as u32 + 1))
    }

    /// Are these all?
    pub fn is_all(&self) -> bool {
        (1..=self.of).all(|shard| self.taken.contains(&shard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_belongs_to_one_shard_and_each_has_its_part() {
        for of in 1..=7 {
            let counts = (1..=of).map(|one| {
                let shards = Shards { of, taken: BTreeSet::from([one]) };
                (0..7000_u64).filter(|key| shards.takes((0_u32, *key))).count()
            });
            let counts: Vec<usize> = counts.collect();
            assert_eq!(counts.iter().sum::<usize>(), 7000, "{of} shards");
            assert!(counts.iter().all(|count| count.abs_diff(7000 / of as usize) < 250), "{counts:?}");
        }
    }
}
