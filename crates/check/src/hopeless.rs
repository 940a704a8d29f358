//! Crashes after which recovery fails even if nothing is lost.
//!
//! A program that is crashed while it creates its pool often cannot open what it left, and then it fails in the
//! same way whatever else is lost. That is one finding, not one for each store that might be lost: the crash
//! that loses the least says it all.

use crate::explore::FindingKey;
use crate::failure::Failure;

/// How recovery fails after the crash that is being explored, nothing being lost.
#[derive(Default)]
pub(crate) struct Hopeless {
    /// Which crash this is about.
    at: usize,
    failures: Vec<(Failure, String, FindingKey)>,
}

impl Hopeless {
    /// Recovery failed after the crash at `at` although nothing was lost.
    pub(crate) fn add(&mut self, at: usize, failure: &Failure, output: &str, key: &FindingKey) {
        if self.at != at {
            self.at = at;
            self.failures.clear();
        }
        self.failures.push((failure.clone(), output.to_owned(), key.clone()));
    }

    /// The finding that says already what a failure after the same crash would say.
    pub(crate) fn find(&self, at: usize, failure: &Failure, output: &str) -> Option<&FindingKey> {
        let same = |known: &&(Failure, String, FindingKey)| known.0 == *failure && known.1 == output;
        self.failures.iter().filter(|_| self.at == at).find(same).map(|(_, _, key)| key)
    }
}
