//! Whether recoveries look at what the crashed run stored, or only at other files.
//!
//! A test that makes a temporary directory makes another one when it runs again, and one that first removes its pool makes it
//! anew: whatever a crash leaves is as good to it, and a clean verdict would be about nothing. A file that was made anew
//! under the same name is another entry of the file table, so entries are compared, not names.

use crashproof_protocol::{FACTS, FILES, POOL_BASE, POOL_BYTES, Record};
use px86::Kind;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::subject::FileNames;

/// Why such a verdict is UNKNOWN.
pub(crate) const NOT_READ: &str = "no recovery reads the files that the program stored to: run again, it uses new ones (in a \
                                   temporary directory, or made anew under the old name); give it a path that it opens again, or \
                                   name what recovers with --recover";

/// Addresses of one file's content never share such a part of memory with another's.
const UNIT: u64 = 2 << 20;

/// Which files recorded runs stored to, and which ones recoveries accessed.
#[derive(Clone, Default)]
pub(crate) struct FilesUsed {
    /// Where recorded runs stored content, in units.
    stored: FxHashSet<u64>,
    /// The words about files that recorded runs stored, each with the last value other than 0. A directory's is a version
    /// of its names, which says nothing about what is in the files.
    facts: FxHashMap<u64, u64>,
    /// Did they store to other persistent memory, or did a recovery access content that they stored? Then there is nothing
    /// left to find out.
    decided: bool,
    /// Where recoveries accessed content, in units, and which words about files they read.
    recovered: FxHashSet<u64>,
}

impl FilesUsed {
    /// Notes what a recorded run stored.
    pub(crate) fn recorded(&mut self, records: &[Record]) {
        for record in records.iter().filter(|record| record.event_kind().is_some_and(Kind::stores)) {
            let address = record.address();
            if FACTS.contains(address) {
                if record.value != 0 {
                    self.facts.insert(address, record.value);
                }
            } else if FILES.contains(address) {
                self.stored.insert(address / UNIT * UNIT);
            } else {
                // Volatile memory that threads share has records, too.
                self.decided |= (POOL_BASE..POOL_BASE + POOL_BYTES).contains(&address);
            }
        }
    }

    /// Notes what a recovery accessed.
    pub(crate) fn recovered(&mut self, records: &[Record]) {
        if self.decided {
            return;
        }
        let mut last = 0;
        for record in records {
            let Some(kind) = record.event_kind() else { continue };
            let address = record.address();
            let place = if FILES.contains(address) {
                address / UNIT * UNIT
            } else if FACTS.contains(address) && kind == Kind::Load {
                address
            } else {
                continue;
            };
            // Most accesses are near the one before.
            if place != last {
                self.recovered.insert(place);
                last = place;
                if self.stored.contains(&place) {
                    self.decided = true;
                    return;
                }
            }
        }
    }

    /// Did the program store to files only, and all recoveries use others?
    pub(crate) fn are_others(&self, files: &FileNames) -> bool {
        if self.decided {
            return false;
        }
        let numbers = |places: &FxHashSet<u64>| -> FxHashSet<usize> {
            places.iter().filter_map(|place| files.number_at(*place)).collect()
        };
        let sizes = self.facts.iter().filter(|(_, value)| !files.is_version(**value));
        let mut stored = numbers(&self.stored);
        stored.extend(sizes.filter_map(|(place, _)| files.number_at(*place)));
        !stored.is_empty() && stored.is_disjoint(&numbers(&self.recovered))
    }
}
