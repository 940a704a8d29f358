//! What a recovery stored and printed, for comparing recoveries.

use std::collections::BTreeMap;
use std::sync::Arc;

use crashproof_protocol::Record;
use px86::{Kind, LINE_BYTES, Line};

use crate::search::journal::two_hashes;

/// Maximum number of lines a recovery may store to and still count as coping.
const MOST_LINES: usize = 64;
/// Maximum output in bytes: beyond this, only the end is known.
const MOST_PRINTED: usize = 2048;

/// What a recovery stored and printed.
#[derive(Debug, PartialEq)]
pub(crate) struct Effects {
    /// A hash of the bytes it left in each line, and of its output.
    hash: u128,
    /// The lines it stored to, with a mask of the bytes; `None` if there are too many, or if it printed too much.
    stored: Option<Box<[(Line, u64)]>>,
}

impl Effects {
    /// `None` if it neither stored nor printed anything.
    pub(crate) fn of(records: &[Record], printed: &str) -> Option<Arc<Effects>> {
        let mut lines: BTreeMap<Line, (u64, [u8; LINE_BYTES as usize])> = BTreeMap::new();
        let mut is_small = printed.len() <= MOST_PRINTED;
        for record in records.iter().filter(|record| record.event_kind().is_some_and(Kind::stores)) {
            // No record is of more than one line.
            let line = Line::containing(record.address());
            let (stored, bytes) = lines.entry(line).or_insert((0, [0; LINE_BYTES as usize]));
            let (value, start) = ({ record.value }.to_le_bytes(), (record.address() - line.start()) as usize);
            for (at, byte) in (start..LINE_BYTES as usize).zip(&value[..record.width().min(8) as usize]) {
                *stored |= 1 << at;
                bytes[at] = *byte;
            }
            if lines.len() > MOST_LINES {
                is_small = false;
                break;
            }
        }
        if lines.is_empty() && printed.is_empty() {
            return None;
        }
        let mut key: Vec<u8> = printed.as_bytes().to_vec();
        for (line, (stored, bytes)) in &lines {
            key.extend(line.0.to_le_bytes());
            key.extend(stored.to_le_bytes());
            key.extend(bytes);
        }
        let stored = is_small.then(|| lines.iter().map(|(line, (stored, _))| (*line, *stored)).collect());
        Some(Arc::new(Effects { hash: two_hashes(&key), stored }))
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<Effects>() + self.stored.as_deref().map_or(0, size_of_val)
    }

    /// Are the lines it stored to known?
    pub(crate) fn is_known(&self) -> bool {
        self.stored.is_some()
    }

    /// A mask of the bytes of a line that it stored to.
    pub(crate) fn stored(&self, line: Line) -> u64 {
        let stored = self.stored.as_deref().unwrap_or_default();
        stored.iter().find(|(other, _)| *other == line).map_or(0, |(_, bytes)| *bytes)
    }
}
