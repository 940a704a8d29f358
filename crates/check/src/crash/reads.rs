//! What a recovery reads from before the crash, and which of these reads count for robustness.

use crashproof_protocol::{Record, record};
use px86::Kind;
use rustc_hash::FxHashMap;

/// A recovery's load of pre-crash content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) site: u32,
    pub(crate) address: u64,
    pub(crate) width: u8,
    pub(crate) value: u64,
    /// Could the line have held something else?
    pub(crate) open: bool,
}

/// The reads of a recovery, in order.
pub(crate) type Reads = Vec<Read>;

/// The reads of a recovery that do not count for robustness: those under a checksum that did not match, and those whose
/// value the program tolerates.
pub(crate) fn ignored(records: &[Record]) -> Vec<u32> {
    let mut ignored = Vec::new();
    let mut number = 0;
    // Per thread, its open brackets with the reads since each began.
    let mut open: FxHashMap<u16, Vec<Vec<u32>>> = FxHashMap::default();
    for next in records {
        match next.kind() {
            record::CHECKSUM_BEGIN | record::TOLERATE_BEGIN => {
                open.entry(next.thread()).or_default().push(Vec::new());
            }
            record::CHECKSUM_END | record::TOLERATE_END => {
                let matched = next.kind() == record::CHECKSUM_END && next.address() != 0;
                let brackets = open.entry(next.thread()).or_default();
                let reads = brackets.pop().unwrap_or_default();
                match brackets.last_mut() {
                    // The enclosing bracket decides.
                    Some(outer) if matched => outer.extend(reads),
                    None if matched => {}
                    _ => ignored.extend(reads),
                }
            }
            _ if next.kind() == Kind::Load as u8 => {
                if let Some(reads) = open.get_mut(&next.thread()).and_then(|brackets| brackets.last_mut()) {
                    reads.push(number);
                }
                number += 1;
            }
            _ => {}
        }
    }
    // A checksum that was never compared.
    ignored.extend(open.into_values().flatten().flatten());
    ignored.sort_unstable();
    ignored
}

/// The keys of the names that a recovery looked up, in order.
pub(crate) fn names_looked_up(records: &[Record]) -> Vec<u64> {
    let names = records.iter().filter(|next| next.kind() == record::NAME);
    let mut keys: Vec<u64> = names.map(|next| next.value).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// What a recovery had read when it crashed after these records, as far as that counts for robustness. `reads` is
/// everything the complete recovery would have read.
pub(crate) fn had_read(records: &[Record], reads: &Reads, ignored: &[u32]) -> Reads {
    let loads = records.iter().filter(|record| record.kind() == Kind::Load as u8).count();
    let counts = |(index, _): &(usize, &Read)| ignored.binary_search(&(*index as u32)).is_err();
    reads.iter().take(loads).enumerate().filter(counts).map(|(_, read)| *read).collect()
}
