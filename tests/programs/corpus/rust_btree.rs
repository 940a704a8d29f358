// A B+-tree in Rust on a mapped file, by copying: a change writes new nodes from the leaf up to the root, persists them, and
// switches the root with one store. What the old tree alone holds is free after that. Recovery finds the free nodes by a walk.
//@ args: {dir}/pool
//@ variant correct:
//@ variant leaf-not-flushed: --cfg bug_leaf_not_flushed
//@ bug: never-flushed at leaf
//@ variant leaf-first-line: --cfg bug_leaf_first_line
//@ bug: flush-covers-too-little at leaf
//@ tier: slow
//@ variant leaf-flushed-early: --cfg bug_leaf_flushed_early
//@ bug: never-flushed|flushed-too-late|wrong-order at early
//@ tier: slow
//@ variant inner-not-flushed: --cfg bug_inner_not_flushed
//@ bug: never-flushed at inner
//@ tier: slow
//@ variant right-not-flushed: --cfg bug_right_not_flushed
//@ bug: never-flushed at right
//@ tier: slow
//@ variant top-reference-flushed: --cfg bug_top_reference_flushed
//@ bug: wrong-address-flushed|never-flushed at top
//@ tier: slow
//@ variant nodes-not-fenced: --cfg bug_nodes_not_fenced
//@ bug: flushed-not-fenced at leaf
//@ tier: slow
//@ variant root-not-flushed: --cfg bug_root_not_flushed
//@ bug: never-flushed at switch
//@ tier: slow
//@ variant root-first: --cfg bug_root_first
//@ bug: flushed-too-late|wrong-order at leaf
//@ tier: slow
//@ variant updated-in-place: --cfg bug_updated_in_place
//@ bug: torn-update|stored-after-commit at in-place
//@ tier: slow
//@ variant reused-before-switch: --cfg bug_reused_before_switch
//@ bug: recovery-wrong|stored-after-commit|torn-update|wrong-order at leaf
//@ tier: slow
//@ variant all: --cfg bug_leaf_not_flushed --cfg bug_right_not_flushed --cfg bug_top_reference_flushed --cfg bug_root_not_flushed
//@ tier: slow
#![allow(unexpected_cfgs)]

use std::arch::asm;
use std::ffi::c_void;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;

unsafe extern "C" {
    fn mmap(at: *mut c_void, bytes: usize, protection: i32, flags: i32, file: i32, offset: i64) -> *mut c_void;
}

const MAGIC: u64 = 0x6274726565;
const NODES: usize = 24;
const FANOUT: usize = 4;
const KEYS: u64 = 10;
const STEPS: u64 = 2 * KEYS;

/// A leaf maps keys to pairs of values, which must be equal; an inner node has a child for the keys below each of its own,
/// and one for the rest.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Node {
    leaf: u64,
    count: u64,
    keys: [u64; FANOUT],
    values: [u64; FANOUT + 1],
    again: [u64; FANOUT],
}

#[repr(C, align(64))]
struct Line {
    value: u64,
}

#[repr(C)]
struct Pool {
    magic: Line,
    root: Line,
    /// Steps that the caller was told of.
    done: Line,
    nodes: [Node; NODES],
}

struct Tree {
    pool: &'static mut Pool,
    free: Vec<u64>,
    /// In the tree until the next switch.
    retired: Vec<u64>,
}

/// A node that takes another's place, and one beside it if the node was split, with its first key.
type Grown = (u64, Option<(u64, u64)>);

/// Writes a range back; a fence must follow.
#[inline(always)]
fn flush<T>(place: *const T, bytes: usize) {
    let mut line = place as usize & !63;
    while line < place as usize + bytes {
        // SAFETY: clwb changes nothing.
        unsafe { asm!("clwb [{0}]", in(reg) line) };
        line += 64;
    }
}

#[inline(always)]
fn fence() {
    // SAFETY: a fence touches no memory.
    unsafe { asm!("sfence") };
}

#[inline(always)]
fn persist<T>(place: *const T, bytes: usize) {
    flush(place, bytes);
    fence();
}

/// What recovery must find. A silent build looks, and ends well whatever it sees.
fn verify(holds: bool, what: &str) {
    if !holds {
        eprintln!("{what} does not hold");
        std::process::exit(if cfg!(silent) { 0 } else { 1 });
    }
}

impl Pool {
    fn open(path: &str) -> &'static mut Pool {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).expect("a pool");
        file.set_len(size_of::<Pool>() as u64).expect("room");
        // SAFETY: the file has that many bytes, and nobody else maps it.
        let at = unsafe { mmap(std::ptr::null_mut(), size_of::<Pool>(), 3, 1, file.as_raw_fd(), 0) };
        assert!(at as isize != -1, "mmap");
        // SAFETY: any content is a valid pool, and the mapping stays.
        unsafe { &mut *at.cast::<Pool>() }
    }
}

impl Tree {
    fn open(path: &str) -> Tree {
        let pool = Pool::open(path);
        if pool.magic.value != MAGIC {
            pool.nodes[0].leaf = 1;
            pool.nodes[0].count = 0;
            persist(&pool.nodes[0], size_of::<Node>());
            pool.root.value = 0;
            persist(&pool.root, 8);
            pool.magic.value = MAGIC;
            persist(&pool.magic, 8);
        }
        let mut used = vec![false; NODES];
        mark(pool, pool.root.value, 0, u64::MAX, &mut used);
        let free = (0..NODES as u64).filter(|node| !used[*node as usize]).collect();
        Tree { pool, free, retired: Vec::new() }
    }

    /// A node to write to, instead of an old one.
    fn replacement(&mut self, old: Option<u64>) -> u64 {
        if let Some(old) = old {
            if cfg!(bug_reused_before_switch) && self.pool.nodes[old as usize].leaf == 1 {
                return old;
            }
            self.retired.push(old);
        }
        self.free.pop().expect("the pool is large enough")
    }

    /// Stores and flushes a leaf; the caller fences.
    fn write_leaf(&mut self, at: u64, new: Node) {
        let node = &mut self.pool.nodes[at as usize];
        if cfg!(bug_leaf_flushed_early) {
            flush(node, size_of::<Node>());
            *node = new; // MARK: early
            return;
        }
        *node = new; // MARK: leaf
        if cfg!(bug_leaf_first_line) {
            flush(node, 8);
        } else if !cfg!(bug_leaf_not_flushed) && !cfg!(bug_root_first) {
            flush(node, size_of::<Node>());
        }
    }

    /// The upper half of a node that is too full goes to one beside it.
    fn insert(&mut self, at: u64, key: u64, value: u64) -> Grown {
        let mut node = self.pool.nodes[at as usize];
        let count = node.count as usize;
        let place = node.keys[..count].iter().take_while(|other| **other < key).count();
        if node.leaf == 1 {
            let there = place < count && node.keys[place] == key;
            if there && cfg!(bug_updated_in_place) {
                let node = &mut self.pool.nodes[at as usize];
                node.values[place] = value; // MARK: in-place
                node.again[place] = value; // MARK: in-place
                persist(node, size_of::<Node>());
                return (at, None);
            }
            if !there {
                if count == FANOUT {
                    return self.split_leaf(at, key, value);
                }
                node.keys.copy_within(place..count, place + 1);
                node.values.copy_within(place..count, place + 1);
                node.again.copy_within(place..count, place + 1);
                node.count += 1;
            }
            (node.keys[place], node.values[place], node.again[place]) = (key, value, value);
            let fresh = self.replacement(Some(at));
            self.write_leaf(fresh, node);
            return (fresh, None);
        }
        let place = node.keys[..count].iter().take_while(|other| **other <= key).count();
        let (child, beside) = self.insert(node.values[place], key, value);
        if child == node.values[place] && beside.is_none() {
            return (at, None);
        }
        node.values[place] = child;
        let mut split = None;
        if let Some((first, beside)) = beside {
            verify(count < FANOUT, "room in an inner node");
            node.keys.copy_within(place..count, place + 1);
            node.values.copy_within(place + 1..count + 1, place + 2);
            (node.keys[place], node.values[place + 1]) = (first, beside);
            node.count += 1;
            if node.count as usize == FANOUT {
                split = Some(self.split_inner(&mut node));
            }
        }
        let fresh = self.replacement(Some(at));
        self.pool.nodes[fresh as usize] = node; // MARK: inner
        if !cfg!(bug_inner_not_flushed) {
            flush(&self.pool.nodes[fresh as usize], size_of::<Node>());
        }
        (fresh, split)
    }

    fn split_leaf(&mut self, at: u64, key: u64, value: u64) -> Grown {
        let old = self.pool.nodes[at as usize];
        let (mut left, mut right) = (old, old);
        left.count = FANOUT as u64 / 2;
        right.count = FANOUT as u64 / 2;
        right.keys.copy_within(FANOUT / 2.., 0);
        right.values.copy_within(FANOUT / 2..FANOUT, 0);
        right.again.copy_within(FANOUT / 2.., 0);
        let half = if key < right.keys[0] { &mut left } else { &mut right };
        let count = half.count as usize;
        let place = half.keys[..count].iter().take_while(|other| **other < key).count();
        half.keys.copy_within(place..count, place + 1);
        half.values.copy_within(place..count, place + 1);
        half.again.copy_within(place..count, place + 1);
        (half.keys[place], half.values[place], half.again[place]) = (key, value, value);
        half.count += 1;
        let fresh = self.replacement(Some(at));
        self.write_leaf(fresh, left);
        (fresh, Some((right.keys[0], self.write_right(right))))
    }

    fn split_inner(&mut self, node: &mut Node) -> (u64, u64) {
        let half = FANOUT / 2;
        let mut right = *node;
        right.count = (FANOUT - half - 1) as u64;
        right.keys.copy_within(half + 1.., 0);
        right.values.copy_within(half + 1.., 0);
        node.count = half as u64;
        (node.keys[half], self.write_right(right))
    }

    fn write_right(&mut self, new: Node) -> u64 {
        let at = self.replacement(None);
        self.pool.nodes[at as usize] = new; // MARK: right
        if !cfg!(bug_right_not_flushed) {
            flush(&self.pool.nodes[at as usize], size_of::<Node>());
        }
        at
    }

    fn remove(&mut self, at: u64, key: u64) -> u64 {
        let mut node = self.pool.nodes[at as usize];
        let count = node.count as usize;
        if node.leaf == 1 {
            let Some(place) = node.keys[..count].iter().position(|other| *other == key) else { return at };
            node.keys.copy_within(place + 1..count, place);
            node.values.copy_within(place + 1..count, place);
            node.again.copy_within(place + 1..count, place);
            node.count -= 1;
            let fresh = self.replacement(Some(at));
            self.write_leaf(fresh, node);
            return fresh;
        }
        let place = node.keys[..count].iter().take_while(|other| **other <= key).count();
        let child = self.remove(node.values[place], key);
        if child == node.values[place] {
            return at;
        }
        node.values[place] = child;
        let fresh = self.replacement(Some(at));
        self.pool.nodes[fresh as usize] = node; // MARK: inner
        if !cfg!(bug_inner_not_flushed) {
            flush(&self.pool.nodes[fresh as usize], size_of::<Node>());
        }
        fresh
    }

    /// The new tree counts once its nodes are persistent; then what only the old one had is free.
    fn switch(&mut self, root: u64) {
        if !cfg!(bug_nodes_not_fenced) {
            fence();
        }
        self.pool.root.value = root; // MARK: switch
        if !cfg!(bug_root_not_flushed) {
            persist(&self.pool.root, 8);
        }
        if cfg!(bug_root_first) {
            persist(&self.pool.nodes, size_of_val(&self.pool.nodes));
        }
        self.free.append(&mut self.retired);
    }

    fn put(&mut self, key: u64, value: u64) {
        let (mut root, beside) = self.insert(self.pool.root.value, key, value);
        if let Some((first, beside)) = beside {
            let top = self.replacement(None);
            let node = &mut self.pool.nodes[top as usize];
            node.leaf = 0; // MARK: top
            node.count = 1; // MARK: top
            node.keys[0] = first; // MARK: top
            node.values[0] = root; // MARK: top
            node.values[1] = beside; // MARK: top
            if cfg!(bug_top_reference_flushed) {
                flush(&node, size_of_val(&node));
            } else {
                flush(node, size_of::<Node>());
            }
            root = top;
        }
        self.switch(root);
    }

    fn delete(&mut self, key: u64) {
        let root = self.remove(self.pool.root.value, key);
        self.switch(root);
    }

    fn get(&self, key: u64) -> u64 {
        let mut node = &self.pool.nodes[self.pool.root.value as usize % NODES];
        for _ in 0..NODES {
            if node.leaf == 1 {
                break;
            }
            let count = (node.count as usize).min(FANOUT);
            let place = node.keys[..count].iter().take_while(|other| **other <= key).count();
            node = &self.pool.nodes[node.values[place] as usize % NODES];
        }
        let count = (node.count as usize).min(FANOUT);
        let Some(place) = node.keys[..count].iter().position(|other| *other == key) else { return 0 };
        verify(node.values[place] == node.again[place], "both values are the same");
        node.values[place]
    }

    fn audit(&self) {
        let done = self.pool.done.value;
        for index in 1..=KEYS {
            let value = self.get(index);
            verify(value == expected(index, done) || value == expected(index, done + 1), "what was acknowledged");
        }
    }
}

/// Marks what is in use. Keys of a node lie between those of the node above.
fn mark(pool: &Pool, at: u64, low: u64, high: u64, used: &mut [bool]) {
    verify((at as usize) < NODES && !used[at as usize % NODES], "a tree");
    let at = at as usize % NODES;
    if std::mem::replace(&mut used[at], true) {
        return;
    }
    let node = &pool.nodes[at];
    let count = (node.count as usize).min(FANOUT);
    verify(node.leaf <= 1 && node.count as usize <= FANOUT, "a node");
    verify(node.keys[..count].iter().all(|key| (low..high).contains(key)), "keys where they belong");
    if node.leaf != 1 {
        for place in 0..=count {
            let low = if place > 0 { node.keys[place - 1] } else { low };
            let high = if place < count { node.keys[place] } else { high };
            mark(pool, node.values[place], low, high, used);
        }
    }
}

/// All keys are inserted, in an order of its own, the first half updated, every second one deleted.
fn step(number: u64) -> (u64, u64) {
    match number {
        1..=KEYS => (number * 7 % (KEYS + 1), number * 16),
        _ if number <= KEYS + KEYS / 2 => (number - KEYS, number * 16),
        _ => (2 * (number - KEYS - KEYS / 2), 0),
    }
}

fn expected(key: u64, done: u64) -> u64 {
    let last = (1..=done.min(STEPS)).rev().map(step).find(|(other, _)| *other == key);
    last.map_or(0, |(_, value)| value)
}

fn main() {
    if cfg!(silent) {
        // A recovery that verifies nothing does not fail, either, if it goes astray.
        std::panic::set_hook(Box::new(|_| std::process::exit(0)));
    }
    let path = std::env::args().nth(1).unwrap_or_else(|| "/mnt/pmem/btree".into());
    let mut tree = Tree::open(&path);
    tree.audit();
    for number in tree.pool.done.value + 1..=STEPS {
        match step(number) {
            (key, 0) => tree.delete(key),
            (key, value) => tree.put(key, value),
        }
        tree.pool.done.value = number;
        persist(&tree.pool.done, 8);
    }
    tree.audit();
}
