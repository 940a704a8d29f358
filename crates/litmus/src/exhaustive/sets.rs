//! Sets of tokens, each stored once and named by a number, so that a machine state can hold many of them
//! cheaply and equal sets have equal names.

use rustc_hash::FxHashMap;

/// The name of a set; 0 is the empty set.
pub(crate) type SetId = u32;

pub(crate) const EMPTY: SetId = 0;

pub(crate) struct Sets {
    /// Sorted members.
    members: Vec<Box<[u32]>>,
    names: FxHashMap<Box<[u32]>, SetId>,
    unions: FxHashMap<(SetId, SetId), SetId>,
    /// Members of all sets together.
    total: usize,
}

impl Sets {
    pub(crate) fn new() -> Sets {
        let mut sets =
            Sets { members: Vec::new(), names: FxHashMap::default(), unions: FxHashMap::default(), total: 0 };
        sets.name(Vec::new());
        sets
    }

    pub(crate) fn members(&self, set: SetId) -> &[u32] {
        &self.members[set as usize]
    }

    fn name(&mut self, mut members: Vec<u32>) -> SetId {
        members.sort_unstable();
        members.dedup();
        let members = members.into_boxed_slice();
        if let Some(&name) = self.names.get(&members) {
            return name;
        }
        let name = self.members.len() as SetId;
        self.total += members.len();
        self.members.push(members.clone());
        self.names.insert(members, name);
        name
    }

    /// Approximate memory in use, in bytes.
    pub(crate) fn footprint(&self) -> usize {
        2 * self.total * size_of::<u32>() + self.members.len() * 64 + self.unions.capacity() * 16
    }

    pub(crate) fn union(&mut self, a: SetId, b: SetId) -> SetId {
        if a == b || b == EMPTY {
            return a;
        }
        if a == EMPTY {
            return b;
        }
        let key = (a.min(b), a.max(b));
        if let Some(&known) = self.unions.get(&key) {
            return known;
        }
        let all = self.members(a).iter().chain(self.members(b)).copied().collect();
        let name = self.name(all);
        self.unions.insert(key, name);
        name
    }

    pub(crate) fn insert(&mut self, set: SetId, token: u32) -> SetId {
        if self.members(set).binary_search(&token).is_ok() {
            return set;
        }
        let mut members = self.members(set).to_vec();
        members.push(token);
        self.name(members)
    }

    /// Replaces every token by the result of `change`; `None` removes it.
    pub(crate) fn map(&mut self, set: SetId, change: impl Fn(u32) -> Option<u32>) -> SetId {
        if self.members(set).iter().all(|&token| change(token) == Some(token)) {
            return set;
        }
        let members = self.members(set).iter().filter_map(|&token| change(token)).collect();
        self.name(members)
    }
}
