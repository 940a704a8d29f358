//! The B+-tree. A node is a page: how many keys, whether it is a leaf, then keys, then values or children.

use crashproof::persist;

use crate::log::{Change, PAGES, Pool, WORDS};

/// Keys of a node; a branch has one child more.
const KEYS: usize = 6;

// Page 0.
const MAGIC: usize = 0;
const ROOT: usize = 1;
const USED: usize = 2;
const READY: u64 = 0x6372_6173_6870_726f;

// A node.
const COUNT: usize = 0;
const LEAF: usize = 1;
const FIRST_KEY: usize = 2;
const FIRST_VALUE: usize = FIRST_KEY + KEYS;

type Node = [u64; WORDS];

fn keys(node: &Node) -> &[u64] {
    &node[FIRST_KEY..FIRST_KEY + node[COUNT] as usize]
}

/// The child of a branch that a key belongs to.
fn child(node: &Node, key: u64) -> usize {
    keys(node).partition_point(|other| *other <= key)
}

/// A B+-tree in a pool.
pub struct Engine<'p> {
    pool: &'p mut Pool,
}

impl<'p> Engine<'p> {
    /// Opens a pool: finishes what the last run committed, or makes an empty tree in a new one.
    pub fn open(pool: &'p mut Pool) -> Engine<'p> {
        pool.replay();
        if pool.pages[0].words[MAGIC] != READY {
            pool.pages[1].words[LEAF] = 1;
            persist(&pool.pages[1].words[LEAF]);
            // One cache line, which persists in the order of its stores.
            let meta = &mut pool.pages[0];
            meta.words[ROOT] = 1;
            meta.words[USED] = 2;
            meta.words[MAGIC] = READY;
            persist(meta);
        }
        Engine { pool }
    }

    fn node(&self, number: u64) -> &Node {
        &self.pool.pages[number as usize].words
    }

    /// The leaf for a key, and the branches above it, the root first.
    fn find(&self, key: u64) -> (u64, Vec<u64>) {
        let (mut number, mut above) = (self.pool.pages[0].words[ROOT], Vec::new());
        while self.node(number)[LEAF] == 0 {
            above.push(number);
            number = self.node(number)[FIRST_VALUE + child(self.node(number), key)];
        }
        (number, above)
    }

    /// The value of a key.
    pub fn get(&self, key: u64) -> Option<u64> {
        let leaf = self.node(self.find(key).0);
        let at = keys(leaf).binary_search(&key).ok()?;
        Some(leaf[FIRST_VALUE + at])
    }

    /// All keys and values, in order.
    pub fn scan(&self) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        self.collect(self.pool.pages[0].words[ROOT], &mut found);
        found
    }

    fn collect(&self, number: u64, found: &mut Vec<(u64, u64)>) {
        let node = self.node(number);
        let values = &node[FIRST_VALUE..];
        if node[LEAF] == 1 {
            found.extend(keys(node).iter().copied().zip(values.iter().copied()));
        } else {
            values[..=node[COUNT] as usize].iter().for_each(|child| self.collect(*child, found));
        }
    }

    /// Sets the value of a key. It is persistent when this returns.
    pub fn put(&mut self, key: u64, value: u64) {
        let mut change = Change::default();
        let (leaf, mut above) = self.find(key);
        let node = change.page(self.pool, leaf as usize);
        match keys(node).binary_search(&key) {
            Ok(at) => node[FIRST_VALUE + at] = value,
            Err(at) => insert(node, at, key, at, value),
        }
        let mut number = leaf;
        while change.page(self.pool, number as usize)[COUNT] as usize == KEYS {
            number = self.split(&mut change, number, above.pop());
        }
        change.commit(self.pool);
    }

    /// Splits a full node; the branch that got a key by it.
    fn split(&mut self, change: &mut Change, number: u64, parent: Option<u64>) -> u64 {
        let node = *change.page(self.pool, number as usize);
        let half = KEYS / 2;
        let (mut left, mut right) = ([0; WORDS], [0; WORDS]);
        left[LEAF] = node[LEAF];
        right[LEAF] = node[LEAF];
        // A leaf keeps all keys; the middle key of a branch moves up.
        let skipped = usize::from(node[LEAF] == 0);
        let middle = node[FIRST_KEY + half];
        for at in 0..half {
            insert(&mut left, at, node[FIRST_KEY + at], at, node[FIRST_VALUE + at]);
        }
        for (to, at) in (half + skipped..KEYS).enumerate() {
            insert(&mut right, to, node[FIRST_KEY + at], to, node[FIRST_VALUE + at]);
        }
        if node[LEAF] == 0 {
            left[FIRST_VALUE + half] = node[FIRST_VALUE + half];
            right[FIRST_VALUE + KEYS - half - 1] = node[FIRST_VALUE + KEYS];
        }
        let meta = change.page(self.pool, 0);
        let new = meta[USED];
        meta[USED] += 1;
        let parent = parent.unwrap_or_else(|| {
            let root = meta[USED];
            meta[USED] += 1;
            meta[ROOT] = root;
            root
        });
        assert!((parent.max(new) as usize) < PAGES, "the pool is full");
        *change.page(self.pool, number as usize) = left;
        *change.page(self.pool, new as usize) = right;
        let branch = change.page(self.pool, parent as usize);
        if branch[COUNT] == 0 {
            branch[FIRST_VALUE] = number;
        }
        let at = keys(branch).partition_point(|key| *key < middle);
        insert(branch, at, middle, at + 1, new);
        parent
    }
}

/// Makes room for a key and a value, or child.
fn insert(node: &mut Node, key_at: usize, key: u64, value_at: usize, value: u64) {
    let count = node[COUNT] as usize;
    let values = count + usize::from(node[LEAF] == 0 && value_at > key_at);
    node.copy_within(FIRST_KEY + key_at..FIRST_KEY + count, FIRST_KEY + key_at + 1);
    node.copy_within(FIRST_VALUE + value_at..FIRST_VALUE + values, FIRST_VALUE + value_at + 1);
    node[FIRST_KEY + key_at] = key;
    node[FIRST_VALUE + value_at] = value;
    node[COUNT] += 1;
}
