//! The visited states: their canonical bytes stored consecutively, found by hash, compared byte by byte.
//!
//! Exact (no state is ever taken for another) and compact: a state costs its bytes, four bytes for its
//! place, eight for where it came from, and its slot in the hash table.

use std::hash::Hasher;

use hashbrown::HashTable;
use rustc_hash::FxHasher;

/// A state, by the order of discovery.
pub(crate) type StateId = u32;

/// How a state was reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// From which state; itself for the first.
    pub(crate) parent: StateId,
    /// By which action.
    pub(crate) action: Action,
}

/// A choice the machine made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Action {
    /// The thread that moves.
    pub(crate) thread: u8,
    /// Which buffer entry takes effect; `None` if the thread's next instruction runs.
    pub(crate) entry: Option<u16>,
    /// Was the line closed just before the store reached the cache?
    pub(crate) closes: bool,
}

#[derive(Default)]
pub(crate) struct Arena {
    bytes: Vec<u8>,
    starts: Vec<u32>,
    origins: Vec<Origin>,
    table: HashTable<StateId>,
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

impl Arena {
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Bytes of memory in use, about.
    pub(crate) fn footprint(&self) -> usize {
        self.bytes.capacity()
            + self.starts.capacity() * size_of::<u32>()
            + self.origins.capacity() * size_of::<Origin>()
            + self.table.capacity() * (size_of::<StateId>() + 1)
    }

    pub(crate) fn get(&self, id: StateId) -> &[u8] {
        state_bytes(&self.bytes, &self.starts, id)
    }

    pub(crate) fn origin(&self, id: StateId) -> Origin {
        self.origins[id as usize]
    }

    /// Adds a state unless it is already present; returns its id if it is new.
    pub(crate) fn insert(&mut self, state: &[u8], origin: Origin) -> Option<StateId> {
        let (bytes, starts) = (&self.bytes, &self.starts);
        let hash_of = hash(state);
        if self.table.find(hash_of, |&id| state_bytes(bytes, starts, id) == state).is_some() {
            return None;
        }
        let id = self.starts.len() as StateId;
        self.starts.push(self.bytes.len() as u32);
        self.bytes.extend_from_slice(state);
        self.origins.push(origin);
        let (bytes, starts) = (&self.bytes, &self.starts);
        self.table.insert_unique(hash_of, id, |&id| hash(state_bytes(bytes, starts, id)));
        Some(id)
    }
}

fn state_bytes<'a>(bytes: &'a [u8], starts: &[u32], id: StateId) -> &'a [u8] {
    let start = starts[id as usize] as usize;
    let end = starts.get(id as usize + 1).map_or(bytes.len(), |&next| next as usize);
    &bytes[start..end]
}
