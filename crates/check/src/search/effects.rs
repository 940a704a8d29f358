//! What a recovery stored and printed: by that two recoveries are compared.

use std::collections::BTreeMap;
use std::sync::Arc;

use crashproof_protocol::Record;
use px86::{Kind, LINE_BYTES, Line};

use crate::search::journal::two_hashes;

/// Lines that a recovery may store to before it is taken not to cope.
const MOST_LINES: usize = 64;
/// Bytes that it may print: of more, only the last are known.
const MOST_PRINTED: usize = 2048;

/// What a recovery stored and printed.
#[derive(Debug, PartialEq)]
pub(crate) struct Effects {
    /// Of the bytes that it left in each line, and of its output.
    hash: u128,
    /// The lines that it stored to, and which bytes of them; none if there are too many, or it printed too much.
    stored: Option<Box<[(Line, u64)]>>,
}

impl Effects {
    /// None if it neither stored nor printed anything.
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

    /// Is it known which lines it stored to?
    pub(crate) fn is_known(&self) -> bool {
        self.stored.is_some()
    }

    /// Which bytes of a line it stored to.
    pub(crate) fn stored(&self, line: Line) -> u64 {
        let stored = self.stored.as_deref().unwrap_or_default();
        stored.iter().find(|(other, _)| *other == line).map_or(0, |(_, bytes)| *bytes)
    }
}
