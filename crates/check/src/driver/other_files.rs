//! Whether recoveries read what the crashed run stored, or only other files.
//!
//! A test that creates a temporary directory creates another one when it runs again, and one that first removes its
//! pool creates a new one: every crash state would be fine, and a clean verdict would mean nothing. A file recreated
//! under the same name has a new entry in the file table, so entries are compared, not names.

use crashproof_protocol::{FACTS, FILES, POOL_BASE, POOL_BYTES, Record};
use px86::Kind;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::subject::FileNames;

/// Why such a verdict is UNKNOWN.
pub(crate) const NOT_READ: &str = "no recovery reads the files that the program stored to: run again, it uses new ones (in a \
                                   temporary directory, or made anew under the old name); give it a path that it opens again, or \
                                   name what recovers with --recover";

/// Contents of two different files never share a unit of this size.
const UNIT: u64 = 2 << 20;

/// Which files recorded runs stored to, and which files recoveries accessed.
#[derive(Clone, Default)]
pub(crate) struct FilesUsed {
    /// Units in which recorded runs stored file content.
    stored: FxHashSet<u64>,
    /// The words of file metadata that recorded runs stored, each with its last nonzero value. A directory's word is a
    /// version of its names, and says nothing about the files' contents.
    facts: FxHashMap<u64, u64>,
    /// Did a recorded run store to other persistent memory, or did a recovery access content it stored? Then the
    /// question is settled.
    decided: bool,
    /// Units of file content that recoveries accessed, and words of metadata they read.
    recovered: FxHashSet<u64>,
}

impl FilesUsed {
    /// Records what a recorded run stored.
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
                // Volatile memory shared by threads has records, too.
                self.decided |= (POOL_BASE..POOL_BASE + POOL_BYTES).contains(&address);
            }
        }
    }

    /// Records what a recovery accessed.
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
            // Most accesses are close to the previous one.
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

    /// Did the program store only to files, and did all recoveries use other files?
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
