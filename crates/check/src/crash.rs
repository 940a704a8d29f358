//! What each line may hold after a crash.

use px86::storage::{CachedStore, Execution};
use px86::{LINE_BYTES, Line};
use rustc_hash::FxHashMap;

/// The bytes of a line.
pub(crate) type Bytes = [u8; LINE_BYTES as usize];

/// One possible content of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) bytes: Bytes,
    /// How many of the line's open stores persisted.
    pub(crate) kept: usize,
}

/// Writes a store into a line.
pub(crate) fn apply(bytes: &mut Bytes, store: &CachedStore) {
    let start = (store.event.address % LINE_BYTES) as usize;
    let width = usize::from(store.event.width);
    bytes[start..start + width].copy_from_slice(&store.event.value.to_le_bytes()[..width]);
}

/// Everything an open line may hold: what surely persisted, and then one store more each time.
///
/// Contents that are equal byte for byte are one; the one with the most stores kept stands for them.
pub(crate) fn contents(execution: &Execution, line: Line, certain: Bytes) -> Vec<Content> {
    let mut all = vec![Content { bytes: certain, kept: 0 }];
    let mut known: FxHashMap<Bytes, usize> = FxHashMap::default();
    known.insert(certain, 0);
    let Some(history) = execution.line(line) else { return all };
    let mut bytes = certain;
    for (index, store) in history.stores().iter().enumerate() {
        apply(&mut bytes, store);
        match known.get(&bytes) {
            Some(&at) => all[at].kept = index + 1,
            None => {
                known.insert(bytes, all.len());
                all.push(Content { bytes, kept: index + 1 });
            }
        }
    }
    all
}

/// The value of up to eight bytes of a line.
pub(crate) fn value(bytes: &Bytes, address: u64, width: u8) -> u64 {
    let start = (address % LINE_BYTES) as usize;
    let mut word = [0; 8];
    word[..usize::from(width)].copy_from_slice(&bytes[start..start + usize::from(width)]);
    u64::from_le_bytes(word)
}
